"""Statistics against values from tables and against SciPy (G-71)."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from penstock import stats


def test_the_share_of_quantiles_below_counts_percentiles() -> None:
    a = np.linspace(0, 1, 1001)
    # Shifted by 0.3 beyond the 70th percentile, and the other way before it.
    b = np.where(a > 0.7005, a + 0.3, a - 0.3)
    assert stats.quantiles_below(a, b) == pytest.approx(29 / 99)
    assert stats.quantiles_below(b, a) == pytest.approx(70 / 99)
    assert stats.quantiles_below(a, a) == 0.0
    assert math.isnan(stats.quantiles_below(a, []))


def test_quantiles_are_those_of_type_7() -> None:
    # R 4.3: quantile(c(1, 3, 4, 8), c(0, .1, .5, .9, 1), type = 7)
    expected = {0.0: 1.0, 0.1: 1.6, 0.5: 3.5, 0.9: 6.8, 1.0: 8.0}
    for q, value in expected.items():
        assert stats.quantile([8, 1, 4, 3], q) == pytest.approx(value)
    assert math.isnan(stats.quantile([], 0.5))


def test_the_distribution_function_counts_ties_once() -> None:
    curve = stats.curve([[[2.0, 1.0, 2.0, 4.0]]], 3)
    assert curve.x.tolist() == [1.0, 2.0, 4.0]
    assert curve.y.tolist() == [0.25, 0.75, 1.0]
    assert stats.curve([], 3).x.size == 0


def test_the_distance_is_that_between_the_curves() -> None:
    assert stats.ks_distance([1, 2, 3], [1, 2, 3]) == 0
    assert stats.ks_distance([1, 2], [3, 4]) == 1
    assert stats.ks_distance([1, 2, 3, 4], [3, 4, 5, 6]) == 0.5
    assert math.isnan(stats.ks_distance([], [1]))


def test_the_distance_of_equal_distributions_stays_below_its_critical_value() -> None:
    rng = np.random.default_rng(1)
    n = 200
    distances = [stats.ks_distance(rng.normal(size=n), rng.normal(size=n)) for _ in range(200)]
    beyond = np.mean(np.array(distances) > 1.36 * math.sqrt(2 / n))
    assert beyond < 0.1


def test_the_paired_interval_is_the_textbook_one() -> None:
    differences = np.array([-3.1, -2.7, -3.4, -2.9, -3.0])
    paired = stats.paired(np.array([5.0, 4.8, 5.2, 4.9, 5.1]), np.array([5.0, 4.8, 5.2, 4.9, 5.1]) + differences)
    # Student's t for 4 degrees of freedom, two-sided 95 %: 2.776445.
    half = 2.776445 * differences.std(ddof=1) / math.sqrt(5)
    assert paired.mean == pytest.approx(differences.mean())
    assert (paired.low, paired.high) == pytest.approx((differences.mean() - half, differences.mean() + half), rel=1e-6)
    assert paired.decided
    assert (paired.negative, paired.positive) == (5, 0)


def test_the_paired_interval_agrees_with_scipy() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.gamma(3, size=12), rng.gamma(4, size=12)
    reference = scipy_stats.ttest_rel(b, a).confidence_interval()
    paired = stats.paired(a, b)
    assert (paired.low, paired.high) == pytest.approx((reference.low, reference.high))


def test_intervals_and_distances_agree_with_scipy() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.gamma(3, size=12), rng.gamma(4, size=7)
    reference = scipy_stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert stats.welch(a, b)[1:] == pytest.approx((reference.low, reference.high))
    mean = scipy_stats.ttest_1samp(a, 0.0).confidence_interval(0.9)
    assert stats.mean_interval(a, 0.9)[1:] == pytest.approx((mean.low, mean.high))
    ties = np.round(a, 1), np.round(b, 1)
    for pair in ((a, b), ties):
        assert stats.ks_distance(*pair) == pytest.approx(scipy_stats.ks_2samp(*pair).statistic)
    for untied, larger in ((1, 1), (7, 5), (40, 21)):
        paired = stats.Paired(untied, 0.0, 0.0, 0.0, larger, untied - larger)
        assert paired.sign_test == pytest.approx(scipy_stats.binomtest(larger, untied, alternative="greater").pvalue)


def test_five_pairs_give_a_sign_test_of_one_in_32_and_never_less() -> None:
    paired = stats.paired([1, 1, 1, 1, 1], [2, 3, 4, 5, 6])
    assert paired.sign_test == pytest.approx(1 / 32)


def test_one_pair_has_a_difference_and_no_interval() -> None:
    paired = stats.paired([4.0], [1.0])
    assert paired.mean == -3.0
    assert math.isnan(paired.low)
    assert not paired.decided


def test_equal_differences_have_an_interval_of_no_width() -> None:
    paired = stats.paired([1.0, 2.0], [2.0, 3.0])
    assert (paired.low, paired.high) == (1.0, 1.0)


def test_no_pairs_have_nothing() -> None:
    paired = stats.paired([], [])
    assert paired.pairs == 0
    assert math.isnan(paired.mean)
    assert math.isnan(paired.sign_test)
    with pytest.raises(ValueError, match="one length"):
        stats.paired([1], [1, 2])
