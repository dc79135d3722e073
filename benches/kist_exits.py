"""Calibrates `kist/authors-exits` with vanilla alone, for docs/validation/kist.md.

    python benches/kist_exits.py run FILE                  append a row for each setting that FILE lacks
    python benches/kist_exits.py table FILE [--markdown PAGE]

In the paper's figure 4, cells of vanilla wait longest in the kernels of exits. In `kist/authors-tcp`, they wait longest
in those of middles, exits use a quarter of their capacity, and first bytes spread too much. The grid makes exits
scarce: some relays lose the flags of 2013, and all of these may be guards, but not exits. Rule and misfit are those of
benches/kist_delays.py, in networks from 101 on, which no comparison uses. Figure 4 is not part of the misfit.

An exploration, whose other relays had another name and therefore other draws, had four settings: weights of 2013 with
270 and 180 relays, and capacities with 150 and 100. KIST's results were known only in `kist/authors-tcp`, and in
networks 1 and 2 of a network with equally loaded relays (docs/validation/kist.md). 150 and capacities fitted best, but
relays wrote too much, so the other settings have fewer exits or more loss.

The last four settings have interfaces that send the oldest write first, as Shadow's do, and four networks, because
exits decide how congested a network is. The rule chooses among them, because this interface is a known property of the
authors' simulator. Two earlier calibrations of it in networks 101 and 102 had two models (docs/validation/kist.md):
waiting data used the send buffer once (chosen: 0.5, 1/24, 170) and twice (0.6, 1/24, 150). The third model adds parts
of records, and relays that run once after a received batch. Its first setting is the one that the second calibration
chose. The other three were chosen after it had run: there, vanilla's first bytes and pages come too late, relays write
too much and bulk downloads are short, so these have more exits and more loss. Five networks of all schedulers were
known with the first two models.
"""

from typing import NamedTuple

import grids
import kist_delays
from grids import Row
from kist_delays import CAPACITY, CONSENSUS
from kist_loss import MIB, POSITIONS, vanilla

from penstock import generated, stats

SCENARIO = "kist/authors-exits"
BLOCK = "benches/kist_exits.py table"
RELAYS = 360
KERNEL = {"guard": 0.124, "middle": 0.218, "exit": 0.833}
"""The third quartile of vanilla's waits in the outgoing kernel, in the paper's figures 4a to 4c [s]."""


class Setting(NamedTuple):
    """A network of the grid."""

    delays: float
    """The factor on all delays."""
    loss: float
    """The factor on the losses of places."""
    flagged: int
    """The relays with the flags of 2013. A quarter of them are exits. The others of the 360 are none."""
    weights: str = CAPACITY
    """CONSENSUS, or CAPACITY if the weight of a relay is its capacity."""
    order: str = "arrival"
    """The order in which interfaces send packets."""
    networks: int = 2
    """The number of networks, from 101 on."""

    def overrides(self) -> list[str]:
        """The overrides of the scenario that make the setting."""
        of_weights = str(self.weights == CONSENSUS).lower()
        return [
            f"network.place_latency={self.delays}",
            f"network.place_loss={self.loss}",
            f"relays.relay.count={self.flagged}",
            f"relays.nonexit.count={RELAYS - self.flagged}",
            *(f"relays.{group}.era_weights={of_weights}" for group in ("relay", "nonexit")),
            f'tcp.interface_order="{self.order}"',
        ]


SETTINGS = (
    *(Setting(0.6, 1 / 32, flagged) for flagged in (150, 135)),
    *(Setting(0.6, 1 / 24, 140), Setting(0.5, 1 / 24, 135), Setting(0.6, 1 / 16, 150)),
    Setting(0.75, 1 / 32, 180, CONSENSUS),
    *(
        Setting(delays, loss, flagged, order="oldest-write", networks=4)
        for delays, loss, flagged in ((0.6, 1 / 24, 150), (0.5, 1 / 16, 160), (0.5, 1 / 20, 170), (0.6, 1 / 16, 170))
    ),
)


def row(setting: Setting) -> Row:
    """The results of vanilla in this setting, of its networks together."""
    networks = [*range(101, 101 + setting.networks)]
    with vanilla(SCENARIO, [*setting.overrides(), f"run.networks={networks}"]) as values:
        samples = {
            "first_byte": values("ttfb_s"),
            "web": values("ttlb_s", workload="web"),
            "bulk": values("ttlb_s", workload="bulk"),
            "circuit_wait": values("circuit_wait_s", "client"),
            "writes": values("network_written_bytes") / MIB,
        }
        kernel = {hop: stats.quantile(values("kernel_out_s", hop), 0.75) for hop in POSITIONS}
    drawn = kist_delays.DRAWN.values()
    return {
        **setting._asdict(),
        **{key: [stats.quantile(samples[key], share) for share in shares] for key, shares in drawn},
        **kernel,
    }


def chosen(rows: list[Row]) -> Row:
    """The row that the rule chooses among those with the order of the authors' simulator."""
    return kist_delays.chosen([row for row in rows if setting_of(row).order == "oldest-write"])


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return Setting(**{key: row[key] for key in Setting._fields if key in row})


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    of_paper = kist_delays.paper()
    choice = chosen(rows)
    head = ["delays, loss of places, relays with flags", "first byte: 10, 50, 90 %", "web: 10, 50, 80 %"]
    head += ["bulk: 10, 50, 90 %", "wait on a circuit: 20, 50, 80 %", "relays write"]
    head += ["kernel of guard, middle, exit: 75 %", "misfit"]
    lines = []
    for each in rows:
        setting = setting_of(each)
        name = f"{setting.delays:g}, 1/{1 / setting.loss:.0f}, {setting.flagged}"
        name += ", weights of 2013" if setting.weights == CONSENSUS else ""
        name += ", oldest write first" if setting.order == "oldest-write" else ""
        name += ", four networks" if setting.networks == 4 else ""
        misfit = kist_delays.misfit({key: each[key] for key in of_paper}, of_paper)
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
