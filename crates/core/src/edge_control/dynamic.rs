use super::windows::{CIRCUIT, DeliverWindow, WindowsConfig};
use super::{EdgeControl, Signals};
use crate::error::Violation;
use penstock_units::{Cells, Duration, Instant};
use std::collections::VecDeque;

/// The configuration of dynamic windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicConfig {
    /// The stream windows, and this end's behaviour as a receiver.
    pub windows: WindowsConfig,
    /// Where the threshold lies between the minimum round trip (0) and the maximum round trip (1).
    pub alpha: f64,
    /// How often the window may change.
    pub adjust: Adjust,
    /// How fast the minimum and maximum round trips move towards the mean with each sample, in [0, 1); 0 disables this.
    pub decay: f64,
    /// Whether the peer sends the first SENDME one cell late, at cell 101. The minimum window is then 101 cells.
    pub peer_bug_101: bool,
}

/// How often the window may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adjust {
    /// At every SENDME, as in the paper's text.
    #[default]
    EverySendme,
    /// At most once in a round trip, as other congestion controls do.
    OncePerRtt,
}

impl Default for DynamicConfig {
    fn default() -> Self {
        DynamicConfig {
            windows: WindowsConfig::default(),
            alpha: 0.25,
            adjust: Adjust::default(),
            decay: 0.0,
            peer_bug_101: false,
        }
    }
}

/// The dynamic circuit window at the sending end.
///
/// The window starts with the cells of one SENDME. The sender stores the send time of every hundredth DATA cell; the
/// SENDME for that cell gives the round-trip time. The threshold is T = (1 - alpha) rtt_min + alpha rtt_max (Eq. 1).
/// The window grows by 100 cells if rtt ≤ T and is halved otherwise (Eq. 2). The window stays between 100 and 1000
/// cells.
///
/// The paper does not say whether the peer's deliver window changes as well. In Penstock the deliver window stays at
/// 1000, so only the sender needs this algorithm (§6.2).
///
/// Source: DefenestraTor §4.1, Eq. 1 and 2.
/// Deviation: none with the defaults. `OncePerRtt` and `decay` are options for questions that the paper leaves open.
#[derive(Debug)]
pub struct DynamicWindow {
    config: DynamicConfig,
    deliver: DeliverWindow,
    window: u32,
    in_flight: u32,
    sent: u64,
    stamps: VecDeque<Instant>,
    rtt: Option<RoundTrips>,
    adjusted: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct RoundTrips {
    last: Duration,
    least: f64,
    greatest: f64,
    mean: f64,
}

/// The weight of the newest sample in the mean round trip (RFC 6298's gain). Only `decay` uses the mean.
const MEAN_GAIN: f64 = 0.125;

impl RoundTrips {
    fn new(first: Duration) -> Self {
        let nanos = first.as_nanos() as f64;
        RoundTrips { last: first, least: nanos, greatest: nanos, mean: nanos }
    }

    fn add(&mut self, sample: Duration, decay: f64) {
        let nanos = sample.as_nanos() as f64;
        self.last = sample;
        self.mean += MEAN_GAIN * (nanos - self.mean);
        // Minimum and maximum move towards the mean, but never past the newest sample.
        self.least = (self.least + decay * (self.mean - self.least)).min(nanos);
        self.greatest = (self.greatest - decay * (self.greatest - self.mean)).max(nanos);
    }

    /// The threshold T of Eq. 1 [ns].
    fn threshold(&self, alpha: f64) -> f64 {
        (1.0 - alpha) * self.least + alpha * self.greatest
    }
}

impl DynamicWindow {
    /// The window of a new circuit.
    pub fn new(config: DynamicConfig) -> Self {
        let mut control = DynamicWindow {
            config,
            deliver: DeliverWindow::circuit(config.windows),
            window: 0,
            in_flight: 0,
            sent: 0,
            stamps: VecDeque::new(),
            rtt: None,
            adjusted: None,
        };
        control.window = control.least();
        control
    }

    /// The minimum window. With the peer's bug, a window of 100 cells would wait forever for its SENDME.
    fn least(&self) -> u32 {
        CIRCUIT.increment + u32::from(self.config.peer_bug_101)
    }

    /// Whether the last sent cell will trigger a SENDME at the other end.
    fn triggers_sendme(&self) -> bool {
        let late = u64::from(self.config.peer_bug_101);
        self.sent > late && (self.sent - late).is_multiple_of(CIRCUIT.increment.into())
    }

    fn adjust(&mut self, now: Instant, rtt: RoundTrips) {
        if self.config.adjust == Adjust::OncePerRtt
            && self.adjusted.is_some_and(|adjusted| now.since(adjusted) < rtt.last)
        {
            return;
        }
        self.adjusted = Some(now);
        let congested = rtt.last.as_nanos() as f64 > rtt.threshold(self.config.alpha);
        let window = if congested { self.window / 2 } else { self.window + CIRCUIT.increment };
        self.window = window.clamp(self.least(), CIRCUIT.start);
    }
}

impl EdgeControl for DynamicWindow {
    fn package_window(&self) -> Cells {
        // If the window is smaller than the cells in flight, the circuit may send nothing.
        Cells::new(self.window.saturating_sub(self.in_flight).into())
    }

    fn on_package(&mut self, now: Instant, _signals: Signals) -> bool {
        self.in_flight += 1;
        self.sent += 1;
        let triggers = self.triggers_sendme();
        if triggers {
            self.stamps.push_back(now);
        }
        triggers
    }

    fn on_deliver(&mut self, _now: Instant) -> Result<bool, Violation> {
        self.deliver.on_deliver()
    }

