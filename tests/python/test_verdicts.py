"""Verdicts from the numbers of several seeds, one rule after the other, with known answers."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.paper import Checked, Claim, Gate, decide
from penstock.paper.claims import EVERY_SEED, INTERVAL, MEAN
from penstock.paper.verdicts import FAILS, HOLDS, NOT_GATED, UNDECIDED
from penstock.result import Result

T = 2.776445
"""Student's t for 4 degrees of freedom, two-sided 95 %."""

Numbers = Mapping[str, Sequence[float | None]]
Asked = Callable[..., Checked]

ABOVE, BELOW = Gate(direction="above"), Gate(direction="below")


def gate_of(by: Any, at_least: float | None = None, at_most: float | None = None) -> Gate:
    return Gate(by=by, at_least=at_least, at_most=at_most)


def row(variant: str, network: str, seed: int, time: float) -> dict[str, object]:
    return {
        "variant": variant, "network": network, "seed": seed, "client": "web", "workload": "web", "circuit": 1,
        "stream": 1, "direction": "download", "bytes": 1, "bytes_received": 1, "start_s": 1.0,
        "connect_s": 0.1, "ttfb_s": time, "ttlb_s": 2 * time, "outcome": "ok", "warmup": False,
    }  # fmt: skip


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    """Judges a claim about runs of which each made one download; None is a run that made none.

    With `networks`, their names, the numbers of a variant are those of each network's first seed, of its second, ...
    """

    def asked(
        numbers: Numbers,
        sides: Sequence[Sequence[str]],
        compare: str,
        gate: Gate | None,
        networks: str = " ",
        remark: str = "",
    ) -> Checked:
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        where = [(network.strip(), seed) for seed in range(1, 10) for network in networks]
        runs = [
            (variant, *at, time) for variant, times in numbers.items() for at, time in zip(where, times, strict=False)
        ]
        records = [{"variant": variant, "network": network, "seed": seed} for variant, network, seed, _ in runs]
        manifest = {"version": "0.1.0", "finished": True, "scenario": {"name": "made", "variants": []}, "runs": records}
        (directory / "manifest.json").write_text(json.dumps(manifest))
        rows = [row(variant, network, seed, time) for variant, network, seed, time in runs if time is not None]
        pl.DataFrame(rows).write_parquet(directory / "transfers.parquet")
        keys: dict[str, Any] = {"id": "one", "says": "it is so", "section": "1", "scenario": "one", "variants": sides}
        keys |= {
            "workload": "web",
            "measure": "ttfb_s",
            "statistic": "median",
            "compare": compare,
            "gate": gate,
            "why": "so" if gate is None else remark,
        }
        claim = Claim.model_validate(keys)
        return decide(claim, {"one": Result(directory)})

    return asked


# A mean of 10 and an interval of 10 ± 1.963: the standard deviation is √2.5.
FIVE = (8.0, 9.0, 10.0, 11.0, 12.0)
HALF = T * math.sqrt(2.5) / math.sqrt(5)


