//! A client and its relays in threads of the test. The client knows the relays without a directory.

use super::*;
use crate::directory::Params;
use crate::node::NodeCounters;
use crate::node::test_node::listener_with_udp;
use crate::node::{NodeConfig, listen};
use crate::proxy::network::Router;
use crate::proxy::network::tests::{network, router};
use crate::proxy::{IsolationFlags, NodeSet, SocksPort};
use penstock_core::conflux::ConfluxConfig;
use penstock_core::datagram::DatagramCounters;
use penstock_core::edge_control::{EdgeControlConfig, VegasConfig};
use penstock_core::{Counters, RelayConfig};
use penstock_link::crypto::RelayKeys;
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_link::keys::Keys;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A node in its own thread. Dropping this value stops the node.
pub(in crate::node) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Ended>>,
    /// Keeps the node's UDP port.
    port: Option<UdpSocket>,
}

type Ended = (NodeCounters, DatagramCounters, Counters);

impl Running {
    /// Starts the node that `make` returns.
    pub(in crate::node) fn start(make: impl FnOnce() -> Node + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let run = move || {
            let mut node = make();
            while !flag.load(Ordering::Relaxed) {
                node.turn().unwrap();
            }
            (node.counters.clone(), node.relay.datagram_counters(), node.relay.counters())
        };
        Running { stop, thread: Some(std::thread::spawn(run)), port: None }
    }

    /// Stops the node, and returns its counters.
    pub(in crate::node) fn stop(self) -> (NodeCounters, DatagramCounters) {
        let (node, datagrams, _) = self.end();
        (node, datagrams)
    }

    fn end(mut self) -> Ended {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}

pub(in crate::node) fn relay_config() -> RelayConfig {
    let edge_control = EdgeControlConfig::Vegas(VegasConfig::default());
    RelayConfig { edge_control, authenticated_sendmes: true, ..RelayConfig::default() }
}

/// Starts a relay with this exit policy, and describes it with other flags and another policy.
fn relay(number: u8, flags: &str, claims: &str, rule: &str) -> (Running, Router) {
    relay_with(number, flags, claims, rule, relay_config(), |_| {})
}

/// Starts a relay with these settings of the core. `setup` changes the new node.
pub(in crate::node) fn relay_with(
    number: u8,
    flags: &str,
    claims: &str,
    rule: &str,
    relay: RelayConfig,
    setup: impl FnOnce(&mut Node) + Send + 'static,
) -> (Running, Router) {
    let policy = ExitPolicy::new(vec![rule.parse().unwrap()], Private::AsRules, Vec::new());
    let (listener, port) = listener_with_udp();
    let address = listener.local_addr().unwrap();
    let config = NodeConfig { extend_to_private: true, ..NodeConfig::new(address, LOCALHOST, relay, policy) };
    let keys = Keys::generate(&mut rand::rng(), config.clock.date());
    let onion = *keys.onion.public.as_bytes();
    let keys_of = RelayKeys { rsa: keys.rsa_identity(), ed25519: keys.ed25519_identity(), onion };
    let mut running = Running::start(move || {
        let mut node = Node::on(Some(listener), config, keys).unwrap();
        setup(&mut node);
        node
    });
    running.port = Some(port);
    (running, Router { keys: keys_of, address, ..router(number, 10, flags, claims) })
}

/// A function that makes a client which knows these relays, and the client's port for applications.
fn client(routers: Vec<Router>) -> (impl FnOnce() -> Node + Send + 'static, SocketAddr) {
    client_with(routers, relay_config())
}

pub(in crate::node) fn client_with(
    routers: Vec<Router>,
    relay: RelayConfig,
) -> (impl FnOnce() -> Node + Send + 'static, SocketAddr) {
    let listener = listen(SocketAddr::new(LOCALHOST, 0)).unwrap();
    let port = SocksPort { listen: listener.local_addr().unwrap(), isolation: IsolationFlags::default() };
    let make = move || {
        let config = NodeConfig::client(relay);
        let keys = Keys::generate(&mut rand::rng(), config.clock.date());
        let mut node = Node::bind(config, keys).unwrap();
        let mut config = ProxyConfig { internal_addresses: true, ..ProxyConfig::new(vec![port]) };
        config.rules.distinct_subnets = false;
        if node.relay.config().conflux.is_some() {
            // Otherwise a guard can be the middle relay of the other leg.
            config.rules.middle = NodeSet::read("relay3,relay4").unwrap();
        }
        node.serve_socks(vec![listener], config).unwrap();
        let date = node.clock.date();
        node.with_proxy(|proxy, node| {
            let network = network(routers);
            let paths = Paths { network: &network, rules: &proxy.config.rules, own: None };
            proxy.guards.update(date, &mut node.rng, paths);
            proxy.set_limits = SetLimits::of(&Params::default(), network.linking_exits());
            // Without relays, the client waits for a directory.
            proxy.network = Some(network).filter(|network| !network.routers.is_empty());
        });
        node
    };
    (make, port.listen)
}

/// Sends a request of SOCKS 5. Returns the status and the connection.
pub(in crate::node) fn socks(at: SocketAddr, command: u8, to: SocketAddr, user: &str) -> (u8, TcpStream) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let IpAddr::V4(address) = to.ip() else { panic!("servers have IPv4 addresses") };
    let login = [&[1, user.len() as u8][..], user.as_bytes(), &[0]].concat();
    let request = [&[5, command, 0, 1][..], &address.octets(), &to.port().to_be_bytes()].concat();
    // The application sends all at once, and does not wait for answers.
    stream.write_all(&[&[5, 1, 2][..], &login, &request].concat()).unwrap();
    let mut reply = [0; 14];
    match stream.read_exact(&mut reply) {
        Ok(()) => (reply[5], stream),
        // A reply with another length, or none.
        Err(_) => (u8::MAX, stream),
    }
}

