"""Shadow with C tor and tgen as the reference for networks: the same scenarios as in the simulator.

    .venv/bin/python benches/references/shadow.py run --shadow S --tgen T --tor T [--gencert G] [--only line kist-vegas]
    .venv/bin/python benches/references/shadow.py compare [--markdown docs/validation/shadow.md]

`make reference-shadow SHADOW=... TGEN=... TOR=...` does both. The programs are those of the user; Penstock contains no
part of them. `run` executes the runs that `shadow.jsonl` lacks, each with one thread of Shadow at low priority, and
rewrites the rows of the simulator in `sim.jsonl`, which are deterministic. A row is a JSON object on one line:

    world            "shadow" or "sim"
    programs         the versions of Shadow, tgen and C tor; only in "shadow"
    scenario         "line" or "network": benches/references/shadow-<scenario>.toml
    variant, seed    the run
    workloads        for each workload: the downloads after the warm-up (`ok`, `bad`), and the quantiles 0.5, 0.8, 0.9
                     and 0.99 of their times to the first and to the last byte [s]
    relay_bytes      bytes that all relays wrote after the warm-up [B]
    weight_error     the largest relative difference between a relay's share of all consensus weights and its share in
                     the scenario; only in "shadow"
    hosts, cpu_seconds, wall_seconds, peak_bytes    the cost: peak_bytes is the sum over all processes of their
                     proportional memory [B]

The criteria existed before the first comparison. They apply to medians over the seeds of each run's quantile:

* Medians of first bytes and downloads are within 20 % of Shadow's in the line, and within 25 % in the network.
* Their 90th percentiles are within 40 %.
* The bytes of relays are within 15 %.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rows import append, line, read, refuse

import penstock
from penstock import catalog, generated
from penstock.errors import PenstockError
from penstock.result import Result
from penstock.shadow import export, imported
from penstock.summary import after_warmup, workloads

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "docs" / "data" / "shadow"
SCENARIOS = ("line", "network")
QUANTILES = (0.5, 0.8, 0.9, 0.99)
MEDIAN = {"line": 0.20, "network": 0.25}
TAIL, BYTES = 0.40, 0.15
NICE = 10
"""The priority of Shadow."""
LOOK_S = 2.0
"""The interval between two measurements of Shadow's memory [s]."""

Row = dict[str, Any]


def scenario(name: str) -> Path:
    """The file of a scenario."""
    return HERE / f"shadow-{name}.toml"


def run_of(row: Row) -> tuple[str, str, int]:
    """The run that a row describes."""
    return row["scenario"], row["variant"], row["seed"]


def asked(only: Sequence[str], seeds: int | None) -> Iterator[tuple[str, str, int]]:
    """All runs: each seed of all variants, then the next seed."""
    for name in SCENARIOS:
        _, document = catalog.load(scenario(name))
        chosen = document.seeds()[:seeds]
        for seed in chosen:
            for variant, _ in document.variants():
                if not only or {name, variant} & {*only}:
                    yield name, variant, seed


def row_of(result: Result, key: tuple[str, str, int], **facts: Any) -> Row:
    """The row of an output directory with one run of this variant and seed."""
    name, variant, seed = key
    rows = after_warmup(result.transfers).filter(variant=variant, seed=seed)
    found: dict[str, Row] = {}
    for workload in workloads(rows):
        here = rows.filter(workload=workload)
        ok = here.filter(outcome="ok")
        ended = here.filter(pl.col("outcome") != "unfinished").height
        found[workload] = {"ok": ok.height, "bad": ended - ok.height}
        for column in TIMES if ok.height else ():
            found[workload][column] = [round(ok[column].quantile(q, "linear") or 0.0, 4) for q in QUANTILES]
    relays = result.relays.filter(variant=variant, seed=seed).filter(pl.col("t_s") > warmup_of(name))
    return {
        **facts,
        "scenario": name,
        "variant": variant,
        "seed": seed,
        "workloads": found,
        "relay_bytes": int(relays["written_bytes"].sum()),
    }


TIMES = ("ttfb_s", "ttlb_s")


def warmup_of(name: str) -> float:
    """The warm-up of a scenario [s]."""
    _, document = catalog.load(scenario(name))
    [first, *_] = document.variants()
    return document.sampled(first[0], 1)["run"]["warmup_s"]


def weight_error(result: Result) -> float:
    """The largest relative error of a relay's share of the consensus weights; infinite if a relay is missing."""
    rows = result.manifest["consensus"]
    if any(not row["consensus_weight"] for row in rows):
        return float("inf")
    here, there = (sum(row[key] for row in rows) for key in ("weight", "consensus_weight"))
    return max(abs(row["consensus_weight"] / there / (row["weight"] / here) - 1) for row in rows)


