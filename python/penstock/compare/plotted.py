"""Reads tornettools' plot data of simulations (`tornet.plot.data`) and of Tor's metrics.

Source: tornettools' parse_tgen.py (time_to_first_byte_recv, time_to_last_byte_recv, error_rate; with `.exit` and
`.onionservice` since 2022) and parse_onionperf.py (tor_metrics_<from>--<to>.json). All times are from the request. The
files do not include the start of a simulation, before its network was stable.
"""

import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, RootModel, model_validator

from penstock import packed
from penstock.compare.source import LARGEST, Found, NullAsEmpty, Number, Times
from penstock.errors import OutputError, naming
from penstock.validation import must, parse

FOLDER = "tornet.plot.data"
FIRST, LAST, ERRORS = "time_to_first_byte_recv", "time_to_last_byte_recv", "error_rate"

Percentage = Annotated[float, Field(ge=0, le=100.001)]


class _Object(RootModel[dict[str, Any]]):
    """The JSON document. Its key `ALL` repeats the times of all sizes."""


class _Times(RootModel[Times]):
    @model_validator(mode="before")
    @classmethod
    def _leave_all_out(cls, data: Any) -> Any:
        return {size: times for size, times in data.items() if size != "ALL"} if isinstance(data, dict) else data


class _Day(BaseModel):
    requests: Number = 0
    timeouts: Number = 0
    failures: Number = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        tried, timeouts, failures = self.requests, self.timeouts, self.failures
        if tried is None or timeouts is None or failures is None or not 0 <= timeouts + failures <= tried <= 1e9:
            raise ValueError("a day must have requests, and of them timeouts and failures")
        return self


class _Metrics(BaseModel):
    download_times: _Times
    daily_counts: Annotated[dict[str, Annotated[_Day, NullAsEmpty]], NullAsEmpty] = {}


class _Rates(BaseModel):
    ALL: Annotated[
        list[tuple[Percentage, Annotated[Percentage, Field(gt=1e-6)]]],
        must("it must be a list of pairs: the percentage that failed, and that of one download"),
    ] = []


def parsed(path: Path, data: bytes) -> dict[str, Any]:
    """The JSON object of a document."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise OutputError(f"{path} is not JSON ({reason}); it may be incomplete") from error
    return parse(_Object, value, path, OutputError).root


def read_simulation(folder: Path, found: Found) -> None:
    """Collect the downloads of one simulation, and its failures over all sizes."""
    ending = ".exit" if (folder / f"{LAST}.exit.json").is_file() else ""
    first, last, errors = (folder / f"{name}{ending}.json" for name in (FIRST, LAST, ERRORS))
    _collect(parse(_Times, _read(first), first, OutputError), parse(_Times, document(last), last, OutputError), found)
    for rate, one in parse(_Rates, _read(errors), errors, OutputError).ALL if errors.is_file() else ():
        found.count(round(rate / one), round(100 / one))


def read_metrics(path: Path, values: Mapping[str, Any], found: Found) -> None:
    """Collect the downloads of Tor's metrics, and their failures over all sizes."""
    metrics = parse(_Metrics, values, path, OutputError)
    _collect(_Times({}), metrics.download_times, found)
    for day in metrics.daily_counts.values():
        found.count(int((day.timeouts or 0) + (day.failures or 0)), int(day.requests or 0))


def document(path: Path) -> dict[str, Any]:
    """A JSON object in a file, which may be compressed."""
    return parsed(path, packed.read(path, LARGEST, "no analysis is so large"))


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty if the file is missing."""
    with naming(path, "read"):
        return document(path) if path.is_file() else {}


def _collect(firsts: _Times, lasts: _Times, found: Found) -> None:
    for size in {**lasts.root, **firsts.root}:
        for first, last in zip_longest(firsts.root.get(size, []), lasts.root.get(size, [])):
            found.add(size, ttfb_request_s=first, ttlb_request_s=last)
