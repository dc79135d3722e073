//! DCTCP: a congestion window that follows the fraction of cells with a congestion mark.

use super::congestion::{Acknowledged, CongestionControl, CwndBounds};
use super::{Signals, WindowsConfig, XonXoffConfig};
use penstock_units::{Duration, Instant};
use std::num::NonZeroU8;

/// Parameters of [`Dctcp`].
///
/// Source: Alizadeh et al. 2010 §3.4; RFC 8257 §4.2 (g = 1/16). Linux `tcp_dctcp.c` (minimum window of two segments).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpConfig {
    /// The bounds of the window. A SENDME acknowledges 10 cells, while Vegas uses 31. A burst in slow start therefore
    /// has 20 cells, which do not exceed the marking threshold K = 20 (Alizadeh et al. 2010 §3.5). The initial and the
    /// minimum window are 20 cells (two SENDMEs). The maximum is 1000 cells, as for fixed windows; it applies if no
    /// relay marks cells.
    pub bounds: CwndBounds,
    /// The weight of the newest fraction of marked cells in the average `alpha`, in [0, 1).
    pub g: f64,
    /// Flow control of streams on circuits that use DCTCP.
    pub streams: XonXoffConfig,
    /// Window sizes of circuits whose other end does not know DCTCP.
    pub windows: WindowsConfig,
}

impl Default for DctcpConfig {
    fn default() -> Self {
        let sendme_inc = NonZeroU8::new(10).expect("10 is not zero");
        DctcpConfig {
            bounds: CwndBounds { sendme_inc, cwnd_init: 20, cwnd_min: 20, cwnd_max: 1000 },
            g: 0.0625,
            streams: XonXoffConfig::TOR_0_4_9,
            windows: WindowsConfig::STOCK,
        }
    }
}

/// DCTCP's congestion window at one end of a circuit.
///
/// An observation window covers the cells that are sent in about one round trip. The observation window ends when a
/// SENDME acknowledges a cell that was sent after the previous observation window. If F is the fraction of marked cells
/// in the window, alpha then becomes (1 - g) alpha + g F, and cwnd changes once. If a cell was marked, cwnd becomes
/// cwnd (1 - alpha / 2). Otherwise cwnd grows by the cells of one SENDME, as TCP grows by one segment. Slow start lasts
/// until the first mark; each SENDME then adds the number of acknowledged cells. cwnd grows only if the cells in flight
/// fill it.
///
/// Source: Alizadeh et al. 2010 §3.1, equations 1 and 2; RFC 8257 §3.3; RFC 5681 §3.1 (growth, with the cells of a
/// SENDME for a segment). Alpha begins at one, as in Linux (`dctcp_alpha_on_init`).
///
/// Deviation: SENDMEs carry the number of marked cells, so the receiver reports no state (RFC 8257 §3.2).
///
/// Deviation: there is no reaction to loss (RFC 8257 §3.4 and 3.5), because channels lose no cells.
#[derive(Clone, Debug)]
pub struct Dctcp {
    config: DctcpConfig,
    cwnd: u64,
    slow_start: bool,
    alpha: f64,
    /// The cells acknowledged so far. At the count `window_end`, the current observation window ends.
    acknowledged: u64,
    window_end: u64,
    acked: u64,
    marked: u64,
    full: bool,
    rtt: Option<Duration>,
}

impl Dctcp {
    /// The window of a new circuit.
    pub fn new(config: DctcpConfig) -> Self {
        Dctcp {
            config,
            cwnd: config.bounds.clamp(config.bounds.cwnd_init.into()),
            slow_start: true,
            alpha: 1.0,
            acknowledged: 0,
            window_end: 0,
            acked: 0,
            marked: 0,
            full: false,
            rtt: None,
        }
    }

