"""`penstock compare`: its inputs, its results and its errors."""

import json
import lzma
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measured
import numpy as np
import polars as pl
import pytest
import synthetic
from conftest import Command, sentence
from scipy import stats as scipy_stats

from penstock import stats
from penstock.compare import Source, compare, find, read, sides
from penstock.compare.page import draw
from penstock.compare.show import remarks
from penstock.compare.source import Tried, frame, size_name
from penstock.errors import PenstockError
from penstock.result import Result

MiB = 1 << 20


def put(path: Path, document: Any) -> str:
    """Write a document, compressed if its name ends in .xz."""
    data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return str(path)


def whole(source: Source, size: int) -> pl.DataFrame:
    return source.downloads.filter(bytes=size, outcome="ok")


@pytest.mark.parametrize(
    ("name", "document", "kind"),
    [
        ("onionperf.analysis.json", measured.old(), "OnionPerf"),
        ("2016-03-01.onionperf.analysis.json.xz", measured.old(), "OnionPerf"),
        ("client.log", measured.log(), "tgen"),
        ("client.log.xz", measured.log(before=True), "tgen"),
    ],
    ids=["version 1", "compressed", "tgen 1.x", "tgen before"],
)
def test_every_measurement_of_others_becomes_a_row(tmp_path: Path, name: str, document: Any, kind: str) -> None:
    source = read(put(tmp_path / name, document))
    assert source.kind == kind
    assert source.clocks == ["start", "request"]
    for size in measured.SIZES:
        rows = whole(source, size)
        expected = [measured.times(size, i) for i in range(10)]
        assert rows.select("ttfb_s", "ttlb_s").rows() == [pytest.approx(each) for each in expected]
        since = [tuple(time - measured.COMMAND_S for time in each) for each in expected]
        assert rows.select("ttfb_request_s", "ttlb_request_s").rows() == [pytest.approx(each) for each in since]
    outcomes = source.downloads.filter(pl.col("outcome") != "ok").select("bytes", "outcome").rows()
    assert outcomes[0] == (51_200, "timeout")
    assert outcomes[1][1] == "failed"


def test_missing_sizes_use_the_first_bytes_of_larger_downloads(tmp_path: Path) -> None:
    source = read(put(tmp_path / "a.onionperf.analysis.json", measured.new()))
    assert set(whole(source, 51_200)["part"]) == {True}
    # Deciles and other sizes are left alone: 50 KiB and 1 MiB are Tor's own.
    assert sorted(source.downloads["bytes"].unique()) == list(measured.SIZES)
    first, last = measured.times(51_200, 3)
    assert whole(source, 51_200).row(3, named=True)["ttfb_s"] == pytest.approx(first)
    assert whole(source, 51_200).row(3, named=True)["ttlb_s"] == pytest.approx(last)
    assert "50 KiB and 1 MiB are the first bytes of larger downloads" in source.notes
    assert "1 downloads from onion services are left out" in source.notes
    # A part is no attempt of its own.
    assert sides._tried(source, pl.col("bytes") == 5 * MiB) == Tried(1, 11)
    assert sides._tried(source, pl.col("bytes") == 51_200) is None
    both = read(put(tmp_path / "b.json", measured.onionperf("2.0", {"transfers": {
        "1": {**measured.transfer(5 * MiB, 0), "elapsed_seconds": {
            "command": 0.4, "first_byte": 0.7, "last_byte": 11.0, "payload_bytes": {"51200": 0.9, "1048576": 3.0}}},
        "2": measured.transfer(51_200, 1),
    }})))  # fmt: skip
    assert whole(both, 51_200)["part"].to_list() == [False]
    assert whole(both, MiB)["ttlb_s"].to_list() == [3.0]
    assert whole(both, MiB)["ttlb_request_s"].to_list() == pytest.approx([2.6])


def test_a_summary_has_times_from_the_request_of_the_clients_that_measure(tmp_path: Path) -> None:
    source = read(put(tmp_path / "tgen.analysis.json.xz", measured.summary()))
    assert source.clocks == ["request"]
    assert whole(source, 51_200).height == 30
    assert whole(source, 51_200).filter(pl.col("ttlb_request_s") > 98).is_empty()
    assert source.tried == Tried(3, 93)


