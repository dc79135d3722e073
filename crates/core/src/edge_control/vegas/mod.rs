//! Tor's congestion control since 0.4.7.

mod algorithm;
mod config;
pub(super) mod rtt;

pub use algorithm::Vegas;
pub use config::VegasConfig;

#[cfg(test)]
mod tests {
    pub(super) mod vectors;

    use super::*;
    use crate::edge_control::{EdgeControl, Signals, VegasWindow};
    use crate::error::Violation;
    use penstock_units::{Cells, Duration, Instant};

    #[test]
    fn every_31st_cell_is_acknowledged_and_an_unexpected_sendme_is_a_violation() {
        let mut control = VegasWindow::new(Vegas::new(VegasConfig::TOR_0_4_9));
        let sent: Vec<bool> =
            (0..124).map(|_| control.on_package(Instant::ZERO, Signals::default())).collect();
        assert_eq!(control.package_window(), Cells::ZERO);
        let due: Vec<bool> = (0..124).map(|_| control.on_deliver(Instant::ZERO).unwrap()).collect();
        assert_eq!(sent, due, "both ends expect the same SENDMEs");
        assert_eq!(due.iter().filter(|due| **due).count(), 4);
        let later = Instant::from_millis(100);
        for _ in 0..4 {
            assert_eq!(control.on_sendme(later, Signals::default()), Ok(()));
        }
        assert_eq!(control.on_sendme(later, Signals::default()), Err(Violation::UnexpectedSendme));
        assert_eq!(control.rtt(), Some(Duration::from_millis(100)));
        assert_eq!(
            control.window(),
            Cells::new(217),
            "three SENDMEs find the window full, the last one does not"
        );
    }
}
