//! Tests of whole configurations, and of each message.

use super::*;
use crate::proxy::{CircuitLimits, IsolationFlags, NodeSet, PathRules, SocksPort};
use penstock_core::circuit_policy::CircuitPolicyConfig;
use penstock_core::conflux::DesiredUx;
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::throttle::ThrottleConfig;
use penstock_units::{Bytes, DataRate};
use std::fs;

/// A folder that is deleted at the end of the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("penstock-live-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The options that every relay needs.
const LEAST: &str =
    "DataDirectory /d\nORPort 9001\nDirAuthority a 127.0.0.1:7000 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A\n";

fn load(text: &str, command_line: &[(&str, &str)]) -> Result<Options, TorrcError> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = Scratch::new(&format!("torrc-{number}"));
    let path = folder.0.join("torrc");
    fs::write(&path, text).unwrap();
    let said: Vec<_> = command_line.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let rename = |message: &str| message.replace(&format!("{}/", folder.0.display()), "");
    Options::load(Some(&path), &said)
        .map(|mut options| {
            options.warnings.iter_mut().for_each(|warning| *warning = rename(warning));
            options
        })
        .map_err(|error| TorrcError { place: rename(&error.place), ..error })
}

fn with(more: &str) -> Options {
    load(&format!("{LEAST}{more}"), &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_minimal_torrc_gives_a_relay_without_exit_streams() {
    let options = with("");
    assert_eq!(options.listen, "0.0.0.0:9001".parse().ok());
    assert_eq!((&options.nickname[..], options.advertised_port), ("Unnamed", 9001));
    assert_eq!((options.data_directory, options.key_directory), ("/d".into(), "/d/keys".into()));
    assert!(
        matches!(options.relay.scheduler, SchedulerConfig::KistDeployed(kist) if kist.interval.as_millis() == 2)
    );
    assert!(options.exit_rules.is_empty() && options.private == Private::Rejected);
    assert!(options.relay.bandwidth.is_none() && options.metrics.is_none() && options.record.is_none());
    assert_eq!((options.shutdown_wait.as_secs(), options.warnings.len()), (30, 0));
    assert_eq!(
        options.logs,
        [LogTo { severest: log::Level::Error, least: log::Level::Info, sink: Sink::Stdout }]
    );
}

#[test]
fn the_consensus_does_not_change_settings_of_the_torrc() {
    let overrides = |text: &str| with(text).overrides;
    assert_eq!(
        overrides("Schedulers KIST\nKISTSchedRunInterval 0\n"),
        OperatorOverrides::default(),
        "C tor's words for what it has anyway"
    );
    let interval = OperatorOverrides { run_interval: true, ..OperatorOverrides::default() };
    assert_eq!(overrides("KISTSchedRunInterval 5 msec\n"), interval);
    assert_eq!(overrides("Penstock scheduler = \"kist\"\n"), interval);
    assert_eq!(
        overrides("CircuitPriorityHalflife 5\n"),
        OperatorOverrides { half_life: true, ..OperatorOverrides::default() }
    );
    assert_eq!(
        overrides("PerConnBWRate 100 KB\n"),
        OperatorOverrides { throttle: true, ..OperatorOverrides::default() }
    );
    let windows = "Penstock edge_control = { kind = 'windows', circuit_window = 500 }\n";
    assert_eq!(overrides(windows), OperatorOverrides { edge_control: true, ..OperatorOverrides::default() });
    let all = OperatorOverrides {
        half_life: true,
        run_interval: true,
        edge_control: true,
        throttle: true,
        conflux: true,
    };
    assert_eq!(overrides("Penstock preset = 'tor-0.2.3'\n"), all, "another Tor than today's");
}

#[test]
fn options_set_their_values() {
    let options = with(
        "nickname Gate\nAddress 192.0.2.1\nContactInfo \"me <me@example.org>\"\nKeyDirectory /k\nPidFile /p\n\
         OutboundBindAddress 192.0.2.2\nOutboundBindAddress [2001:db8::1]\nOutboundBindAddressExit 192.0.2.3\n\
         MyFamily $bcb38a1c4d5f0b1b2f1bb9b59d5d0d7e5b1c3f2a, BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2B\n\
         RelayBandwidthRate 1 MB\nBandwidthRate 2 MB\nBandwidthBurst 4 MB\nMaxAdvertisedBandwidth 500 KB\nPerConnBWRate 100 KB\n\
         CircuitPriorityHalflife 5.5\nSchedulers KISTLite,Vanilla\nKISTSchedRunInterval 5 msec\nTokenBucketRefillInterval 50\n\
         ShutdownWaitLength 0\nNumCPUs 2\nDirCache 0\nAssumeReachable 1\nPublishServerDescriptor 0\nHeartbeatPeriod 1 hour\n\
         ServerDNSResolvConfFile /r\nMetricsPort 9035 prometheus\nLog notice-warn file /l\nLog debug stderr\n\
         SocksPort 0\nRunAsDaemon 0\nSafeLogging 1\nMaxMemInQueues 512 MB\nPenstock record = '/x'\nPenstock record_interval = \"5 s\"\nPenstock record_cells = 9\n",
    );
    assert_eq!((&options.nickname[..], options.address), ("Gate", Some([192, 0, 2, 1].into())));
    assert_eq!(
        (options.contact.as_deref(), options.key_directory),
        (Some("me <me@example.org>"), "/k".into())
    );
    assert_eq!(options.family.len(), 2);
    assert_eq!(options.family[0], "$BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A");
    assert_eq!(options.outbound.relays[0], Some([192, 0, 2, 2].into()));
    assert_eq!(options.outbound.streams, [Some([192, 0, 2, 3].into()), Some("2001:db8::1".parse().unwrap())]);
    let bandwidth = options.relay.bandwidth.unwrap();
    assert_eq!((bandwidth.rate, bandwidth.burst), (DataRate::new(1 << 20).unwrap(), Bytes::mib(1)));
    assert_eq!(options.advertised_bandwidth, [500 << 10, 1 << 20]);
    let ThrottleConfig::Static(throttle) = options.relay.throttle else {
        panic!("{:?}", options.relay.throttle)
    };
    assert_eq!(throttle.rate.bytes_per_sec(), 100 << 10);
    let CircuitPolicyConfig::EwmaTick(ewma) = options.relay.circuit_policy else { panic!() };
    assert_eq!(ewma.half_life.as_millis(), 5500);
    assert!(
        matches!(options.relay.scheduler, SchedulerConfig::KistLite(lite) if lite.interval.as_millis() == 5)
    );
    assert_eq!(options.relay.refill.unblock, Some(Duration::from_millis(50)));
    assert_eq!((options.shutdown_wait, options.num_cpus), (Duration::ZERO, Some(2)));
    assert_eq!(options.relay.limits.memory, Some(Bytes::mib(512)));
    assert!(!options.dir_cache && options.assume_reachable && !options.publish);
    assert_eq!(options.metrics.unwrap().listen, "127.0.0.1:9035".parse().unwrap());
    assert_eq!(options.logs[0].severest, log::Level::Warn);
    assert_eq!((options.logs[1].least, &options.logs[1].sink), (log::Level::Trace, &Sink::Stderr));
    assert_eq!(
        options.record,
        Some(Record {
            folder: "/x".into(),
            interval: Duration::from_secs(5),
            cells: NonZeroU32::new(9),
            circuits: None
        })
    );
    assert_eq!(options.warnings, [""; 0]);
}

#[test]
fn every_scheduler_policy_and_throttle_of_a_scenario_is_supported() {
    for (kind, choices) in [
        ("scheduler", &["vanilla", "global", "kist", "kist-deployed", "kist-lite"][..]),
        ("circuit_policy", &["round-robin", "ewma"]),
        ("channel_map", &["shared", "per-circuit"]),
        ("edge_control", &["windows", "dynamic-windows", "vegas", "timely"]),
        ("hop_control", &["none", "n23"]),
        ("throttle", &["none", "bit-splitting", "flagging", "threshold"]),
    ] {
        for choice in choices {
            with(&format!("BandwidthRate 1 MB\nPenstock {kind} = {{ kind = '{choice}' }}\n"));
        }
    }
    with("Penstock scheduler = { kind = 'kist', global_limit = 'measured' }\n");
    for choice in ["none", "backtap", "marut"] {
        with(&format!("Penstock transport = 'datagram'\nPenstock hop_control = {{ kind = '{choice}' }}\n"));
    }
}

#[test]
fn the_listening_port_and_the_advertised_port_may_differ() {
    let options =
        load(&LEAST.replace("9001", "443 NoListen\nORPort 127.0.0.1:9090 NoAdvertise"), &[]).unwrap();
    assert_eq!((options.listen, options.advertised_port), ("127.0.0.1:9090".parse().ok(), 443));
    let options = load(&LEAST.replace("9001", "9001 IPv4Only\nORPort [::]:9001"), &[]).unwrap();
    assert_eq!(options.listen, "0.0.0.0:9001".parse().ok());
    assert_eq!(
        options.warnings,
        ["torrc:3: ORPort: only the first ORPort is used; this one has no effect here"]
    );
}

#[test]
fn the_exit_policy_follows_the_options() {
    let options = with("ExitPolicy accept *:80,reject 192.0.2.0/24:*\nExitPolicy accept *:443\n");
    let policy = options.policy(vec!["198.51.100.7".parse().unwrap()], &[]);
    let allows = |address: &str, port| policy.allows(address.parse().unwrap(), port);
    assert!(allows("192.0.2.1", 80) && !allows("192.0.2.1", 443) && allows("198.51.100.1", 443));
    assert!(!allows("198.51.100.1", 22) && !allows("198.51.100.7", 80) && !allows("127.0.0.1", 80));
    assert!(!allows("2001:db8::1", 80), "IPv6Exit is 0");
    assert!(options.warnings[0].contains("C tor would apply its default policy"), "{:?}", options.warnings);

    let options = with("IPv6Exit 1\nExitPolicy accept *:*\nExitPolicyRejectLocalInterfaces 1");
    let policy = options.policy(Vec::new(), &["198.51.100.9".parse().unwrap()]);
    assert!(policy.allows("2001:db8::1".parse().unwrap(), 80) && options.warnings.is_empty());
    assert!(!policy.allows("198.51.100.9".parse().unwrap(), 80));

    assert!(with("ExitRelay 0\nExitPolicy accept *:*\n").exit_rules.is_empty());
    assert!(with("ExitRelay 1").warnings[0].contains("no exit stream is allowed without an ExitPolicy"));
    let testing = with("TestingTorNetwork 1\nExitPolicy accept *:*");
    assert!(testing.policy(Vec::new(), &[]).allows([127, 0, 0, 1].into(), 80) && testing.assume_reachable);
}

#[test]
fn the_command_line_overrides_the_file() {
    let said =
        [("ORPort", "9002"), ("+MyFamily", "BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2B"), ("/Nickname", "")];
    let more = "Nickname gate\nMyFamily BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A\n";
    let options = load(&format!("{LEAST}{more}"), &said).unwrap();
    assert_eq!(
        (options.listen.unwrap().port(), options.family.len(), &options.nickname[..]),
        (9002, 2, "Unnamed")
    );
    let server = "b 127.0.0.1:7001 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A";
    let options = load(LEAST, &[("DirServer", server)]).unwrap();
    assert_eq!(options.authorities.iter().map(|it| it.dir.port()).collect::<Vec<_>>(), [7001]);
    let error = load(LEAST, &[("ORPort", "x")]).unwrap_err().to_string();
    assert!(error.starts_with("command line: ORPort: \"x\" must be"), "{error}");
}

#[test]
fn options_without_effect_cause_warnings_with_their_line() {
    let options = with(
        "ControlPort 9051\nHiddenServiceNonAnonymousMode 0\nDynamicDHGroups 1\nNickname a\nNickname b\n\
         Log notice syslog\nBandwidthBurst 1 MB\nSchedulers Vanilla\nKISTSchedRunInterval 2\nKISTSockBufSizeFactor 2\n",
    );
    let expected = [
        "torrc:4: ControlPort: this option of C tor has no effect here",
        "torrc:5: HiddenServiceNonAnonymousMode: this option of C tor has no effect here",
        "torrc:6: DynamicDHGroups: this option is obsolete and has no effect",
        "torrc:7: Nickname: a later line sets it again, so this line has no effect",
        "torrc:9: Log: syslog is not supported; write stderr, which service managers record",
        "torrc:10: BandwidthBurst: there is no BandwidthRate, so this has no effect here",
        "torrc:12: KISTSchedRunInterval: the scheduler is Vanilla, so this has no effect",
        "torrc:13: KISTSockBufSizeFactor: the scheduler is not C tor's KIST, so this has no effect",
    ];
    let mut warnings = options.warnings;
    warnings.sort_by_key(|warning| warning.split(':').nth(1).and_then(|line| line.parse::<u32>().ok()));
    assert_eq!(warnings, expected);
    assert_eq!(options.nickname, "b");
}

#[test]
fn hop_control_over_datagrams_warns_of_schedulers_with_rounds() {
    let datagrams = |more: &str| {
        let lines =
            format!("Penstock transport = 'datagram'\nPenstock hop_control = {{ kind = 'backtap' }}\n{more}");
        with(&lines).warnings
    };
    let warnings = datagrams("");
    assert!(warnings[0].starts_with("torrc:5: Penstock: links without datagrams slow"), "{warnings:?}");
    assert_eq!(warnings.len(), 1);
    assert_eq!(datagrams("Schedulers Vanilla\n"), [""; 0]);
}

#[test]
fn every_error_has_its_place_and_the_correct_form() {
    for (more, error) in [
        ("NoSuchOption 1", "NoSuchOption: this option exists neither here nor in C tor"),
        ("Nickname a_b", "Nickname: \"a_b\" must be 1 to 19 letters and digits"),
        ("Address 192.0.2.300.", "Address: \"192.0.2.300.\""),
        ("ORPort 70000", "ORPort: \"70000\" must be a port, auto, or an address, a colon and a port"),
        ("ORPort 1 Fast", "ORPort: \"Fast\" is no supported flag"),
        ("ORPort 1 NoListen NoAdvertise", "ORPort: NoListen and NoAdvertise disable the port"),
        ("OutboundBindAddress eth0", "OutboundBindAddress: \"eth0\" must be an IP address"),
        ("ContactInfo \"a\\nb\"", "ContactInfo: it must be one line of printable characters"),
        ("DataDirectory", "DataDirectory: a path must follow"),
        ("ExitPolicy allow *:*", "ExitPolicy: \"allow *:*\" is no exit rule"),
        ("ExitRelay yes", "ExitRelay: \"yes\" must be 0, 1 or auto"),
        ("ExitPolicyRejectPrivate 2", "ExitPolicyRejectPrivate: \"2\" must be 0 or 1"),
        (
            "BandwidthRate 10 KBytes",
            "BandwidthRate: 10240 bytes per second are too few; a relay needs at least 75 KBytes",
        ),
        (
            "BandwidthRate 3 GBytes",
            "BandwidthRate: \"3 GBytes\" is too much; it must be at most 2147483647 bytes",
        ),
        (
            "BandwidthRate 1 MiB",
            "BandwidthRate: \"1 MiB\" must be a number and a unit, such as \"20 MBytes\"",
        ),
        ("BandwidthRate 1 MB\nBandwidthBurst 1 KB", "BandwidthBurst: 1024 bytes are less than the rate"),
        ("PerConnBWRate 1 MB\nPerConnBWBurst 1 KB", "PerConnBWBurst: 1024 bytes are less than one refill"),
        (
            "TokenBucketRefillInterval 0",
            "TokenBucketRefillInterval: \"0\" is out of range; it must be 1 to 1000 msec",
        ),
        (
            "CircuitPriorityHalflife 0",
            "CircuitPriorityHalflife: \"0\" must be -1, or 1 to 2147483647 seconds",
        ),
        ("Schedulers Fifo", "Schedulers: \"Fifo\" is no scheduler of C tor; write KIST, KISTLite or Vanilla"),
        ("Schedulers ,", "Schedulers: write KIST, KISTLite or Vanilla"),
        (
            "KISTSchedRunInterval 101",
            "KISTSchedRunInterval: \"101\" is out of range; it must be 0 to 100 msec",
        ),
        ("KISTSockBufSizeFactor -1", "KISTSockBufSizeFactor: \"-1\" must be a number that is not negative"),
        ("DirAuthority x", "DirAuthority: an IPv4 address, a colon and a port must follow the flags"),
        ("MyFamily gate", "MyFamily: \"gate\" must be 40 hexadecimal digits"),
        ("PublishServerDescriptor bridge", "PublishServerDescriptor: bridges are not supported"),
        ("Log loud stdout", "Log: \"loud\" is no severity; write debug, info, notice, warn or err"),
        ("Log err-notice stdout", "Log: \"err-notice\" is in the wrong order"),
        ("Log [or]notice stdout", "Log: log domains are not supported"),
        (
            "Log notice printer",
            "Log: \"printer\" is no destination of a log; write stdout, stderr or file NAME",
        ),
        ("SafeLogging 2", "SafeLogging: \"2\" must be 0, 1 or relay"),
        ("RunAsDaemon 1", "RunAsDaemon: 1 is not supported: let the service manager run the relay"),
        ("BridgeRelay 1", "BridgeRelay: 1 is not supported: this relay would be public"),
        ("OfflineMasterKey 1", "OfflineMasterKey: 1 is not supported"),
        ("AccountingMax 40 GBytes", "AccountingMax: limits of a period are not supported"),
        ("User no-such-user", "User: \"no-such-user\" is no user of this machine"),
        ("SocksPort 9050 IsolateAll", "SocksPort: \"IsolateAll\" is no supported flag"),
        ("SocksPort 9050\nEntryNodes {de}", "EntryNodes: \"{de}\" must be a fingerprint or a nickname"),
        ("SocksPort 9050\nMaxCircuitDirtiness 1", "MaxCircuitDirtiness: \"1\" must be 10 seconds to 30 days"),
        ("ShutdownWaitLength 5 msec", "ShutdownWaitLength: \"5 msec\" must be a number and a unit"),
        (
            "HeartbeatPeriod 5 minutes",
            "HeartbeatPeriod: \"5 minutes\" is too short; it must be 0 or at least 30 minutes",
        ),
        ("NumCPUs two", "NumCPUs: \"two\" must be a whole number"),
        ("MetricsPort 9035 json", "MetricsPort: \"json\" is no format; write prometheus"),
        (
            "Penstock scheduler = 'fifo'",
            "Penstock: scheduler.kind: \"fifo\" is unknown; the kind must be one of vanilla",
        ),
        (
            "Penstock windows = 3",
            "Penstock: windows: this key is unknown; a relay takes preset, bandwidth_rate",
        ),
        ("Penstock scheduler", "Penstock: this is not TOML"),
        ("Penstock hop_control = 'backtap'", "Penstock: hop_control"),
        ("Penstock hop_control = { kind = 'n23', n2 = 0 }", "Penstock: hop_control.n2"),
        (
            "Penstock ecn_threshold = 20",
            "Penstock: ecn_threshold: cells of the real network cannot be marked",
        ),
        ("Penstock edge_control = 'dctcp'", "Penstock: edge_control: \"dctcp\" needs marks"),
        ("ConfluxEnabled yes", "ConfluxEnabled: \"yes\" must be 0, 1 or auto"),
        ("ConfluxClientUX fast", "ConfluxClientUX: \"fast\" must be throughput, latency, throughput_lowmem"),
        (
            "Schedulers KIST\nPenstock scheduler = 'global'",
            "Penstock: scheduler: this key is set by another line already",
        ),
        ("Penstock record = 3", "Penstock: record: it must be a string in quotes"),
        ("Penstock record_interval = '1 ms'", "Penstock: record_interval: \"1 ms\" is too short"),
        ("Penstock record_cells = 0", "Penstock: record_cells: \"0\" must be a whole number above zero"),
        ("Penstock acknowledge = 'yes'", "Penstock: acknowledge: \"yes\" is not the acknowledgement"),
    ] {
        let said = load(&format!("{LEAST}{more}\n"), &[]).unwrap_err().to_string();
        let line = 3 + more.matches('\n').count() + 1;
        assert!(said.starts_with(&format!("torrc:{line}: {error}")), "{more}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
    let missing = load(&LEAST.replace("9001", "0"), &[]).unwrap_err().to_string();
    assert!(missing.contains("ORPort: a relay needs a listening port"), "{missing}");
    let hidden = load(&LEAST.replace("9001", "9001 NoAdvertise"), &[]).unwrap_err().to_string();
    assert!(hidden.contains("ORPort: no ORPort is advertised"), "{hidden}");
    let file = Options::load(Some(Path::new("/nowhere/torrc")), &[]).unwrap_err().to_string();
    assert!(file.starts_with("/nowhere/torrc: "), "{file}");
}

/// The torrc, whether the node links circuits, and whether the consensus decides it.
#[test]
fn conflux_follows_the_torrc_or_the_consensus() {
    for (more, links, by_consensus) in [
        ("", true, true),
        ("ConfluxEnabled auto", true, true),
        ("ConfluxEnabled 1", true, false),
        ("ConfluxEnabled 0", false, false),
        ("Penstock conflux = false", false, false),
        ("Penstock conflux = true", true, false),
        ("Penstock preset = 'tor-0.4.9'", true, true),
        ("Penstock preset = 'tor-0.4.9-noconflux'", false, false),
        ("Penstock preset = 'tor-0.4.9'\nConfluxEnabled 0", false, false),
        ("Penstock preset = 'tor-0.4.9-noconflux'\nConfluxEnabled auto", true, true),
        ("Penstock edge_control = 'windows'", false, true),
    ] {
        let options = with(more);
        assert_eq!(
            (options.relay.conflux.is_some(), !options.overrides.conflux),
            (links, by_consensus),
            "{more}"
        );
    }
    let without = with("Penstock edge_control = 'windows'\nConfluxEnabled 1");
    assert!(without.relay.conflux.is_none());
    assert!(without.warnings[0].contains("ConfluxEnabled: linked circuits need congestion control"));
    let ux = |more: &str| with(more).relay.conflux.unwrap().client_ux;
    assert_eq!(ux(""), DesiredUx::HighThroughput);
    assert_eq!(ux("ConfluxClientUX latency_lowmem"), DesiredUx::LowMemLatency);
}

#[test]
fn the_public_network_needs_an_acknowledgement() {
    let own = LEAST.lines().last().unwrap();
    let public = "DirAuthority moria1 128.31.0.39:9231 1A25C6358DB91342AA51720A5038B72742732498";
    let known = "DirAuthority x v3ident=F533C81CEF0BC0267857C99B2F471ADF249FA232 192.0.2.1:80 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A";
    for (lines, joins) in [("", 9), (public, 1), (known, 1)] {
        let torrc = LEAST.replace(own, lines);
        let error = load(&torrc, &[]).unwrap_err().to_string();
        assert!(
            error.contains("research software that does not join the public Tor network by default"),
            "{error}"
        );
        assert!(error.ends_with("write Penstock acknowledge = \"this is research software\""), "{error}");
        let options =
            load(&format!("{torrc}Penstock acknowledge = \"this is research software\"\n"), &[]).unwrap();
        assert_eq!(options.authorities.len(), joins);
    }
    assert_eq!(with("").authorities.len(), 1);
}

/// The options of a real relay: those of Debian's `/etc/tor/torrc` without its comments, and those of its service.
#[test]
fn a_typical_torrc_of_an_operator_is_accepted() {
    let torrc = "\
## Our relay
#SOCKSPort 9050 # not here
SOCKSPort 0
Log notice file /var/log/tor/notices.log
#RunAsDaemon 1
DataDirectory /var/lib/tor
ControlPort 9051
CookieAuthentication 1
ORPort 443 NoListen
ORPort 127.0.0.1:9090 NoAdvertise
Address 192.0.2.1 # fixed
Nickname gate7
RelayBandwidthRate 100 KBytes  # our line is slow
RelayBandwidthBurst 200 KBytes# for a moment
#AccountingMax 40 GBytes
AccountingStart month 3 15:00
ContactInfo Alice <alice AT example dot org>
DirPort 80 NoListen
DirPortFrontPage /etc/tor/tor-exit-notice.html
MyFamily $BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A,$BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2B
ExitPolicy reject *:*
BridgeRelay 0
Penstock acknowledge = \"this is research software\"
";
    let options = load(torrc, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((options.listen, options.advertised_port), ("127.0.0.1:9090".parse().ok(), 443));
    assert_eq!(options.relay.bandwidth.unwrap().burst, Bytes::kib(200));
    assert_eq!(options.contact.as_deref(), Some("Alice <alice AT example dot org>"));
    let without: Vec<_> = options.warnings.iter().filter_map(|it| it.split(": ").nth(1)).collect();
    let names = ["ControlPort", "CookieAuthentication", "AccountingStart", "DirPort", "DirPortFrontPage"];
    assert_eq!(without, names);

    let service = "PidFile /run/tor/tor.pid\nRunAsDaemon 1\nUser debian-tor\nControlSocket /run/tor/control GroupWritable\n";
    let error = load(&format!("{torrc}{service}"), &[]).unwrap_err().to_string();
    assert!(error.contains("RunAsDaemon: 1 is not supported"), "{error}");
}

#[test]
fn a_torrc_with_a_socks_port_alone_is_a_client() {
    let text = LEAST.replace("ORPort 9001\n", "SocksPort 9050\n");
    let options = load(&text, &[]).unwrap();
    assert_eq!((options.listen, options.warnings.len()), (None, 0));
    let proxy = options.proxy.unwrap();
    let port = SocksPort { listen: "127.0.0.1:9050".parse().unwrap(), isolation: IsolationFlags::default() };
    assert_eq!(proxy, ProxyConfig { state_file: Some("/d/state".into()), ..ProxyConfig::new(vec![port]) });
    assert!(with("").proxy.is_none() && with("SocksPort 0\n").proxy.is_none());
    assert!(with("SocksPort 9050\n").listen.is_some(), "a relay can also be a client");
}

#[test]
fn the_options_of_the_onion_proxy_have_effects() {
    let options = with(
        "TestingTorNetwork 1\nSocksPort 127.0.0.2:9050 NoIsolateSOCKSAuth IsolateDestPort\nSocksPort 9051\n\
         EntryNodes a, b\nEntryNodes c\nMiddleNodes d\nExitNodes e\nExcludeNodes f\nExcludeExitNodes g\nStrictNodes 1\n\
         MaxCircuitDirtiness 2 minutes\nCircuitsAvailableTimeout 1 hour\nMaxClientCircuitsPending 5\n\
         SocksTimeout 60\nCircuitBuildTimeout 20\nLearnCircuitBuildTimeout 0\n",
    );
    assert_eq!(options.warnings.len(), 0, "{:?}", options.warnings);
    let proxy = options.proxy.unwrap();
    assert_eq!(proxy.ports.len(), 2);
    let flags = IsolationFlags { credentials: false, port: true, ..IsolationFlags::default() };
    assert_eq!(proxy.ports[0], SocksPort { listen: "127.0.0.2:9050".parse().unwrap(), isolation: flags });
    let set = |text: &str| NodeSet::read(text).unwrap();
    let rules = PathRules {
        entry: set("a,b,c"),
        middle: set("d"),
        exit: set("e"),
        exclude: set("f"),
        exclude_exit: set("g"),
        distinct_subnets: false,
    };
    assert_eq!((proxy.rules, proxy.internal_addresses), (rules, true));
    let seconds = penstock_units::Duration::from_secs;
    let limits = CircuitLimits { max_dirtiness: seconds(120), available: seconds(3600), max_pending: 5 };
    assert_eq!((proxy.limits, proxy.socks_timeout), (limits, seconds(60)));
    assert_eq!(proxy.build_timeout, Some(seconds(20)));
    let open = with("SocksPort 192.0.2.1:9050\n");
    assert!(open.warnings[0].contains("open to other machines"), "{:?}", open.warnings);
}
