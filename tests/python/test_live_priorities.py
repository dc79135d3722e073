"""`benches/live_priorities.py` compares the modes of each round, and uses no void round."""

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import program

DOWNLOADS = "factor,round,load,mode,client,number,connected_s,first_byte_s,last_byte_s\n"
ROUNDS = (
    "factor,round,load,mode,middle_mbit,guard_mbit,exit_mbit,late_p99_ms,late_max_ms,unseen,machine_load,station,"
    "waits,mean_ms,median_ms,p95_ms\n"
)
LATENESS = {1: 0.9, 2: 1.1, 3: 5.1}
"""Round 3 is void [ms]."""
PACE = {"none": 1.0, "EWMA": 0.84}


@pytest.fixture(scope="module")
def bench() -> dict[str, Any]:
    return program("live_priorities")


def tables(folder: Path) -> None:
    """Writes rounds in which EWMA takes 0.84 of the time at low load, and 0.83 at high load in round 2."""
    downloads: list[str] = []
    rounds: list[str] = []
    for number, late in LATENESS.items():
        for load in ("low", "high", "onion"):
            for mode, pace in PACE.items():
                scale = 0.83 if (number, load, mode) == (2, "high", "EWMA") else pace
                scale = 9.0 if (number, mode) == (3, "EWMA") else scale
                for download in range(8):
                    opened = 4.0 if download % 4 == 0 else 1.0
                    # Later streams of the onion service take as long in both modes.
                    opened *= 1.0 if load == "onion" and download % 4 else scale
                    times = f"{opened:.4f},{opened + 0.5:.4f},{opened + 2 * scale:.4f}"
                    downloads.append(f"none,{number},{load},{mode},0,{download},{times}\n")
                head = f"none,{number},{load},{mode},20,40,40,{late},9,0,2.0"
                stations = ("circuit queue", "output buffer", "kernel out")
                rounds.extend(f"{head},{station},10,5,4,9\n" for station in stations)
    downloads.append("none,1,low,none,1,0,,,\n")
    for mode, wait in (("none", 474), ("EWMA", 277)):
        downloads.append(f"uplink,1,high,{mode},0,0,0.1,0.2,{PACE[mode]}\n")
        rounds.append(f"uplink,1,high,{mode},20,40,40,2.6,9,0,2.0,circuit queue,10,{wait},4,9\n")
    (folder / "live-downloads.csv").write_text(DOWNLOADS + "".join(downloads))
    (folder / "live-rounds.csv").write_text(ROUNDS + "".join(rounds))


def test_rounds_give_changes_and_verdicts(
    bench: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("<!-- begin generated: make live-priorities -->\n<!-- end generated -->\n")
    arguments = ["live_priorities.py", str(tmp_path), "--figures", str(tmp_path), "--markdown", str(page)]
    monkeypatch.setattr(sys, "argv", arguments)
    bench["main"]()
    said = capsys.readouterr().out
    assert "void: factor none, round 3" in said
    assert "| E-25 | median, low load | 3.00 | 2.52 | -16.0%, -16.0% to -16.0% | 2 | below 0 | holds |" in said
    # One round with -16 % and one with -17 % have an interval of 12.7 standard errors of 0.5 %.
    assert "| E-25 | median, high load | 3.00 | 2.50 | -16.5%, -22.9% to -10.1% | 2 | below 0 | holds |" in said
    assert "| onion service: new circuit, mean | 4.00 | 3.36 | -16.0%, -16.0% to -16.0% |" in said
    assert "| onion service: later stream, mean | 1.00 | 1.00 | +0.0%, +0.0% to +0.0% |" in said
    assert "low, without priorities: 1 of 17" in said
    assert "| uplink | high | 1.00 | 0.84 | -16.0% | 474 | 277 | 1 |" in said
    assert said.split("\n\n")[1] in page.read_text()
    assert all((tmp_path / name).stat().st_size for name in ("ewma-figures7-9.png", "ewma-figure14.png"))


@pytest.mark.parametrize(
    ("mean", "high", "holds"),
    [(-0.2, -0.05, True), (-0.36, -0.3, False), (-0.09, -0.05, False), (-0.2, 0.01, False)],
)
def test_a_change_holds_if_it_is_within_the_bound_and_decided(
    bench: dict[str, Any], mean: float, high: float, holds: bool
) -> None:
    change = bench["Change"](10.0, 8.0, mean, 2 * mean - high, high, 5)
    assert change.within(-0.35, -0.10) is holds
