"""Shadow with C tor and tgen as the reference for networks: the same scenarios as in the simulator.

    .venv/bin/python benches/references/shadow.py run --shadow S --tgen T --tor T [--gencert G] [--only line kist-vegas]
    .venv/bin/python benches/references/shadow.py compare [--markdown docs/validation/shadow.md]

`make reference-shadow SHADOW=... TGEN=... TOR=...` does both. The programs are those of the user; Penstock contains no
part of them. `run` executes the runs that `shadow.jsonl` lacks, each with one thread of Shadow at low priority, and
rewrites the rows of the simulator in `sim.jsonl`, which are deterministic. A row is a JSON object on one line:

    world            "shadow"; "sim", the scenario with the TCP profile "shadow-3.3"; "linux", the same with "linux-6";
                     "draws", as "sim" with other circuits and times of clients in the same network; "same", as "sim"
                     with the circuits of Shadow's clients
    draw             the number of the draw; only in "draws"
    programs         the versions of Shadow, tgen and C tor; only in "shadow"
    scenario         the file benches/references/shadow-<scenario>.toml
    variant, seed    the run
    workloads        for each workload: the downloads after the warm-up (`ok`, `bad`), those that stalled until the end
                     (`stalled`), their bytes, and the quantiles 0.5, 0.8, 0.9 and 0.99 of their times to the first and
                     to the last byte [s]
    relay_bytes      bytes that all relays wrote after the warm-up [B]
    circuits         the relays of the circuit with most downloads of each client, and `share`, the share of all
                     downloads that used these circuits; only for networks in "shadow"
    weight_error     the largest relative difference between a relay's share of all consensus weights and its share in
                     the scenario; only in "shadow"
    hosts, cpu_seconds, wall_seconds, peak_bytes    the cost: peak_bytes is the proportional memory of all processes
                     of Shadow, and the heap of the simulator [B]

The limits are those of the issue that asked for the comparison. The order of variants, weights and completeness became
criteria after the first rows of the line. The criteria apply to "sim", and to medians over the seeds of each run's
quantile:

* Medians of first bytes and downloads are within 20 % of Shadow's in the lines, and within 25 % in the networks.
* Their 90th percentiles are within 40 %. A quantity that any run lacks fails.
* The bytes of relays are within 15 %.
* In Shadow, at least 99 % of the downloads are complete, and each relay's share of the consensus weights is within 5 %
  of its share in the scenario. A download that is older than all complete ones when the run ends counts as incomplete.
* The same limits apply once more to "same", where Shadow's rows have circuits.
* Two variants have the same order in both worlds if, over at least three common seeds, the mean of Shadow's logarithmic
  ratios exceeds their standard deviation.
"""

import argparse
import functools
import itertools
import math
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
SCENARIOS = ("line", "line-up", "line-loss", "network-20", "network-50")
NETWORKS = tuple(name for name in SCENARIOS if name.startswith("network"))
"""The scenarios in which clients draw circuits."""
QUANTILES = (0.5, 0.8, 0.9, 0.99)
MEDIAN = {name: 0.20 if name.startswith("line") else 0.25 for name in SCENARIOS}
TAIL, BYTES = 0.40, 0.15
COMPLETE, WEIGHTS = 0.99, 0.05
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
    everything = result.transfers.filter(variant=variant, seed=seed)
    rows = after_warmup(everything)
    found: dict[str, Row] = {}
    for workload in workloads(rows):
        here = rows.filter(workload=workload)
        ok = here.filter(outcome="ok")
        ended = here.filter(pl.col("outcome") != "unfinished").height
        found[workload] = {
            "ok": ok.height,
            "bad": ended - ok.height,
            "stalled": stalled(everything.filter(workload=workload), key, workload),
            "bytes": int(ok["bytes_received"].sum()),
        }
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


