//! The program as a process: its start, its reaction to signals, and its end.

mod common;

use common::dns::name_server;
use common::program::{Folder, Program, RELAY, metric, scrape};
use common::{Client, pattern, serve};
use nix::sys::signal::Signal;
use parquet::file::reader::{FileReader, SerializedFileReader};
use penstock_link::cell::{RelayMessage, Target};
use penstock_live::clock::Clock;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the relay until it ends by itself.
fn relay(torrc: &Path, more: &[&str]) -> Output {
    Command::new(RELAY).arg("-f").arg(torrc).args(more).output().unwrap()
}

/// The relay printed one line and ended with status 2. Returns the line.
fn refused(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    said
}

#[test]
fn the_relay_creates_keys_and_ends_after_a_signal() {
    let folder = Folder::new("ends");
    let pid = folder.0.join("pid");
    let torrc = folder.torrc(&format!("Nickname gate\nPidFile {}\n", pid.display()));
    let program = Program::start(&torrc);
    assert_eq!(fs::read_to_string(&pid).unwrap(), format!("{}\n", program.child.id()));
    let limits = fs::read_to_string(format!("/proc/{}/limits", program.child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{files}");
    let other = refused(&relay(&torrc, &[]));
    assert!(other.contains("is used by another relay that is running"), "{other}");
    let (status, said) = program.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.ends_with("the relay ends\n") && !pid.exists(), "{said}");

    let mode = |name: &str| fs::metadata(folder.data().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("."), mode("keys"), mode("keys/secret_id_key")], [0o700, 0o700, 0o600]);
    let fingerprint = fs::read_to_string(folder.data().join("fingerprint")).unwrap();
    let listed = String::from_utf8(relay(&torrc, &["--list-fingerprint"]).stdout).unwrap();
    assert_eq!(listed.replace(' ', ""), fingerprint.replace(' ', ""));
    let listed = relay(&torrc, &["--list-fingerprint", "ed25519"]).stdout;
    assert_eq!(listed, fs::read(folder.data().join("fingerprint-ed25519")).unwrap());
}

#[test]
fn circuits_continue_for_the_shutdown_time() {
    let folder = Folder::new("waits");
    let torrc = folder.torrc("ExitPolicy accept *:*\n");
    let with = |wait: &str| {
        fs::write(&torrc, fs::read_to_string(&torrc).unwrap().replace("Length 0", wait)).unwrap();
        Program::start(&torrc)
    };
    let mut program = with("Length 2");
    let mut client = program.client(&folder);
    let clock = Clock::start();
    program.signal(Signal::SIGTERM);
    program.wait_for("no new connections are accepted; the relay ends in 2 s");
    assert!(TcpStream::connect(program.port).is_err(), "it listens still");
    assert!(client.download(serve(10_000), 1) == pattern(10_000));
    assert_eq!(program.ended().0, Some(0));
    let took = clock.now().since(penstock_units::Instant::ZERO);
    assert!((2..10).contains(&took.as_secs()), "{took:?}");

    // Another interrupt ends it at once.
    let mut program = with("Length 2").with_wait(&torrc, &folder);
    program.signal(Signal::SIGINT);
    program.wait_for("no new connections are accepted; the relay ends in 600 s");
    program.signal(Signal::SIGINT);
    assert_eq!(program.ended().0, Some(0));
}

impl Program {
    /// Starts the same relay again, with an open circuit and a shutdown time of ten minutes.
    fn with_wait(self, torrc: &Path, folder: &Folder) -> Self {
        let (status, _) = self.end();
        assert_eq!(status, Some(0));
        fs::write(torrc, fs::read_to_string(torrc).unwrap().replace("Length 2", "Length 10 minutes"))
            .unwrap();
        let mut program = Program::start(torrc);
        // The client must stay connected until the relay ends.
        std::mem::forget(program.client(folder));
        program
    }
}

/// Whether a stream through the relay reaches a server.
fn reaches(client: &mut Client, number: u16) -> bool {
    let server = serve(100);
    let stream = std::num::NonZeroU16::new(number).map(penstock_core::StreamId);
    let (host, port) = (server.ip().to_string(), server.port());
    client.send_message(stream, &RelayMessage::Begin(Target::Host { host, port, flags: Default::default() }));
    let mut connected = false;
    loop {
        match client.receive_message() {
            (_, RelayMessage::Connected(_), _) => connected = true,
            (_, RelayMessage::End(_), _) => return connected,
            _ => {}
        }
    }
}

