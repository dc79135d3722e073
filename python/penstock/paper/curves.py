"""The curves of a paper's figures. `benches/published_curves.py` reads them from its public PDF.

Those of BackTap and Marut were read from the pixels of the slides and the report, by hand.

They are in `curves.csv` beside the claims. A row is a point of a distribution function: the share of downloads, cells
or seconds of a variant whose measure has at most the value.
"""

import csv
from itertools import groupby
from math import nan
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from penstock import catalog
from penstock.result import Result
from penstock.validation import Strict, parse

FILE = "curves.csv"

Text = Annotated[str, Field(min_length=1)]


def number_of(panel: str) -> str:
    """The number of a panel's figure, without the letter: 5 of 5a."""
    return panel.rstrip("abcdefghi")


def is_of(panel: str, figure: str) -> bool:
    """Whether a panel belongs to a figure; `5` includes 5a to 5d."""
    return figure in (panel, number_of(panel))


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
    """A panel of a figure: the workload, the measure and the position of its curves."""

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
        return is_of(self.panel.figure, figure)

    @property
    def number(self) -> str:
        """The figure's number, without the letter of a panel."""
        return number_of(self.panel.figure)

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
