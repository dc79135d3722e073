"""Compares runs of small scenarios on the testbed and in the simulator.

    python worlds.py docs/data/worlds/*.jsonl [--markdown FILE]

We committed these criteria before the first comparison:

* The median download time of each workload, over all downloads of all seeds, in the simulator is within 20 % of the
  testbed's.
* The median wait of tracked cells in the kernel, from the write to the last bit on the link, is within 30 %. It is
  measured at the relay in front of the slow link: the exit, and the middle relay in the pair "up".
* KIST changes each of these medians in the same direction in both.

We added criteria for the other mechanisms before their first comparison, on seeds that no comparison had used:

* The same bands apply to the medians of each variant.
* A mechanism changes each median in the same direction in both, if the change exceeds its interval in one of them. The
  change of a seed is relative to vanilla with the same seed. The interval is the 95 % t interval of the seeds' mean.

We added the variant "conflux" of the scenario two-paths before its first comparison, on the seeds 9 to 13, which no
comparison had used:

* The criteria of a mechanism apply to "conflux", and its changes are relative to "unlinked". Waits in the kernel are
  measured at the exit, in front of both slow links.
* Cells of both middle relays: the share of the fast path differs by at most 10 percentage points. The share is over all
  cells that the middle relays wrote in all seeds, after the warm-up and in both directions.

When we knew that "conflux" fills both paths, so that their links decide the share, we added "conflux-latency" with the
same criteria. Its exit may leave one path idle. We added it before its first comparison, on the seeds 14 to 17.

Runs that the testbed marked as void are left out and counted.
"""

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock import generated, stats
from penstock.errors import PenstockError

Rows = dict[tuple[str, str], list[dict[str, Any]]]
"""Rows by backend and variant."""
Reader = Callable[[list[dict[str, Any]]], float | None]
"""Computes a number from the rows of some runs."""

DOWNLOADS, KERNEL_OUT = 0.20, 0.30
LEG_SHARE = 0.10
"""Accepted difference of a leg's share of cells, as a part of all cells."""
PAIRS = [("vanilla", "kist", "exit"), ("vanilla-up", "kist-up", "middle")]
"""The pairs whose changes must always have the same sign."""
MECHANISMS = (
    "round-robin",
    "window-50",
    "dynamic",
    "n23",
    "vegas",
    "static",
    "bit-splitting",
    "flagging",
    "threshold",
    "pctcp",
    "backtap",
    "marut",
)
"""The variants that are compared with vanilla; their changes must have the same sign if they exceed their interval."""
LINKED = ("conflux", "conflux-latency")
"""The variants with linked circuits. They are compared with "unlinked", and their criteria are those of a mechanism."""
LEGS = ("fast-middle", "slow-middle")
"""For each leg of linked circuits, the relay that no other leg uses."""
BACKENDS = ("testbed", "sim")
HOLDS = "holds"
MIN_SEEDS = 2
"""Fewer seeds give no interval."""


def read(paths: list[Path]) -> tuple[Rows, int]:
    """The rows of seeds that both backends have, and the number of void runs."""
    every = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    valid = [row for row in every if not (row["emulation"] and row["emulation"]["void"])]
    runs = {(row["world"], row["variant"], row["seed"]) for row in valid}
    rows: Rows = {}
    for row in valid:
        if all((backend, row["variant"], row["seed"]) in runs for backend in BACKENDS):
            rows.setdefault((row["world"], row["variant"]), []).append(row)
    return rows, len(every) - len(valid)


def downloads(rows: list[dict[str, Any]], workload: str) -> float | None:
    """The median of all downloads [s]."""
    times = [time for row in rows for time in row["downloads"].get(workload, {}).get("ttlb_s", [])]
    return statistics.median(times) if times else None


def kernel_out(rows: list[dict[str, Any]], position: str) -> float | None:
    """The median of all cells [s], from the percentiles of each run weighted by its number of cells."""
    runs = [(row["cells"][position]["kernel_out_percentiles_s"], row["cells"][position]["count"]) for row in rows]
    values = [value for percentiles, _ in runs for value in percentiles]
    weights = [count / len(percentiles) for percentiles, count in runs for _ in percentiles]
    return float(np.quantile(values, 0.5, weights=weights, method="inverted_cdf")) if values else None


def leg_share(rows: list[dict[str, Any]]) -> float:
    """The first leg's share of the cells of all legs [1]."""
    first, *others = (sum(row["relay_cells"][relay] for row in rows) for relay in LEGS)
    return first / (first + sum(others))


def measures(position: str) -> list[tuple[str, float, Reader]]:
    """Name, accepted difference and function of each compared number."""
    return [
        ("web", DOWNLOADS, lambda rows: downloads(rows, "web")),
        ("bulk", DOWNLOADS, lambda rows: downloads(rows, "bulk")),
        (f"send path at the {position}", KERNEL_OUT, lambda rows: kernel_out(rows, position)),
    ]


def changes(rows: Rows, backend: str, pair: tuple[str, str], read_of: Reader) -> list[float]:
    """The relative change of one number from the first variant to the second, for each seed that both have."""
    before, after = ({row["seed"]: row for row in rows.get((backend, variant), [])} for variant in pair)
    read = [(read_of([before[seed]]), read_of([after[seed]])) for seed in sorted(before.keys() & after.keys())]
    return [other / one - 1 for one, other in read if one is not None and other is not None]


