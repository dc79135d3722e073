"""Points of a paper's figures, as its print or its text gives them.

They are in `printed.csv` beside the claims. A point is a share of downloads, and the time within which they finished,
or a share of an attack's victims, and the largest value of its measure.
The column `how` says how the point was read. The shipped points are those that the text of a paper states.
"""

import csv
from pathlib import Path
from typing import Annotated

from pydantic import Field

from penstock import catalog
from penstock.paper.claims import Claims
from penstock.paper.curves import Text, is_of
from penstock.validation import Strict, parse

FILE = "printed.csv"


class Point(Strict):
    """A point of a distribution function in a paper."""

    figure: Text
    scenario: Text
    workload: Text
    measure: Text
    variant: Text
    share: Annotated[float, Field(ge=0, le=1)]
    """The share of downloads or victims."""
    value: Annotated[float, Field(ge=0)]
    """The largest value of these, in the unit of the measure."""
    how: Text


def load(claims: Claims, figure: str | None = None) -> list[Point]:
    """The points of a paper's figures, or of one figure; `5` includes 5a to 5d. Empty without a file.

    Raises:
        PenstockError: if a row is wrong. The message names the file and the row.
    """
    path = claims.folder / FILE
    points = read(path) if path.is_file() else []
    return [point for point in points if figure is None or is_of(point.figure, figure)]


def read(path: Path) -> list[Point]:
    """The points of a file."""
    rows = csv.DictReader(catalog.text(path).splitlines())
    return [parse(Point, {**row, **_numbers(row)}, Path(f"{path}, row {number}")) for number, row in enumerate(rows, 1)]


def _numbers(row: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key in ("share", "value"):
        try:
            found[key] = float(row[key])
        except (KeyError, TypeError, ValueError):
            found[key] = row.get(key)
    return found
