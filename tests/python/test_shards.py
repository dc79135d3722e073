"""Shards of a command give the tables of one command, and only shards that belong together are merged."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Command, sentence

import penstock as package
from penstock.output import TABLES, Job
from penstock.shards import Shard

NETWORKS = ["--set", "run.networks=[4, 9]"]


def parts(penstock: Command, small: Path, count: int, *more: str, verb: str = "run") -> list[str]:
    """Execute every shard; returns their directories."""
    names = [f"part-{number}" for number in range(1, count + 1)]
    for number, name in enumerate(names, 1):
        done = penstock(verb, small, *more, "--shard", f"{number}/{count}", "--out", name)
        assert done.status == 0, done.err
    return names


def assert_same_tables(penstock: Command, one: str, other: str) -> None:
    for table in TABLES:
        first, second = ((penstock.directory / out / f"{table}.parquet").read_bytes() for out in (one, other))
        assert first == second, table


def test_twenty_shards_have_the_bytes_of_one_directory(penstock: Command, small: Path) -> None:
    asked = ["--runs", "5", *NETWORKS, "--set", "run.duration=5 s"]
    assert penstock("run", small, *asked, "--no-report", "--out", "whole").status == 0
    names = parts(penstock, small, 20, *asked)
    done = penstock("merge", *reversed(names), "--out", "merged", "--no-report")
    assert done.status == 0, done.err
    assert_same_tables(penstock, "whole", "merged")
    whole, merged = (
        json.loads((penstock.directory / out / "manifest.json").read_text()) for out in ("whole", "merged")
    )
    costs = {"wall_seconds", "cpu_seconds", "peak_heap_bytes", "peak_rss_bytes"}
    for manifest in (whole, merged):
        for each in (manifest, *manifest["runs"]):
            for cost in costs & each.keys():
                del each[cost]
    assert whole == merged


def test_shards_of_a_sweep_have_its_points(penstock: Command, small: Path) -> None:
    asked = ["--param", "relays.middle.link=128 KiB/s,256 KiB/s", "--runs", "2"]
    assert penstock("sweep", small, *asked, "--no-report", "--out", "whole").status == 0
    names = parts(penstock, small, 3, *asked, verb="sweep")
    assert penstock("merge", *names, "--out", "merged", "--no-report").status == 0
    assert_same_tables(penstock, "whole", "merged")
    points = [(penstock.directory / out / "points.csv").read_text() for out in ("whole", "merged")]
    assert points[0] == points[1]


@pytest.mark.parametrize(("runs", "count"), [(7, 3), (2, 5), (40, 20), (1, 1)])
def test_each_run_is_in_one_shard(runs: int, count: int) -> None:
    jobs = [Job("stock", -1, seed) for seed in range(runs)]
    shards = [Shard(number, count).of(jobs) for number in range(1, count + 1)]
    assert [job for shard in shards for job in shard] == jobs
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"])
def test_a_wrong_shard_is_refused(penstock: Command, small: Path, text: str) -> None:
    done = penstock("run", small, f"--shard={text}", "--out", "out")
    assert sentence(done) == f"penstock: --shard is {text!r}; write K/N with K from 1 to N, such as 3/20"
    assert not (penstock.directory / "out").exists()


def test_a_shard_needs_a_directory_of_its_own(penstock: Command, small: Path) -> None:
    assert "add --out DIR" in sentence(penstock("run", small, "--shard", "1/2"))
    assert penstock("run", small, "--shard", "1/2", "--out", "one").status == 0
    assert "holds shard 1/2" in sentence(penstock("run", small, "--shard", "2/2", "--out", "one"))
    assert "holds shard 1/2" in sentence(penstock("run", small, "--out", "one"))
    other = penstock("run", small, "--runs", "3", "--shard", "1/2", "--out", "one")
    assert "shard of other runs" in sentence(other)
    again = penstock("run", small, "--shard", "1/2", "--out", "one")
    assert again.status == 0
    assert "1/2, with 2 finished runs in one" in again.out


def test_a_shard_with_every_run_is_merged_as_well(penstock: Command, small: Path) -> None:
    assert penstock("run", small, "--runs", "1", "--shard", "1/1", "--out", "one").status == 0
    assert not package.load(penstock.directory / "one").finished
    result = package.merge([penstock.directory / "one"], penstock.directory / "all")
    assert result.finished
    assert "--shard" not in result.command


def test_only_shards_of_one_command_are_merged(penstock: Command, small: Path) -> None:
    for name, more in {"a": [], "b": ["--set", "trace.cells=20"], "c": ["--runs", "3"]}.items():
        assert penstock("run", small, *more, "--shard", "1/2", "--out", name).status == 0
    assert "b has another scenario or --set than a" in sentence(penstock("merge", "a", "b", "--out", "all"))
    assert "c has other variants, networks or seeds than a" in sentence(penstock("merge", "a", "c", "--out", "all"))
    assert "name each shard once" in sentence(penstock("merge", "a", "a", "--out", "all"))
    assert "is in none of these directories; finish all shards first" in sentence(
        penstock("merge", "a", "--out", "all")
    )
    shutil.copytree(penstock.directory / "a", penstock.directory / "d")
    path = penstock.directory / "d" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": "0.1.0+g0000000"}))
    assert "d has another build of penstock than a" in sentence(penstock("merge", "a", "d", "--out", "all"))
    assert penstock("run", small, "--runs", "1", "--no-report", "--out", "whole").status == 0
    assert "whole is not a shard; " in sentence(penstock("merge", "whole", "--out", "all"))
    assert "small.toml is not an output of penstock" in sentence(penstock("merge", "small.toml", "--out", "all"))
    assert not (penstock.directory / "all").exists()


SMALLER = {"--runs 100": "--runs 2", "--array=1-20": "--array=1-4", "range(1, 21)": "range(1, 5)", "/20": "/4"}
"""Four tasks instead of twenty, with a run each."""


def blocks(language: str) -> list[str]:
    """The code blocks of the how-to guide in a language, with fewer tasks."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "run-on-a-cluster.md").read_text()
    for whole, part in SMALLER.items():
        assert whole in page
        page = page.replace(whole, part)
    return [part.partition("\n```")[0] for part in page.split(f"```{language}\n")[1:]]


def test_the_slurm_scripts_give_all_runs(penstock: Command, small: Path) -> None:
    small.rename(penstock.directory / "study.toml")
    array, merge = blocks("bash")
    count = int(array.partition("--array=1-")[2].split()[0])
    commands = f'penstock() {{ {penstock.words()[0]} -m penstock "$@"; }}\n'
    for task in range(1, count + 1):
        variables = f"SLURM_ARRAY_TASK_ID={task} SLURM_ARRAY_TASK_COUNT={count} SLURM_CPUS_PER_TASK=1\n"
        done = penstock.run(["bash", "-euc", commands + variables + array])
        assert done.status == 0, done.err
    done = penstock.run(["bash", "-euc", commands + merge])
    assert done.status == 0, done.err
    assert package.load(penstock.directory / "runs" / "study").finished


def test_the_snakefile_gives_all_runs(penstock: Command, small: Path) -> None:
    snakemake = shutil.which("snakemake")
    if snakemake is None:
        pytest.skip("snakemake is missing")
    (penstock.directory / "study.toml").write_text(small.read_text())
    (penstock.directory / "Snakefile").write_text(blocks("python")[0])
    subprocess.run([snakemake, "--cores", "1"], cwd=penstock.directory, env=penstock.env, check=True)
    assert package.load(penstock.directory / "runs" / "study").finished
