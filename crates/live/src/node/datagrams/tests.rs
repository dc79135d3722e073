//! Nodes with datagrams on loopback, behind a middlebox, and with hostile peers.

use super::path::{Path, PathState, udp_socket};
use super::*;
use crate::dtls::{DtlsIdentity, FINISHED_MEMORY, SESSION_MEMORY};
use crate::node::proxy::tests::{Running, client_with, echo, echoed, relay_config, relay_with, socks};
use crate::node::shares::Host;
use crate::node::{NodeConfig, NodeCounters, test_node};
use penstock_core::RelayConfig;
use penstock_core::datagram::{DatagramConfig, DatagramCounters, Downstream, MAX_DATAGRAM, Message};
use penstock_core::hop_control::{BackTapConfig, Counts, HopControlConfig, MarutConfig, MiddleWindow};
use penstock_link::cell::{Handshake, HandshakeKind, LiveCell, command};
use penstock_link::datagram::{Hello, PathOffer};
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_link::handshake::MAX_TOTAL;
use penstock_link::keys::Keys;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu_discover, ipv6_mtu_discover};
use std::io::Write;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

/// Changes the packets of a UDP socket, as a faulty network does. The probabilities are in percent.
#[derive(Clone, Debug, Default)]
pub(in crate::node) struct Middlebox {
    drop: u64,
    duplicate: u64,
    delay: u64,
    truncate: u64,
    corrupt: u64,
    /// The middlebox drops all packets after this number of packets [1].
    blocks_after: Option<u64>,
    /// After a number of packets [1], the middlebox drops packets above a size [B].
    narrows: Option<(u64, usize)>,
    /// Copies of all packets, before changes.
    seen: Option<Arc<Mutex<Vec<Vec<u8>>>>>,
    random: u64,
    passed: u64,
    delayed: Vec<Vec<u8>>,
}

impl Middlebox {
    fn happens(&mut self, percent: u64) -> bool {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % 100 < percent
    }

    pub(super) fn pass(&mut self, socket: &UdpSocket, packet: &[u8]) {
        if let Some(seen) = &self.seen {
            seen.lock().unwrap().push(packet.to_vec());
        }
        self.passed += 1;
        if self.blocks_after.is_some_and(|most| self.passed > most) || self.happens(self.drop) {
            return;
        }
        if self.narrows.is_some_and(|(after, size)| self.passed > after && packet.len() > size) {
            return;
        }
        let mut packet = packet.to_vec();
        if self.happens(self.truncate) {
            packet.truncate(packet.len() / 2);
        }
        if self.happens(self.corrupt) {
            let place = (self.random >> 33) as usize % packet.len();
            packet[place] ^= 1;
        }
        if self.happens(self.delay) {
            return self.delayed.push(packet);
        }
        // The peer may have closed its socket.
        let _ = socket.send(&packet);
        if self.happens(self.duplicate) {
            let _ = socket.send(&packet);
        }
        if self.delayed.len() > 3 || !self.happens(70) {
            for packet in self.delayed.drain(..) {
                let _ = socket.send(&packet);
            }
        }
    }
}

fn backtap() -> RelayConfig {
    let hop_control = HopControlConfig::BackTap(BackTapConfig::default());
    // Loopback has a short round trip.
    let config = DatagramConfig { min_timeout: Duration::from_millis(100), ..DatagramConfig::default() };
    RelayConfig { hop_control, datagrams: Some(config), ..relay_config() }
}

