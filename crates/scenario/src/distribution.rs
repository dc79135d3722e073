//! Random sizes and durations, each drawn from a distribution.

use penstock_units::parse::show_duration;
use penstock_units::time::nanos;
use penstock_units::{Bytes, Duration, Rng, math};
use std::fmt;
use std::sync::Arc;

/// The longest duration, so that sums of many stay far from the largest integer.
pub const LONGEST: Duration = Duration::from_secs(100_000 * 3600);

/// A distribution by its quantiles, at equal steps of probability from the smallest value to the largest.
///
/// It is linear between two quantiles. There are at least two values, and none is below the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles(Arc<[u64]>);

impl Quantiles {
    /// A distribution with these quantiles; `None` if there are fewer than two, or one is below the one before.
    pub fn new(values: Vec<u64>) -> Option<Self> {
        (values.len() >= 2 && values.is_sorted()).then(|| Quantiles(values.into()))
    }

    /// Always this value.
    pub(crate) fn constant(value: u64) -> Self {
        Quantiles([value, value].into())
    }

    /// The quantile of the probability `place`, in `[0, 1)`.
    pub fn at(&self, place: f64) -> u64 {
        let steps = (self.0.len() - 1) as f64;
        let step = (place * steps) as usize;
        let [low, high] = [self.0[step], self.0[(step + 1).min(self.0.len() - 1)]];
        low + ((high - low) as f64 * (place * steps - step as f64)) as u64
    }

    /// The mean.
    pub fn mean(&self) -> u64 {
        let steps = (self.0.len() - 1) as u128;
        let twice: u128 = self.0.windows(2).map(|pair| u128::from(pair[0]) + u128::from(pair[1])).sum();
        // No mean is above the largest value.
        (twice / (2 * steps)) as u64
    }

    /// The smallest and the largest value.
    pub fn ends(&self) -> [u64; 2] {
        [self.0[0], self.0[self.0.len() - 1]]
    }

    /// `quantiles(...)` of the values, each as `show` prints it.
    pub(crate) fn print(&self, show: impl Fn(u64) -> String) -> String {
        let values: Vec<String> = self.0.iter().map(|value| show(*value)).collect();
        format!("quantiles({})", values.join(", "))
    }
}

/// The distribution of a size.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// Always the same [B].
    Fixed(Bytes),
    /// Uniform from the first to the second, both included [B].
    Uniform(Bytes, Bytes),
    /// By its quantiles [B].
    Quantiles(Quantiles),
    /// One of several sizes.
    Mix(Mix),
}

impl Amount {
    /// Draws one size.
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Uniform(low, high) => Bytes::new(rng.between(low.get(), high.get())),
            Amount::Quantiles(sizes) => Bytes::new(sizes.at(rng.unit())),
            Amount::Mix(mix) => mix.draw(rng),
        }
    }

    /// The mean, rounded down [B].
    pub fn mean(&self) -> Bytes {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Uniform(low, high) => Bytes::new(low.get() + (high.get() - low.get()) / 2),
            Amount::Quantiles(sizes) => Bytes::new(sizes.mean()),
            Amount::Mix(mix) => mix.mean(),
        }
    }
}

