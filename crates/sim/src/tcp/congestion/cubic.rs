//! CUBIC: the window follows W(t) = C·(t − K)³ + Wmax since the last loss.

use super::hystart::HyStart;
use crate::tcp::config::Kernel;
use penstock_units::{Duration, Instant, math, time::nanos};

/// The coefficient C of the cubic function [segments/s³]. Shadow multiplies cubed milliseconds by 410 and
/// divides by 2⁴⁰.
fn coefficient(kernel: Kernel) -> f64 {
    match kernel {
        Kernel::Linux3_2 | Kernel::Linux6 | Kernel::Ns3 => 0.4,
        Kernel::Shadow => 410e9 / (1_u64 << 40) as f64,
    }
}

/// β, and the number of eighths of a window after whose acknowledgement Reno's window grows by one segment. The number
/// is (1 + β)/(3(1 − β)), rounded to whole eighths (`beta_scale`).
fn beta(kernel: Kernel) -> (f64, u32) {
    match kernel {
        Kernel::Linux3_2 | Kernel::Linux6 | Kernel::Ns3 => (0.7, 15),
        Kernel::Shadow => (819.0 / 1024.0, 23),
    }
}

/// The growth rate is computed again after this time, or when the window has changed.
const PACE_LASTS: Duration = Duration::from_nanos(1_000_000_000 / 32);
/// The same in Shadow: `HZ / 32`, in milliseconds.
const SHADOW_PACE_LASTS: Duration = Duration::from_millis(32);
const MS: u64 = 1_000_000;
/// For this time after the start of an epoch, round trips still include the queue of the recovery.
const YOUNG: Duration = Duration::from_secs(1);
/// The ratio 1, in sixteenths (`ACK_RATIO_SHIFT`).
const RATIO_ONE: u32 = 16;
/// The maximum ratio of segments to ACKs, in sixteenths (`ACK_RATIO_LIMIT`).
const RATIO_MOST: u32 = 32 * RATIO_ONE;

/// The CUBIC state of one flow.
/// Source: RFC 9438 §4; Linux 3.2 and 6.12 `tcp_cubic.c` (`bictcp_update`, `bictcp_acked`, `bictcp_recalc_ssthresh`).
/// As in Linux, the target is the cubic function one round trip later. While Wmax is unknown, the window grows by at
/// most 1 segment for each 20 segments.
/// Deviation: floating point with a portable cube root instead of Linux's fixed point of 1/1024 s.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    /// The window at the last loss [segments], reduced by fast convergence; 0 means unknown.
    last_max: f64,
    /// When the window began to grow after the last loss; FAR_FUTURE if it has not.
    epoch: Instant,
    /// The window at the plateau of the cubic function [segments].
    origin: f64,
    /// K, the time from the epoch to the plateau [s].
    k: f64,
    /// The window that Reno would have now (`tcp_cwnd`) [segments].
    reno: u32,
    reno_count: u32,
    /// The number of acknowledged segments that increase the window by one, so that the window follows the cubic
    /// function.
    pace: u32,
    /// The window from which `pace` was last computed [segments]; `pace_at` is the time of this computation.
    pace_of: u32,
    pace_at: Instant,
    /// The shortest round trip [ns]; 0 means unknown.
    min_rtt: u64,
    /// The average number of segments that one ACK covers, in sixteenths (`delayed_ack`).
    ratio: u32,
    pub(super) hystart: HyStart,
}

impl Default for Cubic {
    fn default() -> Self {
        Cubic {
            last_max: 0.0,
            epoch: Instant::FAR_FUTURE,
            origin: 0.0,
            k: 0.0,
            reno: 0,
            reno_count: 0,
            pace: 1,
            pace_of: 0,
            pace_at: Instant::ZERO,
            min_rtt: 0,
            ratio: 2 * RATIO_ONE,
            hystart: HyStart::default(),
        }
    }
}

impl Cubic {
    pub(super) fn on_rtt(&mut self, kernel: Kernel, now: Instant, sample: Duration) {
        let young =
            kernel != Kernel::Shadow && self.epoch != Instant::FAR_FUTURE && now.since(self.epoch) < YOUNG;
        let sample = nanos(sample).max(1);
        if self.min_rtt == 0 || (!young && sample < self.min_rtt) {
            self.min_rtt = sample;
        }
    }

