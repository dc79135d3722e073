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

import numpy as np
import polars as pl
from matplotlib import rc_context

from penstock.attacks import measurement, study
from penstock.attacks.information import Floats
from penstock.figures import style
from penstock.result import Result

PAPER = Path(__file__).parents[1] / "docs" / "data" / "throttling" / "probe.csv"
MINUTE_S = 60.0
KIB = 1024.0


def by_minute(output: Path, minutes: int) -> Floats:
    """The rate at which the probe of a run receives in each minute [B/s]."""
    result = Result(output)
    [run] = measurement.runs(result, study.document_of(result), backlogs=False)
    [rates] = measurement.received(run, run.names("probe"), np.arange(minutes + 1) * MINUTE_S).values()
    return rates


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the output of throttling/probe")
    parser.add_argument("png", type=Path)
    asked = parser.parse_args()
    paper = pl.read_csv(PAPER)
    ours = by_minute(asked.output, paper.height)
    with rc_context(style.RC):
        figure, [[axes]] = style.grid_of(1, 1, 6.0, 2.6)
        axes.plot(paper["minute"], paper["received_b_s"] / KIB, "--", color="tab:gray", label="the paper")
        axes.plot(paper["minute"], ours / KIB, color=style.COLOURS[0], label="throttling/probe, static")
        axes.set(xlabel="time [min]", ylabel="throughput [KiB/s]", ylim=(0, None))
        axes.legend(frameon=False)
        figure.savefig(asked.png, dpi=150)


if __name__ == "__main__":
    main()
