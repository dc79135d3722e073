use super::{Parts, Relay};
use crate::cell::{Cell, MAX_PAYLOAD};
use crate::circuit::{Circuit, Stamp};
use crate::datagram::Association;
use crate::kernel::{Kernel, Unfinished};
use crate::keys::{ChannelKey, CircuitIndex, Direction};
use crate::reason::DestroyReason;
use penstock_units::{Bytes, Instant};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The size of a queued cell in the memory count [B], equal to the size on the wire.
const CELL: u64 = 514;
/// The counted size of a waiting DESTROY that is stored as id and reason [B].
const DESTROY: u64 = 16;

#[derive(Debug, Default)]
pub(super) struct MemoryUse {
    /// Cells in all circuit queues [cell].
    pub(super) cells: u64,
    pub(super) payloads: u64,
    /// Waiting DESTROYs that are stored as id and reason, not as a cell [1].
    pub(super) destroys: u64,
    /// Memory of the driver for peers [B]: connections, lookups, directory answers.
    driver: Bytes,
}

/// Holders in the order of their memory. The network with the most bytes comes last, and in each network the host with
/// the most bytes.
#[derive(Debug, Default)]
struct Order {
    /// For each network, its bytes, and its hosts in the order of their bytes.
    networks: BTreeMap<u128, (u64, BTreeSet<(u64, u128)>)>,
    by_bytes: BTreeSet<(u64, u128)>,
}

impl Order {
    fn of(holders: &BTreeMap<[u128; 2], Holder>) -> Self {
        let mut order = Order::default();
        for (id, holder) in holders {
            order.insert(holder.bytes, *id);
        }
        order
    }

    fn insert(&mut self, bytes: u64, [network, host]: [u128; 2]) {
        let (sum, hosts) = self.networks.entry(network).or_default();
        self.by_bytes.remove(&(*sum, network));
        *sum += bytes;
        hosts.insert((bytes, host));
        self.by_bytes.insert((*sum, network));
    }

    /// Removes a host with these bytes, if it is there. Returns whether it was.
    fn remove(&mut self, bytes: u64, [network, host]: [u128; 2]) -> bool {
        let Some((sum, hosts)) = self.networks.get_mut(&network) else { return false };
        if !hosts.remove(&(bytes, host)) {
            return false;
        }
        self.by_bytes.remove(&(*sum, network));
        *sum -= bytes;
        if !hosts.is_empty() {
            self.by_bytes.insert((*sum, network));
        }
        true
    }

    /// Removes the host with the most memory in the network with the most memory. Returns its bytes.
    fn pop_largest(&mut self) -> Option<(u64, [u128; 2])> {
        let (_, network) = self.by_bytes.pop_last()?;
        let (sum, hosts) = self.networks.get_mut(&network)?;
        let (bytes, host) = hosts.pop_last()?;
        *sum -= bytes;
        if !hosts.is_empty() {
            self.by_bytes.insert((*sum, network));
        }
        Some((bytes, [network, host]))
    }
}

/// The circuits and channels of one holder. The last entry of each list closes first.
#[derive(Debug, Default)]
struct Holder {
    bytes: u64,
    /// Bytes of circuits that end at this node and have no stream and no queued cell.
    unused: u64,
    /// Bytes that belong to no open channel and to no stream.
    other: u64,
    circuits: Vec<Closing>,
    channels: Vec<(u64, ChannelKey)>,
}

/// A circuit that the out-of-memory handler may close.
#[derive(Debug)]
struct Closing {
    circuit: CircuitIndex,
    age: Option<u32>,
    is_unused: bool,
    bytes: u64,
}