    pub(super) fn min_rtt(&self) -> u64 {
        self.min_rtt
    }

    pub(super) fn on_acked(&mut self, segments: u32) {
        self.ratio = (self.ratio - self.ratio / RATIO_ONE + segments).min(RATIO_MOST);
    }

    /// Returns the credit that increases the window by one segment. `credit` is the credit of this ACK.
    ///
    /// The credit counts acknowledged segments. In Linux 3.2 it counts ACKs, each for an average number of segments.
    pub(super) fn credit_per_increase(
        &mut self,
        kernel: Kernel,
        now: Instant,
        cwnd: u32,
        credit: u32,
    ) -> u32 {
        self.reno_count += credit;
        if kernel == Kernel::Shadow {
            return self.credit_of_shadow(now, cwnd);
        }
        let fresh = self.epoch != Instant::FAR_FUTURE
            && cwnd == self.pace_of
            && now.since(self.pace_at) <= PACE_LASTS;
        if !fresh {
            (self.pace_of, self.pace_at) = (cwnd, now);
            self.pace = self.cubic_pace(kernel, now, cwnd, credit);
        }
        let pace = self.pace.min(self.reno_pace(kernel, cwnd)).min(100 * cwnd);
        if kernel == Kernel::Linux3_2 {
            return (pace * RATIO_ONE / self.ratio).max(1);
        }
        // With this minimum, the window grows by at most half in a round trip.
        pace.max(2)
    }

    /// The credit per segment in Shadow, which counts to one more than half of the pace and grows with the next ACK.
    /// The pace lasts for 32 ms, even if the window changes, and then the count for Reno's window begins again.
    /// Source: Shadow 1.9.0 `_cubic_update`, `cubic_congestionAvoidance`.
    fn credit_of_shadow(&mut self, now: Instant, cwnd: u32) -> u32 {
        let now_ms = Instant::from_millis(now.as_nanos() / MS);
        if now_ms.since(self.pace_at) > SHADOW_PACE_LASTS {
            self.pace_at = now_ms;
            self.pace = self.cubic_pace(Kernel::Shadow, now, cwnd, 1);
            self.pace = self.pace.min(self.reno_pace(Kernel::Shadow, cwnd));
            self.reno_count = 0;
        }
        (self.pace / 2).max(1) + 2
    }

    fn cubic_pace(&mut self, kernel: Kernel, now: Instant, cwnd: u32, credit: u32) -> u32 {
        let window = f64::from(cwnd);
        if self.epoch == Instant::FAR_FUTURE {
            self.begin_epoch(kernel, now, cwnd, credit);
        }
        let t = (now + Duration::from_nanos(self.min_rtt)).since(self.epoch);
        let t = nanos(t) as f64 / 1e9;
        let target = self.w_cubic(kernel, t);
        let mut pace = if target > window { window / (target - window) } else { 100.0 * window };
        if kernel == Kernel::Shadow {
            // Beyond the plateau, at most 20 segments per second, before the count is halved.
            if t >= self.k {
                pace = pace.max(window / (20.0 * self.min_rtt as f64 / 1e9));
            }
        } else if self.last_max == 0.0 {
            pace = pace.min(20.0);
        }
        pace as u32
    }

    /// The number of acknowledged segments that increase the window by one while Reno's window is larger (RFC 9438
    /// §4.3).
    fn reno_pace(&mut self, kernel: Kernel, cwnd: u32) -> u32 {
        // Reno with CUBIC's β adds 3(1 − β)/(1 + β) segments for each window; Linux uses 8/15.
        let each = (cwnd * beta(kernel).1) >> 3;
        while self.reno_count > each {
            self.reno_count -= each.max(1);
            self.reno += 1;
        }
        match self.reno.checked_sub(cwnd) {
            None | Some(0) => u32::MAX,
            Some(ahead) => cwnd / ahead,
        }
    }

    /// The window after a loss [segments].
    pub(super) fn ssthresh(&mut self, kernel: Kernel, cwnd: u32) -> u32 {
        let (window, (beta, _)) = (f64::from(cwnd), beta(kernel));
        self.epoch = Instant::FAR_FUTURE;
        // Fast convergence: if a loss occurs below the last maximum, the maximum is reduced further.
        let gives_way = window < self.last_max;
        self.last_max = if gives_way { window * (1.0 + beta) / 2.0 } else { window };
        ((window * beta) as u32).max(if kernel == Kernel::Shadow { 1 } else { 2 })
    }

