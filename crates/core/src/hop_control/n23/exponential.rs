use penstock_units::{Duration, math};

/// If the delay exceeds the threshold, N3 becomes N3 · e^(−delay / scale), rounded down. Otherwise N3 grows by a step.
///
/// The delay is the recent delay in the connection's output buffer minus the minimum delay. A small delay reduces N3 a
/// little. A large delay removes nearly all of N3 in one period.
///
/// Source: DefenestraTor §4.2 only says that N3 "is reduced when there is downstream congestion" and "can increase
/// again". Deviation: all numbers are Penstock's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialConfig {
    /// Delays up to this value do not count as congestion [ns].
    pub threshold: Duration,
    /// The delay that reduces N3 to N3/e [ns]; above zero.
    pub scale: Duration,
    /// The increase of N3 in a period without congestion [cell].
    pub step: u32,
}

impl Default for ExponentialConfig {
    fn default() -> Self {
        ExponentialConfig { threshold: Duration::from_millis(20), scale: Duration::from_millis(50), step: 1 }
    }
}

impl ExponentialConfig {
    pub(super) fn adjust(&self, n3: u64, delay: Duration) -> u64 {
        if delay <= self.threshold {
            return n3 + u64::from(self.step);
        }
        let left = math::exp(-delay.as_secs_f64() / self.scale.as_secs_f64());
        (n3 as f64 * left) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_above_the_threshold_lowers_n3_and_a_delay_below_adds_a_step() {
        let law = ExponentialConfig::default();
        let after = |millis| law.adjust(500, Duration::from_millis(millis));
        assert_eq!([0, 20].map(after), [501, 501]);
        // 500 e^(-21/50), 500/e and 500/e²
        assert_eq!([21, 50, 100].map(after), [328, 183, 67]);
    }
}
