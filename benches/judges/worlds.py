"""One small scenario in both worlds: what was printed of runs, side by side, and the verdicts.

    python worlds.py docs/data/worlds/*.jsonl [--markdown]

The criteria are those of the project's plan, written down before any comparison was run:

* the median download time of each workload, of all downloads of all seeds, in the simulator is within 20 % of the
  testbed's;
* so is, within 30 %, the median of what followed cells waited in the kernel (from the write to the last bit on the
  link) at the relay in front of the slow link: the exit, and in the pair "up" the middle;
* KIST changes each of these medians in the same direction in both worlds.

A run of the testbed that says of itself that it is void is left out, and counted.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

DOWNLOADS, KERNEL_OUT = 0.20, 0.30
PAIRS = {"": ("vanilla", "kist", "exit"), "up": ("vanilla-up", "kist-up", "middle")}
WORLDS = ("testbed", "sim")


def read(paths: list[Path]) -> tuple[dict[tuple[str, str], list[dict]], int]:
    """Rows by world and variant, and how many are void."""
    rows: dict[tuple[str, str], list[dict]] = {}
    void = 0
    for path in paths:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["emulation"] and row["emulation"]["void"]:
                void += 1
            else:
                rows.setdefault((row["world"], row["variant"]), []).append(row)
    # A seed counts where both worlds have it.
    for variant in {variant for _, variant in rows}:
        seeds = [{row["seed"] for row in rows.get((world, variant), [])} for world in WORLDS]
        for world in WORLDS:
            both = [row for row in rows.get((world, variant), []) if row["seed"] in seeds[0] & seeds[1]]
            if both:
                rows[world, variant] = both
            else:
                rows.pop((world, variant), None)
    return rows, void


def downloads(rows: list[dict], workload: str) -> float | None:
    """The median of all downloads [s]."""
    times = [time for row in rows for time in row["downloads"].get(workload, {}).get("ttlb_s", [])]
    return statistics.median(times) if times else None


def kernel_out(rows: list[dict], position: str) -> float | None:
    """The median of all cells [s], from the percentiles of each run, weighted by how many cells there are."""
    points = []
    for row in rows:
        cells = row["cells"][position]
        percentiles = cells["kernel_out_percentiles_s"]
        points += [(value, cells["count"] / len(percentiles)) for value in percentiles]
    points.sort()
    half, total = sum(weight for _, weight in points) / 2, 0.0
    for value, weight in points:
        total += weight
        if total >= half:
            return value
    return None


def measures(position: str) -> list[tuple[str, float, object]]:
    """What is compared: its name, how far apart it may be, and how it is read from rows."""
    return [
        ("web", DOWNLOADS, lambda rows: downloads(rows, "web")),
        ("bulk", DOWNLOADS, lambda rows: downloads(rows, "bulk")),
        (f"kernel out, {position}", KERNEL_OUT, lambda rows: kernel_out(rows, position)),
    ]


def table(rows: dict[tuple[str, str], list[dict]]) -> tuple[list[list[str]], int, int]:
    """Lines of the comparison, how many verdicts there are, and how many hold."""
    lines, verdicts, hold = [], 0, 0
    for before, after, position in PAIRS.values():
        if not all((world, variant) in rows for world in WORLDS for variant in (before, after)):
            continue
        for name, band, read_of in measures(position):
            found = {}
            for variant in (before, after):
                testbed, sim = (read_of(rows[world, variant]) for world in WORLDS)
                if testbed is None or sim is None:
                    continue
                found[variant] = (testbed, sim)
                apart = sim / testbed - 1
                holds = abs(apart) <= band
                verdicts, hold = verdicts + 1, hold + holds
                shown = f"{testbed * 1e3:.1f}", f"{sim * 1e3:.1f}", f"{apart:+.1%}"
                lines.append([variant, name, *shown, f"within {band:.0%}", "holds" if holds else "does not hold"])
            if len(found) == 2:
                testbed, sim = (found[after][world] / found[before][world] - 1 for world in (0, 1))
                holds = testbed * sim > 0
                verdicts, hold = verdicts + 1, hold + holds
                shown = f"{testbed:+.1%}", f"{sim:+.1%}", ""
                lines.append([f"{before} to {after}", name, *shown, "same sign", "holds" if holds else "does not hold"])
    return lines, verdicts, hold


def stations(rows: dict[tuple[str, str], list[dict]]) -> list[list[str]]:
    """Where cells waited at each position: the median of the runs' medians [ms], testbed and simulator; no verdict."""
    lines = []
    for variant in sorted({variant for _, variant in rows}):
        for position in ("exit", "middle", "guard"):
            cells = [variant, position]
            for station in ("kernel_in_s", "circuit_queue_s", "outbuf_s", "kernel_out_s"):
                both = []
                for world in WORLDS:
                    said = [row["cells"][position][station] for row in rows.get((world, variant), [])]
                    said = [value for value in said if value is not None]
                    both.append(f"{statistics.median(said) * 1e3:.2f}" if said else "-")
                cells.append(" / ".join(both))
            lines.append(cells)
    return lines


def show(head: list[str], lines: list[list[str]], markdown: bool) -> None:
    """Prints a table."""
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        return
    widths = [max(len(line[place]) for line in [head, *lines]) for place in range(len(head))]
    for line in [head, *lines]:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def main() -> int:
    """Reads, compares, prints; 1 if a verdict does not hold, 2 if there is nothing to compare."""
    markdown = "--markdown" in sys.argv
    rows, void = read([Path(word) for word in sys.argv[1:] if not word.startswith("--")])
    counts = ", ".join(f"{world} {variant} {len(each)}" for (world, variant), each in sorted(rows.items()))
    print(f"runs: {counts}; {void} void\n")
    lines, verdicts, hold = table(rows)
    show(["variant", "median of", "testbed [ms]", "sim [ms]", "apart", "criterion", "verdict"], lines, markdown)
    print()
    head = ["variant", "relay", "kernel in [ms]", "circuit queue [ms]", "output buffer [ms]", "kernel out [ms]"]
    show(head, stations(rows), markdown)
    print(f"\n{hold} of {verdicts} hold")
    if not verdicts:
        return 2
    return 0 if hold == verdicts else 1


if __name__ == "__main__":
    sys.exit(main())
