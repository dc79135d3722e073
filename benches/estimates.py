"""What `penstock check` predicts of a run beside what the run takes: every shipped scenario, and generated networks.

`python benches/estimates.py [--longest SECONDS] [NAME...]` prints a line for each: time of a core and memory, predicted
and measured, and their ratio, with the ratio of events before them; and at the end how many are within a factor of two.
Scenarios that last longer are cut to `--longest` simulated seconds, in the prediction and in the run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import penstock
from penstock import catalog
from penstock.errors import PenstockError

FACTOR = 2.0
"""How far a prediction may be off."""

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


def main() -> None:
    """Print a line for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=float, default=60.0, help="simulated seconds of a run at most")
    parser.add_argument(
        "names", nargs="*", help="scenarios; all that are shipped, and generated ones, if none are named"
    )
    asked = parser.parse_args()
    within, lines = 0, 0
    columns = ("simulated", "events", "core [s]: said", "was", "ratio", "heap [MB]: said", "was", "ratio")
    widths = (10, 8, 16, 8, 7, 17, 8, 7)
    print(f"{'scenario':<34}" + "".join(f"{name:>{width}}" for name, width in zip(columns, widths, strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        for name, path in _scenarios(asked.names, Path(folder)):
            good = _line(name, path, asked.longest, Path(folder) / f"out{lines}")
            within, lines = within + good, lines + 1
    print(f"{within} of {lines} are within a factor of {FACTOR:g} in both")


def _scenarios(names: list[str], folder: Path) -> list[tuple[str, str]]:
    found = [(name, name) for name in (names or catalog.shipped())]
    for number, network in enumerate([] if names else NETWORKS):
        path = folder / f"generated{number}.toml"
        path.write_text(GENERATED.format(**network))
        found.append((f"{network['relays']} relays of {network['era']}, {network['scheduler']}", str(path)))
    return found


def _line(name: str, path: str, longest: float, out: Path) -> bool:
    """Predict and run the first variant; whether both ratios are within the factor."""
    sets = [f"run.duration={longest:g} s", "run.warmup=0 s"]
    _, whole = catalog.load(path)
    variant = whole.variants()[0][0]
    if whole.estimate(variant)["sim_seconds"] <= longest:
        sets = []
    try:
        _, document = catalog.load(path, tuple(sets))
    except PenstockError:
        # What changes later than that cannot be cut off.
        sets, document = [], whole
    said = document.estimate(variant)
    networks = 1 if document.networks() else None
    penstock.run(path, variants=[variant], sets=sets, runs=1, networks=networks, out=out, jobs=1)
    was = json.loads((out / "manifest.json").read_text())["runs"][0]
    events, time, memory = (said[key] / max(was[key], 1e-9) for key in ("events", "cpu_seconds", "peak_heap_bytes"))
    print(
        f"{name:<34}{was['sim_seconds']:>9.0f}s{events:>8.2f}{said['cpu_seconds']:>16.2f}{was['cpu_seconds']:>8.2f}{time:>7.2f}"
        f"{said['peak_heap_bytes'] / 1e6:>17.1f}{was['peak_heap_bytes'] / 1e6:>8.1f}{memory:>7.2f}",
        flush=True,
    )
    # A run of a blink, or within a megabyte, has nothing to predict.
    blink = max(was["cpu_seconds"], said["cpu_seconds"]) < 0.5
    little = max(was["peak_heap_bytes"], said["peak_heap_bytes"]) < 1e6
    return (blink or 1 / FACTOR <= time <= FACTOR) and (little or 1 / FACTOR <= memory <= FACTOR)


if __name__ == "__main__":
    main()
