//! The sending half of a hop: what may still go.

use super::super::Feedback;
use crate::error::Violation;
use crate::serial::ahead;

/// What the next hop lets this node send, as its newest credit says.
///
/// Counts go on from a number of the caller's and travel modulo 2³². A cell that is told of twice, or late, changes
/// nothing: of two credits the one with the greater count is newer, and of two with the same count the one that
/// came last.
///
/// Source: Kung, Blackwell, Chapman, SIGCOMM 1994 (credit update protocol: credit = N2 + N3 − (sent − forwarded)).
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// Cells sent.
    sent: u64,
    /// Cells that the next hop had forwarded at its newest credit.
    forwarded: u64,
    /// Cells that may be sent in all.
    limit: u64,
    /// The most that the next hop lets be outstanding.
    most: u64,
}

impl Credit {
    /// Before the first cell.
    pub(super) fn new(counted: u64, start: u32, most: u32) -> Self {
        let (start, most) = (u64::from(start.min(most)), u64::from(most));
        Credit { sent: counted, forwarded: counted, limit: counted + start, most }
    }

    /// How many more may go; none while an allowance that shrank is used up.
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

    /// What left this node's queue and not the next one's is at most N2 and the greatest N3. While N3 is constant
    /// this is what keeps the credit from being negative.
    fn check(&self) {
        let outstanding = self.sent - self.forwarded;
        debug_assert!(outstanding <= self.most, "{outstanding} outstanding, {} allowed", self.most);
    }
}
