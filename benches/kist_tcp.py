"""Calibrates loss and delays of `kist/authors-tcp` with vanilla alone, for docs/validation/kist.md.

    python benches/kist_tcp.py run FILE                  append a row for each setting that FILE lacks
    python benches/kist_tcp.py table FILE [--markdown PAGE]

The network has the TCP of Shadow 1.9.0, the authors' simulator. Their Internet of 699,029 vertices is not public. The
public one has 183 places, and vanilla's curves show that its delays and losses are too large. The grid varies both, in
networks 101 and 102, which no comparison uses. Misfit and rule are those of benches/kist_delays.py.

On 2026-11-27, six settings ran with a first version of this TCP, and its rule chose 0.75 and 1/8. There, KIST was known
in networks 1 to 3. A review then corrected the TCP. Windows now fall further at a loss, so the grid has smaller losses.
With the TCP of Linux, shorter delays had made KIST's first bytes earlier.
"""

from typing import NamedTuple

import grids
from grids import Row
from kist_delays import measured, table_of

SCENARIO = "kist/authors-tcp"
BLOCK = "benches/kist_tcp.py table"


class Setting(NamedTuple):
    """A network of the grid."""

    delays: float
    """The factor on all delays."""
    loss: float
    """The factor on the losses of places."""

    def overrides(self) -> list[str]:
        """The overrides of the scenario that make the setting."""
        return [f"network.place_latency={self.delays}", f"network.place_loss={self.loss}"]


LOSSES = {1: (1 / 32, 1 / 16, 1 / 8), 0.75: (1 / 32, 1 / 16, 1 / 8), 0.5: (1 / 32, 1 / 16)}
"""The losses with each of the delays."""

SETTINGS = tuple(Setting(delays, loss) for delays, losses in LOSSES.items() for loss in losses)


def row(setting: Setting) -> Row:
    """The results of vanilla in this setting."""
    return {**setting._asdict(), **measured(SCENARIO, setting.overrides())}


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return Setting(row["delays"], row["loss"])


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    return table_of(rows, "delays, loss of places", lambda row: f"{row['delays']:g}, 1/{1 / row['loss']:g}")


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, SETTINGS, setting_of, row, table)


if __name__ == "__main__":
    main()
