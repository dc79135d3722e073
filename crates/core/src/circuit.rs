//! A circuit at one relay: two half-circuits, and an edge if streams begin or end here.

use crate::cell::{Cell, CircId, Command};
use crate::circuit_policy::PriorityClass;
use crate::config::EdgeQueue;
use crate::edge_control::{Agreement, AnyEdgeControl, EdgeControl};
use crate::hop_control::{AnyHopControl, HopControl, Source};
use crate::keys::{ChannelKey, Direction, StreamKey};
use penstock_units::{Cells, Instant, fifo::take_first};
use std::collections::VecDeque;

/// The channel on which a circuit continues, and its id there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) channel: ChannelKey,
    pub(crate) id: CircId,
}

/// One direction of a circuit: its next hop, its queue, and its hop control.
#[derive(Debug)]
pub(crate) struct HalfCircuit<C> {
    pub(crate) to: Option<Leg>,
    /// Cells that wait for the channel.
    pub(crate) queue: VecDeque<Queued<C>>,
    /// How many queued cells need no credit, because they are not RELAY cells.
    unlimited: usize,
    pub(crate) hop: AnyHopControl,
}

/// A cell in a circuit's queue.
#[derive(Debug)]
pub(crate) struct Queued<C> {
    pub(crate) cell: C,
    pub(crate) source: Source,
    pub(crate) since: Stamp,
}

/// A time of 32 bits, which wraps after 52 days [2^20 ns].
///
/// Source: C tor `monotime_coarse_get_stamp()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) fn at(now: Instant) -> Self {
        Stamp((now.since(Instant::ZERO).as_nanos() >> 20) as u32)
    }

    /// Time from this stamp to `now` [2^20 ns].
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

    /// Whether a queued cell may leave now.
    pub(crate) fn may_send(&self) -> bool {
        !self.queue.is_empty() && (self.unlimited > 0 || self.hop.credit() > Cells::ZERO)
    }

    /// Takes the first cell that may leave. Without credit, cells that need none overtake RELAY cells.
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

    /// Marks the newest cell if it is a RELAY cell that joined a queue of more than `threshold` cells.
    #[cold]
    pub(crate) fn mark_newest(&mut self, threshold: u32) {
        let before = self.queue.len() - 1;
        let newest = &mut self.queue[before].cell;
        if before > threshold as usize && newest.command() == Command::Relay {
            newest.mark();
        }
    }

    /// Drops all queued cells and returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        self.unlimited = 0;
        std::mem::take(&mut self.queue).len() as u64
    }

    /// The marks of the queue of a half-circuit whose edge packages here. Below the first length the
    /// edge reads its streams again; at the second it stops. A controlled hop sets both.
    fn edge_marks(&self, marks: EdgeQueue) -> (u64, u64) {
        match self.hop.edge_queue_limit() {
            Some(limit) => (limit.get(), limit.get()),
            None => (u64::from(marks.low) + 1, marks.high.into()),
        }
    }
}

/// A circuit at one relay.
#[derive(Debug)]
pub(crate) struct Circuit<C: Cell> {
    forward: HalfCircuit<C>,
    backward: HalfCircuit<C>,
    pub(crate) role: Role<C>,
    /// This node sent a CREATE or EXTEND and waits for the answer.
    pub(crate) extending: bool,
    /// A TRUNCATE cut off the hops behind this relay. Cells that still arrive for them are dropped.
    pub(crate) truncated: bool,
    /// The priority class that the client announced last.
    pub(crate) class: PriorityClass,
    /// The result of the congestion control negotiation between the circuit's ends.
    pub(crate) agreed: Agreement,
    /// The end of streams. It is made when the first stream opens.
    pub(crate) edge: Option<Box<Edge<C>>>,
}

/// The role of this node in a circuit.
#[derive(Debug)]
pub(crate) enum Role<C: Cell> {
    /// A relay that has not answered the CREATE yet.
    Opening,
    /// A relay that shares this layer with the client.
    Relay(C::Layer),
    Origin(Box<Origin<C>>),
}

