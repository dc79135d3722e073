"""The contents of an output directory as JSON for the page of `penstock open`.

Only the rows of a question are read, because the tables of a large run may not fit into memory.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import stats, summary
from penstock.errors import PenstockError
from penstock.explorer.server import Query
from penstock.replicates import BAND
from penstock.result import Result
from penstock.stations import STATIONS

MAX_STEPS = 1200
"""The maximum number of steps of a curve."""
MAX_POINTS = 20_000
"""The maximum number of samples of a series. Of more samples, only every n-th is shown."""
MAX_SERIES = 12
"""The maximum number of series of a chart."""

ALONG = ("exit", "middle", "guard", "client")
"""The hops of a download, in the direction of its cells."""

MEASURES: dict[str, tuple[str, pl.Expr]] = {
    "written": ("written to the kernel [KiB/s]", pl.col("written_bytes") / 1024 / pl.col("span_s")),
    "read": ("read from the kernel [KiB/s]", pl.col("read_bytes") / 1024 / pl.col("span_s")),
    "queue": ("cells in circuit queues [cells]", pl.col("circuit_queue_cells")),
    "outbuf": ("bytes in output buffers [KiB]", pl.col("outbuf_bytes") / 1024),
    "kernel": ("bytes in send buffers [KiB]", pl.col("kernel_out_bytes") / 1024),
    "throttled": ("connections that wait for a token bucket", pl.col("throttled_conns")),
}
"""The measures of a relay: names, and values from a row of `relays` with the length of its interval."""

QUANTITIES = {
    "queue_cells": "circuit queue [cells]",
    "window_cells": "window [cells]",
    "rtt_s": "measured round trip [s]",
    "cwnd_segments": "TCP congestion window [segments]",
}
"""The quantities of a traced circuit: columns of `circuits` and names."""


class Views:
    """The answers to the questions of the page, about one output directory."""

    def __init__(self, result: Result) -> None:
        """Answer questions about a directory with at least one finished run."""
        if not result.manifest["runs"]:
            raise PenstockError(f"{result.directory} has no finished run yet; {result.command} executes the runs")
        self._result = result
        self._shown = summary.workloads(result.transfers, summary.counted(result.transfers))

    def _reading(self, ask: Callable[[Query], Any]) -> Callable[[Query], Any]:
        """An answer whose errors of the directory's tables are sentences."""

        def answer(query: Query) -> Any:
            with self._result.reading():
                return ask(query)

        return answer

    @property
    def asks(self) -> dict[str, Callable[[Query], Any]]:
        """The questions by address."""
        asks: dict[str, Callable[[Query], Any]] = {
            "choices": lambda _: self.choices(),
            "downloads": self.downloads,
            "relays": self.relays,
            "circuits": self.circuits,
            "circuit": self.circuit,
            "cell": self.cell,
        }
        return {name: self._reading(ask) for name, ask in asks.items()}

    def choices(self) -> dict[str, Any]:
        """The head of the page, and the values that its controls offer."""
        result = self._result
        there = {name: not self._empty(name) for name in ("relays", "circuits", "cells")}
        return {
            "title": result.title,
            "scenario": result.scenario["name"],
            "directory": str(result.directory),
            "version": result.manifest["version"],
            "finished": result.finished,
            "variants": [{"name": name, "label": label} for name, label in result.variants.items()],
            "workloads": self._shown,
            "metrics": [{"name": metric.column, "title": metric.title} for metric in summary.METRICS],
            "runs": [
                {"network": network, "seed": seed, "label": f"network {network}, seed {seed}" if network else str(seed)}
                for network, seed in sorted({(run["network"], run["seed"]) for run in result.manifest["runs"]})
            ],
            "relays": self._relays() if there["relays"] else [],
            "measures": [{"name": name, "title": title} for name, (title, _) in MEASURES.items()],
            "quantities": [{"name": name, "title": title} for name, title in QUANTITIES.items()],
            "traced": there["circuits"],
            "cells": there["cells"],
            "stations": [{"name": name, "title": title} for name, title in STATIONS.items()],
        }

    def downloads(self, query: Query) -> dict[str, Any]:
        """Distribution functions of a time over a common x axis [s], and its percentiles for each variant [s]."""
        workload, column = query.one("workload"), query.one("metric")
        metric = next((each for each in summary.METRICS if each.column == column), None)
        if workload not in self._shown or metric is None:
            raise PenstockError(f"there are no downloads of {workload!r} with {column!r}")
        percentiles = [_percentile(text) for text in query.every("percentile")]
        result, names = self._result, self._variants(query)
        curves = [
            stats.curve(summary.by_replicate(result.transfers, result.replicates, name, workload, metric), BAND)
            for name in names
        ]
        x = np.unique(np.concatenate([np.zeros(1), *(_thinned(curve.x) for curve in curves)]))
        series, rows = [], []
        for name, curve in zip(names, curves, strict=True):
            sample = summary.sample(result.transfers, name, workload, metric).to_numpy()
            at = np.searchsorted(curve.x, x, "right")
            series.append({
                "label": result.variants[name],
                "values": _numbers(np.concatenate([[0.0], curve.y])[at] if sample.size else np.full(x.size, np.nan)),
            })  # fmt: skip
            rows.append({
                "label": result.variants[name],
                "downloads": int(sample.size),
                "percentiles": _numbers([stats.quantile(sample, percent / 100) for percent in percentiles]),
            })  # fmt: skip
        return {"x": _numbers(x), "series": series, "rows": rows, "title": metric.title}

    def relays(self, query: Query) -> dict[str, Any]:
        """A measure of some relays over time in one run, and the share of samples in which each limit bound them."""
        measure = query.one("measure")
        if measure not in MEASURES:
            raise PenstockError(f"there is no measure {measure!r}; there are {', '.join(MEASURES)}")
        names, relays = self._variants(query), query.every("relay")
        _few(len(names) * len(relays))
        rows = (
            self._of_run("relays", query)
            .filter(pl.col("variant").is_in(names), pl.col("relay").is_in(relays))
            .sort("t_s")
            .with_columns(span_s=pl.col("t_s").diff().over("variant", "relay").fill_null(pl.col("t_s")))
            .with_columns(value=MEASURES[measure][1].cast(pl.Float64))
            .collect()
        )
        labels = self._result.variants
        keys = [(name, relay) for relay in relays for name in names]
        series = [
            (f"{relay}, {labels[name]}" if len(names) > 1 else relay, rows.filter(variant=name, relay=relay))
            for name, relay in keys
        ]
        return {
            **aligned([(label, found, "value") for label, found in series]),
            "y": MEASURES[measure][0],
            "rows": [
                {
                    "label": label,
                    "mean": _number(found["value"].mean()),
                    "most": _number(found["value"].max()),
                    "bound": _shares(found["bound_by"]),
                }
                for label, found in series
            ],
        }

    def circuits(self, query: Query) -> list[dict[str, Any]]:
        """The traced circuits of a run of one variant."""
        variant = self._variant(query)
        traced = self._of_run("circuits", query).filter(variant=variant).group_by("circuit", "workload")
        rows = traced.agg(longest=pl.col("queue_cells").max()).drop_nulls("circuit").collect()
        cells = self._of_run("cells", query).filter(variant=variant, hop="client").group_by("circuit")
        counts = dict(cells.agg(pl.col("cell").n_unique()).collect().iter_rows())
        paths = self._of_run("paths", query).filter(variant=variant).collect()
        ways = {row["circuit"]: row for row in paths.iter_rows(named=True)}
        return [
            {
                "circuit": row["circuit"],
                "workload": row["workload"],
                "cells": counts.get(row["circuit"], 0),
                "path": [ways[row["circuit"]][hop] for hop in ALONG] if row["circuit"] in ways else [],
            }
            for row in rows.sort("circuit").iter_rows(named=True)
        ]

    def circuit(self, query: Query) -> dict[str, Any]:
        """A quantity of a traced circuit at each of its hops, over time."""
        quantity = query.one("quantity")
        if quantity not in QUANTITIES:
            raise PenstockError(f"there is no quantity {quantity!r}; there are {', '.join(QUANTITIES)}")
        rows = self._of_circuit("circuits", query).select("hop", "t_s", quantity).sort("t_s").collect()
        rows = rows.with_columns(pl.col(quantity).cast(pl.Float64))
        series = [(hop, rows.filter(hop=hop).drop_nulls(quantity), quantity) for hop in ALONG]
        there = [(hop, found, column) for hop, found, column in series if found.height]
        return {
            **aligned(there),
            "y": QUANTITIES[quantity],
            "rows": [
                {"label": hop, "mean": _number(found[quantity].mean()), "most": _number(found[quantity].max())}
                for hop, found, _ in there
            ],
        }

    def cell(self, query: Query) -> dict[str, Any]:
        """The waits of all tracked cells of a circuit, and the stations of `cell`; by default of the slowest cell."""
        rows = self._of_circuit("cells", query).sort("cell", "nic_in_ns").collect()
        if rows.is_empty():
            raise PenstockError(
                f"circuit {query.number('circuit')} has no tracked cells; add trace.cells to a scenario"
            )
        waits = (pl.col(name).sum() for name in STATIONS)
        whole = rows.group_by("cell").agg(pl.col("nic_in_ns").min(), *waits).sort("nic_in_ns", "cell")
        step = max(1, -(-whole.height // MAX_POINTS))
        shown = whole.gather_every(step)
        slowest = int(whole["cell"][int(whole.select(pl.sum_horizontal(*STATIONS)).to_series().arg_max() or 0)])
        chosen = query.number("cell") if query.every("cell") else slowest
        mine = rows.filter(cell=chosen).sort("nic_in_ns")
        if mine.is_empty():
            numbers = whole["cell"].sort()
            near = numbers[int(np.abs(numbers.to_numpy() - chosen).argmin())]
            raise PenstockError(f"cell {chosen} was not tracked; the nearest tracked cell is {near}")
        return {
            "x": _numbers(shown["nic_in_ns"].to_numpy() / 1e9),
            "cells": shown["cell"].to_list(),
            "series": [
                {"label": title, "values": _numbers(shown[name].to_numpy())} for name, title in STATIONS.items()
            ],
            "every": step,
            "cell": chosen,
            "stations": [stay for row in mine.iter_rows(named=True) for stay in _stays(row)],
            "hops": mine["hop"].to_list(),
        }

    def _relays(self) -> list[dict[str, Any]]:
        """All relays, the busiest first."""
        total = self._result.scan("relays").group_by("relay").agg(pl.col("written_bytes").sum()).collect()
        ordered = total.sort("written_bytes", "relay", descending=[True, False])
        return [{"name": name, "written_bytes": written} for name, written in ordered.iter_rows()]

    def _variants(self, query: Query) -> list[str]:
        """The variants of a question, in the order of the scenario."""
        asked = query.every("variant")
        if unknown := [name for name in asked if name not in self._result.variants]:
            raise PenstockError(f"there is no variant {unknown[0]!r}; there are {', '.join(self._result.variants)}")
        names = [name for name in self._result.variants if name in asked]
        _few(len(names))
        return names

    def _variant(self, query: Query) -> str:
        names = self._variants(query)
        if len(names) != 1:
            raise PenstockError("the request needs one variant")
        return names[0]

    def _of_run(self, table: str, query: Query) -> pl.LazyFrame:
        return self._result.scan(table).filter(network=query.one("network"), seed=query.number("seed"))

    def _of_circuit(self, table: str, query: Query) -> pl.LazyFrame:
        return self._of_run(table, query).filter(variant=self._variant(query), circuit=query.number("circuit"))

    def _empty(self, table: str) -> bool:
        return self._result.scan(table).head(1).collect().is_empty()


def _stays(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The stays of a cell at one hop: station, beginning and end [s]."""
    bounds = {
        "kernel_in_s": ("nic_in_ns", "read_ns"),
        "circuit_queue_s": ("queued_ns", "outbuf_ns"),
        "outbuf_s": ("outbuf_ns", "kernel_ns"),
        "kernel_out_s": ("kernel_ns", "nic_out_ns"),
    }
    return [
        {"hop": row["hop"], "station": name, "from": row[begin] / 1e9, "to": row[end] / 1e9}
        for name, (begin, end) in bounds.items()
        if row[begin] is not None and row[end] is not None
    ]


def aligned(series: Sequence[tuple[str, pl.DataFrame, str]]) -> dict[str, Any]:
    """Series over a common time axis [s]. A series has null at times at which it has no sample."""
    times = np.unique(np.concatenate([np.empty(0), *(found["t_s"].to_numpy() for _, found, _ in series)]))
    step = max(1, -(-times.size // MAX_POINTS))
    times = times[::step]
    shown = []
    for label, found, column in series:
        values = np.full(times.size, np.nan)
        at = found["t_s"].to_numpy()
        place = np.searchsorted(times, at)
        hit = (place < times.size) & (times[np.minimum(place, times.size - 1)] == at) if times.size else at > at
        values[place[hit]] = found[column].to_numpy()[hit]
        shown.append({"label": label, "values": _numbers(values)})
    return {"x": _numbers(times), "series": shown, "every": step}


def _shares(bounds: pl.Series) -> dict[str, float]:
    """The share of samples with each value, the largest first."""
    counts = bounds.drop_nulls().value_counts(sort=True).iter_rows()
    return {name: count / len(bounds) for name, count in counts}


def _thinned(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most MAX_STEPS of the sorted values; the first and the last stay."""
    if x.size <= MAX_STEPS:
        return x
    places = np.linspace(0, x.size - 1, MAX_STEPS).astype(np.intp)
    return np.asarray(x[places], dtype=np.float64)


def _few(count: int) -> None:
    if count > MAX_SERIES:
        raise PenstockError(f"a chart shows at most {MAX_SERIES} curves, not {count}; choose fewer")


def _percentile(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise PenstockError(f"a percentile is a number from 0 to 100, not {text!r}")
    return value


def _number(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


def _numbers(values: Any) -> list[float | None]:
    """JSON numbers with seven significant digits, which are more than a screen shows; null for NaN."""
    return [None if value is None or value != value else float(f"{value:.7g}") for value in values]
