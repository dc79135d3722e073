"""Reads JSON analyses of OnionPerf (versions 1 to 5) and of tgentools, which tornettools calls.

Source: OnionPerf's README_JSON.md and schema/onionperf-3.0.json to 5.0; tgen's doc/Tools-JSON-Format.md and tgentools'
`TGenParser`. Up to version 2, measurements are `transfers`. From version 3, they are `streams` with the same fields as
tgen's log lines. Both also have a summary, without sizes of failed downloads. Times in the summary count from the
request.
"""

from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, Field, model_validator

from penstock.compare import tgen
from penstock.compare.source import Found, NullAsEmpty, Number, Seconds, Size, number, whole_number
from penstock.errors import OutputError
from penstock.validation import parse

CLIENT = "perfclient"
"""The prefix of the measuring clients in a tornettools network."""

Fields = Annotated[dict[str, Any], NullAsEmpty]
TimesBySecond = Annotated[dict[Size, Annotated[dict[str, list[Seconds]], NullAsEmpty]], NullAsEmpty]
"""Times of downloads by size, and by the second in which the download ended [s]."""


class _Elapsed(BaseModel):
    """The time of each step [s]."""

    command: Number = None
    first_byte: Number = None
    last_byte: Number = None
    parts: Annotated[dict[str, Number], NullAsEmpty] = Field(
        default={}, validation_alias=AliasChoices("payload_bytes", "payload_bytes_recv")
    )


class _Measurement(BaseModel):
    is_success: Any = None
    unix_ts_start: Number = None
    elapsed_seconds: Annotated[_Elapsed, NullAsEmpty] = _Elapsed()


class _Transfer(_Measurement):
    method: Any = "GET"
    is_commander: Any = None
    filesize_bytes: Any = None
    error_code: Any = ""
    endpoint_remote: Any = ""

    def collect(self, found: Found) -> None:
        if self.method != "GET" or self.is_commander is False:
            return
        size = whole_number(self.filesize_bytes)
        if size is None:
            found.unread += 1
            return
        elapsed = self.elapsed_seconds
        command, first, last = (
            at if at is not None and at > 0 else None for at in (elapsed.command, elapsed.first_byte, elapsed.last_byte)
        )
        error = None if self.is_success is True else str(self.error_code)
        remote, at = str(self.endpoint_remote), self.unix_ts_start
        found.add_steps(size, (command, first, last), error, remote=remote, at=at, parts=elapsed.parts)


class _Stream(_Measurement):
    transport_info: Fields = {}
    time_info: Fields = {}
    byte_info: Fields = {}
    stream_info: Fields = {}

    def collect(self, found: Found) -> None:
        fields = {**self.transport_info, **self.time_info, **self.byte_info, **self.stream_info}
        ok, parts = self.is_success is True, self.elapsed_seconds.parts
        tgen.take(fields, found, ok=ok, at=self.unix_ts_start, parts=parts)


class _Summary(BaseModel):
    """Download times by size and then by the second of the download; failures by their kind and second."""

    first: TimesBySecond = Field(
        default={}, validation_alias=AliasChoices("time_to_first_byte_recv", "time_to_first_byte")
    )
    last: TimesBySecond = Field(
        default={}, validation_alias=AliasChoices("time_to_last_byte_recv", "time_to_last_byte")
    )
    errors: Annotated[dict[str, Fields], NullAsEmpty] = {}

    def collect(self, found: Found) -> None:
        for size in {**self.first, **self.last}:
            firsts, lasts = self.first.get(size, {}), self.last.get(size, {})
            for second in {**firsts, **lasts}:
                for first, last in zip_longest(firsts.get(second, []), lasts.get(second, [])):
                    found.add(size, at_s=number(second), ttfb_request_s=first, ttlb_request_s=last)
        failures = [each for by_second in self.errors.values() for each in by_second.values()]
        found.failures += sum(len(each) for each in failures if isinstance(each, list))


class _Tgen(BaseModel):
    streams: Annotated[dict[str, Annotated[_Stream, NullAsEmpty]], NullAsEmpty] = {}
    transfers: Annotated[dict[str, Annotated[_Transfer, NullAsEmpty]], NullAsEmpty] = {}
    stream_summary: Annotated[_Summary, NullAsEmpty] = _Summary()
    transfers_summary: Annotated[_Summary, NullAsEmpty] = _Summary()


class _Node(BaseModel):
    tgen: Annotated[_Tgen, NullAsEmpty] = _Tgen()


class _Analysis(BaseModel):
    type: Literal["onionperf", "tgen"] = "onionperf"
    version: Any = 1
    data: Annotated[dict[str, Annotated[_Node, NullAsEmpty]], NullAsEmpty]

    @model_validator(mode="before")
    @classmethod
    def _choose(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Keep only tornettools' measuring clients. Without such clients or tornettools, keep all nodes."""
        nodes = document.get("data")
        if not isinstance(nodes, dict) or document.get("type") != "tgen":
            return document
        clients = {name: node for name, node in nodes.items() if name.startswith(CLIENT)}
        return {**document, "data": clients or nodes}

    @model_validator(mode="after")
    def _check_version(self) -> Self:
        if self.type == "onionperf" and not 1 <= (number(self.version) or 0) < 6:
            raise ValueError(f"version is {ascii(self.version)[:40]}; it must be 1 to 5")
        return self


def read(path: Path, document: dict[str, Any], found: Found) -> str:
    """Collect the downloads of an analysis; returns the tool that made it."""
    analysis = parse(_Analysis, document, path, OutputError)
    for node in analysis.data.values():
        measured = node.tgen
        measurements: list[_Stream | _Transfer] = [*measured.streams.values(), *measured.transfers.values()]
        for measurement in measurements:
            measurement.collect(found)
        if not measurements:
            measured.stream_summary.collect(found)
            measured.transfers_summary.collect(found)
    return "OnionPerf" if analysis.type == "onionperf" else "tgen"
