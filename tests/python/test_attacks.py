"""Results of attacks on arrivals with known truth, and throttles that are the same under any load."""

import tomllib

import numpy as np
import polars as pl
import pytest

from penstock import catalog
from penstock.attacks import probe, wave
from penstock.figures import loads

FAST, SLOW = 400 << 10, 5 << 10


def arrivals(burst: int, fast: float, slow: float, end: float) -> np.ndarray:
    """Arrival times of cells of 512 B: `burst` bytes at one rate, then the other rate, until `end` [s]."""
    first = np.arange(0, burst, 512) / fast
    return np.concatenate([first, np.arange(first[-1] + 512 / slow, end, 512 / slow)])


def cells(times: np.ndarray) -> pl.DataFrame:
    """DATA cells of one circuit at its client."""
    frame = pl.DataFrame({"nic_in_ns": (times * 1e9).astype(np.int64)})
    return frame.with_columns(network=pl.lit(""), seed=1, circuit=0, hop=pl.lit("client"))


def test_a_probe_finds_the_rate_in_payload() -> None:
    found = probe.rate(cells(arrivals(2 << 20, FAST, SLOW, 300.0)), "client")["value"].item()
    assert found == pytest.approx(SLOW * 498 / 512, rel=0.01)


def test_a_probe_counts_498_bytes_a_cell_from_the_one_that_completes_2_mib() -> None:
    first = 4212  # 2 MiB are 4211.1 cells' payload.
    times = np.concatenate([np.zeros(first), np.arange(1.0, 101.0)])
    assert probe.rate(cells(times), "client")["value"].item() == 498.0
    late = np.concatenate([times[: first - 1], times[first - 1 :] + 10.0])
    assert probe.rate(cells(late), "client")["value"].item() == 498.0


@pytest.mark.parametrize("burst", [1 << 20, 2 << 20, 3 << 20])
def test_a_probe_finds_the_end_of_the_burst(burst: int) -> None:
    # Each cell comes in a record of its own here, and brings 29 B more.
    wire = burst / 512 * (512 + 29)
    refilled = SLOW * (512 + 29 / 8) / 512 * burst / FAST
    found = probe.onset(cells(arrivals(burst, FAST, SLOW, 900.0)), "client")["value"].item()
    assert found == pytest.approx(wire - refilled, abs=1024)


def test_a_probe_without_a_burst_gives_no_result() -> None:
    assert probe.rate(cells(arrivals(1 << 20, FAST, SLOW, 60.0)), "client").is_empty()


def periods(open_rate: float, closed_rate: float, noise: float) -> np.ndarray:
    """Cells in ten periods of 20 s from 30 s on, at one rate while connections are open and at the other when not."""
    rng = np.random.default_rng(7)
    parts = []
    for half in range(20):
        rate = (open_rate if half % 2 == 0 else closed_rate) * (1 + noise * rng.standard_normal())
        parts.append(30.0 + 10 * half + np.sort(rng.uniform(0, 10, max(int(rate * 10), 0))))
    return np.concatenate([*parts, [231.0]])


WAVE = wave.Wave(np.arange(30.0, 230.0, 20.0), 20.0)


def test_a_target_that_follows_the_wave_confirms_its_guard() -> None:
    correlation, p = wave.confirm(wave.halves(periods(50, 100, 0.1), WAVE))
    assert correlation > 0.9
    assert p < wave.SIGNIFICANT


@pytest.mark.parametrize("rates", [(100.0, 100.0), (100.0, 50.0)])
def test_one_that_does_not_or_the_other_way_confirms_nothing(rates: tuple[float, float]) -> None:
    assert wave.confirm(wave.halves(periods(*rates, noise=0.1), WAVE))[1] > wave.SIGNIFICANT


def test_half_periods_are_counted_by_their_times() -> None:
    counts = wave.halves(periods(50, 100, 0.0), WAVE)
    assert counts.tolist() == [500.0, 1000.0] * 10


def test_the_wave_is_when_attackers_began() -> None:
    begun = [80.0, 80.0, 100.0, 100.0, 120.0, 140.0, 160.0]
    rows = [("attacker", at + 0.2, 0.2) for at in begun] + [("web", 3.0, 0.5)]
    paths = pl.DataFrame(rows, ["client", "built_s", "build_time_s"], orient="row")
    found = wave.find(paths)
    assert found is not None
    assert (found.begins.tolist(), found.period) == ([80.0, 100.0, 120.0, 140.0, 160.0], 20.0)
    assert wave.find(paths.filter(client="web")) is None


def throttles(scenario: str) -> dict[str, dict[str, object]]:
    """The throttle of the first guard under each variant."""
    _, document = catalog.load(f"throttling/{scenario}")
    found = {}
    for variant, _ in document.variants():
        text = tomllib.loads(document.resolved(variant))
        guard = next(relay for name, relay in text["relays"].items() if name.startswith("guard"))
        found[variant] = {**text["relay"], **guard}["throttle"]
    return found


def test_no_parameter_of_a_throttle_changes_with_the_load_or_the_attack() -> None:
    of_guards = throttles("guard")
    for algorithm in ("vanilla", "static", "split", "flag", "threshold"):
        medium = of_guards[f"{algorithm}-medium"]
        assert all(of_guards[f"{algorithm}-{load}"] == medium for load in ("light", "heavy")), algorithm
        for scenario in ("elude", "flood"):
            mine = {name: each for name, each in throttles(scenario).items() if name.startswith(algorithm)}
            assert mine, (scenario, algorithm)
            for name, throttle in mine.items():
                expected = {**medium, "aggregate": "address"} if name.endswith("-address") else medium
                assert throttle == expected, (scenario, name)


def test_loads_are_found_where_each_algorithm_has_each() -> None:
    named = {"a-x": "A, x", "a-y": "A, y", "b-x": "B, x", "b-y": "B, y"}
    assert loads.find(named) == ({"a": "A", "b": "B"}, ["x", "y"])
    assert loads.find({**named, "b-z": "B, z"}) is None
    assert loads.find({"stock": "stock", "50KiB": "50 KiB"}) is None