/// A server that returns all bytes.
pub(in crate::node) fn echo() -> SocketAddr {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &socket, &mut &socket));
        }
    });
    at
}

#[test]
fn streams_carry_data_both_ways_and_failures_have_a_status() {
    let (running, routers): (Vec<_>, Vec<_>) = (1..=3)
        .map(|number| {
            relay(number, if number == 1 { "Guard" } else { "Exit" }, "accept 1-65535", "accept *:*")
        })
        .unzip();
    let (node, socks_port) = client(routers);
    let client = Running::start(node);
    let server = echo();
    for user in ["one", "two"] {
        let (status, mut stream) = socks(socks_port, 1, server, user);
        assert_eq!(status, 0);
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number * 7 % 251) as u8).collect();
        let mut writer = stream.try_clone().unwrap();
        let copy = sent.clone();
        let writing = std::thread::spawn(move || writer.write_all(&copy).unwrap());
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent);
    }
    let closed = TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    assert_eq!(socks(socks_port, 1, closed, "one").0, 5, "connection refused");
    // RESOLVE of an address.
    assert_eq!(socks(socks_port, 0xF0, server, "one").0, 0);
    drop((client, running));
}

#[test]
fn a_request_tries_another_exit_and_a_dead_guard_is_replaced() {
    let (mut running, mut routers) = (Vec::new(), Vec::new());
    // The first exit claims a policy that it does not have.
    for (number, flags, rule) in
        [(1, "Guard", "reject *:*"), (2, "Exit", "reject *:*"), (3, "Exit", "accept *:*")]
    {
        let claims = if flags == "Exit" { "accept 1-65535" } else { "" };
        let (relay, router) = relay(number, flags, claims, rule);
        running.push(relay);
        routers.push(router);
    }
    // Nobody listens at this guard's address.
    let dead = TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    routers.push(Router { address: dead, ..router(4, 10, "Guard", "") });
    let (node, socks_port) = client(routers);
    let client = Running::start(node);
    let server = echo();
    for user in ["one", "two", "three"] {
        assert_eq!(socks(socks_port, 1, server, user).0, 0);
    }
    drop((client, running));
}

#[test]
fn a_port_that_no_exit_accepts_is_refused() {
    let routers = [(1, "Guard"), (2, ""), (3, "Exit")];
    let routers = routers.map(|(number, flags)| router(number, 10, flags, "accept 80"));
    let (node, socks_port) = client(routers.to_vec());
    let client = Running::start(node);
    let (status, _) = socks(socks_port, 1, SocketAddr::new(LOCALHOST, 25), "one");
    assert_eq!(status, 3, "network unreachable");
    drop(client);
}

/// The proxy with its tables, for tests that move the time.
fn with_clients(count: usize) -> (Node, SocketAddr, Vec<TcpStream>) {
    let (make, port) = client(Vec::new());
    let mut node = make();
    let clients: Vec<_> = (0..count).map(|_| TcpStream::connect(port).unwrap()).collect();
    let known = |node: &Node| node.proxy.as_ref().map_or(0, |proxy| proxy.connections.len());
    while known(&node) < count {
        node.turn().unwrap();
    }
    (node, port, clients)
}

