use super::{Counters, Relay};
use crate::cell::{Cell, CircId, PeerId};
use crate::config::RelayConfig;
use crate::edge_control::EdgeControl;
use crate::hop_control::{Backlog, HopControl};
use crate::keys::{ChannelKey, CircuitIndex, Direction, StreamKey};
use penstock_units::{Bytes, Cells, Duration};

impl<C: Cell> Relay<C> {
    /// The current configuration.
    pub fn config(&self) -> &RelayConfig {
        &self.parts.config
    }

    /// Counters since the start of the relay.
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

    /// The length of the queue of `circuit` in `direction` at this node [cell].
    pub fn circuit_queue(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        let circuit = self.parts.circuits.get(circuit)?;
        Some(Cells::new(circuit.half(direction).queue.len() as u64))
    }

    /// The maximum queue of `circuit` in `direction`, if this node packages the circuit's cells [cell]. With credits it
    /// is N2 + N3; without hop control, `None`.
    pub fn edge_queue_limit(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        self.parts.circuits.get(circuit)?.half(direction).hop.edge_queue_limit()
    }

    /// How many cells of `circuit` may be outstanding on the next hop in `direction` [cell]; `None` if no window limits
    /// them.
    pub fn hop_window(&self, circuit: CircuitIndex, direction: Direction) -> Option<Cells> {
        self.parts.circuits.get(circuit)?.half(direction).hop.window()
    }

    /// The estimates that the hop control of `circuit` in `direction` has of the circuit's queues at later nodes.
    pub fn backlog(&self, circuit: CircuitIndex, direction: Direction) -> Option<Backlog> {
        self.parts.circuits.get(circuit)?.half(direction).hop.backlog()
    }

    /// The end-to-end window of `circuit` at this edge and the last round-trip time; `None` if the edge has no window.
    pub fn circuit_window(&self, circuit: CircuitIndex) -> Option<(Cells, Option<Duration>)> {
        let edge = self.parts.circuits.get(circuit)?.edge.as_deref()?;
        let window = edge.control.window();
        (window < Cells::new(u64::MAX)).then(|| (window, edge.control.rtt()))
    }

    /// How many SENDMEs of `circuit` and of its streams have arrived at this edge; `None` if this node is no edge of
    /// it.
    pub fn arrived_sendmes(&self, circuit: CircuitIndex) -> Option<u64> {
        Some(self.parts.circuits.get(circuit)?.edge.as_deref()?.sendmes)
    }

    /// The number of channels that wait for a refill of token buckets.
    pub fn throttled_channels(&self) -> u32 {
        self.parts.buckets.waiting.channels()
    }

    /// The clients with a connection that the throttle limits.
    pub fn throttled_clients(&self) -> impl Iterator<Item = PeerId> {
        self.parts.buckets.clients.iter().flat_map(|clients| {
            let is_throttled = |client| clients.is_throttled(client);
            let channels = self.parts.channels.values();
            channels
                .filter(move |channel| channel.client.is_some_and(is_throttled))
                .map(|channel| channel.peer)
        })
    }

    /// The keys of all channels, including those that are still opening.
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

    /// The circuit that has this circuit id on `channel`.
    pub fn circuit_on(&self, channel: ChannelKey, id: CircId) -> Option<CircuitIndex> {
        self.parts.circuit_of(channel, id)
    }

    /// The channel to the next hop of `circuit` in `direction`, and the circuit's id on that channel.
    pub fn leg(&self, circuit: CircuitIndex, direction: Direction) -> Option<(ChannelKey, CircId)> {
        let leg = self.parts.circuits.get(circuit)?.half(direction).to?;
        Some((leg.channel, leg.id))
    }

    /// Whether the channel exists, open or opening.
    pub fn is_channel(&self, channel: ChannelKey) -> bool {
        self.parts.channels.contains(channel)
    }

    /// Whether the channel is open.
    pub fn is_open(&self, channel: ChannelKey) -> bool {
        self.parts.channels.get(channel).is_some_and(|state| state.open)
    }

    /// Whether an open or opening channel to `peer` exists.
    pub fn has_channel(&self, peer: PeerId) -> bool {
        self.parts.channels.has_peer(peer)
    }

    /// Whether the next circuit to `peer` will share an existing channel. Otherwise the relay opens a new channel.
    pub fn shares(&self, peer: PeerId) -> bool {
        self.parts.channels.shared_with(peer).is_some()
    }

    /// The numbers of channels, of circuits and of streams.
    pub fn population(&self) -> [usize; 3] {
        [self.parts.channels.len(), self.parts.circuits.len(), self.parts.edges.streams.len()]
    }
}
