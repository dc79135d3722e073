"""Estimators on series with known truth, the section `[[attacks]]`, and the command `penstock attack`."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from conftest import Command, sentence

from penstock import catalog
from penstock.attacks import conclusions, estimators, measurement, model, study, wave
from penstock.attacks.information import NO, YES, Guess
from penstock.attacks.measurement import Run
from penstock.errors import PenstockError
from penstock.explorer.views import ALONG
from penstock.figures.printed import draw
from penstock.paper import printed
from penstock.result import Result

SCENARIO = """
[scenario]
title = "Two guards"
[run]
seeds = [1, 2]
duration = "40 s"
[trace]
clients = "1 s"
[relay]
flags = []
[relays.slow]
flags = ["guard"]
bandwidth_rate = "40 KiB/s"
[relays.quick]
flags = ["guard"]
bandwidth_rate = "400 KiB/s"
[relays.middle]
[relays.exit]
[servers.server]
[workloads.bulk]
size = "1 GiB"
[workloads.probe]
size = "1 GiB"
[clients.a]
count = 3
workload = "bulk"
path = ["slow", "middle", "exit"]
[clients.b]
count = 3
workload = "bulk"
path = ["quick", "middle", "exit"]
[clients.probe]
count = 2
workload = "probe"
path = ["each-guard", "middle", "exit"]

