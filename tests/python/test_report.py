"""Summaries, figures and the page, on made-up numbers."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from penstock import figures, report, stats, tables
from penstock.figures import downloads, style
from penstock.output import TABLES
from penstock.result import Result


def test_the_summary_excludes_the_warmup_and_counts_unfinished_downloads(made_up: Path) -> None:
    summary = Result(made_up).summary()
    assert summary.select("variant", "workload").rows() == [
        ("stock", "web"), ("stock", "bulk"), ("small", "web"), ("small", "bulk"),
    ]  # fmt: skip
    assert summary["downloads"].to_list() == [59 * 5, 7 * 5] * 2
    assert summary["unfinished"].to_list() == [5] * 4
    transfers = Result(made_up).transfers.filter(variant="stock", workload="web", outcome="ok", warmup=False)
    assert summary["ttfb_median_s"][0] == pytest.approx(transfers["ttfb_s"].median())
    assert summary["ttlb_p90_s"][0] == pytest.approx(transfers["ttlb_s"].quantile(0.9, "linear"))


def test_differences_are_paired_by_seed(made_up: Path) -> None:
    result = Result(made_up)
    row = result.differences().row(
        by_predicate=(pl.col("workload") == "web") & (pl.col("metric") == "ttfb_s"), named=True
    )
    downloads = result.transfers.filter(workload="web", outcome="ok", warmup=False)
    medians = downloads.group_by("variant", "seed").agg(pl.col("ttfb_s").median()).pivot("variant", values="ttfb_s")
    assert row["mean_s"] == pytest.approx((medians["small"] - medians["stock"]).mean())
    assert (row["pairs"], row["smaller"], row["larger"]) == (5, 5, 0)
    assert row["decided"]
    assert row["sign_test"] == pytest.approx(1 / 32)
    p90 = pl.col("ttfb_s").quantile(0.9, "linear")
    tails = downloads.group_by("variant", "seed").agg(p90).sort("seed").pivot("variant", values="ttfb_s")
    reference = stats.paired(tails["stock"].to_numpy(), tails["small"].to_numpy())
    usual = float(tails["stock"].to_numpy().mean())
    found = (row["p90_mean_s"], row["p90_low_s"], row["p90_high_s"], row["baseline_p90_s"])
    assert found == pytest.approx((reference.mean, reference.low, reference.high, usual))
    assert row["p90_relative"] == pytest.approx(reference.mean / usual)
    assert row["p90_decided"] == reference.decided


def test_a_slower_tail_with_the_same_median_is_shown(
    make_up: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_up(traced=False)
    path = directory / "transfers.parquet"
    rows = pl.read_parquet(path)
    web = rows.filter(variant="stock", workload="web")
    tail = pl.col("ttfb_s") > pl.col("ttfb_s").quantile(0.8).over("seed")
    slower = web.with_columns(
        pl.lit("small").alias("variant"), pl.when(tail).then(9.0).otherwise("ttfb_s").alias("ttfb_s")
    )
    pl.concat([rows.filter(variant="stock"), slower]).write_parquet(path)
    tables.show(Result(directory), "", Console(width=80))
    [median] = re.findall(r"TTFB p50 .*", printed := capsys.readouterr().out)
    [p90] = re.findall(r"TTFB p90 .*", printed)
    assert "+0.00 s" in median
    assert "+0 %" in median
    assert re.search(r"\+[1-9]\.\d\d s +\+[1-9]\.\d\d to \+[1-9]\.\d\d s", p90)
    table = printed.partition("Difference to")[2].partition(" Runs with")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_figures_are_the_same_bytes_again(make_up: Callable[..., Path]) -> None:
    first, second = (figures.draw(Result(make_up(name, seeds=2))) for name in ("a", "b"))
    assert [picture.name for picture in first] == [
        "downloads",
        "circuit-queue",
        "queue-delay",
        "stations",
        "waits",
        "life-cycle",
    ]
    for one, other in zip(first, second, strict=True):
        assert one.svg.read_bytes() == other.svg.read_bytes()
        assert one.png.read_bytes() == other.png.read_bytes()
        assert b"dc:date" not in one.svg.read_bytes()


def test_only_figures_with_data_are_drawn(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    for table in ("circuits", "cells"):
        path = directory / f"{table}.parquet"
        pl.read_parquet(path).clear().write_parquet(path)
    assert [picture.name for picture in figures.draw(Result(directory))] == ["downloads"]
    transfers = directory / "transfers.parquet"
    pl.read_parquet(transfers).clear().write_parquet(transfers)
    assert figures.draw(Result(directory)) == []


class Links(HTMLParser):
    """Whatever a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "object"), tag
        self.found += [value or "" for name, value in attributes if name in ("src", "href", "srcset", "poster", "data")]


