"""Tables of trade-offs, from made-up downloads with known answers."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Command

from penstock import catalog
from penstock.errors import PenstockError
from penstock.figures import tradeoffs as figure
from penstock.paper import measures, plan, runner, tradeoffs
from penstock.paper.claims import Tradeoffs, load
from penstock.result import Result

COLUMNS = [
    {"title": "first byte", "workload": "web", "measure": "ttfb_s", "statistic": "median", "better": "lower"},
    {"title": "bytes", "measure": "bytes_received", "statistic": "sum", "better": "higher"},
]

TABLE = Tradeoffs.model_validate(
    {"scenarios": ["one"], "baseline": "stock", "columns": COLUMNS, "front": ["first byte", "bytes"]}
)

TIMES = {"stock": [2.0, 4.0], "fast": [1.0, 2.0], "large": [4.0, 4.0], "poor": [4.0, 8.0]}
"""The time to first byte of each seed [s]."""
BYTES = {"stock": 100, "fast": 50, "large": 200, "poor": 50}


def made(folder: Path, **sizes: int) -> Result:
    """An output with one download of each variant and seed."""
    rows = [
        {
            "variant": variant, "network": "", "seed": seed, "client": "web", "workload": "web", "circuit": 1,
            "stream": 1, "direction": "download", "bytes": 1, "bytes_received": (BYTES | sizes)[variant],
            "start_s": 1.0, "connect_s": 0.1, "ttfb_s": time, "ttlb_s": 2 * time, "outcome": "ok", "warmup": False,
        }
        for variant, times in TIMES.items()
        for seed, time in enumerate(times, 1)
    ]  # fmt: skip
    pl.DataFrame(rows).write_parquet(folder / "transfers.parquet")
    variants = [{"name": name, "label": name.upper()} for name in TIMES]
    runs: list[dict[str, Any]] = [{key: row[key] for key in ("variant", "network", "seed")} for row in rows]
    scenario = {"name": "made", "title": "Made up", "variants": variants}
    (folder / "manifest.json").write_text(
        json.dumps({"version": "0.1.0", "finished": True, "scenario": scenario, "runs": runs})
    )
    return Result(folder)


def test_cells_are_changes_in_pairs_of_seeds(tmp_path: Path) -> None:
    compared = tradeoffs.compare(TABLE, "one", {"one": made(tmp_path)})
    stock, fast, large, _ = (row.cells for row in compared.rows)
    assert stock[0].mean == 3.0
    assert [cell.change for cell in fast] == [-0.5, -0.5]
    assert fast[0].decided  # both seeds have the same change
    assert large[0].change == pytest.approx(math.sqrt(2.0 * 1.0) - 1)
    assert not large[0].decided
    assert large[1].improvement == 2.0


def test_the_score_is_the_weighted_geometric_mean_of_improvements(tmp_path: Path) -> None:
    compared = tradeoffs.compare(TABLE, "one", {"one": made(tmp_path)})
    rows = {row.variant: row for row in compared.rows}
    assert rows["stock"].score([1.0, 1.0]) == pytest.approx(0.0)
    assert rows["fast"].score([1.0, 0.0]) == pytest.approx(1.0)  # twice as fast
    assert rows["fast"].score([1.0, 1.0]) == pytest.approx(0.0)  # and half of the bytes
    assert rows["fast"].score([2.0, 1.0]) == pytest.approx((2 * 2 / 2) ** (1 / 3) - 1)
    assert rows["large"].score([1.0, 1.0]) == pytest.approx(math.sqrt(2.0 / math.sqrt(2.0)) - 1)
    assert rows["fast"].score([0.0, 0.0]) == 0.0
    assert [row.variant for row in compared.ranked][-1] == "poor"


def test_the_front_has_no_row_that_another_row_improves(tmp_path: Path) -> None:
    compared = tradeoffs.compare(TABLE, "one", {"one": made(tmp_path)})
    assert [row.variant for row in compared.front] == ["stock", "fast", "large"]
    picture = figure.draw(compared)
    assert picture is not None
    assert picture.alt == "The front has LARGE, STOCK, FAST."


def test_the_slowest_client_is_compared_with_the_mean(tmp_path: Path) -> None:
    made(tmp_path)
    rows = pl.read_parquet(tmp_path / "transfers.parquet").filter(variant="stock", seed=1)
    other = rows.with_columns(client=pl.lit("other"), ttlb_s=pl.lit(1.0))
    pl.concat([rows, other]).write_parquet(tmp_path / "transfers.parquet")
    # A byte in 4 s and a byte in 1 s: rates of 0.25 and 1.
    found = measures.sample(Result(tmp_path), "slowest_user", "stock", "web", "")
    assert found["value"].to_list() == [0.25 / 0.625]


def test_a_row_without_a_number_is_last_and_has_no_score(tmp_path: Path) -> None:
    compared = tradeoffs.compare(TABLE, "one", {"one": made(tmp_path, fast=0)})
    assert compared.ranked[-1].variant == "fast"
    assert tradeoffs.score_text(compared.score(compared.ranked[-1])) == ""
    assert "FAST" in tradeoffs.markdown(compared)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("front = [", 'front = ["speed", ', "tradeoffs.front"),
        ('front = ["web, first byte, median"', 'front = ["speed"', "front has 'speed'"),
        (
            'measure = "ttfb_s", statistic = "median", better',
            'measure = "speed", statistic = "median", better',
            "'speed'",
        ),
        ('statistic = "p99"', 'statistic = "share-above"', "share-above"),
        ('hop = "any-ends", ', "", "needs the key hop"),
        ('title = "web, first byte, 99 %"', 'title = "web, first byte, 90 %"', "twice"),
    ],
)
def test_a_mistake_in_the_table_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (Path(load("capstone").folder) / "claims.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "claims.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PenstockError, match="tradeoffs") as error:
        load(str(tmp_path))
    assert message in str(error.value)


SMALL = """
paper = "small"
title = "Small"
section = "1"
[scale]
quickstart = { duration_s = 60, warmup_s = 20 }
[tradeoffs]
scenarios = ["quickstart"]
baseline = "stock"
columns = [
    { title = "web", workload = "web", measure = "ttlb_s", statistic = "median", better = "lower" },
    { title = "queue", measure = "network_queue_cells", statistic = "mean", better = "lower" },
]
front = ["web", "queue"]
[[claims]]
id = "a"
says = "It is faster."
figure = "1"
scenario = "quickstart"
workload = "web"
measure = "ttlb_s"
statistic = "median"
compare = "change"
variants = ["50KiB", "stock"]
gate = { direction = "below" }
"""


def test_a_paper_runs_all_variants_of_its_table_and_writes_it(tmp_path: Path) -> None:
    from penstock.catalog import SHIPPED
    from penstock.report import write

    (tmp_path / "claims.toml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "quickstart.toml").write_bytes((SHIPPED / "quickstart.toml").read_bytes())
    out = tmp_path / "out"
    outcome = runner.run(str(tmp_path), scenario="quickstart", scale=0.5, seeds=2, out=out)
    manifest = outcome.results["quickstart"].manifest
    assert {run["sim_seconds"] for run in manifest["runs"]} == {20.0 + 0.5 * (60.0 - 20.0)}
    page = write(list(outcome.results.values()), out / "report.html", outcome).read_text(encoding="utf-8")
    runner.write(outcome)
    assert "Trade-offs" in page
    assert 'aria-label="weight of queue"' in page
    table = pl.read_csv(out / "quickstart" / runner.TRADEOFFS)
    assert set(table["variant"]) == {"stock", "50KiB"}
    queue = table.filter(column="queue")
    assert queue.filter(variant="50KiB")["mean"][0] < queue.filter(variant="stock")["mean"][0]


def test_chosen_variants_run_alone_beside_the_baseline(tmp_path: Path, penstock: Command) -> None:
    from penstock.catalog import SHIPPED

    three = SHIPPED.joinpath("quickstart.toml").read_text(encoding="utf-8").replace(
        'name = "50KiB"', 'name = "same"\n\n[[variants]]\nname = "50KiB"', 1
    )  # fmt: skip
    (tmp_path / "quickstart.toml").write_text(three, encoding="utf-8")
    other = SMALL[SMALL.index("[[claims]]") :].replace('id = "a"', 'id = "b"').replace("50KiB", "same")
    (tmp_path / "claims.toml").write_text(SMALL + other, encoding="utf-8")
    page = tmp_path / "page.md"
    asked = ["paper", str(tmp_path), "--scale", "0.1", "--runs", "1", "--out", str(tmp_path / "out")]
    refused = penstock(*asked, "--variant", "50KiB", "--variant", "none")
    assert refused.status == 2
    assert "--variant is none; these experiments have the variants 50KiB, same, stock" in refused.err
    assert not (tmp_path / "out").exists()
    block = "penstock paper small --variant 50KiB"
    page.write_text(f"<!-- begin generated: {block} -->\n<!-- end generated -->\n", encoding="utf-8")
    assert penstock(*asked, "--variant", "50KiB", "--markdown", str(page)).status == 0
    rows = [line.split(" |")[0] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert [row for row in rows if "`" in row] == ["| `a`"]
    assert [row for row in rows if "same" in row] == []
    assert any("50 KiB windows" in row for row in rows)
    kept = json.loads((tmp_path / "out" / "quickstart" / "manifest.json").read_text(encoding="utf-8"))
    assert kept["asked"]["variants"] == ["stock", "50KiB"]
    assert json.loads((tmp_path / "out" / runner.VERDICTS).read_text(encoding="utf-8"))["variants"] == ["50KiB"]


def test_the_page_of_tradeoffs_has_only_the_tables(tmp_path: Path, penstock: Command) -> None:
    from penstock.catalog import SHIPPED

    (tmp_path / "claims.toml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "quickstart.toml").write_bytes((SHIPPED / "quickstart.toml").read_bytes())
    page = tmp_path / "weights.html"
    asked = ["paper", str(tmp_path), "--scale", "0.1", "--runs", "1", "--out", str(tmp_path / "out")]
    refused = penstock(*asked, "--figure", "1", "--tradeoffs", str(page))
    assert refused.status == 2
    assert "leave --figure out, and give --scenario quickstart" in refused.err
    assert not (tmp_path / "out").exists()
    assert penstock(*asked, "--tradeoffs", str(page)).status == 0
    text = page.read_text(encoding="utf-8")
    assert 'aria-label="weight of queue"' in text
    assert "Claim by claim" not in text


def test_another_scenario_measures_a_column_and_is_not_scaled(tmp_path: Path) -> None:
    from penstock.catalog import SHIPPED

    keys = 'title = "calls", scenario = "other", measure = "calls_per_data_cell", statistic = "mean", better = "lower"'
    text = SMALL.replace("]\nfront", f"    {{ {keys} }},\n]\nfront")
    (tmp_path / "claims.toml").write_text(text, encoding="utf-8")
    scenario = (SHIPPED / "quickstart.toml").read_text(encoding="utf-8")
    (tmp_path / "quickstart.toml").write_text(scenario, encoding="utf-8")
    (tmp_path / "other.toml").write_text(scenario.replace('duration = "1 h"', 'duration = "25 s"'), encoding="utf-8")
    outcome = runner.run(str(tmp_path), scenario="quickstart", scale=0.1, seeds=1, out=tmp_path / "out")
    (compared,) = outcome.compared  # the other scenario has no table
    assert {run["sim_seconds"] for run in outcome.results["other"].manifest["runs"]} == {25.0}
    assert {run["sim_seconds"] for run in outcome.results["quickstart"].manifest["runs"]} == {24.0}
    (run,) = (run for run in outcome.results["other"].manifest["runs"] if run["variant"] == "stock")
    calls = (run["relay_calls"] + 3 * run["relay_queries"]) / run["data_cells"]
    (stock,) = (row for row in compared.rows if row.variant == "stock")
    assert stock.cells[-1].mean == pytest.approx(calls)
    assert 0.1 < calls < 5
    assert "The scenario `other` measured calls (" in tradeoffs.remark(compared)
    alone = tradeoffs.compare(compared.tradeoffs, "quickstart", {"quickstart": outcome.results["quickstart"]})
    assert [row.cells[-1].n for row in alone.rows] == [0, 0]
    # Another scenario compares with the common baseline, so a table with its own one has no such column.
    own = compared.tradeoffs.model_copy(update={"baselines": {"quickstart": "50KiB"}})
    of_own = tradeoffs.compare(own, "quickstart", outcome.results)
    assert len(of_own.rows[0].cells) == len(alone.rows[0].cells) - 1
    assert not of_own.companions


def test_a_baseline_that_is_no_variant_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(SMALL.replace('baseline = "stock"', 'baseline = "none"'), encoding="utf-8")
    from penstock.catalog import SHIPPED

    (tmp_path / "quickstart.toml").write_bytes((SHIPPED / "quickstart.toml").read_bytes())
    with pytest.raises(PenstockError, match=r"tradeoffs.baseline is 'none'; the variants .* are 50KiB, stock"):
        runner.run(str(tmp_path), scenario="quickstart", out=tmp_path / "out")


def test_a_scenario_may_have_its_own_baseline(tmp_path: Path) -> None:
    from penstock.catalog import SHIPPED

    own = SMALL.replace('baseline = "stock"', 'baseline = "stock"\nbaselines = { quickstart = "50KiB" }')
    (tmp_path / "claims.toml").write_text(own, encoding="utf-8")
    (tmp_path / "quickstart.toml").write_bytes((SHIPPED / "quickstart.toml").read_bytes())
    outcome = runner.run(str(tmp_path), variants=["stock"], scale=0.1, seeds=1, out=tmp_path / "out")
    (compared,) = outcome.compared
    assert compared.baseline == "50KiB"
    assert {row.variant: row.cells[0].change for row in compared.rows}["50KiB"] == 0
    assert "The row of 50 KiB" in tradeoffs.remark(compared)
    (tmp_path / "claims.toml").write_text(own.replace("quickstart =", "other ="), encoding="utf-8")
    with pytest.raises(PenstockError, match=r"baselines has 'other'; it must be one of scenarios: quickstart"):
        runner.run(str(tmp_path), out=tmp_path / "out2")


SENSITIVITY = """
[sensitivity]
scenario = "quickstart"
variants = ["50KiB"]
columns = ["web"]
settings = [
    { name = "same", title = "unchanged" },
    { name = "slow", title = "a long round trip", set = ["network.rtt=400 ms"] },
    { name = "open", title = "an open loop", replay = "same" },
]
"""

OF_SETTINGS = """
[[claims]]
id = "slow"
says = "A long round trip makes it slower."
figure = "1"
scenario = ["quickstart-slow", "quickstart-same"]
workload = "web"
measure = "ttlb_s"
statistic = "median"
compare = "change"
variants = ["stock", "stock"]
gate = { direction = "above" }
"""


def sensitive(folder: Path, old: str = "", new: str = "") -> Path:
    """A folder with a small scenario and the claims of a sensitivity, in which `new` replaces `old`."""
    from penstock.catalog import SHIPPED

    text = SMALL + OF_SETTINGS + SENSITIVITY
    assert old in text
    (folder / "claims.toml").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    scenario = (SHIPPED / "quickstart.toml").read_text(encoding="utf-8")
    (folder / "quickstart.toml").write_text(scenario.replace('duration = "1 h"', 'duration = "60 s"'), encoding="utf-8")
    return folder


def web_time(result: Result, variant: str) -> float:
    """The mean over both seeds of a variant's median web download [s]."""
    web = result.transfers.filter(pl.col("variant") == variant, pl.col("workload") == "web", ~pl.col("warmup"))
    return statistics.fmean(
        web.filter(seed=seed)["ttlb_s"].drop_nulls().quantile(0.5, "linear") or 0 for seed in (1, 2)
    )