/// Sends bytes from a client over three relays to a server and back. Returns the counters of all nodes, the client's last.
fn transfer(
    relays: [RelayConfig; 3],
    client: RelayConfig,
    middlebox: Option<Middlebox>,
    bytes: u32,
) -> Vec<(NodeCounters, DatagramCounters)> {
    let flags = ["Guard", "", "Exit"];
    let (mut running, routers): (Vec<_>, Vec<_>) = (1..)
        .zip(flags)
        .zip(relays)
        .map(|((number, flags), config)| {
            let rule = if flags == "Exit" { "accept *:*" } else { "reject *:*" };
            let claims = if flags == "Exit" { "accept 1-65535" } else { "" };
            let middlebox = middlebox.clone().map(|it| Middlebox { random: number.into(), ..it });
            relay_with(number, flags, claims, rule, config, move |node| node.middlebox = middlebox)
        })
        .unzip();
    let (node, socks_port) = client_with(routers, client);
    running.push(Running::start(move || {
        let mut node = node();
        node.middlebox = middlebox;
        node
    }));
    let (status, stream) = socks(socks_port, 1, echo(), "one");
    assert_eq!(status, 0);
    stream.set_read_timeout(Some(std::time::Duration::from_secs(120))).unwrap();
    echoed(stream, bytes);
    running.into_iter().map(Running::stop).collect()
}

fn paths(counters: &NodeCounters, outcome: &str) -> u64 {
    counters.paths.get(outcome).copied().unwrap_or(0)
}

#[test]
fn streams_over_datagrams_are_unchanged() {
    let with = |change: fn(&mut MarutConfig)| {
        let mut config = MarutConfig::default();
        change(&mut config);
        RelayConfig { hop_control: HopControlConfig::Marut(config), ..backtap() }
    };
    let path = with(|config| config.counts = Counts::Path);
    let own = with(|config| config.middle = MiddleWindow::Own);
    for config in [backtap(), with(|_| ()), path, own] {
        let [one, two, three] = [(); 3].map(|()| config.clone());
        let counters = transfer([one, two, three], config, None, 200_000);
        for (node, datagrams) in &counters {
            assert!(paths(node, "open") > 0, "{:?}", node.paths);
            assert_eq!(node.paths.len(), 1, "{:?}", node.paths);
            // A direction has 400 cells, and a datagram at most two.
            assert!(datagrams.sent > 200 && datagrams.received > 200, "{datagrams:?}");
            assert!(node.violations.is_empty(), "{:?}", node.violations);
        }
    }
}

#[test]
fn links_to_nodes_without_datagrams_use_tls() {
    let counters = transfer([backtap(), relay_config(), backtap()], relay_config(), None, 100_000);
    for (node, datagrams) in counters {
        assert_eq!((node.paths.len(), datagrams), (0, DatagramCounters::default()));
    }
}

#[test]
fn a_middlebox_that_changes_packets_corrupts_no_stream() {
    let faults =
        Middlebox { drop: 2, duplicate: 3, delay: 3, truncate: 1, corrupt: 1, ..Middlebox::default() };
    let counters = transfer([backtap(), backtap(), backtap()], backtap(), Some(faults), 60_000);
    let again: u64 = counters.iter().map(|(_, datagrams)| datagrams.again).sum();
    assert!(again > 0);
    for (node, _) in counters {
        assert!(node.violations.is_empty(), "{:?}", node.violations);
    }
}

#[test]
fn links_use_tls_if_udp_is_blocked() {
    let wall = Middlebox { blocks_after: Some(0), ..Middlebox::default() };
    let counters = transfer([backtap(), backtap(), backtap()], backtap(), Some(wall), 100_000);
    // Three relays and the client: the client opens its link, and the exit accepts its links.
    for ((node, datagrams), [opens, accepts]) in
        counters.iter().zip([[true, true], [true, true], [false, true], [true, false]])
    {
        assert_eq!(
            [paths(node, "timeout") > 0, paths(node, "peer") > 0],
            [opens, accepts],
            "{:?}",
            node.paths
        );
        assert_eq!((paths(node, "open"), datagrams.sent), (0, 0));
    }
}

#[test]
fn datagrams_travel_over_tls_if_udp_stops_working() {
    let wall = Middlebox { blocks_after: Some(60), ..Middlebox::default() };
    let counters = transfer([backtap(), backtap(), backtap()], backtap(), Some(wall), 300_000);
    for (node, _) in counters {
        assert!(paths(&node, "open") > 0 && paths(&node, "failed") > 0, "{:?}", node.paths);
        assert!(node.violations.is_empty(), "{:?}", node.violations);
    }
}

