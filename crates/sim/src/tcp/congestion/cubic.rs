//! CUBIC: the window follows W(t) = C·(t − K)³ + Wmax since the last loss.

use penstock_units::{Duration, Instant, math, time::nanos};

/// How steep the cubic is [segments/s³].
const C: f64 = 0.4;
/// What a loss leaves of the window.
const BETA: f64 = 0.7;
/// Segments added each round trip where CUBIC is to be no slower than Reno: 3(1 − β)/(1 + β).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The state of one flow.
///
/// Source: RFC 9438 §4; Linux `tcp_cubic.c` (`bictcp_update`, `bictcp_recalc_ssthresh`). As there,
/// the target is that of one round trip ahead, and the window grows by at most 1 segment per
/// 20 while Wmax is unknown.
/// Deviation: floating point with one portable cube root for Linux's fixed point of 1/1024 s;
/// an idle sender's epoch is shifted, as Linux does since 4.3.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// The window at the last loss, less if the flow is giving way [segments]; 0 is unknown.
    last_max: f64,
    /// When growth began after the last loss.
    epoch: Option<Instant>,
    /// The window of the plateau [segments].
    origin: f64,
    /// From the epoch to the plateau [s].
    k: f64,
    /// What Reno would have by now [segments].
    reno: f64,
    /// The shortest round trip [ns]; 0 is unknown.
    min_rtt: u64,
}

impl Cubic {
    /// A round trip was measured.
    pub(super) fn on_rtt(&mut self, sample: Duration) {
        let sample = nanos(sample).max(1);
        if self.min_rtt == 0 || sample < self.min_rtt {
            self.min_rtt = sample;
        }
    }

    /// How many acknowledged segments enlarge the window by one; `acked` were acknowledged just now.
    pub(super) fn segments_per_increase(&mut self, now: Instant, cwnd: u32, acked: u32) -> u32 {
        let window = f64::from(cwnd);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now, window),
        };
        let t = (now + Duration::from_nanos(self.min_rtt)).since(epoch);
        let target = self.w_cubic(nanos(t) as f64 / 1e9);
        let mut per_increase = if target > window { window / (target - window) } else { 100.0 * window };
        if self.last_max == 0.0 {
            per_increase = per_increase.min(20.0);
        }
        // The TCP-friendly region: RFC 9438 §4.3.
        self.reno += ALPHA * f64::from(acked) / window;
        if self.reno > window {
            per_increase = per_increase.min(window / (self.reno - window));
        }
        (per_increase as u32).max(1)
    }

    /// The window to fall to after a loss [segments].
    pub(super) fn ssthresh(&mut self, cwnd: u32) -> u32 {
        let window = f64::from(cwnd);
        self.epoch = None;
        // Fast convergence: a flow that lost before it regained its maximum gives way.
        let gives_way = window < self.last_max;
        self.last_max = if gives_way { window * (1.0 + BETA) / 2.0 } else { window };
        ((window * BETA) as u32).max(2)
    }

    /// The retransmission timer fired: begin anew.
    pub(super) fn reset(&mut self) {
        *self = Cubic { min_rtt: self.min_rtt, ..Cubic::default() };
    }

    /// The application was silent for `idle`: that time does not count.
    pub(super) fn on_idle(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            *epoch += idle;
        }
    }

    fn begin_epoch(&mut self, now: Instant, window: f64) -> Instant {
        self.epoch = Some(now);
        self.reno = window;
        self.origin = window.max(self.last_max);
        self.k = math::cbrt((self.origin - window) / C);
        now
    }

    /// The window `t` after the epoch [s] [segments].
    fn w_cubic(&self, t: f64) -> f64 {
        let x = t - self.k;
        self.origin + C * x * x * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window each round trip of 100 ms after a loss at `cwnd`.
    fn epoch_after_loss_at(cwnd: u32, rounds: u64) -> Vec<u32> {
        let mut cubic = Cubic::default();
        cubic.on_rtt(Duration::from_millis(100));
        let (mut window, mut count) = (cubic.ssthresh(cwnd), 0);
        let mut trace = vec![window];
        for round in 0..rounds {
            let acks = window;
            for acked in 0..acks {
                let now = Instant::from_millis(round * 100) + Duration::from_micros(u64::from(acked) * 10);
                let per_increase = cubic.segments_per_increase(now, window, 1);
                count += 1;
                if count >= per_increase {
                    window += 1;
                    count = 0;
                }
            }
            trace.push(window);
        }
        trace
    }

    #[test]
    fn a_loss_leaves_seven_tenths() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.ssthresh(1000), 700);
        assert_eq!(cubic.ssthresh(2), 2);
    }

    #[test]
    fn a_flow_that_lost_below_its_maximum_gives_way() {
        let mut cubic = Cubic::default();
        cubic.ssthresh(1000);
        assert_eq!(cubic.last_max, 1000.0);
        cubic.ssthresh(800);
        assert_eq!(cubic.last_max, 680.0);
    }

    #[test]
    fn growth_is_concave_up_to_the_plateau_and_convex_beyond() {
        let trace = epoch_after_loss_at(1000, 200);
        // K = cbrt(1000 · 0.3 / 0.4) = 9.09 s
        let reached = trace.iter().position(|window| *window >= 995).unwrap() as f64 / 10.0;
        assert!((6.5..10.0).contains(&reached), "{reached}");
        let growth = |from: usize, to: usize| trace[to] - trace[from];
        assert!(growth(0, 30) > 2 * growth(30, 60), "concave: {} {}", growth(0, 30), growth(30, 60));
        assert!(growth(80, 100) <= 4, "plateau: {}", growth(80, 100));
        assert!(growth(150, 180) > 2 * growth(120, 150), "convex");
    }

    #[test]
    fn the_period_between_losses_is_that_of_the_closed_form() {
        // From β·W to W again takes K = cbrt(W(1 − β)/C).
        for w_max in [200u32, 500, 2000] {
            let k = math::cbrt(f64::from(w_max) * 0.3 / 0.4);
            let trace = epoch_after_loss_at(w_max, (k * 15.0) as u64);
            let above = trace.iter().position(|window| *window > w_max).unwrap() as f64 / 10.0;
            assert!((above / k - 1.0).abs() < 0.15, "W {w_max}: {above} s, K = {k} s");
        }
    }

    #[test]
    fn a_small_window_grows_no_slower_than_reno() {
        let trace = epoch_after_loss_at(20, 40);
        // Reno with α = 0.529 regains 6 segments in 11 round trips; K would take 25.
        assert!(trace[14] >= 20, "{trace:?}");
    }

    #[test]
    fn silence_does_not_count() {
        let mut cubic = Cubic::default();
        cubic.ssthresh(1000);
        let before = cubic.segments_per_increase(Instant::ZERO, 700, 1);
        cubic.on_idle(Duration::from_secs(60));
        let after = cubic.segments_per_increase(Instant::from_secs(60), 700, 1);
        assert_eq!(before, after);
    }
}
