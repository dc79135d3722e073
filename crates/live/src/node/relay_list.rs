//! Decides which peers are relays. With a consensus, these are the relays that it lists. Without a consensus, these
//! are all authenticated peers.

use super::Node;
use crate::directory::{Fingerprint, Flavour};
use penstock_core::ChannelKey;
use penstock_units::{Duration, Instant};
use std::time::SystemTime;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct RelayList {
    /// Valid-after time of the consensus that the last classification used.
    consensus: Option<SystemTime>,
    next: Instant,
}

impl RelayList {
    pub(super) fn new(now: Instant) -> Self {
        RelayList { consensus: None, next: now }
    }
}

impl Node {
    /// Whether a peer with this identity is a relay. Peers that the consensus does not list are treated as clients,
    /// because anyone can create an identity. This affects exit streams and the throttle of client connections.
    /// Source: C tor `connection_or_digest_is_known_relay()`.
    /// Deviation: a descriptor alone does not make a peer a relay. Without a consensus, all authenticated peers are
    /// relays, so that a new network can start.
    pub(super) fn is_relay(&self, identity: &Fingerprint) -> bool {
        self.documents().and_then(|documents| documents.names(identity)) != Some(false)
    }

    /// Classifies all channels again after each new consensus.
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
        for channel in self.relay.channels() {
            self.classify_channel(now, channel);
        }
    }

    /// Applies the client throttle to a channel whose peer is not a relay.
    pub(super) fn classify_channel(&mut self, now: Instant, channel: ChannelKey) {
        let peer = self.sockets.channel(channel).and_then(|conn| conn.peer);
        let Some(known) = peer.and_then(|peer| self.peers.known(peer)) else { return };
        let is_relay = self.is_relay(&known.rsa);
        self.relay.set_to_client(now, channel, !is_relay);
    }
}
