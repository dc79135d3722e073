"""A shipped scenario as one file, which a user can edit."""

import tomllib
from pathlib import Path

import pytest
from conftest import Command, sentence

from penstock import catalog, source
from penstock._core import Document
from penstock.output import TABLES


@pytest.mark.parametrize("name", catalog.shipped())
def test_a_shipped_scenario_is_one_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(source.text(name), encoding="utf-8")
    _, mine = catalog.load(path)
    _, document = catalog.load(name)
    assert mine.fingerprint() == document.fingerprint()
    assert (mine.variants(), mine.head()) == (document.variants(), document.head())
    assert (mine.seeds(), mine.networks()) == (document.seeds(), document.networks())
    file = catalog.SHIPPED / f"{name}.toml"
    assert catalog.attacks(path, path.read_text()) == catalog.attacks(file, file.read_text())


@pytest.mark.parametrize("name", ["quickstart", "ewma/flush", "attacks/latency", "worlds/star"])
def test_a_variant_with_its_defaults_is_a_scenario(name: str) -> None:
    _, document = catalog.load(name)
    variant, _ = document.variants()[-1]
    alone = Document(source.resolved(name, variant), "alone.toml", ())
    assert alone.resolved(alone.variants()[0][0]) == document.resolved(variant)


@pytest.mark.parametrize("name", ["quickstart", "ewma/flush"])
def test_a_copy_gives_the_same_bytes(penstock: Command, name: str) -> None:
    assert penstock("show", name, "--out", "mine.toml").status == 0
    assert "mine.toml exists, and may have your changes" in sentence(penstock("show", name, "--out", "mine.toml"))
    sets = ("--set", "run.stop.downloads=2", "--runs", "1", "--no-report")
    for scenario, out in ((name, "theirs"), ("mine.toml", "mine")):
        done = penstock("run", scenario, *sets, "--out", out)
        assert done.status == 0, done.err
    for table in TABLES:
        mine, theirs = ((penstock.directory / out / f"{table}.parquet") for out in ("mine", "theirs"))
        assert mine.exists() == theirs.exists()
        assert not mine.exists() or mine.read_bytes() == theirs.read_bytes(), table


def test_a_file_without_includes_keeps_its_comments(penstock: Command) -> None:
    assert penstock("show", "quickstart").out == (catalog.SHIPPED / "quickstart.toml").read_text(encoding="utf-8")


def test_a_merged_file_keeps_its_head_and_includes_nothing(penstock: Command) -> None:
    shown = penstock("show", "defenestrator/bottleneck").out
    original = (catalog.SHIPPED / "defenestrator" / "bottleneck.toml").read_text(encoding="utf-8")
    assert shown.splitlines()[0] == original.splitlines()[0]
    merged = "# `penstock show` merged _figure-4.toml, _windows.toml into this file, without the comments."
    assert merged in shown.splitlines()
    assert "include" not in tomllib.loads(shown)["scenario"]


def test_keys_merge_as_the_parser_merges_them(tmp_path: Path, small: Path) -> None:
    (tmp_path / "_base.toml").write_text(
        small.read_text(encoding="utf-8")
        + '[relay]\nscheduler = "kist"\ncircuit_policy = { kind = "ewma", half_life = "9 s" }\n'
        + '[client]\nlink_up = "1 MiB/s"\nlink_down = "2 MiB/s"\n'
    )
    path = tmp_path / "mine.toml"
    path.write_text(
        '[scenario]\ntitle = "Mine"\ninclude = "_base.toml"\n[client]\nlink = "3 MiB/s"\n'
        '[relay]\nscheduler = { interval = "5 ms" }\ncircuit_policy = { kind = "round-robin" }\n'
    )
    merged = tomllib.loads(source.text(path))
    assert merged["relay"] == {
        "scheduler": {"kind": "kist", "interval": "5 ms"},
        "circuit_policy": {"kind": "round-robin"},
    }
    assert merged["client"] == {"link": "3 MiB/s"}


def test_an_unknown_variant_is_refused(penstock: Command) -> None:
    refused = sentence(penstock("show", "quickstart", "--variant", "51KiB"))
    assert "quickstart has no variant '51KiB'; it has stock, 50KiB" in refused
