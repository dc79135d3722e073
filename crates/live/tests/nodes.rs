//! Penstock nodes on loopback, and a client that sends individual cells: circuits with up to three
//! hops.

mod common;

use common::{Client, Running, pattern, serve, silent_server};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use penstock_core::channel_map::ChannelMapConfig;
use penstock_core::config::Refill;
use penstock_core::scheduler::{
    GlobalConfig, KistConfig, KistDeployedConfig, KistLiteConfig, SchedulerConfig,
};
use penstock_core::throttle::{Aggregate, ClientBuckets, StaticRateConfig, ThrottleConfig};
use penstock_core::{Cell, Command, EndReason, RelayConfig, StreamId};
use penstock_fuzzing::samples;
use penstock_link::cell::{Handshake, HandshakeKind, LinkSpec, LivePayload, RelayMessage, Target};
use penstock_link::crypto::ntor;
use penstock_link::descriptor::{Description, ExitPolicy, Private};
use penstock_link::keys::Keys;
use penstock_live::clock::Clock;
use penstock_live::directory::{Authority, OperatorOverrides, RetryPolicy};
use penstock_live::node::{Membership, Node, NodeConfig};
use penstock_units::{Bytes, DataRate, Duration};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::SystemTime;
use tor_llcrypto::pk::curve25519::PublicKey;

fn downloads(scheduler: &SchedulerConfig) {
    let nodes: [Running; 3] = std::array::from_fn(|_| Running::start(scheduler.clone()));
    let path: Vec<_> = nodes.iter().map(Running::hop).collect();
    for hops in 1..=3 {
        let mut client = Client::connect(&path[0].0);
        client.build(&path[..hops]);
        for (number, bytes) in (1..).zip([0, 1, 498, 10_000, 1_000_000]) {
            let received = client.download(serve(bytes), number);
            assert!(
                received == pattern(bytes),
                "{hops} hops, {bytes} B, {scheduler:?}: {} B arrived",
                received.len()
            );
        }
    }
}

#[test]
fn a_download_over_three_nodes_is_unchanged() {
    downloads(&SchedulerConfig::default());
}

#[test]
fn a_download_is_unchanged_with_every_scheduler() {
    let kinds = [
        SchedulerConfig::Global(GlobalConfig::default()),
        SchedulerConfig::Kist(KistConfig::default()),
        SchedulerConfig::KistDeployed(KistDeployedConfig::default()),
        SchedulerConfig::KistLite(KistLiteConfig::default()),
    ];
    kinds.iter().for_each(downloads);
}

/// PCTCP: each circuit of two nodes has a connection of its own. The client has one link with two circuits.
#[test]
fn circuits_share_a_connection_or_have_one_each() {
    for (channel_map, expected) in
        [(ChannelMapConfig::Shared, [2, 1]), (ChannelMapConfig::PerCircuit, [3, 2])]
    {
        let nodes: [Running; 2] = std::array::from_fn(|_| {
            Running::start_configured(|config| config.relay.channel_map = channel_map.clone())
        });
        let path: Vec<_> = nodes.iter().map(Running::hop).collect();
        let mut client = Client::connect(&path[0].0);
        client.build(&path);
        let first = client.new_circuit(8);
        client.build(&path);
        assert!(client.download(serve(300_000), 1) == pattern(300_000));
        client.switch_circuit(first);
        assert!(client.download(serve(300_000), 2) == pattern(300_000));
        let channels = nodes.each_ref().map(|node| node.observations.next_observation().population[0]);
        assert_eq!(channels, expected, "{channel_map:?}");
    }
}

/// A descriptor's content, with a contact of `contact` bytes [B].
fn description(node: &Node, started: SystemTime, contact: usize) -> Description {
    Description {
        nickname: "member".into(),
        address: Ipv4Addr::LOCALHOST,
        or_port: node.listens_at().unwrap().port(),
        ipv6: None,
        platform: None,
        protocols: "Link=4-5".into(),
        started,
        bandwidth: [1, 1, 0],
        contact: Some("x".repeat(contact)),
        family: Vec::new(),
        directory: false,
        policy: ExitPolicy::new(Vec::new(), Private::AsRules, Vec::new()),
    }
}

