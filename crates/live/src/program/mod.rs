//! The program `penstock-relay`, from start to end.
//!
//! Modules: `args` (the command line), `logs`, `files` (the data folder), `join` (the network), `signals`, `metrics`
//! (for Prometheus), `record` (the same tables as the simulator's), `reload` (SIGHUP), `notify` (systemd), and `sandbox`
//! (the rights of the process).

mod args;
mod files;
mod join;
mod logs;
mod metrics;
mod notify;
mod record;
mod reload;
mod sandbox;
mod signals;

use crate::Error;
use crate::clock::Clock;
use crate::keys;
use crate::names::NameServers;
use crate::node::{self, Node, NodeConfig};
use crate::torrc::Options;
use args::{Args, Ask};
use files::{DataDirectory, PidFile};
use nix::ifaddrs::getifaddrs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use notify::Notify;
use penstock_link::descriptor::is_private;
use penstock_link::keys::Keys;
use penstock_units::{Duration, Instant};
use record::Recorder;
use signals::Signals;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::ExitCode;
use std::time::SystemTime;

const SAMPLE: Duration = Duration::from_secs(1);
/// How often the relay saves its observed bandwidth.
const SAVE: Duration = Duration::from_secs(3600);

/// Runs a relay with these arguments until a signal ends it. For an error that the operator can correct, prints one
/// sentence and returns exit status 2.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Args::parse(words).and_then(|args| obey(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("penstock-relay: {error}");
            ExitCode::from(error.status())
        }
    }
}

/// The version, with the commit if the build had it in the environment variable `PENSTOCK_COMMIT`.
fn version() -> String {
    let commit = option_env!("PENSTOCK_COMMIT").map(|commit| format!("+g{commit:.7}"));
    format!("{}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
}

fn obey(args: &Args) -> Result<(), Error> {
    match args.ask {
        Ask::Help => {
            print!("{}", args::HELP);
            return Ok(());
        }
        Ask::Version => {
            println!("penstock-relay {}", version());
            return Ok(());
        }
        Ask::Run | Ask::VerifyConfig | Ask::ListFingerprint { .. } => {}
    }
    let options = load(args)?;
    match args.ask {
        Ask::VerifyConfig => {
            options.warnings.iter().for_each(|warning| eprintln!("{warning}"));
            println!("the configuration is valid");
            Ok(())
        }
        Ask::ListFingerprint { .. } if options.listen.is_none() => {
            Err(Error::operator("a client has no fingerprint; only a relay with an ORPort has one"))
        }
        Ask::ListFingerprint { ed25519 } => {
            let (_folder, keys) = open(&options)?;
            let name = &options.nickname;
            if ed25519 {
                println!("{name} {}", files::ed25519(&keys));
            } else {
                let digits = keys.fingerprint();
                let groups: Vec<_> = (0..digits.len()).step_by(4).map(|at| &digits[at..at + 4]).collect();
                println!("{name} {}", groups.join(" "));
            }
            Ok(())
        }
        _ => Program::start(args.clone(), options)?.run(),
    }
}

fn load(args: &Args) -> Result<Options, Error> {
    if args.torrc.is_none() && args.options.is_empty() {
        return Err(Error::operator(
            "the configuration is missing: write penstock-relay -f TORRC, or read --help",
        ));
    }
    Options::load(args.torrc.as_deref(), &args.options).map_err(Error::operator)
}

/// Opens the data folder and the keys. Creates missing ones. A client has keys in memory only, and shows them to no peer.
fn open(options: &Options) -> Result<(DataDirectory, Keys), Error> {
    let folder = DataDirectory::open(&options.data_directory)?;
    let now = Clock::start().date();
    if options.listen.is_none() {
        return Ok((folder, Keys::generate(&mut rand::rng(), now)));
    }
    let keys =
        keys::load_or_create(&options.key_directory, &mut rand::rng(), now).map_err(Error::operator)?;
    folder.fingerprints(&options.nickname, &keys)?;
    Ok((folder, keys))
}

/// The address for the descriptor. A client has none.
/// Deviation: C tor also asks directory authorities for its address.
fn address(options: &Options) -> Result<IpAddr, Error> {
    let Some(listen) = options.listen.map(|listen| listen.ip()) else {
        return Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    };
    let said = options
        .address
        .or_else(|| Some(listen).filter(|address| !address.is_unspecified() && !address.is_loopback()));
    if let Some(address) = said {
        return Ok(address);
    }
    if listen.is_loopback() {
        return Ok(listen);
    }
    // This sends no packet. Connecting a UDP socket only selects the source address.
    let way = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    way.map(|address| address.ip()).map_err(|_| {
        Error::operator("Address: the relay's address is unknown; write Address and its IP address")
    })
}

/// Refuses to publish a private address to the public authorities, because no client could reach it.
/// Source: C tor `address_can_be_used()`.
/// Deviation: this relay accepts a private address of the default route in test networks. C tor accepts such an
/// address only from the torrc.
fn refuse_private(options: &Options, address: IpAddr) -> Result<(), Error> {
    let is_public = options.authorities.iter().any(crate::torrc::Authority::is_public);
    if options.listen.is_some() && options.publish && is_public && is_private(address) {
        return Err(Error::operator(format!(
            "Address: {address} is a private address, which a relay of the public network cannot have: write Address \
             and the public address"
        )));
    }
    Ok(())
}

fn interfaces() -> Vec<IpAddr> {
    let all = getifaddrs().into_iter().flatten().filter_map(|interface| interface.address);
    all.filter_map(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    })
    .collect()
}

