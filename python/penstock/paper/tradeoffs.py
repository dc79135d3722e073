"""A table of trade-offs: each variant of a scenario by several quantities, beside a baseline.

Changes are geometric means over replicates, so that a change, its interval, the score and the Pareto front agree. The
score is the weighted geometric mean of all improvements over the baseline, minus one. A reader can change the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log, nan

import polars as pl

from penstock import generated, stats
from penstock.paper.claims import Column, Tradeoffs
from penstock.paper.measures import MEASURES, each_run, sample
from penstock.replicates import RUN
from penstock.result import Result


@dataclass(frozen=True)
class Cell:
    """A quantity of a variant: the mean over replicates, the change against the baseline, and 95 % t intervals."""

    mean: float = nan
    low: float = nan
    high: float = nan
    change: float = nan
    """The geometric mean over replicates of variant / baseline, minus one [1]; NaN without a pair of numbers."""
    change_low: float = nan
    change_high: float = nan
    n: int = 0
    """The number of seeds or networks with a number."""
    pairs: int = 0
    """The number of seeds or networks with a ratio to the baseline."""
    improvement: float = nan
    """1 + change, or its inverse if lower is better; above one is better."""

    @property
    def decided(self) -> bool:
        """Whether the interval of the change excludes zero."""
        return self.change_low > 0 or self.change_high < 0


@dataclass(frozen=True)
class Row:
    """A variant with its cells, in the order of the columns."""

    variant: str
    label: str
    cells: tuple[Cell, ...]

    def score(self, weights: Sequence[float]) -> float:
        """The weighted geometric mean of the improvements, minus one; NaN if a weighted cell lacks a number."""
        logs = [
            weight * log(cell.improvement) if cell.improvement > 0 else nan
            for weight, cell in zip(weights, self.cells, strict=True)
            if weight
        ]
        return exp(sum(logs) / sum(weights)) - 1 if logs else 0.0


@dataclass(frozen=True)
class Compared:
    """The rows of one scenario."""

    scenario: str
    title: str
    tradeoffs: Tradeoffs
    baseline: str
    """The variant with which the others are compared."""
    rows: tuple[Row, ...]
    replicates: str
    """The kind and the number of replicates, such as `5 networks`."""
    companions: Mapping[str, str]
    """The replicates of each other scenario that measured columns."""

    def score(self, row: Row) -> float:
        """The score of a row with the weights of the columns."""
        return row.score([column.weight for column in self.tradeoffs.columns])

    @property
    def ranked(self) -> list[Row]:
        """The rows by score, the best first; rows without a score last."""
        scores = {row.variant: self.score(row) for row in self.rows}
        return sorted(self.rows, key=lambda row: -scores[row.variant] if isfinite(scores[row.variant]) else inf)

    @property
    def front(self) -> list[Row]:
        """The Pareto front: rows that no row improves in one of the two columns without a loss in the other."""
        here = [(row, self.at(row)) for row in self.rows]
        known = [(row, xy) for row, xy in here if all(map(isfinite, xy))]
        return [row for row, xy in known if not any(_better(other, xy) for _, other in known)]

    def texts(self, row: Row) -> list[str]:
        """The cells of a row as text; a cell with fewer replicates than others of its column shows their number."""
        is_baseline, texts = row.variant == self.baseline, []
        for place, (cell, column) in enumerate(zip(row.cells, self.tradeoffs.columns, strict=True)):
            text, count = cell_text(cell, column, baseline=is_baseline), cell.n if is_baseline else cell.pairs
            most = max(other.cells[place].n for other in self.rows)
            texts.append(f"{text} (n = {count})" if text and count < most else text)
        return texts

    def at(self, row: Row) -> tuple[float, float]:
        """The improvements of a row in the two columns of the front."""
        x, y = (self.place(title) for title in self.tradeoffs.front)
        return row.cells[x].improvement, row.cells[y].improvement

    def place(self, title: str) -> int:
        """The place of a column."""
        return [column.title for column in self.tradeoffs.columns].index(title)


def _better(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a != b and a[0] >= b[0] and a[1] >= b[1]


def compare(tradeoffs: Tradeoffs, name: str, results: Mapping[str, Result]) -> Compared:
    """Measure each column of each variant in the output of one scenario, or in that of the column's own scenario."""
    columns, result = tradeoffs.columns_of(name), results[name]
    tradeoffs = tradeoffs.model_copy(update={"columns": columns})
    numbers = {
        variant: [_numbers(results.get(column.scenario or name), variant, column) for column in columns]
        for variant in result.variants
    }
    compared_with = tradeoffs.baseline_of(name)
    baseline = numbers.get(compared_with, [pl.DataFrame(schema=_SCHEMA)] * len(columns))
    rows = tuple(
        Row(
            variant,
            result.variants[variant],
            tuple(
                _cell(mine, of_baseline, column)
                for mine, of_baseline, column in zip(cells, baseline, columns, strict=True)
            ),
        )
        for variant, cells in numbers.items()
    )
    elsewhere = {column.scenario: results[column.scenario] for column in columns if column.scenario in results}
    companions = {scenario: other.replicates.text() for scenario, other in elsewhere.items()}
    title = result.scenario["title"] or name
    return Compared(name, title, tradeoffs, compared_with, rows, result.replicates.text(), companions)


