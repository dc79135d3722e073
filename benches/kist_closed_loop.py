"""Compares the bytes of KIST's figure 8 with those that the downloads of figure 7 carry, for docs/validation/kist.md.

    python benches/kist_closed_loop.py [--markdown PAGE]

Each of the paper's clients downloads a file, pauses, and downloads the next one (section 5.1). So the mean download
time and the number of clients give the bytes of the network, without a simulation. Three relays write each byte, in
cells of 512 B with 498 B of data. TLS is not counted.

The slowest downloads are not drawn: 6 to 12 % of the pages, which take more than 8 s, and 6 to 11 % of the bulk
downloads, which take more than 80 s. The table has four assumptions about their means; with the last one, bulk
downloads are slower with vanilla. The paper draws no curves of TorPerf's clients. Those of 5 MiB have the download
times of bulk clients here, those of 1 MiB a fifth of them, and those of 50 KiB the times of pages.
"""

import argparse
from pathlib import Path

import grids
import numpy as np

from penstock import generated
from penstock.paper.curves import Curve, load

BLOCK = "benches/kist_closed_loop.py"

KIB, MIB = 2**10, 2**20
WRITES = 3 * 512 / 498
"""The bytes that relays write for a byte of a download."""
CLIENTS = 13_800
MEAN_PAUSE_S = 30.0005
"""Web clients pause for 1 ms to 60 s."""
PERF_PAUSE_S = 60.0

TAILS = {
    "8 and 80 s": (8.0, 80.0, 80.0),
    "12 and 110 s": (12.0, 110.0, 110.0),
    "20 and 160 s": (20.0, 160.0, 160.0),
    "12 and 110 s, bulk with vanilla 280 s": (12.0, 110.0, 280.0),
}
"""The assumed means of pages and bulk downloads that are not drawn, and of bulk downloads with vanilla [s]. The first
row has the least possible ones."""

VARIANTS = {"vanilla": "vanilla", "global": "global", "kist": "KIST"}


def mean(curve: Curve, tail: float) -> float:
    """The mean of a distribution whose undrawn upper part has the mean `tail` [s]."""
    shares = (np.arange(10_000) + 0.5) / 10_000
    values = np.interp(shares, curve.shares, curve.values)
    return float(np.where(shares > curve.shares[-1], tail, values).mean())


def written(page: float, bulk: float) -> float:
    """The bytes that all relays write, for mean times of pages and of bulk downloads [MiB/s]."""
    payload = (
        10_800 * 320 * KIB / (MEAN_PAUSE_S + page)
        + 1_200 * 5 * MIB / bulk
        + 600 * 50 * KIB / (PERF_PAUSE_S + page)
        + 600 * MIB / (PERF_PAUSE_S + bulk / 5)
        + 600 * 5 * MIB / (PERF_PAUSE_S + bulk)
    )
    return WRITES * payload / MIB


def table() -> str:
    """The bytes of figure 8, and those of figure 7 with each assumption, as a table in Markdown."""
    of = {(curve.panel.figure, curve.variant): curve for curve in load("kist")}
    columns = {"figure 8": {variant: CLIENTS * of["8", variant].quantile(0.5) / MIB for variant in VARIANTS}}
    for title, (page, bulk, bulk_vanilla) in TAILS.items():
        columns[f"figure 7, {title}"] = {
            variant: written(
                mean(of["7b", variant], page),
                mean(of["7c", variant], bulk_vanilla if variant == "vanilla" else bulk),
            )
            for variant in VARIANTS
        }
    rows = [
        [label, *(_cell(numbers[variant], numbers["vanilla"]) for numbers in columns.values())]
        for variant, label in VARIANTS.items()
    ]
    return generated.table(["relays write", *columns], rows)


def _cell(value: float, vanilla: float) -> str:
    change = "" if value == vanilla else f", {100 * (value / vanilla - 1):+.1f} %"
    return f"{value:.0f} MiB/s{change}"


def main() -> None:
    """Print the table, and write it into a page if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    grids.show(table(), parser.parse_args().markdown, BLOCK)


if __name__ == "__main__":
    main()