#[test]
fn a_path_with_a_small_mtu_uses_small_datagrams_or_tls() {
    // The first limit has space for two cells, and the other one for none.
    for (size, after, outcome) in [(1232, 0, "open"), (500, 0, "timeout"), (500, 60, "failed")] {
        let narrow = Middlebox { narrows: Some((after, size)), ..Middlebox::default() };
        let counters = transfer([backtap(), backtap(), backtap()], backtap(), Some(narrow), 60_000);
        for (node, _) in counters {
            let found = &node.paths;
            let otherwise = if outcome == "timeout" { paths(&node, "peer") } else { 0 };
            assert!(paths(&node, outcome) + otherwise > 0, "{size} B after {after}: {found:?}");
            assert_eq!(paths(&node, "failed") > 0, outcome == "failed", "{size} B after {after}: {found:?}");
            assert!(node.violations.is_empty(), "{:?}", node.violations);
        }
    }
}

#[test]
fn a_peer_causes_few_answers_to_hellos() {
    let clock = Clock::start();
    let mut paths = path_pair(clock);
    offer(clock, &mut paths, |_| ());
    assert_eq!(drive(clock, &mut paths), [PathState::Confirmed; 2]);
    let mut room = [0; 4096];
    let hello = Hello { back: false, size: MAX_DATAGRAM, token: paths[1].ours.token }.write();
    let seen = Arc::new(Mutex::new(Vec::new()));
    paths[1].middlebox = Some(Middlebox { seen: Some(seen.clone()), ..Middlebox::default() });
    let start = clock.now();
    for _ in 0..200 {
        paths[0].send(clock, &hello);
        while paths[1].read(clock, &mut room) {}
    }
    let allowed = 1 + clock.now().since(start).as_millis() / 50;
    let answers = seen.lock().unwrap().len() as u128;
    assert!(answers <= allowed + 1, "{answers} answers");
    assert_eq!(paths[1].uncounted, 201 * (MAX_DATAGRAM + 22) as u64, "the read bucket counts them");
}

/// Two ends of a path on loopback. The first one is the initiator.
fn path_pair(clock: Clock) -> [Path; 2] {
    let identities = [DtlsIdentity::new(), DtlsIdentity::new()];
    let any = SocketAddr::new([127, 0, 0, 1].into(), 0);
    let (listener, _port) = test_node::listener_with_udp();
    let at = listener.local_addr().unwrap();
    let initiator = Path::initiator(&identities[0], clock, [any, at], [1; 16]).unwrap();
    let from = SocketAddr::new(any.ip(), initiator.ours.port);
    let responder = Path::responder(&identities[1], clock, [at, from], [2; 16]).unwrap();
    [initiator, responder]
}

/// Exchanges packets until both ends have a result, or one has failed.
fn drive(clock: Clock, paths: &mut [Path; 2]) -> [PathState; 2] {
    let mut room = [0; 4096];
    let end = clock.now() + Duration::from_secs(30);
    let is_done = |paths: &[Path; 2]| {
        paths.iter().all(|path| path.state == PathState::Confirmed)
            || paths.iter().any(|path| matches!(path.state, PathState::Failed(_)))
    };
    while !is_done(paths) && clock.now() < end {
        for path in paths.iter_mut() {
            path.on_timer(clock);
            while path.read(clock, &mut room) {}
        }
    }
    [paths[0].state, paths[1].state]
}

fn offer(clock: Clock, paths: &mut [Path; 2], change: impl Fn(&mut [PathOffer; 2])) {
    let mut offers = [paths[0].ours, paths[1].ours];
    change(&mut offers);
    paths[1].on_offer(clock, offers[0]);
    paths[0].on_offer(clock, offers[1]);
}

