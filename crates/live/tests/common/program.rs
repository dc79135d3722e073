//! The program `penstock-relay` as a process with its own folder.

#![allow(dead_code, reason = "each test uses a part of this module")]

use super::{Client, Hop, Running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use penstock_core::scheduler::SchedulerConfig;
use penstock_link::cell::LinkSpec;
use penstock_live::clock::Clock;
use penstock_live::keys;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

pub(crate) const RELAY: &str = env!("CARGO_BIN_EXE_penstock-relay");

/// The torrc lines of each test's relay.
const LEAST: &str = "ORPort 127.0.0.1:auto\nTestingTorNetwork 1\nShutdownWaitLength 0\n\
                     DirAuthority a 127.0.0.1:7000 BCB38A1C4D5F0B1B2F1BB9B59D5D0D7E5B1C3F2A\n";

/// A folder of one test, with a torrc. Dropping this value removes the folder.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("penstock-relay-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn torrc(&self, more: &str) -> PathBuf {
        let path = self.0.join("torrc");
        fs::write(&path, format!("{LEAST}DataDirectory {}\n{more}", self.data().display())).unwrap();
        path
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running relay. Dropping this value stops the relay.
pub(crate) struct Program {
    pub(crate) child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    /// The log so far.
    pub(crate) said: String,
    pub(crate) port: SocketAddr,
    guard: Option<Running>,
    /// The thread that reads the rest of the log.
    reader: Option<JoinHandle<String>>,
}

impl Program {
    pub(crate) fn start(torrc: &Path) -> Self {
        Program::start_by(Command::new(RELAY).arg("-f").arg(torrc))
    }

    /// Starts a relay that may have at most this number of file descriptors.
    pub(crate) fn start_with_descriptors(torrc: &Path, descriptors: usize) -> Self {
        Program::start_by(with_descriptors(descriptors).arg(RELAY).arg("-f").arg(torrc))
    }

    /// Starts a relay by a command that has the torrc already.
    pub(crate) fn start_by(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = Some(BufReader::new(child.stdout.take().unwrap()));
        let port = ([127, 0, 0, 1], 0).into();
        let mut program = Program { child, stdout, said: String::new(), port, guard: None, reader: None };
        let line = program.wait_for("listening at ");
        let port = line.split("listening at ").nth(1).unwrap().split(',').next().unwrap();
        program.port = port.parse().unwrap();
        program
    }

    /// Reads the log up to a line that contains `text`. Returns the line.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let stdout = self.stdout.as_mut().expect("no other thread reads the log");
        loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended without {text:?}: {}", self.said);
            self.said.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The address of the metrics. The torrc has `MetricsPort auto`.
    pub(crate) fn metrics(&mut self) -> String {
        let line = self.wait_for("metrics are at http://");
        line.trim_end().split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
    }

    /// Reads the rest of the log in a thread, so that the relay never waits for a full pipe.
    pub(crate) fn read_log(&mut self) {
        let mut stdout = self.stdout.take().expect("no other thread reads the log");
        self.reader = Some(std::thread::spawn(move || {
            let mut rest = String::new();
            // The log is valid UTF-8.
            stdout.read_to_string(&mut rest).unwrap();
            rest
        }));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Ends the relay. Returns its status and the whole log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits until the relay has ended. Returns its status and the whole log.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut self.said).unwrap();
        }
        if let Some(reader) = self.reader.take() {
            self.said.push_str(&reader.join().unwrap());
        }
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.said))
    }

    /// The link specifiers and the onion key, which a client needs.
    pub(crate) fn hop(&self, folder: &Folder) -> Hop {
        let date = Clock::start().date();
        let keys = keys::load_or_create(&folder.data().join("keys"), &mut rand::rng(), date).unwrap();
        let (rsa, ed25519) = (keys.rsa_identity(), Some(keys.ed25519_identity()));
        (LinkSpec { addresses: vec![self.port], rsa, ed25519 }, keys.identities().onion[0].public)
    }

    /// A client with a circuit over a node of ours. The relay opens no exit streams for circuits of one hop.
    pub(crate) fn client(&mut self, folder: &Folder) -> Client {
        let guard = self.guard.insert(Running::start(SchedulerConfig::default()));
        let path = [guard.hop(), self.hop(folder)];
        let mut client = Client::connect(&path[0].0);
        client.build(&path);
        client
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that limits the file descriptors of the program in its next arguments.
pub(crate) fn with_descriptors(descriptors: usize) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &descriptors.to_string()]);
    command
}

/// The page of a relay's metrics, with its HTTP head.
pub(crate) fn scrape(address: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The value of the first metric on a page whose line starts with `name`.
pub(crate) fn metric(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
