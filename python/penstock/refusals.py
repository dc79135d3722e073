"""Variants whose clients built no circuit."""

from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from penstock import catalog
from penstock._core import Document
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.result import Result


def circuits(result: "Result", variant: str) -> tuple[int, int]:
    """The number of circuits that a variant's clients began, and the number of those that were built."""
    rows = result.scan("paths").filter(pl.col("variant") == variant)
    began, built = rows.select(pl.len(), pl.col("built_s").count().alias("built")).collect().row(0)
    return began, built


def sentences(result: "Result") -> list[str]:
    """A sentence about each variant without a built circuit."""
    with result.reading():
        counts = {name: circuits(result, name) for name in result.variants}
    return [sentence(result, name, began) for name, (began, built) in counts.items() if began and not built]


def sentence(result: "Result", variant: str, began: int) -> str:
    """The sentence about a variant whose clients began circuits and built none, with the reason if it is a key."""
    fact = f"{result.variants[variant]}: none of the {began} circuits was built, so no download began."
    return " ".join([fact, *reasons(result, variant)])


def reasons(result: "Result", variant: str) -> list[str]:
    """The warnings about the variant's keys that make clients refuse circuits."""
    resolved = catalog.resolved_text(result.scenario, variant)
    # An output of another version can have keys that this version does not know.
    with suppress(PenstockError):
        warnings = Document(resolved, "").warnings()
        return [f"{warning.partition(': ')[2]}." for warning in warnings if "refuse" in warning]
    return []