impl Holder {
    fn lose(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Closes a connection without an open channel, if most of the holder's bytes belong to no channel, or if the holder
    /// has no circuits. If other holders need the connection, it moves to one of them.
    fn close_unfinished<C: Cell>(
        &mut self,
        id: [u128; 2],
        kernel: &mut impl Kernel<C>,
    ) -> Option<Unfinished> {
        let is_due = self.other * 2 > self.bytes || self.circuits.is_empty();
        let lost = if is_due { kernel.close_unfinished(id)? } else { return None };
        let (Unfinished::Closed { memory, .. } | Unfinished::Moved { memory, .. }) = lost;
        self.other = self.other.saturating_sub(memory.get());
        Some(lost)
    }
}

impl MemoryUse {
    /// Counts memory of the driver as free. The driver sets the exact number later.
    fn free_driver(&mut self, freed: Bytes) {
        self.driver = self.driver.saturating_sub(freed);
    }
}

impl<C: Cell> Relay<C> {
    /// Sets the memory that the driver uses for peers [B]. It counts toward the memory limit.
    pub fn set_driver_memory(&mut self, bytes: Bytes) {
        self.parts.memory.driver = bytes;
    }

    /// The memory that peers make this node use, as the memory limit counts it [B].
    pub fn memory(&self) -> Bytes {
        self.parts.memory_use()
    }

    /// Closes circuits and channels if peers use more than the memory limit, until nine tenths of the limit are in use.
    /// Returns whether a circuit or a connection closed.
    ///
    /// The network that uses the most memory loses circuits first, and in this network the host that uses the most
    /// ([`Kernel::holder`]). The host loses the circuit with the oldest queued cell or the oldest payload that waits
    /// for an application. A flooded circuit with a slow reader therefore closes before busy circuits. If unused
    /// circuits use most of the host's memory, they close first, and so do connections without an open channel
    /// ([`Kernel::other_memory`]). A host without circuits loses its channels.
    ///
    /// Source: C tor `cell_queues_check_size()`, `circuits_handle_oom()` (`FRACTION_OF_DATA_TO_RETAIN_ON_OOM`).
    /// Deviation: C tor compares the circuits of all holders by age, and counts no idle circuits.
    /// Deviation: circuits that a rendezvous point joined close together. All circuits of a set close together, because the streams of the set and the messages that wait for
    /// earlier ones stay as long as one leg is open. C tor may keep the other legs.
    /// Deviation: if an application does not read a stream, the whole circuit closes; C tor may close only the stream.
    /// The age of a payload is overestimated by a factor of up to two ([`Wait`](crate::stream::Wait)).
    pub(super) fn handle_oom(&mut self, now: Instant, kernel: &mut impl Kernel<C>) -> bool {
        let limit = self.parts.config.limits.memory;
        limit.is_some_and(|limit| self.parts.memory_use() > limit && self.close_worst(now, limit, kernel))
    }

    #[cold]
    fn close_worst(&mut self, now: Instant, limit: Bytes, kernel: &mut impl Kernel<C>) -> bool {
        let mut has_closed = false;
        let mut holders = self.parts.holders(now, kernel);
        let mut order = Order::of(&holders);
        // Circuits that closed with their set, so that their holders have lost the bytes already.
        let mut closed = BTreeSet::new();
        let target = Bytes::new(limit.get() / 10 * 9);
        while self.parts.memory_use() > target {
            let Some((_, id)) = order.pop_largest() else { break };
            let Some(holder) = holders.get_mut(&id) else { continue };
            let lost = holder.close_unfinished(id, kernel);
            let freed = if let Some(Unfinished::Closed { memory, channel }) = lost {
                if let Some(channel) = channel {
                    self.parts.channels.close_soon(channel);
                }
                self.parts.memory.free_driver(memory);
                memory.get()
            } else if let Some(Unfinished::Moved { memory, to }) = lost {
                holder.lose(memory.get());
                order.insert(holder.bytes, id);
                let next = holders.entry(to).or_default();
                if !order.remove(next.bytes, to) {
                    // The holder had nothing more to close.
                    next.bytes = 0;
                }
                next.bytes += memory.get();
                next.other += memory.get();
                order.insert(next.bytes, to);
                continue;
            } else if let Some(Closing { circuit, bytes, .. }) = holder.circuits.pop() {
                // A circuit closes with any of its channels.
                if self.parts.circuits.contains(circuit) {
                    for (leg, other, freed) in self.close_linked(now, circuit, kernel) {
                        closed.insert(leg);
                        if let Some(holder) = holders.get_mut(&other) {
                            let is_listed = order.remove(holder.bytes, other);
                            holder.lose(freed);
                            if is_listed {
                                order.insert(holder.bytes, other);
                            }
                        }
                    }
                }
                if closed.contains(&circuit) { 0 } else { bytes }
            } else if let Some((bytes, channel)) = holder.channels.pop() {
                self.close_worst_channel(now, channel, kernel);
                bytes
            } else {
                continue;
            };
            has_closed = true;
            if let Some(holder) = holders.get_mut(&id) {
                holder.lose(freed);
                order.insert(holder.bytes, id);
            }
        }
        has_closed
    }

