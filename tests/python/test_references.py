"""The comparison of TCP references, on rows with known results."""

import json
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from conftest import captured

REFERENCES = Path(__file__).parents[2] / "benches" / "references"


def row(
    reference: str,
    loss: float,
    value: float | None,
    *,
    experiment: str = "goodput",
    repeat: int = 1,
    samples: list[list[float | None]] | None = None,
) -> dict[str, Any]:
    goodput = experiment == "goodput"
    return {
        "reference": f"{reference} cubic",
        "experiment": experiment,
        "congestion": "cubic",
        "rate_bytes_per_s": 10485760,
        "rtt_s": 0.01,
        "loss": loss,
        "repeat": repeat,
        "queue_bytes": 150000,
        "goodput_bytes_per_s": value * 2**20 if goodput and value is not None else None,
        "seconds_to_finish": None if goodput else value,
    } | ({"samples": samples} if samples else {})


def compare(folder: Path, *rows: dict[str, Any], options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    script = str(REFERENCES / "compare.py")
    command = [script, "--data", str(folder), "--images", str(folder), *options]
    status: Any = 0
    path = [str(REFERENCES), *sys.path]
    with patch.object(sys, "argv", command), patch.object(sys, "path", path), captured() as (out, err):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
        return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def line_with(output: str, *words: str) -> str:
    found = [line for line in output.splitlines() if all(word in line for word in words)]
    assert len(found) == 1, output
    return found[0]


def test_a_model_within_15_percent_is_not_marked_and_one_beyond_is(tmp_path: Path) -> None:
    done = compare(
        tmp_path,
        row("linux-6.18", 0.01, 2.0),
        row("linux-6.18", 0.02, 1.0),
        row("model linux-6", 0.01, 2.2),
        row("model linux-6", 0.02, 1.3),
    )
    assert done.returncode == 0, done.stderr
    near, far = line_with(done.stdout, "linux-6.18", "2.000"), line_with(done.stdout, "linux-6.18", "1.000")
    assert "1.10" in near
    assert "*" not in near
    assert "1.30*" in far
    assert "model linux-6: 1 of 2 up to 2 % loss" in done.stdout


def test_a_profile_is_compared_with_its_own_reference_or_with_the_range_of_all(tmp_path: Path) -> None:
    references = row("linux-6.18", 0.01, 2.0), row("ns-3.44", 0.01, 1.0)
    profiles = [row(f"model {profile}", 0.01, 1.5) for profile in ("linux-3.2", "linux-6", "ns3")]
    done = compare(tmp_path, *references, *profiles)
    assert "0.75*" in line_with(done.stdout, "linux-6.18!", "2.000")
    assert "1.50*" in line_with(done.stdout, "ns-3.44!", "1.000")
    for profile, met in (("linux-3.2", 1), ("linux-6", 0), ("ns3", 0)):
        assert f"model {profile}: {met} of 1 up to 2 % loss" in done.stdout


def test_the_table_of_a_page_has_each_profiles_ratio_to_its_reference(tmp_path: Path) -> None:
    rows = row("linux-6.18", 0.01, 2.0), row("ns-3.44", 0.01, 1.0), row("model linux-6", 0.01, 2.2)
    done = compare(tmp_path, *rows, row("model ns3", 0.01, 2.2), options=["--markdown", str(tmp_path / "page.md")])
    assert (
        "| cubic | 10 ms | 1 % | 2.000 | 1.000 | 2.200, 1.10 | **2.200, 2.20** |" in (tmp_path / "page.md").read_text()
    ), done.stderr
    assert not list(tmp_path.glob("*.png"))


def test_a_median_has_its_range_and_downloads_that_did_not_finish_are_counted(tmp_path: Path) -> None:
    times = [30.0, 10.0, None, 20.0]
    rows = [row("ns-3.44", 0.05, t, experiment="download", repeat=i) for i, t in enumerate(times, 1)]
    line = line_with(compare(tmp_path, *rows).stdout, "ns-3.44")
    for part in ("20.0", "10.0..30.0", "3 of 4"):
        assert part in line


def test_loss_beyond_the_gates_counts_for_no_one(tmp_path: Path) -> None:
    done = compare(tmp_path, row("ns-3.44", 0.05, 1.0), row("model ns3", 0.05, 9.0))
    assert "9.00*" in done.stdout
    assert "model ns3: 0 of 0 up to 2 % loss" in done.stdout


def test_a_run_whose_link_was_late_is_left_out_if_three_others_were_not(tmp_path: Path) -> None:
    good = [row("linux-6.18", 0.0, 9.0, repeat=i) | {"late_max_s": 0.004} for i in (1, 2, 3)]
    late = row("linux-6.18", 0.0, 4.0, repeat=4) | {"late_max_s": 0.006}
    done = compare(tmp_path, *good, late)
    assert "9.000..9.000" in line_with(done.stdout, "linux-6.18")
    assert "left out 1 repeats with a link delay above 0.5" in done.stdout
    assert "4.000..9.000" in line_with(compare(tmp_path, *good[1:], late).stdout, "linux-6.18")


def test_the_period_of_a_sawtooth_is_the_time_between_its_cuts(tmp_path: Path) -> None:
    # Up from 70 to 100 in three seconds, again and again; each fall takes two samples.
    tooth = [*(70 + step / 10 for step in range(298)), 90.0, 80.0]
    samples: list[list[float | None]] = [[step / 100, window, None, None] for step, window in enumerate(tooth * 6, 1)]
    done = compare(tmp_path, row("ns-3.44", 0.0, 18.0, experiment="window", samples=samples))
    period = done.stdout.split("time between cuts")[1]
    assert "3.00" in line_with(period, "ns-3.44")


def test_figures_are_written_for_the_available_data(tmp_path: Path) -> None:
    samples: list[list[float | None]] = [[0.01, 10, None, None], [0.02, 20, None, 0.01]]
    done = compare(tmp_path, row("ns-3.44", 0.0, 1.0), row("ns-3.44", 0.0, 9.0, experiment="window", samples=samples))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["tcp-goodput.png", "tcp-window.png"]


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "now.jsonl").write_text(json.dumps(row("ns-3.44", 0.0, 5.0)) + '\n{"reference": "ns-3')
    assert compare(tmp_path).returncode == 0


def test_a_folder_without_rows_is_refused_in_one_sentence(tmp_path: Path) -> None:
    done = compare(tmp_path)
    assert done.returncode == 2
    assert "holds no rows" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_ns3_its_reference_explains_the_installation() -> None:
    command = [sys.executable, str(REFERENCES / "ns3.py"), "attributes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "make reference-ns3" in done.stderr