def test_the_page_needs_no_other_files(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=2)
    page = report.write([Result(directory)], directory / "report.html").read_text()
    links = Links()
    links.feed(page)
    assert links.found
    assert all(link.startswith("#") for link in links.found)
    assert not re.search(r"@import|url\((?!#)|https?://", page)


def test_the_page_has_contents_landmarks_and_figures_with_text(make_up: Callable[..., Path]) -> None:
    results = [Result(make_up(name, seeds=2)) for name in ("a", "b")]
    page = report.render(results)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)
    assert [page.count(f"<{mark}") for mark in ("nav ", "main>", "svg ")] == [1, 1, 12]
    assert re.search(r"Median of web: time to first byte: stock \d\.\d\d s, 50 KiB window \d\.\d\d s\.", page)
    assert re.search(r"<text [^>]*>fraction of downloads</text>", page)


def test_identical_and_missing_curves_are_named(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=2)
    path = directory / "transfers.parquet"
    rows = pl.read_parquet(path)
    web = rows.filter(variant="stock", workload="web")
    same = web.with_columns(variant=pl.lit("small"))
    bulk = rows.filter(variant="stock", workload="bulk")
    pl.concat([web, same, bulk]).write_parquet(path)
    caption = figures.draw(Result(directory))[0].caption
    assert "In (a), (b), the curves of stock and 50 KiB window are identical." in caption
    assert "In (c), (d), there is no value of 50 KiB window." in caption


def test_ordered_variants_have_a_sequential_palette_and_many_variants_have_markers() -> None:
    ordered = style.curve_styles({"off": "off", "a": "half-life 10 s", "b": "half-life 1.5 s", "c": "half-life 66 s"})
    assert ordered["off"].colour == style.COLOURS[1]
    bright = [sum(int(ordered[name].colour[i : i + 2], 16) for i in (1, 3, 5)) for name in ("b", "a", "c")]
    assert bright == sorted(bright)
    many = style.curve_styles({f"v{i}": f"variant {'abcdefghijklmnop'[i]}" for i in range(16)})
    assert [style.marker for style in many.values()] == [""] * 7 + ["o"] * 7 + ["s"] * 2
    assert len({style[1:] for style in many.values()}) == 16


def test_the_page_has_the_runs_their_uncertainty_and_how_to_repeat_them(
    make_up: Callable[..., Path],
) -> None:
    page = " ".join(report.render([Result(make_up())]).split())
    assert "Two clients behind a slow middle relay" in page
    assert "defenestrator, section 5.1, figures 2, 6" in page
    assert "With 5 pairs, its smallest possible p is 1/32" in page
    assert "penstock run defenestrator/bottleneck --variant stock --variant small --seed 1 --runs 5" in page
    assert "0123456789abcdef" in page
    assert "not finished:" not in page


def test_the_page_warns_of_one_seed_or_a_missing_end(make_up: Callable[..., Path]) -> None:
    page = report.render([Result(make_up(seeds=1, finished=False))])
    assert "gives no interval" in page
    assert "runs are finished. The command at the end" in page


