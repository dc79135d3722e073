"""Small synthetic documents in the formats of OnionPerf, tornettools and tgen, for tests of their parsers."""

import json
from pathlib import Path
from typing import Any

COMMAND_S = 0.4
"""When each of these downloads sent its request, after its start [s]."""

SIZES = (51_200, 1_048_576, 5_242_880)


def times(size: int, i: int) -> tuple[float, float]:
    """First and last byte of the i-th download of a size, since its start [s]."""
    return 0.7 + 0.01 * i, 0.7 + 0.01 * i + size / 500_000


def transfer(size: int, i: int, *, error: str = "NONE", remote: str = "server:1.2.3.4:6666") -> dict[str, Any]:
    """As versions 1 and 2 of OnionPerf's analyses have it."""
    first, last = times(size, i)
    ok = error == "NONE"
    elapsed: dict[str, Any] = {"socket_create": 2e-06, "command": COMMAND_S, "first_byte": first, "last_byte": last}
    return {
        "elapsed_seconds": elapsed if ok else {"socket_create": 2e-06},
        "endpoint_remote": remote,
        "error_code": error,
        "filesize_bytes": size,
        "is_commander": True,
        "is_complete": True,
        "is_error": not ok,
        "is_success": ok,
        "method": "GET",
        "unix_ts_start": 1_456_699_868.0 + 60 * i,
    }


def stream(size: int, i: int, *, error: str = "NONE", remote: str = "server:1.2.3.4:8080") -> dict[str, Any]:
    """As version 3 of OnionPerf's analyses has it, and those of tgentools: numbers are text."""
    first, last = times(size, i)
    ok = error == "NONE"
    micros = {"command": COMMAND_S, "first-byte-recv": first, "last-byte-recv": last}
    stream_ = {
        "byte_info": {"payload-bytes-recv": str(size if ok else 0), "payload-progress-recv": "100.00%"},
        "is_complete": True,
        "is_error": not ok,
        "is_success": ok,
        "stream_info": {"error": error, "id": str(i), "recvsize": str(size), "sendsize": "0"},
        "time_info": {f"usecs-to-{step}": str(round(1e6 * at)) if ok else "-1" for step, at in micros.items()},
        "transport_info": {"error": "NONE", "remote": remote},
        "unix_ts_start": 1_600_000_000.0 + 60 * i,
    }
    if ok:
        reached = {str(part): first + part / 500_000 for part in (10_240, *SIZES) if part <= size}
        stream_["elapsed_seconds"] = {"payload_bytes_recv": reached}
    return stream_


def onionperf(version: Any, measured: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "onionperf",
        "version": version,
        "data": {"op-xy": {"measurement_ip": "1.2.3.4", "tgen": measured, "tor": {}}},
    }


def old(count: int = 10) -> dict[str, Any]:
    """Version 1, with downloads of all sizes."""
    rows = [transfer(size, i) for size in SIZES for i in range(count)]
    rows += [transfer(51_200, 50, error="TIMEOUT"), transfer(5_242_880, 51, error="PROXY")]
    return onionperf(1.0, {"transfers": {f"t:{i}": row for i, row in enumerate(rows)}})


def new(count: int = 10) -> dict[str, Any]:
    """Version 3, only with downloads of 5 MiB, some of them from an onion service."""
    rows = [stream(5_242_880, i) for i in range(count)]
    rows += [stream(5_242_880, 50, error="STALLOUT"), stream(5_242_880, 51, remote="xyz.onion:0.0.0.0:8080")]
    return onionperf("3.1", {"streams": {f"s:{i}": row for i, row in enumerate(rows)}})


def summary(clients: int = 3, count: int = 10) -> dict[str, Any]:
    """Of tgentools without --complete: times from the request by size and second."""

    def of(place: int) -> dict[str, Any]:
        return {
            str(size): {str(946_685_000 + i): [times(size, i)[place] - COMMAND_S] for i in range(count)}
            for size in SIZES
        }

    stream_summary = {
        "time_to_first_byte_recv": of(0),
        "time_to_last_byte_recv": of(1),
        "errors": {"TIMEOUT": {"946685400": [[0, 1000]]}},
    }
    nodes = {f"perfclient{i}": {"tgen": {"streams": {}, "stream_summary": stream_summary}} for i in range(clients)}
    other = {"tgen": {"stream_summary": {"time_to_last_byte_recv": {"51200": {"946685000": [99.0]}}}}}
    return {"type": "tgen", "version": "1.1.0", "data": {**nodes, "markovclient1": other}}


