"""The common format of all sources: one table of downloads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from penstock.compare.setting import Setting
from penstock.errors import OutputError
from penstock.replicates import Replicates

LARGEST = 2 << 30
"""Larger documents are refused [B]."""

MOST_BYTES = 2**50
"""The largest accepted download [B]."""

PARTS = (51_200, 1_048_576)
"""Sizes that Tor's metrics measure within larger downloads, because OnionPerf 0.3 requests only 5 MiB [B]."""


class Download(NamedTuple):
    """One download. A time is null if it did not happen or was not recorded."""

    network: str = ""
    """The simulation or file; empty if there is only one."""
    seed: int = 0
    """Zero for downloads of other tools."""
    workload: str | None = None
    bytes: int = 0
    """The requested size [B]."""
    part: bool = False
    """Whether these are the first bytes of a larger download."""
    at_s: float | None = None
    """The end or the beginning by the tool's clock [s]."""
    outcome: str = "ok"
    """`ok`, `timeout`, `failed`, `unfinished`."""
    ttfb_s: float | None = None
    """The first byte, since the client requested a stream or created its socket [s]."""
    ttlb_s: float | None = None
    ttfb_request_s: float | None = None
    """The first byte, since the client sent its request over an existing connection [s]."""
    ttlb_request_s: float | None = None


SCHEMA: dict[str, pl.DataType] = {
    "network": pl.String(),
    "seed": pl.Int64(),
    "workload": pl.String(),
    "bytes": pl.Int64(),
    "part": pl.Boolean(),
    "at_s": pl.Float64(),
    "outcome": pl.String(),
    "ttfb_s": pl.Float64(),
    "ttlb_s": pl.Float64(),
    "ttfb_request_s": pl.Float64(),
    "ttlb_request_s": pl.Float64(),
}

CLOCKS = {"start": ("ttfb_s", "ttlb_s"), "request": ("ttfb_request_s", "ttlb_request_s")}
"""The starting points of times, and their columns."""


class Tried(NamedTuple):
    """The failed downloads, among the attempts that were not cut off."""

    failed: int
    attempts: int


@dataclass(frozen=True)
class Source:
    """One side of a comparison."""

    label: str
    path: Path
    kind: str
    """The tool: `penstock`, `OnionPerf`, `tornettools`, `tgen`."""
    downloads: pl.DataFrame
    """The columns of `SCHEMA`."""
    tried: Tried | None = None
    """The failures of all sizes together, if the sizes of failed downloads are unknown."""
    notes: tuple[str, ...] = ()
    """Notes for readers of the numbers."""
    setting: Setting | None = None
    """The clients and the network; only for outputs of Penstock."""

    @property
    def ours(self) -> bool:
        """Whether it is an output of Penstock."""
        return self.kind == "penstock"

    @property
    def replicates(self) -> Replicates:
        """The independent replicates."""
        return Replicates.in_rows(self.downloads)

    @property
    def replicates_name(self) -> str:
        """The name of the replicates."""
        return self.replicates.name(2) if self.kind in ("penstock", "tornettools") else "files"

    @property
    def clocks(self) -> list[str]:
        """The starting points that its times can have."""
        last = {clock: columns[1] for clock, columns in CLOCKS.items()}
        return [clock for clock, column in last.items() if self.downloads[column].count() > 0]


@dataclass
class Found:
    """The downloads that were collected from documents."""

    rows: list[Download] = field(default_factory=list)
    onion: int = 0
    """The number of downloads from onion services, which are left out."""
    unread: int = 0
    """The number of downloads without a size."""
    failures: int = 0
    """The number of failed downloads of unknown size."""

    def whole(self, label: str, path: Path, kind: str, notes: Iterable[str] = ()) -> Source:
        """The collected source; it must have a complete download."""
        if not any(row.outcome == "ok" for row in self.rows):
            onion = f"; {self.onion} from onion services do not count" if self.onion else ""
            raise OutputError(f"{path} has no complete download{onion}")
        there = {row.bytes for row in self.rows if not row.part}
        rows = [row for row in self.rows if not row.part or row.bytes not in there]
        tried = None
        if self.failures:
            ended = [row for row in rows if not row.part]
            known = sum(row.outcome != "ok" for row in ended)
            tried = Tried(self.failures + known, self.failures + len(ended))
        return Source(label, path, kind, frame(rows), tried, (*notes, *self._notes(rows)))

    def _notes(self, rows: Iterable[Download]) -> Iterable[str]:
        parts = sorted({row.bytes for row in rows if row.part})
        if parts:
            yield f"{' and '.join(map(size_name, parts))} are the first bytes of larger downloads"
        if self.onion:
            yield f"{self.onion} downloads from onion services are left out"
        if self.unread:
            yield f"{self.unread} downloads without a size are left out"


def frame(rows: Iterable[Download]) -> pl.DataFrame:
    """Downloads as a table."""
    return pl.DataFrame(list(rows), SCHEMA, orient="row")


def after(source: pl.DataFrame, skip: float) -> pl.DataFrame:
    """Downloads that began at least `skip` seconds after the first of their replicate, or have no time."""
    at = pl.col("at_s")
    return source.filter(at.is_null() | (at >= at.min().over("network") + skip))


def size_name(size: int) -> str:
    """`50 KiB`, `5 MiB`, `1234 B`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


class Reader:
    """Checks the values of a document; a mistake becomes a sentence with file and place."""

    def __init__(self, path: Path) -> None:
        """Read the document in `path`."""
        self.path = path

    def wrong(self, where: str, what: str) -> OutputError:
        """A sentence."""
        return OutputError(f"{self.path}: {where} {what}")

    def mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        """A JSON object; null counts as empty."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(where, f"is {_told(value)}; it must be an object")
        return value

    def times(self, value: Any, where: str) -> list[float]:
        """A list of seconds without negative numbers."""
        if not isinstance(value, list):
            raise self.wrong(where, f"is {_told(value)}; it must be a list of seconds")
        found = [number(each) for each in value]
        for each, given in zip(found, value, strict=True):
            if each is None or each < 0:
                raise self.wrong(where, f"holds {_told(given)}; it must hold seconds")
        return [each for each in found if each is not None]

    def size(self, value: Any, where: str) -> int:
        """A number of bytes."""
        found = whole_number(value)
        if found is None:
            raise self.wrong(where, f"is {_told(value)}; it must be a size in bytes")
        return found


def number(value: Any) -> float | None:
    """A finite number, also as text; none for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) < 1e15 else None


def whole_number(value: Any) -> int | None:
    """A positive size in bytes; none for anything else."""
    found = number(value)
    return int(found) if found is not None and found == int(found) and 0 < found < MOST_BYTES else None


def _told(value: Any) -> str:
    """A value of a document, shortened and on one line."""
    if value is None:
        return "missing"
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
