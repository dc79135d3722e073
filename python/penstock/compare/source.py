"""The common format of all sources: one table of downloads."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import polars as pl
from pydantic import BeforeValidator, Field

from penstock.compare.setting import Setting
from penstock.errors import OutputError
from penstock.replicates import Replicates
from penstock.validation import must

LARGEST = 2 << 30
"""The maximum size of a document [B]."""

MOST_BYTES = 2**50
"""The maximum size of a download [B]."""

PARTS = (51_200, 1_048_576)
"""Sizes that Tor's metrics measure within larger downloads, because OnionPerf 0.3 requests only 5 MiB [B]."""

TIMEOUTS = ("TIMEOUT", "STALLOUT")
"""The prefixes of tgen's errors for timeouts and stalls."""

SCHEMA: dict[str, pl.DataType] = {
    "network": pl.String(),  # the simulation or file; empty if there is only one
    "seed": pl.Int64(),  # zero for downloads of other tools
    "workload": pl.String(),
    "bytes": pl.Int64(),  # the requested size
    "part": pl.Boolean(),  # whether these are the first bytes of a larger download
    "at_s": pl.Float64(),  # the end or the beginning by the tool's clock
    "outcome": pl.String(),  # ok, timeout, failed or unfinished
    "ttfb_s": pl.Float64(),  # since the client requested a stream or created its socket
    "ttlb_s": pl.Float64(),
    "ttfb_request_s": pl.Float64(),  # since the client sent its request over an existing connection
    "ttlb_request_s": pl.Float64(),
}
"""The columns of downloads. A time is null if it did not happen or was not recorded."""

CLOCKS = {"start": ("ttfb_s", "ttlb_s"), "request": ("ttfb_request_s", "ttlb_request_s")}
"""The starting points of times, and their columns."""


class Tried(NamedTuple):
    """The number of failed downloads, and the number of attempts that were not cut off."""

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
    """The downloads, with the columns of `SCHEMA`."""
    tried: Tried | None = None
    """The failures of all sizes together, if the sizes of failed downloads are unknown."""
    notes: tuple[str, ...] = ()
    """Notes that help to interpret the numbers."""
    setting: Setting | None = None
    """The clients and the network; only for outputs of Penstock."""

    @property
    def ours(self) -> bool:
        """Whether the source is an output of Penstock."""
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
        """The starting points that the source's times can have."""
        return [clock for clock, (_, last) in CLOCKS.items() if self.downloads[last].count() > 0]


@dataclass
class Found:
    """The downloads that were collected from documents."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    network: str = ""
    """The simulation or file of the next downloads."""
    onion: int = 0
    """The number of downloads from onion services, which are left out."""
    unread: int = 0
    """The number of downloads without a size."""
    failures: int = 0
    """The number of failed downloads of unknown size."""
    tried: Tried | None = None
    """The failures of all sizes, if the documents count them."""

    def add(self, size: int, **columns: Any) -> None:
        """Collect a download of a size [B] with these columns of `SCHEMA`."""
        self.rows.append({"network": self.network, "seed": 0, "bytes": size, "part": False, "outcome": "ok", **columns})

    def add_steps(
        self,
        size: int,
        steps: tuple[float | None, float | None, float | None],
        error: str | None,
        *,
        remote: str,
        at: float | None,
        parts: Mapping[str, float | None],
    ) -> None:
        """Collect a download of tgen.

        Args:
            size: the requested size [B].
            steps: the times at which the request left and the first and last byte arrived, since the start [s].
            error: tgen's error; none if the download is complete.
            remote: the server.
            at: the end or the start of the download by the tool's clock [s].
            parts: for each smaller size, the time at which this number of bytes had arrived [s].
        """
        if ".onion" in remote:
            self.onion += 1
            return
        if error is not None:
            outcome = "timeout" if error.upper().startswith(TIMEOUTS) else "failed"
            self.add(size, at_s=at, outcome=outcome)
            return
        request, first, last = steps

        def since(time: float | None) -> float | None:
            return time - request if request is not None and time is not None and time >= request else None

        ends = {part: parts.get(str(part)) or 0 for part in PARTS if part < size}
        for of, end in {size: last, **{part: end for part, end in ends.items() if end > 0}}.items():
            times = {"ttfb_s": first, "ttlb_s": end, "ttfb_request_s": since(first), "ttlb_request_s": since(end)}
            self.add(of, part=of != size, at_s=at, **times)

    def count(self, failed: int, attempts: int) -> None:
        """Add failed downloads of any size, and their attempts."""
        before = self.tried or Tried(0, 0)
        self.tried = Tried(before.failed + failed, before.attempts + attempts)

    def whole(self, label: str, path: Path, kind: str, *notes: str) -> Source:
        """The source with all collected downloads. At least one download must be complete."""
        rows = frame(self.rows)
        if rows.filter(outcome="ok").is_empty():
            onion = f"; {self.onion} from onion services do not count" if self.onion else ""
            raise OutputError(f"{path} has no complete download{onion}")
        ended = rows.filter(part=False)
        rows = rows.filter(~pl.col("part") | ~pl.col("bytes").is_in(ended["bytes"].unique().implode()))
        tried = self.tried
        if self.failures:
            known = ended.filter(pl.col("outcome") != "ok").height
            tried = Tried(self.failures + known, self.failures + ended.height)
        return Source(label, path, kind, rows, tried, (*notes, *self._notes(rows)))

    def _notes(self, rows: pl.DataFrame) -> Iterable[str]:
        parts = rows.filter(part=True)["bytes"].unique().sort()
        if len(parts):
            yield f"{' and '.join(map(size_name, parts))} are the first bytes of larger downloads"
        if self.onion:
            yield f"{self.onion} downloads from onion services are left out"
        if self.unread:
            yield f"{self.unread} downloads without a size are left out"


def frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Downloads as a table."""
    return in_nanoseconds(pl.DataFrame(list(rows), SCHEMA))


def in_nanoseconds(downloads: pl.DataFrame) -> pl.DataFrame:
    """Downloads with times rounded to nanoseconds.

    The simulator counts nanoseconds. Its tables and other tools write the same time with different last bits.
    """
    # `round(9)` of polars depends on the last bits.
    return downloads.with_columns((pl.col(*CLOCKS["start"], *CLOCKS["request"]) * 1e9).round() / 1e9)


def size_name(size: int) -> str:
    """A size as text, such as `50 KiB`, `5 MiB` or `1234 B`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def number(value: Any) -> float | None:
    """A finite number, also if it is written as text; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) < 1e15 else None


def whole_number(value: Any) -> int | None:
    """A positive size in bytes; None for any other value."""
    found = number(value)
    return int(found) if found is not None and found == int(found) and 0 < found < MOST_BYTES else None


Number = Annotated[float | None, BeforeValidator(number)]
"""A number in a document; None for any other value."""

Seconds = Annotated[float, Field(ge=0), BeforeValidator(number), must("it must be a number of seconds")]
Size = Annotated[int, BeforeValidator(whole_number), must("it must be a size in bytes")]

NullAsEmpty = BeforeValidator(lambda value: {} if value is None else value)
"""A JSON object that may be null."""

Times = Annotated[dict[Size, list[Seconds]], NullAsEmpty]
"""The times of downloads by size [s]."""
