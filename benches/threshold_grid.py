"""Searches the parameters of the threshold throttle on a larger grid, for docs/validation/throttling.md.

    python benches/threshold_grid.py run FILE       append a row for each setting that FILE lacks
    python benches/threshold_grid.py table FILE [--markdown PAGE]

The scenario is `throttling/guard` under medium load with seeds 11 and 12, as in the first calibration. The rule is the
same: of the settings within 1 % of the shortest mean web download, the one with which bulk clients receive most bytes.
"""

import itertools
import tempfile
from pathlib import Path

import grids
import polars as pl
from grids import Row

from penstock import generated, runs

SCENARIO = "throttling/guard"
BLOCK = "benches/threshold_grid.py table"

FRACTIONS, REFRESHES, HALF_LIVES = (0.1, 0.2, 0.3, 0.5), (1, 5, 10), (10, 30, 90)
"""T [1], R [s] and H [s] of the grid; the floor is 20 KiB/s."""

Setting = tuple[float, int, int, str]

GRID: list[Setting] = [
    (*point, counted)
    for counted in ("mean", "written")
    for point in itertools.product(FRACTIONS, REFRESHES, HALF_LIVES)
    if counted == "mean" or point[1:] == (1, 30)
]
"""All settings: the throughput is the mean of both directions, or written bytes at one R and H."""


def overrides(setting: Setting) -> list[str]:
    """The overrides of both guards."""
    fraction, refresh, half_life, counted = setting
    throttle = (
        f'{{ kind = "threshold", fraction = {fraction}, refresh = "{refresh} s", half_life = "{half_life} s", '
        f'floor = "20 KiB/s", throughput = "{counted}" }}'
    )
    return [f"relays.guard{guard}.throttle={throttle}" for guard in (1, 2)]


def row(setting: Setting) -> Row:
    """The results of web and bulk clients with this setting: means over both seeds."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [*overrides(setting), "trace.workloads=[]"]
        out = Path(folder) / "run"
        result = runs.run(SCENARIO, variants=["vanilla-medium"], seed=11, runs=2, sets=sets, out=out)
        downloads = result.transfers.filter(~pl.col("warmup"))
    web = downloads.filter(pl.col("workload") == "web", pl.col("ttlb_s").is_not_null())
    times = web.group_by("seed").agg(pl.col("ttlb_s").mean(), pl.col("ttfb_s").mean()).sort("seed")
    received = dict(downloads.group_by("workload").agg(pl.col("bytes_received").sum()).iter_rows())
    fraction, refresh, half_life, counted = setting
    return {
        "fraction": fraction,
        "refresh_s": refresh,
        "half_life_s": half_life,
        "throughput": counted,
        "web_s": [round(time, 4) for time in times["ttlb_s"]],
        "first_byte_s": round(sum(times["ttfb_s"]) / len(times), 4),
        "bulk_mib": round(received["bulk"] / 2 / 2**20, 1),
        "bulk_share": round(received["bulk"] / sum(received.values()), 4),
    }


def setting_of(row: Row) -> Setting:
    """The setting of a row."""
    return row["fraction"], row["refresh_s"], row["half_life_s"], row["throughput"]


def web(row: Row) -> float:
    """The mean web download time [s]."""
    return sum(row["web_s"]) / len(row["web_s"])


def chosen(rows: list[Row]) -> Row:
    """The row that the rule chooses."""
    shortest = min(map(web, rows))
    return max((row for row in rows if web(row) <= 1.01 * shortest), key=lambda row: row["bulk_mib"])


def table(rows: list[Row]) -> str:
    """The ten shortest mean web downloads, and the chosen row in bold, in Markdown."""
    choice = chosen(rows)
    lines = []
    for each in sorted(rows, key=web)[:10]:
        fraction, refresh, half_life, counted = setting_of(each)
        name = f"T = {fraction}, R = {refresh} s, H = {half_life} s" + (", written" if counted == "written" else "")
        mark = "**" if each is choice else ""
        seeds = ", ".join(f"{time:.2f}" for time in each["web_s"])
        lines.append(
            [
                f"{mark}{name}{mark}",
                f"{web(each):.2f} s ({seeds})",
                f"{each['first_byte_s']:.2f} s",
                f"{each['bulk_mib']:.0f}",
                f"{100 * each['bulk_share']:.1f} %",
            ]
        )
    head = [
        "threshold",
        "web download, mean (seeds 11, 12)",
        "web first byte, mean",
        "bulk, MiB in 600 s",
        "bulk's share",
    ]
    return f"The ten best of {len(rows)} settings.\n\n" + generated.table(head, lines)


def main() -> None:
    """Run the grid, or print its table."""
    grids.main(__doc__, BLOCK, GRID, setting_of, row, table)


if __name__ == "__main__":
    main()
