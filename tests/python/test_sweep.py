"""A sweep: its grid, its output, its errors, and how it resumes after Ctrl-C."""

import json
import shlex
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from conftest import ENDLESS, SMALL, Command, sentence, wait_for

import penstock as package
from penstock import figures, points
from penstock.grid import Grid, split

LINKS = "relays.middle.link=128 KiB/s,256 KiB/s"
WINDOWS = "relay.edge_control.circuit_window=100,1000"


def test_values_stand_between_commas_outside_of_brackets_and_quotes() -> None:
    assert split("1,2") == ["1", "2"]
    assert split("40 ms , 80 ms") == ["40 ms", "80 ms"]
    assert split("uniform(1 s, 3 s),1 s") == ["uniform(1 s, 3 s)", "1 s"]
    assert split('{kind="a,b", n=[1, 2]},"x, y"') == ['{kind="a,b", n=[1, 2]}', '"x, y"']


def test_an_axis_is_called_by_the_end_of_its_key_unless_that_is_not_its_own() -> None:
    assert Grid.of(["relay.hop_control.n2=1,2", "network.rtt=1 ms"]).names == ["n2", "rtt"]
    assert Grid.of(["relays.a.link=1", "relays.b.link=1"]).names == ["a.link", "b.link"]
    assert Grid.of(["relay.link=1", "client.link=1"]).names == ["relay.link", "client.link"]
    assert Grid.of(["run.stop.workload=web,bulk"]).names == ["run.stop.workload"]


def test_keys_that_are_set_together_are_one_axis() -> None:
    grid = Grid.of(["relay.link+client.link=1 MiB/s,2 MiB/s", "network.rtt=1 ms"])
    assert grid.names == ["link", "rtt"]
    assert [sets for _, sets in grid.sets()] == [
        ["relay.link=1 MiB/s", "client.link=1 MiB/s", "network.rtt=1 ms"],
        ["relay.link=2 MiB/s", "client.link=2 MiB/s", "network.rtt=1 ms"],
    ]
    assert Grid.of(grid.describe()["params"]) == grid


def test_a_sweep_is_every_combination_and_ends_in_a_table_and_maps(penstock: Command, small: Path) -> None:
    done = penstock("sweep", small, "--param", LINKS, "--param", WINDOWS, "--variant", "stock")
    assert done.status == 0, done.err
    assert done.err == ""
    for word in ("link", "circuit_window", "256 KiB/s", "95 % interval", "t interval over 2 seeds", "heat-map.png"):
        assert word in done.out
    out = penstock.directory / "runs" / "sweep-small-1"
    result = package.load(out)
    assert list(result.variants) == [
        "middle.link=128 KiB/s, circuit_window=100",
        "middle.link=128 KiB/s, circuit_window=1000",
        "middle.link=256 KiB/s, circuit_window=100",
        "middle.link=256 KiB/s, circuit_window=1000",
    ]
    table = pl.read_parquet(out / "points.parquet")
    assert table.select("middle.link", "circuit_window", "workload", "seeds").rows() == [
        ("128 KiB/s", 100, "web", 2),
        ("128 KiB/s", 1000, "web", 2),
        ("256 KiB/s", 100, "web", 2),
        ("256 KiB/s", 1000, "web", 2),
    ]
    assert pl.read_csv(out / "points.csv").columns == table.columns
    page = (out / "report.html").read_text()
    for word in ("Results of each point", "Times over middle.link and circuit_window", "penstock sweep"):
        assert word in page
    assert {path.name for path in (out / "figures").iterdir()} == {"heat-map.svg", "heat-map.png"}


def test_a_points_numbers_are_means_of_its_runs_medians(penstock: Command, small: Path) -> None:
    sizes = ["workloads.web.size=uniform(50 KiB, 200 KiB)"]
    result = package.sweep(small, [WINDOWS], variants=["stock"], sets=sizes, out=penstock.directory / "out")
    row = points.table(result).row(1, named=True)
    of = pl.col("variant") == "circuit_window=1000"
    downloads = result.transfers.filter(of, pl.col("outcome") == "ok")
    medians = downloads.group_by("seed").agg(pl.col("ttlb_s").median())["ttlb_s"]
    assert row["downloads"] == downloads.height
    assert row["ttlb_s"] == pytest.approx(medians.mean())
    assert row["ttlb_low_s"] < row["ttlb_s"] < row["ttlb_high_s"]


def test_a_point_equals_a_run_with_its_values(penstock: Command, small: Path) -> None:
    swept = package.sweep(small, [LINKS], runs=1, out=penstock.directory / "swept")
    alone = package.run(small, sets=["relays.middle.link=128 KiB/s"], runs=1, out=penstock.directory / "alone")
    for name in ("stock", "small"):
        one = swept.transfers.filter(variant=f"{name}, middle.link=128 KiB/s").drop("variant")
        assert one.height
        assert one.equals(alone.transfers.filter(variant=name).drop("variant"))


