//! The receiving half of a hop: received cells, and the credits for them.

use crate::error::Violation;

/// The cells that this node allows the previous hop, and those of them that it forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    received: u64,
    forwarded: u64,
    /// Cells forwarded at the last credit.
    credited: u64,
    allowance: u64,
    /// The total of cells that the largest credit so far allows.
    limit: u64,
}

impl Grant {
    pub(super) fn new(counted: u64, start: u64) -> Self {
        let limit = counted + start;
        Grant { received: counted, forwarded: counted, credited: counted, allowance: start, limit }
    }

    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }

    pub(super) fn on_received(&mut self) -> Result<(), Violation> {
        self.received += 1;
        if self.received > self.limit { Err(Violation::CreditExceeded) } else { Ok(()) }
    }

    /// A cell was forwarded. True if a credit is due.
    pub(super) fn on_forwarded(&mut self, n2: u64) -> bool {
        self.forwarded += 1;
        debug_assert!(self.forwarded <= self.received, "only what came is forwarded");
        self.forwarded - self.credited >= n2
    }

    /// Gives a credit with this allowance. Returns its count.
    pub(super) fn take_credit(&mut self, allowance: u64) -> u32 {
        self.credited = self.forwarded;
        self.allowance = allowance;
        self.limit = self.limit.max(self.forwarded + allowance);
        self.forwarded as u32
    }
}
