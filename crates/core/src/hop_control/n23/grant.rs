//! The receiving half of a hop: what was let in, and what is owed for it.

use crate::error::Violation;

/// What this node lets the hop before send, and what of it is forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// Cells that came.
    received: u64,
    /// Cells that were forwarded or delivered.
    forwarded: u64,
    /// How many were at the last credit.
    credited: u64,
    /// The allowance in it.
    allowance: u64,
    /// The most cells that any credit so far let come in all.
    limit: u64,
}

impl Grant {
    /// Before the first cell.
    pub(super) fn new(counted: u64, start: u64) -> Self {
        let limit = counted + start;
        Grant { received: counted, forwarded: counted, credited: counted, allowance: start, limit }
    }

    /// The allowance in the last credit.
    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }

    pub(super) fn on_received(&mut self) -> Result<(), Violation> {
        self.received += 1;
        if self.received > self.limit { Err(Violation::CreditExceeded) } else { Ok(()) }
    }

    /// True if a credit is owed.
    pub(super) fn on_forwarded(&mut self, n2: u64) -> bool {
        self.forwarded += 1;
        debug_assert!(self.forwarded <= self.received, "only what came is forwarded");
        self.forwarded - self.credited >= n2
    }

    /// Gives a credit: the count that goes with `allowance`.
    pub(super) fn take_credit(&mut self, allowance: u64) -> u32 {
        self.credited = self.forwarded;
        self.allowance = allowance;
        self.limit = self.limit.max(self.forwarded + allowance);
        self.forwarded as u32
    }
}
