"""Tests of the comparison of single runs with and without EWMA."""

from pathlib import Path

import numpy as np
from conftest import program
from scipy.stats import ks_2samp

from penstock import runs, stats


def test_a_row_counts_the_runs_that_a_test_of_their_downloads_tells_apart(tmp_path: Path) -> None:
    bench = program("one_run")
    sets = ['run.duration="100 s"', 'run.warmup="0 s"', 'run.stop="none"', "trace.workloads=[]"]
    sets += ['workloads.bulk.size="100 KiB"']
    variants = ["stock", "stock-ewma", "50KiB"]
    result = runs.run("defenestrator/ewma", variants=variants, runs=2, sets=sets, out=tmp_path / "out")
    (row,) = bench["table"]([result]).splitlines()[2:]
    assert row.startswith("| `defenestrator/ewma` | stock Tor | 2 | ")

    ended = result.transfers.filter(workload="bulk", outcome="ok")
    without, ewma = (
        [ended.filter(variant=variant, seed=seed)["ttfb_s"].to_numpy() for seed in (1, 2)] for variant in variants[:2]
    )
    change = 100 * np.mean([np.median(b) / np.median(a) - 1 for a, b in zip(without, ewma, strict=True)])
    assert f"| {change:+.1f} % (" in row

    def differ(pairs: list[tuple[np.ndarray, np.ndarray]]) -> str:
        return f"{50 * sum(bool(ks_2samp(a, b, method='asymp').pvalue < 0.05) for a, b in pairs)} %"

    one, other = without
    longer = differ([(one, 1.1 * other), (other, 1.1 * one)])
    shares = [differ(list(zip(without, ewma, strict=True))), differ([(one, other), (other, one)]), longer]
    assert row.endswith(f"| {' | '.join(shares)} |")


def test_the_limit_is_smirnov_s() -> None:
    assert round(stats.ks_limit(20, 20), 3) == 0.429


def test_a_difference_is_found() -> None:
    samples = np.arange(1.0, 40.0), np.arange(30.0, 69.0)
    differing = program("one_run")["differing"]
    assert differing([samples, (samples[0], samples[0])]) == "50 %"
