use crate::arena::Arena;
use crate::cell::{Cell, StreamId};
use crate::circuit::Edge;
use crate::keys::{CircuitIndex, StreamKey};
use crate::stream::Stream;
use penstock_units::fifo::take_first;
use std::collections::VecDeque;
use std::num::NonZeroU16;

#[derive(Debug)]
pub(super) struct Edges<C: Cell> {
    pub(super) streams: Arena<StreamKey, Stream<C>>,
    /// Circuits whose edges resume reading streams before the current call ends. Some of these circuits may be closed.
    resuming: VecDeque<CircuitIndex>,
    /// The streams that are read in the current round. The buffer is kept to avoid allocations.
    round: Vec<StreamKey>,
}

impl<C: Cell> Edges<C> {
    pub(super) fn new() -> Self {
        Edges { streams: Arena::new(), resuming: VecDeque::new(), round: Vec::new() }
    }

    pub(super) fn find(&self, edge: &Edge<C>, id: StreamId) -> Option<StreamKey> {
        edge.streams.iter().copied().find(|stream| self.streams[*stream].id == id)
    }

    pub(super) fn free_id(&self, edge: &mut Edge<C>, max: u32) -> Option<StreamId> {
        if edge.streams.len() >= max as usize {
            return None;
        }
        loop {
            let id = StreamId(NonZeroU16::new(edge.next_stream_id)?);
            edge.next_stream_id = edge.next_stream_id.checked_add(1).unwrap_or(1);
            if self.find(edge, id).is_none() {
                return Some(id);
            }
        }
    }

    pub(super) fn resume(&mut self, circuit: CircuitIndex, edge: &mut Edge<C>) {
        edge.resuming += 1;
        self.resuming.push_back(circuit);
    }

    pub(super) fn take_resuming(&mut self) -> Option<CircuitIndex> {
        take_first(&mut self.resuming)
    }

    pub(super) fn begin_round(&mut self, edge: &mut Edge<C>) -> Vec<StreamKey> {
        let mut round = std::mem::take(&mut self.round);
        round.clone_from(&edge.streams);
        if round.len() > 1 {
            edge.turn = (edge.turn + 1) % round.len();
            round.rotate_left(edge.turn);
        }
        round
    }

    pub(super) fn end_round(&mut self, round: Vec<StreamKey>) {
        self.round = round;
    }
}
