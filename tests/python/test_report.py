"""Summaries, figures and the page, on made-up numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from penstock import figures, report
from penstock.result import Result


def test_the_summary_leaves_out_the_warmup_and_counts_what_did_not_finish(made_up: Path) -> None:
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


def test_figures_are_the_same_bytes_again(make_up: Callable[..., Path]) -> None:
    first, second = (figures.draw(Result(make_up(name, seeds=2))) for name in ("a", "b"))
    assert [picture.name for picture in first] == ["downloads", "circuit-queue", "queue-delay", "stations"]
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


def test_the_page_opens_alone(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=2)
    page = report.write([Result(directory)], directory / "report.html").read_text()
    links = Links()
    links.feed(page)
    assert len(links.found) == 4
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links.found)
    assert not re.search(r"@import|url\(|https?://", page)


def test_the_page_says_what_was_run_how_sure_it_is_and_how_to_repeat_it(
    make_up: Callable[..., Path],
) -> None:
    page = " ".join(report.render([Result(make_up())]).split())
    assert "Two clients behind a slow middle relay" in page
    assert "defenestrator, section 5.1, figures 2, 5, 6" in page
    assert "5 pairs cannot bring it below 1/32" in page
    assert "penstock run defenestrator/bottleneck --variant stock --variant small --seed 1 --runs 5" in page
    assert "0123456789abcdef" in page
    assert "not finished:" not in page


def test_the_page_says_when_there_is_one_seed_or_an_end_is_missing(make_up: Callable[..., Path]) -> None:
    page = report.render([Result(make_up(seeds=1, finished=False))])
    assert "no interval is possible" in page
    assert "These runs are not finished" in page


def test_a_title_is_text_and_not_markup(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    manifest = directory / "manifest.json"
    manifest.write_text(manifest.read_text().replace("Two clients", "<script>alert(1)</script>"))
    assert "<script>" not in report.render([Result(directory)])
