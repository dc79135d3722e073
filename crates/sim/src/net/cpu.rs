//! The processor of a host. Tor's work waits in a queue until the processor is free.
//!
//! The work for one ready socket or timer is a turn. A turn starts when the processor is free. The turn occupies the
//! processor for the cost of its cells, system calls, TLS records, circuits scanned by the circuit policy, and socket
//! queries. All effects happen at the start of the turn; the cost delays the next turn. The kernel's own work (TCP and
//! interrupts) costs no processor time.

use super::Net;
use super::event::Timer;
use crate::queue::HostId;
use penstock_scenario::model::Costs;
use penstock_units::{Instant, time::nanos};

#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    costs: Costs,
    free_at: Instant,
    /// The cost of the current turn so far [ns].
    turn: u64,
    /// The number of scanned circuits whose cost was already added to turns.
    scanned: u64,
    pub(crate) awaited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) calls: u64,
    pub(crate) cells: u64,
    pub(crate) records: u64,
    pub(crate) queries: u64,
}

impl Cpu {
    pub(crate) fn new(costs: Costs) -> Self {
        Cpu { costs, free_at: Instant::ZERO, turn: 0, scanned: 0, awaited: false }
    }

    /// When the processor is free again, if it is busy.
    pub(crate) fn busy_until(&self, now: Instant) -> Option<Instant> {
        (self.free_at > now).then_some(self.free_at)
    }

    pub(crate) fn charge(&mut self, work: Work) {
        let Costs { call, cell, record, query, scan: _ } = self.costs;
        let moved = work.calls * nanos(call) + work.cells * nanos(cell) + work.records * nanos(record);
        self.turn += moved + work.queries * nanos(query);
    }

    /// Ends the turn. `scanned` is the number of circuits that circuit policies have scanned during the run.
    pub(crate) fn end_turn(&mut self, now: Instant, scanned: u64) {
        let scans = scanned - std::mem::replace(&mut self.scanned, scanned);
        let turn = std::mem::take(&mut self.turn) + scans * nanos(self.costs.scan);
        self.free_at = Instant::from_nanos(self.free_at.max(now).as_nanos() + turn);
    }
}

impl Net<'_> {
    /// When the host's processor becomes free; `None` if it is free now.
    pub(crate) fn busy_until(&self, id: HostId) -> Option<Instant> {
        self.hosts[id as usize].cpu.as_ref()?.busy_until(self.now)
    }

    /// Whether ready sockets must wait for the processor. If so, sets a timer for the time at which the processor is
    /// free.
    pub(crate) fn awaits_cpu(&mut self, id: HostId) -> bool {
        let Some(free_at) = self.busy_until(id) else { return false };
        let host = &mut self.hosts[id as usize];
        let Some(cpu) = host.cpu.as_mut().filter(|_| !host.ready.is_empty()) else { return false };
        if !std::mem::replace(&mut cpu.awaited, true) {
            self.set_timer(id, free_at, Timer::Cpu);
        }
        true
    }

    /// Handles the processor's timer. The processor may still be busy, if more work was charged after the timer was
    /// set.
    pub(crate) fn on_cpu_free(&mut self, id: HostId) {
        if let Some(cpu) = &mut self.hosts[id as usize].cpu {
            cpu.awaited = false;
        }
    }

    /// Ends a turn of the processor, as `Cpu::end_turn` describes.
    pub(crate) fn end_turn(&mut self, id: HostId, scanned: u64) {
        if let Some(cpu) = &mut self.hosts[id as usize].cpu {
            cpu.end_turn(self.now, scanned);
        }
    }

    pub(super) fn charge(&mut self, id: HostId, work: Work) {
        let host = &mut self.hosts[id as usize];
        host.calls += work.calls;
        host.queries += work.queries;
        if let Some(cpu) = &mut host.cpu {
            cpu.charge(work);
        }
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
            Costs { cell: micros(3), call: micros(2), record: micros(1), scan: micros(5), query: micros(7) };
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
