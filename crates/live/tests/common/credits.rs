//! N23 at a test client: one circuit, with constant numbers.

#![allow(dead_code, reason = "each test uses a part of this module")]

use penstock_core::hop_control::{Feedback, HopOffer};
use penstock_core::{Cell, Command, Direction};
use penstock_link::cell::LiveCell;

/// The offer of N23 with these numbers.
pub(crate) fn offer(n2: u32, n3: u32) -> HopOffer {
    HopOffer::Credits { start: n2 + n3, most: n2 + n3 }
}

/// The state of N23 on one circuit, in both directions.
#[derive(Debug)]
pub(crate) struct Credits {
    pub(crate) n2: u32,
    pub(crate) allowance: u32,
    /// RELAY cells that the client sent, and how many it may send in total [cell].
    pub(crate) sent: u32,
    pub(crate) limit: u32,
    /// RELAY cells that the client received [cell].
    pub(crate) received: u32,
    /// Credits that the client received [1].
    pub(crate) credits: u32,
    /// Whether the client sends credits.
    pub(crate) is_silent: bool,
}

impl Credits {
    /// The state after the guard made this offer.
    pub(crate) fn agreed(theirs: HopOffer) -> Self {
        let HopOffer::Credits { start, .. } = theirs else { panic!("{theirs:?} is not N23") };
        Credits { n2: 0, allowance: 0, sent: 0, limit: start, received: 0, credits: 0, is_silent: false }
    }

    pub(crate) fn left(&self) -> u32 {
        self.limit - self.sent
    }

    pub(crate) fn on_feedback(&mut self, cell: &LiveCell) {
        let feedback = cell.as_feedback().expect("the guard's credits are well-formed");
        assert_eq!(feedback.direction, Direction::Forward, "the guard counts the client's cells");
        assert!(feedback.forwarded <= self.sent, "{feedback:?}, but the client sent {}", self.sent);
        self.limit = feedback.forwarded + feedback.allowance;
        self.credits += 1;
    }

    /// Counts a cell. Returns a credit if one is due.
    pub(crate) fn on_received(&mut self, cell: &LiveCell) -> Option<Feedback> {
        if cell.command() != Command::Relay {
            return None;
        }
        self.received += 1;
        let is_due = self.received.is_multiple_of(self.n2) && !self.is_silent;
        is_due.then_some(self.feedback(self.received))
    }

    /// A credit that reports this count.
    pub(crate) fn feedback(&self, forwarded: u32) -> Feedback {
        Feedback { direction: Direction::Backward, forwarded, allowance: self.allowance }
    }
}
