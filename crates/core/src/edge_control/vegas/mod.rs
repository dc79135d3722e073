//! Congestion control of circuits as Tor has it since 0.4.7.

mod algorithm;
mod config;
pub(super) mod rtt;
#[cfg(test)]
mod vectors;

pub use algorithm::Vegas;
pub use config::VegasConfig;

use super::{EdgeControl, Signals};
use crate::error::Violation;
use penstock_units::{Cells, Duration, Instant};
use std::collections::VecDeque;

/// [`Vegas`] at one end of a circuit, and the SENDMEs that the other end's Vegas needs.
///
/// Source: proposal 324 §2, §3.3; C tor `congestion_control_note_cell_sent()`,
/// `congestion_control_get_package_window()`, `sendme_circuit_consider_sending()`.
/// Deviation: none.
#[derive(Debug)]
pub struct VegasWindow {
    vegas: Vegas,
    /// When the cells were sent whose arrival triggers a SENDME.
    stamps: VecDeque<Instant>,
    sendme_inc: u32,
    /// Cells delivered here since the last SENDME.
    unacknowledged: u32,
}

impl VegasWindow {
    /// For a new circuit.
    pub fn new(config: VegasConfig) -> Self {
        VegasWindow {
            vegas: Vegas::new(config),
            stamps: VecDeque::new(),
            sendme_inc: config.sendme_inc.get().into(),
            unacknowledged: 0,
        }
    }
}

impl EdgeControl for VegasWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.vegas.room())
    }

    fn on_package(&mut self, now: Instant, _signals: Signals) -> bool {
        let triggers = self.vegas.on_sent();
        if triggers {
            self.stamps.push_back(now);
        }
        triggers
    }

    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.unacknowledged = (self.unacknowledged + 1) % self.sendme_inc;
        Ok(self.unacknowledged == 0)
    }

    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation> {
        let sent = self.stamps.pop_front().ok_or(Violation::UnexpectedSendme)?;
        self.vegas.on_sendme(now - sent, signals.blocked, signals.queue.get());
        Ok(())
    }

    fn window(&self) -> Cells {
        Cells::new(self.vegas.cwnd())
    }

    fn rtt(&self) -> Option<Duration> {
        self.vegas.last_rtt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_31st_cell_is_acknowledged_and_a_sendme_too_many_is_a_violation() {
        let mut control = VegasWindow::new(VegasConfig::TOR_0_4_9);
        let sent: Vec<bool> =
            (0..124).map(|_| control.on_package(Instant::ZERO, Signals::default())).collect();
        assert_eq!(control.package_window(), Cells::ZERO);
        let owed: Vec<bool> = (0..124).map(|_| control.on_deliver(Instant::ZERO).unwrap()).collect();
        assert_eq!(sent, owed, "both ends count alike");
        assert_eq!(owed.iter().filter(|owed| **owed).count(), 4);
        let later = Instant::from_millis(100);
        for _ in 0..4 {
            assert_eq!(control.on_sendme(later, Signals::default()), Ok(()));
        }
        assert_eq!(control.on_sendme(later, Signals::default()), Err(Violation::UnexpectedSendme));
        assert_eq!(control.rtt(), Some(Duration::from_millis(100)));
        assert_eq!(control.window(), Cells::new(217), "three found the window full, the last did not");
    }
}
