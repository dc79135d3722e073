//! Tor's congestion control since 0.4.7.

mod algorithm;
mod config;
pub(super) mod rtt;
#[cfg(test)]
mod vectors;

pub use algorithm::Vegas;
pub use config::VegasConfig;

use super::sendmes::Sendmes;
use super::{EdgeControl, Signals};
use crate::error::Violation;
use penstock_units::{Cells, Duration, Instant};

/// [`Vegas`] at one end of a circuit, and the SENDMEs for Vegas at the other end.
///
/// Source: proposal 324 §2, §3.3; C tor `congestion_control_note_cell_sent()`,
/// `congestion_control_get_package_window()`, `sendme_circuit_consider_sending()`. Deviation: none.
#[derive(Debug)]
pub struct VegasWindow {
    vegas: Vegas,
    sendmes: Sendmes,
}

impl VegasWindow {
    /// The window of a new circuit.
    pub fn new(config: VegasConfig) -> Self {
        VegasWindow { vegas: Vegas::new(config), sendmes: Sendmes::each(config.sendme_inc) }
    }
}

impl EdgeControl for VegasWindow {
    fn package_window(&self) -> Cells {
        Cells::new(self.vegas.room())
    }

    fn on_package(&mut self, now: Instant, _signals: Signals) -> bool {
        self.vegas.on_sent();
        self.sendmes.on_package(now)
    }

    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        Ok(self.sendmes.on_deliver())
    }

    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation> {
        let rtt = self.sendmes.on_sendme(now)?;
        self.vegas.on_sendme(rtt, signals.blocked, signals.queue.get());
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