    pub(super) fn reset(&mut self) {
        let mut hystart = std::mem::take(&mut self.hystart);
        hystart.reset();
        *self = Cubic { min_rtt: self.min_rtt, ratio: self.ratio, hystart, ..Cubic::default() };
    }

    /// Excludes the application's idle time from the growth of the window.
    pub(super) fn on_idle(&mut self, idle: Duration) {
        if self.epoch != Instant::FAR_FUTURE {
            self.epoch += idle;
        }
    }

    fn begin_epoch(&mut self, kernel: Kernel, now: Instant, cwnd: u32, credit: u32) {
        let window = f64::from(cwnd);
        self.epoch = now;
        (self.reno, self.reno_count) = (cwnd, credit);
        self.origin = window.max(self.last_max);
        self.k = math::cbrt((self.origin - window) / coefficient(kernel));
    }

    /// The window [segments] at `t` seconds after the epoch. As in Linux and ns-3, the distance from the plateau is
    /// rounded to whole segments.
    fn w_cubic(&self, kernel: Kernel, t: f64) -> f64 {
        let x = t - self.k;
        self.origin + (coefficient(kernel) * x * x * x).trunc()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window after each round trip of 100 ms, after a loss at `cwnd`.
    fn epoch_after_loss_at(cwnd: u32, rounds: u64) -> Vec<u32> {
        let mut cubic = Cubic::default();
        cubic.on_rtt(Kernel::Linux6, Instant::ZERO, Duration::from_millis(100));
        let (mut window, mut count) = (cubic.ssthresh(Kernel::Linux6, cwnd), 0);
        let mut trace = vec![window];
        for round in 0..rounds {
            let acks = window;
            for acked in 0..acks {
                let now = Instant::from_millis(round * 100) + Duration::from_micros(u64::from(acked) * 10);
                let per_increase = cubic.credit_per_increase(Kernel::Linux6, now, window, 1);
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
    fn a_loss_reduces_the_window_to_seven_tenths() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.ssthresh(Kernel::Linux6, 1000), 700);
        assert_eq!(cubic.ssthresh(Kernel::Linux6, 2), 2);
    }

    #[test]
    fn a_loss_below_the_last_maximum_lowers_it_further() {
        let mut cubic = Cubic::default();
        cubic.ssthresh(Kernel::Linux6, 1000);
        assert_eq!(cubic.last_max, 1000.0);
        cubic.ssthresh(Kernel::Linux6, 800);
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
    fn the_period_between_losses_matches_the_closed_form() {
        // From β·W to W again takes K = cbrt(W(1 − β)/C).
        for w_max in [200u32, 500, 2000] {
            let k = math::cbrt(f64::from(w_max) * 0.3 / 0.4);
            let trace = epoch_after_loss_at(w_max, (k * 15.0) as u64);
            // The middle of the plateau, which is whole segments wide.
            let first =
                |hit: &dyn Fn(u32) -> bool| trace.iter().position(|window| hit(*window)).unwrap() as f64;
            let middle = (first(&|window| window >= w_max) + first(&|window| window > w_max)) / 20.0;
            assert!((middle / k - 1.0).abs() < 0.15, "W {w_max}: {middle} s, K = {k} s");
        }
    }

    #[test]
    fn a_small_window_grows_at_least_as_fast_as_reno() {
        let trace = epoch_after_loss_at(20, 40);
        // Reno with α = 0.529 regains 6 segments in 11 round trips; K would take 25.
        assert!(trace[14] >= 20, "{trace:?}");
    }

    #[test]
    fn idle_time_does_not_advance_cubic() {
        let mut cubic = Cubic::default();
        cubic.ssthresh(Kernel::Linux6, 1000);
        let before = cubic.credit_per_increase(Kernel::Linux6, Instant::ZERO, 700, 1);
        cubic.on_idle(Duration::from_secs(60));
        let after = cubic.credit_per_increase(Kernel::Linux6, Instant::from_secs(60), 700, 1);
        assert_eq!(before, after);
    }
}
