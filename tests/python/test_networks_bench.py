"""`benches/networks.py` runs the right networks in the right order, and computes its table from their numbers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import program

from penstock import catalog

ROOT = Path(__file__).parents[2]
FAKE = """#!{python}
import json, os, sys
threads = int(os.environ["THREADS"])
with open({log!r}, "a") as log:
    log.write(json.dumps([threads, *sys.argv[1:]]) + "\\n")
number = sum(1 for line in open({log!r}))
print(json.dumps({{
    "threads": threads, "relays": 1000, "clients": 3833, "hosts": 5945, "warmup_s": 6, "simulated_s": 3,
    "cpu_s": 1 if number == 3 else 2, "wall_s": 2 if threads == 1 else 1.25, "cell_writes": 3e6, "load_mib_s": 700,
    "peak_heap_bytes": 1.5e9 if sys.argv[-1] == "run.warmup=0 s" else 250e6,
    "connections": 9, "balance": threads * 0.75,
}}))
"""


@pytest.fixture(scope="module")
def bench() -> dict[str, Any]:
    return program("networks")


def test_each_network_runs_in_alternating_rounds_and_its_line_has_the_medians(
    bench: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, program, data, page = (tmp_path / name for name in ("log", "bench", "networks.jsonl", "page.md"))
    program.write_text(FAKE.format(python=sys.executable, log=str(log)))
    program.chmod(0o755)
    page.write_text("Text.\n\n<!-- begin generated: make bench-network -->\n<!-- end generated -->\n")
    arguments = [str(program), "--scale", "0.1", "--data", str(data), "--markdown", str(page)]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["networks.py", *arguments, "thousand"])
    bench["main"]()
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert [call[0] for call in calls] == [1, 2, 1, 2, 1, 2, 8, 16]
    assert {tuple(call[1:4]) for call in calls} == {("--network-json", "scenarios/kist/full.toml", "vanilla")}
    assert {tuple(call[-2:]) for call in calls[:6]} == {("run.warmup=6 s", "run.duration=9 s")}
    assert {tuple(call[-2:]) for call in calls[6:]} == {("run.warmup=0 s", "run.duration=4.5 s")}
    line = "| 1,000 | 5,945 | 6 + 3 | 3 | 700 | 1.5 | 1.50 M | 1.60 | 6.0 | 12.0 | 250 MB |  |"
    assert line in capsys.readouterr().out
    assert line in page.read_text()
    monkeypatch.setattr(sys, "argv", ["networks.py", *arguments, "thousand", "--whole"])
    bench["main"]()
    assert json.loads(log.read_text().splitlines()[-1])[-1] == "run.warmup=0 s"
    assert line.replace("|  |", "| 1.50 GB |") in page.read_text()
    assert len(data.read_text().splitlines()) == 1


def test_the_networks_have_the_documented_sizes(bench: dict[str, Any]) -> None:
    sizes = {}
    for name, network in bench["NETWORKS"].items():
        _, document = catalog.load(network.scenario, network.sets)
        sizes[name] = document.hosts("vanilla")
    assert sizes == {"ci": 594, "tenth": 2140, "thousand": 5945, "full": 21_400, "large": 66_889}
