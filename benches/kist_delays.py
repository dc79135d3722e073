"""Calibrates delays and the number of relays of `kist/authors-writes` with vanilla alone, for docs/validation/kist.md.

    python benches/kist_delays.py run FILE                      append a row for each setting that FILE lacks
    python benches/kist_delays.py table FILE [--markdown PAGE]

In the authors' public network, cells travel so long that idle KIST is slower than the paper's KIST under load. Their
experiments used another, unpublished map of the Internet. The grid changes all delays, the number of relays for the
same clients, and whether the weights of relays differ from their capacities as in a consensus, in networks 101 and 102,
which no comparison uses. It is compared with the curves of vanilla:

- the times to first byte of all clients (figure 7a), of downloads of web and bulk clients (7b, 7c), and the waits of
  cells on their circuits (6c), at the tenths that are drawn;
- the bytes that all relays write in the median second (figure 8).

An earlier grid of eight settings (2026-11-26) was compared with three medians of the paper's text, and KIST's results
with 0.5, 250 and 0.85, 300 were known before the curves. Weights came later: after the first three settings, whose
fewer relays made the slowest first bytes too late. The last setting came after 0.5, 300, with which relays write too
much.

The rule: the setting with the smallest sum of the five misfits. A misfit is the mean of the squared logarithms of the
ratios between our quantiles and the paper's.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import grids
from grids import Row
from kist_loss import MIB, vanilla

from penstock import generated, stats
from penstock.paper import curves
from penstock.paper.curves import Curve

SCENARIO = "kist/authors-writes"
BLOCK = "benches/kist_delays.py table"

CONSENSUS, CAPACITY = "consensus", "capacity"


class Setting(NamedTuple):
    """A network of the grid."""

    delays: float
    """The factor on all delays."""
    relays: int
    weights: str = CONSENSUS
    """CONSENSUS, or CAPACITY if the weight of a relay is its capacity."""

    def overrides(self) -> list[str]:
        """The overrides of the scenario that make the setting."""
        sets = [f"network.place_latency={self.delays}", f"relays.relay.count={self.relays}"]
        return sets if self.weights == CONSENSUS else [*sets, "relays.relay.era_weights=false"]


SETTINGS = (
    *(Setting(1.0, 360), Setting(0.85, 300), Setting(0.6, 250), Setting(0.5, 250)),
    *(Setting(0.5, 300, CAPACITY), Setting(0.75, 220, CAPACITY)),
)

DRAWN: dict[str, tuple[str, list[float]]] = {
    "7a": ("first_byte", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
    "7b": ("web", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
    "7c": ("bulk", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
    "6c": ("circuit_wait", [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
    "8": ("writes", [0.5]),
}
"""The keys of a row and the compared quantiles of each figure."""

CLIENTS = 1380
"""The clients of the scenario, a tenth of the paper's."""


@cache
def of_vanilla() -> dict[str, Curve]:
    """The paper's curves of vanilla by figure."""
    return {curve.panel.figure: curve for curve in curves.load("kist") if curve.variant == "vanilla"}


def paper() -> Row:
    """The quantiles of the paper's vanilla [s]. Bytes of relays are those of a tenth of its network [MiB/s]."""
    found = of_vanilla()
    row: Row = {key: [found[figure].quantile(share) for share in shares] for figure, (key, shares) in DRAWN.items()}
    row["writes"] = [CLIENTS * value / MIB for value in row["writes"]]
    return row


def row(setting: Setting) -> Row:
    """The results of vanilla in this setting, of both networks together."""
    with vanilla(SCENARIO, setting.overrides()) as values:
        return {**setting._asdict(), **quantiles(values)}


def quantiles(values: Callable[..., Any]) -> Row:
    """The quantiles at the shares of the paper's curves. `values` gives those of a measure, as in `vanilla`."""
    samples = {
        "first_byte": values("ttfb_s"),
        "web": values("ttlb_s", workload="web"),
        "bulk": values("ttlb_s", workload="bulk"),
        "circuit_wait": values("circuit_wait_s", "client"),
        "writes": values("network_written_bytes") / MIB,
    }
    return {key: [stats.quantile(samples[key], share) for share in shares] for key, shares in DRAWN.values()}


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return Setting(row["delays"], row["relays"], row["weights"])


def misfit(row: Row, to: Row) -> float:
    """The sum over the figures of the mean squared logarithm of the ratios to the paper's quantiles."""
    return sum(grids.mean_square(row[key], to[key]) for key in to)


def chosen(rows: list[Row]) -> Row:
    """The row that the rule chooses."""
    of_paper = paper()
    return min(rows, key=lambda row: misfit(row, of_paper))


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    of_paper = paper()
    choice = chosen(rows)
    head = ["delays, relays, weights", "first byte: 10, 50, 90 %", "web: 10, 50, 80 %", "bulk: 10, 50, 90 %"]
    head += ["wait on a circuit: 20, 50, 80 %", "relays write", "misfit"]
    lines = []
    for row in rows:
        name = f"{row['delays']:g}, {row['relays']}, {row['weights']}"
        misfit_of_row = f"{misfit(row, of_paper):.3f}"
        lines.append([f"**{name}**" if row is choice else name, *numbers(row), misfit_of_row])
    return generated.table(head, [*lines, ["paper", *numbers(of_paper), ""]])


def numbers(row: Row) -> list[str]:
    """The first, the middle and the last quantile of each figure."""
    cells = []
    for key, shares in DRAWN.values():
        values = [row[key][at] for at in sorted({0, shares.index(0.5), len(shares) - 1})]
        cells.append(", ".join(f"{value:.3g}" for value in values) + (" MiB/s" if key == "writes" else " s"))
    return cells


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, SETTINGS, setting_of, row, table)


if __name__ == "__main__":
    main()
