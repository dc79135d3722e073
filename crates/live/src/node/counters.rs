//! Counters of the node: links, circuit handshakes and streams. They contain only numbers, no identities.

use penstock_core::Violation;
use penstock_link::cell::HandshakeKind;
use std::collections::BTreeMap;

/// Counters since the start of the node.
#[derive(Clone, Debug, Default)]
pub struct NodeCounters {
    /// Numbers of completed links [1]: with relays, then with clients.
    pub links: [u64; 2],
    /// Failed links, by reason [1].
    pub link_failures: BTreeMap<&'static str, u64>,
    /// Circuit handshakes by kind, and by whether the relay answered them [1].
    pub handshakes: BTreeMap<(&'static str, bool), u64>,
    /// Circuits that this relay closed for a protocol violation, by violation [1].
    pub violations: BTreeMap<String, u64>,
    /// Requested exit streams, by outcome [1].
    pub streams: BTreeMap<&'static str, u64>,
    /// Messages of onion services' protocols, by their effect [1].
    pub onion_services: BTreeMap<&'static str, u64>,
    /// Datagram paths of links [1]: `open`, `failed` if an open path stopped working, or why the link uses TLS only.
    pub paths: BTreeMap<&'static str, u64>,
}

/// Outcomes of exit streams.
const STREAMS: [&str; 6] = ["connected", "failed", "refused", "reentry", "limited", "evicted"];
/// Effects of messages of onion services.
const ONION_SERVICES: [&str; 7] = [
    "introduction_point",
    "introduced",
    "refused",
    "rendezvous_point",
    "joined",
    "unknown_cookie",
    "violation",
];
/// Kinds of circuit handshakes that the relay knows.
const HANDSHAKES: [&str; 3] = ["ntor", "ntor-v3", "fast"];

impl NodeCounters {
    /// Counters at the start of the node. Common values begin with zero, so that monitoring sees the first event as an
    /// increase.
    pub(super) fn new() -> Self {
        let zeros = |names: &[&'static str]| names.iter().map(|name| (*name, 0)).collect();
        NodeCounters {
            streams: zeros(&STREAMS),
            onion_services: zeros(&ONION_SERVICES),
            handshakes: HANDSHAKES
                .into_iter()
                .flat_map(|kind| [true, false].map(|answered| ((kind, answered), 0)))
                .collect(),
            ..NodeCounters::default()
        }
    }

    pub(super) fn link(&mut self, is_client: bool) {
        self.links[usize::from(is_client)] += 1;
    }

    pub(super) fn no_link(&mut self, reason: &'static str) {
        *self.link_failures.entry(reason).or_default() += 1;
    }

    pub(super) fn handshake(&mut self, kind: HandshakeKind, answered: bool) {
        let kind = match kind {
            HandshakeKind::Ntor => "ntor",
            HandshakeKind::NtorV3 => "ntor-v3",
            HandshakeKind::Fast => "fast",
            _ => "other",
        };
        *self.handshakes.entry((kind, answered)).or_default() += 1;
    }

    pub(super) fn violation(&mut self, violation: Violation) {
        *self.violations.entry(snake(&format!("{violation:?}"))).or_default() += 1;
    }

    pub(super) fn path(&mut self, outcome: &'static str) {
        *self.paths.entry(outcome).or_default() += 1;
    }

    pub(super) fn onion_service(&mut self, effect: &'static str) {
        *self.onion_services.entry(effect).or_default() += 1;
    }

    pub(super) fn stream(&mut self, outcome: &'static str) {
        *self.streams.entry(outcome).or_default() += 1;
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_events_are_counted_from_zero() {
        let mut counters = NodeCounters::new();
        assert_eq!(counters.streams["connected"], 0);
        let names = counters.onion_services.len() + counters.streams.len() + counters.handshakes.len();
        counters.stream("connected");
        counters.onion_service("joined");
        counters.handshake(HandshakeKind::NtorV3, false);
        assert_eq!(counters.streams["connected"], 1);
        let now = counters.onion_services.len() + counters.streams.len() + counters.handshakes.len();
        assert_eq!(now, names);
    }

    #[test]
    fn violations_are_counted_by_name() {
        let mut counters = NodeCounters::default();
        counters.violation(Violation::UnexpectedEarlyCell);
        counters.violation(Violation::UnexpectedEarlyCell);
        assert_eq!(counters.violations["unexpected_early_cell"], 2);
    }
}
