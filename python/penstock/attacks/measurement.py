"""The measurements of an adversary in one run: throughput and backlog of circuits, and round trips of pings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from penstock import _core
from penstock.attacks.information import Floats
from penstock.attacks.model import Measurement
from penstock.attacks.probe import PAYLOAD
from penstock.errors import PenstockError
from penstock.result import Result


@dataclass(frozen=True)
class Run:
    """The tables of one run."""

    variant: str
    network: str
    seed: int
    transfers: pl.DataFrame
    paths: pl.DataFrame
    clients: pl.DataFrame
    cells: pl.LazyFrame
    """The table `cells`, which can be larger than the memory; read it inside `Result.reading`."""
    document: _core.Document
    samples: pl.DataFrame = field(default_factory=pl.DataFrame)
    """The table `circuits`."""
    relays: pl.LazyFrame = field(default_factory=pl.LazyFrame)
    """The table `relays`; read it inside `Result.reading`."""

    @cached_property
    def sampled(self) -> "Sampled":
        """The network of the run."""
        return Sampled(self.document, self.variant, int(self.network) if self.network else self.seed)

    def names(self, workload: str) -> list[str]:
        """The clients of a workload, in order."""
        return self.sampled.workloads.get(workload, [])

    @cached_property
    def circuits(self) -> dict[tuple[str, str], tuple[int, str, str, str]]:
        """For each client and workload, the circuit with the most bytes: its number, guard, middle and exit."""
        used = self.transfers.drop_nulls("circuit").group_by("client", "workload", "circuit")
        most = used.agg(pl.col("bytes_received").sum(), downloads=pl.len())
        # A circuit of pings is the one with the most pings.
        most = most.sort("bytes_received", "downloads", "circuit", descending=[True, True, False])
        most = most.unique(["client", "workload"], keep="first", maintain_order=True)
        rows = most.join(self.paths.select("circuit", "guard", "middle", "exit"), on="circuit")
        return {
            (row["client"], row["workload"]): (row["circuit"], row["guard"], row["middle"], row["exit"])
            for row in rows.iter_rows(named=True)
        }

    def first_relays(self, workload: str) -> dict[str, str]:
        """The first relay of each client of a workload, which uses a single one."""
        built = self.paths.filter(pl.col("client").is_in(self.names(workload)))
        return dict(built.select("client", "guard").iter_rows())


class Sampled:
    """The nodes and latencies of a sampled network."""

    def __init__(self, document: _core.Document, variant: str, seed: int) -> None:
        """Sample the network of a variant with this seed."""
        found = document.sampled(variant, seed)
        hosts = (*found["relays"], *found["clients"], *found["servers"])
        self._place = {host["name"]: host["place"] for host in hosts}
        # A dictionary of the edges would take twenty times the memory: 180 MB for a network of 1,000 places.
        places = max(self._place.values()) + 1
        self._delay = np.full((places, places), np.nan)
        for one, other, delay, *_ in found["edges"]:
            self._delay[one, other] = delay
        self.weights = {relay["name"]: float(relay["weight"]) for relay in found["relays"]}
        """The weight with which clients choose each relay."""
        self.bandwidths = {relay["name"]: _bandwidth(relay) for relay in found["relays"]}
        """The rate at which each relay can send [B/s]."""
        self.guards = [relay["name"] for relay in found["relays"] if relay["guard"]]
        """The relays that may be guards."""
        self.clients = [client["name"] for client in found["clients"]]
        """All clients."""
        self.workloads: dict[str, list[str]] = {}
        """The clients of each workload."""
        for client in found["clients"]:
            for index in client["workloads"]:
                self.workloads.setdefault(found["workloads"][index]["name"], []).append(client["name"])

    def rtt(self, one: str, other: str) -> float:
        """The round trip between two nodes without queues [s]."""
        a, b = self._place[one], self._place[other]
        return float(self._delay[a, b] + self._delay[b, a])


def _bandwidth(relay: Mapping[str, Any]) -> float:
    """The smaller one of the sending rate of a relay's link and its BandwidthRate [B/s]."""
    bucket = relay["tor"]["bandwidth"]
    return float(min(relay["link_up"], bucket[0]) if bucket else relay["link_up"])