@pytest.mark.parametrize("ending", [".exit", ""])
def test_plot_data_of_several_simulations_are_networks(tmp_path: Path, ending: str) -> None:
    for i in range(3):
        measured.plot_data(tmp_path / f"tornet-{i}" / "tornet.plot.data", ending=ending, scale=1 + 0.1 * i)
    source = read(str(tmp_path))
    assert source.replicates.networks == ("tornet-0", "tornet-1", "tornet-2")
    assert source.replicates_name == "networks"
    assert source.tried == Tried(3, 240)
    assert whole(source, 5 * MiB).height == 39
    one = tmp_path / "tornet-1"
    for path in (one, one / "tornet.plot.data", one / "tornet.plot.data" / f"time_to_last_byte_recv{ending}.json"):
        alone = read(str(path))
        assert alone.replicates.size == 1
        assert alone.downloads["ttlb_request_s"].to_list() == pytest.approx(
            source.downloads.filter(network="tornet-1")["ttlb_request_s"].to_list()
        )


def test_metrics_have_no_first_bytes_and_a_rate_of_all_sizes(tmp_path: Path) -> None:
    source = read(put(tmp_path / "tor_metrics_2020-11-01--2020-11-30.json", measured.metrics()))
    assert source.tried == Tried(3, 100)
    assert source.downloads["ttfb_request_s"].count() == 0
    other = read(put(tmp_path / "onionperf.analysis.json", measured.old()))
    rows = compare(source, other).rows
    assert {row.metric for row in rows} == {"ttlb_s"}
    # What one source wrote into its summary is what the other one measured.
    assert all(abs(row.difference_s) < 1e-9 for row in rows)
    assert [each.a for each in compare(source, other).failures] == [None, None, None, Tried(3, 100)]
    assert [each.b for each in compare(source, other).failures] == [
        Tried(1, 11),
        Tried(0, 10),
        Tried(1, 11),
        Tried(2, 32),
    ]


def test_a_directory_is_read_by_the_best_that_it_holds(tmp_path: Path) -> None:
    put(tmp_path / "hosts" / "perfclient1" / "perfclient1.tgen.1000.stdout", measured.log())
    put(tmp_path / "hosts" / "perfclient2" / "tgen.log.xz", measured.log())
    logs = read(str(tmp_path))
    assert (logs.kind, logs.replicates.size, whole(logs, 51_200).height) == ("tgen", 1, 20)
    put(tmp_path / "tgen.analysis.json.xz", measured.summary())
    assert read(str(tmp_path)).clocks == ["request"]
    measured.plot_data(tmp_path / "tornet.plot.data")
    assert read(str(tmp_path)).tried == Tried(1, 80)
    for day in range(4):
        put(tmp_path / f"2021-01-0{day}.op.onionperf.analysis.json.xz", measured.new())
    several = read(str(tmp_path))
    assert (several.kind, several.replicates.size, several.replicates_name) == ("OnionPerf", 4, "files")


def test_the_beginning_is_left_out_on_request(tmp_path: Path) -> None:
    path = put(tmp_path / "onionperf.analysis.json", measured.new(10))
    # One begins each minute.
    assert whole(read(path, skip=120.0), 5 * MiB)["at_s"].min() == 1_600_000_120.0
    assert whole(read(path, skip=120.0), 5 * MiB).height == 8
    with pytest.raises(PenstockError, match="choose a smaller --skip"):
        read(path, skip=1e6)


def test_the_beginning_is_that_of_each_file(tmp_path: Path) -> None:
    for day in range(3):
        document = measured.new(10)
        for stream in document["data"]["op-xy"]["tgen"]["streams"].values():
            stream["unix_ts_start"] += 86_400 * day
        put(tmp_path / f"{day}.onionperf.analysis.json", document)
    rows = whole(read(str(tmp_path), skip=120.0), 5 * MiB)
    assert rows.group_by("network").agg(pl.len(), pl.col("at_s").min() % 86_400).sort("network").rows() == [
        (f"{day}.onionperf.analysis.json", 8, (1_600_000_120.0) % 86_400) for day in range(3)
    ]


