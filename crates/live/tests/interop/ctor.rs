//! A C tor relay outside of any network. It does not publish a descriptor.

#![allow(dead_code, reason = "each test uses a part of this module")]

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
        CTor::start_configured(
            false,
            "ExitRelay 1\nRefuseUnknownExits 0\nExitPolicy accept *:*\nExitPolicyRejectPrivate 0\nExitPolicyRejectLocalInterfaces 0\n\
             ServerDNSDetectHijacking 0\nServerDNSTestAddresses\nServerDNSAllowBrokenConfig 1\n",
        )
    }

    fn start_configured(with_our_keys: bool, options: &str) -> Self {
        // Another program is unlikely to take the port before C tor does.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder =
            std::env::temp_dir().join(format!("penstock-interop-{}-{}", std::process::id(), address.port()));
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        if with_our_keys {
            keys::load_or_create(&folder.join("keys"), &mut rand::rng(), super::now()).unwrap();
        }
        let process = Process::start(address, folder, options);
        process.wait(address);
        // Penstock's code also reads the key files of C tor.
        let keys =
            keys::load_or_create(&process.folder.join("keys"), &mut rand::rng(), super::now()).unwrap();
        CTor { process, address, keys }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { rsa: self.keys.rsa_identity(), ed25519: self.keys.ed25519_identity() }
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
    fn start(address: SocketAddr, folder: PathBuf, options: &str) -> Self {
        let torrc = folder.join("torrc");
        let lines = format!(
            "TestingTorNetwork 1\nDataDirectory {folder}\nNickname ctor\nAddress 127.0.0.1\nORPort {address}\nSocksPort 0\n\
             DirAuthority none 127.0.0.1:1 FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\nAssumeReachable 1\n{options}\
             PublishServerDescriptor 0\nLog info file {folder}/log\n",
            folder = folder.display()
        );
        fs::write(&torrc, lines).unwrap();
        let program = std::env::var("TOR").unwrap_or_else(|_| "tor".into());
        let child = Command::new(program)
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
