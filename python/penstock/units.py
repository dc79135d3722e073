"""What is independent of each other in an output: its networks where there are several, otherwise its seeds.

A run is named by variant, network and seed. Seeds of one network measure that network again and again, so that with
several networks a network counts once, with the average of its seeds. Where the column `network` is empty, whatever a
scenario draws is drawn for each seed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import stats

RUN_SCHEMA = {"network": pl.String(), "seed": pl.Int64()}
RUN = list(RUN_SCHEMA)
"""What two runs have in common that are a pair."""

HANDFUL = 5
"""So many units make an interval and a verdict that need no apology."""

BAND = 3
"""From so many units on a band is drawn: the t interval of two fills every panel."""


def first_run(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table's first seed in its first network."""
    return rows.join(rows.select(RUN).unique().sort(RUN).head(1), on=RUN, how="semi")


@dataclass(frozen=True)
class Units:
    """The independent units of an output."""

    networks: tuple[str, ...]
    """Names; empty where networks have none."""
    seeds: int
    """How many there are, of the network that has most."""

    @classmethod
    def of(cls, runs: Iterable[tuple[str, int]]) -> Units:
        """Those of runs, each a network and a seed."""
        seeds: dict[str, set[int]] = {}
        for network, seed in runs:
            seeds.setdefault(network, set()).add(seed)
        networks = sorted(filter(None, seeds), key=lambda name: (len(name), name))
        return cls(tuple(networks), max(map(len, seeds.values()), default=0))

    @classmethod
    def in_rows(cls, rows: pl.DataFrame) -> Units:
        """Those of a table with the columns `network` and `seed`."""
        return cls.of(rows.select(RUN).unique().iter_rows())

    @property
    def are_networks(self) -> bool:
        """Whether they are networks."""
        return len(self.networks) > 1

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.networks) if self.are_networks else self.seeds

    @property
    def of_one_network(self) -> bool:
        """Whether they are seeds that all measure one network, which was drawn once."""
        return len(self.networks) == 1

    def name(self, count: int = 1) -> str:
        """`seed` or `network`, or more of them."""
        return ("network" if self.are_networks else "seed") + ("s" if count != 1 else "")

    def count(self, rows: pl.DataFrame) -> int:
        """How many have rows in a table."""
        return rows.select(self._key).n_unique() if rows.height else 0

    def average(self, rows: pl.DataFrame) -> pl.DataFrame:
        """One row for each unit, in their order: the columns beside `network` and `seed` averaged over its seeds."""
        if not self.are_networks:
            return rows.sort(RUN)
        values = pl.exclude(RUN).mean()
        averaged = rows.group_by("network").agg(pl.col("seed").min(), values).select(rows.columns)
        return averaged.sort(pl.col("network").str.len_chars(), "network")

    def samples(self, rows: pl.DataFrame, column: str) -> list[list[NDArray[np.float64]]]:
        """What each unit's runs have in a column, without nulls: a list for each unit, with a sample for each run."""
        found: dict[tuple[Any, ...], list[NDArray[np.float64]]] = {}
        for _, of_run in rows.drop_nulls(column).sort(RUN).group_by(RUN, maintain_order=True):
            unit = of_run.select(self._key).row(0)
            found.setdefault(unit, []).append(of_run[column].to_numpy().astype(np.float64))
        return list(found.values())

    @property
    def _key(self) -> list[str]:
        return ["network"] if self.are_networks else RUN

    def told(self, counts: Sequence[int]) -> str:
        """`5 seeds`, or `3 to 5 networks` where rows have different numbers of them."""
        fewest, most = min(counts), max(counts)
        return f"{fewest} to {most} {self.name(2)}" if fewest != most else f"{most} {self.name(most)}"

    def all_told(self) -> str:
        """How many networks and seeds there are: `5 seeds`, `3 networks, 2 seeds`."""
        networks = f"{len(self.networks)} network{'s' if len(self.networks) != 1 else ''}, " if self.networks else ""
        return f"{networks}{self.seeds} seed{'s' if self.seeds != 1 else ''}"

    def warning(self, counts: Sequence[int]) -> str:
        """What intervals of so many units in each row cannot say; empty if there are enough of them."""
        fewest = min(counts, default=0)
        if max(counts, default=0) < 2:
            return f"One {self.name()}: no interval is possible; {self._more} gives one."
        words = []
        if self.of_one_network:
            words.append(
                "All seeds are of one network: what they say, they say of that network alone, and of no other. "
                "--networks 5 says more."
            )
        if fewest < HANDFUL:
            least = max(fewest, 2)
            words.append(
                f"{least} {self.name(least)} are few: differences are decided from {stats.t_reach(least):.1f} of their "
                f"own standard deviations on, at least {HANDFUL} {self.name(2)} from {stats.t_reach(HANDFUL):.1f} on; "
                f"no sign test falls below 1/{2**least}. What is undecided here may well be there."
            )
        return " ".join(words)

    @property
    def _more(self) -> str:
        return "--networks 5" if self.networks else "--runs 5"
