//! A C tor relay outside of any network. It does not publish a descriptor.

#![allow(dead_code, reason = "each test uses a part of this module")]

use super::common::Hop;
use super::common::program::with_descriptors;
use penstock_link::cell::LinkSpec;
use penstock_link::certs::Identity;
use penstock_link::keys::Keys;
use penstock_live::keys;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tor_llcrypto::pk::curve25519::PublicKey;

/// Options of an exit.
const EXIT: &str = "ExitRelay 1\nRefuseUnknownExits 0\nExitPolicy accept *:*\nExitPolicyRejectPrivate 0\n\
                    ExitPolicyRejectLocalInterfaces 0\nServerDNSDetectHijacking 0\nServerDNSTestAddresses\n\
                    ServerDNSAllowBrokenConfig 1\n";

/// The program: `tor`, or the path in the variable TOR.
pub(crate) fn program() -> String {
    std::env::var("TOR").unwrap_or_else(|_| "tor".into())
}

/// The process and its folder. Dropping this value removes both.
struct Process {
    child: Child,
    folder: PathBuf,
}

/// A C tor relay.
pub(crate) struct CTor {
    process: Process,
    pub(crate) address: SocketAddr,
    keys: Keys,
}

impl CTor {
    /// Starts the relay with keys from Penstock, or with keys of its own.
    pub(crate) fn start(with_our_keys: bool) -> Self {
        CTor::start_configured(with_our_keys, "ExitRelay 0\n")
    }

    /// Starts a relay whose streams may go to any address.
    pub(crate) fn exit() -> Self {
        CTor::start_configured(false, EXIT)
    }

    /// Starts such a relay with additional options and a limit on file descriptors.
    pub(crate) fn exit_with(options: &str, descriptors: usize) -> Self {
        CTor::start_by(with_descriptors(descriptors).arg(program()), false, &format!("{EXIT}{options}"))
    }

    fn start_configured(with_our_keys: bool, options: &str) -> Self {
        CTor::start_by(&mut Command::new(program()), with_our_keys, options)
    }

    fn start_by(command: &mut Command, with_our_keys: bool, options: &str) -> Self {
        // Another program is unlikely to take the port before C tor does.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder =
            std::env::temp_dir().join(format!("penstock-interop-{}-{}", std::process::id(), address.port()));
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        if with_our_keys {
            keys::load_or_create(&folder.join("keys"), &mut rand::rng(), super::now()).unwrap();
        }
        let process = Process::start(command, address, folder, options);
        process.wait(address);
        // Penstock's code also reads the key files of C tor.
        let keys =
            keys::load_or_create(&process.folder.join("keys"), &mut rand::rng(), super::now()).unwrap();
        CTor { process, address, keys }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { rsa: self.keys.rsa_identity(), ed25519: self.keys.ed25519_identity() }
    }

    /// The link specifiers and the onion key.
    pub(crate) fn hop(&self) -> Hop {
        let Identity { rsa, ed25519 } = self.identity();
        (LinkSpec { addresses: vec![self.address], rsa, ed25519: Some(ed25519) }, self.onion_key())
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    pub(crate) fn onion_key(&self) -> PublicKey {
        self.keys.identities().onion[0].public
    }
}

impl Process {
    fn start(command: &mut Command, address: SocketAddr, folder: PathBuf, options: &str) -> Self {
        let torrc = folder.join("torrc");
        let lines = format!(
            "TestingTorNetwork 1\nDataDirectory {folder}\nNickname ctor\nAddress 127.0.0.1\nORPort {address}\nSocksPort 0\n\
             DirAuthority none 127.0.0.1:1 FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\nAssumeReachable 1\n{options}\
             PublishServerDescriptor 0\nLog info file {folder}/log\n",
            folder = folder.display()
        );
        fs::write(&torrc, lines).unwrap();
        let child = command
            .args(["--defaults-torrc", "/dev/null", "-f"])
            .arg(&torrc)
            .stdout(Stdio::null())
            .spawn()
            .expect("C tor is installed: Debian's package tor, or its path in the variable TOR");
        Process { child, folder }
    }

    /// Waits until the relay listens and knows its address. Before that it does not send its
    /// address.
    fn wait(&self, address: SocketAddr) {
        let knows =
            || fs::read_to_string(self.folder.join("log")).is_ok_and(|log| log.contains("Address found"));
        let ready = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            TcpStream::connect(address).is_ok() && knows()
        });
        assert!(ready, "C tor does not start within a minute");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("C tor's log is in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
