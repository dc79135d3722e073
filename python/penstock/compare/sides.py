"""Compares two sources: quantiles of common downloads, differences with an interval, and failures.

Two outputs of Penstock have one number for each replicate. If they share runs of the same clients in the same network,
these runs form pairs, and the interval is the t interval of the pairs' differences. Without pairs, it is Welch's
interval. For measurements of another tool, it is a bootstrap interval over downloads. That interval describes only
these downloads, because downloads in one network are not independent of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import stats
from penstock.compare import setting
from penstock.compare.source import CLOCKS, Source, Tried, size_name
from penstock.errors import PenstockError
from penstock.replicates import RUN, Replicates
from penstock.stats import Sample
from penstock.summary import METRICS

QUANTILES = {"P10": 0.1, "P50": 0.5, "P90": 0.9, "P99": 0.99}

MOST = 12
"""The maximum number of kinds of downloads in a comparison; kinds with many downloads come first."""

DRAWS = 10_000
"""The number of bootstrap samples."""

PAIRED, WELCH, BOOTSTRAP = "paired", "welch", "bootstrap"
"""The methods for intervals."""


class Kind(NamedTuple):
    """Downloads of one size or of one workload, which can be compared."""

    name: str
    where: pl.Expr


class Row(NamedTuple):
    """One quantile of the download times, for both sources."""

    downloads: str
    """The kind of the downloads."""
    metric: str
    """The column of the time: `ttfb_s` or `ttlb_s`."""
    quantile: str
    a_count: int
    b_count: int
    a_s: float
    """The quantile of A [s]: a mean over replicates, or for a bootstrap the quantile of all downloads."""
    b_s: float
    difference_s: float
    """The difference B - A [s]."""
    low_s: float
    """The lower end of the 95 % interval; NaN if there is none."""
    high_s: float
    interval: str
    """The method for the interval: `paired`, `welch` or `bootstrap`."""
    pairs: int
    """The number of paired replicates; zero without pairs."""
    ks_distance: float
    """The Kolmogorov-Smirnov distance of all pooled downloads."""

    @property
    def decided(self) -> bool:
        """Whether the difference is significant; never for a bootstrap over downloads."""
        return self.interval != BOOTSTRAP and (self.low_s > 0 or self.high_s < 0)


class Failures(NamedTuple):
    """The failed downloads of both sources; None if their size is unknown."""

    downloads: str
    a: Tried | None
    b: Tried | None


@dataclass(frozen=True)
class Comparison:
    """The common downloads of two sources."""

    a: Source
    b: Source
    clock: str
    """The starting point of times: `start` or `request`."""
    kinds: list[Kind]
    rows: list[Row]
    failures: list[Failures]
    """The failures of each kind, and of all kinds."""
    common: Replicates | None
    """The paired replicates; None without pairs."""
    apart: str = ""
    """The reason why two Penstock outputs are not paired; empty if they are paired or from other tools."""
    left_out: tuple[str, ...] = ()
    """Sizes or workloads that are not compared."""

    @property
    def sources(self) -> tuple[Source, Source]:
        """The sources A and B."""
        return self.a, self.b

    @property
    def lettered(self) -> list[tuple[str, Source]]:
        """Both sources, each with its letter A or B."""
        return [("A", self.a), ("B", self.b)]

    def table(self) -> pl.DataFrame:
        """The quantiles as a data frame."""
        return pl.DataFrame([row._asdict() for row in self.rows], infer_schema_length=None)

    def downloads(self) -> pl.DataFrame:
        """Every download of both sources, with times from this comparison's clock."""
        ttfb, ttlb = CLOCKS[self.clock]
        return pl.concat(
            source.downloads.select(
                pl.lit(letter).alias("source"),
                *("network", "seed", "workload", "bytes", "part"),
                ttfb_s=ttfb,
                ttlb_s=ttlb,
                outcome="outcome",
            )
            for letter, source in self.lettered
        )


