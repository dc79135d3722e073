"""Calibrates loss and delays of `kist/authors-tcp` with vanilla alone, for docs/validation/kist.md.

    python benches/kist_tcp.py run FILE                  append a row for each setting that FILE lacks
    python benches/kist_tcp.py table FILE [--markdown PAGE]

The network has the TCP of Shadow 1.9.0, the authors' simulator. Their Internet of 699,029 vertices is not public. The
public one has 183 places, and vanilla's curves show that its delays and losses are too large. The grid varies both, in
networks 101 and 102, which no comparison uses. Misfit and rule are those of benches/kist_delays.py.

On 2026-11-27, six settings ran with a first version of this TCP, and its rule chose 0.75 and 1/8. There, KIST was known
in networks 1 to 3. A review then corrected the TCP. Windows now fall further at a loss, so the grid has smaller losses.
With the TCP of Linux, shorter delays had made KIST's first bytes earlier.

Two properties came after KIST's results with the chosen row were known (23 of 27 claims hold, and vanilla's fast first
bytes are too early and its slow ones too late). An interface that sends the oldest write first, as Shadow's does. And
weights of relays that equal their capacities, so that all relays are equally loaded; with Linux's TCP, these made the
slowest first bytes earlier. Expected before the runs: the tail becomes shorter, and the median does not come later.

This came true, and relays then were too little loaded. So the last three settings have fewer relays for the same
clients, and half of the chosen loss, so that all relays limit the network equally. In the appendices of the paper,
relays limit it, too: with twice the clients they write 18 % more. Expected before the runs: the first bytes spread as
in the paper, from 0.4 s at 10 % to 2 s at 90 %, with one of the three numbers of relays. They did not, so the chosen
network stays, and benches/kist_exits.py continues.
"""

from typing import NamedTuple

import grids
import kist_delays
from grids import Row
from kist_delays import CAPACITY, CONSENSUS, measured, table_of

SCENARIO = "kist/authors-tcp"
BLOCK = "benches/kist_tcp.py table"


class Setting(NamedTuple):
    """A network of the grid."""

    delays: float
    """The factor on all delays."""
    loss: float
    """The factor on the losses of places."""
    weights: str = CONSENSUS
    """CONSENSUS, or CAPACITY if the weight of a relay is its capacity."""
    order: str = "arrival"
    """The order in which interfaces send packets."""
    relays: int = 360

    def overrides(self) -> list[str]:
        """The overrides of the scenario that make the setting."""
        sets = [f"network.place_latency={self.delays}", f"network.place_loss={self.loss}"]
        if self.weights == CAPACITY:
            sets.append("relays.relay.era_weights=false")
        if self.order != "arrival":
            sets.append(f'tcp.interface_order="{self.order}"')
        return [*sets, f"relays.relay.count={self.relays}"]


LOSSES = {1: (1 / 32, 1 / 16, 1 / 8), 0.75: (1 / 32, 1 / 16, 1 / 8), 0.5: (1 / 32, 1 / 16)}
"""The losses with each of the delays."""

GRID = tuple(Setting(delays, loss) for delays, losses in LOSSES.items() for loss in losses)
"""The settings among which the rule chooses the network of `kist/authors-tcp`."""

SETTINGS = (
    *GRID,
    Setting(0.75, 1 / 16, order="oldest-write"),
    *(Setting(0.75, 1 / 16, CAPACITY), Setting(1, 1 / 32, CAPACITY)),
    *(Setting(delays, 1 / 32, CAPACITY, relays=relays) for delays, relays in ((0.5, 250), (0.5, 200), (0.75, 250))),
)


def row(setting: Setting) -> Row:
    """The results of vanilla in this setting."""
    return {**setting._asdict(), **measured(SCENARIO, setting.overrides())}


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return Setting(**{key: row[key] for key in Setting._fields if key in row})


def chosen(rows: list[Row]) -> Row:
    """The row of the grid that the rule chooses."""
    return kist_delays.chosen([row for row in rows if setting_of(row) in GRID])


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    return table_of(rows, "delays, loss of places", lambda row: name(setting_of(row)), chosen)


def name(setting: Setting) -> str:
    """The setting in a table."""
    of_weights = ", weights are capacities" if setting.weights == CAPACITY else ""
    of_order = ", oldest write first" if setting.order == "oldest-write" else ""
    of_relays = f", {setting.relays} relays" if setting.relays != 360 else ""
    return f"{setting.delays:g}, 1/{1 / setting.loss:g}{of_weights}{of_relays}{of_order}"


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, SETTINGS, setting_of, row, table)


if __name__ == "__main__":
    main()