def circuits_of(result: Result) -> Row:
    """The circuit of each client with most of its downloads after the warm-up, and the share of all these downloads."""
    keys = ["client", "guard", "middle", "exit"]
    used = after_warmup(result.transfers).join(result.paths, on=["client", "circuit"], how="left")
    counts = used.group_by(keys, maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    first = counts.drop_nulls().unique("client", keep="first", maintain_order=True)
    each = {client: " ".join(relays) for client, *relays in first.select(keys).sort("client").iter_rows()}
    return {"each": each, "share": round(first["len"].sum() / max(used.height, 1), 4)}


def stalled(rows: pl.DataFrame, key: tuple[str, str, int], workload: str) -> int:
    """The number of clients whose last download is older at the end of the run than any complete one."""
    name, variant, seed = key
    _, document = catalog.load(scenario(name))
    sampled = document.sampled(variant, seed)
    number = [each["name"] for each in sampled["workloads"]].index(workload)
    clients = [client["name"] for client in sampled["clients"] if number in client["workloads"]]
    ok = rows.filter(outcome="ok").with_columns(end=pl.col("start_s") + pl.col("ttlb_s"))
    longest = float(ok["ttlb_s"].max() or 0.0) + max(sampled["workloads"][number]["pause_s"])  # type: ignore[arg-type]
    ends = dict(ok.group_by("client").agg(pl.col("end").max()).iter_rows())
    return sum(sampled["run"]["duration_s"] - ends.get(client, 0.0) > longest for client in clients)


def warmup_of(name: str) -> float:
    """The warm-up of a scenario [s]."""
    _, document = catalog.load(scenario(name))
    [first, *_] = document.variants()
    return document.sampled(first[0], 1)["run"]["warmup_s"]


def weight_error(result: Result) -> float:
    """The largest relative error of a relay's share of the consensus weights; infinite if a relay is missing."""
    rows = result.manifest["consensus"]
    if not rows or any(not row["consensus_weight"] or not row["weight"] for row in rows):
        return float("inf")
    here, there = (sum(row[key] for row in rows) for key in ("weight", "consensus_weight"))
    return max(abs(float(row["consensus_weight"] / there / (row["weight"] / here)) - 1) for row in rows)


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
        if process.returncode < 0:
            refuse(
                f"shadow: signal {-process.returncode} ended Shadow in {variant}, seed {seed}; run the command again"
            )
        # Shadow ends with status 1 if any process had an unexpected end; the downloads are still complete.
        imported.read([out], back)
        result = penstock.load(back)
        circuits = {"circuits": circuits_of(result)} if name in NETWORKS else {}
        return row_of(
            result,
            key,
            world="shadow",
            **circuits,
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


OURS: dict[str, Sequence[str]] = {
    "sim": (),
    "linux": ("tcp.profile='linux-6'", "tcp.congestion='cubic'", "tcp.nodelay=true"),
}
"""The worlds of the simulator, and their overrides. Shadow has no algorithm of Nagle, so "linux" has none either."""

DRAWS = range(1, 6)
"""The seeds of other circuits in a network. C tor draws its circuits in Shadow, so no seed gives both worlds the same
circuits."""


def simulate(data: Path) -> None:
    """Write the simulator's rows for all runs that Shadow's rows have."""
    theirs = {run_of(row): row for row in read(data / "shadow.jsonl") if row["scenario"] in SCENARIOS}
    runs = sorted(theirs)
    rows: list[Row] = []
    for (name, variant, seed), (world, sets) in itertools.product(runs, OURS.items()):
        rows.append(simulated(name, variant, seed, sets, world=world, seed=seed))
    for (name, variant, seed), draw in itertools.product(runs, DRAWS):
        if name in NETWORKS:
            sets = [f"run.networks=[{seed}]"]
            rows.append(simulated(name, variant, draw, sets, world="draws", seed=seed, draw=draw))
    for (name, variant, seed), row in sorted(theirs.items()):
        if "circuits" in row:
            clients = clients_of(name, variant, seed)
            if lost := {*clients} - {*row["circuits"]["each"]}:
                print(f"shadow: {name}, {variant}, seed {seed}: {min(lost)} has no circuit in Shadow", file=sys.stderr)
                continue
            each = [row["circuits"]["each"][client] for client in clients]
            sets = ["client.path='circuits'", "network.circuit_choice='first'", f"network.circuits={each!r}"]
            rows.append(simulated(name, variant, seed, sets, world="same", seed=seed))
    (data / "sim.jsonl").unlink(missing_ok=True)
    append(rows, data / "sim.jsonl")


def clients_of(name: str, variant: str, seed: int) -> list[str]:
    """The names of a scenario's clients, in the order in which they take circuits."""
    _, document = catalog.load(scenario(name))
    return [client["name"] for client in document.sampled(variant, seed)["clients"]]


def simulated(name: str, variant: str, drawn: int, sets: Sequence[str], **facts: Any) -> Row:
    """The row of a run of the simulator with the seed `drawn`."""
    with tempfile.TemporaryDirectory(prefix="penstock-shadow-") as folder:
        out = Path(folder) / "sim"
        result = penstock.run(scenario(name), variants=[variant], sets=sets, seed=drawn, runs=1, out=out, threads=1)
        [cost] = result.manifest["runs"]
        _, document = catalog.load(scenario(name))
        costs = {
            "hosts": document.hosts(variant),
            "wall_seconds": round(cost["wall_seconds"], 2),
            "cpu_seconds": round(cost["cpu_seconds"], 2),
            "peak_bytes": cost["peak_heap_bytes"],
        }
        return {**row_of(result, (name, variant, drawn), **costs), **facts}


HEAD = ("scenario", "variant", "quantity", "Shadow", "Penstock", "difference", "criterion", "verdict",
        "difference with Linux's TCP", "with five draws of circuits", "with Shadow's circuits",
        "verdict with them")  # fmt: skip

WORLDS = ("shadow", *OURS)

Sides = dict[str, list[Row]]
"""The rows of each world."""


def sides_of(rows: Sequence[Row]) -> dict[tuple[str, str], Sides]:
    """The rows of each scenario and variant that Shadow and the simulator have, in the order of the scenarios."""
    by: dict[tuple[str, str], Sides] = {}
    for row in rows:
        sides = by.setdefault((row["scenario"], row["variant"]), {world: [] for world in (*WORLDS, "draws", "same")})
        sides[row["world"]].append(row)
    both = {key: sides for key, sides in by.items() if sides["shadow"] and sides["sim"]}
    return dict(sorted(both.items(), key=lambda item: (SCENARIOS.index(item[0][0]), item[0][1])))


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """The table of all criteria."""
    table: list[list[str]] = []
    by = sides_of(rows)
    for (name, variant), sides in by.items():
        for quantity, unit, limit, values in quantities(name, sides):
            theirs, ours, linux = map(middle, values)
            difference, other = (each / theirs - 1 if theirs else math.nan for each in (ours, linux))
            shown = [
                *("none" if math.isnan(each) else f"{each:.3g} {unit}" for each in (theirs, ours)),
                percent(difference),
            ]
            holds = abs(difference) <= limit
            same = with_their_circuits(quantity, sides)
            last = [f"{100 * limit:.0f} %", verdict(holds), percent(other), extent(drawn(quantity, sides))]
            final = [percent(same), verdict(abs(same) <= limit) if sides["same"] else ""]
            table.append([name, variant, quantity, *shown, *last, *final])
        ok, bad, late = (
            sum(each[key] for row in sides["shadow"] for each in row["workloads"].values())
            for key in ("ok", "bad", "stalled")
        )
        bad += late
        share = ok / (ok + bad) if ok + bad else 0.0
        shown = ["complete downloads", f"{100 * share:.1f} %", "", "", f"{100 * COMPLETE:.0f} %"]
        table.append([name, variant, *shown, verdict(share >= COMPLETE), "", "", "", ""])
        error = max(row["weight_error"] for row in sides["shadow"])
        shown = ["largest error of a weight", f"{100 * error:.1f} %", "", "", f"{100 * WEIGHTS:.0f} %"]
        table.append([name, variant, *shown, verdict(error <= WEIGHTS), "", "", "", ""])
    for name in SCENARIOS:
        table += orders(name, {variant: sides for (scenario, variant), sides in by.items() if scenario == name})
    return table


def count(table: Sequence[Sequence[str]], column: str) -> tuple[int, int]:
    """The number of criteria that hold in a column of verdicts, and the number of all its criteria."""
    verdicts = [row[HEAD.index(column)] for row in table]
    return verdicts.count(verdict(True)), sum(map(bool, verdicts))


def middle(values: Sequence[float | None]) -> float:
    """The median; not a number if any run lacks a value, or if there is no run."""
    found = [each for each in values if each is not None]
    return statistics.median(found) if found and len(found) == len(values) else math.nan


def drawn(quantity: str, sides: Sides) -> list[float]:
    """The differences of all draws of circuits."""
    by: dict[int, list[float | None]] = {}
    for row in sides["draws"]:
        by.setdefault(row["draw"], []).append(value(quantity, row))
    theirs = middle([value(quantity, row) for row in sides["shadow"]])
    return [middle(each) / theirs - 1 for each in by.values()] if theirs else []


def with_their_circuits(quantity: str, sides: Sides) -> float:
    """The difference with the circuits of Shadow, over the seeds for which they are known; not a number without any."""
    seeds = {row["seed"] for row in sides["same"]}
    theirs, ours = (
        [value(quantity, row) for row in sides[world] if row["seed"] in seeds] for world in ("shadow", "same")
    )
    return middle(ours) / middle(theirs) - 1 if seeds else math.nan


def extent(differences: Sequence[float]) -> str:
    """The smallest and the largest difference."""
    return f"{percent(min(differences))} to {percent(max(differences))}" if differences else ""


def verdict(holds: bool) -> str:
    """The word in the table."""
    return "holds" if holds else "differs"


def percent(difference: float) -> str:
    """A relative difference; empty if a side has no value."""
    return "" if math.isnan(difference) else f"{100 * difference:+.0f} %"


def quantities(name: str, sides: Sides) -> Iterator[tuple[str, str, float, list[list[float | None]]]]:
    """Each compared quantity: its name, its unit, the largest accepted difference, and the values of each world."""
    for quantity in measures(name):
        values = [[value(quantity, row) for row in sides[world]] for world in WORLDS]
        if quantity == RELAY_BYTES:
            yield quantity, "MiB", BYTES, [[each and each / 2**20 for each in world] for world in values]
        else:
            yield quantity, "s", MEDIAN[name] if quantity.endswith("median") else TAIL, values


def orders(name: str, variants: dict[str, Sides]) -> Iterator[list[str]]:
    """A line for each quantity and pair of variants whose difference in Shadow exceeds its spread over the seeds."""
    for (one, before), (other, after) in itertools.combinations(variants.items(), 2):
        for quantity in measures(name):
            theirs, ours, linux = (ratios(quantity, before[world], after[world]) for world in WORLDS)
            if len(theirs) < LEAST_SEEDS or abs(statistics.mean(theirs)) <= statistics.stdev(theirs):
                continue
            shown = [math.expm1(statistics.mean(each)) if each else math.nan for each in (theirs, ours, linux)]
            there, here, last = (percent(each) for each in shown)
            yield [
                name, f"{other} against {one}", quantity, there, here, "", "the same sign",
                verdict(shown[0] * shown[1] > 0), last, "", "", "",
            ]  # fmt: skip


def measures(name: str) -> list[str]:
    """The names of the compared quantities of a scenario."""
    kinds = itertools.product(workload_names(name), ("first byte", "download"), ("median", "90th percentile"))
    return [*map(", ".join, kinds), RELAY_BYTES]


def value(quantity: str, row: Row) -> float | None:
    """A quantity of a row; none if the row lacks it."""
    if quantity == RELAY_BYTES:
        return float(row["relay_bytes"])
    workload, words, title = quantity.split(", ")
    column, place = TIMES[words == "download"], 0 if title == "median" else 2
    return float(row["workloads"][workload][column][place]) if has(row, workload, column) else None


def ratios(quantity: str, before: Sequence[Row], after: Sequence[Row]) -> list[float]:
    """The logarithmic change of a quantity for each seed that both variants have."""
    first = {row["seed"]: value(quantity, row) for row in before}
    pairs = [(first.get(row["seed"]), value(quantity, row)) for row in after]
    return [math.log(right / left) for left, right in pairs if left and right]


RELAY_BYTES = "bytes written by relays"
LEAST_SEEDS = 3
"""The least number of seeds whose standard deviation shows the spread of Shadow."""


def has(row: Row, workload: str, column: str) -> bool:
    """Whether a row has downloads of a workload."""
    return bool(row["workloads"].get(workload, {}).get(column))


EFFECT = ("scenario", "times", "quantile", "Shadow", "Penstock", "with Linux's TCP", "with Shadow's circuits",
          "with five draws of circuits")  # fmt: skip
BASELINE, EFFECTIVE = "vanilla", "kist"


def effects(rows: Sequence[Row]) -> list[list[str]]:
    """What KIST changes in each network, at several quantiles: medians of the changes of each seed."""
    by = sides_of(rows)
    table = []
    for name in SCENARIOS:
        if not {(name, BASELINE), (name, EFFECTIVE)} <= {*by}:
            continue
        pair = by[name, BASELINE], by[name, EFFECTIVE]
        for workload, (column, words) in itertools.product(
            workload_names(name), zip(TIMES, ("first byte", "download"), strict=True)
        ):
            for place in (0, 1, 3):
                shown = []
                for world in (*WORLDS, "same", "draws"):
                    before = {same(row): row for row in pair[0][world] if has(row, workload, column)}
                    changes = [
                        row["workloads"][workload][column][place]
                        / before[same(row)]["workloads"][workload][column][place]
                        - 1
                        for row in pair[1][world]
                        if same(row) in before and has(row, workload, column)
                    ]
                    one = percent(statistics.median(changes)) if changes else ""
                    shown.append(extent(changes) if world == "draws" else one)
                table.append([name, f"{workload}, {words}", f"{100 * QUANTILES[place]:.0f} %", *shown])
    return table


def same(row: Row) -> tuple[int, int]:
    """The seed and the draw of a row, which two variants have in common."""
    return row["seed"], row.get("draw", 0)


@functools.cache
def workload_names(name: str) -> list[str]:
    """The workloads of a scenario."""
    _, document = catalog.load(scenario(name))
    return sorted({str(each["name"]) for each in document.sampled(document.variants()[0][0], 1)["workloads"]})


COSTS = ("scenario", "variant", "hosts", "CPU of Shadow [s]", "CPU of Penstock [s]", "ratio",
         "downloads per CPU-second: Shadow [MiB]", "Penstock [MiB]",
         "memory of Shadow per host [MiB]", "heap of Penstock per host [MiB]", "ratio")  # fmt: skip


def costs(rows: Sequence[Row]) -> list[list[str]]:
    """The costs of both sides, as means over the runs of each variant."""
    table = []
    for (name, variant), sides in sides_of(rows).items():
        shadow, sim = sides["shadow"], sides["sim"]
        cpu = [statistics.mean(row["cpu_seconds"] for row in rows) for rows in (shadow, sim)]
        loads = [
            sum(each["bytes"] for row in rows for each in row["workloads"].values())
            / 2**20
            / sum(row["cpu_seconds"] for row in rows)
            for rows in (shadow, sim)
        ]
        memory = [statistics.mean(row["peak_bytes"] / row["hosts"] / 2**20 for row in rows) for rows in (shadow, sim)]
        table.append([
            name, variant, str(shadow[0]["hosts"]), f"{cpu[0]:.1f}", f"{cpu[1]:.2f}", ratio(*cpu),
            f"{loads[0]:.2f}", f"{loads[1]:.0f}",
            f"{memory[0]:.1f}", f"{memory[1]:.3f}", ratio(*memory),
        ])  # fmt: skip
    return table


def ratio(one: float, other: float) -> str:
    """How many times larger the first number is."""
    return f"{one / other:.0f}" if other > 0 else "-"


def compare(arguments: argparse.Namespace) -> int:
    """Print the tables, and write them into a page; returns the exit status."""
    rows = [row for file in ("shadow", "sim") for row in read(arguments.data / f"{file}.jsonl")]
    rows = [row for row in rows if row["scenario"] in SCENARIOS]
    table = lines(rows)
    hold, whole = count(table, "verdict")
    if not table:
        refuse(f"shadow: {arguments.data} has no run of both Shadow and the simulator; run make reference-shadow")
    ours = [row for row in rows if row["world"] == "sim"]
    counts = {name: len({row["seed"] for row in ours if row["scenario"] == name}) for name in SCENARIOS}
    seeds = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    summary = f"{hold} of {whole} criteria hold. Seeds: {seeds}."
    with_them, there = count(table, "verdict with them")
    if there:
        shares = [row["circuits"]["share"] for row in rows if "circuits" in row]
        summary += (
            f" With the circuits of Shadow, {with_them} of {there} criteria hold; in each run, at least"
            f" {100 * min(shares):.1f} % of Shadow's downloads used these circuits."
        )
    tables = [
        generated.table(head, cells) for head, cells in ((HEAD, table), (EFFECT, effects(rows)), (COSTS, costs(rows)))
    ]
    print("\n\n".join([*tables, summary]))
    if arguments.markdown:
        generated.write(arguments.markdown, "benches/references/shadow.py", "\n\n".join([summary, *tables]))
    return 0 if (hold, with_them) == (whole, there) else 1


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
