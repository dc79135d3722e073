"""Calibrates DefenestraTor's network of 20 relays with stock Tor alone, for docs/validation/defenestrator.md.

    python benches/windows_network.py run FILE                      append a row for each setting that FILE lacks
    python benches/windows_network.py table FILE [--markdown PAGE]

The paper sampled its bandwidths and does not state them. Our bandwidths make a saturated network, and figure 11 shows a
network with little load. The grid changes the sum of the bandwidths, the method that limits a relay, the send buffers
and the weights of relays when clients draw paths, in runs of 6 minutes with seeds 101 and 102, which no claim uses.

The rule, written before the first run: the setting with the smallest misfit, the mean of the squared logarithms of the
ratios between stock Tor's quantiles 0.1 to 0.9 and the paper's, of both panels of figure 11. The runs stopped for lack
of time after seven of the twenty settings (2026-11-27), of which the last two were chosen when the others were known.
"""

import tempfile
import tomllib
from itertools import product
from pathlib import Path

import grids
from grids import Row
from windows_baseline import SHARES, misfit

from penstock import catalog, generated, runs, stats
from penstock.paper import curves
from penstock.paper.measures import sample

SCENARIO = "defenestrator/larger"
BLOCK = "benches/windows_network.py table"

Setting = tuple[float, str, str, str]
"""The factor on all bandwidths, the kind of the limit, the send buffers, and the weights."""

SETTINGS: tuple[Setting, ...] = (
    (1, "bucket", "64 KiB", "bandwidth"),
    *product((2, 3, 4, 6), ("bucket", "link"), ("64 KiB", "auto"), ("bandwidth",)),
    *product((4, 8, 16), ("bucket",), ("64 KiB",), ("equal",)),
)
FIGURES = {"11a": "ttfb_s", "11b": "ttlb_s"}
"""The measure of each panel."""


def paper() -> Row:
    """The quantiles of stock Tor in the paper."""
    found = {curve.panel.figure: curve for curve in curves.load("defenestrator") if curve.variant == "stock"}
    return {figure: [found[figure].quantile(share) for share in SHARES] for figure in FIGURES}


def overrides(setting: Setting) -> list[str]:
    """The overrides of the scenario that make a setting."""
    factor, kind, buffers, weights = setting
    sets = [f'tcp.send_buffer="{buffers}"']
    for name, relay in tomllib.loads(catalog.load(SCENARIO)[1].resolved("stock"))["relays"].items():
        rate = f"{factor * int(relay['bandwidth_rate'].removesuffix(' KiB/s')):g} KiB/s"
        sets.append(f'relays.{name}.bandwidth_rate="{rate if kind == "bucket" else "none"}"')
        if kind == "link":
            sets.append(f'relays.{name}.link="{rate}"')
        if weights == "equal":
            sets.append(f'relays.{name}.weight="1 MiB/s"')
    return sets


def row(setting: Setting) -> Row:
    """The quantiles of stock Tor with a setting."""
    sets = ["run.seeds=[101, 102]", 'run.duration="6 min"', 'run.warmup="2 min"', *overrides(setting)]
    with tempfile.TemporaryDirectory() as folder:
        result = runs.run(SCENARIO, variants=["stock"], sets=sets, out=Path(folder) / "run", jobs=1)
        values = {figure: sample(result, measure, "stock", "web", "") for figure, measure in FIGURES.items()}
        found = {
            figure: [stats.quantile(each["value"].to_numpy(), share) for share in SHARES]
            for figure, each in values.items()
        }
        return {"setting": list(setting), **found}


def table(rows: list[Row]) -> str:
    """The rows as a table in Markdown; the chosen row is bold."""
    of_paper = paper()
    choice = min(rows, key=lambda row: misfit(row, of_paper))
    head = ["bandwidths, limit, send buffers, weights", "first byte: 10, 50, 90 %", "page: 10, 50, 90 %", "misfit"]
    lines = [
        [f"**{_named(row)}**" if row is choice else _named(row), *_numbers(row), f"{misfit(row, of_paper):.3f}"]
        for row in rows
    ]
    return generated.table(head, [*lines, ["paper", *_numbers(of_paper), ""]])


def _named(row: Row) -> str:
    factor, *others = row["setting"]
    return ", ".join([f"{factor:g} times", *others])


def _numbers(row: Row) -> list[str]:
    return [", ".join(f"{row[figure][at]:.2f}" for at in (0, 4, 8)) + " s" for figure in FIGURES]


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, SETTINGS, lambda row: tuple(row["setting"]), row, table)


if __name__ == "__main__":
    main()
