//! File descriptors. Name lookups have a part of their own. Links and exit streams share the rest: each kind has half,
//! and may use more while the other kind needs less, streams up to three quarters. If none is left, the network, host
//! or circuit with the most descriptors loses one.
//!
//! Deviation: C tor closes connections without circuits when descriptors are short (`connection_check_oos()`), without
//! regard to their addresses, and limits streams only with `DoSStreamCreationEnabled`.

use super::Node;
use super::links::MAX_OPENING;
use super::shares::Host;
use super::sockets::Token;
use crate::names::{MAX_LOOKUPS, SOCKETS_PER_LOOKUP};
use penstock_core::{ChannelKey, CircuitIndex, Direction, EndReason, StreamKey};

/// Descriptors for files and the metrics server [1].
const RESERVE: usize = 64;
/// One circuit may use one eighth of the descriptors of links and streams.
const CIRCUIT_SHARE: usize = 8;

/// The limits that follow from the number of file descriptors of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorLimits {
    /// Maximum number of links and exit streams together [1].
    pub(super) shared: usize,
    /// Maximum number of unfinished link handshakes of accepted connections, and of opened connections [1]. They use
    /// at most a quarter of `shared`, so that a flood of connections leaves descriptors for links.
    pub(super) opening: usize,
    /// Maximum number of name lookups [1]. They use at most a quarter of all descriptors, and none if the exit policy
    /// rejects everything.
    pub(super) lookups: usize,
}

impl DescriptorLimits {
    /// The limits of a process that may have `descriptors` in total. A relay without exit streams looks up no names.
    pub(super) fn new(descriptors: usize, has_exits: bool) -> Self {
        let lookups = (descriptors / 4 / SOCKETS_PER_LOOKUP).clamp(8, MAX_LOOKUPS);
        let lookups = if has_exits { lookups } else { 0 };
        let reserve = RESERVE + descriptors / 32 + lookups * SOCKETS_PER_LOOKUP;
        let shared = descriptors.saturating_sub(reserve).max(16);
        DescriptorLimits { shared, opening: (shared / 8).clamp(4, MAX_OPENING), lookups }
    }
}

impl Node {
    /// The descriptors of links, with their UDP sockets, and of exit streams [1].
    pub(super) fn held(&self) -> [usize; 2] {
        let links = self.sockets.links.len() + self.sockets.paths.len();
        [self.sockets.openings.len() + links, self.sockets.held.len()]
    }

    /// Makes a descriptor available for a new link to `host`. `requester`: the host whose circuit asked for the link.
    /// Returns false if none is left, and `host` has the most links or `requester` asked for the most links.
    ///
    /// Links that circuits asked for may use half of the links' descriptors. Above this half, the host that asked for
    /// the most loses one, unless another host has even more links. Thus a host with one link cannot use up the
    /// descriptors by EXTENDs to many relays, and a host with many links does not end links of others.
    pub(super) fn make_room_for_link(&mut self, host: Host, requester: Option<Host>) -> bool {
        let [links, streams] = self.held();
        if links + streams < self.descriptors.shared {
            return true;
        }
        if links < self.descriptors.shared / 2 {
            let stream = self.sockets.held.newest_of_largest();
            stream.is_some_and(|stream| self.end_stream(stream))
        } else {
            let (requested, links) = (&self.sockets.requested, &self.sockets.links);
            let link = if requested.len() > self.descriptors.shared / 4 && requested.most() >= links.most() {
                self.link_to_end(requester)
            } else {
                links.newest_of_most(&host.path())
            };
            link.is_some_and(|link| self.close_link(Token::Channel(link)))
        }
    }

    /// The newest link of the host that asked for the most links. `None` if this host is `requester`. A link that other
    /// hosts also use moves to the share of one of them.
    fn link_to_end(&mut self, requester: Option<Host>) -> Option<ChannelKey> {
        loop {
            let requested = &self.sockets.requested;
            let newest = match requester {
                Some(requester) => requested.newest_of_most(&requester.path()),
                None => requested.newest_of_largest(),
            };
            if !self.sockets.pass_on_link(newest?) {
                return newest;
            }
        }
    }

    /// The host and the circuit of a stream.
    pub(super) fn holder(&mut self, stream: StreamKey) -> Option<(Host, CircuitIndex)> {
        let circuit = self.relay.circuit_of(stream)?;
        let (channel, _) = self.relay.leg(circuit, Direction::Backward)?;
        Some((self.sockets.channel(channel)?.host, circuit))
    }

