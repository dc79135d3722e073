"""The comparison with Shadow, on rows with known results."""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from conftest import Finished, captured

REFERENCES = Path(__file__).parents[2] / "benches" / "references"


def row(world: str, seed: int, *, web: float, relays: int = 1 << 30, variant: str = "kist") -> dict[str, Any]:
    times = {"ttfb_s": [web / 4, web / 3, web / 2, web], "ttlb_s": [web, web * 2, web * 3, web * 4]}
    return {
        "world": world,
        "scenario": "line",
        "variant": variant,
        "seed": seed,
        "workloads": {"web": {"ok": 99, "bad": 1, **times}},
        "relay_bytes": relays,
        "hosts": 10,
        "cpu_seconds": 300.0 if world == "shadow" else 2.0,
        "wall_seconds": 1.0,
        "peak_bytes": 1000 << 20 if world == "shadow" else 5 << 20,
    }


def reference(*words: str | Path) -> Finished:
    script = str(REFERENCES / "shadow.py")
    status: Any = 0
    path = [str(REFERENCES), *sys.path]
    with (
        patch.object(sys, "argv", [script, *map(str, words)]),
        patch.object(sys, "path", path),
        captured() as (out, err),
    ):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
        return Finished(status, out.getvalue(), err.getvalue())


def compare(folder: Path, rows: Sequence[dict[str, Any]], *options: str | Path) -> Finished:
    for world in ("shadow", "sim"):
        text = "".join(json.dumps(each) + "\n" for each in rows if each["world"] == world)
        (folder / f"{world}.jsonl").write_text(text)
    return reference("compare", "--data", folder, *options)


def test_a_median_within_20_percent_holds_in_the_line_and_a_larger_difference_fails(tmp_path: Path) -> None:
    near = [row("shadow", 1, web=10.0), row("sim", 1, web=11.9)]
    done = compare(tmp_path, near)
    assert done.status == 0, done.out + done.err
    assert "5 of 5 criteria hold" in done.out
    done = compare(tmp_path, [near[0], row("sim", 1, web=12.2)])
    assert done.status == 1
    assert "web, download, median | 10 s | 12.2 s | +22 % | 20 % | differs" in done.out
    assert "web, download, 90th percentile | 30 s | 36.6 s | +22 % | 40 % | holds" in done.out


def test_the_comparison_takes_the_median_over_the_seeds(tmp_path: Path) -> None:
    shadow = [row("shadow", seed, web=web) for seed, web in ((1, 10.0), (2, 11.0), (3, 90.0))]
    ours = [row("sim", seed, web=web) for seed, web in ((1, 1.0), (2, 11.0), (3, 11.5))]
    done = compare(tmp_path, [*shadow, *ours])
    assert "web, download, median | 11 s | 11 s | +0 %" in done.out


def test_bytes_of_relays_have_their_own_criterion(tmp_path: Path) -> None:
    done = compare(tmp_path, [row("shadow", 1, web=10.0), row("sim", 1, web=10.0, relays=int(1.2 * 2**30))])
    assert done.status == 1
    assert "+20 % | 15 % | differs" in done.out


def test_costs_are_per_host(tmp_path: Path) -> None:
    done = compare(tmp_path, [row("shadow", 1, web=10.0), row("sim", 1, web=10.0)])
    assert "| line | kist | 10 | 300.0 | 2.00 | 150 | 100.0 | 0.500 | 200 |" in done.out
    assert "99 of 100 ended downloads were complete" in done.out


def test_the_table_replaces_the_block_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "shadow.md"
    page.write_text(
        "<!-- begin generated: benches/references/shadow.py -->\nearlier table\n<!-- end generated -->\nend\n"
    )
    done = compare(tmp_path, [row("shadow", 1, web=10.0), row("sim", 1, web=10.0)], "--markdown", page)
    assert done.status == 0
    assert "earlier table" not in page.read_text()
    assert "| line | kist | web, download, median |" in page.read_text()


def test_without_rows_a_sentence_names_the_command(tmp_path: Path) -> None:
    done = compare(tmp_path, [row("shadow", 1, web=10.0)])
    assert done.status == 2
    assert "run make reference-shadow" in done.err


@pytest.mark.parametrize("missing", ["shadow", "tgen", "tor", "gencert"])
def test_a_missing_program_is_named(tmp_path: Path, missing: str) -> None:
    here = dict.fromkeys(("shadow", "tgen", "tor", "gencert"), "true") | {missing: "/nonexistent/program"}
    words = [word for name, path in here.items() for word in (f"--{name}", path)]
    done = reference("run", "--data", tmp_path, *words)
    assert done.status == 2
    assert f"shadow: {missing.upper()}" in done.err
    assert done.err.count("\n") == 1