/// Starts a relay of a network without authorities. Its descriptor has a contact of `contact` bytes
/// [B].
fn member(contact: usize, directory: bool) -> Running {
    let date = Clock::start().date();
    let keys = Keys::generate(&mut rand::rng(), date);
    let onion = keys.identities().onion[0].public;
    let localhost = Ipv4Addr::LOCALHOST;
    let policy = ExitPolicy::new(Vec::new(), Private::AsRules, Vec::new());
    let listen = SocketAddr::new(localhost.into(), 0);
    let relay = RelayConfig::default();
    let config = NodeConfig {
        extend_to_private: true,
        ..NodeConfig::new(listen, localhost.into(), relay, policy.clone())
    };
    let (sender, receiver) = std::sync::mpsc::channel::<(LinkSpec, i32)>();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut node = Node::bind(config, keys).unwrap();
        let description = Description { directory, policy, ..description(&node, date, contact) };
        let (authorities, retry) = (Vec::new(), RetryPolicy::TESTING);
        node.join(Membership {
            authorities,
            description: Some(description),
            publish: true,
            overrides: OperatorOverrides::default(),
            retry,
            bandwidth_history: None,
        })
        .unwrap();
        while node.documents().unwrap().own().is_none() {
            node.turn().unwrap();
        }
        sender.send((node.link_spec().unwrap(), nix::unistd::gettid().as_raw())).unwrap();
        while !flag.load(Ordering::Relaxed) {
            node.turn().unwrap();
        }
    });
    let (spec, task) = receiver.recv().unwrap();
    Running { spec, onion, stop, thread: Some(thread), task, observations: Default::default() }
}

/// The directory port of an authority. It has no documents until `voted` is true.
fn authority(voted: Arc<AtomicBool>) -> SocketAddr {
    const DOCUMENTS: [(&str, &str); 4] = [
        ("keys", samples::CERTIFICATES),
        ("consensus-microdesc", samples::MICRO),
        ("consensus", samples::PLAIN),
        ("", ""),
    ];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut request = vec![0; 4096];
            let len = socket.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..len]);
            let document = DOCUMENTS.iter().find(|(name, _)| request.contains(name)).unwrap().1;
            let document = if voted.load(Ordering::Relaxed) { document } else { "" };
            // The node may have ended.
            let _ = write!(socket, "HTTP/1.0 200 OK\r\n\r\n{document}");
        }
    });
    address
}