def compare(a: Source, b: Source, clock: str | None = None) -> Comparison:
    """Compare the common downloads.

    Raises:
        PenstockError: if they have no kind of downloads, or no clock, in common.
    """
    clock = _clock(a, b, clock)
    kinds, left_out = _kinds(a, b)
    common, apart = _common(a, b)
    rows = [
        row
        for kind in kinds
        for metric, column in zip(METRICS, CLOCKS[clock], strict=True)
        for row in _rows(a, b, kind, metric.column, column, common)
    ]
    if not rows:
        raise PenstockError(f"{a.label} and {b.label} have no common downloads with times from the {clock}")
    return Comparison(a, b, clock, kinds, rows, _failures(a, b, kinds), common, apart, left_out)


def _clock(a: Source, b: Source, asked: str | None) -> str:
    both = [clock for clock in CLOCKS if clock in a.clocks and clock in b.clocks]
    if asked is None and both:
        return both[0]
    if asked in both:
        return str(asked)
    times = [f"times from the {' and the '.join(each.clocks)}" if each.clocks else "no times" for each in (a, b)]
    have = "; ".join(f"{each.label} has {said}" for each, said in zip((a, b), times, strict=True))
    raise PenstockError(
        f"{have}: " + (f"both need it for --clock {asked}" if asked else "they have no clock in common")
    )


def _kinds(a: Source, b: Source) -> tuple[list[Kind], tuple[str, ...]]:
    """The compared kinds, and those left out. Kinds are workloads if both outputs share one, otherwise sizes."""
    column = "workload" if a.ours and b.ours and set(_names(a, "workload")) & set(_names(b, "workload")) else "bytes"
    in_a, in_b = _names(a, column), _names(b, column)
    shared = {name: min(in_a[name], in_b[name]) for name in in_a if name in in_b}
    if not shared:
        described = "; ".join(f"{each.label} has {_listed(names, column)}" for each, names in ((a, in_a), (b, in_b)))
        raise PenstockError(f"the two sources have no download size in common: {described}")
    chosen = set(sorted(shared, key=lambda name: -shared[name])[:MOST])
    if column == "bytes":
        for source in (a, b):
            _check_unmixed(source, chosen)
        ordered = sorted(chosen)
    else:
        sizes = dict(a.downloads.group_by("workload").agg(pl.col("bytes").median()).iter_rows())
        ordered = sorted(chosen, key=lambda name: (sizes[name], name))
    others = [name for name in {**in_a, **in_b} if name not in chosen]
    kinds = [Kind(_name(name, column), pl.col(column) == name) for name in ordered]
    return kinds, tuple(_name(name, column) for name in sorted(others))


def _names(source: Source, column: str) -> dict[str | int, int]:
    whole = source.downloads.filter(outcome="ok").drop_nulls(column)
    return dict(whole[column].value_counts(sort=True).sort(column).iter_rows())


def _check_unmixed(source: Source, sizes: set[str | int]) -> None:
    mixed = (
        source.downloads.filter(pl.col("bytes").is_in(list(sizes)))
        .drop_nulls("workload")
        .group_by("bytes")
        .agg(pl.col("workload").unique().sort())
        .filter(pl.col("workload").list.len() > 1)
        .sort("bytes")
    )
    for size, workloads in mixed.iter_rows():
        raise PenstockError(
            f"{source.label}: {' and '.join(workloads)} download {size_name(size)}; "
            f"choose one, such as --workload {workloads[-1]}"
        )


def _listed(names: dict[str | int, int], column: str) -> str:
    shown = [_name(name, column) for name in list(names)[:MOST]]
    return ", ".join(shown) + (" and more" if len(names) > MOST else "")


def _name(name: str | int, column: str) -> str:
    return size_name(int(name)) if column == "bytes" else str(name)


def _common(a: Source, b: Source) -> tuple[Replicates | None, str]:
    if a.setting is None or b.setting is None:
        return None, ""
    if key := setting.apart(a.setting, b.setting):
        return None, f"they differ in {key}"
    shared = a.downloads.select(RUN).unique().join(b.downloads.select(RUN).unique(), on=RUN)
    return (Replicates.in_rows(shared), "") if shared.height else (None, "they have no network and seed in common")


Difference = tuple[float, float, float, float, float, str, int]
"""The columns of a `Row` from `a_s` to `pairs`."""


