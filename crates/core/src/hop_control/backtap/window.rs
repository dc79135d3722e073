use crate::hop_control::RoundTrip;
use penstock_units::{DataRate, Duration};

/// The maximum window [cell]. It leaves space for link-control cells below the limit of cells in flight.
pub const MAX_WINDOW: u32 = 2000;
/// Stream bytes in one cell [B].
const PAYLOAD: u64 = 498;

/// The configuration of a hop window.
///
/// Source: slides, "BackTap Congestion Control": + 1 if diff < α, − 1 if diff > β. The slides give no numbers: 3 and 6
/// are nstor's; 2 and 4 are Vegas's own (Brakmo and Peterson 1995), as in Linux.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowConfig {
    /// α [cell]: the window grows if fewer cells than this wait at the next node.
    pub alpha: u32,
    /// β [cell], at least α: the window shrinks if more cells than this wait at the next node.
    pub beta: u32,
    /// The initial window [cell].
    pub start: u32,
    /// γ [cell]: slow start doubles the window in each round until more than γ cells wait; `None` disables slow start.
    pub slow_start: Option<u32>,
    /// The minimum number of round trips in a round [1]; nstor requires 3, Marut's authors require none.
    pub samples: u32,
    /// Whether the window is at most the node's own bandwidth rate times the base round trip and the hold of a datagram.
    pub cap: bool,
}