/// Whether the relay lets a stream to a server exit from a circuit of one hop.
fn can_exit(client: &mut Client, server: SocketAddr, number: u16) -> bool {
    client.begin(server, NonZeroU16::new(number).map(StreamId));
    match client.receive_message().1 {
        RelayMessage::Connected(_) => true,
        RelayMessage::End(end) if end == EndReason::PROTOCOL.into() => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_the_consensus_does_not_list_is_a_client() {
    // The time is one minute before the valid-after time of the sample consensus.
    let date = humantime::parse_rfc3339("2026-11-22T09:20:20Z").unwrap();
    let behind = Clock::start().date().duration_since(date).map(|behind| behind.as_secs() as i64);
    let ahead = behind.map_or_else(|ahead| ahead.duration().as_secs() as i64, |behind| -behind);
    let clock = Clock::start().off_by(ahead);
    let voted = Arc::new(AtomicBool::new(false));
    let dir_port = authority(voted.clone());
    let identities = [
        "0B09811CFD07A5889D56CABF8536096F665D2D76",
        "3B985D2E3AC835F1A7325AB9D35198337A5A0766",
        "AD8C0D291157755D9862C60BE77E6C9216947339",
    ];
    let known = |identity: &str| {
        let v3ident = std::array::from_fn(|n| u8::from_str_radix(&identity[2 * n..2 * n + 2], 16).unwrap());
        Authority { nickname: "a".into(), v3ident, dir_port }
    };
    let authorities = identities.map(known).to_vec();
    let change = |config: &mut NodeConfig| {
        (config.clock, config.single_hop) = (clock, false);
        let rate = DataRate::new(100_000).unwrap();
        config.relay.throttle = ThrottleConfig::Static(StaticRateConfig { rate });
        let aggregate = Aggregate::Connection;
        config.relay.client_buckets = ClientBuckets { burst: Bytes::new(100_000), aggregate };
        config.relay.refill = Refill::TOR_0_4_9;
    };
    let node = Running::start_with_setup(change, move |node| {
        let description = description(node, date, 1);
        let overrides = OperatorOverrides { throttle: true, ..OperatorOverrides::default() };
        let membership = Membership {
            authorities,
            description: Some(description),
            publish: false,
            overrides,
            retry: RetryPolicy::TESTING,
            bandwidth_history: None,
        };
        node.join(membership).unwrap();
    });
    // With the date of today, the exit would refuse the node's certificates.
    let exit = Running::start_configured(|config| config.clock = clock);
    let server = silent_server();
    let mut client = Client::connect_as_relay(&node.spec, clock);
    client.build(&[node.hop()]);
    let one_hop = client.new_circuit(8);
    client.build(&[node.hop(), exit.hop()]);
    let seconds = |client: &mut Client, number| {
        let begun = clock.now();
        assert!(client.download(serve(400_000), number) == pattern(400_000));
        clock.now().since(begun).as_secs_f64()
    };
    let before = seconds(&mut client, 1);
    let two_hops = client.switch_circuit(one_hop);
    assert!(can_exit(&mut client, server, 1), "without a consensus the peer counts as a relay");

    voted.store(true, Ordering::Relaxed);
    let asked = (2..).find(|number| {
        std::thread::sleep(Duration::from_millis(200));
        *number == 150 || !can_exit(&mut client, server, *number)
    });
    assert!(asked < Some(150), "the relay has a consensus after half a minute");
    // The throttle starts within a second.
    std::thread::sleep(Duration::from_secs(2));
    let _ = client.switch_circuit(two_hops);
    let after = seconds(&mut client, 2);
    println!("400 kB took {before:.2} s before the consensus and {after:.2} s after it");
    assert!(before < 2.0 && after > 2.5, "{before} s, {after} s");
    // The same holds for a new link.
    let mut again = Client::connect_as_relay(&node.spec, clock);
    again.build(&[node.hop()]);
    assert!(!can_exit(&mut again, server, 1));
}

/// Sends a request on a new directory stream, without waiting for CONNECTED. Returns the answer.
fn ask(client: &mut Client, number: u16, request: &str) -> String {
    let stream = NonZeroU16::new(number).map(StreamId);
    client.send_message(stream, &RelayMessage::Begin(Target::Directory));
    for chunk in request.as_bytes().chunks(498) {
        client.send_message(stream, &RelayMessage::Data(LivePayload::new(chunk).unwrap()));
    }
    String::from_utf8(client.read_to_end(stream)).unwrap()
}

#[test]
fn directory_documents_arrive_over_one_and_three_hops() {
    let nodes: [Running; 3] = std::array::from_fn(|_| member(300_000, true));
    let path: Vec<_> = nodes.iter().map(Running::hop).collect();
    for hops in [1, 3] {
        let mut client = Client::connect(&path[0].0);
        client.build(&path[..hops]);
        // A request of one cell, and a request of many cells.
        for (number, header) in [(1, 0), (2, 20_000)] {
            let header = "y".repeat(header);
            let request = format!("GET /tor/server/authority.z HTTP/1.0\r\nX: {header}\r\n\r\n");
            let answer = ask(&mut client, number, &request);
            let (head, body) = answer.split_once("\r\n\r\n").expect("the answer has a head");
            assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}: {} B", body.len());
            assert!(body.starts_with("router member 127.0.0.1 ") && body.len() > 300_000, "{} B", body.len());
        }
        let answer = ask(&mut client, 3, "GET /tor/keys/all HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.0 404 Not found\r\n"), "{answer}");
        let answer = ask(&mut client, 4, &"z".repeat(40_000));
        assert!(answer.starts_with("HTTP/1.0 400 Bad request\r\n"), "{answer}");
    }
}

