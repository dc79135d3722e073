"""Average rates, counts and the number of downloads of a closed loop, on synthetic downloads."""

import json
from pathlib import Path

import polars as pl
import pytest

from penstock.paper import rates
from penstock.result import Result

PAUSE = rates.MEAN_PAUSE_S


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """Two seeds: in the first two clients complete three downloads and one is cut off; in the second nothing is."""
    rows = [
        # seed, client, start, last byte, outcome
        (1, "web1", 10.0, 2.0, "ok"),
        (1, "web1", 22.5, 4.0, "ok"),
        (1, "web2", 30.0, 6.0, "ok"),
        (1, "web2", 80.0, None, "unfinished"),
        (2, "web1", 50.0, None, "unfinished"),
    ]
    pl.DataFrame(
        [
            {
                "variant": "backtap", "network": "", "seed": seed, "client": client, "workload": "web", "circuit": 1,
                "stream": 1, "direction": "download", "bytes": 12_000, "bytes_received": 12_000 if ttlb else 0,
                "start_s": start, "connect_s": 0.1, "ttfb_s": ttlb, "ttlb_s": ttlb, "outcome": outcome, "warmup": False,
            }
            for seed, client, start, ttlb, outcome in rows
        ]
    ).write_parquet(tmp_path / "transfers.parquet")  # fmt: skip
    runs = [{"variant": "backtap", "network": "", "seed": seed, "sim_seconds": 90.0} for seed in (1, 2)]
    manifest = {"version": "0.1.0", "finished": True, "scenario": {"name": "made", "variants": []}, "runs": runs}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return Result(tmp_path)


def test_an_average_rate_is_that_of_the_mean_time_or_the_mean_of_rates(result: Result) -> None:
    of_mean = rates.of_mean(result, "backtap", "web", "")
    assert of_mean.rows() == [("", 1, 3.0)]  # 12 kB in 4 s on average
    each = rates.each(result, "backtap", "web", "")
    assert sorted(each["value"]) == [2.0, 3.0, 6.0]


def test_a_run_in_which_nothing_was_completed_counts_as_none(result: Result) -> None:
    assert rates.completed(result, "backtap", "web", "").rows() == [("", 1, 3.0), ("", 2, 0.0)]


def test_a_loop_completes_as_many_as_it_has_time_for(result: Result) -> None:
    # 80 s and 60 s in rounds of 4 s and a pause.
    (row,) = rates.of_expected(result, "backtap", "web", "").rows()
    assert row == ("", 1, pytest.approx(3 / (140 / (4 + PAUSE))))