impl Default for WindowConfig {
    fn default() -> Self {
        WindowConfig { alpha: 3, beta: 6, start: 2, slow_start: None, samples: 3, cap: true }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Trips {
    least: Option<Duration>,
    base: Duration,
    hold: Duration,
    samples: u32,
}

impl Trips {
    pub(in super::super) fn add(&mut self, trip: RoundTrip) {
        self.least = Some(self.least.map_or(trip.rtt, |least| least.min(trip.rtt)));
        (self.base, self.hold) = (trip.base, trip.hold);
        self.samples = self.samples.saturating_add(1);
    }

    /// diff = `cells` · (actualRtt / baseRtt − 1) estimates the cells that wait at the next node [cell]. `None` if the
    /// round has fewer round trips than `samples`.
    pub(in super::super) fn diff(&self, cells: u64, samples: u32) -> Option<f64> {
        let least = self.least.filter(|_| self.samples >= samples)?;
        self.diff_of(least, cells)
    }

    /// diff for this actualRtt. `None` without a base round trip.
    pub(in super::super) fn diff_of(&self, actual: Duration, cells: u64) -> Option<f64> {
        let longer = actual.saturating_sub(self.base).as_secs_f64() / self.base.as_secs_f64();
        Some(cells as f64 * longer).filter(|_| !self.base.is_zero())
    }

    pub(in super::super) fn least(&self) -> Option<Duration> {
        self.least
    }

    /// The round trip of a cell that waits in no queue: the base round trip and the longest hold of a single message.
    pub(in super::super) fn unqueued(&self) -> Duration {
        self.base + self.hold
    }
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Window {
    config: WindowConfig,
    rate: Option<DataRate>,
    cwnd: u64,
    /// In slow start, how many cells had been sent when the window last doubled.
    doubled_at: Option<u64>,
}

impl Window {
    pub(in super::super) fn new(config: WindowConfig, rate: Option<DataRate>) -> Self {
        let cwnd = u64::from(config.start.clamp(1, MAX_WINDOW));
        Window { config, rate: rate.filter(|_| config.cap), cwnd, doubled_at: config.slow_start.map(|_| 0) }
    }

    pub(in super::super) fn set_rate(&mut self, rate: Option<DataRate>) {
        self.rate = rate.filter(|_| self.config.cap);
    }

    pub(in super::super) fn get(&self) -> u64 {
        self.cwnd
    }

    /// The maximum window: the cells that the node's rate carries in `unqueued`, the round trip without queues. The last
    /// cell counts as a whole, because a smaller window could not carry the rate.
    pub(in super::super) fn most(&self, unqueued: Duration) -> u64 {
        let rate = self.rate.filter(|_| !unqueued.is_zero());
        let carried = rate.map(|rate| rate.bytes_in(unqueued).get().div_ceil(PAYLOAD));
        carried.map_or(MAX_WINDOW.into(), |cells| cells.clamp(1, MAX_WINDOW.into()))
    }

    /// Ends slow start if `diff` (the estimated waiting cells) exceeds γ. The window is then set to the number of cells
    /// forwarded since the last doubling.
    /// Source: CircuitStart (by BackTap's authors): this corrects the overshoot of the last doubling.
    pub(in super::super) fn on_forwarded(&mut self, diff: Option<f64>, forwarded: u64) {
        let (Some(gamma), Some(doubled_at)) = (self.config.slow_start, self.doubled_at) else { return };
        if diff.is_some_and(|diff| diff > f64::from(gamma)) {
            self.cwnd = forwarded.saturating_sub(doubled_at).clamp(1, self.cwnd);
            self.doubled_at = None;
        }
    }

    /// Adjusts the window after a round. `diff` cells waited in the round, `sent` cells were sent so far, and `unqueued`
    /// is the round trip without queues.
    pub(in super::super) fn on_round(&mut self, diff: f64, sent: u64, unqueued: Duration) {
        let most = self.most(unqueued);
        if self.doubled_at.is_some() {
            self.cwnd = (self.cwnd * 2).min(most);
            self.doubled_at = (self.cwnd < most).then_some(sent);
            return;
        }
        if diff < f64::from(self.config.alpha) {
            self.cwnd += 1;
        } else if diff > f64::from(self.config.beta) {
            self.cwnd -= 1;
        }
        self.cwnd = self.cwnd.clamp(1, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    fn trips(samples: &[u64], base: u64) -> Trips {
        let mut trips = Trips::default();
        let trip = |rtt: &u64| RoundTrip { rtt: MILLIS(*rtt), base: MILLIS(base), hold: MILLIS(1) };
        samples.iter().for_each(|rtt| trips.add(trip(rtt)));
        assert_eq!(trips.unqueued(), MILLIS(base + 1));
        trips
    }

    #[test]
    fn diff_follows_the_minimum_rtt_of_the_round() {
        let waits = trips(&[150, 120, 130], 100).diff(10, 3).expect("three samples are enough");
        assert!((waits - 2.0).abs() < 1e-9, "{waits}");
        assert_eq!(trips(&[100, 120, 130], 100).diff(10, 3), Some(0.0));
        assert_eq!(trips(&[120, 130], 100).diff(10, 3), None, "two samples are too few");
        assert_eq!(trips(&[90, 90, 90], 100).diff(10, 3), Some(0.0), "diff is never negative");
    }

    #[test]
    fn the_window_changes_by_one_between_its_bounds() {
        let mut window = Window::new(WindowConfig::default(), None);
        let mut seen = vec![window.get()];
        for diff in [0.0, 2.9, 3.0, 6.0, 6.1, 9.0, 50.0, 50.0] {
            window.on_round(diff, 0, MILLIS(100));
            seen.push(window.get());
        }
        assert_eq!(seen, [2, 3, 4, 4, 4, 3, 2, 1, 1]);
    }

    #[test]
    fn the_cap_is_the_rate_of_the_node_times_the_base_rtt() {
        let (slow, fast) = (DataRate::new(49_800), DataRate::new(99_600));
        let mut window = Window::new(WindowConfig::default(), slow);
        let grown = |window: &mut Window| {
            (0..20).for_each(|_| window.on_round(0.0, 0, MILLIS(50)));
            window.get()
        };
        assert_eq!(grown(&mut window), 5);
        window.set_rate(fast);
        assert_eq!(grown(&mut window), 10);
        window.set_rate(None);
        assert_eq!(grown(&mut window), 30);
        window.set_rate(slow);
        window.on_round(0.0, 0, MILLIS(1));
        assert_eq!(window.get(), 1);
        let uncapped = WindowConfig { cap: false, ..WindowConfig::default() };
        assert_eq!(grown(&mut Window::new(uncapped, slow)), 22);
    }

    #[test]
    fn slow_start_doubles_until_cells_wait_and_keeps_the_forwarded_count() {
        let mut window = Window::new(WindowConfig { slow_start: Some(2), ..WindowConfig::default() }, None);
        let idle = trips(&[100, 100, 100], 100);
        for (sent, expected) in [(10, 4), (14, 8), (22, 16)] {
            window.on_forwarded(idle.diff(window.get(), 3), sent);
            window.on_round(0.0, sent, MILLIS(100));
            assert_eq!(window.get(), expected);
        }
        // 16 · 0.2 = 3.2 cells wait. Eleven cells were forwarded since the 22nd.
        window.on_forwarded(trips(&[120, 120, 120], 100).diff(window.get(), 3), 33);
        assert_eq!(window.get(), 11);
        window.on_round(0.0, 40, MILLIS(100));
        assert_eq!(window.get(), 12, "the window then changes by one");
    }
}