#[test]
fn a_relay_without_directory_serves_no_document() {
    let node = member(10, false);
    let mut client = Client::connect(&node.spec);
    client.build(&[node.hop()]);
    assert_eq!(ask(&mut client, 1, "GET /tor/server/authority HTTP/1.0\r\n\r\n"), "");
}

/// Sends an EXTEND2 and does not wait for the answer.
fn extend(client: &mut Client, (to, onion): &(LinkSpec, PublicKey)) {
    let ntor = ntor::Client::start(&mut rand::rng(), to.rsa, *onion);
    let handshake = Handshake { kind: HandshakeKind::Ntor, data: ntor.message() };
    client.send_message(None, &RelayMessage::Extend(to.clone(), handshake));
}

/// A relay, with a wrong address.
fn at_address(relay: &Running, at: SocketAddr) -> (LinkSpec, PublicKey) {
    (LinkSpec { addresses: vec![at], ..relay.spec.clone() }, relay.onion)
}

/// A relay, without its ed25519 identity.
fn without_ed25519(relay: &Running) -> (LinkSpec, PublicKey) {
    (LinkSpec { ed25519: None, ..relay.spec.clone() }, relay.onion)
}

/// Extends circuits to 1100 unknown relay identities at the address `at`, and calls `then` after
/// each EXTEND2.
fn extend_to_unknown_relays(
    client: &mut Client,
    [middle, exit]: [&Running; 2],
    at: SocketAddr,
    then: impl Fn(&mut Client),
) {
    let mut unknown_relay = at_address(exit, at);
    for stranger in 0..1100_u32 {
        client.new_circuit(100 + stranger);
        client.build(&[middle.hop()]);
        unknown_relay.0.rsa[..4].copy_from_slice(&stranger.to_be_bytes());
        extend(client, &unknown_relay);
        then(client);
    }
}

#[test]
fn a_wrong_address_in_an_extend_delays_no_other_circuit() {
    let [middle, exit]: [Running; 2] = std::array::from_fn(|_| {
        Running::start_with_timeout(SchedulerConfig::default(), Duration::from_secs(10))
    });
    let mut client = Client::connect(&middle.spec);
    // Two silent servers listen, one on another address and one on the relay's own address.
    let silent = ["127.0.0.2:0", "127.0.0.1:0"].map(|at| TcpListener::bind(at).unwrap());
    for (id, silent) in (8..).zip(&silent) {
        client.build(&[middle.hop()]);
        extend(&mut client, &at_address(&exit, silent.local_addr().unwrap()));
        client.new_circuit(id);
    }
    client.build(&[middle.hop(), exit.hop()]);
    assert_eq!(client.download(serve(10_000), 1), pattern(10_000));
}

/// A proxy that waits for a second and then forwards its connection to `to`.
struct Proxy {
    at: SocketAddr,
    /// Signals that a client connected.
    connected: Receiver<()>,
    /// Forwarded bytes in both directions [B].
    forwarded: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let (at, forwarded) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let ((sender, connected), count) = (channel(), forwarded.clone());
        std::thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            sender.send(()).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(1));
            let far = TcpStream::connect(to).unwrap();
            let ends = [&near, &far].map(|end| end.try_clone().unwrap());
            let back = count.clone();
            std::thread::spawn(move || forward(far, near, &back));
            let [near, far] = ends;
            forward(near, far, &count);
        });
        Proxy { at, connected, forwarded }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, forwarded: &AtomicUsize) {
    let mut room = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut room) {
        forwarded.fetch_add(len, Ordering::Relaxed);
        if to.write_all(&room[..len]).is_err() {
            return;
        }
    }
}

