"""How KIST's gain follows the congestion of a network, for docs/validation/kist.md.

    python benches/kist_congestion.py run FILE OUTPUT MODEL    append a row for each network of a finished output
    python benches/kist_congestion.py table FILE [--markdown PAGE]

OUTPUT is that of `penstock paper kist --scenario authors-exits`, and MODEL names its model of Shadow's interface. The
measure of congestion is vanilla's median time to first byte. A line through all networks, with the logarithm of this
median, predicts KIST's change at the paper's median.
"""

from pathlib import Path
from typing import NamedTuple

import grids
import numpy as np
import polars as pl
from grids import Row
from scipy import stats

from penstock import generated
from penstock.paper.measures import sample
from penstock.paper.totals import EVERY
from penstock.result import Result

BLOCK = "benches/kist_congestion.py table"
VARIANTS = ("vanilla", "global", "kist")
PAPER = {"vanilla": 0.838, "global": 0.854, "kist": 0.686}
"""The medians of the paper's figure 7a [s]."""


class Fit(NamedTuple):
    """A change at the paper's congestion, with its 95 % intervals: of the mean, and of one network."""

    change: float
    of_mean: float
    """Half of the interval."""
    of_network: float
    """Half of the interval."""
    correlation: float


def rows_of(output: Path, model: str) -> list[Row]:
    """The medians of all schedulers in each network of an output [s]."""
    result = Result(output)
    medians = {
        variant: sample(result, "ttfb_s", variant, EVERY, "").group_by("network").agg(pl.col("value").median())
        for variant in VARIANTS
    }
    found = {variant: dict(table.iter_rows()) for variant, table in medians.items()}
    return [
        {"model": model, "network": network, **{variant: found[variant][network] for variant in VARIANTS}}
        for network in sorted(found["vanilla"])
    ]


def change(row: Row, variant: str) -> float:
    """The change of the median time to first byte against vanilla."""
    return float(row[variant] / row["vanilla"] - 1)


def fit(rows: list[Row], variant: str) -> Fit:
    """The change against vanilla that a line through all networks predicts at the paper's congestion."""
    x, y = np.log([row["vanilla"] for row in rows]), np.array([change(row, variant) for row in rows])
    line, at, n = stats.linregress(x, y), np.log(PAPER["vanilla"]), len(rows)
    variance = np.sum((y - line.intercept - line.slope * x) ** 2) / (n - 2)
    of_mean = variance * (1 / n + (at - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2))
    t = stats.t.ppf(0.975, n - 2)
    half_of_mean, half_of_network = t * np.sqrt([of_mean, of_mean + variance])
    at_paper = float(line.intercept + line.slope * at)
    return Fit(at_paper, float(half_of_mean), float(half_of_network), float(line.rvalue))


def table(rows: list[Row]) -> str:
    """The networks by vanilla's median, and the changes at the paper's median."""
    head = ["model", "network", "vanilla, median first byte", "KIST against vanilla", "global against vanilla"]
    lines = [
        [
            row["model"],
            str(row["network"]),
            f"{row['vanilla']:.2f} s",
            *(f"{100 * change(row, variant):+.0f} %" for variant in ("kist", "global")),
        ]
        for row in sorted(rows, key=lambda row: row["vanilla"])
    ]
    fits = [fit(rows, variant) for variant in ("kist", "global")]
    means = [
        f"{100 * each.change:+.0f} % ({100 * (each.change - each.of_mean):.0f} to "
        f"{100 * (each.change + each.of_mean):.0f}); one network "
        f"{100 * (each.change - each.of_network):.0f} to {100 * (each.change + each.of_network):.0f}; "
        f"correlation {each.correlation:.2f}"
        for each in fits
    ]
    lines.append(["**line through all**", "", f"{PAPER['vanilla']} s", *means])
    lines.append(
        ["paper", "", f"{PAPER['vanilla']} s", *(f"{100 * change(PAPER, v):+.0f} %" for v in ("kist", "global"))]
    )
    return generated.table(head, lines)


def main() -> None:
    """Add the networks of an output, or print the table."""
    parser, run = grids.parser(__doc__)
    run.add_argument("output", type=Path)
    run.add_argument("model")
    asked = parser.parse_args()
    if asked.command == "run":
        grids.append(asked.file, rows_of(asked.output, asked.model), lambda row: row)
    else:
        grids.show(table(grids.read(asked.file)), asked.markdown, BLOCK)


if __name__ == "__main__":
    main()
