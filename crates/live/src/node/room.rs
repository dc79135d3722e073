//! File descriptors. Links and exit streams share them: each kind is entitled to half, and may use more while the other
//! kind leaves some unused. Within a kind, the holder of the most gives one up for a new holder.
//!
//! Deviation: C tor closes connections without circuits when descriptors are short (`connection_check_oos()`), without
//! regard to their addresses, and limits streams only with `DoSStreamCreationEnabled`.

use super::Node;
use super::shares::Host;
use super::sockets::Token;
use penstock_core::{CircuitIndex, Direction, EndReason, StreamKey};

/// Descriptors for files, name lookups and the metrics server [1].
const RESERVE: usize = 64;
/// A circuit has at most this share of all descriptors.
const CIRCUIT_SHARE: usize = 8;

/// The number of descriptors for links and streams, of all that the process may have [1].
pub(super) fn usable(descriptors: usize) -> usize {
    descriptors.saturating_sub(RESERVE + descriptors / 32).max(16)
}

impl Node {
    /// The descriptors of links and of exit streams [1].
    pub(super) fn held(&self) -> [usize; 2] {
        [self.opening.len() + self.sockets.links.len(), self.sockets.held.len()]
    }

    /// Frees a descriptor for a new link of `host` if there is none. Returns false if the host itself has the most.
    pub(super) fn make_room_for_link(&mut self, host: Host) -> bool {
        let [links, streams] = self.held();
        if links + streams < self.descriptors {
            return true;
        }
        if links < self.descriptors / 2 {
            let stream = self.sockets.held.newest_of_largest();
            stream.is_some_and(|stream| self.end_stream(stream))
        } else {
            let link = self.sockets.links.newest_of_most(host);
            link.is_some_and(|link| self.close_link(Token::Channel(link)))
        }
    }

    /// The host and the circuit of a stream.
    pub(super) fn holder(&mut self, stream: StreamKey) -> Option<(Host, CircuitIndex)> {
        let circuit = self.relay.circuit_of(stream)?;
        let (channel, _) = self.relay.leg(circuit, Direction::Backward)?;
        Some((self.sockets.channel(channel)?.host, circuit))
    }

    /// Frees a descriptor for a new stream if there is none. Returns false if the circuit itself has the most streams.
    pub(super) fn make_room_for_stream(&mut self, host: Host, circuit: CircuitIndex) -> bool {
        let [links, streams] = self.held();
        if self.sockets.held.count(host, circuit) >= (self.descriptors / CIRCUIT_SHARE).max(1) {
            return false;
        }
        if links + streams < self.descriptors && streams < self.descriptors / 4 * 3 {
            return true;
        }
        if streams < self.descriptors / 2 {
            let link = self.sockets.links.newest_of_largest();
            link.is_some_and(|link| self.close_link(Token::Channel(link)))
        } else {
            let stream = self.sockets.held.newest_of_most(host, circuit);
            stream.is_some_and(|stream| self.end_stream(stream))
        }
    }

    fn close_link(&mut self, link: Token) -> bool {
        if let Token::Channel(channel) = link {
            self.counters.no_link("evicted");
            self.relay.close_channel(self.clock.now(), channel, &mut self.sockets);
        }
        true
    }

    /// Ends a stream, or the sending of its last bytes.
    fn end_stream(&mut self, stream: Token) -> bool {
        self.counters.stream("evicted");
        match stream {
            Token::Stream(stream) => {
                self.sockets.forget_unwritten(stream);
                let end = penstock_link::cell::StreamEnd::from(EndReason::RESOURCE_LIMIT);
                self.relay.close_stream(self.clock.now(), stream, end, &mut self.sockets);
            }
            Token::Lingering(number) => self.sockets.end_lingering(number),
            _ => {}
        }
        true
    }
}