@pytest.mark.parametrize(
    ("gate", "verdict", "reason"),
    [
        # A quantity: the mean decides, and what its interval reaches is said.
        (gate_of(MEAN, 8.0, 12.0), HOLDS, ""),
        (gate_of(MEAN, at_least=10.0), HOLDS, "its interval reaches beyond the bound"),
        (gate_of(MEAN, at_most=10.0), HOLDS, "its interval reaches beyond the bound"),
        (gate_of(MEAN, at_least=10.1), FAILS, "its interval reaches the bound"),
        (gate_of(MEAN, at_most=9.9), FAILS, "its interval reaches the bound"),
        (gate_of(MEAN, at_least=12.0), FAILS, ""),
        (gate_of(MEAN, at_most=8.0), FAILS, ""),
        # An order or an equality: all of the interval has to be within.
        (gate_of(INTERVAL, 8.0, 12.0), HOLDS, ""),
        (gate_of(INTERVAL, at_least=8.0), HOLDS, ""),
        (gate_of(INTERVAL, at_least=8.1), UNDECIDED, "its interval reaches beyond the bound"),
        (gate_of(INTERVAL, at_most=12.0), HOLDS, ""),
        (gate_of(INTERVAL, at_most=11.9), UNDECIDED, "its interval reaches beyond the bound"),
        (gate_of(INTERVAL, 10.5, 11.0), FAILS, "its interval reaches the bound"),
        (gate_of(INTERVAL, at_least=12.1), FAILS, ""),
        (gate_of(INTERVAL, at_most=7.9), FAILS, ""),
        # A property: no seed may be without.
        (gate_of(EVERY_SEED, 8.0, 12.0), HOLDS, ""),
        (gate_of(EVERY_SEED, at_most=11.9), FAILS, ""),
        (gate_of(EVERY_SEED, at_least=8.1), FAILS, ""),
    ],
)
def test_the_gate_decides_the_verdict(ask: Asked, gate: Gate, verdict: str, reason: str) -> None:
    checked = ask({"a": FIVE}, [["a"]], "value", gate)
    assert (checked.measured, checked.low, checked.high) == pytest.approx((10, 10 - HALF, 10 + HALF), rel=1e-6)
    assert (checked.verdict, checked.reason) == (verdict, reason)


def test_a_claim_with_a_bound_may_have_a_remark(ask: Asked) -> None:
    checked = ask({"a": FIVE}, [["a"]], "value", gate_of(MEAN, at_most=9.9), remark="another claim follows the text")
    assert checked.reason == "its interval reaches the bound; another claim follows the text"


@pytest.mark.parametrize(
    ("b", "gate", "verdict", "reason"),
    [
        ((7.0, 8.0, 9.0, 10.0, 10.9), ABOVE, HOLDS, ""),
        ((7.0, 8.0, 9.0, 10.0, 10.9), BELOW, FAILS, ""),
        ((9.0, 10.0, 11.0, 12.0, 13.1), BELOW, HOLDS, ""),
        ((9.0, 10.0, 11.0, 12.0, 13.1), ABOVE, FAILS, ""),
        # +2, -1, -1, +2, -1: above 0 on average, and not shown to be; or, turned round, not on the side.
        ((6.0, 10.0, 11.0, 9.0, 13.0), ABOVE, UNDECIDED, "its interval reaches beyond the bound"),
        ((6.0, 10.0, 11.0, 9.0, 13.0), BELOW, FAILS, "its interval reaches the bound"),
        # Nothing differs: neither side of zero.
        (FIVE, ABOVE, FAILS, ""),
        (FIVE, BELOW, FAILS, ""),
    ],
)
def test_a_direction_is_shown_by_the_interval(
    ask: Asked, b: Sequence[float], gate: Gate, verdict: str, reason: str
) -> None:
    checked = ask({"a": FIVE, "b": b}, [["a"], ["b"]], "difference", gate)
    assert (checked.verdict, checked.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ((-0.01, 0.0, 0.01, -0.02, 0.02), HOLDS),
        # No slower on average, by runs that differ so much that it may be a fifth: no evidence is no equality.
        ((-0.3, 0.3, -0.2, 0.2, 0.01), UNDECIDED),
        ((-0.07, -0.06, -0.08, -0.07, -0.07), FAILS),
    ],
)
def test_no_faster_within_five_percent_has_to_be_shown(ask: Asked, changes: Sequence[float], verdict: str) -> None:
    numbers = {"a": [10 * (1 + change) for change in changes], "b": [10.0] * 5}
    assert ask(numbers, [["a"], ["b"]], "change", gate_of(INTERVAL, at_least=-0.05)).verdict == verdict


