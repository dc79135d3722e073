"""How often a test of one run finds EWMA's effect on bulk first bytes, for docs/validation/defenestrator.md.

    penstock paper defenestrator --scenario fitted-ewma --runs 40 --out runs/fitted-ewma
    python benches/one_run.py runs/fitted-ewma/* [--markdown PAGE]

The paper compares curves of one run, and a run has 20 to 35 bulk downloads. Each row compares a variant with the same
one and EWMA. The change is that of the claims: the mean over runs of the change of a run's median. The last three
columns have the share of runs in which a Kolmogorov-Smirnov test finds a difference at 5 %: between both variants,
between two runs of the variant without EWMA, and between these two if one of them has first bytes 10 % longer.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import generated, stats
from penstock.paper.measures import sample
from penstock.replicates import RUN
from penstock.result import Result

BLOCK = "benches/one_run.py"
SUFFIX = "-ewma"
LONGER = 1.1
HEAD = [
    *("scenario", "variant", "runs", "bulk downloads of a run", "first byte with EWMA"),
    *("runs that differ: with EWMA", "two runs without", "the same, 10 % longer"),
]

Times = NDArray[np.float64]


def first_bytes(result: Result, variant: str) -> pl.DataFrame:
    """The first bytes [s] of bulk downloads: a row with a list for each run."""
    return sample(result, "ttfb_s", variant, "bulk", "").group_by(RUN).agg("value").sort(RUN)


def differing(pairs: Sequence[tuple[Times, Times]]) -> str:
    """The share of pairs of samples that differ at 5 %."""
    differ = [stats.ks_distance(a, b) > stats.ks_limit(len(a), len(b)) for a, b in pairs]
    return f"{100 * sum(differ) / len(differ):.0f} %"


def row(result: Result, variant: str) -> list[str]:
    """The cells of a variant that also exists with EWMA."""
    runs = first_bytes(result, variant).join(first_bytes(result, variant + SUFFIX), on=RUN, suffix=SUFFIX)
    without, with_ewma = ([times.to_numpy() for times in runs[name]] for name in ("value", f"value{SUFFIX}"))
    pairs = list(zip(without, with_ewma, strict=True))
    twice = list(zip(without, without[1:] + without[:1], strict=True))
    change, low, high = stats.mean_interval([100 * (np.median(b) / np.median(a) - 1) for a, b in pairs])
    return [
        f"`{result.scenario['name']}`",
        result.variants[variant],
        str(len(pairs)),
        f"{sum(map(len, without + with_ewma)) / (2 * len(pairs)):.0f}",
        f"{change:+.1f} % ({low:+.1f} to {high:+.1f})",
        differing(pairs),
        differing(twice),
        differing([(a, LONGER * b) for a, b in twice]),
    ]


def table(results: list[Result]) -> str:
    """The table: a row for each variant that has one with EWMA."""
    pairs = [(result, name) for result in results for name in result.variants if name + SUFFIX in result.variants]
    return generated.table(HEAD, [row(result, name) for result, name in pairs])


def main() -> None:
    """Print the table, or also write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="+", help="outputs with variants and their copies with EWMA")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    options = parser.parse_args()
    body = table([Result(output) for output in options.outputs])
    print(body)
    if options.markdown:
        generated.write(options.markdown, BLOCK, body)


if __name__ == "__main__":
    main()
