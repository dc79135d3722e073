"""Reads JSON analyses of OnionPerf (versions 1 to 5) and of tgentools, which tornettools calls.

Source: OnionPerf's README_JSON.md and schema/onionperf-3.0.json to 5.0; tgen's doc/Tools-JSON-Format.md and
tgentools' `TGenParser`. Up to version 2 the measurements are `transfers`, from 3 on they are `streams` with the fields
of a log's line; a summary of both has times from the request alone, and of failures no size.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from penstock.compare import tgen
from penstock.compare.source import Download, Found, Reader, number, whole_number

VERSIONS = range(1, 6)
"""The supported versions of OnionPerf's format."""

CLIENT = "perfclient"
"""The prefix of the measuring clients in a tornettools network."""

SUMMARIES = {
    "stream_summary": ("time_to_first_byte_recv", "time_to_last_byte_recv"),
    "transfers_summary": ("time_to_first_byte", "time_to_last_byte"),
}


def read(reader: Reader, document: Mapping[str, Any], network: str, found: Found) -> str:
    """Collect the downloads of an analysis; returns the tool that made it."""
    kind = document.get("type", "onionperf")
    if kind not in ("onionperf", "tgen"):
        raise reader.wrong("type", f"is {ascii(kind)[:40]}; it must be onionperf or tgen")
    if kind == "onionperf":
        _check_version(reader, document.get("version", 1))
    nodes = reader.mapping(document["data"], "data")
    ours = [name for name in nodes if name.startswith(CLIENT)] or list(nodes)
    for name in ours:
        where = f"data.{ascii(name)[1:-1][:60]}"
        measured = reader.mapping(reader.mapping(nodes[name], where).get("tgen"), f"{where}.tgen")
        _node(reader, measured, f"{where}.tgen", network, found)
    return "OnionPerf" if kind == "onionperf" else "tgen"


def _check_version(reader: Reader, version: Any) -> None:
    major = number(version)
    if major is None or int(major) not in VERSIONS:
        raise reader.wrong("version", f"is {ascii(version)[:40]}; it must be {VERSIONS[0]} to {VERSIONS[-1]}")


def _node(reader: Reader, measured: Mapping[str, Any], where: str, network: str, found: Found) -> None:
    """Collect single measurements if there are any, otherwise their summary."""
    streams = reader.mapping(measured.get("streams"), f"{where}.streams")
    transfers = reader.mapping(measured.get("transfers"), f"{where}.transfers")
    for stream in streams.values():
        _stream(reader, reader.mapping(stream, f"a measurement in {where}.streams"), where, network, found)
    for transfer in transfers.values():
        _transfer(reader, reader.mapping(transfer, f"a measurement in {where}.transfers"), where, network, found)
    if not streams and not transfers:
        for key, columns in SUMMARIES.items():
            _summary(reader, reader.mapping(measured.get(key), f"{where}.{key}"), columns, where, network, found)


def _stream(reader: Reader, stream: Mapping[str, Any], where: str, network: str, found: Found) -> None:
    fields: dict[str, Any] = {}
    for group in ("transport_info", "time_info", "byte_info", "stream_info"):
        fields |= reader.mapping(stream.get(group), f"{group} in {where}.streams")
    elapsed = reader.mapping(stream.get("elapsed_seconds"), f"elapsed_seconds in {where}.streams")
    understood = tgen.take(
        fields,
        ok=stream.get("is_success") is True,
        at=number(stream.get("unix_ts_start")),
        network=network,
        found=found,
        parts=reader.mapping(elapsed.get("payload_bytes_recv"), f"payload_bytes_recv in {where}.streams"),
    )
    found.unread += not understood


def _transfer(reader: Reader, transfer: Mapping[str, Any], where: str, network: str, found: Found) -> None:
    if transfer.get("method", "GET") != "GET" or transfer.get("is_commander") is False:
        return
    size = whole_number(transfer.get("filesize_bytes"))
    if size is None:
        found.unread += 1
        return
    elapsed = reader.mapping(transfer.get("elapsed_seconds"), f"elapsed_seconds in {where}.transfers")
    tgen.keep(
        {step: _positive(elapsed.get(step)) for step in ("command", "first_byte", "last_byte")},
        size=size,
        ok=transfer.get("is_success") is True,
        error=str(transfer.get("error_code", "")),
        remote=str(transfer.get("endpoint_remote", "")),
        at=number(transfer.get("unix_ts_start")),
        network=network,
        found=found,
        parts=reader.mapping(elapsed.get("payload_bytes"), f"payload_bytes in {where}.transfers"),
    )


def _summary(
    reader: Reader,
    summary: Mapping[str, Any],
    columns: tuple[str, str],
    where: str,
    network: str,
    found: Found,
) -> None:
    """Times by size and by the second in which the download ended; failures by their kind and second."""
    firsts, lasts = (reader.mapping(summary.get(column), f"{where}: {column}") for column in columns)
    for size in {**firsts, **lasts}:
        told = f"{where}: a size"
        bytes_ = reader.size(size, told)
        by_first, by_last = (reader.mapping(times.get(size), f"{where}: {size[:20]}") for times in (firsts, lasts))
        for second in {**by_first, **by_last}:
            both = (reader.times(times.get(second, []), f"{where}: {size[:20]}") for times in (by_first, by_last))
            for first, last in zip_longest(*both):
                found.rows.append(
                    Download(
                        network=network,
                        bytes=bytes_,
                        at_s=number(second),
                        ttfb_request_s=first,
                        ttlb_request_s=last,
                    )
                )
    errors = reader.mapping(summary.get("errors"), f"{where}: errors")
    for kind in errors.values():
        by_second = reader.mapping(kind, f"{where}: errors")
        found.failures += sum(len(each) for each in by_second.values() if isinstance(each, list))


def _positive(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and found > 0 else None