[[attacks]]
name = "rates"
title = "Rates of guards"
adversary = { controls = ["server", "clients"], victims = "bulk", probes = "probe" }
measurement = { what = "throughput", period = "5 s", begin = "10 s" }
estimator = { kind = "rate" }
conclusion = { kind = "probabilities" }
"""


def test_the_correlation_is_that_of_the_best_lag() -> None:
    rng = np.random.default_rng(1)
    victim = rng.normal(size=500)
    later, other = np.roll(victim, 3) + 0.1 * rng.normal(size=500), rng.normal(size=500)
    found = estimators.correlations(victim, [later, other, np.ones(500)], 5)
    assert found[0] == pytest.approx(1.0, abs=0.01)
    assert abs(found[1]) < 0.2
    assert found[2] == estimators.BLIND
    assert abs(estimators.correlations(victim, [later], 2)[0]) < 0.2


def test_a_correlation_without_lag_is_pearsons() -> None:
    rng = np.random.default_rng(2)
    one, other = rng.normal(size=(2, 50))
    assert estimators.correlations(one, [other], 0)[0] == pytest.approx(np.corrcoef(one, other)[0, 1])


def test_a_rate_is_compared_in_deviations_of_the_victim() -> None:
    victim = np.array([90.0, 100.0, 110.0])
    assert estimators.distances(victim, np.array([100.0, 110.0, 80.0])) == pytest.approx([0.0, -1.0, -2.0])


def test_a_constant_throughput_keeps_the_guards_with_its_rate() -> None:
    victim = np.full(5, 100.0)
    assert list(estimators.distances(victim, np.array([100.0, 101.0])) >= -1.0) == [True, False]


def test_parts_keep_the_guards_that_fit_every_part() -> None:
    victim = np.array([90.0, 110.0, 190.0, 210.0])
    both, first, mean = (np.array(rates) for rates in ([100.0, 100.0, 200.0, 200.0], [100.0] * 4, [150.0] * 4))
    assert list(estimators.of_parts(victim, [both, first, mean], 1) >= -1.0) == [True, True, True]
    assert list(estimators.of_parts(victim, [both, first, mean], 2) >= -1.0) == [True, False, False]
    # One part is a single measurement.
    assert estimators.of_parts(victim, [first], 1) == pytest.approx(estimators.distances(victim, np.array([100.0])))


def attack(kind: str, estimator: dict[str, object], conclusion: dict[str, object]) -> model.Attack:
    adversary = {"controls": ["server", "clients"], "victims": "test", "probes": "probe"}
    table = {"name": "one", "title": "One", "adversary": adversary, "measurement": {"what": "throughput"}}
    return model.read([table | {"estimator": {"kind": kind} | estimator, "conclusion": conclusion}], "mine.toml")[0]


def run_of(transfers: pl.DataFrame) -> Run:
    """A run with downloads only, for estimators that use no other table."""
    empty = pl.DataFrame()
    return Run("one", "", 1, transfers, empty, empty, empty.lazy(), None)  # type: ignore[arg-type]


def test_a_false_elimination_loses_no_entropy_and_is_counted() -> None:
    of_rate = attack("rate", {}, {"kind": "set", "at_least": 0.5})
    names = ("a", "b", "c", "d")
    right, wrong = (Guess(f"v{truth}", truth, names, np.array([1.0, 0.0, 0.0, 0.0])) for truth in (0, 1))
    run = run_of(pl.DataFrame())
    made = [(run, right), (run, right), (run, right), (run, wrong)]
    rows = pl.DataFrame(conclusions.rows_of(of_rate, "one", made), conclusions.VICTIM, orient="row")
    assert rows["entropy_lost"].to_list() == [2.0, 2.0, 2.0, None]
    # A wrong elimination removes as many candidates as a right one.
    assert rows["eliminated"].to_list() == [2.0] * 4
    leak = conclusions.leak_of(of_rate, "one", "one", rows, 3)
    assert (leak["entropy_lost"], leak["false_eliminations"], leak["left_out"]) == (2.0, 0.25, 3)
    assert 0.0 <= leak["false_eliminations_low"] <= leak["false_eliminations_high"] <= 1.0


def test_an_empty_set_eliminates_all_but_one_candidate_and_loses_no_entropy() -> None:
    of_rate = attack("rate", {}, {"kind": "set", "at_least": 2.0})
    guess = Guess("v", 0, ("a", "b", "c", "d"), np.array([1.0, 0.0, 0.0, 0.0]))
    [row] = conclusions.rows_of(of_rate, "one", [(run_of(pl.DataFrame()), guess)])
    assert (row["entropy_lost"], row["eliminated"]) == (0.0, 2.0)


def test_a_decision_has_no_entropy_lost() -> None:
    of_wave = attack("wave", {}, {"kind": "decision"})
    run = run_of(pl.DataFrame())
    made = [(run, Guess(f"v{k}", k % 2, (NO, YES), np.array([0.5, float(k % 2)]))) for k in range(8)]
    rows = pl.DataFrame(conclusions.rows_of(of_wave, "one", made), conclusions.VICTIM, orient="row")
    leak = conclusions.leak_of(of_wave, "one", "one", rows, 0)
    assert np.isnan(leak["entropy_lost"])
    assert np.isnan(leak["false_eliminations"])
    assert leak["true_positive_rate"] == 1.0


def test_a_variant_without_guesses_has_only_victims_that_are_left_out() -> None:
    of_wave = attack("wave", {}, {"kind": "decision"})
    leak = conclusions.leak_of(of_wave, "one", "one", pl.DataFrame(schema=conclusions.VICTIM), 80)
    assert (leak["victims"], leak["left_out"]) == (0, 80)
    assert np.isnan(leak["gain"])


def test_two_slow_circuits_are_linked() -> None:
    of_linked = attack("linked", {"largest": 100}, {"kind": "decision"})
    times = {("both", "test-a"): 4.0, ("both", "test-b"): 5.0, ("x", "test-a"): 4.0, ("y", "test-a"): 1.0}
    rows = [
        {"client": client, "workload": workload, "bytes": 100, "ttlb_s": time, "start_s": 1.0}
        for (client, workload), time in times.items()
    ]
    found = estimators.guesses(of_linked, run_of(pl.DataFrame(rows)))
    assert [(guess.victim, guess.truth) for guess in found] == [("both", 1), ("x+y", 0)]
    assert found[0].scores[1] == pytest.approx(-np.log(25))
    assert found[0].scores[1] > found[1].scores[1]


@pytest.mark.parametrize("known", [True, False])
def test_an_observer_of_both_ends_finds_the_client_only_if_the_ends_agree(known: bool) -> None:
    rng = np.random.default_rng(5)
    names = [f"c{k}" for k in range(8)]
    at, cells, clients = np.arange(40) * 0.1, [], []
    for k, name in enumerate(names):
        counts = rng.integers(0, 20, size=40)
        # The client receives the cells of the exit one interval later, or the observer sees another client.
        arrived = np.roll(counts, 1) if known else rng.integers(0, 20, size=40)
        clients += [
            {"client": name, "t_s": t + 0.1, "received_bytes": int(n) * 498} for t, n in zip(at, arrived, strict=True)
        ]
        times = np.repeat(at, counts) + 0.05
        table = pl.DataFrame({"cell": np.arange(times.size), "kernel_ns": (times * 1e9).astype(int)})
        cells.append(table.with_columns(circuit=k, hop=pl.lit("exit")))
    transfers = pl.DataFrame({"client": names, "workload": "test", "circuit": range(8), "bytes_received": 1})
    paths = pl.DataFrame({"circuit": range(8), "guard": "g", "middle": "m", "exit": "e"})
    run = Run("one", "", 1, transfers, paths, pl.DataFrame(clients), pl.concat(cells).lazy(), None)  # type: ignore[arg-type]
    one = {
        "name": "one",
        "title": "One",
        "conclusion": {"kind": "rank"},
        "estimator": {"kind": "ends", "lag": "200 ms"},
    }
    one |= {"adversary": {"controls": ["exit", "guard"], "victims": "test"}}
    one |= {"measurement": {"what": "throughput", "at": "exit", "period": "100 ms"}}
    found = estimators.guesses(model.read([one], "mine.toml")[0], run)
    ranks = [guess.rank for guess in found]
    assert len(ranks) == 8
    assert (ranks == [1] * 8) is known
    assert known or float(np.mean(ranks)) > 2


GUARDS = 8
"""The guards of `run_with_backlogs`."""


def run_with_backlogs(rng: np.random.Generator, *, own: bool, reported: bool) -> Run:
    """Sixteen victims and a probe through each of eight guards, whose queues differ.

    The two estimates of a victim's exit follow the queue of the victim's guard, or a queue that no probe sees.
    """
    queues = rng.gamma(2.0, 3.0, size=(GUARDS, 60))
    clients = [(f"v{k:02}", "test", k % GUARDS) for k in range(16)] + [(f"p{k}", "probe", k) for k in range(GUARDS)]
    samples, transfers, paths, received = [], [], [], []
    for number, (client, workload, guard) in enumerate(clients):
        blind = rng.gamma(2.0, 3.0, size=(2, 60))
        is_probe = workload == "probe"
        next_cells = queues[guard] if own or is_probe else blind[0]
        # A victim's report has small errors, and arrives one interval later.
        beyond = np.roll(queues[guard], 0 if is_probe else 1) if reported or is_probe else blind[1]
        for hop in ("exit", "guard"):
            # The guard's own estimate is no knowledge of the exit.
            table = {"circuit": number, "hop": hop, "t_s": np.arange(60) + 0.5}
            noisy = next_cells + rng.normal(0, 0.5, 60), beyond + rng.normal(0, 0.5, 60)
            at_guard = queues[guard], queues[guard]
            own_cells, beyond_cells = noisy if hop == "exit" else at_guard
            samples.append(pl.DataFrame(table | {"backlog_cells": own_cells, "backlog_beyond_cells": beyond_cells}))
        transfers.append({"client": client, "workload": workload, "circuit": number, "bytes_received": 1})
        paths.append({"circuit": number, "client": client, "guard": f"g{guard}", "middle": "m", "exit": "e"})
        received += [{"client": client, "t_s": float(t + 1), "received_bytes": 498} for t in range(60)]
    sampled = SimpleNamespace(
        guards=[f"g{k}" for k in range(GUARDS)],
        workloads={of: [name for name, workload, _ in clients if workload == of] for of in ("test", "probe")},
    )
    cells = pl.DataFrame(schema={"hop": pl.String, "kernel_ns": pl.Int64, "cell": pl.Int64, "circuit": pl.Int64})
    run = replace(
        run_of(pl.DataFrame(transfers)),
        paths=pl.DataFrame(paths),
        clients=pl.DataFrame(received),
        cells=cells.lazy(),
        samples=pl.concat(samples),
    )
    # The cached property has the sampled network, so that no document is needed.
    run.__dict__["sampled"] = sampled
    return run


def backlog_attack(reading: str, **estimator: object) -> model.Attack:
    table = {
        "name": "one",
        "title": "One",
        "adversary": {"controls": ["exit", "clients", "circuits"], "victims": "test", "probes": "probe"},
        "measurement": {"what": "backlog", "at": "exit", "reading": reading},
        "estimator": {"kind": "correlation", "lag": "2 s"} | estimator,
        "conclusion": {"kind": "rank"},
    }
    return model.read([table], "mine.toml")[0]


@pytest.mark.parametrize(
    ("reading", "own", "reported", "known"),
    [
        ("own", True, False, True),
        ("own", False, True, False),
        ("reported", False, True, True),
        ("reported", True, False, False),
        ("largest", True, True, True),
        ("largest", False, False, False),
    ],
)
def test_a_backlog_reveals_the_guard_only_if_its_reading_follows_the_guards_queue(
    reading: str, own: bool, reported: bool, known: bool
) -> None:
    rng = np.random.default_rng(7)
    run = run_with_backlogs(rng, own=own, reported=reported)
    found = estimators.guesses(backlog_attack(reading), run)
    assert [guess.names[guess.truth] for guess in found] == [f"g{k % GUARDS}" for k in range(16)]
    made = [(run, guess) for guess in found]
    gain = float(np.mean([row["gain"] for row in conclusions.rows_of(backlog_attack(reading), "one", made)]))
    if known:
        assert [guess.rank for guess in found] == [1] * 16
        assert gain > 2.5
    else:
        assert gain < 0.5
        assert conclusions.p_value(made) > 0.01


LAST_HOP = """
[scenario]
title = "The last hop becomes the bottleneck"
[run]
seeds = [1]
duration = "24 s"
[trace]
workloads = ["bulk"]
interval = "10 ms"
[network]
rtt = "60 ms"
[relay]
refill = "10 ms"
bandwidth_rate = "2 MiB/s"
bandwidth_burst = "64 KiB"
transport = "datagram"
edge_control = { kind = "windows", ends = "suppressed" }
scheduler = { kind = "vanilla", outbuf_low = "1 KiB", outbuf_high = "1 KiB" }
[relays.entry]
[relays.middle]
[relays.exit]
bandwidth_rate = "800 KiB/s"
bandwidth_burst = "16 KiB"
[client]
path = ["entry", "middle", "exit"]
refill = "10 ms"
bandwidth_rate = "2 MiB/s"
bandwidth_burst = "64 KiB"
transport = "datagram"
edge_control = { kind = "windows", ends = "suppressed" }
[servers.destination]
[workloads.bulk]
size = "1 GiB"
[clients.bulk]
workload = "bulk"
[[changes]]
at = "20 s"
set = { "clients.bulk.bandwidth_rate" = "200 KiB/s", "clients.bulk.bandwidth_burst" = "4 KiB" }
[[variants]]
name = "marut"
set = { "relay.hop_control" = "marut", "client.hop_control" = "marut" }
[[variants]]
name = "backtap"
set = { "relay.hop_control" = "backtap", "client.hop_control" = "backtap" }
[[variants]]
name = "n23"
set = { "relay.hop_control" = "n23", "client.hop_control" = "n23" }
"""


def test_the_table_has_diff_of_each_hop_and_the_c_diff_that_the_next_hop_sent(
    penstock: Command, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(LAST_HOP)
    assert penstock("run", "mine.toml", "--out", "one", "--no-report").status == 0
    rows = pl.read_parquet(tmp_path / "one" / "circuits.parquet")
    columns = ["backlog_cells", "backlog_beyond_cells"]
    at = {(name, hop): rows.filter(variant=name, hop=hop) for name in ("marut", "backtap", "n23") for hop in ALONG}
    before = at["marut", "exit"].filter(pl.col("t_s").is_between(10, 20)).select(columns)
    assert before.drop_nulls().height == before.height
    assert max(before.max().row(0)) < 1.0
    # c_diff has 16 bits and steps of 1/64 cell. The middle sends the larger one of its own diff and the guard's c_diff.
    sent = at["marut", "middle"].select(pl.max_horizontal(columns) * 64).to_series().drop_nulls()
    reports = (at["marut", "exit"]["backlog_beyond_cells"].drop_nulls() * 64).unique()
    assert reports.is_in(sent.floor().clip(upper_bound=65535).implode()).mean() > 0.9  # type: ignore[operator]
    assert reports.max() > 640  # type: ignore[operator]
    # The client is the last node, and BackTap has no reports.
    assert at["marut", "client"].select(pl.col(columns).count()).row(0) == (0, 0)
    assert at["backtap", "exit"]["backlog_cells"].max() > 10  # type: ignore[operator]
    assert at["backtap", "exit"]["backlog_beyond_cells"].count() == 0
    assert at["n23", "exit"].select(pl.col(columns).count()).row(0) == (0, 0)


def test_without_reports_the_reading_is_the_own_estimate_and_an_interval_without_a_sample_keeps_the_last_one() -> None:
    values = [None, 4.0, None, 8.0]
    samples = pl.DataFrame({"circuit": 3, "hop": "exit", "t_s": [0.5, 1.2, 1.5, 3.5], "backlog_cells": values})
    samples = samples.with_columns(backlog_beyond_cells=pl.lit(None, pl.Float64))
    run = replace(run_of(pl.DataFrame()), samples=samples)
    borders = np.arange(5.0)
    for reading in ("own", "reported", "largest"):
        found = measurement.backlog(run, {"a": 3, "b": 4}, borders, reading)
        assert {name: list(series) for name, series in found.items()} == {"a": [4.0, 4.0, 4.0, 8.0]}
    reports = samples.with_columns(backlog_beyond_cells=pl.Series([1.0, 6.0, None, 2.0]))
    run = replace(run_of(pl.DataFrame()), samples=reports)
    found = {reading: measurement.backlog(run, {"a": 3}, borders, reading)["a"] for reading in measurement.READINGS}
    assert list(found["reported"]) == [1.0, 6.0, 6.0, 2.0]
    assert list(found["largest"]) == [1.0, 6.0, 6.0, 8.0]


def test_the_scores_of_feedback_and_throughput_are_added_for_equal_candidates() -> None:
    one, other = (Guess("v", 0, ("a", "b"), np.array(scores)) for scores in ([0.5, 0.1], [0.25, 0.5]))
    alone = Guess("w", 0, ("a", "b"), np.array([1.0, 0.0]))
    third = Guess("w", 0, ("a", "c"), np.array([1.0, 0.0]))
    [added] = estimators._added([one, alone], [other, third])
    assert (added.victim, list(added.scores)) == ("v", [0.75, 0.6])


@pytest.mark.parametrize(("speed", "right"), [(4.0, True), (1.0, False)])
def test_faster_downloads_reveal_the_guard_only_if_it_is_faster(speed: float, right: bool) -> None:
    rng = np.random.default_rng(6)
    of_speed = attack("speed", {"guard": "quick"}, {"kind": "decision"})
    names = [f"c{k:02}" for k in range(40)]
    guards = ["quick1" if k % 2 else "slow1" for k in range(40)]
    times = [rng.lognormal(0.0, 0.3) / (speed if guard == "quick1" else 1.0) for guard in guards]
    transfers = pl.DataFrame({"client": names, "workload": "test", "bytes": 100, "ttlb_s": times, "start_s": 1.0})
    transfers = transfers.with_columns(circuit=pl.int_range(40), bytes_received=100)
    paths = pl.DataFrame({"circuit": range(40), "guard": guards, "middle": "m", "exit": "e"})
    run = Run("one", "", 1, transfers, paths, pl.DataFrame(), pl.LazyFrame(), None)  # type: ignore[arg-type]
    found = estimators.guesses(of_speed, run)
    assert [guess.truth for guess in found] == [k % 2 for k in range(40)]
    correct = np.mean([(guess.scores[1] > guess.scores[0]) == guess.truth for guess in found])
    assert bool(correct > 0.9) is right
    if not right:
        assert 0.3 < correct < 0.7


def test_a_server_measures_the_time_until_the_next_request() -> None:
    # Responses of 100, 300 and 50 B; the client asks for them at 1, 3, 6 and 7 s.
    rows = [
        {"client": "a", "workload": "form", "start_s": at, "connect_s": 1.0, "bytes_received": size}
        for at, size in zip((0.0, 2.0, 5.0, 6.0), (100, 300, 50, 10), strict=True)
    ]
    once = {"client": "b", "workload": "form", "start_s": 1.0, "connect_s": 1.0, "bytes_received": 100}
    found = measurement.served(run_of(pl.DataFrame([*rows, once])), "form", np.array([0.0, 1.0, 2.0, 4.0, 7.0, 9.0]))
    assert found == {"a": pytest.approx([50.0, 50.0, 75.0, 250 / 3, 50.0])}


def test_an_observer_of_guards_finds_the_one_that_writes_when_the_victim_receives(
    penstock: Command, tmp_path: Path
) -> None:
    start, end = (SCENARIO.index(section) for section in ("[clients.probe]", "[[attacks]]"))
    observed = SCENARIO[:start] + SCENARIO[end:]
    for old, new in (
        ('size = "1 GiB"', 'size = "100 KiB"\npause = "uniform(1 s, 5 s)"'),
        ("40 KiB/s", "400 KiB/s"),
        ("count = 3", "count = 1"),
        ('"server", "clients"], victims = "bulk", probes = "probe"', '"guard"], victims = "bulk"'),
        ('"throughput", period = "5 s"', '"throughput", guards = "relay", period = "1 s"'),
        ('"rate"', '"correlation"'),
        ('"probabilities"', '"rank"'),
    ):
        assert old in observed
        observed = observed.replace(old, new)
    (tmp_path / "mine.toml").write_text(observed)
    done = penstock("attack", "mine.toml", "--out", "one", "--no-report")
    assert done.status == 0, done.err
    victims = pl.read_parquet(tmp_path / "one" / "victims.parquet")
    assert victims["truth"].to_list() == ["slow", "quick"] * 2
    assert victims["remaining"].to_list() == [1.0] * 4
    assert (victims["score"] > 0.8).all()
    done = penstock(
        "attack", "mine.toml", "--out", "one", "--no-report", "--set", 'attacks.rates.measurement.period="500 ms"'
    )
    assert done.status == 2
    assert "run.sample is 1 s, and measurement.period of guards = 'relay' 0.5 s" in sentence(done)


def test_a_server_finds_the_guard_of_clients_that_ask_again(penstock: Command, tmp_path: Path) -> None:
    asked = SCENARIO.replace('size = "1 GiB"', 'size = "400 KiB"', 1)
    (tmp_path / "mine.toml").write_text(asked.replace('"throughput", ', '"throughput", at = "server", '))
    # The links give probes the share of a guard that each client has.
    links = ["--set", 'clients.probe.link="100 KiB/s"', "--set", 'clients.b.link="100 KiB/s"']
    done = penstock("attack", "mine.toml", "--out", "one", "--no-report", "--json", *links)
    assert done.status == 0, done.err
    victims = pl.read_parquet(tmp_path / "one" / "victims.parquet")
    # Four downloads at a time through the slow guard last longer than the run, so their clients do not ask again.
    assert victims["truth"].to_list() == ["quick"] * 6
    assert json.loads(done.out)["leaks"][0]["left_out"] == 6
    assert (victims["auc"] == 1.0).all()


def place(name: str, place: int) -> dict[str, object]:
    return {"name": name, "place": place, "weight": 1, "guard": True, "tor": {"bandwidth": None}, "link_up": 1}


class Star:
    """A network in which the round trip between two places is the sum of their numbers [10 ms]; one way is faster."""

    def sampled(self, _variant: str, _seed: int) -> dict[str, object]:
        relays = [place(name, k) for k, name in enumerate(("guard", "middle", "exit"))]
        clients = [place(name, 3 + k) | {"workloads": [0]} for k, name in enumerate(("near", "far", "farther"))]
        edges = [(a, b, (0.004 if a < b else 0.006) * (a + b)) for a in range(7) for b in range(7)]
        servers = [place("server", 6)]
        return {
            "relays": relays,
            "clients": clients,
            "servers": servers,
            "edges": edges,
            "workloads": [{"name": "ping"}],
        }


def test_the_estimate_of_a_latency_is_the_smallest_ping_without_the_known_hops() -> None:
    # guard 0, middle 1, exit 2, server 6: the known hops take 10 + 30 + 80 ms. "far" (4) is 40 ms away from the guard.
    trips = [0.25, 0.163, 0.2]
    rows = [
        {"client": "far", "workload": "ping", "start_s": at, "connect_s": trip, "circuit": 0, "bytes_received": 1}
        for at, trip in enumerate(trips, start=1)
    ]
    paths = pl.DataFrame({"circuit": [0], "guard": "guard", "middle": "middle", "exit": "exit"})
    empty = pl.DataFrame()
    run = Run("one", "", 1, pl.DataFrame(rows), paths, empty, empty.lazy(), Star())  # type: ignore[arg-type]
    one = {"name": "one", "title": "One", "conclusion": {"kind": "rank"}}
    one |= {"adversary": {"controls": ["server"], "victims": "ping"}, "measurement": {"what": "round-trip"}}
    one |= {"estimator": {"kind": "latency", "server": "server", "resolution": "1 ms"}}
    [guess] = estimators.guesses(model.read([one], "mine.toml")[0], run)
    assert guess.names == ("near", "far", "farther")
    assert guess.truth == 1
    assert guess.facts["estimate_s"] == pytest.approx(0.043)
    assert guess.facts["error_s"] == pytest.approx(0.003)
    assert guess.facts["pings"] == 2
    assert list(guess.scores) == pytest.approx([-0.013, -0.003, -0.007])


def test_the_best_ping_is_the_first_one_near_the_smallest() -> None:
    trips = np.array([0.3, 0.2, 0.1005, 0.15, 0.1])
    assert estimators.best_ping(trips, 0.001) == (0.1, 3)
    assert estimators.best_ping(trips, 0.0001) == (0.1, 5)


@pytest.mark.parametrize(("effect", "found"), [(0.05, True), (0.0, False)])
def test_a_wave_in_pings_is_found_where_there_is_one(effect: float, found: bool) -> None:
    rng = np.random.default_rng(4)
    at = np.arange(0.0, 400.0, 1.0)
    active = (at % 20.0) < 10.0
    trips = 0.2 + effect * active + rng.exponential(0.02, size=at.size)
    rhythm = wave.Wave(np.arange(0.0, 400.0, 20.0), 20.0)
    _, p = wave.confirm(estimators._halves(at, -trips, rhythm))
    assert (p < 0.01) is found


@pytest.mark.parametrize("name", catalog.with_attacks())
def test_the_attacks_of_shipped_scenarios_are_valid(name: str) -> None:
    assert model.of_scenario(name)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"5 s"', "5", "a duration with its unit"),
        ('"rate"', '"rates"', "estimator"),
        ('"probabilities"', '"decision"', "conclusion.kind is 'decision'; the estimator 'rate' needs set, rank"),
        (', probes = "probe"', "", "adversary.probes is missing"),
        ('what = "throughput"', 'what = "round-trip"', "measurement.what must be 'throughput'"),
        ('begin = "10 s"', 'at = "exit"', "add 'exit' to adversary.controls"),
        (
            '"server", "clients"], victims = "bulk", probes = "probe" }\nmeasurement = { what',
            '"clients"], victims = "bulk", probes = "probe" }\nmeasurement = { at = "server", what',
            "add 'server' to adversary.controls",
        ),
        ('what = "throughput"', 'what = "backlog"', "it needs at = 'exit' and the estimator 'correlation'"),
        ('kind = "rate"', 'kind = "correlation", with_throughput = true', "needs measurement.what = 'backlog'"),
        ('begin = "10 s"', 'guards = "relay"', "it needs what = 'throughput' and the estimator 'correlation'"),
        (
            'begin = "10 s" }\nestimator = { kind = "rate" }',
            'guards = "relay" }\nestimator = { kind = "correlation" }',
            "add 'guard' to adversary.controls",
        ),
    ],
)
def test_a_mistake_in_an_attack_is_a_sentence(tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = tmp_path / "mine.toml"
    assert SCENARIO.count(old) == 1
    path.write_text(SCENARIO.replace(old, new))
    with pytest.raises(PenstockError, match=r"mine\.toml: attacks") as error:
        model.of_scenario(str(path))
    assert expected in str(error.value)


def test_a_scenario_without_attacks_is_refused(penstock: Command, small: Path) -> None:
    assert sentence(penstock("attack", small)).endswith(
        "has no [[attacks]]; penstock list attacks shows the scenarios with attacks"
    )


def test_a_bandwidth_replaces_the_probe_only_in_the_named_variants(penstock: Command, tmp_path: Path) -> None:
    variants = '[[variants]]\nname = "plain"\n[[variants]]\nname = "other"\n'
    table = SCENARIO.replace('kind = "rate"', 'kind = "rate", bandwidth_of = ["plain"]') + variants
    (tmp_path / "mine.toml").write_text(table)
    # The probe of the quick guard is slow, but its bandwidth is known.
    slowed = ["--set", 'clients.probe.link="20 KiB/s"', "--set", "clients.a.count=1", "--set", "clients.b.count=1"]
    done = penstock("attack", "mine.toml", "--out", "one", "--no-report", *slowed)
    assert done.status == 0, done.err
    victims = pl.read_parquet(tmp_path / "one" / "victims.parquet").filter(truth="quick")
    auc = dict(victims.group_by("variant").agg(pl.col("auc").mean()).iter_rows())
    assert auc["plain"] == 1.0
    assert auc["other"] < 1.0


def test_an_attack_writes_its_tables_and_repeats_to_the_byte(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SCENARIO)
    done = penstock("attack", "mine.toml", "--out", "one", "--json")
    assert done.status == 0, done.err
    [leak] = json.loads(done.out)["leaks"]
    assert leak["victims"] == 12
    assert leak["left_out"] == 0
    assert leak["prior"] == 1.0
    # The rates of the guards differ by ten times.
    assert leak["gain"] > 0.7
    assert leak["p"] < 0.05
    victims = pl.read_parquet(tmp_path / "one" / "victims.parquet")
    assert set(victims["truth"]) == {"slow", "quick"}
    left = study.anonymity(Result(tmp_path / "one"), "default", "bulk", "rates")
    gains = victims.group_by("seed").agg(pl.col("gain").mean()).sort("seed")["gain"]
    assert left["value"].to_list() == pytest.approx([0.5**gain for gain in gains])
    assert (tmp_path / "one" / "figures" / "leaks.png").exists()
    assert f"Gain of rates [bit]: default {leak['gain']:.2f}." in (tmp_path / "one" / "report.html").read_text()
    assert penstock("attack", "mine.toml", "--out", "two", "--threads", "1", "--jobs", "1", "--no-report").status == 0
    for table in ("victims", "leaks"):
        one, two = (tmp_path / name / f"{table}.parquet" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
    # A finished directory is evaluated again without runs, with the present attacks.
    (tmp_path / "mine.toml").write_text(SCENARIO.replace('name = "rates"', 'name = "again"'))
    assert penstock("attack", "mine.toml", "--out", "two", "--no-report").status == 0
    assert set(pl.read_parquet(tmp_path / "two" / "leaks.parquet")["attack"]) == {"again"}
    (tmp_path / "mine.toml").write_text(SCENARIO.replace("40 KiB/s", "50 KiB/s"))
    assert "two was not made by the present mine.toml; choose another --out" in sentence(
        penstock("attack", "mine.toml", "--out", "two")
    )


def test_set_changes_an_attack_and_no_run(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SCENARIO)

    def begin_of(*sets: str) -> str:
        done = penstock("attack", "mine.toml", "--out", "one", "--no-report", *sets)
        assert done.status == 0, done.err
        [attack] = json.loads((tmp_path / "one" / "manifest.json").read_text())["attacks"]
        return str(attack["measurement"]["begin"])

    assert begin_of("--set", "attacks.rates.measurement.begin=20 s") == "20 s"
    transfers = tmp_path / "one" / "transfers.parquet"
    made = transfers.stat().st_mtime_ns
    late = pl.read_parquet(tmp_path / "one" / "victims.parquet")
    assert begin_of() == "10 s"
    assert not late.equals(pl.read_parquet(tmp_path / "one" / "victims.parquet"))
    assert begin_of("--set", 'attacks.rates.measurement.begin="20 s"') == "20 s"
    assert late.equals(pl.read_parquet(tmp_path / "one" / "victims.parquet"))
    assert transfers.stat().st_mtime_ns == made
    for wrong in ("attacks.other.title=x", "attacks.rates=x", "attacks.rates.title=", "attacks.rates.title.x=1"):
        said = sentence(penstock("attack", "mine.toml", "--out", "one", "--set", wrong))
        assert f"--set {wrong}: write attacks.NAME.KEY=VALUE; NAME is one of rates" in said
    shard = ["--shard", "1/2", "--out", "part"]
    said = sentence(penstock("attack", "mine.toml", *shard, "--set", "attacks.rates.title=x"))
    assert "a shard evaluates no attack; give this to the merged directory" in said
    said = sentence(penstock("attack", "mine.toml", "--out", "one", "--set", "attacks.rates.measurement.begin=20"))
    assert "--set attacks.rates.measurement.begin=20: attacks" in said


def test_an_overview_has_a_cell_for_each_measured_mechanism_and_a_reason_for_the_others(
    penstock: Command, tmp_path: Path
) -> None:
    named = 'mechanisms = { "windows" = "one", "N23" = "two" }\nelsewhere = "There is no more."\n'
    variants = '[[variants]]\nname = "one"\n[[variants]]\nname = "two"\n'
    (tmp_path / "mine.toml").write_text(SCENARIO + named + variants)
    (tmp_path / "other.toml").write_text(
        SCENARIO.replace('"rates"', '"others"') + 'mechanisms = { "EWMA" = "default" }\n'
    )
    assert penstock("attack", "mine.toml", "--out", "one", "--variant", "one", "--no-report").status == 0
    assert penstock("attack", "other.toml", "--out", "two", "--no-report").status == 0
    (tmp_path / "empty").mkdir()
    assert "has no leaks.parquet; run penstock attack" in sentence(penstock("leaks", "one", "empty"))
    done = penstock("leaks", "one", "two")
    assert done.status == 0, done.err
    gains = [pl.read_parquet(tmp_path / name / "leaks.parquet")["gain"][0] for name in ("one", "two")]
    lines = done.out.splitlines()
    assert lines[0] == "| attack | windows | N23 | EWMA |"
    assert [cell.split(" (")[0].strip() for cell in lines[2].split("|")[1:-1]] == ["`rates`", f"{gains[0]:.2f}", "", ""]
    assert [cell.split(" (")[0].strip() for cell in lines[3].split("|")[1:-1]] == [
        "`others`",
        "",
        "",
        f"{gains[1]:.2f}",
    ]
    assert "- `rates`: There is no more. No victim with a guess, or no run: N23." in lines
    assert "- `others`: The scenario has no variant with these mechanisms." in lines


def test_points_of_a_paper_stand_behind_the_curve_of_victims(penstock: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO)
    assert penstock("attack", path, "--runs", "1", "--out", "one", "--no-report").status == 0
    point = printed.Point(
        figure="4b", scenario="mine", workload="bulk", measure="attack_entropy_lost", variant="default", share=0.5,
        value=0.25, how="text",
    )  # fmt: skip
    picture = draw(Result(tmp_path / "one"), [point])
    assert picture is not None
    assert picture.name == "figure-4b-bulk-entropy-lost"
    assert "default, the paper: 50% within 0.25 bit." in picture.alt
    # There is no such measure.
    assert draw(Result(tmp_path / "one"), [point.model_copy(update={"measure": "attack_none"})]) is None
