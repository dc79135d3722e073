//! The lateness of packets. A run with late packets is void.

use penstock_units::Duration;

/// Bins of one microsecond; the last one has all later packets [bin].
const BINS: usize = 50_000;

/// A histogram of delays in microseconds, with the exact maximum.
#[derive(Clone, Debug)]
pub struct Lateness {
    bins: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { bins: vec![0; BINS], count: 0, max: Duration::ZERO }
    }
}

impl Lateness {
    /// Counts a packet that was this late.
    pub fn add(&mut self, late: Duration) {
        self.bins[(late.as_micros() as usize).min(BINS - 1)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// The highest lateness.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// An upper bound for the lateness of `part` of all packets, rounded up to a microsecond; zero without packets.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (part * self.count as f64).ceil() as u64;
        let mut sum = 0;
        for (micros, count) in self.bins.iter().enumerate() {
            sum += count;
            if sum >= wanted && sum > 0 {
                let last = micros == BINS - 1;
                return if last { self.max } else { Duration::from_micros(micros as u64 + 1).min(self.max) };
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_bound_what_they_name() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.99), Duration::ZERO);
        for micros in 0..1000 {
            lateness.add(Duration::from_micros(micros));
        }
        assert_eq!(lateness.quantile(0.99), Duration::from_micros(990));
        assert_eq!(lateness.quantile(1.0), Duration::from_micros(999));
        lateness.add(Duration::from_secs(3));
        assert_eq!(
            (lateness.max(), lateness.quantile(1.0)),
            (Duration::from_secs(3), Duration::from_secs(3))
        );
    }
}
