//! The state of a relay, for instruments and drivers.

use super::{Counters, Relay};
use crate::cell::{Cell, CircId, PeerId};
use crate::config::RelayConfig;
use crate::edge_control::EdgeControl;
use crate::hop_control::HopControl;
use crate::keys::{ChannelKey, CircuitIndex, Direction, StreamKey};
use penstock_units::{Bytes, Cells, Duration};

impl<C: Cell> Relay<C> {
    /// The present configuration.
    pub fn config(&self) -> &RelayConfig {
        &self.parts.config
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        self.parts.counters
    }

    /// Cells in all circuit queues [cell].
    pub fn queued(&self) -> Cells {
        Cells::new(self.parts.memory.cells)
    }

    /// Bytes in all output buffers [B].
    pub fn outbuf_bytes(&self) -> Bytes {
        self.parts.channels.values().map(|channel| channel.outbuf_len()).sum()
    }

    /// Cells in all output buffers [cell].
    pub fn outbuf_cells(&self) -> Cells {
        Cells::new(self.parts.channels.values().map(|channel| channel.outbuf.len() as u64).sum())
    }

    /// Cells of `circuit` that wait to travel in `direction` [cell].
    pub fn circuit_queue(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        let circuit = self.parts.circuits.get(circuit)?;
        Some(Cells::new(circuit.half(direction).queue.len() as u64))
    }

    /// The maximum queue of `circuit` in `direction` if its cells are packaged here: N2 + N3 under credits.
    /// `None` if the next hop is not controlled.
    pub fn edge_queue_limit(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        self.parts.circuits.get(circuit)?.half(direction).hop.edge_queue_limit()
    }

    /// How many cells of `circuit` may be outstanding on its next hop in `direction`, if a window limits them.
    pub fn hop_window(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        self.parts.circuits.get(circuit)?.half(direction).hop.window()
    }

    /// The end-to-end window of `circuit` at this edge, if it has one, and the last round-trip time.
    pub fn circuit_window(&self, circuit: CircuitIndex) -> Option<(Cells, Option<Duration>)> {
        let edge = self.parts.circuits.get(circuit)?.edge.as_deref()?;
        let window = edge.control.window();
        (window < Cells::new(u64::MAX)).then(|| (window, edge.control.rtt()))
    }

    /// Channels that wait for a token bucket.
    pub fn throttled_channels(&self) -> u32 {
        self.parts.buckets.waiting.channels()
    }

    /// The keys of all channels, open and opening.
    pub fn channels(&self) -> Vec<ChannelKey> {
        self.parts.channels.keys()
    }

    /// The keys of all circuits.
    pub fn circuits(&self) -> Vec<CircuitIndex> {
        self.parts.circuits.keys()
    }

    /// The circuit of a stream.
    pub fn circuit_of(&self, stream: StreamKey) -> Option<CircuitIndex> {
        self.parts.edges.streams.get(stream).map(|stream| stream.circuit)
    }

    /// The circuit with this id on `channel`.
    pub fn circuit_on(&self, channel: ChannelKey, id: CircId) -> Option<CircuitIndex> {
        self.parts.circuit_of(channel, id)
    }

    /// The channel and id over which `circuit` continues in `direction`.
    pub fn leg(&self, circuit: CircuitIndex, direction: Direction) -> Option<(ChannelKey, CircId)> {
        let leg = self.parts.circuits.get(circuit)?.half(direction).to?;
        Some((leg.channel, leg.id))
    }

    /// Whether there is a channel to `peer`, open or opening.
    pub fn has_channel(&self, peer: PeerId) -> bool {
        self.parts.channels.has_peer(peer)
    }

    /// Whether the next circuit to `peer` shares an existing channel. Otherwise a channel is opened for it.
    pub fn shares(&self, peer: PeerId) -> bool {
        self.parts.channels.shared_with(peer).is_some()
    }

    /// The number of channels, circuits and streams.
    pub fn population(&self) -> [usize; 3] {
        [self.parts.channels.len(), self.parts.circuits.len(), self.parts.edges.streams.len()]
    }
}