def test_one_axis_is_drawn_as_a_line_and_one_seed_has_no_interval(penstock: Command, small: Path) -> None:
    done = penstock("sweep", small, "--param", WINDOWS, "--runs", "1", "--out", "out", "--no-report")
    assert done.status == 0, done.err
    assert "gives no interval" in done.out
    assert [picture.name for picture in figures.draw(package.load(penstock.directory / "out"))] == ["line"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '--param'"),
        (["--param", "network.rtt"], "--param network.rtt: it must be key=value,value"),
        (["--param", "=1"], "it must be key=value,value"),
        (["--param", "network.rtt+=40 ms"], "it must be key=value,value"),
        (["--param", "relay.link+relay.link=1 MiB/s"], "relay.link is given twice"),
        (["--param", "network.rtt=40 ms,,80 ms"], "a value is missing"),
        (["--param", "network.rtt=40 ms,40 ms"], "the value 40 ms is given twice"),
        (["--param", "network.rtt=1 ms", "--param", "network.rtt=2 ms"], "network.rtt is given twice"),
        (["--param", "run.seeds=[1],[2]"], "--seed and --runs"),
        (["--param", "network.rtt=40 ms,80"], "--param network.rtt=80: network.rtt: "),
        (["--param", "network.rt=40 ms,80 ms"], "--param network.rt=40 ms: network.rt: this key is unknown"),
        (["--param", LINKS, "--variant", "large"], 'there is no variant "large"; there are stock, small'),
        (["--param", LINKS, "--runs", "0"], "--runs is 0"),
        (["--param", LINKS, "--jobs", "0"], "--jobs is 0"),
        (["--param", LINKS, "--set", "run.speed=3"], "--set run.speed=3: run.speed: this key is unknown"),
    ],
)
def test_a_mistake_is_one_sentence(penstock: Command, small: Path, arguments: list[str], said: str) -> None:
    assert said in sentence(penstock("sweep", small, *arguments))
    assert not (penstock.directory / "runs").exists()


def test_ctrl_c_keeps_finished_points_and_the_second_call_does_the_rest(penstock: Command, tmp_path: Path) -> None:
    scenario, out = tmp_path / "endless.toml", tmp_path / "out"
    scenario.write_text(ENDLESS)
    ask: list[str | Path] = [
        "sweep",
        scenario,
        "--param",
        'run.duration="30 s","2000 h"',
        "--variant",
        "stock",
        "--runs",
        "1",
    ]
    ask += ["--set", "run.sample=10 s", "--set", "trace.workloads=[]", "--out", out]
    process = penstock.start(*ask, "--jobs", "1")
    wait_for(out / "parts" / "duration=%2230 s%22-1", process)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "")
    assert complaint == (
        f"penstock: stopped: 1 of 2 runs are finished and kept in {out}, "
        f"and the same command with --out {out} executes the others\n"
    )
    assert penstock("report", out).status == 0
    assert pl.read_csv(out / "points.csv").height == 1
    before = (out / "parts" / "duration=%2230 s%22-1" / "run.json").stat().st_mtime_ns
    process = penstock.start(*ask)
    wait_for(out / "parts" / "duration=%222000 h%22-1.tmp", process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert (out / "parts" / "duration=%2230 s%22-1" / "run.json").stat().st_mtime_ns == before, "it was done again"


def test_an_unfinished_sweep_resumes_to_the_same_tables(penstock: Command, small: Path) -> None:
    ask: list[str | Path] = ["sweep", small, "--param", LINKS, "--runs", "1", "--no-report", "--out"]
    assert penstock(*ask, "whole").status == 0
    whole, half = penstock.directory / "whole", penstock.directory / "half"
    (half / "parts").mkdir(parents=True)
    manifest = json.loads((whole / "manifest.json").read_text())
    (half / "manifest.json").write_text(json.dumps({**manifest, "finished": False, "runs": []}))
    command = shlex.split(package.load(half).command)
    assert command[:2] == ["penstock", "sweep"]
    assert penstock(*command[1:-1], half, "--no-report").status == 0
    for name in ("transfers.parquet", "points.parquet", "points.csv"):
        assert (half / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.parametrize("change", ["scenario", "grid", "no sweep", "variants"])
def test_an_unfinished_directory_of_another_sweep_is_refused(penstock: Command, small: Path, change: str) -> None:
    ask: list[str | Path] = ["sweep", small, "--param", LINKS, "--runs", "1", "--no-report", "--out", "out"]
    assert penstock(*ask).status == 0
    path = penstock.directory / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "finished": False}))
    before = path.read_text()
    if change == "scenario":
        small.write_text(SMALL.replace("100 KiB", "200 KiB"))
    others: dict[str, list[str | Path]] = {
        "grid": [*ask, "--param", WINDOWS],
        "no sweep": ["run", small, "--out", "out"],
        "variants": [*ask, "--variant", "stock"],
        "scenario": ask,
    }
    said = sentence(penstock(*others[change]))
    assert said.startswith("penstock: out exists and holds unfinished runs of the same scenario")
    assert path.read_text() == before


def test_a_finished_sweep_is_refused_with_a_hint(penstock: Command, small: Path) -> None:
    ask: list[str | Path] = ["sweep", small, "--param", LINKS, "--runs", "1", "--no-report", "--out", "out"]
    assert penstock(*ask).status == 0
    assert "out exists and is finished" in sentence(penstock(*ask))
