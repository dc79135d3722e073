"""The sawtooth of a congestion window: windows made by a formula give that formula's numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from penstock.paper.measures import MEASURES, sample
from penstock.paper.sawtooth import epochs
from penstock.result import Result

Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def cubic(t: NDArray[np.float64], floor: float, origin: float) -> NDArray[np.float64]:
    return np.asarray(0.4 * (t - np.cbrt((origin - floor) / 0.4)) ** 3 + origin)


def flow(*curves: tuple[float, Curve]) -> pl.DataFrame:
    """Rows of a flow: each curve for its time [s], from a cut on; every 10 ms."""
    rows: list[tuple[float, float, float | None]] = [(0.0, 10.0, None)]
    for length, curve in curves:
        windows = curve(np.arange(round(length * 100)) / 100)
        rows += [
            (rows[-1][0] + 0.01 * (i + 1), float(window), float(windows.min())) for i, window in enumerate(windows)
        ]
    return pl.DataFrame(rows, ["t_s", "cwnd_segments", "ssthresh_segments"], orient="row")


def straight(floor: float, slope: float) -> Curve:
    return lambda t: floor + slope * t


# Slow start as far as 1000; then 700 is left, and K = cbrt(300 / 0.4) = 9.09 s.
RISE: tuple[float, Curve] = (1.0, straight(10.0, 1000.0))


def test_a_window_of_the_closed_form_has_its_period_and_shape() -> None:
    rows = flow(RISE, (18.17, lambda t: cubic(t, 700, 1000)), (1.0, straight(910.0, 0.0)))
    first, last = epochs(rows)
    assert (first.before, first.origin) == pytest.approx((1000, 1000))
    assert first.kept() == pytest.approx(0.7, rel=1e-3)
    assert first.length() == pytest.approx(1, abs=0.01)
    assert (first.concave(), first.convex()) == pytest.approx((7 / 8, 7 / 8), abs=0.01)
    # The flow ends in the last: nothing of it counts.
    assert np.isnan([last.kept(), last.length(), last.concave(), last.convex()]).all()


def test_a_smaller_window_than_before_has_a_lower_origin() -> None:
    # Cut at 910, below 1000: the origin is 0.85 of it, and the window grows 150 beyond that.
    part = (3.0, lambda t: cubic(t, 700, 1000))
    beyond = (15.6, lambda t: cubic(t, 637, 773))
    early, whole, _ = epochs(flow(RISE, part, beyond, (1.0, straight(640.0, 0.0))))
    assert np.isnan([early.length(), early.concave(), early.convex()]).all()
    assert whole.before == pytest.approx(910, abs=1)
    assert whole.origin == pytest.approx(0.85 * 910, abs=1)
    assert (whole.kept(), whole.length()) == pytest.approx((0.7, 1), abs=0.01)
    # The same window again is not smaller.
    first, second, _ = epochs(flow(RISE, (9.5, straight(700.0, 32.0)), (9.5, straight(700.0, 32.0)), RISE))
    assert (first.origin, second.origin) == pytest.approx((1000, 1003.7), abs=0.1)


def test_a_cut_to_the_same_threshold_is_a_cut_and_a_recovery_is_one() -> None:
    # From 1000 to 700 in a tenth of a second, and on to 983.5.
    slow: tuple[float, Curve] = (2.0, lambda t: np.maximum(1000 - 300 * t / 0.1, 700 + 150 * (t - 0.1)))
    rows = flow(RISE, slow, slow, (1.0, straight(700.0, 0.0)))
    same = rows.with_columns(ssthresh_segments=pl.when(pl.col("t_s") > 1.005).then(700.0))
    assert [epoch.before for epoch in epochs(same)] == pytest.approx([1000, 1000, 983.5])


def test_a_lowered_origin_applies_to_the_next_window() -> None:
    # Cut at 1000, at 900 (origin 765) and at 800: below 900, and above 765.
    def to(low: float, high: float) -> tuple[float, Curve]:
        return 1.0, straight(low, (high - low) / 0.99)

    cuts = epochs(flow(RISE, to(700, 900), to(630, 800), to(560, 600)))
    assert [epoch.origin for epoch in cuts] == pytest.approx([1000, 765, 800])


def test_a_recovery_that_takes_its_time_bends_no_curve() -> None:
    def recovering(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(t < 0.2, 1000 - 1500 * t, cubic(t - 0.2, 700, 1000.001))

    whole, _ = epochs(flow(RISE, (18.3, recovering), (1.0, straight(910.0, 0.0))))
    assert (whole.concave(), whole.convex()) == pytest.approx((7 / 8, 7 / 8), abs=0.02)


def test_a_straight_line_is_neither_concave_nor_convex_and_reno_keeps_half() -> None:
    rows = flow(RISE, (10.0, straight(500.0, 100.0)), (1.0, straight(750.0, 0.0)))
    reno, _ = epochs(rows)
    assert reno.kept() == pytest.approx(0.5, rel=1e-3)
    assert (reno.concave(), reno.convex()) == pytest.approx((0.5, 0.5), abs=0.01)
    # 10 s where CUBIC would take cbrt(500 / 0.4) and cbrt(500 / 0.4).
    assert reno.length() == pytest.approx(10 / 21.5, abs=0.02)


def test_hystart_is_no_cut() -> None:
    rows = flow((1.0, straight(10.0, 700.0)), (1.0, straight(705.0, 0.0)), (1.0, straight(490.0, 0.0)))
    assert [epoch.before for epoch in epochs(rows)] == [705]
    assert list(epochs(rows.clear())) == []
    # Nor is what a window falls to when the flow is over.
    over = flow(RISE, (5.0, lambda t: cubic(t, 700, 1000)), (1.0, straight(10.0, 0.0)))
    over = over.with_columns(ssthresh_segments=pl.when(pl.col("t_s") > 1.005).then(700.0))
    assert len(list(epochs(over))) == 1


def test_a_claim_measures_every_epoch_that_has_a_value(tmp_path: Path) -> None:
    rows = flow(RISE, (18.17, lambda t: cubic(t, 700, 1000)), (1.0, straight(910.0, 0.0)))
    key = {"variant": "cubic", "network": "", "workload": "file", "hop": "server"}
    runs = [{"seed": seed, "client": client} for seed, client in ((1, "a"), (1, "b"), (2, "a"))]
    table = pl.concat(rows.with_columns(**{name: pl.lit(value) for name, value in (key | run).items()}) for run in runs)
    table.write_parquet(tmp_path / "circuits.parquet")
    manifest = {"version": "0.1.0", "finished": True, "scenario": {"name": "made", "variants": []}, "runs": []}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    for measure, value in {
        "window_kept": 0.7,
        "epoch_length": 1,
        "epoch_concave": 7 / 8,
        "epoch_convex": 7 / 8,
    }.items():
        assert MEASURES[measure].table == "circuits"
        found = sample(Result(tmp_path), measure, "cubic", "file", "server")
        assert found["seed"].to_list() == [1, 1, 2]
        assert found["value"].to_list() == pytest.approx([value] * 3, abs=0.01)