class Shadow:
    """The programs of the user."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Find the programs; end with a sentence if one is missing."""
        self.paths = {}
        for name in ("shadow", "tgen", "tor", "gencert"):
            word = getattr(arguments, name)
            path = shutil.which(word) if word else None
            if path is None:
                variable = {"gencert": "GENCERT (tor-gencert)"}.get(name, name.upper())
                refuse(
                    f"shadow: {variable} is {word!r}, which is no program; name installed programs, for example"
                    " make reference-shadow SHADOW=~/.local/bin/shadow TGEN=~/.local/bin/tgen TOR=/usr/sbin/tor"
                )
            self.paths[name] = str(Path(path).resolve())
        self.programs = export.Programs(self.paths["tor"], self.paths["gencert"], self.paths["tgen"])

    def versions(self) -> str:
        """The first line of each program's version."""
        found = []
        for name in ("shadow", "tor"):
            done = subprocess.run([self.paths[name], "--version"], capture_output=True, text=True, check=False)  # noqa: S603
            found.append((done.stdout + done.stderr).strip().partition("\n")[0])
        return "; ".join(found)

    def run(self, key: tuple[str, str, int], folder: Path) -> Row:
        """Export a run, execute it, import it, and return its row."""
        name, variant, seed = key
        out, back = folder / "experiment", folder / "imported"
        done = export.export(scenario(name), out, variant=variant, seed=seed, programs=self.programs)
        words = [self.paths["shadow"], "--parallelism", "1", "shadow.yaml"]
        began = time.monotonic()
        before = os.times()
        with (
            (out / "shadow.log").open("wb") as log,
            subprocess.Popen(  # noqa: S603
                ["nice", "-n", str(NICE), *words],  # noqa: S607
                cwd=out,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            peak = 0
            while process.poll() is None:
                peak = max(peak, memory(process.pid))
                time.sleep(LOOK_S)
        after = os.times()
        # Shadow ends with status 1 if any process had an unexpected end; the downloads are still complete.
        imported.read([out], back)
        result = penstock.load(back)
        return row_of(
            result,
            key,
            world="shadow",
            programs=self.versions(),
            status=process.returncode,
            weight_error=round(weight_error(result), 4),
            hosts=done.hosts,
            wall_seconds=round(time.monotonic() - began, 1),
            cpu_seconds=round(
                after.children_user + after.children_system - before.children_user - before.children_system, 1
            ),
            peak_bytes=peak,
        )


def memory(root: int) -> int:
    """The proportional memory of a process and all its descendants [B]."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    total, left = 0, [root]
    while left:
        process = left.pop()
        left += parents.get(process, [])
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(each.split()[1]) * 1024 for each in text.splitlines() if each.startswith("Pss:"))
    return total


def run(arguments: argparse.Namespace) -> int:
    """Execute the missing runs of Shadow, and all of the simulator."""
    shadow = Shadow(arguments)
    path = arguments.data / "shadow.jsonl"
    done = {run_of(row) for row in read(path)}
    for key in asked(arguments.only, arguments.seeds):
        if key in done:
            continue
        with tempfile.TemporaryDirectory(prefix="penstock-shadow-") as folder:
            row = shadow.run(key, Path(folder))
        append([row], path)
        print(line(row), flush=True)
    simulate(arguments.data)
    return 0


def simulate(data: Path) -> None:
    """Write the simulator's rows for all runs that Shadow's rows have."""
    runs = [run_of(row) for row in read(data / "shadow.jsonl")]
    rows = []
    for name, variant, seed in sorted(runs):
        with tempfile.TemporaryDirectory(prefix="penstock-shadow-") as folder:
            out = Path(folder) / "sim"
            result = penstock.run(scenario(name), variants=[variant], seed=seed, runs=1, out=out, threads=1)
            [cost] = result.manifest["runs"]
            _, document = catalog.load(scenario(name))
            facts = {
                "world": "sim",
                "hosts": document.hosts(variant),
                "wall_seconds": round(cost["wall_seconds"], 2),
                "cpu_seconds": round(cost["cpu_seconds"], 2),
                "peak_bytes": cost["peak_heap_bytes"],
            }
            rows.append(row_of(result, (name, variant, seed), **facts))
    (data / "sim.jsonl").unlink(missing_ok=True)
    append(rows, data / "sim.jsonl")


HEAD = ("scenario", "variant", "quantity", "Shadow", "Penstock", "difference", "criterion", "verdict")


def lines(rows: Sequence[Row]) -> tuple[list[list[str]], int, int]:
    """The table, the number of criteria that hold, and the number of all criteria."""
    by: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        by.setdefault((row["scenario"], row["variant"]), {}).setdefault(row["world"], []).append(row)
    table, hold, whole = [], 0, 0
    for (name, variant), sides in sorted(by.items()):
        if {*sides} != {"shadow", "sim"}:
            continue
        for quantity, values, limit, unit in quantities(name, sides):
            theirs, ours = values
            difference = ours / theirs - 1 if theirs else float("inf")
            holds = abs(difference) <= limit
            hold, whole = hold + holds, whole + 1
            shown = [f"{theirs:.3g} {unit}", f"{ours:.3g} {unit}", f"{100 * difference:+.0f} %"]
            table.append([name, variant, quantity, *shown, f"{100 * limit:.0f} %", "holds" if holds else "differs"])
    return table, hold, whole


def quantities(name: str, sides: dict[str, list[Row]]) -> Iterator[tuple[str, tuple[float, float], float, str]]:
    """Each compared quantity: its name, Shadow's and our value, the largest accepted difference, and its unit."""
    both = [sides["shadow"], sides["sim"]]
    known = sorted({workload for row in sides["shadow"] for workload in row["workloads"]})
    for workload in known:
        for column, words in zip(TIMES, ("first byte", "download"), strict=True):
            for place, title, limit in ((0, "median", MEDIAN[name]), (2, "90th percentile", TAIL)):
                found = [
                    [row["workloads"][workload][column][place] for row in rows if has(row, workload, column)]
                    for rows in both
                ]
                if all(found):
                    values = statistics.median(found[0]), statistics.median(found[1])
                    yield f"{workload}, {words}, {title}", values, limit, "s"
    total = [statistics.median(row["relay_bytes"] / 2**20 for row in rows) for rows in both]
    yield "bytes written by relays", (total[0], total[1]), BYTES, "MiB"


def has(row: Row, workload: str, column: str) -> bool:
    """Whether a row has downloads of a workload."""
    return bool(row["workloads"].get(workload, {}).get(column))


COSTS = ("scenario", "variant", "hosts", "CPU of Shadow [s]", "CPU of Penstock [s]", "ratio",
         "memory of Shadow per host [MiB]", "memory of Penstock per host [MiB]", "ratio")  # fmt: skip


def costs(rows: Sequence[Row]) -> list[list[str]]:
    """The costs of both sides, as means over the runs of each variant."""
    by: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        by.setdefault((row["scenario"], row["variant"]), {}).setdefault(row["world"], []).append(row)
    table = []
    for (name, variant), sides in sorted(by.items()):
        if {*sides} != {"shadow", "sim"}:
            continue
        shadow, sim = sides["shadow"], sides["sim"]
        cpu = [statistics.mean(row["cpu_seconds"] for row in rows) for rows in (shadow, sim)]
        memory = [statistics.mean(row["peak_bytes"] / row["hosts"] / 2**20 for row in rows) for rows in (shadow, sim)]
        table.append([
            name, variant, str(shadow[0]["hosts"]), f"{cpu[0]:.1f}", f"{cpu[1]:.2f}", ratio(*cpu),
            f"{memory[0]:.1f}", f"{memory[1]:.3f}", ratio(*memory),
        ])  # fmt: skip
    return table


def ratio(one: float, other: float) -> str:
    """How many times larger the first number is."""
    return f"{one / other:.0f}" if other > 0 else "-"


def compare(arguments: argparse.Namespace) -> int:
    """Print the tables, and write them into a page; returns the exit status."""
    rows = [row for world in ("shadow", "sim") for row in read(arguments.data / f"{world}.jsonl")]
    table, hold, whole = lines(rows)
    if not table:
        refuse(f"shadow: {arguments.data} has no run of both Shadow and the simulator; run make reference-shadow")
    seeds = len({row["seed"] for row in rows})
    bad = sum(each["bad"] for row in rows if row["world"] == "shadow" for each in row["workloads"].values())
    ended = bad + sum(each["ok"] for row in rows if row["world"] == "shadow" for each in row["workloads"].values())
    summary = (
        f"{hold} of {whole} criteria hold; up to {seeds} seeds. In Shadow, {ended - bad} of {ended} ended downloads"
        " were complete."
    )
    print(generated.table(HEAD, table))
    print()
    print(generated.table(COSTS, costs(rows)))
    print(f"\n{summary}")
    if arguments.markdown:
        body = "\n\n".join([summary, generated.table(HEAD, table), generated.table(COSTS, costs(rows))])
        generated.write(arguments.markdown, "benches/references/shadow.py", body)
    return 0 if hold == whole else 1


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Shadow with C tor as the reference for networks")
    verbs = parser.add_subparsers(required=True)
    running = verbs.add_parser("run")
    for name, usual in (("shadow", ""), ("tgen", ""), ("tor", "tor"), ("gencert", "tor-gencert")):
        running.add_argument(f"--{name}", default=usual)
    running.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these scenarios or variants")
    running.add_argument("--seeds", type=int, help="the number of seeds; by default all of each scenario")
    running.set_defaults(do=run)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("--markdown", type=Path)
    comparing.set_defaults(do=compare)
    for each in (running, comparing):
        each.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    try:
        return int(arguments.do(arguments))
    except PenstockError as error:
        print(f"shadow: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
