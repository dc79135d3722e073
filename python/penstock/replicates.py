"""The independent replicates of an output: its networks if there are several, otherwise its seeds.

A run is named by variant, network and seed. Several seeds of one network measure the same network, so they are not
independent. With several networks, each network therefore counts once, with the average of its seeds. If the column
`network` is empty, each seed samples its own network.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import stats

RUN_SCHEMA = {"network": pl.String(), "seed": pl.Int64()}
RUN = list(RUN_SCHEMA)
"""The columns that identify a run. Two runs are a pair if they have the same network and seed."""

MIN_REPLICATES = 5
"""The minimum number of replicates for a verdict. With fewer replicates, reports print a warning."""

BAND = 3
"""The minimum number of replicates for a band. With two replicates, the t interval would fill every panel."""


def first_run(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table's first seed in its first network."""
    return rows.join(rows.select(RUN).unique().sort(RUN).head(1), on=RUN, how="semi")


@dataclass(frozen=True)
class Replicates:
    """The independent replicates of an output."""

    networks: tuple[str, ...]
    """The names of the networks; empty if each seed samples its own network."""
    seeds: int
    """The number of seeds of the network with the most seeds."""

    @classmethod
    def of(cls, runs: Iterable[tuple[str, int]]) -> Self:
        """The replicates of runs, given as pairs of network and seed."""
        seeds: dict[str, set[int]] = {}
        for network, seed in runs:
            seeds.setdefault(network, set()).add(seed)
        networks = sorted(filter(None, seeds), key=lambda name: (len(name), name))
        return cls(tuple(networks), max(map(len, seeds.values()), default=0))

    @classmethod
    def in_rows(cls, rows: pl.DataFrame) -> Self:
        """The replicates of a table with the columns `network` and `seed`."""
        return cls.of(rows.select(RUN).unique().iter_rows())

    @property
    def are_networks(self) -> bool:
        """Whether the replicates are networks."""
        return len(self.networks) > 1

    @property
    def size(self) -> int:
        """The number of replicates."""
        return len(self.networks) if self.are_networks else self.seeds

    @property
    def of_one_network(self) -> bool:
        """Whether all seeds measure one network, which was sampled once."""
        return len(self.networks) == 1

    def name(self, count: int = 1) -> str:
        """The word `seed` or `network`, in the plural unless the count is one."""
        return ("network" if self.are_networks else "seed") + ("s" if count != 1 else "")

    def count(self, rows: pl.DataFrame) -> int:
        """The number of replicates with rows in a table."""
        return rows.select(self._key).n_unique() if rows.height else 0

    def average(self, rows: pl.DataFrame) -> pl.DataFrame:
        """One row for each replicate, in order. The other columns are averages over the seeds of the replicate."""
        if not self.are_networks:
            return rows.sort(RUN)
        values = pl.exclude(RUN).mean()
        averaged = rows.group_by("network").agg(pl.col("seed").min(), values).select(rows.columns)
        return averaged.sort(pl.col("network").str.len_chars(), "network")

    def samples(self, rows: pl.DataFrame, column: str) -> list[list[NDArray[np.float64]]]:
        """The values of a column without nulls: a list for each replicate, with a sample for each of its runs."""
        found: dict[tuple[Any, ...], list[NDArray[np.float64]]] = {}
        for _, of_run in rows.drop_nulls(column).sort(RUN).group_by(RUN, maintain_order=True):
            replicate = of_run.select(self._key).row(0)
            found.setdefault(replicate, []).append(of_run[column].to_numpy().astype(np.float64))
        return list(found.values())

    @property
    def _key(self) -> list[str]:
        return ["network"] if self.are_networks else RUN

    def range_text(self, counts: Sequence[int]) -> str:
        """The range of counts as text: `5 seeds`, or `3 to 5 networks` if the counts differ."""
        fewest, most = min(counts), max(counts)
        return f"{fewest} to {most} {self.name(2)}" if fewest != most else f"{most} {self.name(most)}"

    def text(self) -> str:
        """The numbers of networks and seeds: `5 seeds`, `3 networks, 2 seeds`."""
        networks = f"{len(self.networks)} network{'s' if len(self.networks) != 1 else ''}, " if self.networks else ""
        return f"{networks}{self.seeds} seed{'s' if self.seeds != 1 else ''}"

    def warning(self, counts: Sequence[int]) -> str:
        """A warning if there are few replicates; empty if there are enough."""
        fewest = min(counts, default=0)
        if max(counts, default=0) < 2:
            return f"One {self.name()} gives no interval; use {self._option} 5."
        sentences = []
        if self.of_one_network:
            sentences.append("All seeds use one network, so the results apply to that network only; use --networks 5.")
        if fewest < MIN_REPLICATES:
            least = max(fewest, 2)
            sentences.append(
                f"With {least} {self.name(least)} only very large differences ({stats.t_reach(least):.1f} standard "
                f"deviations) are significant; use {self._option} {MIN_REPLICATES} or more."
            )
        return " ".join(sentences)

    @property
    def _option(self) -> str:
        return "--networks" if self.networks else "--runs"
