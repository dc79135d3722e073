"""Tables of sensitivity: the changes of variants against the baseline in each of several settings of a network."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from penstock import generated
from penstock.paper import tradeoffs
from penstock.paper.claims import Claims, Column, Setting
from penstock.paper.tradeoffs import Compared
from penstock.result import Result


@dataclass(frozen=True)
class Sensitive:
    """All settings with the rows of their variants, in the order of the claims file."""

    baseline: str
    """The label of the variant to which the others are compared."""
    columns: tuple[Column, ...]
    settings: tuple[tuple[Setting, Compared], ...]

    def rows(self, place: int) -> list[tuple[str, ...]]:
        """The table of one column: a row for each setting, with the baseline's value and the changes of the others."""
        return [
            (setting.title, *(compared.texts(row)[place] for row in compared.rows))
            for setting, compared in self.settings
        ]

    @property
    def labels(self) -> list[str]:
        """The labels of the variants; the first is that of the baseline."""
        return [row.label for row in self.settings[0][1].rows]

    @property
    def remark(self) -> str:
        """How to read the tables."""
        replicates = " and ".join(dict.fromkeys(compared.replicates for _, compared in self.settings))
        return (
            f"The column of {self.baseline} has values. The other columns have changes against it in the same setting, "
            f"with 95 % intervals over {replicates}. A star marks an interval without zero; by chance, one cell in "
            "twenty has a star."
        )

    def table(self) -> pl.DataFrame:
        """All cells: one row for each setting, variant and column."""
        return pl.concat(
            [
                tradeoffs.table(compared).drop("scenario").select(pl.lit(setting.name).alias("setting"), pl.all())
                for setting, compared in self.settings
            ]
        )

    def markdown(self) -> str:
        """A table for each column."""
        head = ("setting", *self.labels)
        blocks = [
            f"{column.title}:\n\n{generated.table(head, self.rows(place))}" for place, column in enumerate(self.columns)
        ]
        return "\n\n".join([*blocks, self.remark])


def of(claims: Claims, results: Mapping[str, Result]) -> Sensitive | None:
    """The tables of the settings that were run; `None` without one."""
    if claims.sensitivity is None or claims.tradeoffs is None:
        return None
    wanted = claims.sensitivity.columns
    columns = [column for title in wanted for column in claims.tradeoffs.columns if column.title == title]
    chosen = claims.tradeoffs.model_copy(update={"columns": columns})
    order = [claims.tradeoffs.baseline, *claims.sensitivity.variants]
    settings = []
    for name, setting in claims.settings.items():
        if name in results and claims.tradeoffs.baseline in results[name].variants:
            compared = tradeoffs.compare(chosen, name, results)
            rows = {row.variant: row for row in compared.rows}
            settings.append((setting, replace(compared, rows=tuple(rows[variant] for variant in order))))
    if not settings:
        return None
    return Sensitive(settings[0][1].rows[0].label, tuple(columns), tuple(settings))
