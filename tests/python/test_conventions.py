"""Conventions of command lines: short options, JSON, CSV, completion of words and manual pages."""

import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Command, sentence

import penstock as package
from penstock import _core, catalog, spreadsheet
from penstock.output import TABLES
from penstock.result import Result

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
COMMANDS = ("list", "check", "show", "run", "sweep", "merge", "paper", "attack", "report", "compare", "network",
            "paths", "workload",
            "export shadow", "export tornettools", "export onionperf", "import shadow", "completion",
            "version")  # fmt: skip


def facts(penstock: Command, *words: str | Path) -> dict[str, Any]:
    """The JSON object that a command prints."""
    done = penstock(*words, "--json")
    assert done.status == 0, done.err
    value: dict[str, Any] = json.loads(done.out)
    return value


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_short_option_for_help(penstock: Command, command: str) -> None:
    short, long = (penstock(*command.split(), option) for option in ("-h", "--help"))
    assert (short.status, short.out) == (0, long.out)
    assert f"Usage: penstock {command} " in short.out
    assert short.out.isascii()


def test_the_page_of_commands_has_every_option(penstock: Command) -> None:
    page = (DOCS / "commands.md").read_text()
    for command in COMMANDS:
        options = set(re.findall(r"^  (--[a-z-]+)", penstock(*command.split(), "--help").out, flags=re.MULTILINE))
        section = page.partition(f"\n## `penstock {command.split()[0]}`\n")[2].partition("\n## ")[0]
        documented = {f"--{name}" for name in re.findall(r"--(?:no-)?([a-z-]+)", section + "--json --csv")}
        assert not options - documented, f"penstock {command}: docs/reference/commands.md lacks {options - documented}"


def test_the_version_names_the_build(penstock: Command) -> None:
    line = f"penstock {_core.version()}"
    assert penstock("--version").out == f"{line}\n"
    assert re.fullmatch(r"penstock \d+\.\d+\.\d+\+([\d.]*g[0-9a-f]{7}(\.dirty\.[0-9a-f]{8})?|unknown)", line)
    first, libraries = penstock("version").out.splitlines()
    assert first == line
    build = facts(penstock, "version")
    assert build["version"] == package.__version__
    assert f"polars {build['libraries']['polars']}" in libraries
    assert build["platform"] in libraries


def test_lists_are_facts(penstock: Command) -> None:
    lists = facts(penstock, "list")
    assert list(lists) == ["scenarios", "papers", "attacks", "algorithms", "presets", "workloads", "networks"]
    assert all(lists.values())
    assert [each["name"] for each in lists["scenarios"]] == catalog.shipped()
    [backtap] = facts(penstock, "list", "algorithms", "backtap")["algorithms"]
    assert (backtap["key"], backtap["kind"]) == ("hop_control", "backtap")
    assert {"name", "default", "unit", "meaning"} == set(backtap["parameters"][0])
    assert "leave 'quickstart' out" in sentence(penstock("list", "scenarios", "quickstart", "--json"))


def test_a_checked_scenario_is_facts(penstock: Command, small: Path) -> None:
    checked = facts(penstock, "check", small)
    assert (checked["scenario"], checked["seeds"], checked["title"]) == ("small", [1, 2], "One path, for tests")
    assert [variant["name"] for variant in checked["variants"]] == ["stock", "small"]
    assert checked["variants"][0]["estimate"]["events"] > 0


def test_a_run_is_facts_and_csv(penstock: Command, small: Path) -> None:
    run = facts(penstock, "run", small, "--runs", "1", "--no-report", "--csv", "--out", "out")
    assert (run["directory"], run["finished"], run["report"]) == ("out", True, None)
    assert [row["variant"] for row in run["summary"]] == ["stock", "small"]
    # One pair has no interval; NaN is no JSON.
    assert {row["low_s"] for row in run["differences"]} == {None}
    for table in TABLES:
        path = penstock.directory / "out" / f"{table}.parquet"
        written = pl.read_csv(path.with_suffix(".csv"), schema=pl.read_parquet_schema(path))
        # An empty text and a missing value look the same in CSV.
        texts = pl.selectors.string().fill_null("")
        assert written.with_columns(texts).equals(pl.read_parquet(path).with_columns(texts)), table
    again = facts(penstock, "report", "out")
    assert again["report"] == "out/report.html"
    assert again["summary"] == run["summary"]