#[test]
fn a_man_in_the_middle_gets_only_circuits_to_its_own_address() {
    let [middle, exit]: [Running; 2] = std::array::from_fn(|_| Running::start(SchedulerConfig::default()));
    let proxy = Proxy::start(exit.spec.addresses[0]);
    let [mut attacker, mut client] = [&middle, &middle].map(|guard| Client::connect(&guard.spec));
    attacker.build(&[middle.hop()]);
    extend(&mut attacker, &at_address(&exit, proxy.at));
    proxy.connected.recv().unwrap();
    // Meanwhile the attacker's own circuit waits.
    client.build(&[middle.hop(), exit.hop()]);
    assert!(matches!(attacker.receive_message(), (None, RelayMessage::Extended(_), _)));
    // The same holds after the attacker's link is up.
    for id in [8, 9] {
        assert_eq!(client.download(serve(200_000), 1), pattern(200_000));
        client.new_circuit(id);
        client.build(&[middle.hop(), exit.hop()]);
    }
    let forwarded = proxy.forwarded.load(Ordering::Relaxed);
    assert!((1..50_000).contains(&forwarded), "{forwarded} B");
    // An EXTEND2 to the proxy's address now uses the existing canonical link.
    client.new_circuit(10);
    client.build(&[middle.hop(), at_address(&exit, proxy.at)]);
    assert_eq!(client.download(serve(200_000), 1), pattern(200_000));
    assert!(proxy.forwarded.load(Ordering::Relaxed) < 50_000);
    assert_eq!(
        middle.observations.next_observation().population[0],
        4,
        "two clients, the attacker's link and the canonical link"
    );
}

#[test]
fn an_extend_without_ed25519_identity_shares_an_existing_link() {
    let [middle, exit]: [Running; 2] = std::array::from_fn(|_| Running::start(SchedulerConfig::default()));
    // The other client's circuit opens the link.
    let mut other = Client::connect(&exit.spec);
    other.build(&[exit.hop(), middle.hop()]);
    let mut client = Client::connect(&middle.spec);
    client.build(&[middle.hop(), without_ed25519(&exit)]);
    assert_eq!(middle.observations.next_observation().population[0], 2, "the client and the other relay");
}

#[test]
fn a_relay_with_a_link_keeps_its_number_after_a_cleanup() {
    let [middle, exit]: [Running; 2] = std::array::from_fn(|_| Running::start(SchedulerConfig::default()));
    let mut client = Client::connect(&middle.spec);
    client.build(&[middle.hop(), without_ed25519(&exit)]);
    extend_to_unknown_relays(
        &mut client,
        [&middle, &exit],
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1),
        |client| {
            assert_eq!(client.receive().command(), Command::Destroy);
        },
    );
    client.new_circuit(8);
    client.build(&[middle.hop(), without_ed25519(&exit)]);
    assert_eq!(middle.observations.next_observation().population[0], 2, "the client and the other relay");
}

#[test]
fn unfinished_links_do_not_block_new_circuits() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if most < 4096 {
        println!("skipped: the limit of open files is {most}");
        return;
    }
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let [middle, exit]: [Running; 2] = std::array::from_fn(|_| Running::start(SchedulerConfig::default()));
    // No program accepts the connections, so the links in the backlog never finish.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = Client::connect(&middle.spec);
    extend_to_unknown_relays(&mut client, [&middle, &exit], silent.local_addr().unwrap(), |_| {});
    // The relay rejects the circuits above its limit.
    assert_eq!(client.receive().command(), Command::Destroy);
    assert!(
        middle.observations.next_observation().opening <= 1024,
        "{}",
        middle.observations.next_observation().opening
    );
    let mut other = Client::connect(&middle.spec);
    other.build(&[middle.hop(), exit.hop()]);
    assert!(other.download(serve(10_000), 1) == pattern(10_000));
}
