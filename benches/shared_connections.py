"""How many downloads share a connection, and what mechanisms gain from it, for docs/validation/capstone.md.

    penstock run capstone/sensitivity --variant tor-0.2.2 --variant kist-deployed --variant pctcp --variant backtap \
        --variant tor-0.4.9 --set relays.relay.count=180 --out runs/relays-180
    python benches/shared_connections.py runs/relays-90 runs/relays-180 runs/relays-360 [--markdown PAGE]

Each directory has the same clients and another number of relays. An average download shares its connection with the
other downloads that are active between the same two relays, counted every 10 s after the warm-up in the baseline.
"""

import argparse
from pathlib import Path

import grids
import numpy as np
import polars as pl

from penstock import generated
from penstock.paper import claims, tradeoffs
from penstock.paper.claims import Tradeoffs
from penstock.replicates import RUN
from penstock.result import Result

BLOCK = "benches/shared_connections.py"
SCENARIO = "sensitivity"
INTERVAL_S = 10.0
"""The time between two counts [s]."""

SHOWN = {
    "PCTCP: bytes": ("pctcp", "bytes delivered"),
    "BackTap: bytes": ("backtap", "bytes delivered"),
    "Tor 0.4.9: bytes": ("tor-0.4.9", "bytes delivered"),
    "KIST as deployed: web, first byte, median": ("kist-deployed", "web, first byte, median"),
    "the same, 90 %": ("kist-deployed", "web, first byte, 90 %"),
}
"""The columns of the table: a variant and one of its quantities."""


def compared_columns() -> Tradeoffs:
    """The table of trade-offs of the study with the shown columns only."""
    table = claims.load("capstone").tradeoffs
    if table is None:
        raise AssertionError("the study has a table of trade-offs")
    titles = {title for _, title in SHOWN.values()}
    return table.model_copy(update={"columns": [column for column in table.columns if column.title in titles]})


COMPARED = compared_columns()
PAIRS = (("guard", "middle"), ("middle", "exit"))
"""The two hops of a connection between relays."""


def sharing(result: Result, near: str, far: str) -> tuple[float, float]:
    """The number of downloads with which the average one shares a connection: the smallest and the largest network."""
    paths = result.paths.filter(variant=COMPARED.baseline).select(*RUN, "circuit", near, far)
    downloads = result.transfers.filter(variant=COMPARED.baseline, direction="download")
    begun = downloads.filter(~pl.col("warmup"))["start_s"].min()
    end = pl.col("start_s") + pl.col("ttlb_s").fill_null(np.inf)
    active = downloads.select(*RUN, "circuit", "start_s", end_s=end).join(paths, on=[*RUN, "circuit"], nulls_equal=True)
    counts = []
    for at in np.arange(begun, downloads["start_s"].max(), INTERVAL_S):
        now = active.filter((pl.col("start_s") <= at) & (pl.col("end_s") > at))
        counts.append(now.group_by(*RUN, near, far).agg(count=pl.len()))
    count = pl.col("count")
    others = (count * (count - 1)).sum() / count.sum()
    of_networks = pl.concat(counts).group_by(RUN).agg(others=others)["others"]
    return float(of_networks.min()), float(of_networks.max())  # type: ignore[arg-type]


def row(result: Result) -> list[str]:
    """The row of one number of relays."""
    compared = tradeoffs.compare(COMPARED, SCENARIO, {SCENARIO: result})
    rows = {each.variant: compared.texts(each) for each in compared.rows}
    shown = [rows[variant][compared.place(title)] for variant, title in SHOWN.values()]
    shared = [f"{least:.1f} to {most:.1f}" for least, most in (sharing(result, *pair) for pair in PAIRS)]
    return [f"{result.relays['relay'].n_unique()}, {compared.replicates}", *shared, *shown]


def table(results: list[Result]) -> str:
    """A row for each directory."""
    head = ["relays", *(f"other downloads from {near} to {far}" for near, far in PAIRS), *SHOWN]
    return generated.table(head, [row(result) for result in results])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    asked = parser.parse_args()
    grids.show(table([Result(directory) for directory in asked.directories]), asked.markdown, BLOCK)


if __name__ == "__main__":
    main()
