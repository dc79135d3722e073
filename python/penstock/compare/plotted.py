"""Reads the plot data of tornettools: of simulations (`tornet.plot.data`) and of Tor's metrics.

Source: tornettools' parse_tgen.py (time_to_first_byte_recv, time_to_last_byte_recv, error_rate; with `.exit` and
`.onionservice` since 2022) and parse_onionperf.py (tor_metrics_<from>--<to>.json). All times are from the request; the
time before a simulation's network had settled is left out already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from penstock import packed
from penstock.compare.source import LARGEST, Download, Found, Reader, Tried, number
from penstock.errors import OutputError, naming

FOLDER = "tornet.plot.data"
FIRST, LAST, ERRORS = "time_to_first_byte_recv", "time_to_last_byte_recv", "error_rate"


def document(path: Path) -> Any:
    """A JSON document, which may be compressed."""
    return parsed(path, packed.read(path, LARGEST, "no analysis is so large"))


def parsed(path: Path, data: bytes) -> Any:
    """The value of a JSON document."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        told = " ".join(str(error).split())[:120]
        raise OutputError(f"{path} is not JSON ({told}); it may be incomplete") from error


def read_simulation(folder: Path, network: str, found: Found) -> Tried | None:
    """Collect the downloads of one simulation; returns the failures over all sizes."""
    ending = ".exit" if (folder / f"{LAST}.exit.json").is_file() else ""
    firsts, lasts = (_times(folder / f"{name}{ending}.json", required=name == LAST) for name in (FIRST, LAST))
    _keep(firsts, lasts, network, found)
    return _tried(folder / f"{ERRORS}{ending}.json")


def read_metrics(reader: Reader, metrics: Mapping[str, Any], found: Found) -> Tried:
    """Collect the downloads of Tor's metrics; smaller sizes may be the first bytes of larger downloads."""
    _keep({}, _by_size(reader, metrics["download_times"], "download_times"), "", found)
    failed = attempts = 0
    days = reader.mapping(metrics.get("daily_counts"), "daily_counts")
    for day in days.values():
        counts = reader.mapping(day, "a day in daily_counts")
        tried, timeouts, failures = (number(counts.get(key, 0)) for key in ("requests", "timeouts", "failures"))
        if tried is None or timeouts is None or failures is None or not 0 <= timeouts + failures <= tried <= 1e9:
            raise reader.wrong("a day in daily_counts", "must have requests, and of them timeouts and failures")
        failed, attempts = failed + int(timeouts + failures), attempts + int(tried)
    return Tried(failed, attempts)


def _keep(firsts: Mapping[int, list[float]], lasts: Mapping[int, list[float]], network: str, found: Found) -> None:
    for size in {**lasts, **firsts}:
        for first, last in zip_longest(firsts.get(size, []), lasts.get(size, [])):
            found.rows.append(Download(network=network, bytes=size, ttfb_request_s=first, ttlb_request_s=last))


def _times(path: Path, *, required: bool) -> dict[int, list[float]]:
    """The seconds of each download by size; empty if an optional file is missing."""
    with naming(path, "read"):
        if not path.is_file() and not required:
            return {}
    return _by_size(Reader(path), document(path), "the document")


def _by_size(reader: Reader, value: Any, where: str) -> dict[int, list[float]]:
    by_size = reader.mapping(value, where)
    return {
        reader.size(size, f"a key of {where}"): reader.times(times, f"{where}: {ascii(size)[:40]}")
        for size, times in by_size.items()
        if size != "ALL"
    }


def _tried(path: Path) -> Tried | None:
    """The failures, from pairs of percentages for each client: failed downloads, and one download."""
    with naming(path, "read"):
        if not path.is_file():
            return None
    reader = Reader(path)
    clients = reader.mapping(document(path), "the document").get("ALL", [])
    failed = attempts = 0
    for pair in clients if isinstance(clients, list) else [None]:
        rate, one = (number(each) for each in pair) if isinstance(pair, list) and len(pair) == 2 else (None, None)
        if rate is None or one is None or not (0 <= rate <= 100.001 and 1e-6 < one <= 100.001):
            raise reader.wrong("ALL", "must be a list of pairs: the percentage that failed, and that of one download")
        failed, attempts = failed + round(rate / one), attempts + round(100 / one)
    return Tried(failed, attempts)