/// The exit policy. It also rejects the relay's own addresses.
fn policy(options: &Options, address: IpAddr) -> penstock_link::descriptor::ExitPolicy {
    let outbound = options.outbound.relays.into_iter().chain(options.outbound.streams).flatten();
    let listens = options.listen.map(|listen| listen.ip()).filter(|listens| !listens.is_unspecified());
    let own = [address].into_iter().chain(listens).chain(outbound).collect();
    options.policy(own, &interfaces())
}

/// Listens at the address of an option.
fn listen(option: &str, at: SocketAddr) -> Result<TcpListener, Error> {
    node::listen(at).map_err(|error| Error::operator(format!("{option} {at}: {error}")))
}

/// Raises the limit of open file descriptors (C tor: `set_max_file_descriptors()`).
fn raise_limits() {
    // If this fails, the relay refuses connections above the limit.
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn not_yet(options: &Options) -> Vec<&'static str> {
    let written = [("NumCPUs", options.num_cpus.is_some())];
    written.into_iter().filter(|(_, written)| *written).map(|(name, _)| name).collect()
}

struct Program {
    args: Args,
    options: Options,
    node: Node,
    address: IpAddr,
    started: SystemTime,
    signals: Signals,
    metrics: Option<metrics::Server>,
    recorder: Option<Recorder>,
    notify: Notify,
    /// Time at which the relay ends, after a signal.
    ends: Option<Instant>,
    next_sample: Instant,
    next_heartbeat: Instant,
    next_save: Instant,
    /// Dropping this value deletes the file.
    _pid: Option<PidFile>,
    _folder: DataDirectory,
}

