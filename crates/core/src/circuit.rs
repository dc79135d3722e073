//! A circuit at one relay. It has two half-circuits, and an edge if streams begin or end at this node.

use crate::cell::{Cell, CircId, Command};
use crate::circuit_policy::PriorityClass;
use crate::config::EdgeQueue;
use crate::edge_control::{Agreement, AnyEdgeControl, EdgeControl};
use crate::hop_control::{AnyHopControl, HopControl, Source};
use crate::keys::{ChannelKey, CircuitIndex, ConfluxKey, Direction, StreamKey};
use penstock_units::{Cells, Instant, fifo::take_first};
use std::collections::VecDeque;

/// The channel to a circuit's next hop, and the circuit's id on that channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) channel: ChannelKey,
    pub(crate) id: CircId,
}

#[derive(Debug)]
pub(crate) struct HalfCircuit<C> {
    pub(crate) to: Option<Leg>,
    pub(crate) queue: VecDeque<Queued<C>>,
    /// The number of queued cells that need no credit. Only RELAY cells need credit.
    unlimited: usize,
    pub(crate) hop: AnyHopControl,
}

#[derive(Debug)]
pub(crate) struct Queued<C> {
    pub(crate) cell: C,
    pub(crate) source: Source,
    pub(crate) since: Stamp,
}

/// A 32-bit time in units of 2^20 ns (1.05 ms). It wraps around after 52 days.
/// Source: C tor `monotime_coarse_get_stamp()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) fn at(now: Instant) -> Self {
        Stamp((now.since(Instant::ZERO).as_nanos() >> 20) as u32)
    }

    pub(crate) fn age(self, now: Stamp) -> u32 {
        now.0.wrapping_sub(self.0)
    }
}

fn needs_credit<C: Cell>(cell: &C) -> bool {
    cell.command() == Command::Relay
}

impl<C: Cell> HalfCircuit<C> {
    fn new(hop: AnyHopControl) -> Self {
        HalfCircuit { to: None, queue: VecDeque::new(), unlimited: 0, hop }
    }

    pub(crate) fn push(&mut self, queued: Queued<C>) {
        self.unlimited += usize::from(!needs_credit(&queued.cell));
        self.queue.push_back(queued);
    }

    pub(crate) fn may_send(&self) -> bool {
        !self.queue.is_empty() && (self.unlimited > 0 || self.hop.credit() > Cells::ZERO)
    }

    /// Takes the next cell to send. Without credit, RELAY cells wait, and control cells overtake RELAY cells.
    pub(crate) fn pop(&mut self) -> Option<Queued<C>> {
        if self.unlimited == 0 {
            return take_first(&mut self.queue);
        }
        let may_overtake = self.hop.credit() == Cells::ZERO;
        let place = if may_overtake {
            self.queue.iter().position(|queued| !needs_credit(&queued.cell))
        } else {
            Some(0)
        };
        let queued = self.queue.remove(place?)?;
        self.unlimited -= usize::from(!needs_credit(&queued.cell));
        Some(queued)
    }

    /// Marks the newest cell, if it is a RELAY cell and more than `threshold` cells are queued before it.
    #[cold]
    pub(crate) fn mark_newest(&mut self, threshold: u32) {
        let before = self.queue.len() - 1;
        let newest = &mut self.queue[before].cell;
        if before > threshold as usize && newest.command() == Command::Relay {
            newest.mark();
        }
    }

    pub(crate) fn clear(&mut self) -> u64 {
        self.unlimited = 0;
        std::mem::take(&mut self.queue).len() as u64
    }

