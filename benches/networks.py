"""Measures the speed and the memory of simulations of whole Tor networks, with one thread and with two.

    python benches/networks.py PROGRAM [NETWORK...] [--scale 1] [--rounds 3] [--whole] [--data FILE] [--markdown FILE]

`make bench-network` calls it. PROGRAM is the built example `bench` of `penstock-sim`. Each run has its own process. In
each round, a run with one thread and a run with two threads follow each other. Then a run with 8 threads and a run with
16 threads, both half as long, count the balance of shards.

With `--data`, the runs of each network replace its line in FILE, and the table has all networks of FILE.
"""

import argparse
import json
import os
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _core, generated

Row = dict[str, Any]
"""The measurement of a network: its name, where it was measured, and the numbers of each run."""

BLOCK = "make bench-network"
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""The C library requests huge pages, as `penstock run` does."""

SHARDS = (8, 16)
CLIENTS = {"web": 10_800, "bulk": 1200, "perf50k": 600, "perf1m": 600, "perf5m": 600}
"""The clients of `kist/full`."""
SERVERS = {"us": 1720, "world": 2280}
RELAYS = 3600
LOAD = range(650, 801)
"""What the relays of KIST's experiment wrote [MiB/s]. Rows with another load do not count for the goals."""


@dataclass(frozen=True)
class Network:
    """A network and the length of its runs [s]. Networks with short runs have several rounds."""

    scenario: str
    sets: tuple[str, ...]
    warmup: float
    measured: float
    rounds: bool = True


def resized(relays: int, clients: int) -> tuple[str, ...]:
    """Overrides that give `kist/full` these numbers of relays and clients, and servers in proportion to relays."""
    sets = [f"relays.relay.count={relays}"]
    sets += [f"servers.{name}.count={round(count * relays / RELAYS)}" for name, count in SERVERS.items()]
    share = clients / sum(CLIENTS.values())
    return (*sets, *(f"clients.{name}.count={round(count * share)}" for name, count in CLIENTS.items()))


NETWORKS = {
    "ci": Network("kist/ci", (), 60, 120),
    "tenth": Network("kist/tenth", (), 60, 60),
    "thousand": Network("kist/full", resized(1000, 3833), 60, 30),
    "full": Network("kist/full", (), 60, 20, rounds=False),
    "large": Network("kist/full", resized(8000, 50_000), 20, 40, rounds=False),
}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the example `bench`, built with the release profile")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)}; by default all")
    parser.add_argument("--scale", type=float, default=1, help="multiplies the warm-up and the length of each run")
    parser.add_argument("--rounds", type=int, default=3, help="the rounds of the networks with less than 3,600 relays")
    parser.add_argument("--whole", action="store_true", help="measure only the peak heap of a run of full length")
    parser.add_argument("--data", type=Path, metavar="FILE", help="also write the runs into FILE, a line per network")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table into FILE")
    asked = parser.parse_intermixed_args()
    if unknown := set(asked.networks) - set(NETWORKS):
        parser.error(f"{', '.join(sorted(unknown))}: no such network; there are {', '.join(NETWORKS)}")
    rows = read(asked.data)
    for name in asked.networks or NETWORKS:
        network, row = NETWORKS[name], rows.setdefault(name, {"network": name})
        if asked.whole:
            row["whole"] = bench(asked.program, network, 1, "run.warmup=0 s")
        else:
            rounds = asked.rounds if network.rounds else 1
            row["runs"] = measure(asked.program, network, asked.scale, rounds)
            row |= {"machine": machine(), "made": generated.origin()}
        write(asked.data, rows)
    measured = [rows[name] for name in NETWORKS if "runs" in rows.get(name, {})]
    text = table(measured)
    print(text)
    if asked.markdown:
        generated.write(asked.markdown, BLOCK, text, "; ".join(sorted({row["made"] for row in measured})))


def measure(program: Path, network: Network, scale: float, rounds: int) -> list[Row]:
    """The runs of one and two threads in turn, then a shorter run for each number of shards."""
    warmup, length = scale * network.warmup, scale * (network.warmup + network.measured)
    times = [f"run.warmup={warmup:g} s", f"run.duration={length:g} s"]
    runs = [bench(program, network, threads, *times) for _ in range(rounds) for threads in (1, 2)]
    half = ["run.warmup=0 s", f"run.duration={length / 2:g} s"]
    return runs + [bench(program, network, shards, *half) for shards in SHARDS]


def bench(program: Path, network: Network, threads: int, *sets: str) -> Row:
    """The numbers of one run."""
    file = f"scenarios/{network.scenario}.toml"
    command = [program, "--network-json", file, "vanilla", *network.sets, *sets]
    environment = {**os.environ, **HUGE_PAGES, "THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    run: Row = json.loads(done.stdout)
    print(f"{run['relays']} relays, {threads} threads: {run['wall_s']:.1f} s, peak heap {heap(run)}", flush=True)
    return run


def machine() -> str:
    """The processor of this machine, and how many cores of it this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else 'unknown processor'}, {_core.cores()} cores"


def read(data: Path | None) -> dict[str, Row]:
    """The rows of a data file, by network."""
    lines = data.read_text().splitlines() if data and data.exists() else []
    return {row["network"]: row for row in map(json.loads, lines)}


def write(data: Path | None, rows: dict[str, Row]) -> None:
    """Write a data file, with the networks in the order of `NETWORKS`."""
    if data:
        data.write_text("".join(f"{json.dumps(rows[name])}\n" for name in NETWORKS if name in rows))


COLUMNS = (
    "relays", "hosts", "warm-up + measured [s]", "rounds", "relay writes, scaled to 3,600 [MiB/s]",
    "simulated seconds per CPU-second", "cell-writes per CPU-second", "gain of 2 threads",
    *(f"balance on {shards} shards" for shards in SHARDS), "peak heap", "peak heap of a whole run",
)  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """The table in Markdown, after a sentence about the machine."""
    where = "; ".join(sorted({row["machine"] for row in rows}))
    lines = generated.table(COLUMNS, [cells(row) for row in rows])
    return f"Measured on: {where}.\n\n{lines}"


def cells(row: Row) -> list[str]:
    """The cells of a network's line."""

    def of(threads: int) -> list[Row]:
        return [run for run in row["runs"] if run["threads"] == threads]

    def median(threads: int, what: str) -> float:
        return statistics.median(run[what] for run in of(threads))

    def speed(threads: int, what: str, time: str) -> float:
        return statistics.median(run[what] / run[time] for run in of(threads))

    one = of(1)[0]
    return [
        f"{one['relays']:,}",
        f"{one['hosts']:,}",
        f"{one['warmup_s']:.0f} + {one['simulated_s']:.0f}",
        str(len(of(1))),
        f"{one['load_mib_s']:.0f}{'' if round(one['load_mib_s']) in LOAD else ' (not counted)'}",
        f"{speed(1, 'simulated_s', 'cpu_s'):.3g}",
        f"{speed(1, 'cell_writes', 'cpu_s') / 1e6:.2f} M",
        f"{speed(2, 'simulated_s', 'wall_s') / speed(1, 'simulated_s', 'wall_s'):.2f}",
        *(f"{median(shards, 'balance'):.1f}" for shards in SHARDS),
        heap(one),
        heap(row["whole"]) if "whole" in row else "",
    ]


def heap(run: Row) -> str:
    """The peak heap of a run."""
    size = run["peak_heap_bytes"]
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
