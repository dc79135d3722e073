//! Connections of applications, until their requests have streams.

use super::{Proxy, READABLE};
use crate::node::Node;
use crate::node::links::ACCEPT_BACKOFF;
use crate::node::sockets::Token;
use crate::proxy::socks::{Request, SocksHandshake, SocksStep};
use attach::Waiting;
use penstock_core::kernel::Interest;
use penstock_units::Instant;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use tor_socksproto::SocksStatus;

use super::attach;

/// Maximum number of connections that the proxy accepts in one turn [1].
const MAX_ACCEPTS: usize = 32;
/// Maximum number of applications without streams [1]. Each one needs a file descriptor and about 2 KiB.
const MAX_CONNECTIONS: usize = 1024;

/// A connection of an application without a stream.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: TcpStream,
    pub(super) client: IpAddr,
    /// The index of the SOCKS port.
    pub(super) port: usize,
    pub(super) since: Instant,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    Handshake(Box<SocksHandshake>),
    /// The request waits for a circuit.
    Waiting(Box<Waiting>),
}

impl Connection {
    /// Sends the last bytes to the application. A reply always fits into the empty send buffer.
    pub(super) fn refuse(mut self, reply: &[u8]) {
        let _ = self.socket.write(reply);
    }
}

impl Node {
    /// Accepts connections of applications.
    pub(in crate::node) fn accept_socks(&mut self, port: u64) {
        self.with_proxy(|proxy, node| proxy.accept(node, port as usize));
    }

    /// Stops accepting connections of applications.
    pub(in crate::node) fn stop_listening_for_socks(&mut self) {
        self.with_proxy(|proxy, node| {
            proxy.listeners.drain(..).for_each(|listener| node.sockets.forget(&listener));
        });
    }

    /// Continues the SOCKS handshake of an application.
    pub(in crate::node) fn serve_socks_connection(&mut self, number: u64) {
        self.with_proxy(|proxy, node| proxy.drive(node, number));
    }
}

impl Proxy {
    /// At the limit, the oldest unfinished handshake ends. If all applications wait for circuits, the new connection is
    /// closed instead.
    fn accept(&mut self, node: &mut Node, port: usize) {
        for _ in 0..MAX_ACCEPTS {
            let Some(listener) = self.listeners.get(port) else { return };
            let (socket, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Without a pause, epoll would report the listener in each turn.
                    self.paused = Some(node.clock.now() + ACCEPT_BACKOFF);
                    self.listeners.iter().for_each(|listener| node.sockets.forget(listener));
                    return;
                }
            };
            let is_new = |connection: &Connection| matches!(connection.state, State::Handshake(_));
            let most = MAX_CONNECTIONS.min(node.descriptors.shared / 4).max(1);
            if self.connections.len() >= most {
                let oldest = self.connections.iter().find(|(_, connection)| is_new(connection));
                let Some(oldest) = oldest.map(|(number, _)| *number) else { continue };
                self.connections.remove(&oldest);
            }
            let [links, streams] = node.held();
            let is_full = links + streams + self.connections.len() >= node.descriptors.shared;
            if is_full || socket.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = socket.set_nodelay(true);
            let number = self.next;
            self.next += 1;
            if node.sockets.watch(&socket, Token::Socks(number), READABLE).is_ok() {
                let state = State::Handshake(Box::new(SocksHandshake::new()));
                let connection =
                    Connection { socket, client: from.ip(), port, since: node.clock.now(), state };
                self.connections.insert(number, connection);
            }
        }
    }

    /// Watches the listeners again after a pause.
    pub(super) fn resume_accepting(&mut self, node: &Node, now: Instant) {
        if self.paused.take_if(|until| *until <= now).is_some() {
            for (number, listener) in self.listeners.iter().enumerate() {
                // A listener that epoll watches already is no problem.
                let _ = node.sockets.watch(listener, Token::SocksPort(number as u64), READABLE);
            }
        }
    }

    fn drive(&mut self, node: &mut Node, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Connection { socket, state, .. } = connection;
        let State::Handshake(handshake) = state else {
            // Epoll reports a hang-up also for applications that wait: the application has gone.
            self.connections.remove(&number);
            return;
        };
        loop {
            let mut read = |room: &mut [u8]| match socket.read(room) {
                Ok(count) => Some(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                // The end of the connection.
                Err(_) => Some(0),
            };
            match handshake.step(&mut read) {
                SocksStep::Wait => return,
                SocksStep::Send(bytes) if matches!(socket.write(&bytes), Ok(sent) if sent == bytes.len()) => {
                }
                SocksStep::Send(_) | SocksStep::Failed => {
                    self.connections.remove(&number);
                    return;
                }
                SocksStep::Done(request) => return self.on_request(node, number, request),
            }
        }
    }

    fn on_request(&mut self, node: &mut Node, number: u64, request: Request) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let isolation = self.config.ports.get(connection.port).map(|port| port.isolation).unwrap_or_default();
        match Waiting::new(
            request.clone(),
            connection.port,
            isolation,
            connection.client,
            self.config.internal_addresses,
        ) {
            Ok(waiting) => {
                let none = Interest::default();
                node.sockets.watch_for(&connection.socket, Token::Socks(number), none);
                connection.state = State::Waiting(Box::new(waiting));
                self.has_news = true;
            }
            Err(status) => {
                if let Some(connection) = self.connections.remove(&number) {
                    connection.refuse(&request.reply(status));
                }
            }
        }
    }

    /// Refuses the requests that waited too long for a circuit, and closes slow handshakes.
    pub(super) fn expire_requests(&mut self, node: &mut Node, now: Instant) {
        self.resume_accepting(node, now);
        self.expire_streams(node, now);
        let timeout = self.config.socks_timeout;
        let late = |connection: &Connection| now.since(connection.since) >= timeout;
        let late: Vec<u64> =
            self.connections.iter().filter(|(_, other)| late(other)).map(|(number, _)| *number).collect();
        for number in late {
            let Some(connection) = self.connections.remove(&number) else { continue };
            let reply = match &connection.state {
                State::Waiting(waiting) => waiting.reply(SocksStatus::TTL_EXPIRED),
                State::Handshake(_) => continue,
            };
            connection.refuse(&reply);
        }
    }
}
