"""Compares runs of one small scenario on the testbed and in the simulator.

    python worlds.py docs/data/worlds/*.jsonl [--markdown FILE]

We committed these criteria before the first comparison:

* The median download time of each workload, over all downloads of all seeds, in the simulator is within 20 % of the
  testbed's.
* The median wait of tracked cells in the kernel, from the write to the last bit on the link, is within 30 %. It is
  measured at the relay in front of the slow link: the exit, and the middle relay in the pair "up".
* KIST changes each of these medians in the same direction in both.

Runs that the testbed marked as void are left out and counted.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock import generated
from penstock.errors import PenstockError

Rows = dict[tuple[str, str], list[dict[str, Any]]]
"""Rows by backend and variant."""

DOWNLOADS, KERNEL_OUT = 0.20, 0.30
PAIRS = {"": ("vanilla", "kist", "exit"), "up": ("vanilla-up", "kist-up", "middle")}
BACKENDS = ("testbed", "sim")
HOLDS = "holds"


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


def measures(position: str) -> list[tuple[str, float, Callable[[list[dict[str, Any]]], float | None]]]:
    """Name, accepted difference and function of each compared number."""
    return [
        ("web", DOWNLOADS, lambda rows: downloads(rows, "web")),
        ("bulk", DOWNLOADS, lambda rows: downloads(rows, "bulk")),
        (f"send path at the {position}", KERNEL_OUT, lambda rows: kernel_out(rows, position)),
    ]


def table(rows: Rows) -> list[list[str]]:
    """The rows of the comparison; the last column is the verdict on a criterion."""
    lines = []

    def judge(*cells: str, holds: bool) -> None:
        lines.append([*cells, HOLDS if holds else "**fails**"])

    for before, after, position in PAIRS.values():
        if not all((backend, variant) in rows for backend in BACKENDS for variant in (before, after)):
            continue
        for name, band, read_of in measures(position):
            found = {}
            for variant in (before, after):
                testbed, sim = (read_of(rows[backend, variant]) for backend in BACKENDS)
                if testbed is None or sim is None:
                    continue
                found[variant] = (testbed, sim)
                apart = sim / testbed - 1
                shown = f"{testbed * 1e3:.1f}", f"{sim * 1e3:.1f}", f"{apart:+.1%}"
                judge(variant, name, *shown, f"within {band:.0%}", holds=abs(apart) <= band)
            if len(found) == 2:
                testbed, sim = (found[after][backend] / found[before][backend] - 1 for backend in (0, 1))
                shown = f"{testbed:+.1%}", f"{sim:+.1%}", ""
                judge(f"{before} to {after}", name, *shown, "same sign", holds=testbed * sim > 0)
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
    counts = ", ".join(f"{backend} {variant} {len(each)}" for (backend, variant), each in sorted(rows.items()))
    lines = table(rows)
    verdicts, hold = len(lines), sum(line[-1] == HOLDS for line in lines)
    first = ["variant", "median of", "testbed [ms]", "simulator [ms]", "difference", "criterion", "verdict"]
    second = ["variant", "relay", "receive buffer [ms]", "circuit queue [ms]", "output buffer [ms]", "send path [ms]"]
    head, last, waits = f"runs: {counts}; {void} void", f"{hold} of {verdicts} criteria hold", stations(rows)
    print(f"{head}\n")
    show(first, lines)
    print()
    show(second, waits)
    print(f"\n{last}")
    if asked.markdown:
        tables = [generated.table(first, lines), generated.table(second, waits)]
        try:
            generated.write(asked.markdown, "make worlds", "\n\n".join([f"{last}; {head}.", *tables]))
        except PenstockError as error:
            print(f"worlds: {error}", file=sys.stderr)
            return 2
    if not verdicts:
        return 2
    return 0 if hold == verdicts else 1


if __name__ == "__main__":
    sys.exit(main())
