//! The processor of a host: one queue, in which its Tor's work waits.
//!
//! A turn of a ready socket, or of a timer, happens when the processor is free, and keeps it busy for as long as its
//! cells, system calls, TLS records, the policy's looks and the scheduler's questions about sockets cost. What a turn does takes effect at its
//! beginning; what it delays is the next turn. The kernel's own work, TCP and interrupts, is free.

use penstock_scenario::model::Costs;
use penstock_units::{Instant, time::nanos};

/// One host's processor.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    costs: Costs,
    free_at: Instant,
    /// What the present turn has cost so far [ns].
    turn: u64,
    /// Circuits that policies had looked at when they were last charged.
    looked: u64,
    /// A timer for `free_at` is set.
    pub(crate) awaited: bool,
}

/// What a processor did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) calls: u64,
    pub(crate) cells: u64,
    pub(crate) records: u64,
    /// What a socket can send, asked once.
    pub(crate) queries: u64,
}

impl Cpu {
    pub(crate) fn new(costs: Costs) -> Self {
        Cpu { costs, free_at: Instant::ZERO, turn: 0, looked: 0, awaited: false }
    }

    /// When it may take a turn, if not at once.
    pub(crate) fn busy_until(&self, now: Instant) -> Option<Instant> {
        (self.free_at > now).then_some(self.free_at)
    }

    /// So many system calls moved so many cells in so many TLS records.
    pub(crate) fn charge(&mut self, work: Work) {
        let Costs { call, cell, record, query, look: _ } = self.costs;
        let moved = work.calls * nanos(call) + work.cells * nanos(cell) + work.records * nanos(record);
        self.turn += moved + work.queries * nanos(query);
    }

    /// The turn is over, and policies have looked at so many circuits since the beginning.
    pub(crate) fn end_turn(&mut self, now: Instant, looked: u64) {
        let looks = looked - std::mem::replace(&mut self.looked, looked);
        let turn = std::mem::take(&mut self.turn) + looks * nanos(self.costs.look);
        self.free_at = Instant::from_nanos(self.free_at.max(now).as_nanos() + turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Duration;

    #[test]
    fn turns_queue_behind_each_other() {
        let micros = Duration::from_micros;
        let costs =
            Costs { cell: micros(3), call: micros(2), record: micros(1), look: micros(5), query: micros(7) };
        let mut cpu = Cpu::new(costs);
        let now = Instant::from_millis(1);
        assert_eq!(cpu.busy_until(now), None);
        cpu.charge(Work { calls: 1, cells: 4, records: 2, queries: 0 });
        cpu.end_turn(now, 0);
        assert_eq!(cpu.busy_until(now), Some(now + micros(16)));
        cpu.charge(Work { calls: 1, queries: 2, ..Work::default() });
        cpu.end_turn(now, 3);
        assert_eq!(cpu.busy_until(now), Some(now + micros(16 + 31)));
        assert_eq!(cpu.busy_until(now + micros(47)), None);
        cpu.end_turn(now + micros(50), 4);
        assert_eq!(cpu.busy_until(now + micros(50)), Some(now + micros(55)));
    }
}