#[test]
fn both_ends_must_have_the_named_certificate_and_token() {
    let clock = Clock::start();
    let confirmed = [PathState::Confirmed; 2];
    let failed = |reason| PathState::Failed(reason);
    let outcome = |change: fn(&mut [PathOffer; 2])| {
        let mut paths = path_pair(clock);
        offer(clock, &mut paths, change);
        drive(clock, &mut paths)
    };
    assert_eq!(outcome(|_| ()), confirmed);
    assert_eq!(outcome(|offers| offers[1].certificate[0] ^= 1)[0], failed("certificate"));
    assert_eq!(outcome(|offers| offers[0].certificate[0] ^= 1)[1], failed("certificate"));
    // The initiator sends a wrong token, and then the responder does.
    assert_eq!(outcome(|offers| offers[1].token[0] ^= 1), [PathState::Unconfirmed, failed("token")]);
    assert_eq!(outcome(|offers| offers[0].token[0] ^= 1), [failed("token"), PathState::Confirmed]);
}

#[test]
fn replayed_and_forged_packets_deliver_nothing_and_keep_the_path() {
    let clock = Clock::start();
    let mut paths = path_pair(clock);
    let seen = Arc::new(Mutex::new(Vec::new()));
    paths[0].middlebox = Some(Middlebox { seen: Some(seen.clone()), ..Middlebox::default() });
    offer(clock, &mut paths, |_| ());
    assert_eq!(drive(clock, &mut paths), [PathState::Confirmed; 2]);
    let first = seen.lock().unwrap()[0].clone();
    let probe = [0, 1, 1, 0];
    seen.lock().unwrap().clear();
    paths[0].send(clock, &probe);
    let packet = seen.lock().unwrap().pop().unwrap();
    let mut room = [0; 4096];
    while paths[1].read(clock, &mut room) {}
    assert_eq!(paths[1].inbox.len(), 1);
    // The same packet again, and with each byte changed or cut off there.
    paths[1].on_packet(clock, &packet);
    for place in 0..packet.len() {
        let mut forged = packet.clone();
        forged[place] ^= 0x55;
        paths[1].on_packet(clock, &forged);
        paths[1].on_packet(clock, &packet[..place]);
    }
    for byte in 0..=255 {
        paths[1].on_packet(clock, &[byte; 100]);
    }
    // An alert and a ClientHello without encryption.
    paths[1].on_packet(clock, &[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40]);
    paths[1].on_packet(clock, &first);
    assert_eq!((paths[1].inbox.len(), paths[1].state), (1, PathState::Confirmed));
    paths[0].send(clock, &probe);
    while paths[1].read(clock, &mut room) {}
    assert_eq!(paths[1].inbox.len(), 2, "the path still works");
}

#[test]
fn a_responder_amplifies_no_packets_of_unproven_peers() {
    let clock = Clock::start();
    let mut paths = path_pair(clock);
    let seen = Arc::new(Mutex::new(Vec::new()));
    paths[1].middlebox = Some(Middlebox { seen: Some(seen.clone()), ..Middlebox::default() });
    let mut room = [0; 4096];
    let mut received = 0;
    offer(clock, &mut paths, |_| ());
    // The initiator's first messages arrive again and again.
    let read = paths[1].socket.as_ref().unwrap().recv(&mut room).unwrap();
    let hello = room[..read].to_vec();
    for _ in 0..1000 {
        paths[1].on_packet(clock, &hello);
        paths[1].on_timer(clock);
        received += hello.len();
        let sent: usize = seen.lock().unwrap().iter().map(Vec::len).sum();
        assert!(sent <= 3 * received, "{sent} B for {received} B");
    }
    assert!(!seen.lock().unwrap().is_empty(), "it answers");
}