def test_a_title_is_text_and_not_markup(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    manifest = directory / "manifest.json"
    manifest.write_text(manifest.read_text().replace("Two clients", "<script>alert(1)</script>"))
    assert "<script>" not in report.render([Result(directory)])


def rename(directory: Path, names: dict[str, str]) -> Path:
    """Call variants something else."""
    for table in TABLES:
        path = directory / f"{table}.parquet"
        pl.read_parquet(path).with_columns(pl.col("variant").replace(names)).write_parquet(path)
    manifest = json.loads((directory / "manifest.json").read_text())
    for each in manifest["scenario"]["variants"]:
        each["name"] = names.get(each["name"], each["name"])
    for run in manifest["runs"]:
        run["variant"] = names[run["variant"]]
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def test_variants_may_be_named_like_columns(make_up: Callable[..., Path], made_up: Path) -> None:
    result = Result(rename(make_up(), {"stock": "seed", "small": "network"}))
    of = Result(made_up).differences().drop("baseline", "variant")
    assert result.differences().drop("baseline", "variant").equals(of)
    assert result.differences()["variant"].unique().to_list() == ["network"]
    assert "50 KiB window" in report.render([result])


def relabel(directory: Path, **labels: str) -> Path:
    """Give variants other labels, and the scenario the title `title`."""
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["scenario"]["title"] = labels.pop("title")
    for each in manifest["scenario"]["variants"]:
        each["label"] = labels.get(each["name"], each["label"])
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def test_nothing_of_the_user_is_markup_in_a_terminal(
    make_up: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"title": "[bold]a[/]b[/c] :smile:", "stock": "[red]x[/blue]", "small": "[/]y"}
    tables.show(Result(relabel(make_up(seeds=2), **labels)), "runs/[/d]", tables.console())
    shown = capsys.readouterr().out
    for text in (*labels.values(), "runs/[/d]", "Difference to [red]x[/blue]"):
        assert text in shown


def test_labels_are_drawn_as_they_are(make_up: Callable[..., Path], recwarn: pytest.WarningsRecorder) -> None:
    plain = figures.draw(Result(make_up("plain", seeds=1)))
    odd = relabel(make_up("odd", seeds=1), title="t", stock=r"$\nothing{", small="_\u4e2d\u6587 $5")
    drawn = figures.draw(Result(odd))
    assert [picture.name for picture in drawn] == [picture.name for picture in plain]
    assert not recwarn.list


def test_a_legend_names_every_variant() -> None:
    figure, ((axes,),) = style.grid_of(1, 1, 3, 3)
    labels = ["_hidden", "$5", ""]
    style.legend_above(figure, [axes.plot([1, 2])[0] for _ in labels], labels)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == labels


def test_the_remark_counts_the_pairs_of_the_rows(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=5)
    transfers = directory / "transfers.parquet"
    missing = (pl.col("variant") == "small") & (pl.col("workload") == "bulk") & (pl.col("seed") > 3)
    pl.read_parquet(transfers).filter(~missing).write_parquet(transfers)
    result = Result(directory)
    pairs = result.differences()["pairs"].to_list()
    assert pairs == [5, 5, 3, 3]
    assert "means over 3 to 5 seeds" in tables.pairs_remark(result.replicates, pairs)
    assert "is the mean over 3 to 5 seeds, with" in " ".join(report.render([result]).split())


def test_a_curve_of_many_steps_keeps_its_high_ones() -> None:
    # Half of all values are one and the same, between many others.
    y = np.concatenate([np.linspace(0, 0.25, 5000), np.linspace(0.75, 1, 5000)])
    drawn = downloads._thinned(y)
    assert {4999, 5000} <= set(drawn.tolist())
    assert len(drawn) < 2 * downloads.MAX_STEPS
    assert drawn.tolist() == sorted(set(drawn.tolist()))