    /// Closes a circuit, and all circuits that are linked or joined with it. Returns each of these circuits with its holder
    /// and its memory [B].
    fn close_linked(
        &mut self,
        now: Instant,
        circuit: CircuitIndex,
        kernel: &mut impl Kernel<C>,
    ) -> Vec<(CircuitIndex, [u128; 2], u64)> {
        let parts = &mut self.parts;
        let mut others = parts.linked_with(circuit);
        others.extend(parts.joined(circuit));
        let held = |leg: &CircuitIndex| {
            let state = &parts.circuits[*leg];
            Some((*leg, kernel.holder(state.origin()?), parts.circuit_memory(state, kernel)))
        };
        let lost = others.iter().filter_map(held).collect();
        let all = || others.iter().copied().chain([circuit]);
        let ends = all().flat_map(|leg| parts.circuits[leg].halves().map(|half| half.to)).flatten();
        let ends: Vec<_> = ends.collect();
        for leg in all() {
            parts.counters.oom_closed += 1;
            parts.memory.free_driver(parts.driver_memory(leg, kernel));
        }
        parts.leave_others(circuit, true);
        for leg in all() {
            self.close_one(now, leg, None, Ok(DestroyReason::RESOURCE_LIMIT), kernel);
        }
        for end in ends {
            self.parts.abandon(now, end.channel, end.id);
        }
        lost
    }

    /// Closes a channel immediately, so that its output buffer no longer counts as used. Otherwise other hosts would
    /// lose circuits for memory that is already free.
    fn close_worst_channel(&mut self, now: Instant, channel: ChannelKey, kernel: &mut impl Kernel<C>) {
        self.parts.counters.oom_channels += 1;
        let mut circuits: BTreeSet<_> = self.parts.channels[channel].circuits.all().into_iter().collect();
        circuits.extend(circuits.clone().into_iter().filter_map(|circuit| self.parts.joined(circuit)));
        for circuit in circuits {
            self.parts.memory.free_driver(self.parts.driver_memory(circuit, kernel));
        }
        self.parts.memory.free_driver(kernel.memory(channel));
        kernel.close(channel);
        self.remove_channel(now, channel, kernel);
    }
}

impl<C: Cell> Parts<C> {
    fn memory_use(&self) -> Bytes {
        let (counters, limits) = (&self.counters, &self.config.limits);
        let held = counters.received + counters.made - counters.sent - counters.consumed - counters.dropped;
        let queued = held * CELL + self.memory.payloads * u64::from(MAX_PAYLOAD);
        let queued = queued + self.memory.destroys * DESTROY;
        let circuits = self.circuits.len() as u64 * limits.circuit.get();
        let streams = self.edges.streams.len() as u64 * limits.stream.get();
        Bytes::new(queued + circuits + streams + self.datagrams.memory()) + self.memory.driver
    }

