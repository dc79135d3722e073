"""How KIST's median first byte follows vanilla's, for docs/validation/kist.md.

    python benches/kist_congestion.py run FILE OUTPUT MODEL    append a row for each network of a finished output
    python benches/kist_congestion.py table FILE [--markdown PAGE]

OUTPUT is that of `penstock paper kist --scenario authors-exits`, and MODEL names its model of Shadow's interface. A
line through the logarithms of both medians gives KIST's median where vanilla has the paper's. The change against
vanilla itself would correlate with vanilla even if KIST's median were constant, so the line does not use it.

The line was drawn after the results of all models were known, so it tests nothing.
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
    """A median where vanilla has the paper's, with its 95 % intervals: of the mean, and of one network."""

    slope: float
    """The change of the logarithm for each unit of vanilla's."""
    median: float
    """[s]."""
    of_mean: tuple[float, float]
    """[s]."""
    of_network: tuple[float, float]
    """[s]."""


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
    """The median that a line through the logarithms of all networks' medians gives at the paper's vanilla."""
    x, y = (np.log([row[name] for row in rows]) for name in ("vanilla", variant))
    line, at, n = stats.linregress(x, y), np.log(PAPER["vanilla"]), len(rows)
    variance = np.sum((y - line.intercept - line.slope * x) ** 2) / (n - 2)
    of_mean = variance * (1 / n + (at - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2))
    middle, t = line.intercept + line.slope * at, stats.t.ppf(0.975, n - 2)
    low, high, lowest, highest = (
        float(np.exp(middle + sign * t * np.sqrt(each))) for each in (of_mean, of_mean + variance) for sign in (-1, 1)
    )
    return Fit(float(line.slope), float(np.exp(middle)), (low, high), (lowest, highest))


def table(rows: list[Row]) -> str:
    """The networks by vanilla's median, and the medians at the paper's."""
    head = ["model", "network", "median first byte: vanilla", "KIST", "global"]
    others = ("kist", "global")
    lines = [
        [row["model"], str(row["network"]), f"{row['vanilla']:.2f} s", *(_shown(row, name) for name in others)]
        for row in sorted(rows, key=lambda row: row["vanilla"])
    ]
    fits = [fit(rows, name) for name in others]
    lines.append(
        [
            "**line through all**",
            "",
            f"{PAPER['vanilla']} s",
            *(
                f"{each.median:.2f} s ({each.of_mean[0]:.2f} to {each.of_mean[1]:.2f}); one network "
                f"{each.of_network[0]:.2f} to {each.of_network[1]:.2f}; slope {each.slope:.2f}"
                for each in fits
            ),
        ]
    )
    lines.append(["paper", "", f"{PAPER['vanilla']} s", *(_shown(PAPER, name) for name in others)])
    return generated.table(head, lines)


def _shown(row: Row, variant: str) -> str:
    """A median and its change against vanilla."""
    return f"{row[variant]:.2f} s ({100 * change(row, variant):+.0f} %)"


def main() -> None:
    """Add the networks of an output, or print the table."""
    parser, run = grids.parser(__doc__)
    run.add_argument("output", type=Path)
    run.add_argument("model")
    asked = parser.parse_args()
    if asked.command == "run":
        present = [(row["model"], row["network"]) for row in grids.read(asked.file)]
        new = (row for row in rows_of(asked.output, asked.model) if (row["model"], row["network"]) not in present)
        grids.append(asked.file, new, lambda row: row)
    else:
        grids.show(table(grids.read(asked.file)), asked.markdown, BLOCK)


if __name__ == "__main__":
    main()