    /// Makes a descriptor available for a new stream. Returns false if the circuit already has too many streams.
    pub(super) fn make_room_for_stream(&mut self, host: Host, circuit: CircuitIndex) -> bool {
        let [links, streams] = self.held();
        if self.sockets.held.count(&host.with_circuit(circuit))
            >= (self.descriptors.shared / CIRCUIT_SHARE).max(1)
        {
            return false;
        }
        if links + streams < self.descriptors.shared && streams < self.descriptors.shared / 4 * 3 {
            return true;
        }
        // A network with a single link keeps the link, because many circuits can depend on it.
        if streams < self.descriptors.shared / 2 && self.sockets.links.most() > 1 {
            let link = self.sockets.links.newest_of_largest();
            link.is_some_and(|link| self.close_link(Token::Channel(link)))
        } else {
            let stream = self.sockets.held.newest_of_most(&host.with_circuit(circuit));
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

    /// Ends a stream, or closes a closed stream's connection before all bytes are sent.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::claims::Claim;
    use crate::node::shares::Shares;
    use crate::node::test_node::{conn_to, host, node_with as node};
    use penstock_core::PeerId;
    use penstock_link::descriptor::{ExitPolicy, Private};

    #[test]
    fn lookups_and_unfinished_handshakes_leave_most_descriptors_to_links_and_streams() {
        for descriptors in [512, 1024, 1500, 9000, 20_000, 1 << 20] {
            let limits = DescriptorLimits::new(descriptors, true);
            let lookups = limits.lookups * SOCKETS_PER_LOOKUP;
            assert!(lookups + limits.shared + RESERVE <= descriptors, "{limits:?}");
            assert!(
                limits.shared * 2 >= descriptors && 4 * 2 * limits.opening <= limits.shared,
                "{limits:?}"
            );
        }
        let many = DescriptorLimits::new(1 << 20, true);
        assert_eq!((many.lookups, many.opening), (MAX_LOOKUPS, MAX_OPENING));
    }

    /// Adds a link to `host(last)`, which a circuit of `requester` asked for.
    fn add_link(node: &mut Node, last: u8, requester: Option<Host>) -> ChannelKey {
        let channel = node.relay.accept_channel(node.clock.now(), PeerId(last.into()), false);
        let mut conn = conn_to(node, host(last));
        conn.claim = requester.map(|host| Claim::new(&mut Shares::new(), host, channel));
        node.sockets.attach(channel, conn);
        channel
    }

    #[test]
    fn a_host_that_asks_for_links_to_many_relays_leaves_descriptors_to_others() {
        let mut node = node(1);
        assert_eq!(node.descriptors.shared, 16);
        let [flood, good, new] = [100, 101, 102].map(host);
        let accepted = [1, 2, 3, 4].map(|last| add_link(&mut node, last, None));
        let requested: Vec<_> = (5..17).map(|last| add_link(&mut node, last, Some(flood))).collect();
        assert!(!node.make_room_for_link(host(20), Some(flood)), "the host that asked for the most");
        assert!(node.make_room_for_link(new, None) && node.make_room_for_link(new, None));
        assert_eq!(node.held(), [15, 0]);
        add_link(&mut node, 21, None);
        assert!(node.make_room_for_link(host(20), Some(good)));
        let lost: Vec<_> =
            requested.iter().filter(|channel| !node.sockets.channels.contains(**channel)).collect();
        assert_eq!(lost, [&requested[10], &requested[11]], "the newest");
        assert!(accepted.iter().all(|channel| node.sockets.channels.contains(*channel)));
    }

    #[test]
    fn a_host_with_many_links_does_not_end_links_that_others_asked_for() {
        let mut node = node(1);
        let good = host(100);
        let requested: Vec<_> = (1..6).map(|last| add_link(&mut node, last, Some(good))).collect();
        let flood: Vec<_> = (0..11).map(|_| add_link(&mut node, 50, None)).collect();
        assert!(!node.make_room_for_link(host(50), None), "the host with the most links");
        assert!(node.make_room_for_link(host(20), Some(good)) && node.make_room_for_link(host(21), None));
        assert!(requested.iter().all(|channel| node.sockets.channels.contains(*channel)));
        let lost = flood.iter().filter(|channel| !node.sockets.channels.contains(**channel)).count();
        assert!(lost > 0, "the host with the most links loses one");
    }

    #[test]
    fn a_host_that_asks_first_for_a_link_does_not_end_it_for_others() {
        let mut node = node(1);
        let [flood, good] = [100, 101].map(host);
        let requested: Vec<_> = (1..17).map(|last| add_link(&mut node, last, Some(flood))).collect();
        let shared = requested[15];
        node.note_requester(shared, good);
        node.note_requester(shared, flood);
        let of = |node: &Node, host: Host| node.sockets.requested.count(&host.path());
        assert_eq!((of(&node, flood), of(&node, good)), (16, 0));
        assert!(node.make_room_for_link(host(20), None));
        assert_eq!((of(&node, flood), of(&node, good)), (14, 1));
        assert!(node.sockets.channels.contains(shared) && !node.sockets.channels.contains(requested[14]));
        node.relay.close_channel(node.clock.now(), shared, &mut node.sockets);
        assert_eq!((of(&node, flood), of(&node, good)), (14, 0));
    }

    #[test]
    fn a_relay_without_exits_reserves_no_descriptors_for_lookups() {
        let policy = |rules: &[&str]| {
            let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            ExitPolicy::new(rules, Private::AsRules, Vec::new())
        };
        let mut node = node(9000);
        assert_eq!((node.descriptors.lookups, node.descriptors.shared), (0, 9000 - RESERVE - 9000 / 32));
        node.set_policy(policy(&["accept *:80"]));
        assert_eq!(node.descriptors, DescriptorLimits::new(9000, true));
        assert!(node.sockets.lookups.limits().per_circuit > 40);
        node.set_policy(policy(&["reject *:*"]));
        assert_eq!((node.descriptors.lookups, node.sockets.lookups.limits().total), (0, 0));
    }
}
