"""The verbs of the command, on a scenario that runs in no time."""

import json
from pathlib import Path

import polars as pl
import pytest
from conftest import Command

import penstock as package
from penstock import catalog
from penstock.output import TABLES
from penstock.paper import claims


def test_list_has_a_line_for_each_thing(penstock: Command) -> None:
    scenarios = penstock("list", "scenarios").out.splitlines()
    assert [line.split()[0] for line in scenarios] == catalog.shipped()
    assert {"quickstart", "defenestrator/bottleneck"} <= set(catalog.shipped())
    assert "edge_control = windows" in penstock("list", "algorithms").out
    presets = penstock("list", "presets").out.splitlines()
    assert [line.split()[0] for line in presets] == ["tor-0.2.2", "tor-0.2.3", "tor-0.4.9-noconflux", "tor-0.4.9"]
    workloads = penstock("list", "workloads").out.splitlines()
    torperf = [line.split()[2] for line in workloads if line.startswith("preset = perf")]
    assert torperf == ["perf50k", "perf1m", "perf5m"]
    everything = penstock("list")
    assert everything.status == 0
    for what in ("scenarios", "papers", "algorithms", "presets", "workloads", "networks"):
        assert f"{what}:\n" in everything.out


def test_algorithms_are_listed_with_all_that_is_known_of_them(penstock: Command) -> None:
    lines = penstock("list", "algorithms", "backtap").out.splitlines()
    assert lines[0] == "hop_control = backtap"
    assert any(line.startswith("  source: Tschorsch and Scheuermann 2016") for line in lines)
    assert '  incompatible with: transport = tcp: it is for datagrams; set transport = "datagram" as well' in lines
    assert any(line.split()[:3] == ["alpha", "3", "[cell]"] for line in lines)
    n23 = [line.split() for line in penstock("list", "algorithms", "n23").out.splitlines()]
    assert ["works", "with:", "everything"] in n23
    assert any(line[:3] == ["adapt.interval", '"100', 'ms"'] for line in n23)
    static = penstock("list", "algorithms", "static").out
    assert "rate       required [B/s]" in static
    schedulers = penstock("list", "algorithms", "scheduler").out
    assert schedulers.count("scheduler = ") == 5
    assert "  no effect with: transport = datagram: it limits only writes to TCP sockets" in schedulers
    everything = penstock("list", "algorithms").out
    assert schedulers in everything
    assert all(f"\n{line}\n" in f"\n{everything}" for line in ("edge_control = vegas", "throttle = none"))


def test_titles_are_those_of_the_checked_files() -> None:
    for name in catalog.shipped():
        assert catalog.title(name) == catalog.load(name)[1].head()["title"]
    for paper in catalog.papers():
        assert catalog.paper_title(paper) == claims.load(paper).title


def test_a_list_of_one_thing_that_is_not_there_is_refused(penstock: Command) -> None:
    done = penstock("list", "algorithms", "backtrap")
    assert done.status == 2
    assert done.err.startswith("penstock: there is no algorithm 'backtrap'; there are round-robin, ewma, ")
    done = penstock("list", "scenarios", "quickstart")
    assert (done.status, done.err) == (
        2,
        "penstock: only algorithms have details; leave 'quickstart' out\n",
    )


SHORT_DELAYS = {
    "ewma/half-life-load", "marut/authors-100-4", "marut/authors-375-4", "marut/dumbbell-100-4", "marut/dumbbell-375-4"
}  # fmt: skip
"""Scenarios whose servers are beside relays, as in the papers, which slows the simulator down."""


@pytest.mark.parametrize("name", catalog.shipped())
def test_every_shipped_scenario_is_right_and_explained(
    penstock: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process prints each warning once, so the test would otherwise depend on the tests before it.
    monkeypatch.setattr(catalog, "_WARNED", set())
    done = penstock("check", name)
    assert done.status == 0, done.err
    warnings = done.err.splitlines()
    assert len(warnings) == (name in SHORT_DELAYS), done.err
    assert all(line.startswith("penstock: warning: ") and "look-ahead" in line for line in warnings)
    for word in ("variants", "runs", "estimate"):
        assert word in done.out


def test_a_run_ends_in_a_table_a_report_and_pictures(penstock: Command, small: Path) -> None:
    done = penstock("run", small)
    assert done.status == 0, done.err
    assert done.err == ""
    for word in ("One path, for tests", "50 KiB windows", "TTFB", "p90", "95 % interval", "2 seeds"):
        assert word in done.out
    out = penstock.directory / "runs" / "small-1"
    assert "runs/small-1/report.html" in done.out
    assert (out / "report.html").is_file()
    names = {"downloads", "circuit-queue", "queue-delay", "stations", "waits", "life-cycle"}
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"{n}.{end}" for n in names for end in ("svg", "png")
    }
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["figures", "manifest.json", "report.html", *(f"{table}.parquet" for table in TABLES)]
    )


