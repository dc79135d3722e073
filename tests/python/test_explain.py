"""`penstock explain`: the limit that binds, and the algorithms that can act there."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from conftest import Command, sentence

from penstock import _core, explain
from penstock.errors import PenstockError
from penstock.result import Result


def test_the_slow_link_is_named_with_what_acts_there(penstock: Command, small: Path) -> None:
    done = penstock("explain", small, "--set", "relays.middle.link=64 KiB/s", "--json")
    assert done.status == 0, done.err
    stock = json.loads(done.out)["variants"][0]
    assert (stock["limit"], stock["relays"][0]["relay"]) == ("link", "middle")
    assert stock["relays"][0]["share"] > 0.2
    assert stock["station"]
    assert "relay.scheduler" in [each["key"] for each in stock["levers"]]
    text = penstock("explain", small, "--set", "relays.middle.link=64 KiB/s").out
    assert "link: packets wait for the access link. These keys can act there:" in text
    assert not (penstock.directory / "runs").exists()


def test_an_output_without_a_bottleneck_has_no_limit(make_up: Callable[..., Path], penstock: Command) -> None:
    directory = make_up(seeds=1)
    path = directory / "relays.parquet"
    relays = pl.read_parquet(path)
    relays.with_columns(bound_by=pl.lit(None, pl.String)).write_parquet(path)
    assert [each.limit for each in explain.find(Result(directory))] == ["", ""]
    assert "no relay is a bottleneck" in penstock("explain", directory).out
    assert "leave --set out" in sentence(penstock("explain", directory, "--set", "network.rtt=1 ms"))
    relays.clear().write_parquet(path)
    assert "has no samples of relays" in sentence(penstock("explain", directory))


def test_relays_that_the_limit_never_binds_are_not_named(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    path = directory / "relays.parquet"
    relays = pl.read_parquet(path).with_columns(bound_by=pl.lit("link"))
    idle = relays.with_columns(relay=pl.lit("idle"), bound_by=pl.lit(None, pl.String))
    pl.concat([relays, idle]).write_parquet(path)
    assert [each.relays for each in explain.find(Result(directory))] == [[("middle", 1.0)]] * 2
    path.write_bytes(b"other contents")
    with pytest.raises(PenstockError, match="has changed or is damaged"):
        explain.find(Result(directory))


def test_a_long_scenario_and_mistakes_are_one_sentence(penstock: Command, tmp_path: Path) -> None:
    said = sentence(penstock("explain", "kist/full"))
    assert "run it first (penstock run kist/full), and explain its output" in said
    (tmp_path / "empty").mkdir()
    assert "is not an output of penstock" in sentence(penstock("explain", "empty"))
    assert "did you mean quickstart?" in sentence(penstock("explain", "quickstrat"))


@pytest.mark.parametrize("limit", explain.LEVERS)
def test_every_limit_has_a_meaning_and_algorithms_that_exist(limit: str) -> None:
    keys = {each["key"] for each in _core.algorithms()}
    assert limit in explain.MEANINGS
    for lever, kinds in explain.levers(limit):
        assert lever.key in keys
        assert kinds


def test_relays_that_each_seed_draws_are_not_merged(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=2)
    relays = pl.read_parquet(directory / "relays.parquet")
    bound = pl.when(pl.col("seed") == 2).then(pl.lit("link"))
    relays.with_columns(bound_by=bound).write_parquet(directory / "relays.parquet")
    [stock, _] = explain.find(Result(directory))
    assert stock.relays == [("middle", 0.5)], "the network is the same with each seed"
    manifest = json.loads((directory / "manifest.json").read_text())
    for each in manifest["scenario"]["variants"]:
        each["resolved"] += '[relay]\nera = "2022"\n[relays.middle]\ncount = 3\n'
    (directory / "manifest.json").write_text(json.dumps(manifest))
    [stock, _] = explain.find(Result(directory))
    assert stock.relays == [("middle of seed 2", 1.0)]


def test_the_waits_are_means_of_the_cells_at_each_hop(made_up: Path, penstock: Command) -> None:
    result = Result(made_up)
    [stock, _] = explain.find(result)
    cells = result.cells.filter(pl.col("variant") == "stock", pl.col("hop") == "exit")
    [row] = [row for row in stock.waits if row["hop"] == "exit"]
    assert row["circuit_queue_s"] == pytest.approx(cells["circuit_queue_s"].mean())
    assert f"{row['circuit_queue_s']:.3f}" in penstock("explain", made_up).out


def test_refused_circuits_are_named_with_the_key(penstock: Command, small: Path) -> None:
    vegas = ("relay.edge_control={ kind = 'vegas', sendme_inc = 100 }", "client.edge_control=vegas")
    sets = [word for each in vegas for word in ("--set", each)]
    done = penstock("run", small, *sets, "--runs", "1", "--no-report", "--out", "out")
    reason = "edge_control.sendme_inc is 100 of relays and 31 of clients"
    assert reason in done.err
    assert re.search(r"none of the \d+ circuits was built, so no download began\. " + re.escape(reason), done.out)
    explained = penstock("explain", "out").out
    assert reason in explained
    assert "These keys can act there" not in explained
    described = json.loads(penstock("explain", "out", "--json").out)["variants"][0]
    assert (described["limit"], described["levers"], described["built"]) == ("", [], 0)
