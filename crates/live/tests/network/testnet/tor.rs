//! A C tor process with its own folder.

use super::NodeSpec;
use super::place::Place;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The role of a C tor node in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Authority,
    Relay,
    Exit,
    Client,
}

/// A C tor node, running or not.
pub(crate) struct Tor {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) folder: PathBuf,
    pub(crate) place: Place,
    /// Additional lines of its torrc.
    pub(crate) options: &'static str,
    starter: Vec<String>,
    pub(crate) or: SocketAddr,
    pub(crate) dir: SocketAddr,
    pub(crate) socks: SocketAddr,
    control: SocketAddr,
    /// The RSA identity in hexadecimal digits. A client has none.
    pub(crate) fingerprint: String,
    /// The identity of the key that signs votes. Only authorities have it.
    pub(crate) v3ident: String,
    child: Option<Child>,
}

impl Tor {
    /// Creates the folder and the keys.
    pub(crate) fn new(root: &Path, node: &NodeSpec) -> Self {
        let NodeSpec { name, role, place, options, starter } = node;
        let (role, folder) = (*role, root.join(name));
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        let [or, dir, socks, mut control] = free_addresses(place);
        // C tor closes a control port without authentication at any other address.
        control.set_ip(Ipv4Addr::LOCALHOST.into());
        let none = String::new();
        let (fingerprint, v3ident) = (none.clone(), none);
        let mut tor = Tor {
            name: name.clone(),
            role,
            folder,
            place: place.clone(),
            options,
            starter: starter.clone(),
            or,
            dir,
            socks,
            control,
            fingerprint,
            v3ident,
            child: None,
        };
        if role == Role::Authority {
            tor.v3ident = tor.authority_keys();
        }
        if role != Role::Client {
            tor.fingerprint = tor.identity();
        }
        tor
    }

    /// Creates the voting keys with tor-gencert. Returns their identity.
    fn authority_keys(&self) -> String {
        let keys = self.folder.join("keys");
        fs::DirBuilder::new().mode(0o700).create(&keys).unwrap();
        let file = |name: &str| keys.join(name).display().to_string();
        let (identity, signing, certificate) =
            (file("authority_identity_key"), file("authority_signing_key"), file("authority_certificate"));
        let gencert = Path::new(&program()).with_file_name("tor-gencert");
        let mut child = Command::new(if gencert.exists() { gencert } else { "tor-gencert".into() })
            .args(["--create-identity-key", "--passphrase-fd", "0", "-m", "2"])
            .args(["-i", &identity, "-s", &signing, "-c", &certificate, "-a", &self.dir.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("tor-gencert is installed next to C tor");
        child.stdin.take().unwrap().write_all(b"test\n").unwrap();
        assert!(child.wait().unwrap().success(), "tor-gencert creates keys");
        let text = fs::read_to_string(certificate).unwrap();
        text.lines().find_map(|line| line.strip_prefix("fingerprint ")).unwrap().to_owned()
    }

    /// Creates the keys of a relay. Returns the RSA identity.
    fn identity(&self) -> String {
        let folder = self.folder.display().to_string();
        let dummy_authority = format!("x 127.0.0.1:1 {}", "F".repeat(40));
        let output: Output = Command::new(program())
            .args(["-f", "/dev/null", "--ignore-missing-torrc", "--defaults-torrc", "/dev/null", "--quiet"])
            .arg("--list-fingerprint")
            .args(["--ORPort", &self.or.port().to_string(), "--Address", &self.or.ip().to_string()])
            .args(["--Nickname", &self.name, "--DirAuthority", &dummy_authority, "--DataDirectory", &folder])
            .output()
            .expect("C tor is installed: Debian's package tor, or its path in the variable TOR");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let said = fs::read_to_string(self.folder.join("fingerprint")).unwrap();
        said.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// Starts or restarts the node with these options.
    pub(crate) fn start(&mut self, torrc: &str) {
        self.stop();
        let path = self.folder.join("torrc");
        // With this option, C tor also ends if this process is killed.
        let owner = std::process::id();
        let common = format!(
            "TestingTorNetwork 1\nDataDirectory {folder}\nSafeLogging 0\nShutdownWaitLength 0\n\
             __OwningControllerProcess {owner}\nLog info file {folder}/log\nLog warn file {folder}/warnings\n\
             ControlPort {control}\nCookieAuthentication 0\n",
            folder = self.folder.display(),
            control = self.control,
        );
        fs::write(&path, common + torrc).unwrap();
        let mut command = super::command(&self.starter, &program());
        command.args(["--defaults-torrc", "/dev/null", "-f"]).arg(&path);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.place.run(move || command.spawn());
        self.child =
            Some(child.expect("C tor is installed: Debian's package tor, or its path in the variable TOR"));
    }

    /// The process id of a running C tor.
    pub(crate) fn process(&self) -> u32 {
        self.child.as_ref().expect("C tor runs").id()
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The text of a file in the folder of the node.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read(self.folder.join(file))
            .map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The lines of bandwidth events, each second, for the circuits that carry data.
    ///
    /// Source: control-spec, "Bandwidth used on an individual circuit".
    pub(crate) fn circuit_bandwidths(&self) -> impl Iterator<Item = String> + use<> {
        let mut socket = TcpStream::connect(self.control).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.write_all(b"AUTHENTICATE\r\nSETEVENTS CIRC_BW\r\n").unwrap();
        BufReader::new(socket).lines().map_while(Result::ok).filter(|line| line.starts_with("650 CIRC_BW "))
    }

    /// The lines of the answer to a command of the control port.
    ///
    /// Source: control-spec, "Replies".
    pub(crate) fn control(&self, command: &str) -> Vec<String> {
        let mut socket = TcpStream::connect(self.control).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.write_all(format!("AUTHENTICATE\r\n{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let lines = BufReader::new(socket).lines().map_while(Result::ok);
        lines.skip(1).filter(|line| !line.starts_with("250 ")).collect()
    }

    /// The circuits of the streams to this server.
    pub(crate) fn circuits_to(&self, server: SocketAddr) -> Vec<String> {
        let target = server.to_string();
        let lines = self.control("GETINFO stream-status");
        // A single stream is in the first line. Several streams are in the lines that follow.
        let fields =
            lines.iter().map(|line| line.trim_start_matches("250-stream-status=").split(' ').collect());
        let here = fields.filter(|fields: &Vec<&str>| fields.len() > 3 && fields[3] == target);
        here.map(|fields| fields[2].to_owned()).collect()
    }

    /// Whether the client is bootstrapped.
    pub(crate) fn is_bootstrapped(&self) -> bool {
        self.read("log").contains("Bootstrapped 100%")
    }
}

impl Drop for Tor {
    fn drop(&mut self) {
        self.stop();
    }
}

fn program() -> String {
    std::env::var("TOR").unwrap_or_else(|_| "tor".into())
}

/// Addresses with ports that no socket at this place uses.
pub(crate) fn free_addresses<const N: usize>(place: &Place) -> [SocketAddr; N] {
    place.run(|| {
        let listen = |_| std::net::TcpListener::bind((place.address, 0)).unwrap();
        let listeners: [_; N] = std::array::from_fn(listen);
        listeners.map(|listener| listener.local_addr().unwrap())
    })
}

/// Waits until `done` is true. Returns whether this took less than `seconds`.
pub(crate) fn wait(seconds: u32, mut done: impl FnMut() -> bool) -> bool {
    (0..seconds * 5).any(|_| {
        let is_done = done();
        if !is_done {
            std::thread::sleep(Duration::from_millis(200));
        }
        is_done
    })
}
