//! The sending half of a hop: the cells that may still be sent.

use super::super::Feedback;
use crate::error::Violation;
use crate::serial::ahead;

/// The cells that the next hop allows, according to its newest credit.
///
/// Counts start at the caller's number and travel modulo 2³². A repeated or late credit changes nothing. Of two credits
/// the one with the greater count is newer; with equal counts it is the one that came last.
///
/// Source: Kung, Blackwell, Chapman, SIGCOMM 1994 (credit update protocol: credit = N2 + N3 − (sent − forwarded)).
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    sent: u64,
    /// Cells that the next hop had forwarded at its newest credit.
    forwarded: u64,
    /// Cells that may be sent in total.
    limit: u64,
    /// The maximum of outstanding cells that the next hop announced.
    most: u64,
}

impl Credit {
    pub(super) fn new(counted: u64, start: u32, most: u32) -> Self {
        let (start, most) = (u64::from(start.min(most)), u64::from(most));
        Credit { sent: counted, forwarded: counted, limit: counted + start, most }
    }

    /// How many more cells may be sent; zero until a reduced allowance is used up.
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

    /// At most N2 and the greatest N3 cells have left this node's queue and not the next one's. With a
    /// constant N3 this keeps the credit from becoming negative.
    fn check(&self) {
        let outstanding = self.sent - self.forwarded;
        debug_assert!(outstanding <= self.most, "{outstanding} outstanding, {} allowed", self.most);
    }
}