#[test]
fn no_socket_sends_fragments() {
    for at in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        let at: SocketAddr = at.parse().unwrap();
        // The machine may have no IPv6.
        let Ok(socket) = udp_socket(at, false) else { continue };
        // An IPv6 socket also sends packets of IPv4.
        assert_eq!(ip_mtu_discover(&socket), Ok(Ipv4PathMtuDiscovery::PROBE), "{at}");
        if at.is_ipv6() {
            assert_eq!(ipv6_mtu_discover(&socket), Ok(Ipv6PathMtuDiscovery::PROBE), "{at}");
        }
    }
}

#[test]
fn waiting_datagrams_are_limited() {
    let clock = Clock::start();
    let mut paths = path_pair(clock);
    offer(clock, &mut paths, |_| ());
    assert_eq!(drive(clock, &mut paths), [PathState::Confirmed; 2]);
    let mut room = [0; 4096];
    for _ in 0..500 {
        paths[0].send(clock, &[0, 1, 1, 0]);
        while paths[1].read(clock, &mut room) {}
    }
    assert_eq!((paths[1].inbox.len(), paths[1].state), (64, PathState::Confirmed));
    assert_eq!(paths[1].memory(), FINISHED_MEMORY + 64 * 4);
    assert!(paths[0].memory() < SESSION_MEMORY / 2);
    // Packets without a datagram may wait in the session, but not in a session that has ended.
    (0..100).for_each(|_| paths[0].on_packet(clock, &[0; 100]));
    assert_eq!(paths[0].memory(), SESSION_MEMORY);
    paths[0].fail("mtu");
    assert_eq!(paths[0].memory(), 0);
}

/// Two nodes in this thread, with one open link for datagrams and two circuits. The first node opened the link.
struct Linked {
    nodes: [Node; 2],
    /// A socket that is always readable, so that no node waits for events.
    _awake: [UnixStream; 2],
    _ports: [UdpSocket; 2],
    channels: [ChannelKey; 2],
}

impl Linked {
    fn new() -> Self {
        let [(one, port), (two, other_port)] = [(); 2].map(|()| test_node::listener_with_udp());
        let make = |listener: TcpListener| {
            let policy = ExitPolicy::new(Vec::new(), Private::AsRules, Vec::new());
            let ip = IpAddr::from([127, 0, 0, 1]);
            let config = NodeConfig::new(listener.local_addr().unwrap(), ip, backtap(), policy);
            let keys = Keys::generate(&mut rand::rng(), config.clock.date());
            Node::on(Some(listener), config, keys).unwrap()
        };
        let (mut writer, reader) = UnixStream::pair().unwrap();
        writer.write_all(&[0]).unwrap();
        let mut nodes = [make(one), make(two)];
        nodes.iter().for_each(|node| node.wake_by(&reader).unwrap());
        let to = nodes[1].link_spec().unwrap();
        let peer = nodes[0].peers.relay(&to, to.addresses[0], |_| false);
        let now = nodes[0].clock.now();
        for _ in 0..2 {
            let circuit = nodes[0].relay.open_circuit(now, peer, [], false);
            let fast = Handshake { kind: HandshakeKind::Fast, data: vec![7; 20] };
            nodes[0].relay.start_handshake(now, circuit, fast, &mut nodes[0].sockets);
        }
        nodes[0].process_events();
        let channels = [ChannelKey::from_parts(0, 0); 2];
        let (_awake, _ports) = ([writer, reader], [port, other_port]);
        let mut linked = Linked { nodes, _awake, _ports, channels };
        linked.turn_until(|nodes| nodes.iter().all(|node| paths(&node.counters, "open") == 1));
        linked.channels = [0, 1].map(|node| linked.nodes[node].relay.channels()[0]);
        linked.turn_until(|nodes| nodes[1].circuits() == 2 && nodes[1].relay.unacknowledged() == 0);
        linked
    }

    fn turn_until(&mut self, is_done: impl Fn(&[Node; 2]) -> bool) {
        let end = self.nodes[0].clock.now() + Duration::from_secs(60);
        while !is_done(&self.nodes) {
            self.nodes.iter_mut().for_each(|node| node.turn().unwrap());
            assert!(self.nodes[0].clock.now() < end, "{:?}", self.nodes[1].counters);
        }
    }

