"""The figure of families: variants that vary one quantity in several settings."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest

from penstock.figures import families
from penstock.replicates import Replicates
from penstock.result import Result

LABELS = {
    f"{circuits}-{half_life}": f"{circuits} circuits: {half_life}"
    for circuits in (13, 39)
    for half_life in ("no priorities", "half-life 10 s", "half-life 1.5 s", "half-life 100 s")
}
TIMES = {"no priorities": 4.0, "half-life 1.5 s": 5.0, "half-life 10 s": 1.0, "half-life 100 s": 2.0}


def result(variants: dict[str, str]) -> Result:
    """Two seeds with three downloads each, twice as slow with 39 circuits; the second seed is as fast as the first."""
    rows = [
        {
            "variant": name, "network": "", "seed": seed, "workload": "web", "direction": "download", "bytes": 1,
            "outcome": "ok", "warmup": False, "ttfb_s": time / 2, "ttlb_s": time,
        }
        for name, label in variants.items()
        for seed in (1, 2)
        for off in (-0.5, 0.0, 0.7)
        for time in [(TIMES[label.split(": ")[1]] + off) * (2 if "39" in label else 1)]
    ]  # fmt: skip
    fake = {"variants": variants, "transfers": pl.DataFrame(rows), "replicates": Replicates.of([("", 1), ("", 2)])}
    return cast(Result, SimpleNamespace(**fake))


def test_variants_of_one_prefix_are_a_family_with_its_baseline() -> None:
    found = families.families(result(LABELS))
    assert list(found) == ["13 circuits", "39 circuits"]
    assert found["39 circuits"].baseline == "39-no priorities"
    assert list(found["13 circuits"].sweep.values.values()) == [1.5, 10.0, 100.0]


@pytest.mark.parametrize("lacking", ["39-no priorities", "39-half-life 10 s", "13-half-life 100 s"])
def test_there_is_no_figure_of_one_family(lacking: str) -> None:
    rest = {name: label for name, label in LABELS.items() if name != lacking}
    assert not families.families(result(rest))
    assert families.draw(result(rest)) is None


def test_each_point_is_the_change_against_the_baseline_of_its_family() -> None:
    picture = families.draw(result(LABELS))
    assert picture is not None
    median, tail = (
        [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()[1:]] for axes in picture.figure.axes
    )
    assert list(median) == [pytest.approx([25.0, -75.0, -50.0])] * 2
    # The 90th percentile of times m - 0.5, m and m + 0.7 is m + 0.56.
    expected = [100 * ((time + 0.56) / 4.56 - 1) for time in (5.0, 1.0, 2.0)]
    assert list(tail) == [pytest.approx(expected)] * 2
    assert "web, 39 circuits: median -75 % at best, at 10." in picture.alt
