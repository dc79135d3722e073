//! A node without exits, for unit tests.

use super::conn::Conn;
use super::datagrams::udp_socket;
use super::links::listen;
use super::shares::Host;
use super::sockets::Token;
use super::{Node, NodeConfig};
use penstock_core::kernel::Interest;
use penstock_core::{ChannelKey, Kernel, PeerId, RelayConfig};
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_link::keys::Keys;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

pub(super) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(super) fn node() -> Node {
    node_with(20_000)
}

/// A node that may have this number of file descriptors.
pub(super) fn node_with(descriptors: usize) -> Node {
    let policy = ExitPolicy::new(Vec::new(), Private::AsRules, Vec::new());
    let config = NodeConfig::new(SocketAddr::new(LOCALHOST, 0), LOCALHOST, RelayConfig::default(), policy);
    let keys = Keys::generate(&mut rand::rng(), config.clock.date());
    Node::bind(NodeConfig { descriptors, ..config }, keys).unwrap()
}

pub(super) fn host(last: u8) -> Host {
    Host::of([192, 0, 2, last].into())
}

/// A connection of the node to itself, which counts as one to this host.
pub(super) fn conn_to(node: &Node, host: Host) -> Conn {
    let socket = TcpStream::connect(node.listens_at().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    Conn::new(socket, node.tls.connect(), None, host)
}

/// A listener that accepts nothing. Connections to it wait in the kernel.
pub(super) fn idle_listener() -> TcpListener {
    listen(SocketAddr::new(LOCALHOST, 0)).unwrap()
}

/// A listener for a node with datagrams. Until the socket is dropped, other tests do not get its UDP port.
pub(super) fn listener_with_udp() -> (TcpListener, UdpSocket) {
    loop {
        let listener = idle_listener();
        match udp_socket(listener.local_addr().unwrap(), true) {
            Ok(socket) => return (listener, socket),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse),
        }
    }
}

/// A channel to this host. Its socket is writable, and TLS has bytes to write.
pub(super) fn writable_channel(node: &mut Node, listener: &TcpListener, host: Host) -> ChannelKey {
    let channel = node.relay.accept_channel(node.clock.now(), PeerId(1 << 31), true);
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let conn = Conn::new(socket, node.tls.connect(), None, host);
    assert!(conn.is_stuck());
    node.sockets.watch(&conn.socket, Token::Channel(channel), Interest::default()).unwrap();
    node.sockets.attach(channel, conn);
    node.sockets.want(channel, Interest::default());
    channel
}