    fn on_sendme(&mut self, now: Instant, _signals: Signals) -> Result<(), Violation> {
        // A receiver can increase this window by early acknowledgements (paper, footnote 5), unless SENDMEs must be
        // authenticated (`RelayConfig::authenticated_sendmes`).
        let sent = self.stamps.pop_front().ok_or(Violation::UnexpectedSendme)?;
        self.in_flight = self.in_flight.checked_sub(CIRCUIT.increment).ok_or(Violation::UnexpectedSendme)?;
        let sample = now - sent;
        let decay = self.config.decay;
        let rtt = match &mut self.rtt {
            Some(rtt) => {
                rtt.add(sample, decay);
                *rtt
            }
            none => *none.insert(RoundTrips::new(sample)),
        };
        self.adjust(now, rtt);
        Ok(())
    }

    fn window(&self) -> Cells {
        Cells::new(self.window.into())
    }

    fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|rtt| rtt.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends a full window. Each SENDME arrives `rtt` after the cell that triggered it.
    fn round(control: &mut DynamicWindow, now: &mut Instant, rtt: Duration) -> u32 {
        while control.stamps.is_empty() {
            control.on_package(*now, Signals::default());
        }
        *now += rtt;
        control.on_sendme(*now, Signals::default()).unwrap();
        control.window
    }

    /// G-13: with a constant RTT, the window reaches a thousand cells after nine increases.
    #[test]
    fn a_constant_rtt_opens_the_window_in_nine_steps() {
        let mut control = DynamicWindow::new(DynamicConfig::default());
        let mut now = Instant::ZERO;
        let windows: Vec<u32> =
            (0..11).map(|_| round(&mut control, &mut now, Duration::from_millis(320))).collect();
        assert_eq!(windows, [200, 300, 400, 500, 600, 700, 800, 900, 1000, 1000, 1000]);
    }

    #[test]
    fn a_long_rtt_halves_the_window() {
        let mut control = DynamicWindow::new(DynamicConfig::default());
        let mut now = Instant::ZERO;
        for _ in 0..4 {
            round(&mut control, &mut now, Duration::from_millis(320));
        }
        assert_eq!(round(&mut control, &mut now, Duration::from_millis(1000)), 250);
        // The threshold is now (0.75 * 320 + 0.25 * 1000) ms = 490 ms.
        assert_eq!(round(&mut control, &mut now, Duration::from_millis(489)), 350);
        assert_eq!(round(&mut control, &mut now, Duration::from_millis(491)), 175);
        assert_eq!(round(&mut control, &mut now, Duration::from_millis(491)), 100);
    }

    #[test]
    fn once_per_rtt_changes_the_window_at_most_once_per_rtt() {
        let config = DynamicConfig { adjust: Adjust::OncePerRtt, ..DynamicConfig::default() };
        let mut control = DynamicWindow::new(config);
        control.window = 500;
        let (rtt, gap) = (Duration::from_millis(400), Duration::from_millis(10));
        let mut now = Instant::ZERO;
        for _ in 0..10 {
            (0..100).for_each(|_| _ = control.on_package(now, Signals::default()));
            now += gap;
        }
        // Ten SENDMEs arrive 10 ms apart, each one RTT after its cell. The first one changes the
        // window, the others do not.
        now = Instant::ZERO + rtt;
        let windows: Vec<u32> = (0..10)
            .map(|_| {
                control.on_sendme(now, Signals::default()).unwrap();
                now += gap;
                control.window
            })
            .collect();
        assert_eq!(windows, [600; 10]);
        assert_eq!(control.adjusted, Some(Instant::ZERO + rtt));
    }

    #[test]
    fn a_window_below_the_cells_in_flight_sends_no_cell() {
        let mut control = DynamicWindow::new(DynamicConfig::default());
        control.window = 1000;
        (0..400).for_each(|_| _ = control.on_package(Instant::ZERO, Signals::default()));
        control.window = 100;
        assert_eq!(control.package_window(), Cells::ZERO);
    }

    #[test]
    fn acknowledging_unsent_cells_is_a_violation() {
        let mut control = DynamicWindow::new(DynamicConfig::default());
        (0..99).for_each(|_| _ = control.on_package(Instant::ZERO, Signals::default()));
        let early = control.on_sendme(Instant::from_secs(1), Signals::default());
        assert_eq!(early, Err(Violation::UnexpectedSendme));
    }

    proptest! {
        /// G-13: 100 (101 with the bug) <= w <= 1000. Before the clamp w becomes w + 100 or w / 2.
        /// T lies between the minimum and the maximum RTT, with and without decay.
        #[test]
        fn the_window_keeps_its_bounds(
            rtts in proptest::collection::vec(1u64..5_000, 1..300),
            alpha in 0.0f64..=1.0,
            decay in prop_oneof![Just(0.0), 0.0f64..0.5],
            peer_bug_101 in any::<bool>(),
        ) {
            let config = DynamicConfig { alpha, decay, peer_bug_101, ..DynamicConfig::default() };
            let mut control = DynamicWindow::new(config);
            let least = 100 + u32::from(peer_bug_101);
            let mut now = Instant::ZERO;
            for rtt in rtts {
                let before = control.window;
                let after = round(&mut control, &mut now, Duration::from_millis(rtt));
                prop_assert!((least..=1000).contains(&after));
                let allowed = [(before + 100).clamp(least, 1000), (before / 2).clamp(least, 1000)];
                prop_assert!(allowed.contains(&after));
                let seen = control.rtt.unwrap();
                let threshold = seen.threshold(alpha);
                prop_assert!(seen.least <= seen.last.as_nanos() as f64 && seen.last.as_nanos() as f64 <= seen.greatest);
                prop_assert!(threshold >= seen.least - 1.0 && threshold <= seen.greatest + 1.0);
            }
        }
    }
}