/// A client's view of its circuit.
#[derive(Debug)]
pub(crate) struct Origin<C: Cell> {
    /// Relays that are still to be added after the first one, in order.
    pub(crate) to_extend: VecDeque<C::LinkSpec>,
    /// The layers of the hops so far, nearest first.
    pub(crate) layers: Vec<C::Layer>,
    pub(crate) built: bool,
    /// Every relay of the path controls its hops, according to the consensus.
    pub(crate) controlled: bool,
}

/// The packaging and delivering end of a circuit.
#[derive(Debug)]
pub(crate) struct Edge<C: Cell> {
    pub(crate) control: AnyEdgeControl,
    /// Digests of the cells that the other end must acknowledge next, if SENDMEs are authenticated.
    pub(crate) pending_digests: VecDeque<C::Digest>,
    /// Streams in the order in which they were opened.
    pub(crate) streams: Vec<StreamKey>,
    /// Payloads that wait for their applications [cell].
    pub(crate) waiting: u64,
    /// The place of the stream that is read first.
    pub(crate) turn: usize,
    /// The circuit's queue reached its high mark and has not fallen to its low mark since. No stream is read.
    pub(crate) queue_full: bool,
    /// A DATA cell since the last acknowledged one had [`sendme_padding`](crate::RelayConfig).
    pub(crate) has_padding: bool,
    /// How many entries of this circuit are in the queue of edges that resume reading.
    pub(crate) resuming: u32,
    pub(crate) next_stream_id: u16,
}

impl<C: Cell> Edge<C> {
    pub(crate) fn new(control: AnyEdgeControl) -> Self {
        Edge {
            control,
            pending_digests: VecDeque::new(),
            streams: Vec::new(),
            waiting: 0,
            turn: 0,
            queue_full: false,
            has_padding: false,
            resuming: 0,
            next_stream_id: 1,
        }
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

    /// The direction of the cells that this node makes itself.
    pub(crate) fn own_direction(&self) -> Direction {
        match self.role {
            Role::Origin(_) => Direction::Forward,
            Role::Opening | Role::Relay(_) => Direction::Backward,
        }
    }

    /// The half-circuit of the cells that this node makes itself.
    pub(crate) fn own_half(&self) -> &HalfCircuit<C> {
        self.half(self.own_direction())
    }

    /// The direction of a cell that came over `channel` with `id`.
    pub(crate) fn direction_from(&self, channel: ChannelKey, id: CircId) -> Direction {
        match self.forward.to {
            Some(leg) if leg.channel == channel && leg.id == id => Direction::Backward,
            _ => Direction::Forward,
        }
    }
}

/// The queue at the packaging edge.
impl<C: Cell> Circuit<C> {
    /// How many DATA cells the edge may package now. The window and the queue's high mark limit it.
    pub(crate) fn package_room(&self, marks: EdgeQueue) -> u64 {
        let half = self.own_half();
        let (high, queue) = (half.edge_marks(marks).1, half.queue.len() as u64);
        let Some(edge) = &self.edge else { return 0 };
        let room = if edge.queue_full { 0 } else { high.saturating_sub(queue) };
        room.min(edge.control.package_window().get())
    }

    /// [`package_room`](Self::package_room) if the edge packages cells in `direction`, otherwise 0.
    pub(crate) fn package_room_in(&self, direction: Direction, marks: EdgeQueue) -> u64 {
        if self.own_direction() == direction { self.package_room(marks) } else { 0 }
    }

    /// One stream's share of the room, before the other streams have had their turns.
    pub(crate) fn package_share(&self, marks: EdgeQueue) -> u64 {
        let streams = self.edge.as_ref().map_or(0, |edge| edge.streams.len());
        self.package_room(marks).div_ceil(streams.max(1) as u64)
    }

    /// Whether the queue was full and has fallen to the low mark.
    pub(crate) fn edge_queue_has_drained(&self, marks: EdgeQueue) -> bool {
        let full = self.edge.as_ref().is_some_and(|edge| edge.queue_full);
        let half = self.own_half();
        full && (half.queue.len() as u64) < half.edge_marks(marks).0
    }

    /// Stops the edge if a cell that joined the queue of `direction` filled it.
    ///
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
