"""Writes an output of Penstock as the plot data of tornettools, which `tornettools plot` reads.

Source: tornettools' parse_tgen.py and parse_oniontrace.py. Each variant is a collection of simulations, one for each
run. Times count from the request, in seconds. The files of downloads have two names, because tornettools added `.exit`
in 2022.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from penstock.compare.plotted import ERRORS, FIRST, FOLDER, LAST
from penstock.errors import naming
from penstock.result import Result
from penstock.shadow import runs

BUILD_TIMES, BYTES, ROUND_TRIPS = "perfclient_circuit_build_time", "relay_goodput", "round_trip_time"


def export(directory: Path, out: Path) -> list[Path]:
    """Write the collections of all variants of `directory` into the new directory `out`, and return their paths.

    Raises:
        OutputError: as `runs.read` does, or if a file cannot be written.
    """
    result, found = runs.read(directory, out)
    for run in found:
        folder = run.folder(out) / run.name / FOLDER
        with naming(folder, "make"):
            folder.mkdir(parents=True)
        for stem, values in _documents(run.begun, result, run.where).items():
            with naming(folder / f"{stem}.json"):
                (folder / f"{stem}.json").write_text(json.dumps(values) + "\n", encoding="utf-8")
    return sorted(path for path in out.iterdir() if path.is_dir())


def _documents(begun: pl.DataFrame, result: Result, where: pl.Expr) -> Mapping[str, Any]:
    """The documents of one run by name."""
    ok = begun.filter(outcome="ok").with_columns(
        first=pl.col("ttfb_s") - pl.col("connect_s"), last=pl.col("ttlb_s") - pl.col("connect_s")
    )
    relays = (
        result.relays.filter(where).group_by(pl.col("t_s").floor().cast(pl.Int64)).agg(pl.col("written_bytes").sum())
    )
    twice = {FIRST: _by_size(ok, "first"), LAST: _by_size(ok, "last"), ERRORS: _errors(begun)}
    return {
        **twice,
        **{f"{name}.exit": values for name, values in twice.items()},
        ROUND_TRIPS: ok["first"].drop_nulls().to_list(),
        BUILD_TIMES: result.paths.filter(where)["build_time_s"].drop_nulls().to_list(),
        BYTES: {str(second): written for second, written in relays.sort("t_s").iter_rows()},
    }


def _by_size(ok: pl.DataFrame, column: str) -> dict[str, list[float]]:
    """The times of each size, and of all sizes [s]."""
    found = {"ALL": ok[column].drop_nulls().to_list()}
    for size in sorted(ok["bytes"].unique().to_list()):
        found[str(size)] = ok.filter(bytes=size)[column].drop_nulls().to_list()
    return found


def _errors(begun: pl.DataFrame) -> dict[str, list[list[float]]]:
    """For each client and kind of error: the percentage of its downloads that failed, and that of one download [%]."""
    found: dict[str, list[list[float]]] = {"ALL": []}
    ended = begun.filter(pl.col("outcome") != "unfinished")
    for _, rows in ended.group_by("client", maintain_order=True):
        counts = dict(rows["outcome"].value_counts().iter_rows())
        one = 100.0 / rows.height
        bad = {name.upper(): count for name, count in counts.items() if name != "ok"}
        for name, count in {"ALL": sum(bad.values()), **bad}.items():
            found.setdefault(name, []).append([one * count, one])
    return found
