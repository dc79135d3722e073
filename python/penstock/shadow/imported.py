"""Turns finished runs of Shadow into an output directory of Penstock.

Downloads come from the logs of tgen's clients, circuits from the logs of their C tor, bytes of relays from the
heartbeats in C tor's logs, and consensus weights from the consensus that the authorities have stored. All of them are
in `shadow.data/hosts`.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from penstock import _core, identity
from penstock.compare.source import number, whole_number
from penstock.errors import OutputError, naming
from penstock.output import COSTS, read_json, write_json
from penstock.shadow.circuits import TIME, Circuit, Circuits, row, time_of
from penstock.shadow.export import FACTS
from penstock.shadow.torrc import EPOCH
from penstock.validation import parse

DATA = "shadow.data"
"""The data directory of Shadow, beside `shadow.yaml`."""
LAST = "sim-stats.json"
"""The file that Shadow writes at the end of a run."""

KEY = {"variant": pl.String, "network": pl.String, "seed": pl.UInt64}
_TIME, _COUNT, _TEXT = pl.Float64, pl.Int64, pl.String

SCHEMAS: dict[str, dict[str, Any]] = {
    "transfers": {
        "client": _TEXT, "workload": _TEXT, "circuit": _COUNT, "stream": _COUNT, "direction": _TEXT, "bytes": _COUNT,
        "bytes_received": _COUNT, "start_s": _TIME, "connect_s": _TIME, "ttfb_s": _TIME, "ttlb_s": _TIME,
        "outcome": _TEXT, "warmup": pl.Boolean,
    },
    "paths": {
        "circuit": _COUNT, "client": _TEXT, "built_s": _TIME, "build_time_s": _TIME, "guard": _TEXT, "middle": _TEXT,
        "exit": _TEXT,
    },
    "relays": {
        "relay": _TEXT, "position": _TEXT, "t_s": _TIME, "read_bytes": _COUNT, "written_bytes": _COUNT,
        "circuit_queue_cells": _COUNT, "outbuf_bytes": _COUNT, "kernel_out_bytes": _COUNT, "throttled_conns": _COUNT,
        "bound_by": _TEXT, "written_cells": _COUNT, "credits": _COUNT, "longest_queue_cells": _COUNT,
    },
    "circuits": {
        "circuit": _COUNT, "workload": _TEXT, "hop": _TEXT, "t_s": _TIME, "queue_cells": _COUNT,
        "window_cells": pl.Int64, "rtt_s": _TIME, "client": _TEXT, "cwnd_segments": _COUNT,
        "ssthresh_segments": _COUNT, "srtt_s": _TIME, "backlog_cells": pl.Float64, "backlog_beyond_cells": pl.Float64,
        "sendmes": _COUNT,
    },
    "cells": {
        "circuit": _COUNT, "workload": _TEXT, "cell": _COUNT, "hop": _TEXT, "nic_in_ns": _COUNT, "read_ns": _COUNT,
        "parsed_ns": _COUNT, "queued_ns": _COUNT, "outbuf_ns": _COUNT, "kernel_ns": _COUNT, "nic_out_ns": _COUNT,
        "kernel_in_s": _TIME, "circuit_queue_s": _TIME, "outbuf_s": _TIME, "kernel_out_s": _TIME,
    },
    "clients": {"client": _TEXT, "t_s": _TIME, "received_bytes": _COUNT, "throttled": pl.Boolean},
}  # fmt: skip
"""The columns of an output's tables. Shadow fills `transfers`, `paths` and `relays`; unknown values are null."""

Row = dict[str, Any]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Relay(_Shape):
    """A relay of an exported network."""

    name: str
    host: str
    fingerprint: Annotated[str, Field(pattern=r"^[0-9A-F]{40}$")]
    weight: int
    guard: bool
    exit: bool

    @property
    def position(self) -> str:
        """The position that the flags allow first."""
        return "exit" if self.exit else "guard" if self.guard else "middle"


class Client(_Shape):
    """A client of an exported network."""

    name: str
    host: str
    direct: bool


class Logs(_Shape):
    """The names of the programs, with which Shadow names their logs."""

    tor: str = "tor"
    tgen: str = "tgen"

    def of(self, folder: Path, program: str) -> list[Path]:
        """The logs of a program in the folder of a host."""
        return sorted(path for path in folder.glob("*.stdout") if path.name.startswith(f"{program}."))


class Facts(_Shape):
    """The content of `penstock.json`, which the export wrote."""

    scenario: dict[str, Any]
    typed: str
    variant: str
    network: str
    seed: Annotated[int, Field(ge=0)]
    boot_s: float
    duration_s: Annotated[float, Field(gt=0)]
    warmup_s: float
    sample_s: Annotated[int, Field(gt=0)]
    relays: list[Relay]
    clients: list[Client]
    authorities: list[str]
    workloads: list[str]
    logs: Logs = Logs()


