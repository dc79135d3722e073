"""Calibrates `kist/authors-exits` with vanilla alone, for docs/validation/kist.md.

    python benches/kist_exits.py run FILE                  append a row for each setting that FILE lacks
    python benches/kist_exits.py table FILE [--markdown PAGE]

In the paper's figure 4, cells of vanilla wait longest in the kernels of exits. The scenario makes exits scarce: some
relays have the flags of 2013, and all others may be guards, but not exits. The grid varies delays, losses and the
number of relays with flags, in networks 101 to 104, which no comparison uses. Rule and misfit are those of
benches/kist_delays.py. Figure 4 is not part of the misfit.

Two earlier models of the authors' TCP are known. With two reductions of the window for each loss (until commit
b7fade09), ten settings were tried, and 0.6, 1/16 and 170 were chosen; all schedulers ran there. With one reduction
(9870fdaa), vanilla and KIST ran in networks 1 to 5 of this setting: relays of vanilla wrote 26 % more than the paper's,
and its median bulk download was 18 % shorter. The grid has the model of cc44f0d4. With its first two settings,
downloads were still too short and the slowest first bytes too late, so four settings have more loss and more exits.
Their median first bytes were too early, so the last two have fewer exits.
"""

from typing import NamedTuple

import grids
import kist_delays
from grids import Row
from kist_loss import POSITIONS, vanilla

from penstock import generated, stats

SCENARIO = "kist/authors-exits"
BLOCK = "benches/kist_exits.py table"
RELAYS = 360
NETWORKS = [101, 102, 103, 104]
"""More than in other grids, because exits decide how congested a network is."""
KERNEL = {"guard": 0.124, "middle": 0.218, "exit": 0.833}
"""The third quartile of vanilla's waits in the outgoing kernel, in the paper's figures 4a to 4c [s]."""


class Setting(NamedTuple):
    """A network of the grid."""

    delays: float
    """The factor on all delays."""
    loss: float
    """The factor on the losses of places."""
    flagged: int
    """The relays with the flags of 2013. A quarter of them are exits. The other relays are not exits."""

    def overrides(self) -> list[str]:
        """The overrides of the scenario that make the setting."""
        return [
            f"network.place_latency={self.delays}",
            f"network.place_loss={self.loss}",
            f"relays.relay.count={self.flagged}",
            f"relays.nonexit.count={RELAYS - self.flagged}",
        ]


SETTINGS = (
    *(Setting(0.6, 1 / 10, 170), Setting(0.6, 1 / 16, 170)),
    *(Setting(0.6, 1 / 8, 180), Setting(0.6, 1 / 7, 200), Setting(0.5, 1 / 7, 190), Setting(0.6, 1 / 6, 190)),
    *(Setting(0.6, 1 / 6, 165), Setting(0.6, 1 / 5, 170)),
)


def row(setting: Setting) -> Row:
    """The results of vanilla in this setting, of its networks together."""
    with vanilla(SCENARIO, [*setting.overrides(), f"run.networks={NETWORKS}"]) as values:
        kernel = {hop: stats.quantile(values("kernel_out_s", hop), 0.75) for hop in POSITIONS}
        return {**setting._asdict(), **kist_delays.quantiles(values), **kernel}


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return Setting(*(row[key] for key in Setting._fields))


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    of_paper = kist_delays.paper()
    choice = kist_delays.chosen(rows)
    head = ["delays, loss of places, relays with flags", "first byte: 10, 50, 90 %", "web: 10, 50, 80 %"]
    head += ["bulk: 10, 50, 90 %", "wait on a circuit: 20, 50, 80 %", "relays write"]
    head += ["kernel of guard, middle, exit: 75 %", "misfit"]
    lines = []
    for each in rows:
        setting = setting_of(each)
        name = f"{setting.delays:g}, 1/{1 / setting.loss:.0f}, {setting.flagged}"
        misfit = kist_delays.misfit(each, of_paper)
        lines.append(
            [
                f"**{name}**" if each is choice else name,
                *kist_delays.numbers(each),
                ", ".join(f"{each[hop]:.2g}" for hop in POSITIONS) + " s",
                f"{misfit:.3f}",
            ]
        )
    kernel = ", ".join(f"{wait:.2g}" for wait in KERNEL.values()) + " s"
    return generated.table(head, [*lines, ["paper", *kist_delays.numbers(of_paper), kernel, ""]])


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, SETTINGS, setting_of, row, table)


if __name__ == "__main__":
    main()