_SCHEMA = {"network": pl.String(), "seed": pl.Int64(), "value": pl.Float64()}


def _numbers(result: Result | None, variant: str, column: Column) -> pl.DataFrame:
    """One number for each replicate of a variant: columns `network`, `seed` and `value`; no row without an output."""
    if result is None:
        return pl.DataFrame(schema=_SCHEMA)
    values = sample(result, column.measure, variant, column.workload, column.hop).cast(_SCHEMA)  # type: ignore[arg-type]
    return result.replicates.average(each_run(values, column.statistic, 0.0))


def _cell(mine: pl.DataFrame, baseline: pl.DataFrame, column: Column) -> Cell:
    values = mine["value"].to_list()
    if not values:
        return Cell()
    mean, low, high = stats.mean_interval(values)
    both = mine.join(baseline, on=RUN, suffix="_baseline")
    logs = both.filter((pl.col("value") > 0) & (pl.col("value_baseline") > 0)).select(
        (pl.col("value") / pl.col("value_baseline")).log()
    )
    if logs.is_empty():
        return Cell(mean, low, high, n=len(values))
    ratio, least, most = (exp(each) for each in stats.mean_interval(logs.to_series().to_list()))
    better = ratio if column.better == "higher" else 1 / ratio
    return Cell(mean, low, high, ratio - 1, least - 1, most - 1, len(values), logs.height, better)


def table(compared: Compared) -> pl.DataFrame:
    """All cells of a scenario, for `tradeoffs.csv`: one row for each variant and column."""
    return pl.DataFrame(
        [
            {
                "scenario": compared.scenario,
                "variant": row.variant,
                "column": column.title,
                "unit": MEASURES[column.measure].unit,
                "mean": cell.mean,
                "low": cell.low,
                "high": cell.high,
                "change": cell.change,
                "change_low": cell.change_low,
                "change_high": cell.change_high,
                "n": cell.n,
                "pairs": cell.pairs,
            }
            for row in compared.rows
            for column, cell in zip(compared.tradeoffs.columns, row.cells, strict=True)
        ]
    )


def markdown(compared: Compared) -> str:
    """The rows of one scenario by score."""
    columns = compared.tradeoffs.columns
    head = ("variant", *(f"{column.title}{_unit(column)}" for column in columns), "score")
    front = {row.variant for row in compared.front}
    rows = [
        (
            f"**{row.label}**" if row.variant in front else row.label,
            *compared.texts(row),
            score_text(compared.score(row)),
        )
        for row in compared.ranked
    ]
    return f"{compared.title} ({compared.replicates}).\n\n{generated.table(head, rows)}\n\n{remark(compared)}"


def remark(compared: Compared) -> str:
    """How to read the table."""
    baseline = next((row.label for row in compared.rows if row.variant == compared.baseline), "the baseline")
    x, y = compared.tradeoffs.front
    return (
        f"The row of {baseline} has values. The other rows have changes against it with 95 % intervals. A star marks "
        "an interval without zero; by chance, one cell in twenty has a star. A cell with fewer replicates has their "
        "number n. The score is the weighted geometric mean "
        f"of the improvements, minus one. Bold rows are the Pareto front of {x} against {y}."
        + "".join(_elsewhere(compared, scenario) for scenario in compared.companions)
    )


def _elsewhere(compared: Compared, scenario: str) -> str:
    titles = [column.title for column in compared.tradeoffs.columns if column.scenario == scenario]
    return f" The scenario `{scenario}` measured {' and '.join(titles)} ({compared.companions[scenario]})."


def cell_text(cell: Cell, column: Column, *, baseline: bool) -> str:
    """A value for the baseline, and otherwise the change with its interval; empty without a number."""
    if baseline:
        return number(cell.mean, column)
    if not isfinite(cell.change):
        return ""
    if not isfinite(cell.change_low):
        return f"{100 * cell.change:+.0f} %"
    star = "*" if cell.decided else ""
    return f"{100 * cell.change:+.0f} % ({100 * cell.change_low:+.0f} to {100 * cell.change_high:+.0f}){star}"


def score_text(score: float) -> str:
    """A score in percent; empty without a score."""
    return f"{100 * score:+.0f} %" if isfinite(score) else ""


def number(value: float, column: Column) -> str:
    """A value with three significant digits, and its prefix for large numbers of bytes."""
    if not isfinite(value):
        return ""
    unit = MEASURES[column.measure].unit
    if unit == "B":
        return f"{value / 2**20:.3g} MiB"
    return f"{value:.3g} {unit}".rstrip()


def _unit(column: Column) -> str:
    return " (higher is better)" if column.better == "higher" else ""


def of(tradeoffs: Tradeoffs | None, results: Mapping[str, Result]) -> list[Compared]:
    """The tables of all scenarios that were run."""
    if tradeoffs is None:
        return []
    return [compare(tradeoffs, name, results) for name in tradeoffs.scenarios if name in results]