def read(directories: Sequence[Path], out: Path) -> None:
    """Write the runs of Shadow in `directories` into the new output directory `out`.

    Raises:
        OutputError: if a directory has no finished run, or two directories have the same run.
    """
    experiments = [(directory, _facts(directory)) for directory in directories]
    seen: dict[tuple[str, str, int], Path] = {}
    for directory, facts in experiments:
        run = facts.variant, facts.network, facts.seed
        if run in seen:
            raise OutputError(f"{seen[run]} and {directory} are the same run: variant {run[0]}, seed {run[2]}")
        if facts.scenario["name"] != experiments[0][1].scenario["name"]:
            raise OutputError(f"{directory} is of another scenario than {directories[0]}")
        seen[run] = directory
    with naming(out, "make"):
        if out.exists():
            raise OutputError(f"{out} exists; choose another --out")
    order = {name: rank for rank, name in enumerate(dict.fromkeys(facts.variant for _, facts in experiments))}
    experiments.sort(key=lambda pair: (order[pair[1].variant], len(pair[1].network), pair[1].network, pair[1].seed))
    rows: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    runs, weights = [], []
    for directory, facts in experiments:
        key: Row = {"variant": facts.variant, "network": facts.network, "seed": facts.seed}
        hosts = directory / DATA / "hosts"
        if not (directory / DATA / LAST).is_file():
            raise OutputError(f"{directory} has no {DATA}/{LAST}, so its run is not finished; run Shadow there again")
        transfers, paths = ([{**key, **row} for row in found] for found in _transfers(hosts, facts))
        if not transfers:
            raise OutputError(f"{hosts} has no log of a download; did Shadow finish in {directory}?")
        relays = [{**key, **row} for row in _relay_bytes(hosts, facts)]
        rows["transfers"] += transfers
        rows["paths"] += paths
        rows["relays"] += relays
        runs.append({**key, **dict.fromkeys(COSTS, 0), **_costs(directory), "sim_seconds": facts.duration_s})
        weights += [{**key, **row} for row in _consensus(hosts, facts)]
    with naming(out, "make"):
        out.mkdir(parents=True)
    for name, schema in SCHEMAS.items():
        with naming(out / f"{name}.parquet"):
            pl.DataFrame(rows[name], schema={**KEY, **schema}).write_parquet(out / f"{name}.parquet")
    write_json(out / "manifest.json", _manifest([facts for _, facts in experiments], runs, weights))


def _facts(directory: Path) -> Facts:
    if not (directory / FACTS).is_file():
        raise OutputError(f"{directory} is not an export of penstock: it has no {FACTS}")
    return parse(Facts, read_json(directory / FACTS), directory / FACTS, OutputError)


def _manifest(all_facts: Sequence[Facts], runs: list[Row], weights: list[Row]) -> Row:
    first = all_facts[0]
    variants = {facts.variant: facts.scenario["variants"][0] for facts in all_facts}
    return {
        "version": _core.version(),
        "build": identity.build(),
        "finished": True,
        "asked": {
            "scenario": first.typed,
            "variants": list(variants),
            "seeds": sorted({facts.seed for facts in all_facts}),
        },
        "world": "shadow",
        "scenario": {**first.scenario, "variants": list(variants.values())},
        "runs": runs,
        "consensus": weights,
        "peak_rss_bytes": 0,
    }


_TAG = re.compile(r"\[(stream-success|stream-error)\]")
_FIELD = re.compile(r"([a-z][a-z-]*)=([^\s,\]]*)")
_VERTEX = re.compile(r"stream-([0-9]+)-([0-9]+)-[0-9]+")


def _transfers(hosts: Path, facts: Facts) -> tuple[list[Row], list[Row]]:
    """The downloads of all clients, and their circuits. Times count from the start of the scenario.

    Without the client's lines about circuits, all downloads of a loop count as one circuit, and its path is unknown.
    """
    relays = {relay.fingerprint: relay.name for relay in facts.relays}
    numbers: dict[tuple[str, int, int] | tuple[str, Circuit], int] = {}
    transfers: list[Row] = []
    paths: list[Row] = []
    for client in facts.clients:
        streams: dict[int, int] = {}
        circuits = Circuits(_lines(facts.logs.of(hosts / client.host, facts.logs.tor)), relays)
        known = bool(circuits)
        for line in _lines(facts.logs.of(hosts / client.host, facts.logs.tgen)):
            tag = _TAG.search(line)
            if tag is None:
                continue
            fields = dict(_FIELD.findall(line, tag.end()))
            vertex = _VERTEX.fullmatch(fields.get("vertexid", ""))
            start, size = _start(line[: tag.start()].split(), fields), whole_number(fields.get("recvsize"))
            if vertex is None or start is None or size is None or int(vertex[1]) >= len(facts.workloads):
                continue
            ok = tag[1] == "stream-success"
            # A client without Tor has no circuit, and connects to the server.
            connect = _seconds(fields, "socket-connect" if client.direct else "proxy-response")
            used = None if connect is None else circuits.take(start + connect - EPOCH)
            loop = client.name, int(vertex[1]), int(vertex[2])
            circuit = numbers.setdefault((client.name, used) if used else loop, len(numbers))
            streams[circuit] = streams.get(circuit, 0) + 1
            if used is not None and streams[circuit] == 1:
                paths.append(row(client.name, circuit, used))
            start -= EPOCH + facts.boot_s
            transfers.append({
                "client": client.name,
                "workload": facts.workloads[int(vertex[1])],
                "circuit": None if client.direct or (known and used is None) else circuit,
                "stream": streams[circuit],
                "direction": "download",
                "bytes": size,
                "bytes_received": whole_number(fields.get("payload-bytes-recv")) or 0,
                "start_s": start,
                "connect_s": connect,
                "ttfb_s": _seconds(fields, "first-byte-recv"),
                "ttlb_s": _seconds(fields, "last-byte-recv") if ok else None,
                "outcome": "ok" if ok else "timeout" if fields.get("error") in ("TIMEOUT", "STALLOUT") else "failed",
                "warmup": start < facts.warmup_s,
            })  # fmt: skip
    return transfers, paths