    fn path(&mut self, node: usize) -> &mut Path {
        let state = self.nodes[node].sockets.datagrams(self.channels[node]).unwrap();
        state.path.as_mut().unwrap()
    }

    /// The first node sends these messages without its core.
    fn send(&mut self, message: Message<&LiveCell>) {
        self.nodes[0].sockets.send_datagram(self.channels[0], &mut [message].into_iter());
    }

    /// The first node sends a datagram with these bytes.
    fn send_bytes(&mut self, bytes: &[u8]) {
        let clock = self.nodes[0].clock;
        self.path(0).send(clock, bytes);
    }
}

/// The number of the first circuit of a link's initiator.
const FIRST: u16 = 0x8001;

/// A VPADDING cell with this length of its body [B].
fn padding(len: u16) -> Vec<u8> {
    let mut cell = vec![0, 0, 0, 0, command::VPADDING];
    cell.extend(len.to_be_bytes());
    cell.resize(cell.len() + usize::from(len), 0);
    cell
}

#[test]
fn links_of_a_client_name_different_certificates() {
    let (mut node, listener) = (test_node::node(), test_node::idle_listener());
    let named = |node: &mut Node| {
        [1, 2].map(|last| {
            let channel = test_node::writable_channel(node, &listener, test_node::host(last));
            node.new_path(channel, None).unwrap().ours.certificate
        })
    };
    let [first, second] = named(&mut node);
    assert_eq!(first, second, "a relay is no secret");
    node.listener = None;
    let [third, fourth] = named(&mut node);
    assert!(first != third && third != fourth);
}

/// Two linked nodes, as if the choice of a path had not arrived yet at the second one, and it had no descriptor for a path.
fn without_descriptors() -> Linked {
    let mut linked = Linked::new();
    let (node, channel) = (&mut linked.nodes[1], linked.channels[1]);
    node.sockets.end_path(channel);
    node.descriptors.shared = 0;
    let state = node.sockets.datagrams(channel).unwrap();
    (state.is_chosen, state.path) = (false, None);
    linked
}

#[test]
fn a_second_offer_of_a_path_closes_the_link() {
    let mut linked = without_descriptors();
    let [from, to] = linked.channels;
    let offer = PathOffer { certificate: [0; 32], token: [0; 16], port: 9 };
    for _ in 0..2 {
        linked.nodes[0].say(from, &Control::Path(offer));
    }
    let node = &mut linked.nodes[1];
    let end = node.clock.now() + Duration::from_secs(5);
    while node.sockets.channels.contains(to) && node.clock.now() < end {
        node.turn().unwrap();
    }
    assert_eq!(paths(&node.counters, "violation"), 1);
}

#[test]
fn a_responder_without_a_descriptor_counts_its_own_reason() {
    let mut linked = without_descriptors();
    let [from, to] = linked.channels;
    linked.nodes[1].sockets.datagrams(to).unwrap().is_offered = false;
    linked.nodes[0].say(from, &Control::Path(PathOffer { certificate: [0; 32], token: [0; 16], port: 9 }));
    linked.nodes[0].say(from, &Control::Select(false));
    let node = &mut linked.nodes[1];
    let count = |node: &Node| ["socket", "peer"].map(|outcome| paths(&node.counters, outcome));
    let end = node.clock.now() + Duration::from_secs(5);
    while count(node) == [0, 0] && node.clock.now() < end {
        node.turn().unwrap();
    }
    assert_eq!(count(node), [1, 0], "{:?}", node.counters.paths);
}

