"""Tests of the comparison of single runs with and without EWMA."""

from pathlib import Path

import numpy as np
from conftest import program
from scipy.stats import ks_2samp

from penstock import runs, stats


def test_a_row_counts_the_runs_that_a_test_of_their_downloads_cannot_tell_apart(tmp_path: Path) -> None:
    bench = program("one_run")
    variants = ["stock", "stock-ewma", "50KiB"]
    sets = [
        'run.duration="100 s"',
        'run.warmup="0 s"',
        'run.stop="none"',
        "trace.workloads=[]",
        'workloads.bulk.size="100 KiB"',
    ]
    result = runs.run("defenestrator/ewma", variants=variants, runs=2, sets=sets, out=tmp_path / "out")
    (row,) = bench["table"]([result]).splitlines()[2:]
    assert row.startswith("| `defenestrator/ewma` | stock Tor | 2 | ")

    ended = result.transfers.filter(workload="bulk", outcome="ok")
    times = {variant: ended.filter(variant=variant)["ttfb_s"].to_numpy() for variant in variants}
    change = np.median(times["stock-ewma"]) / np.median(times["stock"]) - 1
    assert f"| {100 * change:+.1f} % |" in row
    alike = 0
    for seed in (1, 2):
        one, other = (ended.filter(variant=variant, seed=seed)["ttfb_s"] for variant in variants[:2])
        alike += int(ks_2samp(one, other, method="asymp").pvalue > 0.05)
    assert row.endswith(f"| {50 * alike} % |")


def test_the_limit_is_smirnov_s() -> None:
    assert round(stats.ks_limit(20, 20), 3) == 0.429
