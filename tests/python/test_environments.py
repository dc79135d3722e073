"""Generated environments have the quantiles of the exact ones: of networks that `penstock network` makes from files."""

import random
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from conftest import program

from penstock.networks import file

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "crates" / "network" / "data"
PER_KIND = 71
KINDS = ("relay", "client", "server")
PAIRS = ("relay-relay", "client-relay", "relay-server", "client-server")
RELAYS = 400
MANY = 1 << 30
"""A token bucket that limits no relay [B/s]."""


@pytest.fixture(scope="module")
def bench() -> dict[str, Any]:
    return program("environments")


def row(table: str, name: str, group: str, quantity: str) -> list[int]:
    """The values of a row of the generators' tables."""
    start = f"{name},{group},{quantity},"
    lines = (TABLES / f"{table}.csv").read_text().splitlines()
    return [int(value) for value in next(line for line in lines if line.startswith(start)).removeprefix(start).split()]


def spread(values: list[int], count: int, rng: random.Random | None = None, *, logarithm: bool = False) -> list[float]:
    """Values at the middle of `count` equal parts of the distribution, shuffled by `rng`."""
    ranks = (np.arange(count) + 0.5) / count
    known = np.log(values) if logarithm else np.array(values, float)
    found = np.interp(ranks, np.linspace(0, 1, len(values)), known)
    drawn = [float(value) for value in (np.exp(found) if logarithm else found)]
    if rng:
        rng.shuffle(drawn)
    return drawn


def files(environment: str, year: str) -> tuple[str, str]:
    """A topology and hosts of Shadow, whose distributions are those of the rows of an environment and an era."""
    rng = random.Random(1)  # noqa: S311
    names = ["packetloss", "bandwidthdown", "bandwidthup", "latency"]
    graph = ["<graphml>", *(f'<key id="{name}" attr.name="{name}"/>' for name in names)]
    graph.append('<graph edgedefault="undirected">')
    down, up = (spread(row("environments", environment, "client", key), PER_KIND) for key in ("down", "up"))
    for kind in KINDS:
        losses = spread(row("environments", environment, kind, "loss"), PER_KIND, rng)
        for place, loss in enumerate(losses):
            data = {"packetloss": loss / 1e6, "bandwidthdown": round(down[place]), "bandwidthup": round(up[place])}
            facts = "".join(f'<data key="{name}">{value}</data>' for name, value in data.items())
            graph.append(f'<node id="{kind}{place}">{facts}</node>')
    ways: dict[str, list[tuple[str, str]]] = {}
    places = [(kind, place) for kind in KINDS for place in range(PER_KIND)]
    for number, (one, first) in enumerate(places):
        for other, second in places[number:]:
            pair = next((pair for pair in PAIRS if set(pair.split("-")) == {one, other}), "client-relay")
            ways.setdefault(pair, []).append((f"{one}{first}", f"{other}{second}"))
    for pair, ends in ways.items():
        latencies = spread(row("environments", environment, pair, "latency"), len(ends), rng)
        for (source, target), latency in zip(ends, latencies, strict=True):
            fact = f'<data key="latency">{max(latency, 1000) / 1000}</data>'
            graph.append(f'<edge source="{source}" target="{target}">{fact}</edge>')
    hosts = ["<shadow>"]
    counts = {name: row("eras", year, name, "relays")[0] for name in ("plain", "guard", "exit", "both")}
    for name, count in counts.items():
        of_class = round(RELAYS * count / sum(counts.values()))
        for number, rate in enumerate(spread(row("eras", year, name, "capacity"), of_class, logarithm=True)):
            guard = "guard" if name in ("guard", "both") else ""
            role = "exitrelay" if name in ("exit", "both") else "relay"
            arguments = f"{role} 10 --BandwidthRate {MANY} --BandwidthBurst {MANY}"
            links = f'bandwidthdown="{round(rate)}" bandwidthup="{round(rate)}"'
            hosts.append(_host(f"r{guard}{name}{number}x", f"relay{number % PER_KIND}", arguments, links))
    for kind, arguments in (("client", "client 10240 -f x"), ("server", "server 80 x")):
        hosts += [_host(f"web{kind}{place}", f"{kind}{place}", arguments) for place in range(PER_KIND)]
    return "\n".join([*graph, "</graph></graphml>"]), "\n".join([*hosts, "</shadow>"])


def _host(name: str, place: str, arguments: str, links: str = "") -> str:
    application = f'<application plugin="x" arguments="{arguments}"/>'
    return f'<node id="{name}" geocodehint="{place}" {links}>{application}</node>'


