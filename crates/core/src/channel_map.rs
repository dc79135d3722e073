//! Which channel does a circuit use?

use crate::cell::PeerId;
use crate::factory::Factory;
use crate::keys::ChannelKey;
use std::fmt;

/// Chooses the channel of a new circuit's next hop.
pub trait ChannelMap: fmt::Debug + Send {
    /// The existing channel to `peer` that the new circuit uses; `None` requests a new channel.
    ///
    /// `existing` lists the open and opening channels to `peer`, oldest first. A driver may call this before it creates
    /// the circuit ([`Relay::shares`](crate::Relay::shares)).
    fn choose(&self, peer: PeerId, existing: &[ChannelKey]) -> Option<ChannelKey>;
}

/// One channel for each pair of relays, shared by all circuits between the two.
///
/// Source: C tor `channel_get_for_extend()`; DefenestraTor §3.1, KIST §5.1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared;

impl ChannelMap for Shared {
    fn choose(&self, _peer: PeerId, existing: &[ChannelKey]) -> Option<ChannelKey> {
        existing.first().copied()
    }
}

/// One channel for each circuit.
///
/// Source: throttling §5.3: a client with a channel for each circuit can evade a guard that throttles each connection.
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
    /// An algorithm from outside this workspace.
    Custom(Factory<dyn ChannelMap>),
}

impl ChannelMapConfig {
    /// Builds the channel map of one relay.
    pub fn build(&self) -> Box<dyn ChannelMap> {
        match self {
            ChannelMapConfig::Shared => Box::new(Shared),
            ChannelMapConfig::PerCircuit => Box::new(PerCircuit),
            ChannelMapConfig::Custom(factory) => factory.build(),
        }
    }
}