def test_fewer_than_five_seeds_decide_only_exact_bounds(ask: Asked) -> None:
    for by in (MEAN, INTERVAL):
        for bounds in ((1.0, None), (None, 1.0)):
            one = ask({"a": (10.0,)}, [["a"]], "value", gate_of(by, *bounds))
            assert (one.verdict, one.reason, one.missed) == (UNDECIDED, "1 seed; a verdict needs 5", True)
            four = ask({"a": FIVE[:4]}, [["a"]], "value", gate_of(by, *bounds))
            assert (four.verdict, four.reason) == (UNDECIDED, "4 seeds; a verdict needs 5")
    exact = gate_of(EVERY_SEED, at_least=1.0)
    assert ask({"a": (10.0,)}, [["a"]], "value", exact).reason == "1 seed; a verdict needs 2"
    assert ask({"a": FIVE[:2]}, [["a"]], "value", exact).verdict == HOLDS
    # One seed is enough to show that a property does not hold.
    assert ask({"a": (10.0,)}, [["a"]], "value", gate_of(EVERY_SEED, at_most=9.0)).verdict == FAILS


def test_a_seed_that_a_variant_lacks_is_named(ask: Asked) -> None:
    numbers: Numbers = {"a": (1.0, 1.0, None, 1.0, 1.1, 1.0), "b": (2.0, 2.0, 2.0, 2.0, 2.0, None)}
    checked = ask(numbers, [["a"], ["b"]], "ratio", gate_of(MEAN, at_most=0.6))
    lacking = "a has no number for web with seed 3; b has no number for web with seed 6"
    assert (checked.verdict, checked.n) == (UNDECIDED, 4)
    assert checked.reason == f"4 seeds; a verdict needs 5; {lacking}"
    # What each seed has to keep is not shown by those that are there.
    property_ = ask(numbers, [["a"]], "value", gate_of(EVERY_SEED, at_most=2.0))
    assert property_.verdict == UNDECIDED
    assert property_.reason == "some seeds have no number; a has no number for web with seed 3"
    nothing = ask({"a": (None, None), "b": (1.0, 1.0)}, [["a"], ["b"]], "ratio", gate_of(MEAN, at_most=0.6))
    assert (nothing.verdict, nothing.n) == (UNDECIDED, 0)
    assert (
        nothing.reason
        == "there is no complete download, no trace, or no complete epoch; a has no number for web with seed 1, 2"
    )


def test_a_share_of_the_gain_is_a_ratio_of_means(ask: Asked) -> None:
    # Gains of a: 4, 1, 1, 1, 1; of the best: 5, 1, 1, 1, 1. R = 8/9, where the seeds' ratios have a mean of 0.96.
    numbers = {"off": (10.0,) * 5, "a": (6.0, 9.0, 9.0, 9.0, 9.0), "all": (5.0, 9.0, 9.0, 9.0, 9.0)}
    checked = ask(numbers, [["a"], ["off"], ["all"]], "gain", None)
    assert checked.measured == pytest.approx(8 / 9)
    # Linearised: (4 - 5 R)/1.8 and (1 - R)/1.8 beside R.
    assert checked.seeds == pytest.approx([8 / 9 - 4 / 9 / 1.8] + [8 / 9 + 1 / 9 / 1.8] * 4)


GAIN = {"off": (10.0, 10.1, 9.9, 10.0, 10.0), "all": (5.0, 5.0, 5.1, 4.9, 5.0)}


@pytest.mark.parametrize(
    ("a", "gate", "verdict"),
    [
        ((5.4, 5.5, 5.6, 5.5, 5.5), gate_of(INTERVAL, at_least=0.8), HOLDS),
        ((5.4, 7.5, 5.6, 5.5, 5.5), gate_of(INTERVAL, at_least=0.8), UNDECIDED),
        ((9.9, 10.0, 9.8, 10.1, 10.0), gate_of(INTERVAL, at_least=0.8), FAILS),
        ((9.9, 10.0, 9.8, 10.1, 10.0), gate_of(INTERVAL, at_most=0.1), HOLDS),
        ((9.0, 10.9, 9.0, 11.0, 10.0), gate_of(INTERVAL, at_most=0.1), UNDECIDED),
        ((5.4, 5.5, 5.6, 5.5, 5.5), gate_of(INTERVAL, at_most=0.1), FAILS),
    ],
)
def test_a_share_of_the_gain_is_judged_by_its_interval(
    ask: Asked, a: Sequence[float], gate: Gate, verdict: str
) -> None:
    assert ask({**GAIN, "a": a}, [["a"], ["off"], ["all"]], "gain", gate).verdict == verdict


