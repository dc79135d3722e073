//! A circuit as one relay has it: two legs, a queue for each direction, perhaps an edge.

use crate::cell::{Cell, CircId, Command};
use crate::circuit_policy::PriorityClass;
use crate::edge_control::{Agreement, AnyEdgeControl};
use crate::hop_control::{AnyHopControl, HopControl, Source};
use crate::keys::{ChannelKey, Direction, StreamKey};
use penstock_units::{Cells, Instant, fifo::take_first};
use std::collections::VecDeque;

/// Where a circuit continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) channel: ChannelKey,
    pub(crate) id: CircId,
}

/// One direction of a circuit.
#[derive(Debug)]
pub(crate) struct HalfCircuit<C> {
    /// Where its cells go.
    pub(crate) to: Option<Leg>,
    /// Cells that wait for the channel.
    pub(crate) queue: VecDeque<Queued<C>>,
    /// How many of them are the link's own, and need no credit.
    unlimited: usize,
    pub(crate) hop: AnyHopControl,
}

/// A cell in a circuit's queue.
#[derive(Debug)]
pub(crate) struct Queued<C> {
    pub(crate) cell: C,
    pub(crate) source: Source,
    /// Since when it waits.
    pub(crate) since: Stamp,
}

/// A time of 32 bits, which comes round after 52 days [2^20 ns].
///
/// Source: C tor `monotime_coarse_get_stamp()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) fn at(now: Instant) -> Self {
        Stamp((now.since(Instant::ZERO).as_nanos() >> 20) as u32)
    }

    /// How long ago this was [2^20 ns].
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

    /// Whether something waits that may leave.
    pub(crate) fn may_send(&self) -> bool {
        !self.queue.is_empty() && (self.unlimited > 0 || self.hop.credit() > Cells::ZERO)
    }

    /// Takes the first cell that may leave; what needs no credit goes past what has none, and past nothing else.
    pub(crate) fn pop(&mut self) -> Option<Queued<C>> {
        if self.unlimited == 0 {
            return take_first(&mut self.queue);
        }
        let may_pass = self.hop.credit() == Cells::ZERO;
        let place =
            if may_pass { self.queue.iter().position(|queued| !needs_credit(&queued.cell)) } else { Some(0) };
        let queued = self.queue.remove(place?)?;
        self.unlimited -= usize::from(!needs_credit(&queued.cell));
        Some(queued)
    }

    /// Drops all that waits; returns how much it was.
    pub(crate) fn clear(&mut self) -> u64 {
        self.unlimited = 0;
        std::mem::take(&mut self.queue).len() as u64
    }
}

/// A circuit at one relay.
#[derive(Debug)]
pub(crate) struct Circuit<C: Cell> {
    forward: HalfCircuit<C>,
    backward: HalfCircuit<C>,
    pub(crate) end: End<C>,
    /// A CREATE or EXTEND of this node is not answered yet.
    pub(crate) extending: bool,
    /// What was behind this relay was cut off: what still comes for it is dropped.
    pub(crate) truncated: bool,
    /// What its client last said of its traffic.
    pub(crate) class: PriorityClass,
    /// What its two ends agreed on.
    pub(crate) agreed: Agreement,
    /// Where streams begin or end; made when the first one is opened.
    pub(crate) edge: Option<Box<Edge<C>>>,
}

/// What this node is to the circuit.
#[derive(Debug)]
pub(crate) enum End<C: Cell> {
    /// A relay whose handshake is not answered yet.
    Opening,
    /// A relay that shares this layer with the client.
    Relay(C::Layer),
    /// The client that built it.
    Origin(Box<Origin<C>>),
}

/// A client's view of its circuit.
#[derive(Debug)]
pub(crate) struct Origin<C: Cell> {
    /// Relays still to be added after the first one, in order.
    pub(crate) to_extend: VecDeque<C::LinkSpec>,
    /// One layer for each hop there is, nearest first.
    pub(crate) layers: Vec<C::Layer>,
    /// All hops are there.
    pub(crate) built: bool,
    /// By the consensus, every relay of the path controls its hops.
    pub(crate) controlled: bool,
}

/// The packaging and delivering end of a circuit.
#[derive(Debug)]
pub(crate) struct Edge<C: Cell> {
    pub(crate) control: AnyEdgeControl,
    /// Digests of the cells that the other end is to acknowledge, if it must prove that they arrived.
    pub(crate) pending_digests: VecDeque<C::Digest>,
    /// Streams in the order in which they were opened.
    pub(crate) streams: Vec<StreamKey>,
    /// DATA cells that wait for their applications [cell].
    pub(crate) waiting: u64,
    /// Whose turn it is to be read first.
    pub(crate) turn: usize,
    /// The circuit's queue reached the high-water mark: nothing is read until the low one.
    pub(crate) queue_full: bool,
    /// A DATA cell since the last that is acknowledged had [`sendme_padding`](crate::RelayConfig).
    pub(crate) has_padding: bool,
    /// How many times it is among those whose streams are to be read again.
    pub(crate) resuming: u32,
    pub(crate) next_stream_id: u16,
}

impl<C: Cell> Circuit<C> {
    pub(crate) fn new(end: End<C>, hops: [AnyHopControl; 2]) -> Self {
        let [forward, backward] = hops.map(HalfCircuit::new);
        Circuit {
            forward,
            backward,
            end,
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

    /// Which way cells travel that this node makes itself.
    pub(crate) fn outward(&self) -> Direction {
        match self.end {
            End::Origin(_) => Direction::Forward,
            End::Opening | End::Relay(_) => Direction::Backward,
        }
    }

    /// Which way a cell travels that came over `channel` with `id`.
    pub(crate) fn arriving(&self, channel: ChannelKey, id: CircId) -> Direction {
        match self.forward.to {
            Some(leg) if leg.channel == channel && leg.id == id => Direction::Backward,
            _ => Direction::Forward,
        }
    }
}
