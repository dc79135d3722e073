//! Probability distributions of sizes and durations.

use penstock_units::parse::show_duration;
use penstock_units::time::nanos;
use penstock_units::{Bytes, Duration, Rng, math};
use std::fmt;
use std::sync::Arc;

/// The longest duration that a scenario may have. Sums of many such durations do not overflow.
pub const LONGEST: Duration = Duration::from_secs(100_000 * 3600);

/// A distribution given by at least two quantiles, in ascending order. They have equal distances in probability, from
/// the minimum to the maximum. Values between two quantiles are interpolated linearly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles(Arc<[u64]>);

impl Quantiles {
    /// A distribution with these quantiles; `None` if there are fewer than two, or if they are not in ascending order.
    pub fn new(values: Vec<u64>) -> Option<Self> {
        (values.len() >= 2 && values.is_sorted()).then(|| Quantiles(values.into()))
    }

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

    /// The mean, rounded down.
    pub fn mean(&self) -> u64 {
        let steps = (self.0.len() - 1) as u128;
        let twice: u128 = self.0.windows(2).map(|pair| u128::from(pair[0]) + u128::from(pair[1])).sum();
        // The mean fits into `u64`, because no mean is above the largest value.
        (twice / (2 * steps)) as u64
    }

    /// The minimum and the maximum.
    pub fn ends(&self) -> [u64; 2] {
        [self.0[0], self.0[self.0.len() - 1]]
    }

    pub(crate) fn print(&self, show: impl Fn(u64) -> String) -> String {
        let values: Vec<String> = self.0.iter().map(|value| show(*value)).collect();
        format!("quantiles({})", values.join(", "))
    }
}

/// The distribution of a size.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// Always this size [B].
    Fixed(Bytes),
    /// Uniform between two sizes, both included [B].
    Uniform(Bytes, Bytes),
    /// Given by quantiles [B].
    Quantiles(Quantiles),
    /// One of several sizes. Each size has a weight.
    Mix(Mix),
}

impl Amount {
    /// Samples one size.
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Uniform(low, high) => Bytes::new(rng.between(low.get(), high.get())),
            Amount::Quantiles(sizes) => Bytes::new(sizes.at(rng.unit())),
            Amount::Mix(mix) => mix.draw(rng),
        }
    }

    /// The mean size, rounded down [B].
    pub fn mean(&self) -> Bytes {
        match self {
            Amount::Fixed(bytes) => *bytes,
            Amount::Uniform(low, high) => Bytes::new(low.get() + (high.get() - low.get()) / 2),
            Amount::Quantiles(sizes) => Bytes::new(sizes.mean()),
            Amount::Mix(mix) => mix.mean(),
        }
    }
}

/// The text that a scenario file has for this distribution.
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

/// Several sizes. The probability of a size is proportional to its weight, which is above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Arc<[(f64, Bytes)]>);

impl Mix {
    /// A mix of `(weight, size)` pairs; `None` if there are no pairs, or if a weight is not above zero.
    pub fn new(parts: Vec<(f64, Bytes)>) -> Option<Self> {
        let right = |weight: f64| weight > 0.0 && weight.is_finite();
        (!parts.is_empty() && parts.iter().all(|(weight, _)| right(*weight))).then(|| Mix(parts.into()))
    }

    /// Each size [B] with its probability, in `(0, 1]`.
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
        // If rounding leaves a small remainder of the sum, the last size is the result.
        found.unwrap_or(&self.0[self.0.len() - 1]).1
    }

    fn mean(&self) -> Bytes {
        Bytes::new(self.shares().map(|(share, size)| share * size.get() as f64).sum::<f64>() as u64)
    }
}

/// The distribution of a duration.
#[derive(Clone, Debug, PartialEq)]
pub enum Span {
    /// Always this duration.
    Fixed(Duration),
    /// Uniform between two durations, both included, in whole nanoseconds.
    Uniform(Duration, Duration),
    /// Log-normal. The values are the median, the standard deviation of the logarithm [1], and the maximum.
    LogNormal(Duration, f64, Duration),
    /// Given by quantiles [ns].
    Quantiles(Quantiles),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Normal with this mean and standard deviation. Negative values become zero.
    Normal(Duration, Duration),
    /// Pareto: the minimum, and the exponent of the tail [1], which is above zero.
    Pareto(Duration, f64),
}

/// A duration of `nanos` [ns], limited to the range from zero to [`LONGEST`].
fn capped(nanos: f64) -> Duration {
    Duration::from_nanos(nanos as u64).min(LONGEST)
}

impl Span {
    /// Samples one duration.
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
            // `1 - unit` is in (0, 1]. A negative or too large value saturates.
            Span::Exponential(mean) => capped(-math::ln(1.0 - rng.unit()) * nanos(*mean) as f64),
            Span::Normal(mean, deviation) => {
                capped(nanos(*mean) as f64 + nanos(*deviation) as f64 * rng.normal())
            }
            Span::Pareto(least, shape) => {
                capped(nanos(*least) as f64 * math::pow(1.0 - rng.unit(), -1.0 / shape))
            }
        }
    }

    /// Whether every sample is zero.
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

    /// The mean duration. For a Pareto distribution, this is [`LONGEST`].
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
            Span::Pareto(..) => LONGEST,
        }
    }
}

/// The text that a scenario file has for this distribution.
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

/// The mean of a log-normal distribution with median m, whose larger values become c (`most`). k is the distance from m
/// to c in standard deviations σ of the logarithm. The mean has two parts: m exp(σ²/2) Φ(k - σ) from values below c,
/// and c (1 - Φ(k)) from all others.
/// Source: Johnson, Kotz, Balakrishnan: Continuous univariate distributions 1, 1994, chapter 14.
fn log_normal_mean(median: Duration, sigma: f64, most: Duration) -> Duration {
    let [middle, cap] = [median, most].map(|span| span.as_secs_f64());
    if sigma == 0.0 || median.is_zero() || most.is_zero() {
        return median.min(most);
    }
    let place = math::ln(cap / middle) / sigma;
    let below = middle * math::exp(sigma * sigma / 2.0) * math::normal_below(place - sigma);
    // With a large deviation, the first factor is infinite and the second factor is zero.
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
