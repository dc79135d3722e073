"""The limits of guards' counts that circuits show, on series of a small model of a guard."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import program

from penstock import catalog
from penstock.attacks import flag_times, study
from penstock.attacks.flag_times import FULL, SINGLE, Limit, Throttle
from penstock.attacks.information import Floats
from penstock.attacks.model import LONGEST
from penstock.attacks.probe import PAYLOAD
from penstock.errors import PenstockError

KIB = 1024.0

WIRE = FULL / PAYLOAD
"""The bytes on the wire for each byte of payload with full cells and records [1]."""

FLAGGING = Throttle(rate=20 * KIB, burst=2048 * KIB, half_life=10.0, refill=1.0)

PACE = np.concatenate([np.full(60, 41.0), np.full(40, 82.0), np.full(200, 164.0)]) * KIB / (SINGLE / PAYLOAD)
"""The payload that a server sends [B/s]: its rate doubles two times."""


SCENARIO = """
[scenario]
title = "Two guards that flag"
[run]
seeds = [1]
duration = "80 s"
[trace]
clients = "1 s"
[relay]
flags = []
throttle = { kind = "flagging", rate = "20 KiB/s", burst = "256 KiB", penalty = 0, half_life = "10 s" }
[relays.small]
flags = ["guard"]
bandwidth_rate = "150 KiB/s"
[relays.large]
flags = ["guard"]
bandwidth_rate = "600 KiB/s"
[relays.middle]
bandwidth_rate = "10 MiB/s"
[relays.exit]
bandwidth_rate = "10 MiB/s"
[servers.server]
[workloads.bulk]
size = "1 GiB"
start = "uniform(2 s, 6 s)"
[workloads.probe]
size = "1 GiB"
start = "2 s"
[clients.a]
count = 2
workload = "bulk"
path = ["small", "middle", "exit"]
link = "60 KiB/s"
[clients.b]
count = 2
workload = "bulk"
path = ["large", "middle", "exit"]
link = "60 KiB/s"
[clients.probe]
count = 2
workload = "probe"
path = ["each-guard", "middle", "exit"]
link = "60 KiB/s"