impl Program {
    fn start(args: Args, options: Options) -> Result<Self, Error> {
        // The listening port may need root, and files are opened as the relay's user.
        raise_limits();
        let listener = options.listen.map(|at| listen("ORPort", at)).transpose()?;
        let ports = options.proxy.iter().flat_map(|proxy| &proxy.ports);
        let socks = ports.map(|port| listen("SocksPort", port.listen)).collect::<Result<Vec<_>, _>>()?;
        let notify = Notify::from_environment();
        sandbox::become_user(&options)?;
        // After the change of the user, at which Linux allows dumps again (prctl(2), PR_SET_DUMPABLE).
        sandbox::forbid_dumps(&options);
        logs::set(&options.logs).map_err(|error| Error::operator(format!("Log: {error}")))?;
        // Signal handlers are set before slow steps, so that an early signal has an effect.
        let signals = Signals::listen()?;
        let (folder, keys) = open(&options)?;
        let address = address(&options)?;
        refuse_private(&options, address)?;
        let role = match options.listen {
            Some(_) => format!("its fingerprint is {}", keys.fingerprint()),
            None => "it is a client".to_owned(),
        };
        log::info!("penstock-relay {} starts; {role}", version());
        let mut notify = notify.unwrap_or_else(|error| {
            log::warn!("NOTIFY_SOCKET: {error}; the service manager gets no messages");
            Notify::default()
        });
        if let Some(time) = notify.too_short_watchdog() {
            log::warn!("WATCHDOG_USEC: {time:?} is too short for a relay; set WatchdogSec to 2 s or more");
        }
        options.warnings.iter().for_each(|warning| log::warn!("{warning}"));
        let waiting = not_yet(&options);
        if !waiting.is_empty() {
            log::warn!("these options have no effect yet: {}", waiting.join(", "));
        }
        let name_servers = options.resolv_conf.clone().map_or(NameServers::System, NameServers::File);
        let (relay, policy) = (options.relay.clone(), policy(&options, address));
        let config = NodeConfig {
            name_servers,
            keys_folder: options.listen.map(|_| options.key_directory.clone()),
            extend_to_private: options.extend_to_private,
            dos: options.dos,
            address,
            policy,
            listen: options.listen,
            ..NodeConfig::client(relay)
        };
        let tables = options.record.as_ref().map(|record| record::folder(&record.folder)).transpose()?;
        // Rules for files hold for threads that start later.
        if options.sandbox && !sandbox::restrict_files(&options, tables.as_deref(), args.torrc.as_deref())? {
            log::info!("this kernel has no Landlock, so the relay's user limits the files that it can reach");
        }
        let mut node = Node::on(listener, config, keys)?;
        node.set_outbound(options.outbound);
        node.wake_by(&signals.pipe)?;
        let metrics = options.metrics.as_ref().map(|metrics| {
            metrics::Server::start(metrics)
                .map_err(|error| Error::operator(format!("MetricsPort {}: {error}", metrics.listen)))
        });
        let metrics = metrics.transpose()?;
        let record = options.record.as_ref().zip(tables);
        let recorder = record.map(|(record, folder)| Recorder::open(record, folder, &mut node));
        let pid = options.pid_file.as_deref().map(PidFile::write).transpose()?;
        let at = options.listen.map(|_| node.listens_at()).transpose()?;
        if let Some(at) = at {
            log::info!("listening at {at}, with the address {address} in the descriptor");
        }
        if let Some(proxy) = &options.proxy {
            let started = node.serve_socks(socks, proxy.clone());
            started.map_err(|error| Error::operator(format!("SocksPort: {error}")))?;
            for port in node.socks_ports() {
                log::info!("applications can connect to the SOCKS proxy at {port}");
            }
        }
        let started = Clock::start().date();
        if !options.authorities.is_empty() {
            let description =
                at.map(|at| join::description(&options, address, at.port(), started)).transpose()?;
            if let Some(membership) = join::membership(&options, description) {
                node.join(membership).map_err(|error| Error::operator(format!("descriptor: {error}")))?;
            }
        }
        if let Some(metrics) = &metrics {
            metrics.show(&node.observe());
            log::info!("metrics are at http://{}/metrics", metrics.address);
        }
        if options.sandbox && !sandbox::restrict_calls()? {
            log::info!("there is no filter of system calls for this processor or this kernel");
        }
        let now = node.now();
        match at {
            Some(at) => notify.ready(now, &format!("accepts links at {at}")),
            None => notify.ready(now, "accepts applications"),
        }
        let program = Program {
            next_heartbeat: options.heartbeat.map_or(Instant::FAR_FUTURE, |period| now + period),
            next_sample: now,
            next_save: now + SAVE,
            args,
            options,
            node,
            address,
            started,
            signals,
            metrics,
            recorder,
            notify,
            ends: None,
            _pid: pid,
            _folder: folder,
        };
        Ok(program)
    }