def runs(result: Result, document: _core.Document, *, backlogs: bool) -> list[Run]:
    """The runs of an output, in the order of its variants, networks and seeds; with `samples` only for backlogs."""
    names = ("transfers", "paths", "clients", *(["circuits"] if backlogs else []))
    key = ["variant", "network", "seed"]
    parts = {name: getattr(result, name).partition_by(key, as_dict=True, include_key=False) for name in names}
    empty = {name: getattr(result, name).drop(key).clear() for name in names}
    order = {name: rank for rank, name in enumerate(result.variants)}
    found = sorted(parts["transfers"], key=lambda run: (order[run[0]], len(run[1]), *run[1:]))
    made = []
    for variant, network, seed in found:
        tables = {name: parts[name].get((variant, network, seed), empty[name]) for name in names}
        samples = tables.pop("circuits", pl.DataFrame())
        cells, relays = (
            result.scan(name).filter(variant=variant, network=network, seed=seed) for name in ("cells", "relays")
        )
        one = Run(variant, network, seed, **tables, cells=cells, document=document, samples=samples, relays=relays)
        made.append(one)
    return made


def edges(measurement: Measurement, end: float) -> Floats:
    """The borders of the intervals of a measurement [s]: whole periods between its begin and its end."""
    last = min(measurement.end, end)
    count = max(int((last - measurement.begin) / measurement.period + 1e-9), 0)
    return np.asarray(measurement.begin + measurement.period * np.arange(count + 1), dtype=np.float64)


def received(run: Run, names: Iterable[str], borders: Floats) -> dict[str, Floats]:
    """The rate at which each client receives payload in each interval [B/s]; the table `clients`."""
    return _rates(run.clients.rename({"client": "name", "received_bytes": "bytes"}), names, borders)


def written(run: Run, names: Iterable[str], borders: Floats) -> dict[str, Floats]:
    """The rate at which each relay writes to its sockets in each interval [B/s]; the table `relays`.

    Raises:
        PenstockError: if the table has longer intervals than `borders`.
    """
    rows = run.relays.select("t_s", name="relay", bytes="written_bytes").collect()
    sample = float(np.diff(rows["t_s"].unique().sort().to_numpy()).min(initial=np.inf))
    period = float(np.diff(borders).min(initial=np.inf))
    if period + 1e-9 < sample < np.inf:
        raise PenstockError(
            f"run.sample is {sample:g} s, and measurement.period of guards = 'relay' {period:g} s; "
            f"begin again with --set 'run.sample=\"{1e3 * period:g} ms\"'"
        )
    return _rates(rows, names, borders)


def _rates(rows: pl.DataFrame, names: Iterable[str], borders: Floats) -> dict[str, Floats]:
    """The rate of each name in each interval [B/s], from rows with the end `t_s` of an interval and its `bytes`."""
    wanted = list(names)
    series = {name: np.zeros(len(borders) - 1) for name in wanted}
    for (name,), of_name in rows.filter(pl.col("name").is_in(wanted)).group_by("name", maintain_order=True):
        middle = of_name["t_s"].to_numpy() - 1e-6
        series[str(name)] = np.histogram(middle, borders, weights=of_name["bytes"].to_numpy())[0].astype(float)
    return {name: counts / np.diff(borders) for name, counts in series.items()}