[[attacks]]
name = "flags"
title = "Times of flags"
adversary = { controls = ["server", "clients"], victims = "bulk", probes = "probe" }
measurement = { what = "throughput", period = "1 s" }
estimator = { kind = "flag-time" }
conclusion = { kind = "probabilities" }
"""


def throughput(pace: Floats, throttle: Throttle, limit: float, used: float = 1.0) -> tuple[Floats, float]:
    """The throughput [B/s] behind a guard with this limit of counts [cell], and the time of the flag [s].

    Cells are filled to the share `used`. They have records of their own, and full records when data waits. The guard
    counts the cells that it sends, full or not. It compares the count each second, and never removes a flag.

    Source: crates/core/src/throttle/average.rs.
    """
    received, count, tokens, flagged, waiting = np.zeros(len(pace)), 0.0, throttle.burst, np.inf, 0.0
    kept = 2.0 ** (-1 / throttle.half_life)
    for second, offered in enumerate(pace):
        if flagged == np.inf and count > limit:
            flagged = second
        tokens = min(tokens + throttle.rate, throttle.burst) if flagged < np.inf else throttle.burst
        waiting += offered
        wire = SINGLE if waiting * SINGLE / PAYLOAD / used <= tokens else FULL
        received[second] = min(waiting, tokens / wire * PAYLOAD * used)
        cells = received[second] / PAYLOAD / used
        waiting, tokens = waiting - received[second], tokens - cells * wire
        count = count * kept + cells * (1 - kept) * throttle.half_life / np.log(2)
    return received, flagged


@pytest.mark.parametrize("limit", [300.0, 700.0, 1100.0, 1800.0])
@pytest.mark.parametrize("used", [1.0, 0.889, 0.8])
def test_the_time_of_a_flag_tells_the_limit(limit: float, used: float) -> None:
    received, flagged = throughput(PACE, FLAGGING, limit, used)
    found = flag_times.limit(received, 1.0, FLAGGING)
    assert found.flagged_s == pytest.approx(flagged, abs=3)
    # With cells of 80 %, a count of full cells would be a fifth too small.
    assert 0.95 * found.low <= limit <= 1.05 * found.high
    assert found.high - found.low < 300 / used


def test_the_flag_precedes_the_visible_change_by_a_burst() -> None:
    received, flagged = throughput(PACE, FLAGGING, 700.0)
    change = flag_times.change_of(received, 1.0, FLAGGING)
    assert change is not None
    assert change.border > flagged + 30
    assert received[change.border + 1] * WIRE == pytest.approx(FLAGGING.rate, rel=0.01)
    assert received[change.border - 5] * WIRE > 1.8 * FLAGGING.rate
    assert change.used == pytest.approx(1, rel=0.01)
    assert change.wire == pytest.approx(SINGLE / PAYLOAD, rel=0.01)


def test_after_the_change_the_fill_of_cells_is_known() -> None:
    received, _ = throughput(PACE, FLAGGING, 700.0, used=0.85)
    change = flag_times.change_of(received, 1.0, FLAGGING)
    assert change is not None
    assert change.used == pytest.approx(0.85, rel=0.01)


def test_a_circuit_without_a_flag_excludes_limits_below_its_count() -> None:
    received, flagged = throughput(PACE, FLAGGING, 1e9)
    assert flagged == np.inf
    found = flag_times.limit(received, 1.0, FLAGGING)
    largest = flag_times.counts(received, 1.0, FLAGGING.half_life).max()
    assert (found.high, found.flagged_s) == (np.inf, np.inf)
    assert 0.9 * largest < found.low <= largest


def test_a_circuit_below_the_throttles_rate_tells_nothing() -> None:
    # A guard with the limit 1 has flagged this circuit, and no bucket shows it.
    found = flag_times.limit(np.full(300, 15 * KIB), 1.0, FLAGGING)
    assert found == Limit(0.0, np.inf, np.inf)
    assert (
        flag_times.score(found, Limit(100.0, 120.0, 5.0)) == flag_times.score(found, Limit(900.0, np.inf, np.inf)) == 0
    )


def test_a_slow_server_is_not_taken_for_a_flag() -> None:
    # The circuit falls to the throttle's rate before it can have spent its burst.
    found = flag_times.limit(np.concatenate([np.full(20, 41.0), np.full(200, 20.0)]) * KIB / WIRE, 1.0, FLAGGING)
    assert found.high == np.inf


def test_the_guard_with_the_victims_limit_has_the_best_score() -> None:
    def of(limit: float, pace: Floats = PACE) -> Limit:
        return flag_times.limit(throughput(pace, FLAGGING, limit)[0], 1.0, FLAGGING)

    guards = [250.0, 600.0, 1000.0, 1700.0, 1e9]
    other = np.concatenate([np.zeros(10), 1.1 * PACE[:-10]])
    for place, limit in enumerate(guards):
        scores = [flag_times.score(of(limit, other), of(each)) for each in guards]
        assert int(np.argmax(scores)) == place


def test_a_guard_that_would_have_flagged_the_circuit_is_unlikely() -> None:
    never, flag = Limit(2000.0, np.inf, np.inf), Limit(480.0, 520.0, 9.0)
    unknown = Limit(0.0, np.inf, np.inf)
    assert flag_times.score(never, flag) < flag_times.score(never, unknown) < flag_times.score(never, never)
    # And a guard that would not have flagged it.
    assert flag_times.score(flag, never) < flag_times.score(flag, unknown) < flag_times.score(flag, flag)
    # An error of the measurement excludes no guard for good.
    assert flag_times.score(flag, never) > -4


def test_a_throttle_is_read_from_the_variant() -> None:
    _, document = catalog.load("attacks/guard-rates", (), None, ())
    assert flag_times.throttle_of(document.resolved("flag")) == FLAGGING
    assert flag_times.throttle_of(document.resolved("split")) is None


def test_threshold_is_refused_before_the_first_run(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    file = str(write("two.toml", SCENARIO))
    threshold = 'relay.throttle={ kind = "threshold", fraction = 0.2 }'
    with pytest.raises(PenstockError, match=r"refuses relay\.throttle 'threshold', whose rate differs between guards"):
        study.run(file, sets=[threshold], out=tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_relays_with_different_throttles_are_refused() -> None:
    _, document = catalog.load("attacks/modulation-flag", (), None, ())
    with pytest.raises(PenstockError, match=r"needs one throttle; set relay\.throttle"):
        flag_times.throttle_of(document.resolved("flag-200"))


def test_victims_of_two_guards_are_told_apart(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    result = study.run(str(write("two.toml", SCENARIO)), out=tmp_path / "out", jobs=1)
    found = study.of(result).victims
    assert len(found) == 4
    assert found["hit"].all()
    assert (found["auc"] == 1).all()


def test_the_time_of_a_flag_in_a_simulation_is_that_of_the_guard(
    write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    file = str(write("two.toml", SCENARIO))
    result = study.run(file, out=tmp_path / "out", jobs=1)
    throttle = flag_times.throttle_of(catalog.load(file)[1].resolved("default"))
    assert throttle is not None
    flagged = dict(result.clients.filter(pl.col("throttled")).group_by("client").agg(pl.col("t_s").min()).iter_rows())
    assert len(flagged) == 3
    for (client,), rows in result.clients.group_by("client"):
        series = np.zeros(80)
        series[rows["t_s"].round().cast(int).to_numpy() - 1] = rows["received_bytes"].to_numpy()
        limit = flag_times.limit(series, 1.0, throttle)
        assert limit.flagged_s == pytest.approx(flagged.get(str(client), np.inf), abs=3), client


def test_without_flags_there_is_no_guess(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    file = str(write("two.toml", SCENARIO))
    result = study.run(file, sets=['relay.throttle="none"', 'run.duration="5 s"'], out=tmp_path / "out", jobs=1)
    [leak] = study.of(result).leaks.iter_rows(named=True)
    assert (leak["victims"], leak["left_out"]) == (0, 4)


def test_the_time_of_a_flag_needs_probes(write: Callable[[str, str], Path]) -> None:
    file = write("two.toml", SCENARIO.replace(', probes = "probe" }', " }"))
    with pytest.raises(PenstockError, match=r"adversary\.probes is missing; the estimator 'flag-time' needs probes"):
        study.run(str(file))


def test_the_tables_of_the_page_have_every_victim_and_constant(
    write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    bench = program("flag_times")
    result = study.run(str(write("two.toml", SCENARIO)), out=tmp_path / "out", jobs=1)
    causes = bench["causes"](result)
    for row in ("victims | 4", "throttled by their guard | 2", "throttled, and their flag is seen | 2"):
        assert f"| {row} |" in causes
    assert "| not throttled, but a flag is seen | 0 |" in causes
    assert "| only a lower bound is seen | 2 |" in causes
    constants = bench["constants"](result)
    for name, values in bench["CONSTANTS"].items():
        assert getattr(flag_times, name) in values
        assert f"| `{name}` | **{getattr(flag_times, name):g}** |" in constants


@pytest.mark.parametrize("period", ["2100 ms", "20 s"])
def test_a_period_that_switches_the_estimator_off_is_refused(write: Callable[[str, str], Path], period: str) -> None:
    file = write("two.toml", SCENARIO.replace('period = "1 s"', f'period = "{period}"'))
    with pytest.raises(
        PenstockError, match=r"measurement\.period is .* s; the estimator 'flag-time' needs at most 2 s"
    ):
        study.run(str(file))


def test_the_longest_period_leaves_four_intervals_after_a_change() -> None:
    assert flag_times.SETTLED / LONGEST == 4


def test_the_exit_is_refused(write: Callable[[str, str], Path]) -> None:
    text = SCENARIO.replace('["server", "clients"]', '["exit", "clients"]')
    file = write("two.toml", text.replace('period = "1 s"', 'at = "exit", period = "1 s"'))
    with pytest.raises(PenstockError, match=r"the estimator 'flag-time' measures at the client"):
        study.run(str(file))
