"""What a reader of one run sees of EWMA's effect on first bytes, for docs/validation/defenestrator.md.

    penstock paper defenestrator --scenario fitted-ewma --runs 40 --out runs/fitted-ewma
    python benches/one_run.py runs/fitted-ewma/* [--markdown PAGE]

The paper compares curves of one run, and a run has 20 to 35 bulk downloads. Each row compares a variant with the same
one and EWMA: over all runs, and run by run with a Kolmogorov-Smirnov test at 5 %.
"""

import argparse
from pathlib import Path

import polars as pl

from penstock import generated, stats
from penstock.paper.measures import sample
from penstock.replicates import RUN
from penstock.result import Result

BLOCK = "benches/one_run.py"
SUFFIX = "-ewma"
HEAD = [
    "scenario",
    "variant",
    "runs",
    "bulk downloads of a run",
    "median of all first bytes with EWMA",
    "runs without a difference",
]


def first_bytes(result: Result, variant: str) -> pl.DataFrame:
    """The first bytes [s] of bulk downloads: a row with a list for each run."""
    return sample(result, "ttfb_s", variant, "bulk", "").group_by(RUN).agg("value").sort(RUN)


def row(result: Result, variant: str) -> list[str]:
    """The cells of a variant that also exists with EWMA."""
    runs = first_bytes(result, variant).join(first_bytes(result, variant + SUFFIX), on=RUN, suffix=SUFFIX)
    pairs = list(zip(runs["value"], runs[f"value{SUFFIX}"], strict=True))
    alike = sum(stats.ks_distance(a, b) <= stats.ks_limit(len(a), len(b)) for a, b in pairs)
    without, with_ewma = (stats.quantile(runs[name].explode(), 0.5) for name in ("value", f"value{SUFFIX}"))
    downloads = sum(len(a) + len(b) for a, b in pairs) / (2 * len(pairs))
    return [
        f"`{result.scenario['name']}`",
        result.variants[variant],
        str(len(pairs)),
        f"{downloads:.0f}",
        f"{100 * (with_ewma / without - 1):+.1f} %",
        f"{100 * alike / len(pairs):.0f} %",
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
