use crate::cell::Cell;
use crate::event::{Event, Station};
use crate::keys::{CircuitIndex, Direction};
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

    /// Removes an [`Event::ExtendRequested`] of a circuit that was truncated.
    pub(super) fn withdraw_extend(&mut self, circuit: CircuitIndex) {
        self.0.retain(
            |event| !matches!(event, Event::ExtendRequested { circuit: other, .. } if *other == circuit),
        );
    }
}
