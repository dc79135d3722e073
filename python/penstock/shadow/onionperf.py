"""Writes an output of Penstock as analyses of OnionPerf, version 3.1, which `onionperf visualize` reads.

Source: OnionPerf 0.9, schema/onionperf-3.1.json and visualization.py. Each run is one file, and each client is a source
in it. A client of tgen measures all times from the creation of its socket. Here, they count from the request of a
stream on an existing circuit.

Deviation: the clock starts at the beginning of the run instead of the Unix epoch. Times have the nanoseconds of the
simulator as decimals of a microsecond. Names of nodes that no table has are `unknown`. Circuits, streams of Tor, and
times of parts of a download are missing.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from penstock.errors import naming
from penstock.shadow import runs
from penstock.shadow.names import Names

ENDING = "onionperf.analysis.json"
VERSION = "3.1"
UNKNOWN, MISSING = "unknown", "-1"

STEPS = (
    "checksum-recv",
    "checksum-send",
    "command",
    "first-byte-recv",
    "first-byte-send",
    "last-byte-recv",
    "last-byte-send",
    "proxy-choice",
    "proxy-init",
    "proxy-request",
    "proxy-response",
    "response",
    "socket-connect",
    "socket-create",
)
"""The steps of a download whose times the schema requires, or -1 for a missing time."""


def export(directory: Path, out: Path) -> list[Path]:
    """Write an analysis for each run of `directory` into the new directory `out`, and return the folders of variants.

    Raises:
        OutputError: as `runs.read` does, or if a file cannot be written.
    """
    result, found = runs.read(directory, out)
    names = Names()
    sources = {client: names.take(client) for client in sorted(result.transfers["client"].unique())}
    for run in found:
        path = run.folder(out) / f"{run.name}.{ENDING}"
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(_analysis(run, sources)) + "\n", encoding="utf-8")
    return sorted(path for path in out.iterdir() if path.is_dir())


def _analysis(run: runs.Run, sources: Mapping[str, str]) -> dict[str, Any]:
    """The document of one run, without the downloads that the end of the run cut off."""
    ended = run.begun.filter(pl.col("outcome") != "unfinished")
    data = {}
    for (client,), rows in ended.sort("client", maintain_order=True).group_by("client", maintain_order=True):
        source = sources[str(client)]
        # Graphs of several files need identifiers that are unique in all of them.
        streams = [
            _stream(f"{number}:{source}:{run.variant}:{run.name}", number, row)
            for number, row in enumerate(rows.iter_rows(named=True), 1)
        ]
        data[source] = {
            "measurement_ip": UNKNOWN,
            "tgen": {"streams": {stream["stream_id"]: stream for stream in streams}},
            "tor": {"circuits": {}, "streams": {}},
        }
    return {"type": "onionperf", "version": VERSION, "data": data}


def _stream(identifier: str, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """One download, from its row in `transfers`. A failed download ends with its last known step."""
    ok, start = row["outcome"] == "ok", row["start_s"]
    connect, first, last = row["connect_s"], row["ttfb_s"], row["ttlb_s"]
    end = start + max(each or 0.0 for each in (connect, first, last))
    connected, received = connect is not None, row["bytes_received"]
    # Without Tor, a client has no circuit, and its connection goes to the server.
    opened = "socket-connect" if row["circuit"] is None else "proxy-response"
    steps = {opened: connect, "command": connect, "first-byte-recv": first, "last-byte-recv": last}
    return {
        "stream_id": identifier,
        "is_complete": True,
        "is_error": not ok,
        "is_success": ok,
        "unix_ts_start": start,
        "unix_ts_end": end,
        "byte_info": {
            # The tables have payload only. A request has none.
            "payload-bytes-recv": str(received),
            "payload-bytes-send": "0",
            "payload-progress-recv": f"{100 * received / max(row['bytes'], 1):.2f}%",
            "payload-progress-send": "100.00%",
            "total-bytes-recv": str(received),
            "total-bytes-send": "0",
        },
        "stream_info": {
            "error": "NONE" if ok else row["outcome"].upper(),
            "id": str(number),
            "name": row["client"],
            "peername": UNKNOWN,
            "recvsize": str(row["bytes"]),
            "recvstate": "RECV_SUCCESS" if ok else "RECV_NONE" if first is None else "RECV_PAYLOAD",
            "sendsize": "0",
            "sendstate": "SEND_SUCCESS" if connected else "SEND_NONE",
            "vertexid": row["workload"],
        },
        "time_info": {
            "created-ts": _microseconds(start),
            "now-ts": _microseconds(end),
            **{f"usecs-to-{step}": _microseconds(steps.get(step)) for step in STEPS},
        },
        "transport_info": {
            "error": "NONE",
            "fd": UNKNOWN,
            "local": UNKNOWN,
            "proxy": UNKNOWN,
            "remote": UNKNOWN,
            "state": "SUCCESS_OPEN" if connected else UNKNOWN,
        },
    }


def _microseconds(seconds: float | None) -> str:
    """A time [µs] with up to three decimals, which are nanoseconds; -1 if it is unknown."""
    if seconds is None:
        return MISSING
    whole, rest = divmod(round(seconds * 1e9), 1000)
    return f"{whole}.{rest:03}" if rest else str(whole)
