//! Ready sockets that wait for a call. Networks share the calls fairly. So do the hosts of a network, and the links and
//! circuits of a host. A host gets no more calls with more links, and a circuit no more with more streams.

use super::Node;
use super::fair_queue::FairQueue;
use super::shares::{Holder, PartPath};
use super::sockets::Token;
use penstock_core::kernel::Interest;
use penstock_units::Duration;
use std::collections::BTreeMap;
use std::io;

/// Maximum number of calls for links and streams in a turn [1]. Epoll reports newly ready sockets between turns, so the
/// first call for another host comes after so many calls at most.
pub(super) const MAX_CALLS: usize = 16;
/// If more than 256 sockets wait, a turn has one call for so many of them [1]. Epoll reports all waiting sockets again in
/// each turn, and several calls share the time of these reports.
const SOCKETS_PER_CALL: usize = 16;
/// A turn with many ready sockets ends after this time, because some calls are expensive: a TLS handshake, or a directory
/// answer with thousands of documents.
pub(super) const MAX_TURN: Duration = Duration::from_millis(2);
/// If so few sockets are ready, each one gets a call at once [1].
const FEW: usize = 4;

/// Sockets that wait for a later turn.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    tokens: FairQueue<Holder, Token>,
    ready: BTreeMap<Token, Waiting>,
    /// The number of the next socket.
    next: u64,
}

/// The readiness of a socket, and its place in the queue.
#[derive(Debug)]
struct Waiting {
    what: Interest,
    path: PartPath,
    number: u64,
}