def test_one_seed_gives_no_interval_but_a_warning(penstock: Command, small: Path) -> None:
    done = penstock("run", small, "--seed", "7", "--no-report")
    assert "One seed gives no interval" in done.out
    assert package.load(penstock.directory / "runs" / "small-1").seeds == [7]


def test_each_run_without_out_gets_a_fresh_directory(penstock: Command, small: Path) -> None:
    for n in (1, 2):
        done = penstock("run", small, "--variant", "stock", "--runs", "1", "--no-report")
        assert f"runs/small-{n}\n" in done.out
        assert not (penstock.directory / "runs" / f"small-{n}" / "report.html").exists()


def test_the_manifest_lists_the_runs_and_their_cost(penstock: Command, small: Path) -> None:
    arguments = ["--variant", "small", "--seed", "3", "--runs", "2", "--set", "trace.cells=0", "--no-report"]
    penstock("run", small, *arguments, "--out", "out")
    manifest = json.loads((penstock.directory / "out" / "manifest.json").read_text())
    assert manifest["version"] == package.__version__
    assert manifest["finished"] is True
    assert manifest["peak_rss_bytes"] > 1e7
    assert manifest["scenario"]["sets"] == ["trace.cells=0"]
    assert "circuit_window = 100" in manifest["scenario"]["variants"][1]["resolved"]
    assert [(run["variant"], run["network"], run["seed"]) for run in manifest["runs"]] == [
        ("small", "", 3), ("small", "", 4),
    ]  # fmt: skip
    for run in manifest["runs"]:
        assert run["sim_seconds"] == pytest.approx(30, abs=1)
        for cost in ("wall_seconds", "cpu_seconds", "events", "packets", "cells", "peak_heap_bytes"):
            assert run[cost] > 0, cost


def test_more_threads_than_cores_are_reduced_with_a_warning(penstock: Command, small: Path) -> None:
    done = penstock("run", small, "--runs", "1", "--jobs", "1", "--threads", "5000", "--no-report", "--out", "many")
    assert done.status == 0
    assert "warning: --threads 5000 is reduced to " in done.err


def test_tables_are_identical_when_repeated_or_run_in_threads(penstock: Command, small: Path) -> None:
    ways = {"alone": ("1", "1"), "beside": ("8", "1"), "threads": ("1", "3"), "both": ("2", "2")}
    for out, (jobs, threads) in ways.items():
        arguments = ["--runs", "4", "--set", 'trace.clients="1 s"', "--jobs", jobs, "--threads", threads]
        assert penstock("run", small, *arguments, "--no-report", "--out", out).status == 0
    for table in TABLES:
        alone, *others = ((penstock.directory / out / f"{table}.parquet").read_bytes() for out in ways)
        assert all(other == alone for other in others), table
        assert getattr(package.load(penstock.directory / "threads"), table).height, table
    costs = {"wall_seconds", "cpu_seconds", "peak_heap_bytes", "peak_rss_bytes"}
    manifests = [json.loads((penstock.directory / out / "manifest.json").read_text()) for out in ways]
    for manifest in manifests:
        for each in (manifest, *manifest["runs"]):
            for cost in costs & each.keys():
                del each[cost]
    assert all(manifest == manifests[0] for manifest in manifests)


def test_rows_are_in_the_order_of_variant_and_seed(penstock: Command, small: Path) -> None:
    penstock("run", small, "--jobs", "4", "--no-report", "--out", "out")
    transfers = package.load(penstock.directory / "out").transfers
    order = transfers.select("variant", "seed").unique(maintain_order=True).rows()
    assert order == [("stock", 1), ("stock", 2), ("small", 1), ("small", 2)]


def test_the_function_has_the_inputs_and_results_of_the_command(small: Path, tmp_path: Path) -> None:
    result = package.run(small, variants=["stock"], sets=["trace.cells=5"], seed=2, runs=1, out=tmp_path / "out")
    assert result.finished
    assert result.seeds == [2]
    assert isinstance(result.transfers, pl.DataFrame)
    assert result.summary()["downloads"].to_list() == [result.transfers.filter(outcome="ok").height]
    assert set(result.cells["hop"].unique()) >= {"exit", "middle", "guard"}
    assert result.paths.select("guard", "middle", "exit").row(0) == ("entry", "middle", "exit")
    with pytest.raises(package.OutputError, match="exists"):
        package.run(small, out=tmp_path / "out")
    with pytest.raises(package.ScenarioError, match=r"run\.speed"):
        package.run(small, sets=["run.speed=3"])


def test_a_report_can_be_written_again_and_of_several(penstock: Command, small: Path) -> None:
    for out in ("a", "b"):
        penstock("run", small, "--runs", "1", "--no-report", "--out", out)
    page = penstock.directory / "a" / "report.html"
    assert penstock("report", "a").status == 0
    assert page.is_file()
    assert penstock("report", "a", "b", "--to", "both.html").status == 0
    assert (penstock.directory / "both.html").read_text().count("<section id=") == 2
