"""What is compared: one table of downloads, whoever measured them."""

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
"""No download is larger [B]."""

PARTS = (51_200, 1_048_576)
"""Sizes whose times Tor's metrics take from larger downloads, since OnionPerf 0.3 asks for 5 MiB alone [B]."""


class Download(NamedTuple):
    """One download. A time is null if it did not happen, or if nobody wrote it down."""

    network: str = ""
    """Which simulation or file; empty if there is one."""
    seed: int = 0
    """Zero if it is not ours."""
    workload: str | None = None
    bytes: int = 0
    """What was asked for [B]."""
    part: bool = False
    """Whether these are the first bytes of a larger download."""
    at_s: float | None = None
    """When it ended, or began, by some clock [s]."""
    outcome: str = "ok"
    """`ok`, `timeout`, `failed`, `unfinished`."""
    ttfb_s: float | None = None
    """First byte, since the client began: called for a stream, or made its socket [s]."""
    ttlb_s: float | None = None
    ttfb_request_s: float | None = None
    """First byte, since the client sent its request over the connection that it then had [s]."""
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
"""What times count from, and their columns."""


class Tried(NamedTuple):
    """How many downloads failed or timed out, of how many that were not cut off."""

    failed: int
    attempts: int


@dataclass(frozen=True)
class Source:
    """One side of a comparison."""

    label: str
    path: Path
    kind: str
    """Who measured it: `penstock`, `OnionPerf`, `tornettools`, `tgen`."""
    downloads: pl.DataFrame
    """The columns of `SCHEMA`."""
    tried: Tried | None = None
    """Of all sizes together, where it is not known which sizes failed."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers has to know."""
    setting: Setting | None = None
    """Who downloads in which network; only of ours."""

    @property
    def ours(self) -> bool:
        """Whether penstock made it."""
        return self.kind == "penstock"

    @property
    def replicates(self) -> Replicates:
        """What is independent in it."""
        return Replicates.in_rows(self.downloads)

    @property
    def replicates_name(self) -> str:
        """What these replicates are."""
        return self.replicates.name(2) if self.kind in ("penstock", "tornettools") else "files"

    @property
    def clocks(self) -> list[str]:
        """What its times can count from."""
        last = {clock: columns[1] for clock, columns in CLOCKS.items()}
        return [clock for clock, column in last.items() if self.downloads[column].count() > 0]


@dataclass
class Found:
    """What is gathered while documents are read."""

    rows: list[Download] = field(default_factory=list)
    onion: int = 0
    """Downloads from onion services, which are left out."""
    unread: int = 0
    """Downloads of which it is not said how large they are."""
    failures: int = 0
    """Failed downloads of unknown size."""

    def whole(self, label: str, path: Path, kind: str, notes: Iterable[str] = ()) -> Source:
        """The source that was gathered; it must hold a download."""
        if not any(row.outcome == "ok" for row in self.rows):
            onion = f"; {self.onion} from onion services do not count" if self.onion else ""
            raise OutputError(f"{path} holds no download that arrived{onion}")
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
            yield f"{self.unread} downloads whose size is not said are left out"


def frame(rows: Iterable[Download]) -> pl.DataFrame:
    """Downloads as a table."""
    return pl.DataFrame(list(rows), SCHEMA, orient="row")


def after(source: pl.DataFrame, skip: float) -> pl.DataFrame:
    """Downloads from so many seconds after the first one of their replicate on, and those without a time."""
    at = pl.col("at_s")
    return source.filter(at.is_null() | (at >= at.min().over("network") + skip))


def size_name(size: int) -> str:
    """`50 KiB`, `5 MiB`, `1234 B`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


class Reader:
    """Takes a document apart, and turns what is wrong in it into a sentence with its file and place."""

    def __init__(self, path: Path) -> None:
        """Of the document in `path`."""
        self.path = path

    def wrong(self, where: str, what: str) -> OutputError:
        """A sentence."""
        return OutputError(f"{self.path}: {where} {what}")

    def mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        """An object of JSON; nothing is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(where, f"is {_told(value)}, and an object belongs there")
        return value

    def times(self, value: Any, where: str) -> list[float]:
        """Numbers of seconds, none of them negative."""
        if not isinstance(value, list):
            raise self.wrong(where, f"is {_told(value)}, and a list of seconds belongs there")
        found = [number(each) for each in value]
        for each, given in zip(found, value, strict=True):
            if each is None or each < 0:
                raise self.wrong(where, f"holds {_told(given)}, and seconds belong there")
        return [each for each in found if each is not None]

    def size(self, value: Any, where: str) -> int:
        """A number of bytes."""
        found = whole_number(value)
        if found is None:
            raise self.wrong(where, f"is {_told(value)}, and a size in bytes belongs there")
        return found


def number(value: Any) -> float | None:
    """A finite number, also written as text; none if it is nothing of the kind."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) < 1e15 else None


def whole_number(value: Any) -> int | None:
    """A size in bytes, above zero; none if it is nothing of the kind."""
    found = number(value)
    return int(found) if found is not None and found == int(found) and 0 < found < MOST_BYTES else None


def _told(value: Any) -> str:
    """A value of a document, short enough for a sentence and on one line."""
    if value is None:
        return "missing"
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
