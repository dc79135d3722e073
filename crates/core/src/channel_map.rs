//! Which channel does a circuit take?

use crate::cell::PeerId;
use crate::factory::Factory;
use crate::keys::ChannelKey;
use std::fmt;

/// Chooses the channel of a new circuit's next hop.
pub trait ChannelMap: fmt::Debug + Send {
    /// The open (or opening) channel to `peer` that the circuit shares; `None` asks for a new one.
    ///
    /// `existing` lists the channels to `peer`, oldest first. A driver may ask beforehand ([`Relay::shares`](crate::Relay::shares)).
    fn choose(&self, peer: PeerId, existing: &[ChannelKey]) -> Option<ChannelKey>;
}

/// One channel per pair of relays, shared by all circuits that have this edge.
///
/// Source: C tor `channel_get_for_extend()`; DefenestraTor §3.1, KIST §5.1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared;

impl ChannelMap for Shared {
    fn choose(&self, _peer: PeerId, existing: &[ChannelKey]) -> Option<ChannelKey> {
        existing.first().copied()
    }
}

/// A channel of its own for every circuit.
///
/// Source: throttling §5.3, what a client may do to elude a guard that throttles connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerCircuit;

impl ChannelMap for PerCircuit {
    fn choose(&self, _peer: PeerId, _existing: &[ChannelKey]) -> Option<ChannelKey> {
        None
    }
}

/// Builds a [`ChannelMap`].
#[derive(Clone, Debug, Default)]
pub enum ChannelMapConfig {
    /// [`Shared`].
    #[default]
    Shared,
    /// [`PerCircuit`].
    PerCircuit,
    /// Whatever this builds: the way in for algorithms outside this workspace.
    Custom(Factory<dyn ChannelMap>),
}

impl ChannelMapConfig {
    /// The map.
    pub fn build(&self) -> Box<dyn ChannelMap> {
        match self {
            ChannelMapConfig::Shared => Box::new(Shared),
            ChannelMapConfig::PerCircuit => Box::new(PerCircuit),
            ChannelMapConfig::Custom(factory) => factory.build(),
        }
    }
}
