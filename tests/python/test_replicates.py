"""Networks and seeds as replicates, in tables, intervals, bands, sweeps and warnings."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from penstock import figures, report, stats, summary, tables
from penstock.figures.downloads import curve_of, how_drawn, right_edge
from penstock.figures.style import curve_styles
from penstock.replicates import Replicates, first_run
from penstock.result import Result


def values(*rows: tuple[str, int, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"network": pl.String, "seed": pl.UInt64, "value": pl.Float64}, orient="row")


def untraced(directory: Path) -> Path:
    """Draw only one figure, because reports take most of the time."""
    for table in ("circuits", "cells"):
        path = directory / f"{table}.parquet"
        pl.read_parquet(path).clear().write_parquet(path)
    return directory


def test_seeds_are_units_where_networks_have_no_names_or_there_is_one() -> None:
    for network, alone in (("", False), ("7", True)):
        replicates = Replicates.of((network, seed) for seed in (3, 1, 2))
        assert (replicates.name(), replicates.size, replicates.of_one_network) == ("seed", 3, alone)
        rows = values((network, 2, 5.0), (network, 1, 1.0))
        assert replicates.average(rows)["value"].to_list() == [1.0, 5.0]


def test_a_network_counts_once_however_many_seeds_it_has() -> None:
    rows = values(("10", 1, 4.0), ("2", 1, 1.0), ("2", 2, 2.0), ("2", 3, 6.0))
    replicates = Replicates.in_rows(rows)
    assert (replicates.name(2), replicates.size, replicates.networks, replicates.seeds) == (
        "networks",
        2,
        ("2", "10"),
        3,
    )
    assert replicates.average(rows)["value"].to_list() == [3.0, 4.0]
    assert replicates.count(rows) == 2
    assert replicates.count(rows.filter(network="2")) == 1
    samples = replicates.samples(rows, "value")
    assert [[run.tolist() for run in replicate] for replicate in samples] == [[[4.0]], [[1.0], [2.0], [6.0]]]


def test_a_network_without_numbers_does_not_make_seeds_of_the_other_independent() -> None:
    replicates = Replicates.of([("1", 1), ("1", 2), ("2", 1), ("2", 2)])
    assert replicates.average(values(("1", 1, 1.0), ("1", 2, 3.0)))["value"].to_list() == [2.0]


def test_the_first_run_is_one_run() -> None:
    rows = values(("2", 1, 1.0), ("1", 2, 2.0), ("1", 1, 3.0), ("1", 1, 4.0))
    assert first_run(rows)["value"].to_list() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("runs", "counts", "said"),
    [
        ([("", 1)], [1], "One seed gives no interval; use --runs 5."),
        ([("1", 1)], [1], "One seed gives no interval; use --networks 5."),
        ([("1", 1), ("2", 1), ("2", 2)], [1], "One network gives no interval; use --networks 5."),
        ([("", seed) for seed in range(5)], [5], ""),
        ([(str(n), 1) for n in range(5)], [5, 5], ""),
        (
            [("1", seed) for seed in range(5)],
            [5],
            "All seeds use one network, so the results apply to that network only",
        ),
        (
            [("", 1), ("", 2)],
            [2],
            "With 2 seeds only very large differences (9.0 standard deviations) are significant; use --runs 5",
        ),
        (
            [(str(n), 1) for n in range(3)],
            [3],
            "With 3 networks only very large differences (2.5 standard deviations) are",
        ),
        ([(str(n), 1) for n in range(3)], [3], "are significant; use --networks 5 or more."),
    ],
)
def test_few_replicates_give_a_warning(runs: list[tuple[str, int]], counts: list[int], said: str) -> None:
    warning = Replicates.of(runs).warning(counts)
    assert (said in warning) if said else not warning


def test_a_difference_is_significant_from_the_number_of_standard_deviations_in_the_warning() -> None:
    spread = np.array([-1.0, 0.0, 1.0])  # of standard deviation 1
    for factor, decided in ((1.01, True), (0.99, False)):
        assert stats.paired([0.0] * 3, spread + factor * stats.t_reach(3)).decided is decided
    # Student's t for 2 degrees of freedom, two-sided 95 %: 4.302653.
    assert stats.t_reach(3) == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


def test_a_curve_is_the_mean_of_the_units_functions_with_the_t_interval_of_that_mean() -> None:
    replicates = [[[1.0, 2.0]], [[1.0, 1.0], [2.0, 3.0]], [[2.0, 2.0]]]
    curve = stats.curve(replicates, band_from=3)
    assert curve.x.tolist() == [1.0, 2.0, 3.0]
    assert curve.y == pytest.approx([1 / 3, (1 + 0.75 + 1) / 3, 1.0])
    half = stats.t_reach(3) * np.std([0.5, 0.5, 0.0], ddof=1)
    assert (curve.low[0], curve.high[0]) == pytest.approx((max(1 / 3 - half, 0), min(1 / 3 + half, 1)))
    assert (curve.low[2], curve.high[2]) == (1.0, 1.0)
    assert stats.curve(replicates[:2], band_from=3).low.size == 0
    assert stats.curve([[], [[]]], band_from=3).x.size == 0


def test_a_band_covers_the_truth_at_its_nominal_rate() -> None:
    rng = np.random.default_rng(3)
    held = []
    for _ in range(400):
        # Each network has a mean of its own; half of all downloads anywhere take at most 10 s.
        replicates = [[rng.normal(rng.normal(10, 1), 2, size=40)] for _ in range(5)]
        curve = stats.curve(replicates, band_from=3)
        at = int(np.searchsorted(curve.x, 10.0, side="right")) - 1
        held.append(bool(curve.low[at] <= 0.5 <= curve.high[at]))
    assert 0.91 < np.mean(held) < 0.99


def test_differences_are_paired_by_network(make_up: Callable[..., Path]) -> None:
    result = Result(make_up(seeds=2, networks=3))
    row = result.differences().row(
        by_predicate=(pl.col("workload") == "web") & (pl.col("metric") == "ttfb_s"), named=True
    )
    downloads = result.transfers.filter(workload="web", outcome="ok", warmup=False)
    medians = downloads.group_by("variant", "network", "seed").agg(pl.col("ttfb_s").median())
    means = medians.group_by("variant", "network").agg(pl.col("ttfb_s").mean())
    wide = means.sort("network").pivot("variant", values="ttfb_s")
    reference = stats.paired(wide["stock"].to_numpy(), wide["small"].to_numpy())
    assert (row["pairs"], row["mean_s"], row["low_s"]) == pytest.approx((3, reference.mean, reference.low))
    assert row["sign_test"] == pytest.approx(1 / 8)


def test_a_network_is_averaged_over_the_seeds_that_both_variants_have(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=2, networks=3)
    path = directory / "transfers.parquet"
    lost = (pl.col("variant") == "small") & (pl.col("network") == "2") & (pl.col("seed") == 2)
    alone = (pl.col("network") == "2") & (pl.col("seed") == 2)
    whole = pl.read_parquet(path)
    whole.filter(~lost).write_parquet(path)
    with_one_lost = Result(directory).differences().drop("ks_distance")
    whole.filter(~alone).write_parquet(path)
    assert with_one_lost.equals(Result(directory).differences().drop("ks_distance"))
    assert with_one_lost["pairs"].unique().to_list() == [3]


def test_the_report_and_the_terminal_name_the_replicates(
    make_up: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(untraced(make_up(seeds=2, networks=3)))
    tables.show(result, "", tables.console())
    printed = capsys.readouterr().out
    assert "Runs in the same network are paired. A network's median, or 90th percentile, is the mean" in printed
    assert "With 3 networks only" in printed
    page = " ".join(report.render([result]).split())
    for words in (
        "3 networks, 2 seeds, penstock",
        "networks below, above",
        "With 3 pairs, its smallest possible p is 1/8",
        '<p class="warning">With 3 networks only',
        "<dt>networks</dt><dd>1, 2, 3</dd>",
        "each seed of a network. Bands are 95 % t intervals over 3 networks at each point of a curve.",
    ):
        assert words in page, words


def test_the_terminal_says_that_set_changes_the_baseline_too(
    make_up: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(untraced(make_up(seeds=2)))
    tables.show(result, "", tables.console())
    assert "--set" not in capsys.readouterr().out
    result.scenario["sets"] = ["relay.scheduler=kist", "run.duration=10 s"]
    tables.show(result, "", tables.console())
    first = next(iter(result.variants.values()))
    remark = f"--set changes all variants, also {first}, but not their labels: relay.scheduler=kist, run.duration=10 s."
    assert remark in capsys.readouterr().out


def test_the_terminal_says_that_set_keeps_the_label_of_one_variant(
    make_up: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(untraced(make_up(seeds=2, variants=("stock",))))
    result.scenario["variants"] = result.scenario["variants"][:1]
    result.scenario["sets"] = ["relay.circuit_policy.half_life=5 s"]
    tables.show(result, "", tables.console())
    remark = "--set changes the variant, but not its label: relay.circuit_policy.half_life=5 s."
    assert remark in capsys.readouterr().out


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (-0.16, -0.041, "-0.16 to -0.04 s"),
        (-0.1634, -0.0012, "-0.163 to -0.001 s"),
        (0.00004, 1.5, "+0.00004 to +1.50000 s"),
        (-0.39, 0.0, "-0.39 to +0.00 s"),
        (-1e-12, 0.5, "-0.00 to +0.50 s"),
        (math.nan, math.nan, "-"),
    ],
)
def test_an_interval_shows_on_which_side_of_zero_it_ends(low: float, high: float, shown: str) -> None:
    assert tables.between(low, high) == shown


def test_one_network_with_several_seeds_is_called_one(make_up: Callable[..., Path]) -> None:
    page = " ".join(report.render([Result(untraced(make_up(seeds=5, networks=1)))]).split())
    assert "1 network, 5 seeds, penstock" in page
    assert "All seeds use one network" in page
    assert "very large differences" not in page


def test_figures_of_networks_are_drawn_and_a_trace_is_that_of_one_run(make_up: Callable[..., Path]) -> None:
    drawn = figures.draw(Result(make_up(seeds=1, networks=3)))
    assert {"downloads", "circuit-queue", "queue-delay", "stations", "waits", "life-cycle"} == {p.name for p in drawn}


def test_an_axis_ends_where_the_slowest_curve_has_most_of_its_downloads() -> None:
    slow, fast = (curve_of([[np.arange(1.0, 101.0) * scale]]) for scale in (2.0, 1.0))
    style = curve_styles({"a": "a", "b": "b"})
    assert right_edge({style["a"]: slow, style["b"]: fast}, 0.99) == pytest.approx(1.04 * 198)
    assert right_edge({style["a"]: curve_of([])}, 0.99) == 1.04
    assert "band" not in how_drawn(Replicates.of([("", 1), ("", 2)]))


def test_samples_of_the_summary_are_those_of_all_units(made_up: Path) -> None:
    result, metric = Result(made_up), summary.METRICS[0]
    replicates = summary.by_replicate(result.transfers, result.replicates, "stock", "web", metric)
    pooled = summary.sample(result.transfers, "stock", "web", metric)
    assert len(replicates) == 5
    assert sorted(value for replicate in replicates for run in replicate for value in run) == sorted(pooled)