def _rows(a: Source, b: Source, kind: Kind, metric: str, column: str, common: Replicates | None) -> list[Row]:
    """The quantiles of one metric and kind of downloads; empty if a source lacks this time."""
    values = [each.downloads.filter(kind.where, outcome="ok").drop_nulls(column) for each in (a, b)]
    first, second = (rows[column].to_numpy() for rows in values)
    if not first.size or not second.size:
        return []
    distance = stats.ks_distance(first, second)
    found = []
    for name, q in QUANTILES.items():
        if a.ours and b.ours:
            of_a, of_b = (rows.group_by(RUN).agg(value=pl.col(column).quantile(q, "linear")) for rows in values)
            columns = (_paired(of_a, of_b, common) if common else None) or _unpaired(
                a.replicates.average(of_a), b.replicates.average(of_b)
            )
        else:
            columns = _bootstrapped(first, second, q)
        found.append(Row(kind.name, metric, name, int(first.size), int(second.size), *columns, distance))
    return found


def _paired(a: pl.DataFrame, b: pl.DataFrame, common: Replicates) -> Difference | None:
    """Mean quantiles over replicates, and the t interval of the paired differences; None without pairs."""
    both = common.average(a.join(b, on=RUN, suffix="_of_b"))
    if both.is_empty():
        return None
    of_a, of_b = both["value"].to_numpy(), both["value_of_b"].to_numpy()
    found = stats.paired(of_a, of_b)
    return stats.mean(of_a), stats.mean(of_b), found.mean, found.low, found.high, PAIRED, found.pairs


def _unpaired(a: pl.DataFrame, b: pl.DataFrame) -> Difference:
    """Means over each side's own replicates, and Welch's interval of their difference."""
    of_a, of_b = a["value"].to_numpy(), b["value"].to_numpy()
    return stats.mean(of_a), stats.mean(of_b), *stats.welch(of_a, of_b), WELCH, 0


def _bootstrapped(a: Sample, b: Sample, q: float) -> Difference:
    """Quantiles of all downloads, and the bootstrap percentile interval of their difference."""
    generator = np.random.default_rng(0)
    of_a, of_b = (stats.quantile(each, q) for each in (a, b))
    anew = [_quantiles_anew(each, q, generator) for each in (b, a)]
    low, high = np.quantile(np.subtract(*anew), [0.025, 0.975])
    return of_a, of_b, of_b - of_a, float(low), float(high), BOOTSTRAP, 0


def _quantiles_anew(sample: Sample, q: float, generator: np.random.Generator) -> NDArray[np.float64]:
    """Quantiles of bootstrap samples. A sample has n values, and its quantile is the k-th smallest with k = ⌈q n⌉.

    Each value of a bootstrap sample is the sorted sample's value at a random index ⌊n U⌋, with U uniform in [0, 1). The
    k-th smallest of n numbers U has the distribution Beta(k, n - k + 1). One such number B gives the quantile at the
    index ⌊n B⌋.
    """
    values = np.sort(np.asarray(sample, dtype=np.float64))
    n = values.size
    k = max(1, int(np.ceil(q * n)))
    places = np.floor(n * generator.beta(k, n - k + 1, size=DRAWS)).astype(np.int64)
    return np.asarray(values[np.minimum(places, n - 1)])


def _failures(a: Source, b: Source, kinds: Sequence[Kind]) -> list[Failures]:
    each = [Failures(kind.name, _tried(a, kind.where), _tried(b, kind.where)) for kind in kinds]
    any_kind = pl.any_horizontal([kind.where for kind in kinds])
    everything = Failures("all", a.tried or _tried(a, any_kind), b.tried or _tried(b, any_kind))
    return [*each, everything]


def _tried(source: Source, where: pl.Expr) -> Tried | None:
    """The numbers of failed and of all ended downloads; None if the sizes of failed downloads are unknown."""
    if source.tried is not None:
        return None
    rows = source.downloads.filter(where, ~pl.col("part"), pl.col("outcome") != "unfinished")
    return Tried(rows.filter(pl.col("outcome") != "ok").height, rows.height) if rows.height else None
