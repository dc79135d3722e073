//! Measures the lateness of packets, which is the delay after the planned arrival at the kernel. A run with late
//! packets is invalid.

use penstock_units::Duration;

/// Number of bins of one microsecond [bin]. The last bin also counts all later packets.
const BINS: usize = 50_000;

/// Histogram of lateness with bins of one microsecond, and the exact maximum.
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
    /// Adds a packet with this lateness.
    pub fn add(&mut self, late: Duration) {
        self.bins[(late.as_micros() as usize).min(BINS - 1)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Maximum lateness.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The lateness that the fraction `part` of packets does not exceed, rounded up to 1 us; zero without packets.
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
    fn quantiles_are_upper_bounds() {
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
