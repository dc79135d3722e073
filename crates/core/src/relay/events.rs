use crate::cell::Cell;
use crate::event::{Event, Station};
use crate::keys::{CircuitIndex, Direction, StreamKey};
use penstock_units::{Instant, fifo::take_first};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Events<C: Cell>(VecDeque<Event<C>>);

impl<C: Cell> Events<C> {
    pub(super) fn new() -> Self {
        Events(VecDeque::new())
    }

    pub(super) fn push(&mut self, event: Event<C>) {
        self.0.push_back(event);
    }

    pub(super) fn poll(&mut self) -> Option<Event<C>> {
        take_first(&mut self.0)
    }

    pub(super) fn track(
        &mut self,
        now: Instant,
        cell: &C,
        circuit: CircuitIndex,
        direction: Direction,
        station: Station,
    ) {
        if let Some(tag) = cell.tag() {
            self.push(Event::Tracked { tag, circuit, direction, station, at: now });
        }
    }

    /// Removes requests for a closed circuit. Otherwise another circuit could get its index before the driver polls.
    pub(super) fn withdraw_circuit(&mut self, circuit: CircuitIndex) {
        self.0.retain(|event| match event {
            Event::HandshakeRequested { circuit: other, .. }
            | Event::ExtendRequested { circuit: other, .. }
            | Event::HandshakeNeeded { circuit: other, .. }
            | Event::HandshakeAnswered { circuit: other, .. }
            | Event::CircuitBuilt { circuit: other } => *other != circuit,
            _ => true,
        });
    }

    pub(super) fn withdraw_extend(&mut self, circuit: CircuitIndex) {
        self.0.retain(
            |event| !matches!(event, Event::ExtendRequested { circuit: other, .. } if *other == circuit),
        );
    }

    pub(super) fn withdraw_stream(&mut self, stream: StreamKey) {
        self.0.retain(|event| match event {
            Event::StreamRequested { stream: other, .. } | Event::StreamConnected { stream: other } => {
                *other != stream
            }
            _ => true,
        });
    }
}
