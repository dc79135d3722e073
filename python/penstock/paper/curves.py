"""The curves of a paper's figures. `benches/published_curves.py` reads them from its public PDF.

Those of BackTap and Marut were read from the pixels of the slides and the report, by hand.

They are in `curves.csv` beside the claims. A row is a point of a distribution function: the share of downloads, cells
or seconds of a variant whose measure has at most the value.
"""

import csv
from collections.abc import Sequence
from itertools import groupby
from math import isnan, nan
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from penstock import catalog, generated, stats
from penstock.paper.claims import Text
from penstock.paper.measures import MEASURES
from penstock.paper.measures import sample as sample_at
from penstock.paper.totals import EVERY
from penstock.result import Result
from penstock.validation import Strict, parse

FILE = "curves.csv"

RELAYS = ("guard", "middle", "exit")
"""The relays of a circuit. At the exit, a server's bytes that are not yet cells do not count."""

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles of the table."""


class Row(Strict):
    """A row of the file."""

    figure: Text
    workload: Text
    measure: Text
    hop: str
    """The position on a circuit; empty for all relays, and for a measure without a position."""
    variant: Text
    share: Annotated[float, Field(ge=0, le=1)]
    value: float
    """In the unit of the measure."""


class Panel(NamedTuple):
    """What the curves of a panel show. Panels of a figure with the same number are beside each other."""

    figure: str
    workload: str
    measure: str
    hop: str


class Curve(NamedTuple):
    """A curve of a panel, as far as the paper draws it."""

    panel: Panel
    variant: str
    shares: tuple[float, ...]
    """The cumulative shares, in ascending order."""
    values: tuple[float, ...]
    """A flat part of the curve is two rows with the same share, and a step two rows with the same value."""

    def is_of(self, figure: str) -> bool:
        """Whether the curve belongs to a figure; 5a to 5d belong to 5."""
        return figure in (self.panel.figure, self.number)

    @property
    def number(self) -> str:
        """The figure's number, without the letter of a panel."""
        return self.panel.figure.rstrip("abcdefghi")

    def quantile(self, share: float) -> float:
        """The value at a share, at a flat part its smallest one; NaN outside the drawn part."""
        shares = np.array(self.shares)
        first = np.concatenate([[True], np.diff(shares) > 0])
        return float(np.interp(share, shares[first], np.array(self.values)[first], left=nan, right=nan))


def load(paper: str) -> list[Curve]:
    """The curves of a paper, in the order of its file; empty without a file.

    Raises:
        PenstockError: if a row is wrong. The message names the file and the row.
    """
    path = catalog.SHIPPED / paper / FILE
    return read(path) if path.is_file() else []


def read(path: Path) -> list[Curve]:
    """The curves of a file."""
    rows = [
        parse(Row, row, Path(f"{path}, row {number}"))
        for number, row in enumerate(csv.DictReader(catalog.text(path).splitlines()), 1)
    ]
    return [
        Curve(Panel(*key[:4]), key[4], tuple(row.share for row in points), tuple(row.value for row in points))
        for key, group in groupby(rows, lambda row: (row.figure, row.workload, row.measure, row.hop, row.variant))
        for points in [list(group)]
    ]


def of(result: Result) -> list[Curve]:
    """The curves of the figures that the scenario of a result lists, for variants that it has."""
    paper, figures = result.scenario.get("paper"), result.scenario.get("figures") or []
    if not isinstance(paper, str):
        return []
    return [curve for curve in load(paper) if any(map(curve.is_of, figures)) and curve.variant in result.variants]


def sample(result: Result, panel: Panel, variant: str) -> pl.DataFrame:
    """Our values of a panel's measure with a variant: columns `network`, `seed`, `value`."""
    is_of_relays = MEASURES[panel.measure].table == "cells" and not panel.hop
    hops = RELAYS if is_of_relays else (panel.hop,)
    return pl.concat(sample_at(result, panel.measure, variant, panel.workload, hop) for hop in hops)


def quantiles(result: Result, curve: Curve, shares: Sequence[float] = QUANTILES) -> list[tuple[float, float]]:
    """The paper's quantiles and ours, the mean over our replicates; NaN outside the drawn part, and without values."""
    replicates = result.replicates.samples(sample(result, curve.panel, curve.variant), "value")
    samples = [np.concatenate(runs) for runs in replicates]
    return [
        (curve.quantile(share), float(np.mean([stats.quantile(each, share) for each in samples])) if samples else nan)
        for share in shares
    ]


def table(result: Result, drawn: Sequence[Curve]) -> str:
    """For each curve, the paper's quantiles and ours, as a table in Markdown. Each network has the same weight."""
    head = ["figure", "curve", *(f"{share:.0%}: paper, ours" for share in QUANTILES)]
    rows = []
    for curve in drawn:
        unit = MEASURES[curve.panel.measure].unit
        what = [curve.panel.workload.replace(EVERY, ""), curve.panel.measure, curve.panel.hop]
        cells = [f"{shown(paper, unit)}, {shown(ours, unit)}" for paper, ours in quantiles(result, curve)]
        rows.append([curve.panel.figure, ", ".join([*filter(None, what), result.variants[curve.variant]]), *cells])
    return generated.table(head, rows)


def shown(value: float, unit: str) -> str:
    """A value with its unit; a dash without a value."""
    if isnan(value):
        return "-"
    return f"{value:{'.3g' if abs(value) < 1000 else '.0f'}} {unit}".rstrip()
