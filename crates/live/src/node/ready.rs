//! Ready sockets that wait for a call. Networks share the calls fairly, and so do the hosts of a network. A host gets no
//! more calls with more links or streams.

use super::Node;
use super::fair_queue::FairQueue;
use super::shares::Holder;
use super::sockets::Token;
use penstock_core::kernel::Interest;
use penstock_units::Duration;
use std::collections::BTreeMap;
use std::io;

/// Maximum number of calls for links and streams in a turn [1]. Epoll reports newly ready sockets between turns, so the
/// first call for another host comes after so many calls at most.
pub(super) const MAX_CALLS: usize = 16;
/// A turn with many ready sockets ends after this time, because some calls are expensive: a TLS handshake, or a directory
/// answer with thousands of documents.
pub(super) const MAX_TURN: Duration = Duration::from_millis(2);
/// If so few sockets are ready, each one gets a call at once [1].
const FEW: usize = 4;

/// Sockets that wait for a later turn.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    tokens: FairQueue<Holder, Token>,
    /// The readiness of each of these sockets.
    ready: BTreeMap<Token, Interest>,
}

impl ReadyQueue {
    pub(super) fn new() -> Self {
        ReadyQueue { tokens: FairQueue::new(usize::MAX), ready: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Adds a socket of the host at the end of `path`. A socket in the queue stays at its place.
    fn push(&mut self, path: &[Holder], token: Token, what: Interest) {
        if !self.merge(token, what) {
            self.ready.insert(token, what);
            self.tokens.push(path, 0, token);
        }
    }

    /// Adds the readiness of a socket that is in the queue. Returns whether it is there.
    fn merge(&mut self, token: Token, what: Interest) -> bool {
        let known = self.ready.get_mut(&token);
        let is_known = known.is_some();
        if let Some(known) = known {
            known.readable |= what.readable;
            known.writable |= what.writable;
        }
        is_known
    }

    /// Takes the next socket.
    fn pop(&mut self) -> Option<(Token, Interest)> {
        let (_, token) = self.tokens.pop()?;
        Some((token, self.ready.remove(&token).expect("each token in the queue has a readiness")))
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
        let wait = self.max_wait();
        let (ready, waiting, channels) = (&mut self.ready, &mut self.waiting, &self.sockets.channels);
        let is_queued = |token| match token {
            Token::Channel(key) => channels.get(key).is_some_and(|conn| conn.is_queued),
            _ => false,
        };
        // Epoll is level-triggered, and reports a waiting socket in each turn.
        self.sockets.wait(wait, |token, what| {
            if !waiting.merge(token, what) && !is_queued(token) {
                ready.push_back((token, what));
            }
        })?;
        let are_few = self.waiting.is_empty() && self.ready.len() <= FEW;
        for _ in 0..self.ready.len() {
            let Some((token, what)) = self.ready.pop_front() else { break };
            let path = if are_few { None } else { self.path_of(token) };
            match path {
                Some(path) => self.waiting.push(&path, token, what),
                None => self.serve(token, what),
            }
        }
        let end = self.clock.now() + self.max_turn;
        for _ in 0..MAX_CALLS {
            let Some((token, what)) = self.waiting.pop() else { break };
            self.serve(token, what);
            if self.clock.now() >= end {
                break;
            }
        }
        Ok(())
    }

    /// The network and the host that a call for a socket belongs to. `None` if the socket is closed, or belongs to the
    /// node itself.
    fn path_of(&mut self, token: Token) -> Option<[Holder; 2]> {
        match token {
            Token::Channel(channel) => Some(self.sockets.channels.get(channel)?.host.path()),
            Token::Opening(number) => Some(self.sockets.openings.get(number)?.claim.host.path()),
            Token::Stream(stream) => match self.sockets.stream(stream) {
                Some(stream) => Some(stream.host_path()),
                None => Some(self.holder(stream)?.0.path()),
            },
            Token::Lingering(number) => Some(self.sockets.lingering.get(number as usize)?.0.host_path()),
            Token::Listener | Token::Wake | Token::Waker => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::shares::Host;

    fn path(last: u8) -> [Holder; 2] {
        Host::of([192, 0, 2, last].into()).path()
    }

    const READABLE: Interest = Interest { readable: true, writable: false };
    const WRITABLE: Interest = Interest { readable: false, writable: true };

    #[test]
    fn a_host_with_many_ready_links_delays_another_host_by_one_call() {
        let mut queue = ReadyQueue::new();
        for number in 0..200 {
            queue.push(&path(1), Token::Opening(number), READABLE);
        }
        queue.push(&path(2), Token::Opening(300), READABLE);
        let tokens = [0, 1, 2].map(|_| queue.pop().unwrap().0);
        assert_eq!(tokens, [0, 300, 1].map(Token::Opening));
    }

    #[test]
    fn a_socket_waits_once_with_all_its_readiness() {
        let mut queue = ReadyQueue::new();
        assert!(!queue.merge(Token::Lingering(1), READABLE));
        queue.push(&path(1), Token::Lingering(1), READABLE);
        queue.push(&path(1), Token::Lingering(1), WRITABLE);
        assert_eq!(queue.pop(), Some((Token::Lingering(1), Interest { readable: true, writable: true })));
        assert!(queue.is_empty() && queue.pop().is_none());
    }
}