    fn run(mut self) -> Result<(), Error> {
        while !self.is_over() {
            self.node.turn()?;
            if self.node.was_woken() {
                self.handle_signals();
            }
            self.sample();
            self.notify.tick(self.node.now(), || population(&self.node.observe()));
        }
        self.save_bandwidth();
        self.node.close_all();
        if let Some(recorder) = self.recorder.take() {
            recorder.close(&mut self.node)?;
        }
        log::info!("the relay ends");
        Ok(())
    }

    /// Whether the relay must end now. After a signal, it waits until no circuit is left, but only for a limited time.
    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= self.node.now() || self.node.circuits() == 0)
    }

    fn handle_signals(&mut self) {
        let asked = self.signals.take();
        if asked.report {
            self.heartbeat();
        }
        if asked.reload {
            self.notify.reloading(Clock::monotonic_micros());
            let status = self.reload();
            self.notify.ready(self.node.now(), &status);
        }
        if asked.end || asked.interrupt {
            let now = self.node.now();
            if self.ends.is_some() && asked.interrupt {
                log::info!("the relay was interrupted again and ends at once");
                self.ends = Some(now);
            } else if self.ends.is_none() {
                self.node.stop_listening();
                // As in C tor, a client ends at once.
                if self.options.listen.is_none() {
                    self.notify.stopping(Duration::ZERO, "ends");
                    self.ends = Some(now);
                    return;
                }
                let wait = self.options.shutdown_wait;
                self.notify.stopping(wait, "accepts no links; waits for the end of its circuits");
                log::info!(
                    "no new connections are accepted; the relay ends in {} s, or when no circuit is left",
                    wait.as_secs()
                );
                self.ends = Some(now + wait);
            }
        }
    }

    /// Updates metrics, records and the heartbeat once a second.
    fn sample(&mut self) {
        let now = self.node.now();
        if now < self.next_sample {
            return;
        }
        self.next_sample = now + SAMPLE;
        self.log_directory_events();
        if now >= self.next_save {
            self.next_save = now + SAVE;
            self.save_bandwidth();
        }
        if let Some(metrics) = &self.metrics {
            metrics.show(&self.node.observe());
        }
        if let Some(recorder) = &mut self.recorder
            && let Err(failure) = recorder.sample(&mut self.node)
        {
            log::error!("recording stopped: {}", failure);
            self.recorder = None;
        }
        if now >= self.next_heartbeat {
            self.heartbeat();
            self.next_heartbeat = self.options.heartbeat.map_or(Instant::FAR_FUTURE, |period| now + period);
        }
    }

    fn heartbeat(&self) {
        let seen = self.node.observe();
        let uptime = seen.at.since(Instant::ZERO).as_secs();
        log::info!(
            "after {uptime} s: {}; read {} B, wrote {} B, {} cells queued",
            population(&seen),
            seen.counters.read_bytes.get(),
            seen.counters.written_bytes.get(),
            seen.queued.get()
        );
    }
}

fn population(seen: &node::Observation) -> String {
    let [channels, circuits, streams] = seen.population;
    format!("{channels} channels, {circuits} circuits, {streams} streams")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_address_is_not_published_to_public_authorities() {
        let options = |more: &[(&str, &str)]| {
            let lines = [("ORPort", "127.0.0.1:auto"), ("DataDirectory", "/nowhere")];
            let lines = lines.iter().chain(more).map(|(name, value)| (name.to_string(), value.to_string()));
            Options::load(None, &lines.collect::<Vec<_>>()).unwrap()
        };
        let acknowledged = ("Penstock", "acknowledge = 'this is research software'");
        let public = options(&[acknowledged]);
        for private in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "fc00::1"] {
            let refused = refuse_private(&public, private.parse().unwrap()).unwrap_err().to_string();
            assert!(
                refused.contains("is a private address") && refused.contains("write Address"),
                "{refused}"
            );
        }
        assert!(refuse_private(&public, "198.51.100.1".parse().unwrap()).is_ok());
        let silent = options(&[acknowledged, ("PublishServerDescriptor", "0")]);
        let testing =
            options(&[("DirAuthority", "a 127.0.0.1:7000 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A")]);
        for options in [silent, testing] {
            assert!(refuse_private(&options, "10.1.2.3".parse().unwrap()).is_ok());
        }
    }
}
