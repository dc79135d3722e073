"""The insets of a paper's figures: a part of a panel's curves, drawn again with a logarithmic x axis.

They are in `insets.csv` beside the claims, read from the labels of the paper's axes.
"""

import csv
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from penstock import catalog
from penstock.paper.curves import Text
from penstock.result import Result
from penstock.validation import Strict, parse

FILE = "insets.csv"


class Inset(Strict):
    """An inset of a panel. All values have the unit of the panel's measure."""

    figure: Text
    """The panel, such as 7a."""
    edge: Annotated[float, Field(gt=0)]
    """The right end of the panel's own x axis."""
    least: Annotated[float, Field(gt=0)]
    """The left end of the inset's x axis."""
    most: Annotated[float, Field(gt=0)]
    """The right end of the inset's x axis."""
    share: Annotated[float, Field(ge=0, lt=1)]
    """The lower end of the inset's y axis, which ends at 1."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.most <= self.least:
            raise ValueError(f"most is {self.most:g}; it must be above least, which is {self.least:g}")
        return self


def read(path: Path) -> list[Inset]:
    """The insets of a file.

    Raises:
        PenstockError: if a row is wrong. The message names the file and the row.
    """
    rows = csv.DictReader(catalog.text(path).splitlines())
    return [parse(Inset, row, Path(f"{path}, row {number}")) for number, row in enumerate(rows, 1)]


def of(result: Result) -> dict[str, Inset]:
    """The insets of the paper that the scenario of a result names, by panel; empty without a file."""
    paper = result.scenario.get("paper")
    path = catalog.SHIPPED / paper / FILE if isinstance(paper, str) else None
    return {inset.figure: inset for inset in read(path)} if path and path.is_file() else {}
