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


def row(
    world: str,
    seed: int,
    *,
    web: float,
    relays: int = 1 << 30,
    variant: str = "kist",
    bad: int = 1,
    weights: float = 0.0,
) -> dict[str, Any]:
    times = {"ttfb_s": [web / 4, web / 3, web / 2, web], "ttlb_s": [web, web * 2, web * 3, web * 4]}
    return {
        "world": world,
        "scenario": "line",
        "variant": variant,
        "seed": seed,
        "workloads": {
            workload: {"ok": 100 - bad, "bad": bad, "stalled": 0, "bytes": 1 << 19, **times}
            for workload in ("bulk", "web")
        },
        "weight_error": weights,
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
    for file in ("shadow", "sim"):
        text = "".join(json.dumps(each) + "\n" for each in rows if (each["world"] == "shadow") == (file == "shadow"))
        (folder / f"{file}.jsonl").write_text(text)
    return reference("compare", "--data", folder, *options)


def test_a_median_within_20_percent_holds_in_the_line_and_a_larger_difference_fails(tmp_path: Path) -> None:
    near = [row("shadow", 1, web=10.0), row("sim", 1, web=11.9)]
    done = compare(tmp_path, near)
    assert done.status == 0, done.out + done.err
    assert "11 of 11 criteria hold" in done.out
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


def test_a_quantity_that_any_run_lacks_fails(tmp_path: Path) -> None:
    whole = [row(world, seed, web=10.0) for world in ("shadow", "sim") for seed in (1, 2)]
    assert compare(tmp_path, whole).status == 0
    for lacking, there, here in (((0,), "none", "10 s"), ((2,), "10 s", "none"), ((0, 1, 2, 3), "none", "none")):
        rows = [{**each, "workloads": {**each["workloads"]}} for each in whole]
        for place in lacking:
            del rows[place]["workloads"]["web"]
        done = compare(tmp_path, rows)
        assert done.status == 1
        assert f"web, download, median | {there} | {here} |  | 20 % | differs" in done.out


def test_the_difference_with_linux_s_tcp_stands_beside_the_criterion(tmp_path: Path) -> None:
    done = compare(tmp_path, [row("shadow", 1, web=10.0), row("sim", 1, web=11.0), row("linux", 1, web=15.0)])
    assert done.status == 0
    assert "web, download, median | 10 s | 11 s | +10 % | 20 % | holds | +50 %" in done.out


def test_the_differences_of_other_draws_of_circuits_stand_beside_the_criterion(tmp_path: Path) -> None:
    draws = [
        {**row("draws", 1, web=web, variant=variant), "draw": draw}
        for draw, web in ((1, 9.0), (2, 14.0))
        for variant in ("vanilla", "kist")
    ]
    draws[1]["workloads"]["web"]["ttlb_s"][0] = 4.5
    both = [row(world, 1, web=10.0, variant=variant) for world in ("shadow", "sim") for variant in ("vanilla", "kist")]
    done = compare(tmp_path, [*both, *draws])
    assert done.status == 0
    assert "vanilla | web, download, median | 10 s | 10 s | +0 % | 20 % | holds |  | -10 % to +40 % |" in done.out
    assert "| line | web, download | 50 % | +0 % | +0 % |  |  | -50 % to +0 % |" in done.out


def test_the_circuits_of_shadow_have_criteria_of_their_own_on_their_seeds(tmp_path: Path) -> None:
    circuits = {"circuits": {"each": {"web1": "guard middle exit"}, "share": 0.97}}
    shadow = [row("shadow", 1, web=10.0), {**row("shadow", 2, web=20.0), **circuits}]
    ours = [row("sim", 1, web=10.0), row("sim", 2, web=20.0), row("same", 2, web=25.0)]
    done = compare(tmp_path, [*shadow, *ours])
    assert done.status == 1
    assert "web, download, median | 15 s | 15 s | +0 % | 20 % | holds |  |  | +25 % | differs |" in done.out
    assert "web, download, 90th percentile | 45 s | 45 s | +0 % | 40 % | holds |  |  | +25 % | holds |" in done.out
    assert (
        "With the circuits of Shadow, 5 of 9 criteria hold; in each run, at least 97.0 % of Shadow's downloads"
        in done.out
    )


def test_downloads_of_shadow_must_be_complete_and_weights_those_of_the_scenario(tmp_path: Path) -> None:
    done = compare(tmp_path, [row("shadow", 1, web=10.0, bad=2, weights=0.06), row("sim", 1, web=10.0)])
    assert done.status == 1
    assert "complete downloads | 98.0 % |  |  | 99 % | differs" in done.out
    assert "largest error of a weight | 6.0 % |  |  | 5 % | differs" in done.out


def test_variants_must_have_the_same_order_if_shadow_s_difference_exceeds_its_spread(tmp_path: Path) -> None:
    def rows(world: str, variant: str, times: Sequence[float]) -> list[dict[str, Any]]:
        return [row(world, seed, web=web, variant=variant) for seed, web in enumerate(times, start=1)]

    # Each seed has its own network, so that differences between seeds say nothing about variants.
    apart = [*rows("shadow", "kist", (10, 20, 40)), *rows("shadow", "vanilla", (12, 25, 47))]
    same = [*rows("sim", "kist", (10, 20, 40)), *rows("sim", "vanilla", (11.5, 22, 46))]
    done = compare(tmp_path, [*apart, *same])
    assert "vanilla against kist | web, download, median | +21 % | +13 % |  | the same sign | holds" in done.out
    other = [*rows("sim", "kist", (10, 20, 40)), *rows("sim", "vanilla", (9.5, 19, 41))]
    done = compare(tmp_path, [*apart, *other])
    assert done.status == 1
    assert "vanilla against kist | web, download, median | +21 % | -3 % |  | the same sign | differs" in done.out
    unclear = [*rows("shadow", "kist", (10, 20, 40)), *rows("shadow", "vanilla", (12, 18, 41)), *other]
    assert "against" not in compare(tmp_path, unclear).out


def test_the_effect_of_kist_is_shown_for_both_worlds(tmp_path: Path) -> None:
    times = {("shadow", "vanilla"): 10.0, ("shadow", "kist"): 8.0, ("sim", "vanilla"): 12.0, ("sim", "kist"): 9.0}
    rows = [row(world, 1, web=web, variant=variant) for (world, variant), web in times.items()]
    done = compare(tmp_path, rows)
    assert "| line | web, first byte | 80 % | -20 % | -25 % |" in done.out
    assert "| line | web, download | 99 % | -20 % | -25 % |" in done.out


def test_costs_are_per_host(tmp_path: Path) -> None:
    done = compare(tmp_path, [row("shadow", 1, web=10.0), row("sim", 1, web=10.0)])
    assert "| line | kist | 10 | 300.0 | 2.00 | 150 | 0.00 | 0 | 100.0 | 0.500 | 200 |" in done.out


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