#[test]
fn slow_applications_are_closed_after_the_timeout() {
    let (mut node, _, mut clients) = with_clients(2);
    // The second application waits for a circuit, but the client knows no relays.
    clients[1].write_all(&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80]).unwrap();
    let is_waiting = |node: &Node| {
        let proxy = node.proxy.as_ref().unwrap();
        proxy.connections.values().any(|connection| matches!(connection.state, accept::State::Waiting(_)))
    };
    while !is_waiting(&node) {
        node.turn().unwrap();
    }
    let late = node.clock.now() + Duration::from_secs(120);
    node.with_proxy(|proxy, node| proxy.expire_requests(node, late));
    assert_eq!(node.proxy.as_ref().unwrap().connections.len(), 0);
    let mut said = Vec::new();
    clients[0].read_to_end(&mut said).unwrap();
    assert_eq!(said, []);
    clients[1].read_to_end(&mut said).unwrap();
    assert_eq!(said[..4], [5, 0, 5, 6], "TTL expired");
}

#[test]
fn applications_that_leave_or_send_garbage_are_forgotten() {
    let (mut node, port, mut clients) = with_clients(3);
    clients[0].write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    clients.pop();
    // Half a message does not keep the event loop busy.
    clients[1].write_all(&[5, 9, 0]).unwrap();
    let count = |node: &Node| node.proxy.as_ref().unwrap().connections.len();
    while count(&node) > 1 {
        node.turn().unwrap();
    }
    let mut onion = TcpStream::connect(port).unwrap();
    onion.write_all(b"\x05\x01\x00\x05\x01\x00\x03\x09abc.onion\x00\x50").unwrap();
    while node.proxy.as_ref().unwrap().next < 4 || count(&node) > 1 {
        node.turn().unwrap();
    }
    let mut reply = [0; 12];
    onion.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], [5, 0, 5, 4], "host unreachable");
}

/// Settings of nodes that link circuits.
fn linking() -> RelayConfig {
    RelayConfig { conflux: Some(ConfluxConfig::TOR_0_4_9), ..relay_config() }
}

/// Two guards, two middle relays and an exit, which link circuits.
fn linking_network() -> (Vec<Running>, Vec<Router>) {
    let relay = |(number, flags)| {
        let claims = if number == 5 { "accept 1-65535" } else { "" };
        relay_with(number, flags, claims, "accept *:*", linking(), |_| {})
    };
    [(1, "Guard"), (2, "Guard"), (3, ""), (4, ""), (5, "Exit")].into_iter().map(relay).unzip()
}

/// Starts a client, which accepts requests as soon as this number of circuits is linked.
fn linked_client(routers: Vec<Router>, circuits: u64) -> (Running, SocketAddr) {
    let (make, port) = client_with(routers, linking());
    let wait = move || {
        let mut node = make();
        while node.relay.counters().linked < circuits {
            node.turn().unwrap();
        }
        node
    };
    (Running::start(wait), port)
}

/// Sends bytes to a server that returns them.
pub(in crate::node) fn echoed(mut stream: TcpStream, bytes: u32) {
    let sent: Vec<u8> = (0..bytes).map(|number| (number * 7 % 251) as u8).collect();
    let (mut writer, copy) = (stream.try_clone().unwrap(), sent.clone());
    let writing = std::thread::spawn(move || writer.write_all(&copy).unwrap());
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).unwrap();
    writing.join().unwrap();
    assert!(received == sent);
}

#[test]
fn streams_use_both_legs_of_linked_circuits() {
    let (running, routers) = linking_network();
    // Three sets wait for streams.
    let (client, socks_port) = linked_client(routers, 6);
    let server = echo();
    for user in ["one", "two"] {
        let (status, stream) = socks(socks_port, 1, server, user);
        assert_eq!(status, 0);
        echoed(stream, 2_000_000);
    }
    let (_, _, at_client) = client.end();
    let counters: Vec<Counters> = running.into_iter().map(|relay| relay.end().2).collect();
    let exit = counters[4];
    assert!(exit.linked >= 6 && at_client.linked >= 6, "{exit:?}");
    assert!(exit.switches > 0 && at_client.longest_reordering > 0, "{exit:?} {at_client:?}");
    // Both guards and both middle relays carry at least one initial window of each download.
    for relay in &counters[..4] {
        assert!(relay.received >= 2 * 124, "{relay:?}");
    }
}

#[test]
fn a_client_continues_after_a_leg_has_died() {
    let (mut running, routers) = linking_network();
    let (client, socks_port) = linked_client(routers, 6);
    let server = echo();
    let (status, mut broken) = socks(socks_port, 1, server, "one");
    assert_eq!(status, 0);
    echoed(broken.try_clone().unwrap(), 500_000);
    // A middle relay of all sets dies. The stream ends or continues: it depends on the last cells.
    drop(running.remove(3));
    let _ = broken.write_all(&[1; 1000]);
    for user in ["one", "two", "three", "four"] {
        let (status, stream) = socks(socks_port, 1, server, user);
        assert_eq!(status, 0, "{user}");
        echoed(stream, 100_000);
    }
    drop((client, running));
}