def exceeds(values: list[float]) -> bool:
    """Whether the interval of the mean excludes zero."""
    if len(values) < MIN_SEEDS:
        return False
    _, low, high = stats.mean_interval(values)
    return low * high > 0


def show_change(values: list[float]) -> str:
    """The mean change, with half of its interval."""
    if len(values) < MIN_SEEDS:
        return f"{statistics.mean(values):+.1%}"
    mean, low, high = stats.mean_interval(values)
    return f"{mean:+.1%} ± {(high - low) / 2:.1%}"


def table(rows: Rows) -> list[list[str]]:
    """The rows of the comparison; the last column is the verdict on a criterion."""
    lines = []
    compared: set[str] = set()

    def add_verdict(*cells: str, holds: bool) -> None:
        lines.append([*cells, HOLDS if holds else "**fails**"])

    def medians(variant: str, position: str) -> None:
        if variant in compared:
            return
        compared.add(variant)
        for name, band, read_of in measures(position):
            testbed, sim = (read_of(rows[backend, variant]) for backend in BACKENDS)
            if testbed is not None and sim is not None:
                shown = f"{testbed * 1e3:.1f}", f"{sim * 1e3:.1f}", f"{sim / testbed - 1:+.1%}"
                add_verdict(variant, name, *shown, f"within {band:.0%}", holds=abs(sim / testbed - 1) <= band)

    mechanisms = [("vanilla", variant, "exit") for variant in MECHANISMS]
    mechanisms += [("unlinked", variant, "exit") for variant in LINKED]
    for before, after, position in [*PAIRS, *mechanisms]:
        if not all((backend, variant) in rows for backend in BACKENDS for variant in (before, after)):
            continue
        medians(before, position)
        medians(after, position)
        for name, _, read_of in measures(position):
            testbed, sim = (changes(rows, backend, (before, after), read_of) for backend in BACKENDS)
            if not testbed or not sim:
                continue
            must = (before, after, position) in PAIRS or exceeds(testbed) or exceeds(sim)
            same = statistics.mean(testbed) * statistics.mean(sim) > 0
            criterion = "same sign" if must else "inside its interval"
            shown = show_change(testbed), show_change(sim), ""
            add_verdict(f"{before} to {after}", name, *shown, criterion, holds=same or not must)
    for variant in LINKED:
        if not all((backend, variant) in rows for backend in BACKENDS):
            continue
        testbed, sim = (leg_share(rows[backend, variant]) for backend in BACKENDS)
        shown = f"{testbed:.1%}", f"{sim:.1%}", f"{(sim - testbed) * 100:+.1f} points"
        holds = abs(sim - testbed) <= LEG_SHARE
        add_verdict(variant, "cells on the fast leg", *shown, f"within {LEG_SHARE * 100:.0f} points", holds=holds)
    return lines


def stations(rows: Rows) -> list[list[str]]:
    """The waits of cells at each position, testbed and simulator: medians of the runs' medians [ms]."""
    lines = []
    for variant in sorted({variant for _, variant in rows}):
        for position in ("exit", "middle", "guard"):
            cells = [variant, position]
            for station in ("kernel_in_s", "circuit_queue_s", "outbuf_s", "kernel_out_s"):
                both = []
                for backend in BACKENDS:
                    said = [row["cells"][position][station] for row in rows.get((backend, variant), [])]
                    said = [value for value in said if value is not None]
                    both.append(f"{statistics.median(said) * 1e3:.2f}" if said else "-")
                cells.append(" / ".join(both))
            lines.append(cells)
    return lines


def counts(rows: Rows, void: int) -> str:
    """The number of seeds of each variant, which both backends have, and of runs that were not counted."""
    seeds = {variant: len(each) for (_, variant), each in sorted(rows.items())}
    usual = Counter(seeds.values()).most_common(1)[0][0] if seeds else 0
    others = "".join(f", {variant} {count}" for variant, count in seeds.items() if count != usual)
    return f"Seeds of each variant: {usual}{others}. Invalid runs: {void}."


def show(head: list[str], lines: list[list[str]]) -> None:
    """Print a table."""
    widths = [max(len(line[place]) for line in [head, *lines]) for place in range(len(head))]
    for line in [head, *lines]:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def main() -> int:
    """Print the comparison; returns 1 if a criterion does not hold, and 2 if there is nothing to compare."""
    parser = argparse.ArgumentParser(description="compare runs on the testbed with runs in the simulator")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="rows of both, as JSON lines")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables into FILE")
    asked = parser.parse_args()
    rows, void = read(asked.files)
    lines = table(rows)
    verdicts, hold = len(lines), sum(line[-1] == HOLDS for line in lines)
    first = ["variant", "median of", "testbed [ms]", "simulator [ms]", "difference", "criterion", "verdict"]
    second = ["variant", "relay", "receive buffer [ms]", "circuit queue [ms]", "output buffer [ms]", "send path [ms]"]
    head, last, waits = counts(rows, void), f"{hold} of {verdicts} criteria hold.", stations(rows)
    print(f"{head}\n")
    show(first, lines)
    print()
    show(second, waits)
    print(f"\n{last}")
    if asked.markdown:
        tables = [generated.table(first, lines), generated.table(second, waits)]
        try:
            generated.write(asked.markdown, "make worlds", "\n\n".join([f"{last} {head}", *tables]))
        except PenstockError as error:
            print(f"worlds: {error}", file=sys.stderr)
            return 2
    if not verdicts:
        return 2
    return 0 if hold == verdicts else 1


if __name__ == "__main__":
    sys.exit(main())