#[test]
fn sighup_applies_a_valid_torrc_only() {
    let folder = Folder::new("reloads");
    let torrc = folder.torrc("ExitPolicy accept *:*\n");
    let mut program = Program::start(&torrc);
    let mut client = program.client(&folder);
    assert!(reaches(&mut client, 1));

    folder.torrc("ExitPolicy reject *:*\nNickname a_b\n");
    program.signal(Signal::SIGHUP);
    let line = program.wait_for("the torrc was not applied");
    assert!(line.contains("[err]") && line.contains("Nickname: \"a_b\" must be 1 to 19 letters"), "{line}");
    assert!(reaches(&mut client, 2));

    folder.torrc(
        "ExitPolicy reject *:*\nNickname gate\nSchedulers Vanilla\nPenstock circuit_policy = 'round-robin'\n",
    );
    program.signal(Signal::SIGHUP);
    program.wait_for("these changes need a restart: Nickname, Schedulers or Penstock scheduler\n");
    program.wait_for("the torrc was applied");
    assert!(!reaches(&mut client, 3));
    program.signal(Signal::SIGUSR1);
    program.wait_for("1 channels, 1 circuits, 0 streams");
    assert_eq!(program.end().0, Some(0));
}

#[test]
fn the_log_has_no_client_address() {
    let folder = Folder::new("says");
    let torrc = folder.torrc("ExitPolicy accept *:*\nLog debug stdout\nSafeLogging 0\n");
    let mut program = Program::start(&torrc);
    let server = serve(1000);
    let mut client = program.client(&folder);
    assert_eq!(client.download(server, 1).len(), 1000);
    // Another peer uses no TLS.
    TcpStream::connect(program.port).unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let at = program.port.to_string();
    let (_, said) = program.end();
    let said = said.replace(&at, "").replace("with the address 127.0.0.1 in the descriptor", "");
    assert!(!said.contains("127.0.0.1") && !said.contains(&server.port().to_string()), "{said}");
}

/// A row's columns and values.
type Row = Vec<(String, String)>;

/// The rows of a table. The table must not be empty, and must contain no address.
fn table(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows: Vec<Row> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            row.unwrap().get_column_iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
        })
        .collect();
    assert!(!rows.is_empty(), "{} is empty", path.display());
    assert!(rows.iter().flatten().all(|(_, value)| !value.contains("127.0.0")), "{}", path.display());
    rows
}

#[test]
fn traced_cells_have_times_and_no_names() {
    let folders = [Folder::new("guard"), Folder::new("exit")];
    let record = |folder: &Folder| folder.0.join("record");
    let relays = folders.each_ref().map(|folder| {
        let torrc = folder.torrc(&format!(
            "ExitPolicy accept *:*\nPenstock record = '{}'\nPenstock record_cells = 2\nPenstock record_circuits = 1\n",
            record(folder).display()
        ));
        Program::start(&torrc)
    });
    let path = [0, 1].map(|at| relays[at].hop(&folders[at]));
    let mut client = Client::connect(&path[0].0);
    client.build(&path);
    assert!(client.download(serve(300_000), 1) == pattern(300_000));
    // A sample is a second old at most.
    std::thread::sleep(Duration::from_millis(2500));
    for relay in relays {
        assert_eq!(relay.end().0, Some(0));
    }
    for (folder, position) in folders.iter().zip(["guard", "exit"]) {
        let value =
            |row: &Row, name: &str| row.iter().find(|(column, _)| column == name).unwrap().1.replace('"', "");
        let cells = table(&record(folder).join("cells.parquet"));
        let here: Vec<_> = cells.iter().filter(|row| value(row, "hop") == position).collect();
        assert!(here.len() > 290, "{position}: {} of {}", here.len(), cells.len());
        for row in here {
            for wait in ["circuit_queue_s", "outbuf_s", "kernel_out_s"] {
                let seconds: f64 = value(row, wait).parse().unwrap_or_else(|_| panic!("{wait}: {row:?}"));
                assert!((0.0..5.0).contains(&seconds), "{position} {wait}: {seconds}");
            }
            // The bytes of a stream belong to no cell until the exit reads them.
            assert_eq!(value(row, "kernel_in_s") == "null", position == "exit", "{row:?}");
            assert_eq!((&value(row, "workload")[..], &value(row, "circuit")[..]), ("unknown", "1"));
        }
        let circuits = table(&record(folder).join("circuits.parquet"));
        assert!(
            circuits.iter().any(|row| value(row, "hop") == position && value(row, "client") == "unknown")
        );
        assert!(circuits.iter().any(|row| value(row, "srtt_s").parse::<f64>().is_ok_and(|rtt| rtt > 0.0)));
    }
}

