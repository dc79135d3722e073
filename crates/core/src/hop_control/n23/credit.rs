use super::super::Feedback;
use crate::error::Violation;
use crate::serial::ahead;

/// The sending half of a hop. It computes how many more cells the next hop's newest credit allows.
///
/// Counts start at a number that the caller chooses, and are sent modulo 2³². A duplicate or late credit changes
/// nothing. The credit with the greater count is newer. If the counts are equal, the credit that arrived last is newer.
/// Source: Kung, Blackwell, Chapman, SIGCOMM 1994 (credit update protocol: credit = N2 + N3 − (sent − forwarded)).
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    sent: u64,
    /// Forwarded cells that the next hop's newest credit reports.
    forwarded: u64,
    /// The total number of cells that this node is allowed to send.
    limit: u64,
    most: u64,
}

impl Credit {
    pub(super) fn new(counted: u64, start: u32, most: u32) -> Self {
        let (start, most) = (u64::from(start.min(most)), u64::from(most));
        Credit { sent: counted, forwarded: counted, limit: counted + start, most }
    }

    /// How many more cells may be sent. After a reduction of the allowance this may be zero for some time.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.sent)
    }

    pub(super) fn on_sent(&mut self) {
        self.sent += 1;
        debug_assert!(self.sent <= self.limit, "nothing leaves the queue without credit");
        self.check();
    }

    pub(super) fn on_feedback(&mut self, feedback: Feedback) -> Result<(), Violation> {
        let Ok(ahead) = u64::try_from(ahead(feedback.forwarded, self.forwarded)) else { return Ok(()) };
        let forwarded = self.forwarded + ahead;
        if forwarded > self.sent || u64::from(feedback.allowance) > self.most {
            return Err(Violation::ForgedCredit);
        }
        self.forwarded = forwarded;
        self.limit = forwarded + u64::from(feedback.allowance);
        self.check();
        Ok(())
    }

    /// Checks that at most N2 plus the greatest N3 cells are outstanding. Such cells have left this node's queue, but
    /// not the next node's. With a constant N3, the credit is therefore never negative.
    fn check(&self) {
        let outstanding = self.sent - self.forwarded;
        debug_assert!(outstanding <= self.most, "{outstanding} outstanding, {} allowed", self.most);
    }
}