@pytest.mark.parametrize(
    ("best", "reason"),
    [
        # The best is slower than off on average, or in a seed; or faster by too little to be shown.
        ((11.0,) * 5, "the comparison divides by zero, or the mean of b - c is not positive"),
        (GAIN["off"], "the comparison divides by zero, or the mean of b - c is not positive"),
        ((5.0, 5.0, 5.1, 10.0, 5.0), "b - c is not positive in 1 of 5 seeds"),
        ((9.9, 10.0, 1.0, 9.9, 9.9), "the interval of b - c includes 0"),
    ],
)
def test_where_nothing_is_gained_no_share_is_judged(ask: Asked, best: Sequence[float], reason: str) -> None:
    numbers = {"off": GAIN["off"], "all": best, "a": GAIN["all"]}
    for gate in (gate_of(INTERVAL, at_least=0.0), gate_of(INTERVAL, at_most=0.0), gate_of(MEAN, -99.0, 99.0)):
        checked = ask(numbers, [["a"], ["off"], ["all"]], "gain", gate)
        assert (checked.verdict, checked.reason) == (UNDECIDED, reason)


def test_the_worst_of_several_is_that_of_the_largest_mean(ask: Asked) -> None:
    numbers: Numbers = {"a": (30.0, 12.0, 12.0, 12.0, 12.0), "b": (16.0,) * 5, "off": (10.0,) * 5}
    worst = ask(numbers, [["a", "b"], ["off"]], "worst-change", gate_of(INTERVAL, at_most=0.5))
    # The mean of a is 15.6 and that of b 16, although a has the largest number.
    assert list(worst.seeds) == pytest.approx([0.6] * 5)
    assert worst.verdict == FAILS
    assert ask(numbers, [["a", "b"], ["off"]], "change", None).measured == pytest.approx(0.56)


def test_the_best_of_several_is_that_of_the_smallest_mean(ask: Asked) -> None:
    numbers = {**GAIN, "a": (4.0, 9.0, 9.0, 9.0, 9.0), "b": (6.0, 6.0, 6.0, 6.0, 6.0)}
    best = ask(numbers, [["a", "b"], ["off"], ["all"]], "gain", None)
    assert best.measured == pytest.approx(20 / 25)
    # Chosen over the seeds that all have: without seed 1, in which b was best, c is.
    few: Numbers = {"b": (1.0, 6.0, 6.0), "c": (9.0, 5.0, 5.0), "off": (None, 10.0, 10.0)}
    assert ask(few, [["b", "c"], ["off"]], "difference", None).seeds == (-5.0, -5.0)


def test_a_distance_is_that_of_each_seed_and_decides_nothing(ask: Asked) -> None:
    checked = ask({"a": (1.0, 1.0, 3.0), "b": (2.0, 1.0, 2.0)}, [["a"], ["b"]], "ks", None)
    assert checked.seeds == (1.0, 0.0, 1.0)
    assert checked.verdict == NOT_GATED
    assert checked.reason == "so; largest distance of a seed 1.000; significant at 5 % above 1.921"