#[test]
fn metrics_and_records_count_the_traffic() {
    let folder = Folder::new("counts");
    let record = folder.0.join("record");
    let torrc = folder.torrc(&format!(
        "ExitPolicy accept *:*\nMetricsPort auto\nPenstock record = \"{}\"\n",
        record.display()
    ));
    let mut program = Program::start(&torrc);
    let address = program.metrics();
    let mut client = program.client(&folder);
    assert_eq!(client.download(serve(100_000), 1).len(), 100_000);
    // A page is a second old at most.
    let clock = Clock::start();
    let late = penstock_units::Instant::ZERO + Duration::from_secs(20);
    let page = loop {
        let page = scrape(&address).unwrap();
        if page.contains("streams_total{outcome=\"connected\"} 1\n")
            && metric(&page, "penstock_relay_written_bytes_total ") > 1e5
        {
            break page;
        }
        assert!(clock.now() < late, "{page}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(metric(&page, "penstock_relay_packaged_data_cells_total "), 201.0);
    assert_eq!(metric(&page, "penstock_relay_circuits "), 1.0);
    assert_eq!(metric(&page, "penstock_relay_links_total{peer=\"relay\"}"), 1.0);
    assert_eq!(
        metric(&page, "penstock_relay_circuit_handshakes_total{kind=\"ntor\",outcome=\"answered\"}"),
        1.0
    );
    assert_eq!(program.end().0, Some(0));

    let rows = table(&record.join("relays.parquet"));
    let written =
        |row: &Row| row.iter().find(|(name, _)| name == "written_bytes").unwrap().1.parse::<u64>().unwrap();
    let sum: u64 = rows.iter().map(written).sum();
    assert!(sum > 100_000, "{sum}");
    assert!(!fs::read_dir(&record).unwrap().any(|entry| entry.unwrap().path().is_dir()), "parts are left");
}

#[test]
fn errors_are_one_sentence_and_status_2() {
    let folder = Folder::new("mistakes");
    let torrc = folder.torrc("");
    let with = |more: &[&str]| refused(&relay(&torrc, more));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let said = with(&["--ORPort", &taken]);
    assert!(said.starts_with(&format!("penstock-relay: ORPort {taken}: ")), "{said}");
    let said = with(&["MetricsPort", &taken]);
    assert!(said.starts_with(&format!("penstock-relay: MetricsPort {taken}: ")), "{said}");
    let said = with(&["--PidFile", "/nowhere/pid"]);
    assert!(said.starts_with("penstock-relay: /nowhere/pid: "), "{said}");
    let said = with(&["--Log", "notice file /nowhere/log"]);
    assert!(said.starts_with("penstock-relay: Log: /nowhere/log: "), "{said}");
    let said = with(&["--NoSuchOption", "1"]);
    assert!(
        said.starts_with("penstock-relay: command line: NoSuchOption: this option exists neither"),
        "{said}"
    );

    let said = with(&["/DirAuthority"]);
    assert!(said.contains("does not join the public Tor network"), "{said}");
    let said = with(&["--DirAuthority", "moria1 128.31.0.39:9231 1A25C6358DB91342AA51720A5038B72742732498"]);
    assert!(said.contains("does not join the public Tor network"), "{said}");

    fs::set_permissions(folder.data().join("keys"), Permissions::from_mode(0o755)).unwrap();
    let said = with(&[]);
    assert!(said.contains("keys can be read by others (mode 755); chmod 700 it"), "{said}");
    fs::set_permissions(folder.data(), Permissions::from_mode(0o755)).unwrap();
    let said = with(&[]);
    assert!(said.starts_with("penstock-relay: DataDirectory: ") && said.contains("chmod 700 it"), "{said}");

    let said = refused(&Command::new(RELAY).output().unwrap());
    assert!(said.contains("write penstock-relay -f TORRC"), "{said}");
    let said = refused(&relay(&folder.0.join("none"), &[]));
    assert!(said.contains("/none: "), "{said}");
}

#[test]
fn version_and_verify_config_do_not_start_a_relay() {
    let folder = Folder::new("verifies");
    let torrc = folder.torrc("ControlPort 9051\n");
    let verified = relay(&torrc, &["--verify-config"]);
    assert_eq!(
        (verified.status.code(), &verified.stdout[..]),
        (Some(0), &b"the configuration is valid\n"[..])
    );
    assert!(
        String::from_utf8(verified.stderr)
            .unwrap()
            .contains(":6: ControlPort: this option of C tor has no effect here")
    );
    assert!(!folder.data().exists(), "nothing is made");
    refused(&relay(&torrc, &["--verify-config", "--ORPort", "x"]));
    let version = Command::new(RELAY).arg("--version").output().unwrap().stdout;
    assert!(version.starts_with(b"penstock-relay 0."));
    assert!(
        Command::new(RELAY)
            .arg("--help")
            .output()
            .unwrap()
            .stdout
            .starts_with(b"penstock-relay: a Tor relay")
    );
}

/// The output of `--list-fingerprint`; `None` if the relay failed.
fn fingerprint(output: &Output) -> Option<String> {
    output.status.success().then(|| String::from_utf8(output.stdout.clone()).unwrap())
}

#[test]
fn a_relay_whose_first_start_was_killed_starts_with_a_whole_identity() {
    let mut finished = 0;
    for round in 0..12 {
        let folder = Folder::new(&format!("killed-{round}"));
        let torrc = folder.torrc("");
        let mut first = Command::new(RELAY)
            .args(["--list-fingerprint", "-f"])
            .arg(&torrc)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(round * 25));
        first.kill().unwrap();
        let said = fingerprint(&first.wait_with_output().unwrap());
        finished += u32::from(said.is_some());
        let listed = relay(&torrc, &["--list-fingerprint"]);
        let listed = fingerprint(&listed).unwrap_or_else(|| panic!("{round}: {listed:?}"));
        assert!(said.is_none_or(|said| said == listed), "{round}");
        assert_eq!(fingerprint(&relay(&torrc, &["--list-fingerprint"])), Some(listed), "{round}");
    }
    println!("{finished} of 12 relays had ended before they were killed");
    assert!(finished < 12);
}

/// Starts a relay in a file system with `pages` pages [4096 B] and `names` names, and again after the file system has
/// more space. Returns the first log with its status, and the second output; `None` if this machine allows no mounts.
fn start_on_a_small_disk(
    folder: &Folder,
    torrc: &Path,
    [pages, names]: [usize; 2],
) -> Option<(String, Output)> {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o "size=$1,nr_inodes=$2,mode=0700" none "$3" || exit 77
        "$4" -f "$5" --list-fingerprint >"$6" 2>&1
        echo "status $?" >>"$6"
        mount -o remount,size=1m,nr_inodes=100 "$3" || exit 77
        exec "$4" -f "$5" --list-fingerprint"#;
    let log = folder.0.join("first");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"])
        .args([(pages * 4096).to_string(), names.to_string()])
        .args([&folder.data(), Path::new(RELAY), torrc, &log])
        .output();
    let second = output.ok().filter(|output| log.exists() && output.status.code() != Some(77))?;
    Some((fs::read_to_string(&log).unwrap(), second))
}

#[test]
fn a_relay_whose_disk_was_full_at_its_first_start_starts_when_there_is_space() {
    let folder = Folder::new("full");
    let torrc = folder.torrc("");
    fs::create_dir_all(folder.data()).unwrap();
    let mut failed = 0;
    for limits_pages in [true, false] {
        for limit in 1.. {
            let sizes = if limits_pages { [limit, 100] } else { [100, limit] };
            let Some((first, second)) = start_on_a_small_disk(&folder, &torrc, sizes) else {
                println!("skipped: this machine allows no mounts in a user namespace");
                return;
            };
            let listed = fingerprint(&second).unwrap_or_else(|| panic!("{sizes:?}: {first} {second:?}"));
            if first.ends_with("status 0\n") {
                assert!(first.starts_with(&listed), "{first}");
                break;
            }
            failed += 1;
            let lines: Vec<&str> = first.lines().collect();
            assert!(lines.len() == 2 && lines[0].contains("No space left on device"), "{sizes:?}: {first}");
            assert_eq!(lines[1], "status 2");
        }
    }
    println!("the relay started after {failed} full disks");
    assert!(failed > 10);
}

/// A resolv.conf with a name server for the tests. `None` if this user may not open port 53.
fn resolv_conf(folder: &Folder) -> Option<PathBuf> {
    name_server("127.53.53.53:53").ok()?;
    let path = folder.0.join("resolv.conf");
    fs::write(&path, "nameserver 127.53.53.53\n").unwrap();
    Some(path)
}

/// In a build with debug assertions, a system call outside the sandbox ends the relay by SIGSYS.
#[test]
fn a_relay_in_its_sandbox_does_its_work() {
    let folder = Folder::new("sandbox");
    let dns = resolv_conf(&folder);
    let at = |name: &str| folder.0.join(name);
    let extra =
        dns.as_ref().map_or_else(String::new, |path| format!("ServerDNSResolvConfFile {}\n", path.display()));
    let torrc = folder.torrc(&format!(
        "ExitPolicy accept *:*\nMetricsPort auto\nPidFile {}\nLog notice file {}\nLog notice stdout\n\
         Penstock record = '{}'\n{extra}",
        at("pid").display(),
        at("log").display(),
        at("record").display()
    ));
    // The onion key is old, so the relay rotates it at once.
    relay(&torrc, &["--list-fingerprint"]);
    let key = folder.data().join("keys/secret_onion_key_ntor");
    let before = fs::read(&key).unwrap();
    let made = fs::metadata(&key).unwrap().modified().unwrap() - Duration::from_secs(40 * 86_400);
    File::options().write(true).open(&key).unwrap().set_modified(made).unwrap();

    let mut program = Program::start(&torrc);
    let address = program.metrics();
    let waits = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        fs::read(&key).unwrap() != before
    });
    assert!(waits, "the onion key was not rotated");
    assert_eq!(fs::read(key.with_extension("old")).unwrap(), before);

    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id())).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    assert_eq!((field("Seccomp:"), field("NoNewPrivs:")), ("2", "1"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", program.child.id())).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().nth(4), Some("0"), "{cores}");

    let mut client = program.client(&folder);
    assert!(client.download(serve(300_000), 1) == pattern(300_000));
    if dns.is_some() {
        let (host, port) = ("name.example".to_owned(), serve(100).port());
        let stream = std::num::NonZeroU16::new(2).map(penstock_core::StreamId);
        client.send_message(
            stream,
            &RelayMessage::Begin(Target::Host { host, port, flags: Default::default() }),
        );
        assert_eq!(client.read_to_end(stream).len(), 100);
    } else {
        println!("skipped: the test of name lookups needs port 53");
    }
    assert!(scrape(&address).unwrap().contains("penstock_relay_sent_cells_total "));
    // An editor replaces the torrc, and a log file is moved away.
    fs::rename(at("log"), at("log.1")).unwrap();
    let text = fs::read_to_string(&torrc).unwrap();
    fs::write(at("torrc.new"), text.replace("accept *:*", "accept *:*\nHeartbeatPeriod 1 hour")).unwrap();
    fs::rename(at("torrc.new"), &torrc).unwrap();
    program.signal(Signal::SIGHUP);
    program.wait_for("the torrc was applied");
    program.signal(Signal::SIGUSR1);
    program.wait_for("channels, ");
    assert!(client.download(serve(1000), 3).len() == 1000);
    std::thread::sleep(Duration::from_millis(1200));
    let (status, said) = program.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(!at("pid").exists() && fs::read_to_string(at("log")).unwrap().contains("the torrc was applied"));
    assert!(!table(&at("record/relays.parquet")).is_empty());
}

#[test]
fn a_sandbox_keeps_other_files_away_unless_it_is_off() {
    let folder = Folder::new("outside");
    let outside = std::env::temp_dir().join(format!("penstock-relay-{}-elsewhere", std::process::id()));
    fs::create_dir_all(&outside).unwrap();
    for (sandbox, is_refused) in [("1", true), ("0", false)] {
        let torrc = folder.torrc(&format!("Sandbox {sandbox}\nLog notice stdout\n"));
        let mut program = Program::start(&torrc);
        let text = fs::read_to_string(&torrc).unwrap();
        let log = outside.join(format!("log-{sandbox}"));
        fs::write(&torrc, format!("{text}Log notice file {}\n", log.display())).unwrap();
        program.signal(Signal::SIGHUP);
        let line = program.wait_for("the torrc was");
        if !program.said.contains("no Landlock") {
            assert_eq!(
                (line.contains("Permission denied"), !log.exists()),
                (is_refused, is_refused),
                "{line}"
            );
        }
        assert_eq!(program.end().0, Some(0));
    }
    fs::remove_dir_all(&outside).unwrap();
}

#[test]
fn a_relay_that_starts_as_root_becomes_the_user_of_its_torrc() {
    let Some(user) =
        nix::unistd::User::from_name("nobody").unwrap().filter(|_| nix::unistd::geteuid().is_root())
    else {
        println!("skipped: only root can change the user");
        return;
    };
    let folder = Folder::new("user");
    let mut program = Program::start(&folder.torrc("User nobody\nSandbox 0\n"));
    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id())).unwrap();
    let ids: Vec<&str> =
        status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().split_whitespace().collect();
    assert_eq!(ids, [&user.uid.to_string()[..]; 4]);
    use std::os::unix::fs::MetadataExt;
    for name in [".", "keys", "keys/secret_id_key", "fingerprint"] {
        assert_eq!(fs::metadata(folder.data().join(name)).unwrap().uid(), user.uid.as_raw(), "{name}");
    }
    program.signal(Signal::SIGTERM);
    assert_eq!(program.ended().0, Some(0));
}