def plot_data(folder: Path, *, ending: str = ".exit", scale: float = 1.0) -> Path:
    """A simulation's tornet.plot.data; of 40 downloads of each of two clients one failed."""
    folder.mkdir(parents=True)
    for name, place in (("time_to_first_byte_recv", 0), ("time_to_last_byte_recv", 1)):
        by_size = {str(size): [scale * (times(size, i)[place] - COMMAND_S) for i in range(13)] for size in SIZES}
        document = {**by_size, "ALL": [each for times_ in by_size.values() for each in times_]}
        (folder / f"{name}{ending}.json").write_text(json.dumps(document, indent=2))
    (folder / f"error_rate{ending}.json").write_text(json.dumps({"ALL": [[2.5, 2.5], [0.0, 2.5]]}))
    return folder


def metrics() -> dict[str, Any]:
    """The results of tornettools from Tor's metrics."""
    by_size = {str(size): [times(size, i)[1] - COMMAND_S for i in range(10)] for size in SIZES}
    days = {"2020-11-01": {"requests": 100, "timeouts": 2, "failures": 1}}
    return {"circuit_rtt": [0.4], "download_times": {**by_size, "ALL": [1.0]}, "daily_counts": days}


def stream_line(size: int, i: int, *, error: str = "NONE", remote: str = "server1:11.0.0.1:8888") -> str:
    """A line of tgen 1.x."""
    first, last = (round(1e6 * at) for at in times(size, i))
    ok = error == "NONE"
    received, steps = (size, (400_000, first, last)) if ok else (0, (-1, -1, -1))
    tag = "success" if ok else "error"
    return (
        f"2000-01-01 00:20:{i:02} {946_686_000 + i}.250000 [message] [tgen-stream.c:1618] [_tgenstream_log] "
        f"[stream-{tag}] transport [fd=12,local=localhost:127.0.0.1:46878,proxy=localhost:127.0.0.1:9050,"
        f"remote={remote},state=SUCCESS,error=NONE] stream [id={i},vertexid=stream5m,name=perfclient1,"
        f"peername=server1,sendsize=0,recvsize={size},sendstate=SEND_SUCCESS,recvstate=RECV_SUCCESS,error={error}] "
        f"bytes [total-bytes-recv={received},total-bytes-send=1,payload-bytes-recv={received},payload-bytes-send=0,"
        "payload-progress-recv=100.00%,payload-progress-send=100.00%] times [created-ts=5948325159988,"
        f"usecs-to-socket-create=11,usecs-to-command={steps[0]},usecs-to-response=-1,"
        f"usecs-to-first-byte-recv={steps[1]},usecs-to-last-byte-recv={steps[2]},usecs-to-checksum-recv=-1,"
        "now-ts=5948446579043]"
    )


def transfer_line(size: int, i: int, *, error: str = "NONE") -> str:
    """A line of tgen before 1.0."""
    first, last = (round(1e6 * at) for at in times(size, i))
    ok = error == "NONE"
    tag, received = ("complete", size) if ok else ("error", 0)
    steps = (400_000, first, last) if ok else (-1, -1, -1)
    return (
        f"2016-02-28 22:51:{i:02} {1_456_699_868 + i}.006196 [message] [tgen-transfer.c:803] [_tgentransfer_log] "
        f"[transfer-{tag}] transport TCP,17,localhost:127.0.0.1:45416,localhost:127.0.0.1:27942,"
        f"server1:216.17.99.183:6666,state=SUCCESS,error=NONE transfer transfer50k,{i},client,GET,{size},server1,{i},"
        f"state=SUCCESS,error={error} total-bytes-read={received + 63} total-bytes-write=50 "
        f"payload-bytes-read={received}/{size} (100.00%) usecs-to-socket-create=2 usecs-to-command={steps[0]} "
        f"usecs-to-response=500000 usecs-to-first-byte={steps[1]} usecs-to-last-byte={steps[2]} "
        "usecs-to-checksum=9999999"
    )


def log(*, before: bool = False) -> str:
    """A client's log, including lines without a download."""
    line = transfer_line if before else stream_line
    head = "2000-01-01 00:00:01 946684801.000000 [message] [tgen-main.c:93] [main] Initializing TGen v1.0.0"
    lines = [line(size, i) for size in SIZES for i in range(10)]
    return "\n".join([head, *lines, line(51_200, 55, error="TIMEOUT"), line(51_200, 56, error="READ")]) + "\n"
