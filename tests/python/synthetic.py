"""An output directory with made-up numbers of the right shape, for tests that need no simulator.

Two clients behind a slow relay, as the DefenestraTor paper has them: the stock window fills the queue, so the web
client waits; the small one keeps it short, so the bulk client is slower.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl

from penstock.result import Result

RUN = {"variant": "it", "network": "", "seed": 1}
"""The run of `in_memory`."""


def in_memory(scenarios: Mapping[str, str], **tables: list[dict[str, Any]]) -> Result:
    """The parts of a result that measures use: the scenarios of its variants, and the rows of one run of `it`."""
    frames = {name: pl.DataFrame([RUN | row for row in rows]) for name, rows in tables.items()}
    variants = [{"name": name, "resolved": text} for name, text in scenarios.items()]
    return cast(Result, SimpleNamespace(manifest={"scenario": {"variants": variants}}, **frames))


VARIANTS = {"stock": "stock", "small": "50 KiB window", "dynamic": "dynamic window"}

# Mean TTFB and download time of web, and of bulk [s]; most cells in the bulk queue [cell].
SHAPES = {"stock": ((4.3, 8.6), (1.4, 55.0), 256), "small": ((1.2, 5.8), (0.9, 75.0), 100)}
SHAPES["dynamic"] = ((2.0, 6.3), (1.1, 61.0), 200)


def write(
    directory: Path,
    variants: tuple[str, ...] = ("stock", "small"),
    seeds: int = 5,
    *,
    networks: int = 0,
    finished: bool = True,
    traced: bool = True,
) -> Path:
    """Write the directory and return it; without `networks` they have no names, and untraced there are no cells."""
    directory.mkdir(parents=True)
    transfers, circuits, cells, relays, paths, clients, runs = [], [], [], [], [], [], []
    for variant in variants:
        for network, seed in [(n, s) for n in range(1, networks + 1) or [0] for s in range(1, seeds + 1)]:
            rng = np.random.default_rng([seed, len(variant), *([network] if network else [])])
            key = {"variant": variant, "network": str(network or ""), "seed": seed}
            slow = 1 + 0.1 * network
            web, bulk, most = SHAPES[variant]
            web = (web[0] * slow, web[1] * slow)
            small = _transfers(rng, "web", 60, 307_200, web)
            large = _transfers(rng, "bulk", 8, 5 << 20, bulk)
            transfers += [{**key, **row} for row in small + large]
            if traced:
                circuits += [{**key, **row} for row in _queue(rng, large, most)]
                cells += [{**key, **row} for row in _cells(rng, variant, small + large) if seed == 1 and network < 2]
            relays.append({**key, **_relay()})
            paths.append({**key, **_path()})
            clients.append({**key, "client": "web-1", "t_s": 1.0, "received_bytes": 498})
            runs.append({**key, **_cost()})
    frames = {
        "transfers": transfers,
        "circuits": circuits,
        "cells": cells,
        "relays": relays,
        "paths": paths,
        "clients": clients,
    }
    for name, rows in frames.items():
        frame = pl.DataFrame(rows, infer_schema_length=None)
        if finished:
            frame.write_parquet(directory / f"{name}.parquet")
            continue
        for run in runs:
            part = directory / "parts" / f"{run['variant']}-{run['seed']}"
            part.mkdir(parents=True, exist_ok=True)
            frame.filter(variant=run["variant"], seed=run["seed"]).write_parquet(part / f"{name}.parquet")
            (part / "run.json").write_text(json.dumps(run))
    _write_manifest(directory, runs if finished else [], variants, seeds, finished=finished)
    return directory


def _transfers(
    rng: np.random.Generator, workload: str, count: int, size: int, means: tuple[float, float]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    start = 1.0
    for i in range(count):
        ttfb = float(max(0.64, rng.normal(means[0], 0.22 * means[0])))
        ttlb = ttfb + float(rng.gamma(16, (means[1] - means[0]) / 16))
        rows.append({
            "client": f"{workload}1", "workload": workload, "circuit": 1 if workload == "web" else 2, "stream": i,
            "direction": "download", "bytes": size, "bytes_received": size, "start_s": start, "connect_s": 0.4,
            "ttfb_s": ttfb, "ttlb_s": ttlb, "outcome": "ok", "warmup": i == 0,
        })  # fmt: skip
        start += ttlb + float(rng.uniform(1, 3))
    last: dict[str, object] = {**rows[-1], "stream": count, "start_s": start}
    rows.append({**last, "ttfb_s": None, "ttlb_s": None, "outcome": "unfinished", "bytes_received": 0})
    return rows


def _queue(rng: np.random.Generator, downloads: list[dict[str, object]], most: int) -> list[dict[str, object]]:
    """A sawtooth: a SENDME lets a hundred cells in, the bottleneck takes them out one by one."""
    rows: list[dict[str, object]] = []
    for download in downloads:
        if download["ttlb_s"] is None:
            continue
        start, length = float(str(download["start_s"])), float(str(download["ttlb_s"]))
        for t in np.arange(0.0, length, 0.1):
            phase = (t / 1.1) % 1.0
            level = most * (1 - 0.75 * phase) if t > 1 else 0
            cells = int(min(most, max(0.0, level + rng.normal(0, 2))))
            rows.append({
                "circuit": 2, "workload": "bulk", "hop": "exit", "t_s": start + float(t), "queue_cells": cells,
                "window_cells": 100, "rtt_s": 0.5,
            })  # fmt: skip
    return rows


def _cells(rng: np.random.Generator, variant: str, downloads: list[dict[str, object]]) -> list[dict[str, object]]:
    """One of ten cells of each download: bursts of a hundred enter the exit's queue and leave one by one."""
    most = {"stock": 2.5, "small": 0.4, "dynamic": 1.0}[variant]
    rows: list[dict[str, object]] = []
    for download in downloads:
        if download["ttlb_s"] is None:
            continue
        start = float(str(download["start_s"])) + float(str(download["ttfb_s"])) / 2
        length = float(str(download["start_s"])) + float(str(download["ttlb_s"])) - start - most
        count = min(600, int(str(download["bytes"])) // 498)
        for cell in range(0, count, 10):
            burst, place = divmod(cell, 100)
            at = int((start + length * burst * 100 / count + 0.002 * place) * 1e9)
            for hop, scale in (("exit", 1.0), ("middle", 0.3), ("guard", 0.01)):
                waits = [0.01 * scale, most * scale * place / 100, 0.2 * scale, 0.5 * scale]
                kernel_in, queue, outbuf, kernel_out = (int(w * float(rng.uniform(0.95, 1.05)) * 1e9) for w in waits)
                read, left = at + kernel_in, at + kernel_in + queue
                written, nic_out = left + outbuf, left + outbuf + kernel_out
                rows.append({
                    "circuit": download["circuit"], "workload": download["workload"], "cell": cell, "hop": hop,
                    "nic_in_ns": at, "read_ns": read, "parsed_ns": read, "queued_ns": read, "outbuf_ns": left,
                    "kernel_ns": written, "nic_out_ns": nic_out, "kernel_in_s": kernel_in / 1e9,
                    "circuit_queue_s": queue / 1e9, "outbuf_s": outbuf / 1e9, "kernel_out_s": kernel_out / 1e9,
                })  # fmt: skip
                at = nic_out + 40_000_000
    return rows


def _relay() -> dict[str, object]:
    return {
        "relay": "middle", "position": "middle", "t_s": 1.0, "read_bytes": 131_072, "written_bytes": 131_072,
        "circuit_queue_cells": 0, "outbuf_bytes": 0, "kernel_out_bytes": 0, "throttled_conns": 0, "bound_by": "link",
        "written_cells": 21_000, "credits": 1_000, "longest_queue_cells": 90,
    }  # fmt: skip


def _path() -> dict[str, object]:
    names = {"guard": "entry", "middle": "middle", "exit": "exit"}
    return {"circuit": 1, "client": "web1", "built_s": 0.9, "build_time_s": 0.9, **names}


def _cost() -> dict[str, object]:
    spent = {"sim_seconds": 600.0, "wall_seconds": 1.5, "cpu_seconds": 1.4}
    return {**spent, "events": 1_000_000, "packets": 400_000, "cells": 200_000, "data_cells": 60_000, "sendmes": 1_800,
            "relay_calls": 60_000, "relay_queries": 30_000, "peak_heap_bytes": 4_000_000}  # fmt: skip


def _write_manifest(
    directory: Path, runs: list[dict[str, object]], variants: tuple[str, ...], seeds: int, *, finished: bool
) -> None:
    name = "defenestrator/bottleneck"
    asked = {"scenario": name, "variants": variants, "seeds": list(range(1, seeds + 1))}
    scenario = {
        "name": name,
        "fingerprint": "0123456789abcdef",
        "title": "Two clients behind a slow middle relay",
        "paper": "defenestrator",
        "section": "5.1",
        "figures": ["2", "6"],
        "notes": "",
        "sets": [],
        "variants": [{"name": name, "label": label, "resolved": "[run]\n"} for name, label in VARIANTS.items()],
    }
    manifest = {"version": "0.1.0", "finished": finished, "asked": asked, "scenario": scenario, "runs": runs}
    manifest["peak_rss_bytes"] = 200_000_000
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
