"""Several networks: their runs, their output, and how to repeat them."""

import json
from pathlib import Path

import polars as pl
import pytest

import penstock
from penstock import _core, runs
from penstock.errors import ScenarioError
from penstock.output import Job
from penstock.paper import measures, totals

WORLD = """
[scenario]
title = "A network, for tests"
[run]
duration = "12 s"
warmup = "2 s"
[network]
latency = "geographic"
[relays.relay]
count = 20
era = "2014"
[client]
path = "tor"
[servers.server]
[workloads.web]
preset = "web"
pause = "1 s"
[clients.web]
count = 6
workload = "web"
[[variants]]
name = "vanilla"
[[variants]]
name = "kist"
set = { "relay.scheduler" = "kist" }
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    path = tmp_path / "world.toml"
    path.write_text(WORLD)
    return path


def document(text: str) -> _core.Document:
    return _core.Document(text, "world.toml")


def test_each_network_has_every_seed_and_pairs_are_complete_early() -> None:
    both = [Job(variant, network, 1) for network in (1, 2) for variant in ("vanilla", "kist")]
    assert runs.plan(document(WORLD), None, None, None, 2) == both
    many = runs.plan(document(WORLD), ["kist"], 7, 2, 2)
    assert many == [Job("kist", network, seed) for network in (1, 2) for seed in (7, 8)]
    assert [job.network for job in runs.plan(document(WORLD), None, None, 2)] == [-1] * 4
    listed = document(WORLD.replace("[run]", "[run]\nnetworks = [5, 9]"))
    assert {job.network for job in runs.plan(listed, None, None, None)} == {5, 9}
    assert {job.network for job in runs.plan(listed, None, None, None, 3)} == {5, 6, 7}
    with pytest.raises(ScenarioError, match=r"^--networks is 0; it takes at least one$"):
        runs.plan(document(WORLD), None, None, None, 0)


def test_networks_are_in_the_tables_and_the_command_repeats_them(world: Path, tmp_path: Path) -> None:
    result = penstock.run(world, networks=2, runs=2, out=tmp_path / "out", jobs=2)
    assert result.transfers.select("variant", "network", "seed").unique(maintain_order=True).rows() == [
        (variant, network, seed) for variant in ("vanilla", "kist") for network in ("1", "2") for seed in (1, 2)
    ]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["asked"]["networks"] == [1, 2]
    assert {(run["network"], run["seed"]) for run in manifest["runs"]} == {("1", 1), ("1", 2), ("2", 1), ("2", 2)}
    assert "--set 'run.networks=[1,2]'" in result.command
    assert "--seed 1 --runs 2" in result.command
    again = penstock.run(world, sets=["run.networks=[1,2]"], seed=1, runs=2, out=tmp_path / "again", jobs=1)
    for table in ("transfers", "paths", "relays"):
        assert getattr(again, table).equals(getattr(result, table)), table
    alone = penstock.run(world, seed=2, runs=1, out=tmp_path / "alone", jobs=1)
    assert alone.transfers["network"].unique().to_list() == [""]
    of_two = result.transfers.filter((pl.col("network") == "2") & (pl.col("seed") == 2)).drop("network")
    assert alone.transfers.drop("network").equals(of_two), "without a network a seed draws the one of its number"


def test_an_unfinished_directory_gets_more_networks(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = penstock.run(world, variants=["vanilla"], networks=1, out=out, jobs=1)
    manifest = json.loads((out / "manifest.json").read_text())
    # As a stop leaves it: parts instead of tables.
    parts = out / "parts" / "vanilla-1-1"
    parts.mkdir(parents=True)
    for table in out.glob("*.parquet"):
        table.rename(parts / table.name)
    (parts / "run.json").write_text(json.dumps(manifest["runs"][0]))
    (out / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
    more = penstock.run(world, variants=["vanilla"], networks=2, out=out, jobs=1)
    assert more.transfers["network"].unique(maintain_order=True).to_list() == ["1", "2"]
    assert more.manifest["runs"][0] == first.manifest["runs"][0], "the first network was not run again"


def test_the_bytes_of_all_relays_are_summed_by_interval(world: Path, tmp_path: Path) -> None:
    result = penstock.run(world, variants=["vanilla"], networks=1, out=tmp_path / "out", jobs=1)
    sums = totals.written(result, "vanilla", "*", "")
    late = result.relays.filter(pl.col("t_s") > result.transfers.filter(~pl.col("warmup"))["start_s"].min())
    assert sums["value"].sum() == late["written_bytes"].sum()
    assert sums.height == late["t_s"].n_unique() >= 9
    assert sums.equals(measures.sample(result, "network_written_bytes", "vanilla", "*", ""))