def test_each_setting_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    from penstock.paper import table
    from penstock.report import write

    out = tmp_path / "out"
    outcome = runner.run(str(sensitive(tmp_path)), scale=0.5, seeds=2, out=out)
    assert {name: run.manifest["runs"][0]["sim_seconds"] for name, run in outcome.results.items()} == {
        "quickstart": 40.0, "quickstart-same": 40.0, "quickstart-slow": 40.0, "quickstart-open": 40.0,
    }  # fmt: skip
    times = {
        name: {variant: web_time(run, variant) for variant in run.variants} for name, run in outcome.results.items()
    }
    assert times["quickstart-same"] == times["quickstart"]
    assert times["quickstart-slow"]["stock"] > times["quickstart"]["stock"]
    assert outcome.sensitive is not None
    assert times["quickstart-open"]["stock"] == times["quickstart"]["stock"], "a replay of the variant itself"
    asked = outcome.results["quickstart-open"].transfers.filter(seed=1)
    starts = [asked.filter(variant=variant)["start_s"].sort().to_list() for variant in ("stock", "50KiB")]
    assert starts[0] == starts[1], "both variants have the same requests"
    for name, (_, compared) in zip(list(outcome.results)[1:], outcome.sensitive.settings, strict=True):
        stock, small = (row.cells[0] for row in compared.rows)
        assert stock.mean == pytest.approx(times[name]["stock"])
        assert small.mean == pytest.approx(times[name]["50KiB"])
        assert small.change == pytest.approx(small.mean / stock.mean - 1, abs=0.02)  # geometric and arithmetic means
    (claim,) = (each for each in outcome.checked if each.claim.id == "slow")
    assert claim.measured > 0.1
    assert len(outcome.shown) == 1
    page = write(outcome.shown, out / "report.html", outcome).read_text(encoding="utf-8")
    assert "Sensitivity to the network" in page
    assert "a long round trip" in table.markdown(outcome)
    runner.write(outcome)
    cells = pl.read_csv(out / runner.SENSITIVITY)
    assert cells.select("setting", "variant").rows() == [
        (setting, variant) for setting in ("same", "slow", "open") for variant in ("stock", "50KiB")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('columns = ["web"]', 'columns = ["speed"]', "sensitivity.columns has 'speed'; it must be one of web, queue"),
        ('name = "slow", title', 'name = "same", title', "settings has 'same' twice"),
        ('variants = ["50KiB"]\ncolumns', 'variants = ["50KiB", "50KiB"]\ncolumns', "variants has '50KiB' twice"),
        ('variants = ["50KiB"]\ncolumns', 'variants = ["stock"]\ncolumns', "has the baseline 'stock'; leave it out"),
        (
            'variants = ["50KiB"]\ncolumns',
            'variants = ["5KiB"]\ncolumns',
            "sensitivity.variants has '5KiB'; the variants",
        ),
        ("network.rtt=", "network.delay=", "set of the setting 'slow'"),
        ('replay = "same"', 'replay = "fast"', "replay is 'fast' in the setting 'open'; it must be an earlier setting"),
        ('replay = "same"', 'replay = "slow"', "with the same set"),
        ('title = "an open loop", replay', 'title = "o", without = ["stock"], replay', "without has 'stock'"),
        (
            'scenario = "quickstart"\nvariants = ["50KiB"]\nc',
            'scenario = "quick"\nvariants = ["50KiB"]\nc',
            "quick.toml",
        ),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_a_mistake_in_the_sensitivity_is_one_sentence(
    tmp_path: Path, old: str, new: str, message: str, scale: float
) -> None:
    with pytest.raises(PenstockError) as error:
        runner.run(str(sensitive(tmp_path, old, new)), seeds=1, scale=scale, out=tmp_path / "out")
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_setting_is_no_scenario(tmp_path: Path) -> None:
    folder = sensitive(tmp_path)
    (folder / "quickstart-slow.toml").write_bytes((folder / "quickstart.toml").read_bytes())
    with pytest.raises(PenstockError, match="the directory quickstart-slow, which is a scenario"):
        load(str(folder))


def test_a_claim_runs_only_its_variants_in_a_setting(tmp_path: Path) -> None:
    folder = sensitive(tmp_path)
    text = (folder / "claims.toml").read_text(encoding="utf-8")
    (folder / "claims.toml").write_text(text.replace('id = "slow"', 'id = "slow"\nsection = "2"'), encoding="utf-8")
    outcome = runner.run(str(folder), figure="1", scale=0.1, seeds=1, out=tmp_path / "out")
    assert set(outcome.results) == {"quickstart", "quickstart-slow", "quickstart-same"}
    assert set(outcome.results["quickstart-slow"].variants) == {"stock"}
    assert outcome.sensitive is not None
    assert outcome.sensitive.labels == {"stock": outcome.results["quickstart-slow"].variants["stock"]}
    runner.write(outcome)


def test_a_finished_replay_is_no_closed_loop(tmp_path: Path) -> None:
    folder, out = sensitive(tmp_path), tmp_path / "out"
    runner.run(str(folder), scenario="quickstart", scale=0.1, seeds=1, out=out)
    runner.run(str(folder), scenario="quickstart", scale=0.1, seeds=1, out=out)  # reads the finished directories
    moved = out.rename(tmp_path / "moved")
    runner.run(str(folder), scenario="quickstart", scale=0.1, seeds=1, out=moved)
    sensitive(tmp_path, ', replay = "same"', "")
    with pytest.raises(PenstockError, match="quickstart-open is a finished output with another replay or without one"):
        runner.run(str(folder), scenario="quickstart", scale=0.1, seeds=1, out=moved)


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_the_settings_of_the_capstone_fit_its_scenario(scale: float) -> None:
    claims = load("capstone")
    planned = plan.plan(claims, [], figure=None, scenario="sensitivity", scale=scale)
    assert [each.name for each in planned] == list(claims.settings)
    for each in planned:
        name, document = catalog.load(each.scenario, each.sets)
        assert each.variants <= {variant for variant, _ in document.variants()}, name