    /// The moving average of the fraction of marked cells.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    fn end_window(&mut self, inc: u64, in_flight: u64) {
        let share = self.marked as f64 / self.acked as f64;
        self.alpha = (1.0 - self.config.g) * self.alpha + self.config.g * share;
        if self.marked > 0 {
            self.cwnd = (self.cwnd as f64 * (1.0 - self.alpha / 2.0)) as u64;
        } else if !self.slow_start && self.full {
            self.cwnd += inc;
        }
        self.window_end = self.acknowledged + in_flight;
        (self.acked, self.marked, self.full) = (0, 0, false);
    }
}

impl CongestionControl for Dctcp {
    const REPORTS_MARKS: bool = true;

    fn bounds(&self) -> &CwndBounds {
        &self.config.bounds
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn last_rtt(&self) -> Option<Duration> {
        self.rtt
    }

    fn on_acknowledged(&mut self, _now: Instant, acknowledged: Acknowledged, signals: Signals) {
        let (inc, marked) = (self.config.bounds.inc(), u64::from(signals.marked));
        self.rtt = Some(acknowledged.rtt);
        self.acknowledged += inc;
        self.acked += inc;
        self.marked += marked;
        self.full |= acknowledged.full;
        self.slow_start &= marked == 0;
        if self.slow_start && acknowledged.full {
            self.cwnd += inc;
        }
        if self.acknowledged > self.window_end {
            self.end_window(inc, acknowledged.in_flight - inc);
        }
        self.cwnd = self.config.bounds.clamp(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge_control::{DctcpWindow, EdgeControl};
    use crate::error::Violation;
    use penstock_units::Cells;
    use proptest::prelude::*;

    /// Delivers one SENDME with `marked` marks to a sender that always fills its window.
    fn sendme(control: &mut DctcpWindow, marked: u8) -> u64 {
        while control.package_window() > Cells::ZERO {
            control.on_package(Instant::ZERO, Signals::default());
        }
        let signals = Signals { marked, ..Signals::default() };
        control.on_sendme(Instant::from_millis(100), signals).unwrap();
        control.algorithm.cwnd()
    }

    #[test]
    fn slow_start_doubles_the_window_each_rtt_until_the_first_mark() {
        let mut control = DctcpWindow::new(Dctcp::new(DctcpConfig::default()));
        let windows: Vec<u64> = [2, 4, 8]
            .map(|sendmes| {
                (0..sendmes).for_each(|_| _ = sendme(&mut control, 0));
                control.algorithm.cwnd()
            })
            .to_vec();
        assert_eq!(windows, [40, 80, 160]);
        let after = [0, 1, 0, 0].map(|marked| sendme(&mut control, marked));
        assert_eq!(after, [170; 4], "slow start is over, and the current window has not ended");
    }

    #[test]
    fn a_window_without_marks_adds_the_cells_of_one_sendme() {
        let mut control = DctcpWindow::new(Dctcp::new(DctcpConfig::default()));
        sendme(&mut control, 10);
        assert_eq!(
            (control.algorithm.cwnd(), control.algorithm.alpha()),
            (20, 1.0),
            "the window is at its minimum"
        );
        let windows: Vec<u64> = (0..12).map(|_| sendme(&mut control, 0)).collect();
        // A window has the cells that were in flight at its start: 20, 20, 30 and 40.
        assert_eq!(windows, [20, 30, 30, 40, 40, 40, 50, 50, 50, 50, 60, 60]);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut control = DctcpWindow::new(Dctcp::new(DctcpConfig::default()));
        for _ in 0..50 {
            (0..10).for_each(|_| _ = control.on_package(Instant::ZERO, Signals::default()));
            control.on_sendme(Instant::from_millis(100), Signals::default()).unwrap();
        }
        assert_eq!(control.algorithm.cwnd(), 20, "ten cells do not fill the window");
    }

    #[test]
    fn marks_are_reported_once_with_the_sendme_of_their_cells() {
        let mut control = DctcpWindow::new(Dctcp::new(DctcpConfig::default()));
        let echoes: Vec<u8> = (0..40u32)
            .filter_map(|cell| {
                if cell.is_multiple_of(3) || cell > 29 {
                    control.on_mark();
                }
                control.on_deliver(Instant::ZERO).unwrap().then(|| control.take_marks())
            })
            .collect();
        assert_eq!(echoes, [4, 3, 3, 10]);
    }

    #[test]
    fn more_marks_than_cells_and_an_unexpected_sendme_are_violations() {
        let mut control = DctcpWindow::new(Dctcp::new(DctcpConfig::default()));
        (0..20).for_each(|_| _ = control.on_package(Instant::ZERO, Signals::default()));
        let send_marks = |control: &mut DctcpWindow, marked| {
            control.on_sendme(Instant::from_secs(1), Signals { marked, ..Signals::default() })
        };
        assert_eq!(send_marks(&mut control, 10), Ok(()));
        assert_eq!(send_marks(&mut control, 11), Err(Violation::ForgedMarks));
        assert_eq!(send_marks(&mut control, 0), Err(Violation::UnexpectedSendme));
    }

    /// The congestion windows of a sender that always fills its window, computed from the definition. An observation
    /// window ends one SENDME after all cells that were in flight at its start are acknowledged.
    fn by_definition(g: f64, inc: u64, least: u64, most: u64, start: u64, marks: &[u64]) -> Vec<(u64, f64)> {
        let (mut cwnd, mut alpha, mut slow) = (start, 1.0, true);
        let (mut sent, mut first, mut until) = (0, 0, 0);
        let mut rows = Vec::new();
        for row in 0..marks.len() {
            let acked = row as u64 * inc;
            // The cells in flight are cwnd, or cwnd before it shrank.
            sent = (acked + cwnd).max(sent);
            let full = sent - acked + inc > cwnd;
            assert!(full, "the sender fills its window");
            slow = slow && marks[row] == 0;
            cwnd += if slow { inc } else { 0 };
            if acked + inc > until {
                let of_window = &marks[first..=row];
                let (marked, cells) = (of_window.iter().sum::<u64>(), of_window.len() as u64 * inc);
                alpha = (1.0 - g) * alpha + g * (marked as f64 / cells as f64);
                cwnd = match marked {
                    0 if slow => cwnd,
                    0 => cwnd + inc,
                    _ => (cwnd as f64 * (1.0 - alpha / 2.0)) as u64,
                };
                (first, until) = (row + 1, sent);
            }
            cwnd = cwnd.clamp(least, most);
            rows.push((cwnd, alpha));
        }
        rows
    }

    proptest! {
        #[test]
        fn windows_follow_the_definition_row_by_row(
            inc in 1u8..=40,
            marks in proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => 0u8..=40], 1..300),
            g in 0.01f64..0.99,
            most in 200u32..2000,
        ) {
            let marks: Vec<u8> = marks.into_iter().map(|marked| marked.min(inc)).collect();
            let sendme_inc = NonZeroU8::new(inc).unwrap();
            let least = 2 * u32::from(inc);
            let bounds = CwndBounds { sendme_inc, cwnd_init: least, cwnd_min: least, cwnd_max: most };
            let mut control = DctcpWindow::new(Dctcp::new(DctcpConfig { bounds, g, ..DctcpConfig::default() }));
            let wide: Vec<u64> = marks.iter().map(|marked| u64::from(*marked)).collect();
            let expected = by_definition(g, inc.into(), least.into(), most.into(), least.into(), &wide);
            for (row, (marked, expected)) in marks.iter().zip(expected).enumerate() {
                let found = (sendme(&mut control, *marked), control.algorithm.alpha());
                prop_assert_eq!(found, expected, "row {}", row);
                prop_assert!((0.0..=1.0).contains(&found.1));
                prop_assert!((u64::from(least)..=u64::from(most)).contains(&found.0));
            }
        }
    }
}
