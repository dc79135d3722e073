//! The measured programs: `penstock-relay` and C tor with the same torrc, and the ceiling.

use crate::place::Place;
use crate::shared::tor;
use penstock_link::cell::LinkSpec;
use penstock_live::clock::Clock;
use penstock_live::keys;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tor_llcrypto::pk::curve25519::PublicKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ceiling,
    Penstock,
    CTor,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Ceiling, Kind::Penstock, Kind::CTor];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Ceiling => "ceiling",
            Kind::Penstock => "penstock",
            Kind::CTor => "ctor",
        }
    }
}

/// A running program. Dropping this value stops the program.
pub(crate) struct Subject {
    child: Child,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
    /// Address and onion key, which clients need to build circuits; `None` for the ceiling.
    pub(crate) relay: Option<(LinkSpec, PublicKey)>,
}

impl Subject {
    /// Starts a program at its place, on a port that no earlier program used. Returns when the program listens.
    pub(crate) fn start(kind: Kind, place: &Place, port: u16) -> Self {
        let address = SocketAddr::new(place.relay_at.into(), port);
        let folder = std::env::temp_dir().join(format!("penstock-middle-{}-{port}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .expect("the system has a folder for temporary files");
        let (mut command, relay) = match kind {
            Kind::Ceiling => {
                let mut command = Command::new(std::env::current_exe().expect("the program has a path"));
                command.args(["--ceiling", &address.to_string()]);
                (command, None)
            }
            Kind::Penstock => by_torrc(Command::new(penstock()), &folder, address),
            Kind::CTor => by_torrc(Command::new(tor()), &folder, address),
        };
        if kind == Kind::CTor {
            // Ignores the system's defaults for tor.
            command.args(["--defaults-torrc", "/dev/null"]);
        }
        let child = place.start(command.stdout(Stdio::null()));
        let mut subject = Subject { child, folder, address, relay };
        subject.wait();
        subject
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) {
        let ready = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            TcpStream::connect(self.address).is_ok()
        });
        let ended = self.child.try_wait();
        assert!(
            ready && matches!(ended, Ok(None)),
            "the program does not listen after 20 s: {:?}",
            self.folder
        );
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the log is in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// This crate's relay, or the program in `PENSTOCK_RELAY`, for example a script that runs the relay under a profiler.
fn penstock() -> String {
    std::env::var("PENSTOCK_RELAY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_penstock-relay").into())
}

/// A relay without a network and without a descriptor. Both programs read this torrc and existing keys. The torrc has
/// no `TestingTorNetwork`. With this option, C tor records each cell for its controller, with an allocation. Relays
/// of the public network do not do this.
fn by_torrc(
    mut command: Command,
    folder: &Path,
    address: SocketAddr,
) -> (Command, Option<(LinkSpec, PublicKey)>) {
    let keys = keys::load_or_create(&folder.join("keys"), &mut rand::rng(), Clock::start().date());
    let keys = keys.expect("the folder is new");
    let (torrc, ip) = (folder.join("torrc"), address.ip());
    let lines = format!(
        "TestingTorNetwork 1\nTestingEnableCellStatsEvent 0\nDataDirectory {folder}\nNickname middle\nAddress {ip}\nORPort {address}\nSocksPort 0\n\
         DirAuthority none 127.0.0.1:1 FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF\nAssumeReachable 1\nExitRelay 0\n\
         PublishServerDescriptor 0\nLog notice file {folder}/log\n\
         BandwidthRate 1 GBytes\nBandwidthBurst 1 GBytes\nCircuitPriorityHalflife 30\n\
         Schedulers KIST\nKISTSchedRunInterval 2 msec\n",
        folder = folder.display()
    );
    fs::write(&torrc, lines).expect("the folder is new");
    command.arg("-f").arg(torrc);
    let spec = LinkSpec {
        addresses: vec![address],
        rsa: keys.rsa_identity(),
        ed25519: Some(keys.ed25519_identity()),
    };
    (command, Some((spec, keys.identities().onion[0].public)))
}
