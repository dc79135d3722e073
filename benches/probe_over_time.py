"""Draws figure 4a of throttling beside ours, for docs/validation/throttling.md.

    penstock run throttling/probe --variant static --set 'run.seeds=[1]' --set 'run.duration="63 min"' \
        --set 'trace.clients="60 s"' --set 'workloads.probe.size="5 MiB"' --set 'workloads.probe.pause="3 min"' \
        --set 'workloads.probe.start="3 min"' --out probe
    python benches/probe_over_time.py probe docs/images/throttling-paper-4a.png

docs/data/throttling/probe.csv has the figure's 63 points, read from the vector graphics of the paper's public PDF. The
paper does not describe the probe's downloads. Their size and pauses are read from the figure.
"""

import argparse
from pathlib import Path

import polars as pl
from matplotlib import rc_context

from penstock.figures import style
from penstock.result import Result

PAPER = Path(__file__).parents[1] / "docs" / "data" / "throttling" / "probe.csv"
MINUTE_S = 60.0
KIB = 1024.0


def by_minute(result: Result) -> pl.DataFrame:
    """The bytes that the probe receives in each minute: columns `minute` and `received_b_s`."""
    probe = result.clients.filter(pl.col("client").str.starts_with("probe"))
    # A row has the end of its interval.
    minute = ((pl.col("t_s") / MINUTE_S).round() - 1).cast(pl.Int64)
    sums = probe.group_by(minute=minute).agg(received_b_s=pl.col("received_bytes").sum() / MINUTE_S)
    every = pl.DataFrame({"minute": range(int(probe["t_s"].max() // MINUTE_S) + 1)})  # type: ignore[operator, arg-type]
    return every.join(sums, on="minute", how="left").fill_null(0.0).sort("minute")


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the output of throttling/probe")
    parser.add_argument("png", type=Path)
    asked = parser.parse_args()
    with rc_context(style.RC):
        figure, [[axes]] = style.grid_of(1, 1, 6.0, 2.6)
        for label, rows, look in (
            ("the paper", pl.read_csv(PAPER), {"color": "tab:gray", "linestyle": "--"}),
            ("throttling/probe, static", by_minute(Result(asked.output)), {"color": style.COLOURS[0]}),
        ):
            axes.plot(rows["minute"], rows["received_b_s"] / KIB, label=label, **look)
        axes.set(xlabel="time [min]", ylabel="throughput [KiB/s]", ylim=(0, None))
        axes.legend(frameon=False)
        figure.savefig(asked.png, dpi=150)


if __name__ == "__main__":
    main()