#[test]
fn a_peer_that_sends_much_before_the_choice_is_closed() {
    let mut linked = Linked::new();
    let [from, to] = linked.channels;
    // As if the choice had not arrived yet.
    linked.nodes[1].sockets.datagrams(to).unwrap().is_chosen = false;
    let (cell, mut sent) = (padding(10_000), 0);
    while linked.nodes[1].sockets.channels.contains(to) {
        let conn = linked.nodes[0].sockets.channel(from).unwrap();
        conn.encrypt(&cell);
        conn.flush();
        sent += cell.len();
        linked.nodes[1].turn().unwrap();
        assert!(sent < 2 * MAX_TOTAL, "{sent} B");
    }
    assert!(sent > MAX_TOTAL, "{sent} B");
    assert_eq!(paths(&linked.nodes[1].counters, "violation"), 1);
}

#[test]
fn bytes_over_tls_of_a_link_with_datagrams_count_as_read() {
    let mut linked = Linked::new();
    let datagram = [0, 1, 1, 0].repeat(200);
    let mut tunnel = Vec::new();
    Control::Tunnel(&datagram).write(&mut tunnel);
    for (cell, messages) in [(padding(9000), 0), (tunnel, 200)] {
        // Answers to HELLOs may still arrive.
        let (sockets, channel) = (&mut linked.nodes[1].sockets, linked.channels[1]);
        while sockets.receive_datagram(channel, &mut Vec::new()) > Bytes::ZERO {}
        let conn = linked.nodes[0].sockets.channel(linked.channels[0]).unwrap();
        let before = conn.sent;
        conn.encrypt(&cell);
        conn.flush();
        let expected = conn.sent - before;
        assert!(expected > cell.len() as u64);
        let sockets = &mut linked.nodes[1].sockets;
        let (mut into, mut read) = (Vec::new(), 0);
        let end = sockets.clock.now() + Duration::from_secs(60);
        while read < expected && sockets.clock.now() < end {
            sockets.note_tls_readable(channel);
            read += sockets.receive_datagram(channel, &mut into).get();
        }
        assert_eq!((read, into.len()), (expected, messages), "each byte counts once");
    }
}

#[test]
fn the_memory_of_a_link_is_that_of_its_host() {
    let linked = Linked::new();
    let (node, channel) = (&linked.nodes[1], linked.channels[1]);
    assert_eq!(node.sockets.paths.len(), 1);
    assert_eq!(node.driver_memory(), node.sockets.memory(channel));
}

#[test]
fn a_forged_acknowledgement_closes_its_circuit_only() {
    // The second node sent one cell on each circuit, the CREATED, and forwarded none.
    for (ack, forwarded) in [(1000, 0), (1, 50)] {
        let mut linked = Linked::new();
        let downstream = Downstream::default();
        linked.send(Message::Feedback { circuit: FIRST, ack, forwarded, hole: false, downstream });
        linked.turn_until(|nodes| nodes[1].circuits() == 1);
        assert_eq!(linked.nodes[1].counters.violations["forged_acknowledgement"], 1);
        assert_eq!(linked.nodes[1].relay.channels().len(), 1);
    }
}

#[test]
fn messages_of_unknown_circuits_close_nothing() {
    let mut linked = Linked::new();
    let sent = linked.nodes[1].relay.datagram_counters().sent;
    linked.send(Message::Probe { circuit: 77 });
    linked.send(Message::Gone { circuit: 78 });
    linked.turn_until(|nodes| nodes[1].relay.datagram_counters().sent > sent);
    assert_eq!((linked.nodes[1].circuits(), linked.nodes[1].relay.channels().len()), (2, 1));
}

#[test]
fn a_malformed_datagram_or_control_cell_closes_its_link() {
    let cases: [fn(&mut Linked); 4] = [
        // A message of an unknown type, and one without its end.
        |linked| linked.send_bytes(&[0, 1, 9, 0]),
        |linked| linked.send_bytes(&[0, 1, 0, 0, 1]),
        // The choice comes once.
        |linked| linked.nodes[0].say(linked.channels[0], &Control::Select(true)),
        |linked| linked.nodes[0].say(linked.channels[0], &Control::Tunnel(&[0, 1, 9, 0])),
    ];
    for case in cases {
        let mut linked = Linked::new();
        case(&mut linked);
        linked.turn_until(|nodes| nodes[1].circuits() == 0 && nodes[1].relay.channels().is_empty());
        assert_eq!((linked.nodes[1].sockets.paths.len(), linked.nodes[1].sockets.due_paths.len()), (0, 0));
    }
}

