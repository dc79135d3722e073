"""Statistics of samples: distributions, quantiles, and differences of paired runs.

Downloads of one run are not independent of each other, because they share queues. Intervals and verdicts therefore use
one number per run, or per network (`penstock.replicates`). Statistics of pooled downloads, such as the distribution
function and the Kolmogorov-Smirnov distance, only describe.

The distributions are those of scipy.special, because the import of scipy.stats takes longer than a table of results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Sample = Sequence[float] | NDArray[np.float64]


def quantile(sample: Sample, q: float) -> float:
    """The quantile `q` in [0, 1], interpolated between order statistics (Hyndman and Fan's type 7); NaN if empty."""
    values = np.asarray(sample, dtype=np.float64)
    return float(np.quantile(values, q)) if values.size else float("nan")


def mean(sample: Sample) -> float:
    """The mean; NaN if empty."""
    return float(np.mean(sample)) if len(sample) else float("nan")


@dataclass(frozen=True)
class Curve:
    """A distribution function, averaged over independent replicates, and its band."""

    x: NDArray[np.float64]
    """The values at which the curve steps."""
    y: NDArray[np.float64]
    """The mean of the replicates' functions from each x to the next."""
    low: NDArray[np.float64]
    """The lower end of the pointwise t interval of y, in [0, 1]; empty without a band."""
    high: NDArray[np.float64]


def curve(replicates: Sequence[Sequence[Sample]], band_from: int, confidence: float = 0.95) -> Curve:
    """The mean of the replicates' distribution functions; a replicate's function is the mean over its runs.

    With at least `band_from` replicates there is a band. At each single value, the band contains the true mean with the
    probability `confidence`.
    """
    samples = [
        [np.sort(np.asarray(run, dtype=np.float64)) for run in replicate if len(run)] for replicate in replicates
    ]
    samples = [replicate for replicate in samples if replicate]
    nothing = np.empty(0)
    if not samples:
        return Curve(nothing, nothing, nothing, nothing)
    x = np.unique(np.concatenate([run for replicate in samples for run in replicate]))
    functions = ([np.searchsorted(run, x, "right") / run.size for run in replicate] for replicate in samples)
    each = np.array([np.mean(of_replicate, axis=0) for of_replicate in functions])
    y = each.mean(axis=0)
    if len(samples) < max(band_from, 2):
        return Curve(x, y, nothing, nothing)
    half = t_reach(len(samples), confidence) * each.std(axis=0, ddof=1)
    return Curve(x, y, np.clip(y - half, 0.0, 1.0), np.clip(y + half, 0.0, 1.0))


def t_reach(n: int, confidence: float = 0.95) -> float:
    """Half the width of the t interval of a mean of n values [standard deviation of the values]."""
    return _t_quantile(n - 1, confidence) / math.sqrt(n)


def _t_quantile(freedom: float, confidence: float) -> float:
    """Half the width of the interval around zero with this probability of Student's t distribution."""
    return float(special.stdtrit(freedom, 0.5 + confidence / 2))


def ks_distance(a: Sample, b: Sample) -> float:
    """The largest vertical distance between two distribution functions, in [0, 1]; NaN if one is empty."""
    if len(a) == 0 or len(b) == 0:
        return float("nan")
    first, second = (np.sort(np.asarray(each, dtype=np.float64)) for each in (a, b))
    x = np.concatenate([first, second])
    of_first, of_second = (np.searchsorted(each, x, "right") / each.size for each in (first, second))
    return float(np.abs(of_first - of_second).max())


def ks_limit(n: int, m: int) -> float:
    """The Kolmogorov-Smirnov distance above which samples of n and m independent values differ at 5 %.

    Source: Smirnov's asymptotic value, 1.358 sqrt((n + m) / (n m)).
    """
    return 1.358 * math.sqrt((n + m) / (n * m))


def quantiles_below(a: Sample, b: Sample) -> float:
    """The share of the percentiles 1 to 99 that are lower in `a` than in `b`; NaN if one sample is empty."""
    if len(a) == 0 or len(b) == 0:
        return float("nan")
    percentiles = np.arange(1, 100) / 100
    first, second = (np.quantile(np.asarray(each, dtype=np.float64), percentiles) for each in (a, b))
    return float(np.mean(first < second))


@dataclass(frozen=True)
class Paired:
    """The differences `other - baseline` of pairs of runs or networks."""

    pairs: int
    mean: float
    """The mean of the differences, in the unit of the samples; NaN without pairs."""
    low: float
    """The lower end of the 95 % t interval of the mean; NaN with fewer than two pairs."""
    high: float
    negative: int
    """The number of pairs with a smaller `other`."""
    positive: int
    """The number of pairs with a larger `other`."""

    @property
    def decided(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    @property
    def sign_test(self) -> float:
        """The one-sided p-value of a sign test, in the direction of most pairs.

        Pairs without a difference do not count.
        """
        untied = self.negative + self.positive
        if untied == 0:
            return float("nan")
        larger = max(self.negative, self.positive)
        return float(special.bdtrc(larger - 1, untied, 0.5))


def paired(baseline: Sample, other: Sample, confidence: float = 0.95) -> Paired:
    """Compare two samples of one number per run or network, paired by position."""
    first, second = np.asarray(baseline, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"paired samples have one length, not {first.size} and {second.size}")
    differences = second - first
    pairs = int(differences.size)
    centre, low, high = mean_interval(differences, confidence)
    return Paired(pairs, centre, low, high, int((differences < 0).sum()), int((differences > 0).sum()))


def welch(baseline: Sample, other: Sample, confidence: float = 0.95) -> tuple[float, float, float]:
    """The difference other - baseline of two means, and both ends of its t interval.

    The samples are independent and have one number per run or network. Their variances may differ. The ends are NaN if
    a sample has fewer than two values.

    Source: Welch, The generalization of Student's problem when several different population variances are involved,
    Biometrika 34, 1947 (the degrees of freedom).
    """
    first, second = np.asarray(baseline, dtype=np.float64), np.asarray(other, dtype=np.float64)
    centre = mean(second) - mean(first)
    if min(first.size, second.size) < 2:
        return centre, float("nan"), float("nan")
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return centre, centre, centre
    of_first, of_second = (float(each.var(ddof=1)) / each.size for each in (first, second))
    variance = of_first + of_second
    freedom = variance**2 / (of_first**2 / (first.size - 1) + of_second**2 / (second.size - 1))
    half = _t_quantile(freedom, confidence) * math.sqrt(variance)
    return centre, centre - half, centre + half


def mean_interval(sample: Sample, confidence: float = 0.95) -> tuple[float, float, float]:
    """The mean and both ends of its t interval; NaN for the ends if there are fewer than two values."""
    values = np.asarray(sample, dtype=np.float64)
    centre = mean(values)
    if values.size < 2:
        return centre, float("nan"), float("nan")
    if np.ptp(values) == 0:
        return centre, centre, centre
    half = t_reach(values.size, confidence) * float(values.std(ddof=1))
    return centre, centre - half, centre + half