@pytest.mark.parametrize(("environment", "year"), [("shadow-2014", "2013"), ("shadow-2012", "2012-04")])
def test_a_generated_environment_has_the_quantiles_of_the_exact_one(
    bench: dict[str, Any], environment: str, year: str, write: Any
) -> None:
    topology, hosts = files(environment, year)
    text = file.make(write("shadow.config.xml", hosts), graph=write("topology.graphml.xml", topology))
    exact = bench["exact"](tomllib.loads(text))
    generated = bench["generated"](year, environment, RELAYS, 20)
    # Links of relays also depend on token buckets, which these files do not have.
    del exact["link of relays [KiB/s]"]
    assert {"upload link of clients [KiB/s]", "bandwidth of relays [KiB/s]", "loss of servers' places"} < exact.keys()
    for name, rank, right, value in bench["compared"](exact, generated):
        assert value == pytest.approx(right, rel=0.1), f"{name} at {rank}"


def test_fitted_rows_have_the_quantiles_of_the_relays_and_few_values(bench: dict[str, Any]) -> None:
    rng = random.Random(3)  # noqa: S311
    flags = [(False, False)] * 30 + [(True, False)] * 20 + [(False, True)] * 12 + [(True, True)] * 9
    relays = [
        bench["Host"](guard, exit_, rate * rng.choice((1, 1, 3)), rate, 2 * rate, rate * rng.uniform(0.2, 3), "DE")
        for guard, exit_ in flags
        for rate in [1024 * rng.lognormvariate(5 + 2 * guard, 1)]
    ]
    rows = [line.split(",") for line in bench["rows"](relays, "1999", 5)]
    values = {(group, quantity): [int(value) for value in text.split()] for _, group, quantity, text in rows}
    assert [values[group, "relays"] for group in bench["CLASSES"]] == [[30], [20], [12], [9]]
    assert values["DE", "country"] == [71]
    assert values["all", "burst"] == [2000] * 11
    drawn: list[float] = []
    for group, count in zip(bench["CLASSES"], (30, 20, 12, 9), strict=True):
        drawn += spread(values[group, "capacity"], count, logarithm=True)
        assert len(values[group, "capacity"]) == 5
        assert abs(values[group, "limited"][0] / 1000 - 1 / 3) < 0.35
        for third in bench["THIRDS"]:
            assert values[group, f"link_{third}"][0] >= 1000
            assert values[group, f"weight_{third}"] == sorted(values[group, f"weight_{third}"])
    for rank in bench["TESTED"]:
        right = np.quantile([relay.capacity / 1024 for relay in relays], rank)
        assert np.quantile(drawn, rank) == pytest.approx(right, rel=0.25), rank


def test_shuffled_relays_exchange_their_places(bench: dict[str, Any]) -> None:
    relays = "".join(f'[relays.r{number}]\nweight = "1 B/s"\nplace = "p{number}"\n' for number in range(30))
    text = f'[clients.web]\nplace = "p0"\n\n{relays}'
    before, after = (tomllib.loads(each) for each in (text, bench["shuffled"](text, 1)))
    assert after["clients"] == before["clients"]
    places = [[relay["place"] for relay in each["relays"].values()] for each in (before, after)]
    assert places[0] != places[1]
    assert sorted(places[0]) == sorted(places[1])


def test_results_compare_runs_without_warm_up_and_unfinished_downloads(bench: dict[str, Any], tmp_path: Path) -> None:
    def output(name: str, times: list[float], written: int) -> Path:
        out = tmp_path / name
        out.mkdir()
        rows = len(times)
        key = {"variant": ["vanilla"] * rows, "network": [None] * rows, "seed": [1] * rows}
        ok = {"outcome": ["ok"] * (rows - 1) + ["unfinished"], "warmup": [True] + [False] * (rows - 1)}
        transfers = {**key, "start_s": [10.0 * row for row in range(rows)], "ttfb_s": times, **ok}
        relays = {**key, "t_s": [20.0] * rows, "written_bytes": [written] * rows}
        paths = {**key, "middle": ["m"] * rows, "exit": ["a"] + ["b"] * (rows - 1)}
        for table, columns in (("transfers", transfers), ("relays", relays), ("paths", paths)):
            polars.DataFrame(columns, schema_overrides={"network": polars.String}).write_parquet(
                out / f"{table}.parquet"
            )
        return out

    one = [output("one", [9.0, 2.0, 4.0, 9.0], 10**9), output("two", [9.0, 5.0, 5.0, 5.0], 3 * 10**9)]
    other = [output("other", [0.0, 2.0, 2.0, 50.0], 10**9)]
    table = {row[0]: row[1:] for row in bench["results"](one, other)}
    assert table["first byte, median [s]"] == ["3.00, 5.00", "4.00 ± 1.00", "2.00", "2.00 ± nan", "-50 %"]
    assert table["relay writes [GB]"][1] == "8.00 ± 4.00"
    assert [table[f"share of the busiest {place}"][2] for place in ("middle", "exit")] == ["1.00", "0.75"]