/// The next message to the service manager that starts with `start`; other signs of life may come before it.
fn message(manager: &UnixDatagram, start: &str) -> String {
    let mut bytes = [0; 4096];
    loop {
        let read = manager.recv(&mut bytes).unwrap_or_else(|error| panic!("no {start}: {error}"));
        let message = std::str::from_utf8(&bytes[..read]).unwrap();
        if message.starts_with(start) {
            return message.to_owned();
        }
        let is_sign = message == "WATCHDOG=1" || message.starts_with("STATUS=");
        assert!(is_sign, "{message:?} came before {start}");
    }
}

/// As root, the relay becomes a user that cannot open the socket of the service manager.
#[test]
fn the_service_manager_gets_messages_from_the_sandbox() {
    let folder = Folder::new("notifies");
    let private = folder.0.join("manager");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
    let manager = UnixDatagram::bind(private.join("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let user = if nix::unistd::geteuid().is_root() { "User nobody\n" } else { "" };
    let torrc = folder.torrc(user);
    let mut command = Command::new(RELAY);
    command.env("NOTIFY_SOCKET", private.join("notify")).env("WATCHDOG_USEC", "3000000");
    let mut program = Program::start_by(command.env_remove("WATCHDOG_PID").arg("-f").arg(&torrc));
    assert_eq!(message(&manager, "READY=1"), format!("READY=1\nSTATUS=accepts links at {}", program.port));
    TcpStream::connect(program.port).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id())).unwrap();
    assert!(status.contains("Seccomp:\t2\n"), "{status}");
    let clock = Clock::start();
    (0..3).for_each(|_| assert_eq!(message(&manager, "WATCHDOG=1"), "WATCHDOG=1"));
    let took = clock.now().since(penstock_units::Instant::ZERO);
    assert!((1..6).contains(&took.as_secs()), "{took:?}");

    let mut reload = |torrc: &str, outcome: &str| {
        folder.torrc(torrc);
        let before = Clock::monotonic_micros();
        program.signal(Signal::SIGHUP);
        let reloading = message(&manager, "RELOADING=1");
        let micros: u64 = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!((before..=Clock::monotonic_micros()).contains(&micros), "{before} {micros}");
        let ready = message(&manager, "READY=1");
        assert!(ready.starts_with(&format!("READY=1\nSTATUS=the torrc was {outcome}")), "{ready}");
        program.wait_for("the torrc was ");
    };
    reload("Nickname a_b\n", "not applied: ");
    reload(&format!("{user}ShutdownWaitLength 30\n"), "applied");
    assert_eq!(program.end().0, Some(0));
    let stopping = message(&manager, "STOPPING=1");
    assert!(stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000\nSTATUS="), "{stopping}");
}

#[test]
fn the_unit_of_the_relay_is_valid() {
    let folder = Folder::new("unit");
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/penstock-relay.service");
    let text = fs::read_to_string(unit).unwrap();
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/penstock-relay "));
    assert_eq!(start, Some("-f /etc/penstock/torrc --DataDirectory /var/lib/penstock"));
    // The program must exist.
    let copy = folder.0.join("penstock-relay.service");
    fs::write(&copy, text.replace("/usr/local/bin/penstock-relay", RELAY)).unwrap();
    let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output()
    else {
        println!("skipped: systemd-analyze is missing");
        return;
    };
    let said = String::from_utf8(verified.stderr).unwrap();
    assert!(verified.status.success() && !said.contains("penstock-relay.service"), "{said}");
}
