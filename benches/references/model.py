"""Writes the model's rows: Penstock's own TCP in the experiments of the references.

    .venv/bin/python benches/references/model.py linux-6                # to docs/data/tcp/model-linux-6.jsonl
    .venv/bin/python benches/references/model.py ns3 --experiments window --out /tmp/rows.jsonl

The scenario is `kist/tcp-loss`, a client that downloads without Tor, with the conditions of each row. As in the
references, packets wait and are dropped in one queue in front of the link: the server's link is fast, and the client's
link has the rate and the queue. Rows count IP packets and the model counts Ethernet frames, so the rate and the queue
are multiplied by 1514/1500, which is exact for full packets. In the references, the sender connects and sends. Here,
the client connects and requests, so a download takes half a round trip longer. Goodput is the difference of the bytes
of a run of 65 s and of a run of 5 s. Rows that exist in the file are skipped, so an interrupted command can continue.
Delete the file after a change of the model.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
from rows import (
    EXPERIMENTS,
    FILE,
    PACKET,
    SAMPLE_S,
    SECONDS,
    WARMUP_S,
    Run,
    append,
    grid,
    only_ns3,
    read,
    refuse,
    run_of,
)

import penstock

SCENARIO, VARIANT = "kist/tcp-loss", "loss-0"
SERVER_LINK = "1 GiB/s"
"""Fast enough that no packet waits in the server's interface."""
ENDLESS = "4 GiB"
"""A file too large to finish in a goodput run."""
GIVE_UP = "6 h"
FRAME = PACKET + 14
"""A full packet on the model's links [B]."""
BUFFER = "6 MiB"
"""Buffers of profile ns3, which has no auto-tuning: as in `ns3.py`, which also keeps the default in `buffers`."""


def rows(profile: str, runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """A row for each run; repeats of one condition must be adjacent."""
    for condition, together in groupby(runs, lambda run: replace(run, repeat=0)):
        repeats = [run.repeat for run in together]
        yield from measure(profile, condition, repeats)


def measure(profile: str, condition: Run, repeats: list[int]) -> Iterator[dict[str, Any]]:
    """The rows of one condition."""

    def row(repeat: int, warmup: float, seconds: float, size: int, finished: float | None) -> dict[str, Any]:
        return replace(condition, repeat=repeat).row(
            f"model {profile} {condition.congestion}",
            warmup_s=warmup,
            seconds=seconds,
            bytes=size,
            goodput_bytes_per_s=round(size / seconds, 1) if seconds else None,
            retransmits=None,
            seconds_to_finish=finished,
        )

    if condition.experiment == "goodput":
        before, after = (received(profile, condition, repeats, end) for end in (WARMUP_S, WARMUP_S + SECONDS))
        yield from (row(repeat, WARMUP_S, SECONDS, after[repeat] - before[repeat], None) for repeat in repeats)
        return
    sets = [f"workloads.file.size={FILE} B", f"run.duration={GIVE_UP}"]
    if condition.experiment == "window":
        sets += ['trace.workloads=["file"]', f"trace.interval={SAMPLE_S * 1e3:g} ms"]
    with simulate(profile, condition, repeats, sets) as result:
        for repeat in repeats:
            # The run can stop after the start of a second download.
            download = result.transfers.filter(seed=repeat).sort("start_s").row(0, named=True)
            seconds = download["ttlb_s"]
            of_repeat = row(repeat, 0.0, seconds, download["bytes_received"], seconds)
            if condition.experiment == "window":
                traced = result.circuits.filter(pl.col("t_s") <= (seconds or float("inf")), seed=repeat)
                of_repeat["samples"] = samples(traced)
            yield of_repeat


def received(profile: str, condition: Run, repeats: list[int], end_s: float) -> dict[int, int]:
    """The bytes that the client of each repeat has received at the end of the run [B]."""
    sets = [f"workloads.file.size={ENDLESS}", f"run.duration={end_s:g} s"]
    with simulate(profile, condition, repeats, sets) as result:
        totals = result.transfers.group_by("seed").agg(pl.col("bytes_received").sum())
        return dict(totals.iter_rows())


def samples(circuits: pl.DataFrame) -> list[list[float | None]]:
    """The server's socket over time: [t, window, threshold, smoothed round trip]."""
    known = circuits.filter((pl.col("hop") == "server") & pl.col("cwnd_segments").is_not_null()).sort("t_s")
    columns = known.select(pl.col("t_s").round(2), "cwnd_segments", "ssthresh_segments", pl.col("srtt_s").round(4))
    return [list(row) for row in columns.iter_rows()]


@contextmanager
def simulate(profile: str, condition: Run, repeats: list[int], sets: list[str]) -> Iterator[penstock.Result]:
    """The result of a condition in a temporary directory; the seeds are the repeats."""
    stop = "none" if condition.experiment == "goodput" else '{ workload = "file", downloads = 1 }'
    large = profile == "ns3" and condition.experiment != "buffers"
    buffers = [f"tcp.send_buffer={BUFFER}", f"tcp.receive_buffer={BUFFER}"] if large else []
    base = [
        *buffers,
        f"tcp.profile={profile}",
        f"tcp.congestion={condition.congestion}",
        f"network.rtt={condition.rtt_s * 1e3:g} ms",
        f"network.loss={condition.loss}",
        f"network.link_queue={condition.queue_bytes * FRAME // PACKET} B",
        f"servers.server.link={SERVER_LINK}",
        f"clients.client.link={condition.rate_bytes_per_s * FRAME // PACKET} B/s",
        f"run.stop={stop}",
        "trace.workloads=[]",
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-references-") as folder:
        out = Path(folder) / "run"
        first, count = repeats[0], len(repeats)
        yield penstock.run(SCENARIO, variants=[VARIANT], sets=[*base, *sets], seed=first, runs=count, out=out)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="the model's TCP in the experiments of the references")
    parser.add_argument("profile", help="tcp.profile, such as linux-6")
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: docs/data/tcp/model-<profile>.jsonl")
    arguments = parser.parse_args()
    out = arguments.out or Path(f"docs/data/tcp/model-{arguments.profile}.jsonl")
    done = {run_of(row) for row in read(out)}
    runs = [*grid(), *(only_ns3() if arguments.profile == "ns3" else ())]
    todo = [run for run in runs if run.experiment in arguments.experiments and run not in done]
    try:
        append(rows(arguments.profile, todo), out)
    except penstock.PenstockError as error:
        refuse(f"model: {error}")


if __name__ == "__main__":
    main()