def test_a_server_and_an_upload_are_no_downloads(tmp_path: Path) -> None:
    server = measured.stream_line(51_200, 1).replace("recvsize=51200", "recvsize=0")
    server = server.replace("payload-bytes-recv=51200", "payload-bytes-recv=0")
    upload = measured.transfer_line(51_200, 1).replace("payload-bytes-read", "payload-bytes-write")
    cut = measured.stream_line(51_200, 2).partition(",recvsize")[0]
    source = read(put(tmp_path / "a.log", "\n".join([server, upload, measured.stream_line(51_200, 0), cut])))
    assert whole(source, 51_200).height == 1
    assert source.downloads.height == 1
    assert source.notes == ("1 downloads without a size are left out",)


# Ours


def test_two_variants_are_paired_by_shared_seeds(make_up: Callable[..., Path]) -> None:
    directory = make_up(networks=3, seeds=2, traced=False)
    a, b = (read(f"{directory}:{variant}") for variant in ("stock", "small"))
    comparison = compare(a, b)
    assert comparison.clock == "start"
    assert comparison.common is not None
    assert comparison.common.name(3) == "networks"
    differences = Result(directory).differences()
    for workload, metric in (("web", "ttfb_s"), ("bulk", "ttlb_s")):
        [row] = [
            row for row in comparison.rows if (row.downloads, row.metric, row.quantile) == (workload, metric, "P50")
        ]
        reference = differences.row(
            by_predicate=(pl.col("workload") == workload) & (pl.col("metric") == metric), named=True
        )
        assert (row.pairs, row.decided) == (3, reference["decided"])
        assert (row.difference_s, row.low_s, row.high_s) == pytest.approx(
            (reference["mean_s"], reference["low_s"], reference["high_s"])
        )
        assert row.b_s - row.a_s == pytest.approx(row.difference_s)
        assert row.ks_distance == pytest.approx(reference["ks_distance"])


