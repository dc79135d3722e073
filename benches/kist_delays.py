"""Calibrates delays and the number of relays of `kist/authors-writes` with vanilla alone, for docs/validation/kist.md.

    python benches/kist_delays.py run FILE                      append a row for each setting that FILE lacks
    python benches/kist_delays.py table FILE [--markdown PAGE]

In the authors' public network, cells travel so long that idle KIST is slower than the paper's KIST under load. Their
experiments used another, unpublished map of the Internet. The grid shortens all delays, and has fewer relays for the
same clients, in networks 101 and 102, which no comparison uses. The paper's numbers of vanilla:

- the median time to first byte is 0.838 s (figure 7a);
- in the median second, relays write about 73 MiB (a tenth of some 730 MiB, figure 8);
- the median wait of a cell on its circuit is 1.010 s (figure 6c).

The rule: the setting with the smallest sum of squared logarithms of the three ratios to these numbers.
"""

import math

import grids
from grids import Row
from kist_loss import MIB, vanilla

from penstock import generated, stats

SCENARIO = "kist/authors-writes"
BLOCK = "benches/kist_delays.py table"

SETTINGS = ((1.0, 360), (0.85, 300), (0.75, 270), (0.7, 250), (0.6, 250), (0.6, 216), (0.5, 250), (0.5, 216))
"""The factor on all delays, and the number of relays."""

PAPER = {"first_byte_50": 0.838, "writes": 73.0, "circuit_wait_50": 1.010}
"""The paper's numbers of vanilla: s, MiB/s, s."""


def overrides(delays: float, relays: int) -> list[str]:
    """The overrides of the scenario that make a setting."""
    return [f"network.place_latency={delays}", f"relays.relay.count={relays}"]


def row(setting: tuple[float, int]) -> Row:
    """The results of vanilla in this setting, of both networks together."""
    with vanilla(SCENARIO, overrides(*setting)) as values:

        def median(*measured: str) -> float:
            return stats.quantile(values(*measured), 0.5)

        return {
            "delays": setting[0],
            "relays": setting[1],
            "first_byte_50": median("ttfb_s"),
            "writes": median("network_written_bytes") / MIB,
            "circuit_wait_50": median("circuit_wait_s", "client"),
        }


def misfit(row: Row) -> float:
    """The sum of squared logarithms of the ratios to the paper's numbers."""
    return sum(math.log(row[key] / paper) ** 2 for key, paper in PAPER.items())


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    choice = min(rows, key=misfit)
    head = ["delays, relays", "first byte, median", "relays write", "wait on a circuit, median", "misfit"]
    lines = [
        [
            f"**{row['delays']:g}, {row['relays']}**" if row is choice else f"{row['delays']:g}, {row['relays']}",
            f"{row['first_byte_50']:.2f} s",
            f"{row['writes']:.1f} MiB/s",
            f"{row['circuit_wait_50']:.2f} s",
            f"{misfit(row):.2f}",
        ]
        for row in rows
    ]
    paper = ["paper", f"{PAPER['first_byte_50']:.2f} s", f"{PAPER['writes']:.0f} MiB/s"]
    return generated.table(head, [*lines, [*paper, f"{PAPER['circuit_wait_50']:.2f} s", ""]])


def main() -> None:
    """Run the grid, or print its table."""
    parser, _ = grids.parser(__doc__)
    asked = parser.parse_args()
    rows = grids.read(asked.file)
    if asked.command == "run":
        done = {(each["delays"], each["relays"]) for each in rows}
        grids.append(asked.file, (setting for setting in SETTINGS if setting not in done), row)
    else:
        grids.show(table(rows), asked.markdown, BLOCK)


if __name__ == "__main__":
    main()
