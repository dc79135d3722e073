use crate::arena::Arena;
use crate::cell::{Cell, PeerId};
use crate::channel::{Channel, CircIds};
use crate::channel_map::ChannelMap;
use crate::circuit_policy::CircuitPolicy;
use crate::config::RelayConfig;
use crate::delay::Delay;
use crate::kernel::{Interest, Kernel};
use crate::keys::{ChannelKey, CircuitKey};
use crate::relay::timers::ChannelTimers;
use crate::transport::Transport;
use penstock_units::{Instant, fifo::take_first};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};

/// The channels of a relay. Two lists contain the channels that [`Relay::settle`](super::Relay) must still handle in
/// the current call.
#[derive(Debug)]
pub(super) struct Channels<C: Cell> {
    all: Arena<ChannelKey, Channel<C>>,
    by_peer: BTreeMap<PeerId, Vec<ChannelKey>>,
    map: Box<dyn ChannelMap>,
    /// Channels with new cells that the scheduler does not know yet. Some of these channels may be closed.
    ready: VecDeque<ChannelKey>,
    to_close: Vec<ChannelKey>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelEnds {
    pub(super) to_client: bool,
    pub(super) with_client: bool,
    pub(super) initiator: bool,
}

impl<C: Cell> Channels<C> {
    pub(super) fn new(config: &RelayConfig) -> Self {
        Channels {
            all: Arena::new(),
            by_peer: BTreeMap::new(),
            map: config.channel_map.build(),
            ready: VecDeque::new(),
            to_close: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, peer: PeerId, ends: ChannelEnds, config: &RelayConfig) -> ChannelKey {
        let ChannelEnds { to_client, with_client, initiator } = ends;
        let key = self.all.insert(Channel {
            peer,
            to_client,
            with_client,
            open: false,
            hops: None,
            delay: config.hop_control.delay().map(|config| Box::new(Delay::new(config))),
            outbuf: VecDeque::new(),
            destroys: VecDeque::new(),
            transport: Transport::Stream,
            timers: ChannelTimers::default(),
            policy: config.circuit_policy.build(),
            circuits: CircIds::new(initiator, config.datagrams.is_some()),
            interest: Interest::default(),
            client: None,
        });
        self.by_peer.entry(peer).or_default().push(key);
        key
    }

    /// Removes a channel. The list of ready channels may still contain it.
    pub(super) fn remove(&mut self, channel: ChannelKey) -> Channel<C> {
        let state = self.all.remove(channel);
        self.remove_from_peer(state.peer, channel);
        state
    }

    pub(super) fn open(&self) -> Vec<ChannelKey> {
        self.all.iter().filter(|(_, channel)| channel.open).map(|(key, _)| key).collect()
    }

    pub(super) fn set_peer(&mut self, channel: ChannelKey, peer: PeerId) {
        let Some(state) = self.all.get_mut(channel) else { return };
        let before = std::mem::replace(&mut state.peer, peer);
        if before != peer {
            self.remove_from_peer(before, channel);
            self.by_peer.entry(peer).or_default().push(channel);
        }
    }

    fn remove_from_peer(&mut self, peer: PeerId, channel: ChannelKey) {
        if let Some(channels) = self.by_peer.get_mut(&peer) {
            channels.retain(|other| *other != channel);
            if channels.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
    }

    pub(super) fn has_peer(&self, peer: PeerId) -> bool {
        self.by_peer.contains_key(&peer)
    }

    /// The channel to `peer` that the channel map chooses for a new circuit, if the channel has a free circuit id.
    pub(super) fn shared_with(&self, peer: PeerId) -> Option<ChannelKey> {
        let existing = self.by_peer.get(&peer).map_or(&[][..], Vec::as_slice);
        let chosen = self.map.choose(peer, existing);
        chosen.filter(|channel| !self.all[*channel].circuits.is_full())
    }

    pub(super) fn set_interest(
        &mut self,
        channel: ChannelKey,
        kernel: &mut impl Kernel<C>,
        change: impl FnOnce(&mut Interest),
    ) {
        let interest = &mut self[channel].interest;
        let before = *interest;
        change(interest);
        if *interest != before {
            kernel.want(channel, *interest);
        }
    }

    /// Informs the circuit policy immediately that a circuit can send. The scheduler learns this before the current
    /// call ends.
    pub(super) fn on_circuit_ready(&mut self, now: Instant, channel: ChannelKey, circuit: CircuitKey) {
        self[channel].policy.on_ready(now, circuit);
        self.set_ready(channel);
    }

    pub(super) fn set_ready(&mut self, channel: ChannelKey) {
        self.ready.push_back(channel);
    }

    pub(super) fn take_ready(&mut self) -> Option<ChannelKey> {
        take_first(&mut self.ready)
    }

    pub(super) fn close_soon(&mut self, channel: ChannelKey) {
        self.to_close.push(channel);
    }

    pub(super) fn take_to_close(&mut self) -> Option<ChannelKey> {
        self.to_close.pop()
    }
}

impl<C: Cell> Deref for Channels<C> {
    type Target = Arena<ChannelKey, Channel<C>>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl<C: Cell> DerefMut for Channels<C> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}
