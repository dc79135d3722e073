"""Compares the estimates of `penstock check` with measured runs: every shipped scenario, and generated networks.

`python benches/estimates.py [--longest SECONDS] [--markdown FILE] [NAME...]` prints a line for each: the ratio of
events, then time of a core and memory, estimated and measured, with their ratios. The last line counts the scenarios
within a factor of two. Longer scenarios are cut to `--longest` simulated seconds, in the estimate and in the run.
"""

import argparse
import tempfile
from pathlib import Path

import penstock
from penstock import catalog, generated
from penstock.errors import PenstockError

FACTOR = 2.0
"""The largest accepted ratio of estimate and measurement."""

GENERATED = """
[scenario]
title = "{relays} relays of {era}"
[run]
duration = "120 s"
[network]
latency = "geographic"
[relay]
refill = "100 ms"
scheduler = "{scheduler}"
circuit_policy = "ewma"
[relays.relay]
count = {relays}
era = "{era}"
[client]
path = "tor"
link = "{link}"
[clients.web]
count = {web}
workload = "web"
[clients.bulk]
count = {bulk}
workload = "bulk"
[servers.server]
count = 20
[workloads.web]
preset = "web"
start = "uniform(0 s, 30 s)"
[workloads.bulk]
preset = "bulk"
"""

NETWORKS = (
    {"relays": 50, "era": "2012", "web": 100, "bulk": 10, "link": "4 Mbit/s", "scheduler": "vanilla"},
    {"relays": 100, "era": "2014", "web": 300, "bulk": 33, "link": "2 Mbit/s", "scheduler": "kist"},
    {"relays": 200, "era": "2017", "web": 100, "bulk": 60, "link": "20 Mbit/s", "scheduler": "kist-deployed"},
    {"relays": 300, "era": "2018", "web": 1500, "bulk": 20, "link": "8 Mbit/s", "scheduler": "vanilla"},
    {"relays": 60, "era": "2022", "web": 400, "bulk": 40, "link": "50 Mbit/s", "scheduler": "kist-deployed"},
)


MEASURED = ("measured", "ratio")
COLUMNS = ("simulated", "events", "core [s]: estimated", *MEASURED, "heap [MB]: estimated", *MEASURED)


def main() -> None:
    """Print a line for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=float, default=60.0, help="the most simulated seconds of a run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table into FILE")
    parser.add_argument("names", nargs="*", help="scenarios; by default all shipped and generated ones")
    asked = parser.parse_args()
    rows: list[list[str]] = []
    within = 0
    print(f"{'scenario':<34}  {'  '.join(COLUMNS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in _scenarios(asked.names, Path(folder)):
            row, good = _row(name, path, asked.longest, Path(folder) / f"out{len(rows)}")
            cells = (f"{cell:>{len(column)}}" for cell, column in zip(row[1:], COLUMNS, strict=True))
            print(f"{row[0]:<34}  {'  '.join(cells)}", flush=True)
            rows.append(row)
            within += good
    count = f"{within} of {len(rows)} are within a factor of {FACTOR:g} in both"
    print(count)
    if asked.markdown:
        body = f"{count}.\n\n{generated.table(('scenario', *COLUMNS), rows)}"
        generated.write(asked.markdown, "benches/estimates.py", body)


def _scenarios(names: list[str], folder: Path) -> list[tuple[str, str]]:
    found = [(name, name) for name in (names or catalog.shipped())]
    for number, network in enumerate([] if names else NETWORKS):
        path = folder / f"generated{number}.toml"
        path.write_text(GENERATED.format(**network))
        found.append((f"{network['relays']} relays of {network['era']}, {network['scheduler']}", str(path)))
    return found


def _row(name: str, path: str, longest: float, out: Path) -> tuple[list[str], bool]:
    """Estimate and run the first variant: a row of the table, and whether both ratios are within the factor."""
    sets = [f"run.duration={longest:g} s", "run.warmup=0 s"]
    _, whole = catalog.load(path)
    variant = whole.variants()[0][0]
    if whole.estimate(variant)["sim_seconds"] <= longest:
        sets = []
    try:
        _, document = catalog.load(path, tuple(sets))
    except PenstockError:
        # A scenario with a change after the cut cannot be cut.
        sets, document = [], whole
    said = document.estimate(variant)
    networks = 1 if document.networks() else None
    result = penstock.run(path, variants=[variant], sets=sets, runs=1, networks=networks, out=out, jobs=1)
    was = result.manifest["runs"][0]
    row, good = [name, f"{was['sim_seconds']:.0f} s", f"{said['events'] / max(was['events'], 1):.2f}"], True
    # Runs below half a second or a megabyte are too small to estimate.
    for estimated, measured, smallest, digits in (
        (said["cpu_seconds"], was["cpu_seconds"], 0.5, 2),
        (said["peak_heap_bytes"] / 1e6, was["peak_heap_bytes"] / 1e6, 1.0, 1),
    ):
        ratio = estimated / max(measured, 1e-9)
        row += [f"{estimated:.{digits}f}", f"{measured:.{digits}f}", f"{ratio:.2f}"]
        good &= max(estimated, measured) < smallest or 1 / FACTOR <= ratio <= FACTOR
    return row, good


if __name__ == "__main__":
    main()