/// As a scenario writes it.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Fixed(size) => write!(f, "{size}"),
            Amount::Uniform(low, high) => write!(f, "uniform({low}, {high})"),
            Amount::Quantiles(sizes) => f.write_str(&sizes.print(|size| Bytes::new(size).to_string())),
            Amount::Mix(Mix(parts)) => {
                let part = |(weight, size): &(f64, Bytes)| format!("{weight:?}: {size}");
                write!(f, "mix({})", parts.iter().map(part).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Several sizes, each with the weight with which it is drawn; all weights are above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Arc<[(f64, Bytes)]>);

impl Mix {
    /// A mix of these parts; `None` if there are none, or a weight is not above zero.
    pub fn new(parts: Vec<(f64, Bytes)>) -> Option<Self> {
        let right = |weight: f64| weight > 0.0 && weight.is_finite();
        (!parts.is_empty() && parts.iter().all(|(weight, _)| right(*weight))).then(|| Mix(parts.into()))
    }

    /// Each size with its share of all draws, in `(0, 1]`.
    pub fn shares(&self) -> impl Iterator<Item = (f64, Bytes)> {
        let total = self.total();
        self.0.iter().map(move |(weight, size)| (weight / total, *size))
    }

    fn total(&self) -> f64 {
        self.0.iter().map(|(weight, _)| weight).sum()
    }

    fn draw(&self, rng: &mut Rng) -> Bytes {
        let mut left = rng.unit() * self.total();
        let found = self.0.iter().find(|(weight, _)| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little of the sum: it belongs to the last part.
        found.unwrap_or(&self.0[self.0.len() - 1]).1
    }

    fn mean(&self) -> Bytes {
        Bytes::new(self.shares().map(|(share, size)| share * size.get() as f64).sum::<f64>() as u64)
    }
}

/// The distribution of a duration.
#[derive(Clone, Debug, PartialEq)]
pub enum Span {
    /// Always the same.
    Fixed(Duration),
    /// Uniform from the first to the second, both included, in whole nanoseconds.
    Uniform(Duration, Duration),
    /// Log-normal: the median, the standard deviation of the logarithm, and a maximum.
    LogNormal(Duration, f64, Duration),
    /// By its quantiles [ns].
    Quantiles(Quantiles),
    /// Exponential, with this mean.
    Exponential(Duration),
    /// Normal, with this mean and standard deviation; negative values become zero.
    Normal(Duration, Duration),
    /// Pareto: the minimum, and the exponent with which the tail falls, above zero.
    Pareto(Duration, f64),
}

/// So many nanoseconds, from zero to the longest duration.
fn capped(nanos: f64) -> Duration {
    Duration::from_nanos(nanos as u64).min(LONGEST)
}

impl Span {
    /// Draws one duration.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        match self {
            Span::Fixed(span) => *span,
            Span::Uniform(low, high) => Duration::from_nanos(rng.between(nanos(*low), nanos(*high))),
            Span::LogNormal(median, sigma, most) => {
                let factor = math::exp(sigma * rng.normal());
                // The cast saturates far above any duration that a scenario may have.
                Duration::from_nanos((nanos(*median) as f64 * factor) as u64).min(*most)
            }
            Span::Quantiles(spans) => Duration::from_nanos(spans.at(rng.unit())),
            // `1 - unit` lies in (0, 1]; a value that is negative or too large saturates.
            Span::Exponential(mean) => capped(-math::ln(1.0 - rng.unit()) * nanos(*mean) as f64),
            Span::Normal(mean, deviation) => {
                capped(nanos(*mean) as f64 + nanos(*deviation) as f64 * rng.normal())
            }
            Span::Pareto(least, shape) => {
                capped(nanos(*least) as f64 * math::pow(1.0 - rng.unit(), -1.0 / shape))
            }
        }
    }

    /// Whether it is always zero.
    pub fn is_zero(&self) -> bool {
        match self {
            Span::Fixed(most) | Span::Uniform(_, most) | Span::Exponential(most) | Span::Pareto(most, _) => {
                most.is_zero()
            }
            Span::Normal(mean, deviation) => mean.is_zero() && deviation.is_zero(),
            Span::LogNormal(median, ..) => median.is_zero(),
            Span::Quantiles(spans) => spans.ends()[1] == 0,
        }
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        match self {
            Span::Fixed(span) => *span,
            Span::Uniform(low, high) => *low + (*high - *low) / 2,
            Span::LogNormal(median, sigma, most) => log_normal_mean(*median, *sigma, *most),
            Span::Quantiles(spans) => Duration::from_nanos(spans.mean()),
            Span::Exponential(mean) | Span::Normal(mean, _) => *mean,
            Span::Pareto(least, shape) if *shape > 1.0 => {
                capped(nanos(*least) as f64 * shape / (shape - 1.0))
            }
            // It has no mean.
            Span::Pareto(..) => LONGEST,
        }
    }
}

/// As a scenario writes it.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |span: &Duration| show_duration(*span);
        match self {
            Span::Fixed(span) => f.write_str(&show(span)),
            Span::Uniform(low, high) => write!(f, "uniform({}, {})", show(low), show(high)),
            Span::LogNormal(median, sigma, most) => {
                write!(f, "lognormal({}, {sigma:?}, {})", show(median), show(most))
            }
            Span::Quantiles(spans) => {
                f.write_str(&spans.print(|nanos| show_duration(Duration::from_nanos(nanos))))
            }
            Span::Exponential(mean) => write!(f, "exponential({})", show(mean)),
            Span::Normal(mean, deviation) => write!(f, "normal({}, {})", show(mean), show(deviation)),
            Span::Pareto(least, shape) => write!(f, "pareto({}, {shape:?})", show(least)),
        }
    }
}

/// The mean of a log-normal distribution that is cut off at `most`.
///
/// Values below the cap add the partial expectation of the log-normal, the others add the cap: with k the place of the
/// cap in standard deviations of the logarithm, m exp(σ²/2) Φ(k - σ) + c (1 - Φ(k)).
///
/// Source: Johnson, Kotz, Balakrishnan: Continuous univariate distributions 1, 1994, chapter 14.
fn log_normal_mean(median: Duration, sigma: f64, most: Duration) -> Duration {
    let [middle, cap] = [median, most].map(|span| span.as_secs_f64());
    if sigma == 0.0 || median.is_zero() || most.is_zero() {
        return median.min(most);
    }
    let place = math::ln(cap / middle) / sigma;
    let below = middle * math::exp(sigma * sigma / 2.0) * math::normal_below(place - sigma);
    // A large deviation makes the first factor infinite and the second zero.
    let below = if below.is_finite() { below } else { 0.0 };
    Duration::from_secs_f64((below + cap * math::normal_below(-place)).min(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_two_values() {
        let quantiles = Quantiles::new(vec![10, 20, 40, 80, 160]).unwrap();
        let at = [0.0, 0.125, 0.25, 0.5, 0.625, 0.999_999_9].map(|place| quantiles.at(place));
        assert_eq!(at, [10, 15, 20, 40, 60, 159]);
        assert_eq!(Quantiles::new(vec![7, 7]).unwrap().at(0.3), 7);
        assert_eq!((quantiles.mean(), quantiles.ends()), (56, [10, 160]));
        assert_eq!(Quantiles::new(vec![1]), None);
        assert_eq!(Quantiles::new(vec![2, 1]), None);
    }
}