def served(run: Run, workload: str, borders: Floats) -> dict[str, Floats]:
    """The rate at which a server sees each client receive, in each interval [B/s]; the table `transfers`.

    The server sends a response and waits for the client's next request, which the response triggers. Its size over this
    time is the circuit's rate during this time. Before the first and after the last such time, the nearest rate counts.
    Clients with fewer than two requests are left out.

    Source: throttling section 5.1, "Testing Circuit Throughput".

    Deviation: a request counts from the time at which the client has its CONNECTED, half a round trip later than the
    server sees it. Only the change of this half counts, because a rate needs the difference of two such times.
    """
    series = {}
    connected = pl.col("connect_s").is_not_null()
    asked = run.transfers.filter(pl.col("workload") == workload, connected)
    asked = asked.select("client", "bytes_received", at=pl.col("start_s") + pl.col("connect_s")).sort("at")
    for (name,), of_client in asked.group_by("client", maintain_order=True):
        at, sizes = of_client["at"].to_numpy(), of_client["bytes_received"].to_numpy()[:-1]
        if len(sizes):
            rates = sizes / np.diff(at)
            # The bytes until a time grow linearly between two requests.
            arrived = np.interp(borders, at, np.concatenate([[0.0], np.cumsum(sizes)]))
            arrived += np.minimum(borders - at[0], 0.0) * rates[0] + np.maximum(borders - at[-1], 0.0) * rates[-1]
            series[str(name)] = np.diff(arrived) / np.diff(borders)
    return series


def sent(run: Run, circuits: dict[str, int], borders: Floats) -> dict[str, Floats]:
    """The rate at which the exit of each circuit sends payload in each interval [B/s]; the table `cells`.

    The table has some of the cells of a circuit, such as every fourth one, which stand for all.
    """
    there = run.cells.filter(pl.col("hop") == "exit", pl.col("kernel_ns").is_not_null())
    rows = there.select("circuit", "cell", "kernel_ns").collect()
    numbers = rows["cell"].to_numpy()
    step = int(numbers[numbers > 0].min()) if (numbers > 0).any() else 1
    of_circuit = {circuit: cells for (circuit,), cells in rows.group_by("circuit")}
    series = {}
    for name, circuit in circuits.items():
        times = of_circuit[circuit]["kernel_ns"].to_numpy() / 1e9 if circuit in of_circuit else np.empty(0)
        series[name] = np.histogram(times, borders)[0] * step * PAYLOAD / np.diff(borders)
    return series


READINGS = {
    "own": pl.col("backlog_cells"),
    "reported": pl.coalesce("backlog_beyond_cells", "backlog_cells"),
    "largest": pl.max_horizontal("backlog_beyond_cells", "backlog_cells"),
}
"""The readings of a backlog [cell]: the exit's own estimate; the next relay's report, or the own estimate without such
reports; the larger one of both."""


def backlog(run: Run, circuits: Mapping[str, int], borders: Floats, reading: str) -> dict[str, Floats]:
    """The mean backlog that the exit of each circuit knows in each interval [cell]; the table `circuits`.

    An interval without a sample has the number before it. Circuits without any sample are left out.
    """
    rows = run.samples.filter(pl.col("hop") == "exit", pl.col("circuit").is_in(list(circuits.values())))
    rows = rows.select("circuit", "t_s", value=READINGS[reading].cast(pl.Float64)).drop_nulls("value")
    of_circuit = {circuit: samples for (circuit,), samples in rows.group_by("circuit", maintain_order=True)}
    series = {}
    for name, circuit in circuits.items():
        if circuit in of_circuit:
            times, values = (of_circuit[circuit][column].to_numpy() for column in ("t_s", "value"))
            counts, sums = np.histogram(times, borders)[0], np.histogram(times, borders, weights=values)[0]
            if counts.any():
                means = pl.Series(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))
                filled = means.fill_nan(None).fill_null(strategy="forward").fill_null(strategy="backward")
                series[name] = filled.to_numpy()
    return series


def pings(run: Run, workload: str, measurement: Measurement) -> dict[str, tuple[Floats, Floats]]:
    """The times of each client's pings and their round trips [s].

    A ping is the smallest possible download, and its round trip is the time until CONNECTED.
    """
    rows = run.transfers.filter(
        pl.col("workload") == workload,
        pl.col("connect_s").is_not_null(),
        pl.col("start_s").is_between(measurement.begin, measurement.end),
    ).sort("start_s")
    return {
        str(name): (of_client["start_s"].to_numpy(), of_client["connect_s"].to_numpy())
        for (name,), of_client in rows.group_by("client", maintain_order=True)
    }
