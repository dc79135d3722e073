"""`penstock export onionperf`: its files, and the same downloads in `penstock compare`."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Command, sentence

from penstock.compare import Source, read
from penstock.result import Result

SCENARIO = """
[scenario]
title = "Clients with and without Tor"
[run]
seeds = [3, 4]
duration = "60 s"
warmup = "5 s"
[network]
rtt = "80 ms"
[client]
optimistic_data = false
[relays.entry]
link = "1 MiB/s"
[relays.middle]
bandwidth_rate = "128 KiB/s"
[relays.exit]
[servers.site]
[workloads.web]
size = "100 KiB"
pause = "uniform(1 s, 2 s)"
[workloads.bulk]
size = "mix(3: 60 KiB, 1: 1 MiB)"
pause = "0 s"
timeout = "9 s"
[clients.web]
workload = "web"
path = ["entry", "middle", "exit"]
[clients.a_b]
workload = "bulk"
path = ["entry", "middle", "exit"]
[clients.A-b]
workload = "bulk"
path = ["entry", "middle", "exit"]
[clients.perfclient1]
workload = "web"
path = []
[[variants]]
name = "far"
set = { "network.rtt" = "200 ms" }
[[variants]]
name = "near"
"""

COLUMNS = ["bytes", "outcome", "ttfb_s", "ttlb_s", "ttfb_request_s", "ttlb_request_s"]


@pytest.fixture
def ours(penstock: Command) -> Path:
    """An output with downloads that are complete, too slow, cut off and, by hand, broken."""
    (penstock.directory / "both.toml").write_text(SCENARIO)
    done = penstock("run", "both.toml", "--out", "ours", "--no-report")
    assert done.status == 0, done.err
    table = penstock.directory / "ours/transfers.parquet"
    broken = (pl.col("workload") == "web") & (pl.col("stream").is_in([8, 9]))
    rows = pl.read_parquet(table).with_columns(
        outcome=pl.when(broken).then(pl.lit("failed")).otherwise("outcome"),
        bytes_received=pl.when(broken).then(pl.lit(0)).otherwise("bytes_received"),
        connect_s=pl.when(broken & (pl.col("stream") == 8)).then(None).otherwise("connect_s"),
        ttfb_s=pl.when(broken).then(None).otherwise("ttfb_s"),
        ttlb_s=pl.when(broken).then(None).otherwise("ttlb_s"),
    )
    rows.write_parquet(table)
    return penstock.directory / "ours"


@pytest.fixture
def exported(penstock: Command, ours: Path) -> Path:
    done = penstock("export", "onionperf", ours, "--out", "theirs")
    assert done.status == 0, done.err
    assert [line.split()[-1] for line in done.out.splitlines()] == ["theirs/far", "theirs/near"]
    return penstock.directory / "theirs"


def measured(path: Path) -> dict[str, dict[str, Any]]:
    """The streams of each source in an analysis."""
    return {source: node["tgen"]["streams"] for source, node in json.loads(path.read_text())["data"].items()}


def ended(source: Source) -> pl.DataFrame:
    return source.downloads.filter(pl.col("outcome") != "unfinished").sort("network", "seed", *COLUMNS)


def test_compare_reads_the_same_downloads_from_the_analyses(ours: Path, exported: Path) -> None:
    for variant in ("far", "near"):
        theirs, original = ended(read(str(exported / variant))), ended(read(f"{ours}:{variant}"))
        assert {*original["outcome"]} == {"ok", "timeout", "failed"}
        assert theirs.select(COLUMNS).equals(original.select(COLUMNS))
        files = [f"{seed}.onionperf.analysis.json" for seed in original["seed"]]
        assert theirs["network"].to_list() == files


def test_a_comparison_with_the_analyses_shows_no_difference(penstock: Command, exported: Path) -> None:
    done = penstock("compare", exported / "far", "ours:far", "--no-report")
    assert done.status == 0, done.err
    medians = [line for line in done.out.splitlines() if "P50" in line]
    assert len(medians) == 4
    assert all("+0.00 s" in line for line in medians)
    assert [line.split()[-1] for line in done.out.splitlines() if "P10" in line] == ["0.00"] * 4
    [rates] = [re.findall(r"(\d+) of (\d+) \(", line) for line in done.out.splitlines() if line.startswith(" all ")]
    assert len(rates) == 2
    assert rates[0] == rates[1]
    assert int(rates[0][0]) > 0


def test_each_download_has_its_steps_and_nothing_else(ours: Path, exported: Path) -> None:
    document = json.loads((exported / "far/4.onionperf.analysis.json").read_text())
    assert (document["type"], document["version"]) == ("onionperf", "3.1")
    assert [*document["data"]] == ["a-b", "a-b-2", "perfclient1", "web"]
    rows = (
        Result(ours)
        .transfers.filter(variant="far", seed=4, client="web", warmup=False)
        .filter(pl.col("outcome") != "unfinished")
    )
    streams = [*measured(exported / "far/4.onionperf.analysis.json")["web"].values()]
    assert len(streams) == rows.height
    for row, stream in zip(rows.iter_rows(named=True), streams, strict=True):
        assert stream["unix_ts_start"] == row["start_s"]
        assert stream["stream_info"]["name"] == "web"
        assert stream["stream_info"]["recvsize"] == "102400"
        assert stream["stream_info"]["vertexid"] == "web"
        assert stream["byte_info"]["payload-bytes-recv"] == str(row["bytes_received"])
        known = {step: float(us) / 1e6 for step, us in stream["time_info"].items() if us != "-1" and "usecs" in step}
        steps = {"proxy-response": "connect_s", "command": "connect_s"}
        steps |= {"first-byte-recv": "ttfb_s", "last-byte-recv": "ttlb_s"}
        expected = {f"usecs-to-{step}": row[column] for step, column in steps.items() if row[column] is not None}
        assert known == pytest.approx(expected, abs=1e-9)
        assert stream["unix_ts_end"] == pytest.approx(row["start_s"] + max([0.0, *expected.values()]))
        assert "elapsed_seconds" not in stream
        ok = row["outcome"] == "ok"
        assert (stream["is_success"], stream["is_error"]) == (ok, not ok)
        assert stream["stream_info"]["error"] == ("NONE" if ok else "FAILED")
    assert {stream["transport_info"]["state"] for stream in streams} == {"SUCCESS_OPEN", "unknown"}
    assert {node["measurement_ip"] for node in document["data"].values()} == {"unknown"}
    assert all(node["tor"] == {"circuits": {}, "streams": {}} for node in document["data"].values())


def test_a_client_without_tor_connects_to_the_server(exported: Path) -> None:
    streams = measured(exported / "near/3.onionperf.analysis.json")["perfclient1"].values()
    times = [stream["time_info"] for stream in streams]
    assert times
    assert {each["usecs-to-proxy-response"] for each in times} == {"-1"}
    assert all(each["usecs-to-socket-connect"] == each["usecs-to-command"] != "-1" for each in times)


def test_identifiers_are_unique_in_all_files(exported: Path) -> None:
    found = [
        identifier
        for path in exported.rglob("*.onionperf.analysis.json")
        for streams in measured(path).values()
        for identifier in streams
    ]
    assert len(found) > 100
    assert len({*found}) == len(found)


def test_runs_in_several_networks_have_a_file_each(penstock: Command) -> None:
    text = SCENARIO.replace("[run]", "[run]\nnetworks = [1, 2]").replace("seeds = [3, 4]", "seeds = [7]")
    (penstock.directory / "both.toml").write_text(text)
    assert penstock("run", "both.toml", "--variant", "far", "--out", "ours", "--no-report").status == 0
    assert penstock("export", "onionperf", "ours", "--out", "theirs").status == 0
    names = sorted(path.name for path in (penstock.directory / "theirs/far").iterdir())
    assert names == ["1-7.onionperf.analysis.json", "2-7.onionperf.analysis.json"]


def test_an_invalid_export_is_refused(penstock: Command) -> None:
    text = SCENARIO.replace("optimistic_data = false", "optimistic_data = true")
    (penstock.directory / "both.toml").write_text(text)
    assert penstock("run", "both.toml", "--variant", "far", "--out", "ours", "--no-report").status == 0
    assert "far has optimistic data" in sentence(penstock("export", "onionperf", "ours", "--out", "theirs"))
    assert not (penstock.directory / "theirs").exists()
    assert "ours exists; choose another --out" in sentence(penstock("export", "onionperf", "ours", "--out", "ours"))
    assert "it has no manifest.json" in sentence(penstock("export", "onionperf", ".", "--out", "theirs"))