#[test]
fn a_wrong_token_on_an_open_path_ends_the_path_only() {
    let mut linked = Linked::new();
    let (node, channel) = (&linked.nodes[1], linked.channels[1]);
    assert!(node.sockets.uses_udp(channel));
    linked.send_bytes(&Hello { back: false, size: MAX_DATAGRAM, token: [9; 16] }.write());
    linked.turn_until(|nodes| {
        let channel = nodes[1].relay.channels()[0];
        let state = nodes[1].sockets.channels.get(channel).unwrap().datagrams.as_ref().unwrap();
        state.path.as_ref().unwrap().state == PathState::Tunnel
    });
    assert!(!linked.nodes[1].sockets.uses_udp(channel), "the scheduler's rounds serve the link");
    assert_eq!((linked.nodes[1].circuits(), linked.nodes[1].relay.channels().len()), (2, 1));
    assert_eq!(
        (linked.nodes[1].sockets.paths.len(), linked.nodes[1].held()),
        (0, [1, 0]),
        "its socket is closed"
    );
}

#[test]
fn a_path_whose_mtu_shrinks_gets_smaller_datagrams() {
    let mut linked = Linked::new();
    for node in 0..2 {
        let path = linked.path(node);
        path.middlebox = Some(Middlebox { narrows: Some((0, 1232)), ..Middlebox::default() });
        // As if the last HELLO was long ago.
        path.mtu.next = Instant::ZERO;
    }
    linked.send(Message::Probe { circuit: FIRST });
    // Later HELLOs need no other datagrams.
    linked.turn_until(|nodes| nodes.iter().all(|node| paths(&node.counters, "shrunk") == 1));
    for node in 0..2 {
        assert_eq!((linked.path(node).state, linked.path(node).mtu.size()), (PathState::Open, 1210));
    }
    assert_eq!((linked.nodes[1].circuits(), linked.nodes[1].relay.channels().len()), (2, 1));
}

#[test]
fn a_host_with_many_paths_loses_one_for_a_host_with_few() {
    let mut linked = Linked::new();
    let node = &mut linked.nodes[1];
    let channel = linked.channels[1];
    // As if the host had two paths, and paths may use two descriptors.
    let host = node.sockets.channel(channel).unwrap().host.path();
    node.sockets.paths.add(&host, channel);
    node.descriptors.shared = 2 * PATH_SHARE;
    let other = Host::of([192, 0, 2, 1].into()).path();
    assert!(!node.has_room_for_path(&host), "it has the most itself");
    assert!(node.has_room_for_path(&other));
    let state = node.sockets.datagrams(channel).unwrap();
    assert_eq!(state.path.as_ref().unwrap().state, PathState::Tunnel);
    linked.turn_until(|nodes| paths(&nodes[1].counters, "failed") == 1);
    assert_eq!((linked.nodes[1].circuits(), linked.nodes[1].relay.channels().len()), (2, 1));
}

#[test]
fn a_peer_that_never_chooses_is_closed_after_the_timeout() {
    let mut linked = Linked::new();
    let channel = linked.channels[1];
    let node = &mut linked.nodes[1];
    // As if the choice had not arrived yet.
    let state = node.sockets.datagrams(channel).unwrap();
    (state.is_chosen, state.until) = (false, node.clock.now());
    node.drive_path(channel, false);
    assert_eq!((paths(&node.counters, "timeout"), node.sockets.paths.len()), (1, 0));
    assert!(!node.sockets.channels.contains(channel));
}