def rewrite(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    change(manifest)
    (directory / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def two(make_up: Callable[..., Path], tmp_path: Path) -> Callable[..., sides.Comparison]:
    """Compares one variant in two outputs, of which the other has a scenario of its own."""
    first = make_up(traced=False)

    def comparing(changed: str, **other: Any) -> sides.Comparison:
        second = synthetic.write(tmp_path / "other", traced=False, **other)

        def change(manifest: dict[str, Any], fingerprint: str, text: str) -> None:
            manifest["scenario"]["fingerprint"] = fingerprint
            for variant in manifest["scenario"]["variants"]:
                variant["resolved"] = text

        rewrite(first, lambda manifest: change(manifest, "1", SETTING))
        rewrite(second, lambda manifest: change(manifest, "2", changed))
        return compare(read(f"{first}:stock"), read(f"{second}:small"))

    return comparing


SETTING = """
[network]
rtt = "80 ms"
[relay]
scheduler = { kind = "vanilla" }
link = "10 MiB/s"
[relays.middle]
link = "128 KiB/s"
[client]
path = ["weighted"]
[clients.cpu]
count = 2
workload = ["web"]
[workloads.web]
size = "300 KiB"
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vanilla", "kist"),
        ("[relays.middle]\n", '[relays.middle]\nedge_control = { kind = "vegas" }\n'),
        ("[network]", '[run]\nduration = "1 h"\n[tcp]\nmss = "1400 B"\n[network]\nconsensus_n23 = false'),
    ],
)
def test_outputs_that_differ_only_in_software_are_paired(
    two: Callable[..., sides.Comparison], old: str, new: str
) -> None:
    comparison = two(SETTING.replace(old, new))
    assert comparison.common is not None
    assert {(row.interval, row.pairs) for row in comparison.rows} == {("paired", 5)}


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("80 ms", "40 ms", "network.rtt"),
        ("128 KiB/s", "256 KiB/s", "relays.middle.link"),
        ("[relays.middle]", "[relays.centre]", "relays.middle"),
        ("count = 2", "count = 3", "clients.cpu.count"),
        ("count = 2\n", "", "clients.cpu.count"),
        ("[clients.cpu]", "[clients.more]\n[clients.cpu]", "clients.more"),
        ("300 KiB", "320 KiB", "workloads.web.size"),
        ("weighted", "tor", "client.path"),
    ],
)
def test_other_clients_or_another_network_are_no_pair(
    two: Callable[..., sides.Comparison], old: str, new: str, key: str
) -> None:
    comparison = two(SETTING.replace(old, new))
    assert comparison.common is None
    assert comparison.apart == f"they differ in {key}"
    assert {(row.interval, row.pairs) for row in comparison.rows} == {("welch", 0)}
    said = " ".join(remarks(comparison))
    assert f"A and B are not paired, because they differ in {key}. " in said
    assert "bootstrap" not in said


def test_an_unpaired_interval_is_welchs_over_units(two: Callable[..., sides.Comparison]) -> None:
    comparison = two(SETTING.replace("80 ms", "40 ms"), seeds=3)
    [row] = [row for row in comparison.rows if (row.downloads, row.metric, row.quantile) == ("web", "ttfb_s", "P50")]
    a, b = (
        source.downloads.filter(workload="web", outcome="ok").group_by("seed").agg(pl.col("ttfb_s").median())["ttfb_s"]
        for source in comparison.sources
    )
    assert (a.len(), b.len()) == (5, 3)
    # By hand: variances of the means, and Welch's degrees of freedom.
    of_a, of_b = (float(each.var()) / each.len() for each in (a, b))  # type: ignore[arg-type]
    freedom = (of_a + of_b) ** 2 / (of_a**2 / 4 + of_b**2 / 2)
    half = scipy_stats.t.ppf(0.975, freedom) * math.sqrt(of_a + of_b)
    difference = float(b.mean()) - float(a.mean())  # type: ignore[arg-type]
    assert (row.difference_s, row.low_s, row.high_s) == pytest.approx(
        (difference, difference - half, difference + half)
    )
    assert row.decided
    assert "B: 3 seeds show only large differences" in " ".join(remarks(comparison))


def test_outputs_without_a_common_run_or_with_one_unit_say_so(two: Callable[..., sides.Comparison]) -> None:
    comparison = two(SETTING, networks=2, seeds=1)
    assert comparison.apart == "they have no network and seed in common"
    assert {row.interval for row in comparison.rows} == {"welch"}
    assert "2 networks in B" in " ".join(remarks(comparison))


def test_one_unit_has_no_interval(two: Callable[..., sides.Comparison]) -> None:
    comparison = two(SETTING.replace("80 ms", "40 ms"), seeds=1)
    assert all(math.isnan(row.low_s) and not row.decided for row in comparison.rows)
    said = " ".join(remarks(comparison))
    assert "The differences have no intervals: " in said
    assert "Welch" not in said
    assert "B: One seed gives no interval" in said


def test_from_the_request_is_from_when_the_circuit_was_connected(make_up: Callable[..., Path]) -> None:
    directory = make_up(traced=False)
    source = read(f"{directory}:stock")
    both = source.downloads.filter(outcome="ok")
    assert (both["ttlb_s"] - both["ttlb_request_s"]).to_list() == pytest.approx([0.4] * both.height)
    rewrite(directory, lambda manifest: manifest["scenario"]["variants"][0].update(optimistic=True))
    assert read(f"{directory}:stock").clocks == ["start"]
    assert read(f"{directory}:small").clocks == ["start", "request"]


def test_ours_and_theirs_are_put_together_by_size_and_not_paired(make_up: Callable[..., Path], tmp_path: Path) -> None:
    theirs = read(put(tmp_path / "onionperf.analysis.json", measured.old()))
    ours = read(f"{make_up(traced=False)}:stock")
    comparison = compare(ours, theirs)
    assert [kind.name for kind in comparison.kinds] == ["5 MiB"]
    assert comparison.left_out == ("50 KiB", "300 KiB", "1 MiB")
    assert {(row.interval, row.pairs) for row in comparison.rows} == {("bootstrap", 0)}
    assert not any(row.decided for row in comparison.rows)
    assert [(each.a, each.b) for each in comparison.failures] == [(Tried(0, 35), Tried(1, 11))] * 2
    picture = draw(comparison)
    assert "The band of A is the 95 % t interval over 5 seeds" in picture.caption
    assert "B has no band; a band needs at least 3 files." in picture.caption
    rows = comparison.downloads()
    assert rows.columns == ["source", "network", "seed", "workload", "bytes", "part", "ttfb_s", "ttlb_s", "outcome"]
    assert rows["source"].value_counts(sort=True).rows() == [("A", 340), ("B", 32)]


def test_downloads_of_one_size_by_two_workloads_are_not_mixed(make_up: Callable[..., Path], tmp_path: Path) -> None:
    directory = make_up(traced=False)
    path = directory / "transfers.parquet"
    pl.read_parquet(path).with_columns(bytes=pl.lit(5 * MiB, pl.Int64)).write_parquet(path)
    theirs = read(put(tmp_path / "onionperf.analysis.json", measured.old()))
    with pytest.raises(PenstockError, match=r"bulk and web download 5 MiB; .* --workload web$"):
        compare(read(f"{directory}:stock"), theirs)
    chosen = compare(read(f"{directory}:stock", workloads=["bulk"]), theirs)
    assert chosen.rows[0].a_count == 35


# Statistics


def test_the_bootstrap_of_a_quantile_is_that_of_drawing_anew() -> None:
    sample = np.random.default_rng(5).gamma(3, size=57)
    generator = np.random.default_rng(0)
    for q in sides.QUANTILES.values():
        short = sides._quantiles_anew(sample, q, generator)
        k = max(1, math.ceil(q * sample.size))
        drawn = np.sort(generator.choice(sample, size=(10_000, sample.size)), axis=1)[:, k - 1]
        assert stats.ks_distance(short, drawn) < 0.03
        # A distance this small is what two samples of one distribution have.
        assert scipy_stats.ks_2samp(short, drawn).pvalue > 1e-4


def test_a_bootstrap_interval_covers_the_difference_of_the_true_distributions() -> None:
    rng = np.random.default_rng(6)
    held = []
    for _ in range(200):
        a, b = rng.exponential(1.0, 120), rng.exponential(2.0, 120)
        _, _, difference, low, high, interval, pairs = sides._bootstrapped(a, b, 0.5)
        assert low <= difference <= high
        assert (interval, pairs) == ("bootstrap", 0)
        held.append(low <= math.log(2) <= high)
    assert 0.9 < np.mean(held) < 0.99


def test_sizes_have_names() -> None:
    names = {51_200: "50 KiB", MiB: "1 MiB", 5 * MiB: "5 MiB", 327_680: "320 KiB", 1500: "1500 B"}
    assert {size: size_name(size) for size in names} == names


# The command


def test_the_command_ends_in_a_table_a_figure_and_a_page(
    penstock: Command, make_up: Callable[..., Path], tmp_path: Path
) -> None:
    theirs = put(tmp_path / "onionperf.analysis.json.xz", measured.old())
    done = penstock("compare", f"{make_up(traced=False)}:stock", theirs, "--out", "it", "--clock", "request")
    assert done.status == 0, done
    for words in ("5 MiB", "P10", "P99", "B - A", "95 % interval", "K-S",
                  "Runs are not paired. The intervals are a bootstrap",
                  "1 of 11 (9.1 %)", "Times from the request", "report: it/report.html"):  # fmt: skip
        assert words in done.out, words
    out = penstock.directory / "it"
    assert sorted(path.name for path in out.iterdir()) == [
        "downloads.parquet", "figures", "quantiles.csv", "quantiles.parquet", "report.html",
    ]  # fmt: skip
    assert (out / "figures" / "downloads.png").is_file()
    page = (out / "report.html").read_text()
    assert f"{theirs} --clock request" in page
    assert '<svg role="img"' in page
    assert "src=" not in page
    table = pl.read_csv(out / "quantiles.csv")
    assert table.height == 2 * len(sides.QUANTILES)
    assert "it exists; choose another --out" in sentence(
        penstock("compare", f"{penstock.directory / 'out'}:stock", theirs, "--out", "it")
    )


def test_the_same_comparison_is_the_same_bytes(penstock: Command, tmp_path: Path) -> None:
    a = put(tmp_path / "a.onionperf.analysis.json", measured.old())
    b = put(tmp_path / "b.log", measured.log())
    for out in ("one", "two"):
        assert penstock("compare", a, b, "--out", out).status == 0
    one, two = penstock.directory / "one", penstock.directory / "two"
    for path in one.rglob("*.*"):
        assert path.read_bytes() == (two / path.relative_to(one)).read_bytes(), path


def test_without_a_report_nothing_is_written(penstock: Command, tmp_path: Path) -> None:
    a = put(tmp_path / "a.json", measured.old())
    before = sorted(penstock.directory.rglob("*"))
    assert penstock("compare", a, a, "--no-report").status == 0
    assert sorted(penstock.directory.rglob("*")) == before
    assert "tables: cmp" in penstock("compare", a, a, "--no-report", "--out", "cmp").out
    written = sorted(path.name for path in (penstock.directory / "cmp").iterdir())
    assert written == ["downloads.parquet", "quantiles.csv", "quantiles.parquet"]


# Mistakes


def wrong() -> list[tuple[str, str, Any]]:
    """The error for each damaged document."""
    text = json.dumps(measured.old())
    analysis = "onionperf.analysis.json"
    return [
        (analysis, "is not JSON", text[: len(text) // 2]),
        (analysis, "the document is [1]; it should be a valid dictionary", "[1]"),
        (analysis, "has no download", ""),
        (analysis, "has no download", "\x00\x01"),
        (analysis, "neither the key data nor download_times", {}),
        (analysis, "is not JSON", "[" * 100_000),
        (analysis, "data is 5; it should be a valid dictionary", {"data": 5}),
        (analysis, "version is '9.0'; it must be 1 to 5", measured.onionperf("9.0", {})),
        (analysis, "type is 'shadow'; it must be one of 'onionperf', 'tgen'", {"type": "shadow", "data": {}}),
        (analysis, "has no complete download", measured.onionperf(1.0, {"transfers": {}})),
        (analysis, "data.op-xy.tgen.transfers is []; it should be", measured.onionperf(1.0, {"transfers": []})),
        (analysis, "data.op-xy.tgen.streams.1 is 'x'; it should be", measured.onionperf(3, {"streams": {"1": "x"}})),
        (analysis, "1 from onion services do not count", measured.onionperf(
            "3.0", {"streams": {"1": measured.stream(5, 1, remote="x.onion:1")}})),
        ("tor_metrics_1--2.json", "51200.0 is 'soon'; it must be", {"download_times": {"51200": ["soon"]}}),
        ("tor_metrics_1--2.json", "download_times.big is 'big'; it must be a size in bytes", {"download_times": {"big": [1.0]}}),  # noqa: E501
        ("tor_metrics_1--2.json", "must have requests, and of them", {
            "download_times": {}, "daily_counts": {"1": {"requests": 1, "failures": 2}}}),
        ("client.log", "has no download", "2000-01-01 00:00:01 946684801.0 [message] hello\n"),
        ("client.log", "has no complete download", measured.stream_line(51_200, 1, error="READ")),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "said", "document"), wrong())
def test_a_wrong_document_is_refused(tmp_path: Path, name: str, said: str, document: Any) -> None:
    path = put(tmp_path / name, document)
    with pytest.raises(PenstockError) as refused:
        read(path)
    assert str(refused.value).startswith(path)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("file", "document", "said"),
    [
        ("time_to_last_byte_recv.exit.json", "{", "is not JSON"),
        ("time_to_last_byte_recv.exit.json", '{"51200": 4}', "51200 is 4; it should be a valid list"),
        ("time_to_first_byte_recv.exit.json", '{"51200": [-4]}', "51200.0 is -4; it must be a number of seconds"),
        ("error_rate.exit.json", '{"ALL": [[5, 0]]}', "must be a list of pairs"),
        ("error_rate.exit.json", "[]", "the document is []; it should be a valid dictionary"),
    ],
)
def test_wrong_plot_data_is_refused(tmp_path: Path, file: str, document: str, said: str) -> None:
    folder = measured.plot_data(tmp_path / "tornet.plot.data")
    (folder / file).write_text(document)
    with pytest.raises(PenstockError) as refused:
        read(str(tmp_path))
    assert str(refused.value).startswith(str(folder / file))
    assert said in str(refused.value)


def test_an_invalid_request_is_refused(make_up: Callable[..., Path], tmp_path: Path) -> None:
    ours = make_up(traced=False)
    theirs = put(tmp_path / "onionperf.analysis.json", measured.old())
    (tmp_path / "empty").mkdir()
    cases: list[tuple[str, dict[str, Any], str]] = [
        (str(ours), {}, f"{ours} has the variants stock, small; name one, such as {ours}:stock"),
        (f"{ours}:large", {}, "has no variant 'large'; it has stock, small"),
        (f"{theirs}:stock", {}, "is not an output of penstock; only outputs of penstock have variants like 'stock'"),
        (f"{ours}:stock", {"workloads": ["bluk"]}, "has no downloads of a workload 'bluk'; it has web, bulk"),
        (str(tmp_path / "nowhere"), {}, "nowhere does not exist"),
        (str(tmp_path / "empty"), {}, "empty has nothing to compare; supported are an output of penstock"),
    ]
    for spec, asked, said in cases:
        with pytest.raises(PenstockError, match=re.escape(said)):
            read(spec, **asked)
    request = read(put(tmp_path / "tgen.analysis.json", measured.summary()))
    with pytest.raises(
        PenstockError, match=r"tgen\.analysis\.json has times from the request; .*both need it for --clock start"
    ):
        compare(request, read(theirs), "start")
    with pytest.raises(
        PenstockError, match=r"the two sources have no download size in common: .* has 300 KiB; .* has 50 KiB, 1 MiB"
    ):
        compare(read(f"{ours}:stock", workloads=["web"]), read(theirs))


def test_mistakes_of_the_command_are_one_sentence(penstock: Command) -> None:
    theirs = put(penstock.directory / "onionperf.analysis.json", measured.old())
    packed = penstock.directory / "cut.json.xz"
    packed.write_bytes(lzma.compress(json.dumps(measured.old()).encode())[:-40])
    cut = sentence(penstock("compare", theirs, packed))
    assert "cut.json.xz: the xz compression is damaged or incomplete" in cut
    assert "--skip" in sentence(penstock("compare", theirs, theirs, "--skip", "-1"))
    assert "noon" in sentence(penstock("compare", theirs, theirs, "--clock", "noon"))
    assert not (penstock.directory / "runs").exists()


def test_a_damaged_output_of_penstock_is_refused(make_up: Callable[..., Path]) -> None:
    directory = make_up(traced=False)
    path = directory / "transfers.parquet"
    table = pl.read_parquet(path)
    table.drop("connect_s").write_parquet(path)
    with pytest.raises(PenstockError, match="is damaged: its manifest or a table has wrong contents"):
        read(f"{directory}:stock")
    path.write_bytes(b"PAR1")
    with pytest.raises(PenstockError, match="is damaged"):
        read(f"{directory}:stock")
    (directory / "manifest.json").write_text("{}")
    with pytest.raises(PenstockError, match=r"manifest\.json: version is missing"):
        read(f"{directory}:stock")


def test_a_path_may_have_a_colon(tmp_path: Path) -> None:
    path = put(tmp_path / "12:30" / "a:b.json", measured.old())
    assert find._path(path) == (Path(path), "")


def test_a_source_without_times_in_common_has_nothing_to_compare() -> None:
    empty = Source("x", Path("x"), "tgen", frame([]))
    with pytest.raises(PenstockError, match="x has no times"):
        compare(empty, empty)
