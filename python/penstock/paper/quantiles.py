"""The quantiles of a paper's curves, and ours of the same measures and variants."""

from collections.abc import Sequence
from math import isnan, nan

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import generated, stats
from penstock.paper import measures
from penstock.paper.curves import Curve
from penstock.paper.measures import MEASURES
from penstock.paper.totals import EVERY
from penstock.result import Result

RELAYS = ("guard", "middle", "exit")
"""The relays of a circuit. At the exit, a server's bytes that are not yet cells do not count."""

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles of the table."""

Samples = list[list[NDArray[np.float64]]]
"""The values of each replicate, for each of its runs."""


def samples(result: Result, curve: Curve) -> Samples:
    """Our values of a curve's measure and variant."""
    panel = curve.panel
    is_of_relays = MEASURES[panel.measure].table == "cells" and not panel.hop
    hops = RELAYS if is_of_relays else (panel.hop,)
    rows = pl.concat(measures.sample(result, panel.measure, curve.variant, panel.workload, hop) for hop in hops)
    return result.replicates.samples(rows, "value")


def pairs(curve: Curve, ours: Samples, shares: Sequence[float] = SHARES) -> list[tuple[float, float]]:
    """The paper's quantiles and ours, the mean over our replicates; NaN outside the drawn part, and without values."""
    together = [np.concatenate(of_runs) for of_runs in ours]
    return [
        (curve.quantile(share), float(np.mean([stats.quantile(each, share) for each in together])) if together else nan)
        for share in shares
    ]


def table(result: Result, curves: Sequence[Curve]) -> str:
    """For each curve, the paper's quantiles and ours, as a table in Markdown. Each network has the same weight."""
    head = ["figure", "curve", *(f"{share:.0%}: paper, ours" for share in SHARES)]
    rows = []
    for curve in curves:
        what = [curve.panel.workload.replace(EVERY, ""), curve.panel.measure, curve.panel.hop]
        cells = [f"{shown(paper, curve)}, {shown(ours, curve)}" for paper, ours in pairs(curve, samples(result, curve))]
        rows.append([curve.panel.figure, ", ".join([*filter(None, what), result.variants[curve.variant]]), *cells])
    return generated.table(head, rows)


def shown(value: float, curve: Curve) -> str:
    """A value of a curve's measure with its unit; a dash without a value."""
    if isnan(value):
        return "-"
    return f"{value:{'.3g' if abs(value) < 1000 else '.0f'}} {MEASURES[curve.panel.measure].unit}".rstrip()
