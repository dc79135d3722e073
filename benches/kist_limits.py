"""Compares KIST's limits on all sockets together behind a slow link, for docs/validation/kist.md.

    python benches/kist_limits.py [--markdown PAGE]

Two clients download over separate sockets of the middle relay of `kist/socket-sharing`, variant `link-kist`. Intervals
are those of a mean over five seeds.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import grids
import polars as pl

from penstock import generated, runs, stats
from penstock.replicates import RUN
from penstock.result import Result

BLOCK = "benches/kist_limits.py"
LINK = 5e6 / 8
"""The rate of the middle relay's link [B/s]."""
BEGIN_S = 15.0
"""The first second that counts: a relay that measures its link needs some seconds [s]."""

# With the scenario's round trip of 110 ms, the better client's windows would limit it.
OPTIONS = [
    'network.rtt="80 ms"',
    "relay.priority_factor=10",
    'run.duration="60 s"',
    'run.warmup="15 s"',
    'tcp.profile="linux-6"',
    "trace.cells=10",
    'trace.clients="1 s"',
]
LIMITS = {
    "`rate`, 550 kB/s": '{ kind = "kist", global_limit = "rate", rate = "550 kB/s" }',
    "`measured`": '{ kind = "kist", global_limit = "measured" }',
    "`drained`, the default": '{ kind = "kist" }',
    "`off`": '{ kind = "kist", global_limit = "off" }',
}

Column = Callable[[Result], pl.DataFrame]
"""A column of the table: one number for each run."""


def of_relay(value: pl.Expr) -> Column:
    """A value of the middle relay's intervals."""

    def column(result: Result) -> pl.DataFrame:
        there = result.relays.filter(pl.col("relay") == "middle", pl.col("t_s") > BEGIN_S)
        return there.group_by(RUN).agg(value=value)

    return column


def kernel_wait(result: Result) -> pl.DataFrame:
    """The mean wait of a cell in the kernel of the middle relay [ms]."""
    there = result.cells.filter(pl.col("hop") == "middle", pl.col("read_ns") > BEGIN_S * 1e9)
    return there.group_by(RUN).agg(value=1e3 * pl.col("kernel_out_s").mean())


def priority(result: Result) -> pl.DataFrame:
    """The bytes of the better client for each byte of the worse one [1]."""
    size = pl.col("received_bytes")
    better, worse = (size.filter(client=name).sum() for name in ("better", "worse"))
    return result.clients.filter(pl.col("t_s") > BEGIN_S).group_by(RUN).agg(value=better / worse)


SENT = pl.col("written_bytes").sum() / (LINK * (pl.col("t_s").max() - BEGIN_S))
COLUMNS: dict[str, tuple[Column, str]] = {
    "written bytes, part of the link's rate": (of_relay(100 * SENT), "{:.0f} %"),
    "wait of a cell in the kernel": (kernel_wait, "{:.0f} ms"),
    "bytes in send buffers": (of_relay(pl.col("kernel_out_bytes").mean() / 1024), "{:.0f} KiB"),
    "bytes of the better client for each byte of the worse one": (priority, "{:.1f}"),
}


def cell(values: pl.DataFrame, form: str) -> str:
    """A mean with its interval."""
    mean, low, high = stats.mean_interval(values["value"].to_list())
    least, most = (form.format(each).split(" ")[0] for each in (low, high))
    return f"{form.format(mean)} ({least} to {most})"


def row(limit: str) -> list[str]:
    """The numbers of one limit."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [*OPTIONS, f"relays.middle.scheduler={limit}"]
        result = runs.run("kist/socket-sharing", variants=["link-kist"], sets=sets, out=Path(folder) / "run")
        return [cell(column(result), form) for column, form in COLUMNS.values()]


def main() -> None:
    """Run the four limits, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    asked = parser.parse_args()
    head = ["`global_limit` of the middle relay", *COLUMNS]
    grids.show(generated.table(head, [[name, *row(limit)] for name, limit in LIMITS.items()]), asked.markdown, BLOCK)


if __name__ == "__main__":
    main()