def _start(words: Sequence[str], fields: dict[str, str]) -> float | None:
    """The Unix time at which a download began [s]: the time of the line, minus the age of the download."""
    logged = number(words[2]) if len(words) > 2 else None
    now, created = number(fields.get("now-ts")), number(fields.get("created-ts"))
    return None if logged is None or now is None or created is None else logged - (now - created) * 1e-6


def _seconds(fields: dict[str, str], name: str) -> float | None:
    """The time of a step [s]; none if it did not happen."""
    value = number(fields.get(f"usecs-to-{name}"))
    return None if value is None or value < 0 else value * 1e-6


_BEAT = re.compile(
    TIME + r".*"
    r"I've sent (?P<sent>[0-9.]+) (?P<sent_unit>[kMG]B),? and (?:I've )?received (?P<got>[0-9.]+) (?P<got_unit>[kMG]B)"
)
_UNITS = {"kB": 1024, "MB": 1 << 20, "GB": 1 << 30}


def _relay_bytes(hosts: Path, facts: Facts) -> Iterator[Row]:
    """The bytes of each relay between two heartbeats of its log, which has them in units of 1/100 MB."""
    for relay in facts.relays:
        before: tuple[float, int, int] | None = None
        for line in _lines(facts.logs.of(hosts / relay.host, facts.logs.tor)):
            beat = _BEAT.match(line)
            if beat is None:
                continue
            at = time_of(beat) - facts.boot_s
            sent, got = (round(float(beat[name]) * _UNITS[beat[f"{name}_unit"]]) for name in ("sent", "got"))
            if before is not None and at > 0:
                yield {
                    "relay": relay.name,
                    "position": relay.position,
                    "t_s": at,
                    "read_bytes": max(0, got - before[2]),
                    "written_bytes": max(0, sent - before[1]),
                }
            before = at, sent, got


def _consensus(hosts: Path, facts: Facts) -> Iterator[Row]:
    """The consensus weight and flags of each relay, beside its weight in the scenario."""
    documents = [hosts / name / "cached-microdesc-consensus" for name in facts.authorities]
    document = next(filter(Path.is_file, documents), None)
    if document is None:
        return
    found: dict[str, Row] = {}
    fingerprint = ""
    for line in _text(document).splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "r":
            fingerprint = _hex(rest.split()[1])
            found[fingerprint] = {"flags": [], "weight": None}
        elif kind == "s" and fingerprint:
            found[fingerprint]["flags"] = rest.split()
        elif kind == "w" and fingerprint:
            value = re.search(r"Bandwidth=([0-9]+)", rest)
            found[fingerprint]["weight"] = int(value[1]) if value else None
    for relay in facts.relays:
        entry = found.get(relay.fingerprint)
        yield {
            "relay": relay.name,
            "weight": relay.weight,
            "consensus_weight": entry["weight"] if entry else None,
            "flags": entry["flags"] if entry else None,
        }


def _hex(identity: str) -> str:
    """The fingerprint of a base64 identity without padding; empty if it is wrong."""
    try:
        return base64.b64decode(identity + "=" * (-len(identity) % 4)).hex().upper()
    except ValueError:
        return ""


_HEARTBEAT = re.compile(r"^([0-9]+):([0-9]{2}):([0-9.]+) ")


def _costs(directory: Path) -> Row:
    """The real time of Shadow, from the last line of `shadow.log`; empty without this file."""
    log = directory / "shadow.log"
    times = [_HEARTBEAT.match(line) for line in _text(log).splitlines()[-100:]] if log.is_file() else []
    last = [found for found in times if found]
    if not last:
        return {}
    hours, minutes, seconds = last[-1].groups()
    return {"wall_seconds": int(hours) * 3600 + int(minutes) * 60 + float(seconds)}


def _lines(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from _text(path).splitlines()


def _text(path: Path) -> str:
    with naming(path, "read"):
        return path.read_text(encoding="utf-8", errors="replace")