def test_a_ratio_of_quantiles_is_judged_by_the_definition_of_the_paper(ask: Asked) -> None:
    gate = gate_of(INTERVAL, at_least=0.8)
    numbers = {"a": (1.0,) * 5, "b": (2.0,) * 5}
    checked = ask(numbers, [["a"], ["b"]], "quantiles-below", gate)
    assert (checked.measured, checked.verdict, checked.seeds) == (1.0, HOLDS, (1.0,) * 5)
    assert ask(numbers, [["b"], ["a"]], "quantiles-below", gate).verdict == FAILS
    # Below in four seeds of five: 0.8 on average, and not shown.
    assert (
        ask({**numbers, "b": (2.0, 2.0, 2.0, 2.0, 0.5)}, [["a"], ["b"]], "quantiles-below", gate).verdict == UNDECIDED
    )
    # Equal ones are not below.
    assert ask({**numbers, "b": numbers["a"]}, [["a"], ["b"]], "quantiles-below", gate).measured == 0.0
    # Of two networks the runs' shares are averaged, as nothing else can be.
    averaged = ask(
        {"a": (1.0, 1.0, 1.0, 1.0), "b": (2.0, 2.0, 2.0, 0.5)}, [["a"], ["b"]], "quantiles-below", gate, "12"
    )
    assert averaged.seeds == (1.0, 0.5)


def test_several_networks_are_the_replicates(ask: Asked) -> None:
    # Two seeds of five networks: what two seeds of one network differ by says nothing.
    numbers = {"a": (8.0, 9.0, 10.0, 11.0, 12.0, 18.0, 19.0, 20.0, 21.0, 22.0)}
    checked = ask(numbers, [["a"]], "value", gate_of(INTERVAL, at_least=10.0), "12345")
    assert checked.seeds == (13.0, 14.0, 15.0, 16.0, 17.0)
    assert (checked.n, checked.replicates, checked.verdict, checked.reason) == (5, "networks", HOLDS, "")
    assert (checked.low, checked.high) == pytest.approx((15 - HALF, 15 + HALF), rel=1e-6)


def test_sides_are_averaged_over_a_networks_seeds_before_they_are_compared(ask: Asked) -> None:
    numbers = {"a": (1.0, 2.0, 3.0, 4.0), "b": (1.0, 2.0, 1.0, 4.0)}
    assert ask(numbers, [["a"], ["b"]], "ratio", None, "12").seeds == (2.0, 1.0)
    # Each distance is that of one run; seed 1 of network 2 and seed 2 of both are equal or apart.
    assert ask(numbers, [["a"], ["b"]], "ks", None, "12").seeds == (0.5, 0.0)


def test_a_property_is_that_of_every_run_also_with_networks(ask: Asked) -> None:
    numbers = {"a": (8.0, 9.0, 10.0, 11.0)}
    assert ask(numbers, [["a"]], "value", gate_of(EVERY_SEED, at_most=11.0), "12").verdict == HOLDS
    # 8 and 10, 9 and 11: both networks' means keep it, one run does not.
    assert ask(numbers, [["a"]], "value", gate_of(EVERY_SEED, at_most=10.0), "12").verdict == FAILS


def test_few_networks_are_undecided_with_any_number_of_seeds(ask: Asked) -> None:
    checked = ask({"a": (10.0, 11.0) * 5}, [["a"]], "value", gate_of(MEAN, at_least=1.0), "12")
    assert (checked.n, checked.verdict, checked.reason) == (2, UNDECIDED, "2 networks; a verdict needs 5")
    alone = ask({"a": FIVE}, [["a"]], "value", gate_of(MEAN, at_least=1.0), "1")
    assert (alone.n, alone.replicates, alone.reason) == (
        5,
        "seeds",
        "all seeds use one network, so the result applies to this network only",
    )


def test_a_run_without_a_number_is_named_with_its_network(ask: Asked) -> None:
    numbers: Numbers = {"a": (1.0, None, 1.0, 1.0), "b": (2.0, 2.0, 2.0, 2.0)}
    checked = ask(numbers, [["a"], ["b"]], "ratio", gate_of(MEAN, at_most=0.6), "12")
    assert checked.n == 2
    assert checked.reason == "2 networks; a verdict needs 5; a has no number for web with network 2 seed 1"
