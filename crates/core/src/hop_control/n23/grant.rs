use crate::error::Violation;

/// The receiving half of a hop: counts cells, and decides when the previous hop gets a credit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    received: u64,
    forwarded: u64,
    credited: u64,
    allowance: u64,
    /// The highest total number of cells that a credit has allowed so far.
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

    pub(super) fn on_forwarded(&mut self, n2: u64) -> bool {
        self.forwarded += 1;
        debug_assert!(self.forwarded <= self.received, "only what came is forwarded");
        self.forwarded - self.credited >= n2
    }

    /// Records a credit with this allowance. Returns the count that the credit reports.
    pub(super) fn take_credit(&mut self, allowance: u64) -> u32 {
        self.credited = self.forwarded;
        self.allowance = allowance;
        self.limit = self.limit.max(self.forwarded + allowance);
        self.forwarded as u32
    }
}
