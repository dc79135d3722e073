"""Calibrates the authors' network of KIST with vanilla's curves at both loads, for docs/validation/kist.md.

    python benches/kist_loads.py run FILE                  append a row for each setting that FILE lacks
    python benches/kist_loads.py table FILE [--markdown PAGE]

The network has the TCP of Shadow 1.9.0. The paper's appendices (report UMN 14-012) have curves of vanilla with twice
the clients. There, all quantiles of first bytes are later, and relays write only 18 % more, so relays probably limit
the network, and not losses. The grid varies what the paper does not state: delays and losses of its Internet, and the
capacity of the relays, which their number stands for. It runs in networks 101 and 102, which no comparison uses.

The rule: the setting with the smallest sum of the misfits at both loads. A misfit is that of benches/kist_delays.py; at
the double load, it compares the quantiles that figures A2, A3c and A4a to A4c draw.

On 2026-11-27, when the grid was chosen, these results were known. With a first version of this TCP: global scheduling's
and KIST's in networks 1 to 3 with 0.75, 1/8, 360, and vanilla's at both loads in this setting. With the final one:
vanilla's single load in the settings of benches/kist_tcp.py, and all schedulers in network 1 with 0.75, 1/16, 360. If
the grid chooses the network of a scenario, the claims `double-vanilla-*` do not test it.
"""

from typing import NamedTuple

import grids
import kist_delays
from grids import Row

from penstock import generated

SINGLE, DOUBLE = "kist/authors-tcp", "kist/authors-tcp-double"
BLOCK = "benches/kist_loads.py table"

DRAWN_DOUBLE = {
    "A4a": ("first_byte", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
    "A4b": ("web", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
    "A4c": ("bulk", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
    "A3c": ("circuit_wait", [0.3, 0.4, 0.5, 0.6]),
    "A2": ("writes", [0.5]),
}
"""The keys of a row's second half and the compared quantiles of each figure."""


class Setting(NamedTuple):
    """A network of the grid."""

    delays: float
    """The factor on all delays."""
    loss: float
    """The factor on the losses of places."""
    relays: int

    def overrides(self) -> list[str]:
        """The overrides of both scenarios that make the setting."""
        return [
            f"network.place_latency={self.delays}",
            f"network.place_loss={self.loss}",
            f"relays.relay.count={self.relays}",
        ]


SETTINGS = (
    *(Setting(0.75, 1 / 16, 360), Setting(0.5, 1 / 32, 250), Setting(0.5, 1 / 64, 250)),
    *(Setting(0.5, 1 / 64, 200), Setting(0.75, 1 / 64, 250), Setting(0.6, 1 / 32, 300)),
)

LOADS = {"single": (SINGLE, kist_delays.DRAWN, 1), "double": (DOUBLE, DRAWN_DOUBLE, 2)}
"""The scenario of each load, its figures, and its clients in those of the single load."""


def paper(load: str) -> Row:
    """The quantiles of the paper's vanilla [s], and the bytes of a tenth of its relays [MiB/s]."""
    _, drawn, times = LOADS[load]
    return kist_delays.paper(drawn, times)


def row(setting: Setting) -> Row:
    """The results of vanilla in this setting with both loads."""
    measured = {
        load: kist_delays.measured(scenario, setting.overrides(), drawn) for load, (scenario, drawn, _) in LOADS.items()
    }
    return {**setting._asdict(), **measured}


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return Setting(row["delays"], row["loss"], row["relays"])


def misfits(row: Row) -> dict[str, float]:
    """The misfit at each load."""
    return {load: kist_delays.misfit(row[load], paper(load)) for load in LOADS}


def chosen(rows: list[Row]) -> Row:
    """The row that the rule chooses."""
    return min(rows, key=lambda row: sum(misfits(row).values()))


def table(rows: list[Row]) -> str:
    """Two lines for each row, one for each load, as a table in Markdown; the chosen row is bold."""
    head = ["delays, loss of places, relays; load", "first byte: 10, 50, 90 %", "web: 10, 50, 80 %"]
    head += ["bulk: 10, 50, 90 %", "wait on a circuit: 20 or 30, 50, 80 or 60 %", "relays write", "misfit, sum"]
    choice = chosen(rows)
    lines = []
    for row in rows:
        parts, (delays, loss, relays) = misfits(row), setting_of(row)
        name = f"{delays:g}, 1/{1 / loss:g}, {relays}"
        for load, (_, drawn, _) in LOADS.items():
            total = f", {sum(parts.values()):.3f}" if load == "double" else ""
            title = f"**{name}**" if row is choice else name
            lines.append([f"{title}; {load}", *kist_delays.numbers(row[load], drawn), f"{parts[load]:.3f}{total}"])
    lines += [[f"paper; {load}", *kist_delays.numbers(paper(load), drawn), ""] for load, (_, drawn, _) in LOADS.items()]
    return generated.table(head, lines)


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, SETTINGS, setting_of, row, table)


if __name__ == "__main__":
    main()
