//! A Penstock relay of the network, in its own thread.

use super::Network;
use super::tor::Role;
use crate::observations::{Observations, Summary};
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

/// The protocol versions in the descriptor: without congestion control, and with it.
const PROTOCOLS: [&str; 2] = [
    "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1 HSIntro=4-5 HSRend=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-3",
    "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSIntro=4-5 HSRend=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-4",
];

/// A Penstock relay. Dropping this value stops it.
pub(crate) struct PenstockRelay {
    pub(crate) nickname: String,
    pub(crate) fingerprint: String,
    pub(crate) address: SocketAddr,
    events: Arc<Mutex<Vec<DirectoryEvent>>>,
    /// Whether the relay has all documents.
    whole: Arc<AtomicBool>,
    observations: Observations,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The options of a Penstock relay.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) relay: RelayConfig,
    pub(crate) is_exit: bool,
    /// The error of the relay's clock [s]. A positive value is a clock that is ahead.
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

impl PenstockRelay {
    /// Starts a relay. Its keys stay in the network's folder, so it keeps them when it restarts.
    pub(crate) fn join(network: &Network, nickname: &str, options: Options) -> Self {
        let folder = network.folder.join(nickname);
        let authorities = authorities(network);
        let (sender, receiver) = std::sync::mpsc::channel();
        let (stop, events) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let whole = Arc::new(AtomicBool::new(false));
        let observations = Observations::default();
        let (flag, recorded_events, complete, recorder) =
            (stop.clone(), events.clone(), whole.clone(), observations.clone());
        let name = nickname.to_owned();
        let thread = std::thread::spawn(move || {
            let (mut node, fingerprint) = begin(&folder, &name, options, authorities);
            sender.send((fingerprint, node.listens_at().unwrap())).unwrap();
            while !flag.load(Ordering::Relaxed) {
                node.turn().unwrap();
                complete.store(node.documents().is_some_and(|all| all.is_complete()), Ordering::Relaxed);
                recorded_events.lock().unwrap().extend(std::iter::from_fn(|| node.poll_directory_event()));
                recorder.record(&node);
            }
        });
        let (fingerprint, address) = receiver.recv().expect("the node starts");
        PenstockRelay {
            nickname: nickname.into(),
            fingerprint,
            address,
            events,
            whole,
            observations,
            stop,
            thread: Some(thread),
        }
    }

    /// Whether the relay has all documents that the consensus lists.
    pub(crate) fn has_whole_directory(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// The observations so far.
    pub(crate) fn summary(&self) -> Summary {
        self.observations.summary()
    }

    /// The next observation.
    pub(crate) fn observe(&self) -> Observation {
        self.observations.next_observation()
    }

    /// The directory events so far.
    pub(crate) fn events(&self) -> Vec<DirectoryEvent> {
        self.events.lock().unwrap().clone()
    }

    /// The valid-after time of the newest consensus that the relay has.
    pub(crate) fn consensus(&self) -> Option<SystemTime> {
        let after = |event: &DirectoryEvent| match event {
            DirectoryEvent::Consensus(_, after) => Some(*after),
            _ => None,
        };
        self.events().iter().filter_map(after).max()
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
    let n23 = if options.relay.hop_control.is_active() { " N23=1" } else { "" };
    let conflux = if options.relay.conflux.is_some() { "Conflux=1 " } else { "" };
    // A restarted relay keeps its port, so that clients find it.
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
        protocols: format!("{conflux}{}{n23}", PROTOCOLS[usize::from(speaks_vegas)]),
        started: now,
        bandwidth: [1 << 30, 1 << 30, 0],
        contact: None,
        family: Vec::new(),
        directory: true,
        policy,
    };
    let membership = Membership {
        authorities,
        description: Some(description),
        publish: true,
        overrides: OperatorOverrides { edge_control: true, ..OperatorOverrides::default() },
        retry: RetryPolicy::TESTING,
        bandwidth_history: None,
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

impl Drop for PenstockRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if std::thread::panicking() {
            eprintln!("directory events of {}: {:?}", self.nickname, self.events());
        } else {
            ended.expect("the node was started").expect("a node does not panic");
        }
    }
}
