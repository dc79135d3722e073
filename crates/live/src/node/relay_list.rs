//! Who counts as a relay: whoever proved an identity, as long as no consensus is there; then those whom it names.

use super::Node;
use crate::directory::{Fingerprint, Flavour};
use penstock_core::ChannelKey;
use penstock_units::{Duration, Instant};
use std::time::SystemTime;

/// Looks so often whether there is a new consensus [ns].
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What was looked at.
#[derive(Debug)]
pub(super) struct RelayList {
    /// The consensus by which channels were told apart last.
    consensus: Option<SystemTime>,
    next: Instant,
}

impl RelayList {
    pub(super) fn new(now: Instant) -> Self {
        RelayList { consensus: None, next: now }
    }
}

impl Node {
    /// Whether the relay that proved this identity is one of the network. Keys are made by anybody: whom the consensus does
    /// not name is a client, for exit streams and for the throttle.
    ///
    /// Source: C tor `connection_or_digest_is_known_relay()`. Deviation: a descriptor alone makes nobody a relay; without a
    /// consensus all are relays, so that a network can begin.
    pub(super) fn is_relay(&self, identity: &Fingerprint) -> bool {
        self.documents().and_then(|documents| documents.names(identity)) != Some(false)
    }

    /// Tells relays and clients apart anew, after each consensus.
    ///
    /// Source: C tor `connection_or_update_token_buckets()`.
    pub(super) fn classify_channels(&mut self, now: Instant) {
        if now < self.relay_list.next {
            return;
        }
        self.relay_list.next = now + CHECK_INTERVAL;
        let documents = self.documents();
        let consensus = documents.as_ref().and_then(|documents| documents.consensus(Flavour::Plain));
        let consensus = consensus.map(|consensus| consensus.valid_after);
        if std::mem::replace(&mut self.relay_list.consensus, consensus) == consensus {
            return;
        }
        for key in 0..self.sockets.channels.len() {
            self.classify_channel(now, ChannelKey(key as u32));
        }
    }

    /// Has a channel throttled as a client's, if its peer is no relay.
    pub(super) fn classify_channel(&mut self, now: Instant, channel: ChannelKey) {
        let peer = self.sockets.channel(channel).and_then(|conn| conn.peer);
        let Some(known) = peer.and_then(|peer| self.peers.known(peer)) else { return };
        let is_relay = self.is_relay(&known.rsa);
        self.relay.set_to_client(now, channel, !is_relay);
    }
}