def test_points_of_a_sweep_are_facts(penstock: Command, small: Path) -> None:
    param = "relays.middle.link=128 KiB/s,256 KiB/s"
    swept = facts(penstock, "sweep", small, "--param", param, "--variant", "stock", "--runs", "1", "--no-report")
    assert [point["middle.link"] for point in swept["points"]] == ["128 KiB/s", "256 KiB/s"]


def test_a_comparison_is_facts(penstock: Command, make_up: Callable[..., Path]) -> None:
    made = make_up(traced=False)
    compared = facts(penstock, "compare", f"{made}:stock", f"{made}:small", "--no-report")
    assert {row["interval"] for row in compared["rows"]} == {"paired"}
    assert compared["failures"][0]["a"]["attempts"] > 0
    assert compared["report"] is None


def test_csv_has_the_summary_and_the_differences(make_up: Callable[..., Path]) -> None:
    result = Result(make_up())
    (result.directory / "differences.csv").write_text("an earlier file")
    assert {path.name for path in spreadsheet.write(result)} >= {"summary.csv", "differences.csv", "transfers.csv"}
    for name, frame in (("summary", result.summary()), ("differences", result.differences())):
        assert pl.read_csv(result.directory / f"{name}.csv", schema=frame.schema).equals(frame.fill_nan(None))


def test_csv_needs_one_finished_directory(penstock: Command, make_up: Callable[..., Path]) -> None:
    unfinished, other = make_up("unfinished", finished=False), make_up("other")
    assert "--csv needs a finished directory" in sentence(penstock("report", unfinished, "--csv"))
    assert "for the report of one directory" in sentence(penstock("report", unfinished, other, "--to", "x", "--json"))


def completed(penstock: Command, words: str) -> list[str]:
    """The words that bash shows after the Tab key."""
    script = penstock("completion", "bash").out
    assert "complete -o default -F" in script
    program = f'penstock() {{ {penstock.words()[0]} -m penstock "$@"; }}; export -f penstock'
    # `env` starts a program and knows no function of the shell.
    script = script.replace("env COMP_WORDS", "COMP_WORDS")
    line = f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; _penstock_completion penstock"
    done = penstock.run(["bash", "-c", f'{program}\n{script}\n{line}; printf "%s\\n" "${{COMPREPLY[@]}}"'])
    assert done.status == 0, done.err
    return done.out.split()


def test_bash_completes_commands_options_and_scenarios(penstock: Command) -> None:
    assert completed(penstock, "penstock ver") == ["version"]
    assert completed(penstock, "penstock run --thr") == ["--threads"]
    assert completed(penstock, "penstock check defenestrator/bott") == ["defenestrator/bottleneck"]
    assert completed(penstock, "penstock list alg") == ["algorithms"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(penstock: Command, shell: str) -> None:
    script = penstock("completion", shell).out
    assert f"_PENSTOCK_COMPLETE=complete_{shell}" in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is missing")
    path = penstock.directory / "script"
    path.write_text(script)
    assert penstock.run([program, "-n", str(path)]).status == 0


def test_every_command_has_a_manual_page(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("click_man", reason="click-man is missing")
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "python")
    importlib.import_module("man").main(str(penstock.directory / "man"))
    pages = {path.stem: path.read_text() for path in (penstock.directory / "man").iterdir()}
    assert {f"penstock-{command.replace(' ', '-')}" for command in COMMANDS} | {"penstock"} <= pages.keys()
    assert r"\fB\-\-shard\fP K/N" in pages["penstock-run"]
    assert _core.version() in pages["penstock"]