    /// The memory of each holder. A circuit belongs to the holder of the channel from which it came.
    fn holders(&self, now: Instant, kernel: &impl Kernel<C>) -> BTreeMap<[u128; 2], Holder> {
        let stamp = Stamp::at(now);
        let mut holders = BTreeMap::<[u128; 2], Holder>::new();
        for (key, circuit) in self.circuits.iter() {
            let [forward, backward] = Direction::BOTH.map(|direction| circuit.half(direction).to);
            let Some(origin) = circuit.origin() else { continue };
            let bytes = self.circuit_memory(circuit, kernel);
            let age = self.age(circuit, stamp);
            let is_unused =
                age.is_none() && circuit.edge.is_none() && (forward.is_none() || backward.is_none());
            let holder = holders.entry(kernel.holder(origin)).or_default();
            holder.bytes += bytes;
            holder.unused += if is_unused { bytes } else { 0 };
            holder.circuits.push(Closing { circuit: key, age, is_unused, bytes });
        }
        for (key, channel) in self.channels.iter() {
            let cells = channel.outbuf.len() as u64 * CELL + channel.destroys.len() as u64 * DESTROY;
            let closing = channel.transport.association().map_or(0, Association::closing_memory);
            let connection = kernel.memory(key).get();
            let bytes = cells + closing + connection;
            let holder = holders.entry(kernel.holder(key)).or_default();
            holder.bytes += bytes;
            // Without memory, the driver still connects a channel that is not open.
            if channel.open || connection > 0 {
                holder.channels.push((bytes, key));
            }
        }
        for (id, bytes) in kernel.other_memory() {
            let holder = holders.entry(id).or_default();
            holder.bytes += bytes.get();
            holder.other += bytes.get();
        }
        for holder in holders.values_mut() {
            let unused_first = holder.unused * 2 > holder.bytes;
            holder.circuits.sort_unstable_by_key(|closing| {
                (unused_first && closing.is_unused, closing.age, Reverse(closing.circuit))
            });
            holder.channels.sort_unstable();
        }
        holders
    }

    fn circuit_memory(&self, circuit: &Circuit<C>, kernel: &impl Kernel<C>) -> u64 {
        let limits = &self.config.limits;
        let cells: usize = circuit.halves().into_iter().map(|half| half.queue.len()).sum();
        let edge = circuit.edge.as_deref().map_or(0, |edge| {
            let streams =
                edge.streams.iter().map(|stream| (limits.stream + kernel.stream_memory(*stream)).get());
            edge.waiting * u64::from(MAX_PAYLOAD) + streams.sum::<u64>()
        });
        let legs = circuit.halves().into_iter().filter_map(|half| half.to);
        let datagrams = legs.filter_map(|leg| {
            Some(self.channels[leg.channel].transport.association()?.circuit_memory(leg.id))
        });
        let reordering = circuit.edge.as_deref().map_or(0, |edge| self.linked.waiting_at(edge));
        let reordering = reordering * u64::from(MAX_PAYLOAD);
        limits.circuit.get() + cells as u64 * CELL + edge + reordering + datagrams.sum::<u64>()
    }

    /// The memory of the driver for the circuit's streams [B].
    fn driver_memory(&self, circuit: CircuitIndex, kernel: &impl Kernel<C>) -> Bytes {
        let streams = self.circuits[circuit].edge.iter().flat_map(|edge| &edge.streams);
        streams.fold(Bytes::ZERO, |sum, stream| sum + kernel.stream_memory(*stream))
    }

    /// The age of a circuit's oldest queued cell or payload; `None` if nothing is queued.
    fn age(&self, circuit: &Circuit<C>, now: Stamp) -> Option<u32> {
        let cells = circuit.halves().into_iter().filter_map(|half| Some(half.queue.front()?.since));
        let streams = circuit.edge.iter().flat_map(|edge| &edge.streams);
        let streams = streams.map(|stream| &self.edges.streams[*stream]);
        let payloads = streams.filter(|stream| !stream.outbuf.is_empty()).map(|stream| stream.wait.age(now));
        let reordering = circuit.edge.iter().filter_map(|edge| self.linked.age(edge, now));
        cells.map(|since| since.age(now)).chain(payloads).chain(reordering).max()
    }
}