    /// Two queue lengths [cell]. The edge resumes reading streams below the first length, and stops at the second. With
    /// hop control, both are the hop control's queue limit.
    fn edge_marks(&self, marks: EdgeQueue) -> (u64, u64) {
        match self.hop.edge_queue_limit() {
            Some(limit) => (limit.get(), limit.get()),
            None => (u64::from(marks.low) + 1, marks.high.into()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Circuit<C: Cell> {
    forward: HalfCircuit<C>,
    backward: HalfCircuit<C>,
    pub(crate) role: Role<C>,
    /// Whether this node has sent a CREATE or EXTEND and waits for the answer.
    pub(crate) extending: bool,
    /// Whether a TRUNCATE removed the hops behind this relay. The relay drops cells that still arrive for the removed
    /// hops.
    pub(crate) truncated: bool,
    pub(crate) class: PriorityClass,
    /// The result of the congestion control negotiation between the circuit's ends.
    pub(crate) agreed: Agreement,
    /// Handles the streams of this circuit at this node; created with the first stream.
    pub(crate) edge: Option<Box<Edge<C>>>,
}

#[derive(Debug)]
pub(crate) enum Role<C: Cell> {
    Opening,
    /// A relay, with the encryption layer that it shares with the client.
    Relay(C::Layer),
    Origin(Box<Origin<C>>),
}

#[derive(Debug)]
pub(crate) struct Origin<C: Cell> {
    /// Relays to which the client must still extend the circuit, in order.
    pub(crate) to_extend: VecDeque<C::LinkSpec>,
    /// The encryption layers of the hops that exist so far, nearest hop first.
    pub(crate) layers: Vec<C::Layer>,
    pub(crate) built: bool,
    /// Whether every relay of the path offers hop control, according to the consensus.
    pub(crate) controlled: bool,
}

#[derive(Debug)]
pub(crate) struct Edge<C: Cell> {
    pub(crate) control: AnyEdgeControl,
    /// Digests that the next SENDMEs must contain, if SENDMEs are authenticated.
    pub(crate) pending_digests: VecDeque<C::Digest>,
    /// SENDMEs that arrived here, those of streams included. Only for output.
    pub(crate) sendmes: u64,
    pub(crate) streams: Vec<StreamKey>,
    /// DATA cells whose payload the applications have not yet taken [cell].
    pub(crate) waiting: u64,
    /// The index of the stream that the edge reads first in the next round.
    pub(crate) turn: usize,
    /// True from when the queue reaches its high mark until it falls to its low mark. During this time the edge reads
    /// no stream.
    pub(crate) queue_full: bool,
    /// Whether a DATA cell that the next SENDME acknowledges contains [`sendme_padding`](crate::RelayConfig).
    pub(crate) has_padding: bool,
    /// The set of linked circuits to which this circuit belongs.
    pub(crate) set: Option<ConfluxKey>,
    /// The other circuit that this rendezvous point joined with this one.
    pub(crate) joined: Option<CircuitIndex>,
    /// How often this circuit is in the relay's list of circuits that resume reading streams.
    pub(crate) resuming: u32,
    pub(crate) next_stream_id: u16,
}

impl<C: Cell> Edge<C> {
    pub(crate) fn new(control: AnyEdgeControl) -> Self {
        Edge {
            control,
            pending_digests: VecDeque::new(),
            sendmes: 0,
            streams: Vec::new(),
            waiting: 0,
            turn: 0,
            queue_full: false,
            has_padding: false,
            set: None,
            joined: None,
            resuming: 0,
            next_stream_id: 1,
        }
    }

    /// Whether the circuit is linked or joined with others. It then cannot be extended.
    pub(crate) fn has_partners(&self) -> bool {
        self.set.is_some() || self.joined.is_some()
    }

    /// Whether the circuit has no streams, and is neither linked nor joined.
    pub(crate) fn is_unused(&self) -> bool {
        !self.has_partners() && self.streams.is_empty()
    }
}

impl<C: Cell> Circuit<C> {
    pub(crate) fn new(role: Role<C>, hops: [AnyHopControl; 2]) -> Self {
        let [forward, backward] = hops.map(HalfCircuit::new);
        Circuit {
            forward,
            backward,
            role,
            extending: false,
            truncated: false,
            class: PriorityClass::default(),
            agreed: Agreement::default(),
            edge: None,
        }
    }

    pub(crate) fn half(&self, direction: Direction) -> &HalfCircuit<C> {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    pub(crate) fn half_mut(&mut self, direction: Direction) -> &mut HalfCircuit<C> {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        }
    }

    pub(crate) fn halves(&self) -> [&HalfCircuit<C>; 2] {
        [&self.forward, &self.backward]
    }

    pub(crate) fn own_direction(&self) -> Direction {
        match self.role {
            Role::Origin(_) => Direction::Forward,
            Role::Opening | Role::Relay(_) => Direction::Backward,
        }
    }

    pub(crate) fn own_half(&self) -> &HalfCircuit<C> {
        self.half(self.own_direction())
    }

    /// The channel from which the circuit came. At the client, it is the channel to the guard.
    pub(crate) fn origin(&self) -> Option<ChannelKey> {
        self.backward.to.or(self.forward.to).map(|leg| leg.channel)
    }

    /// The direction of a cell that arrived on `channel` with the circuit id `id`.
    pub(crate) fn direction_from(&self, channel: ChannelKey, id: CircId) -> Direction {
        match self.forward.to {
            Some(leg) if leg.channel == channel && leg.id == id => Direction::Backward,
            _ => Direction::Forward,
        }
    }
}

impl<C: Cell> Circuit<C> {
    /// How many DATA cells the edge may package now [cell]. The window and the queue's high mark limit this number.
    pub(crate) fn package_room(&self, marks: EdgeQueue) -> u64 {
        let half = self.own_half();
        let (high, queue) = (half.edge_marks(marks).1, half.queue.len() as u64);
        let Some(edge) = &self.edge else { return 0 };
        let room = if edge.queue_full { 0 } else { high.saturating_sub(queue) };
        room.min(edge.control.package_window().get())
    }

    /// [`package_room`](Self::package_room) if the edge packages cells in `direction`, otherwise 0 [cell].
    pub(crate) fn package_room_in(&self, direction: Direction, marks: EdgeQueue) -> u64 {
        if self.own_direction() == direction { self.package_room(marks) } else { 0 }
    }

    pub(crate) fn edge_queue_has_drained(&self, marks: EdgeQueue) -> bool {
        let full = self.edge.as_ref().is_some_and(|edge| edge.queue_full);
        let half = self.own_half();
        full && (half.queue.len() as u64) < half.edge_marks(marks).0
    }

    /// Stops the edge if a cell has just filled the queue of `direction`.
    /// Source: C tor `append_cell_to_circuit_queue()`.
    pub(crate) fn update_queue_full(&mut self, direction: Direction, marks: EdgeQueue) {
        if direction != self.own_direction() {
            return;
        }
        let half = self.half(direction);
        let full = half.queue.len() as u64 >= half.edge_marks(marks).1;
        if full && let Some(edge) = &mut self.edge {
            edge.queue_full = true;
        }
    }
}