impl ReadyQueue {
    pub(super) fn new() -> Self {
        ReadyQueue { tokens: FairQueue::new(usize::MAX), ready: BTreeMap::new(), next: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The number of sockets in the queue [1].
    fn len(&self) -> usize {
        self.ready.len()
    }

    /// Adds a socket of the link or circuit at the end of `path`. A socket in the queue stays at its place.
    pub(super) fn push(&mut self, path: PartPath, token: Token, what: Interest) {
        if !self.merge(token, what) {
            let number = self.next;
            self.next += 1;
            self.ready.insert(token, Waiting { what, path, number });
            self.tokens.push(&path, number, token);
        }
    }

    /// Adds the readiness of a socket that is in the queue. Returns whether it is there.
    pub(super) fn merge(&mut self, token: Token, what: Interest) -> bool {
        let known = self.ready.get_mut(&token);
        let is_known = known.is_some();
        if let Some(known) = known {
            known.what.readable |= what.readable;
            known.what.writable |= what.writable;
        }
        is_known
    }

    /// Removes a closed socket, if it is in the queue.
    pub(super) fn remove(&mut self, token: Token) {
        if let Some(Waiting { path, number, .. }) = self.ready.remove(&token) {
            self.tokens.forget(&path, number);
        }
    }

    /// Takes the next socket.
    fn pop(&mut self) -> Option<(Token, Interest)> {
        let (_, token) = self.tokens.pop()?;
        Some((token, self.ready.remove(&token).expect("each token in the queue has a readiness").what))
    }
}

impl Node {
    /// Waits for ready sockets, and calls them in fair turns. A socket that is still ready waits for the next turn.
    ///
    /// Deviation: C tor calls all ready sockets in the order of libevent, so that a host with many links gets many calls.
    pub(super) fn serve_ready(&mut self) -> io::Result<()> {
        for key in std::mem::take(&mut self.sockets.full) {
            self.queue(key);
        }
        for stream in std::mem::take(&mut self.sockets.woken) {
            self.ready.push_back((Token::Stream(stream), Interest::default()));
        }
        for key in std::mem::take(&mut self.sockets.sending) {
            let writable = Interest { readable: false, writable: true };
            self.ready.push_back((Token::Channel(key), writable));
        }
        let wait = self.max_wait();
        let ready = &mut self.ready;
        self.sockets.wait(wait, |token, what| ready.push_back((token, what)))?;
        let are_few = self.sockets.waiting.is_empty() && self.ready.len() <= FEW;
        for _ in 0..self.ready.len() {
            let Some((token, what)) = self.ready.pop_front() else { break };
            let path = if are_few { None } else { self.path_of(token) };
            match path {
                Some(path) => self.sockets.waiting.push(path, token, what),
                None => self.serve(token, what),
            }
        }
        let end = self.clock.now() + self.max_turn;
        for _ in 0..MAX_CALLS.max(self.sockets.waiting.len() / SOCKETS_PER_CALL) {
            let Some((token, what)) = self.sockets.waiting.pop() else { break };
            self.serve(token, what);
            if self.clock.now() >= end {
                break;
            }
        }
        Ok(())
    }

    /// The network, the host, and the link or circuit that a call for a socket belongs to. `None` if the socket is closed,
    /// or belongs to the node itself.
    ///
    /// The link of a relay has circuits of many clients. Circuits take turns, so that a circuit with many streams does not
    /// delay the others.
    fn path_of(&mut self, token: Token) -> Option<PartPath> {
        match token {
            Token::Channel(channel) | Token::Datagrams(channel) => {
                Some(self.sockets.channels.get(channel)?.host.with_link(channel))
            }
            Token::Opening(number) => Some(self.sockets.openings.get(number)?.claim.host.with_handshakes()),
            Token::Stream(stream) => match self.sockets.stream(stream) {
                Some(stream) => Some(stream.path()),
                None => self.holder(stream).map(|(host, circuit)| host.with_circuit(circuit)),
            },
            Token::Lingering(number) => Some(self.sockets.lingering.get(&number)?.0.path()),
            Token::Listener | Token::SocksPort(_) | Token::Socks(_) | Token::Wake | Token::Waker => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::test_node::{LOCALHOST, conn_to, host, idle_listener, node, writable_channel};
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use penstock_core::{ChannelKey, CircuitIndex, Kernel, StreamKey};
    use penstock_link::cell::Connected;
    use penstock_units::Instant;
    use std::net::TcpStream;

    fn path(last: u8) -> PartPath {
        host(last).with_handshakes()
    }

    const READABLE: Interest = Interest { readable: true, writable: false };
    const WRITABLE: Interest = Interest { readable: false, writable: true };

    #[test]
    fn a_host_with_many_ready_links_delays_another_host_by_one_call() {
        let mut queue = ReadyQueue::new();
        for number in 0..200 {
            queue.push(path(1), Token::Opening(number), READABLE);
        }
        queue.push(path(2), Token::Opening(300), READABLE);
        let tokens = [0, 1, 2].map(|_| queue.pop().unwrap().0);
        assert_eq!(tokens, [0, 300, 1].map(Token::Opening));
    }

    #[test]
    fn a_socket_waits_once_with_all_its_readiness() {
        let mut queue = ReadyQueue::new();
        assert!(!queue.merge(Token::Lingering(1), READABLE));
        queue.push(path(1), Token::Lingering(1), READABLE);
        queue.push(path(1), Token::Lingering(1), WRITABLE);
        assert_eq!(queue.pop(), Some((Token::Lingering(1), Interest { readable: true, writable: true })));
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn a_closed_socket_leaves_the_queue() {
        let (mut node, listener) = (node(), idle_listener());
        let dial = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let open = |node: &mut Node| {
            let (conn, number) = (conn_to(node, host(1)), node.sockets.openings.next_number());
            node.open(conn, LOCALHOST, None, &[host(1)]).unwrap();
            Token::Opening(number)
        };
        let wait = |node: &mut Node, token: Token| {
            let path = node.path_of(token).expect("the socket is open");
            node.sockets.waiting.push(path, token, WRITABLE);
            assert!(!node.sockets.waiting.is_empty());
        };
        let opening = open(&mut node);
        wait(&mut node, opening);
        let Token::Opening(number) = opening else { panic!("{opening:?}") };
        node.fail_link(number, "test");
        assert!(node.sockets.waiting.is_empty());
        assert_ne!(open(&mut node), opening, "another socket has another token");

        let channel = writable_channel(&mut node, &listener, host(1));
        wait(&mut node, Token::Channel(channel));
        node.relay.close_channel(node.clock.now(), channel, &mut node.sockets);
        assert!(node.sockets.waiting.is_empty());

        let holder = (host(1), CircuitIndex::first(0));
        let linger = |node: &mut Node| {
            let stream = StreamKey::first(0);
            node.sockets.attach_stream(stream, holder, dial(), Connected(None)).unwrap();
            wait(node, Token::Stream(stream));
            node.sockets.stream(stream).unwrap().leave_unwritten();
            node.sockets.close_stream(stream);
            assert!(node.sockets.waiting.is_empty());
            let number = *node.sockets.lingering.last_key_value().unwrap().0;
            wait(node, Token::Lingering(number));
            number
        };
        let first = linger(&mut node);
        node.sockets.end_lingering(first);
        assert!(node.sockets.waiting.is_empty());
        assert_ne!(linger(&mut node), first);
        node.sockets.close_timed_out(Instant::FAR_FUTURE);
        assert!(node.sockets.waiting.is_empty() && node.sockets.lingering.is_empty());
    }

    /// A host has a thousand sockets that became ready before the socket of another host.
    #[test]
    fn a_thousand_ready_sockets_of_a_host_delay_another_host_by_less_than_a_turn() {
        let hard = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1;
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
        let (mut node, listener) = (node(), idle_listener());
        node.max_turn = Duration::from_secs(60);
        let many: Vec<_> = (0..1000).map(|_| writable_channel(&mut node, &listener, host(1))).collect();
        let one = writable_channel(&mut node, &listener, host(2));
        let is_called = |node: &Node, key: &ChannelKey| node.sockets.channels.get(*key).unwrap().sent > 0;
        let called = |node: &Node| many.iter().filter(|key| is_called(node, key)).count();
        node.turn().unwrap();
        assert!(is_called(&node, &one), "the other host");
        let calls = 1001 / SOCKETS_PER_CALL;
        assert_eq!(called(&node), calls - 1);
        while called(&node) < 1000 {
            let before = called(&node);
            node.turn().unwrap();
            assert!((1..=calls).contains(&(called(&node) - before)));
        }
    }

    /// All circuits of these streams come from one relay.
    #[test]
    fn a_circuit_with_many_ready_streams_delays_other_circuits_by_one_call() {
        let (mut node, listener) = (node(), idle_listener());
        node.max_turn = Duration::from_secs(60);
        let add = |node: &mut Node, number: u32, circuit: u32| {
            let (stream, holder) = (StreamKey::first(number), (host(1), CircuitIndex::first(circuit)));
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            node.sockets.attach_stream(stream, holder, socket, Connected(None)).unwrap();
            stream
        };
        let many: Vec<_> = (0..100).map(|number| add(&mut node, number, 0)).collect();
        let one = add(&mut node, 100, 1);
        let link = writable_channel(&mut node, &listener, host(1));
        let is_called = |node: &Node, key: &StreamKey| !node.sockets.streams.get(*key).unwrap().connecting;
        node.turn().unwrap();
        assert!(is_called(&node, &one), "the other circuit");
        assert!(node.sockets.channel(link).unwrap().sent > 0, "the link");
        assert_eq!(many.iter().filter(|key| is_called(&node, key)).count(), MAX_CALLS - 2);
    }
}
