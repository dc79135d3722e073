"""Sentences about figures: the result that a figure shows, and curves that a reader cannot see."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from penstock import stats
from penstock.tables import seconds

MOST = 6
"""The maximum number of variants in a sentence."""


def listed(values: Mapping[str, str]) -> str:
    """Values by label, such as `stock Tor 3.54 s, 50 KiB windows 0.73 s`."""
    few = [f"{label} {value}" for label, value in list(values.items())[:MOST]]
    return ", ".join([*few, f"and {len(values) - MOST} more"] if len(values) > MOST else few)


def largest(values: pl.Series) -> float:
    """The largest value; 0 without values."""
    return float(values.cast(pl.Float64).fill_null(0.0).max() or 0.0)  # type: ignore[arg-type]


def medians(title: str, curves: Mapping[str, stats.Curve]) -> str:
    """The median of each curve [s], as a sentence."""
    found = {
        label: seconds(float(curve.x[curve.y >= curve.y[-1] / 2][0])) for label, curve in curves.items() if curve.x.size
    }
    return f"Median of {title}: {listed(found)}." if found else ""


def hidden(panels: Iterable[tuple[str, Mapping[str, stats.Curve]]]) -> str:
    """Sentences about identical and missing curves of panels with a letter; empty if all curves are visible."""
    said: dict[str, list[str]] = {}
    for letter, curves in panels:
        for sentence in _hidden(curves):
            said.setdefault(sentence, []).append(f"({letter})")
    return "".join(f" In {', '.join(letters)}, {sentence}." for sentence, letters in said.items())


def _hidden(curves: Mapping[str, stats.Curve]) -> list[str]:
    same: dict[tuple[bytes, bytes], list[str]] = {}
    for label, curve in curves.items():
        if curve.x.size:
            same.setdefault((curve.x.tobytes(), curve.y.tobytes()), []).append(label)
    groups: Sequence[list[str]] = [labels for labels in same.values() if len(labels) > 1]
    said = [f"the curves of {' and '.join(labels)} are identical" for labels in groups]
    empty = [label for label, curve in curves.items() if not curve.x.size]
    return said + ([f"there is no value of {' and '.join(empty)}"] if empty else [])
