//! A node of ours that is a relay of the network, in a thread of its own.

use super::Network;
use super::tor::Role;
use crate::seen::{Seen, Window};
use penstock_core::RelayConfig;
use penstock_core::edge_control::{EdgeControlConfig, VegasConfig};
use penstock_core::scheduler::SchedulerConfig;
use penstock_link::descriptor::{Description, ExitPolicy, Private};
use penstock_live::clock::Clock;
use penstock_live::directory::{Authority, DirectoryEvent, OperatorOverrides, RetryPolicy};
use penstock_live::keys;
use penstock_live::node::{Membership, Node, NodeConfig, Observation};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// What of protocols a node of ours speaks, which its descriptor says: with congestion control, or without it.
const PROTOCOLS: [&str; 2] = [
    "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-3",
    "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-4",
];

/// A relay of ours; it ends with this.
pub(crate) struct Ours {
    pub(crate) nickname: String,
    pub(crate) fingerprint: String,
    pub(crate) address: SocketAddr,
    notes: Arc<Mutex<Vec<DirectoryEvent>>>,
    /// It has all documents.
    whole: Arc<AtomicBool>,
    window: Window,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What it is.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) relay: RelayConfig,
    pub(crate) is_exit: bool,
    /// So much is its clock ahead [s].
    pub(crate) ahead: i64,
}

impl Options {
    /// An exit with congestion control.
    pub(crate) fn exit(scheduler: SchedulerConfig) -> Self {
        let edge_control = EdgeControlConfig::Vegas(VegasConfig::default());
        let relay =
            RelayConfig { edge_control, scheduler, authenticated_sendmes: true, ..RelayConfig::default() };
        Options { relay, is_exit: true, ahead: 0 }
    }
}

impl Ours {
    /// A relay of this name, whose keys are in the network's folder, and stay there.
    pub(crate) fn join(network: &Network, nickname: &str, options: Options) -> Self {
        let folder = network.folder.join(nickname);
        let authorities = authorities(network);
        let (said, hears) = std::sync::mpsc::channel();
        let (stop, notes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let whole = Arc::new(AtomicBool::new(false));
        let window = Window::default();
        let (flag, noted, complete, looks) = (stop.clone(), notes.clone(), whole.clone(), window.clone());
        let name = nickname.to_owned();
        let thread = std::thread::spawn(move || {
            let (mut node, fingerprint) = begin(&folder, &name, options, authorities);
            said.send((fingerprint, node.listens_at().unwrap())).unwrap();
            while !flag.load(Ordering::Relaxed) {
                node.turn().unwrap();
                complete.store(node.documents().is_some_and(|all| all.is_complete()), Ordering::Relaxed);
                noted.lock().unwrap().extend(std::iter::from_fn(|| node.poll_directory_event()));
                looks.look(&node);
            }
        });
        let (fingerprint, address) = hears.recv().expect("the node begins");
        Ours {
            nickname: nickname.into(),
            fingerprint,
            address,
            notes,
            whole,
            window,
            stop,
            thread: Some(thread),
        }
    }

    /// Whether it has all documents that the consensus names.
    pub(crate) fn has_whole_directory(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// What it looked like so far.
    pub(crate) fn seen(&self) -> Seen {
        self.window.seen()
    }

    /// What it looks like from now on.
    pub(crate) fn look(&self) -> Observation {
        self.window.now()
    }

    /// What it noted.
    pub(crate) fn notes(&self) -> Vec<DirectoryEvent> {
        self.notes.lock().unwrap().clone()
    }

    /// When the newest consensus that it has began to be in force.
    pub(crate) fn consensus(&self) -> Option<SystemTime> {
        let after = |note: &DirectoryEvent| match note {
            DirectoryEvent::Consensus(_, after) => Some(*after),
            _ => None,
        };
        self.notes().iter().filter_map(after).max()
    }
}

fn begin(folder: &Path, nickname: &str, options: Options, authorities: Vec<Authority>) -> (Node, String) {
    let clock = Clock::start().off_by(options.ahead);
    let now = clock.date();
    let keys = keys::load_or_create(folder, &mut rand::rng(), now).unwrap();
    let fingerprint = keys.fingerprint();
    let rules = if options.is_exit { vec!["accept *:*".parse().unwrap()] } else { Vec::new() };
    let policy = ExitPolicy::new(rules, Private::AsRules, Vec::new());
    let localhost = Ipv4Addr::LOCALHOST;
    let speaks_vegas = matches!(options.relay.edge_control, EdgeControlConfig::Vegas(_));
    // The port of before, so that whoever knows the relay finds it again.
    let port_file = folder.join("port");
    let port = std::fs::read_to_string(&port_file).map_or(0, |port| port.parse().unwrap());
    let listen = SocketAddr::new(localhost.into(), port);
    let config = NodeConfig {
        keys_folder: Some(folder.to_owned()),
        extend_to_private: true,
        clock,
        ..NodeConfig::new(listen, localhost.into(), options.relay, policy.clone())
    };
    let mut node = Node::bind(config, keys).unwrap();
    let or_port = node.listens_at().unwrap().port();
    std::fs::write(port_file, or_port.to_string()).unwrap();
    let description = Description {
        nickname: nickname.into(),
        address: localhost,
        or_port,
        ipv6: None,
        platform: Some("Penstock on Linux".into()),
        protocols: PROTOCOLS[usize::from(speaks_vegas)].into(),
        started: now,
        bandwidth: [1 << 30, 1 << 30, 0],
        contact: None,
        family: Vec::new(),
        directory: true,
        policy,
    };
    let membership = Membership {
        authorities,
        description,
        publish: true,
        overrides: OperatorOverrides { edge_control: true, ..OperatorOverrides::default() },
        retry: RetryPolicy::TESTING,
    };
    node.join(membership).unwrap();
    (node, fingerprint)
}

fn authorities(network: &Network) -> Vec<Authority> {
    let ours = network.tors.iter().filter(|tor| tor.role == Role::Authority);
    let bytes = |digits: &str| {
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        std::array::from_fn(byte)
    };
    ours.map(|tor| Authority { nickname: tor.name.clone(), v3ident: bytes(&tor.v3ident), dir_port: tor.dir })
        .collect()
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if std::thread::panicking() {
            eprintln!("{} noted {:?}", self.nickname, self.notes());
        } else {
            ended.expect("it was started").expect("a node does not panic");
        }
    }
}
