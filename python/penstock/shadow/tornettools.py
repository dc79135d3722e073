"""Writes an output of Penstock as the plot data of tornettools, which `tornettools plot` reads.

Source: tornettools' parse_tgen.py and parse_oniontrace.py. Each variant is a collection of simulations, one for each
run. Times count from the request, in seconds. The files of downloads have two names, because tornettools added `.exit`
in 2022.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from penstock.compare.plotted import ERRORS, FIRST, FOLDER, LAST
from penstock.errors import OutputError, naming
from penstock.result import Result
from penstock.summary import after_warmup

BUILD_TIMES, BYTES, ROUND_TRIPS = "perfclient_circuit_build_time", "relay_goodput", "round_trip_time"


def export(directory: Path, out: Path) -> list[Path]:
    """Write the collections of all variants of `directory` into the new directory `out`, and return their paths.

    Raises:
        OutputError: if the directory is no output, has no download with a known request, or `out` exists.
    """
    result = Result(directory)
    with naming(out, "make"):
        if out.exists():
            raise OutputError(f"{out} exists; choose another --out")
    optimistic = {each["name"] for each in result.scenario["variants"] if each.get("optimistic")}
    runs = [(run["variant"], run["network"], run["seed"]) for run in result.manifest["runs"]]
    for variant, _, _ in runs:
        if variant in optimistic:
            raise OutputError(
                f"{variant} has optimistic data, so the times of its requests are unknown, and times of tornettools "
                "count from the request"
            )
    begun = after_warmup(result.transfers)
    for variant, network, seed in runs:
        where = pl.col("variant").eq(variant) & pl.col("network").eq(network) & pl.col("seed").eq(seed)
        name = f"{network}-{seed}" if network else str(seed)
        folder = out / quote(variant, safe=" ,+=") / name / FOLDER
        with naming(folder, "make"):
            folder.mkdir(parents=True)
        for stem, values in _documents(begun.filter(where), result, where).items():
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
