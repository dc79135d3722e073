"""Measures `kist/stations` for docs/reference/algorithms/schedulers.md, and the networks from which it was selected.

.venv/bin/python benches/kist_star.py waits RUN    mean waits of web cells by position and kind of relay [ms]
.venv/bin/python benches/kist_star.py grid FILE    one line for each network of the grid; existing lines are kept
"""

import json
import re
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from penstock import runs
from penstock.catalog import read
from penstock.paper.measures import sample
from penstock.paper.waits import IN_TOR
from penstock.result import Result

POSITIONS = ("guard", "middle", "exit")
RELAYS, LINKS, LOADS, RATIOS = (4, 6), (4, 10), (0.30, 0.45, 0.60), (4.5, 9, 18)
"""The grid: relays of a position, their links [Mbit/s], load of web clients [1], web clients for each bulk client."""
PAGES = 320 * 1024 / 30.0
"""The load of a web client [B/s]: a page in half a minute."""


def waits(run: Path) -> pl.DataFrame:
    """The mean waits of web cells at a relay: in the incoming kernel, in Tor and in the outgoing kernel [ms]."""
    result = Result(run)
    places = ["variant", "network", "seed", "circuit"]
    cells = result.cells.filter((pl.col("workload") == "web") & pl.col("nic_out_ns").is_not_null())
    cells = cells.filter(pl.col("hop").is_in(POSITIONS)).join(
        result.paths.select(*places, *POSITIONS), on=places, nulls_equal=True
    )
    relay = pl.coalesce(pl.when(pl.col("hop") == hop).then(pl.col(hop)) for hop in POSITIONS)
    stations = {"kernel_in": pl.col("kernel_in_s"), "tor": IN_TOR, "kernel_out": pl.col("kernel_out_s")}
    means = [(1e3 * each.mean()).round(0).alias(name) for name, each in stations.items()]
    kind = relay.str.extract("-([a-z]+)").alias("kind")
    return cells.group_by("variant", "hop", kind).agg(means).sort("variant", "hop", "kind")


def network(relays: int, web: int, bulk: int) -> str:
    """Relays with limited links, and clients that load all relays equally."""
    paths = [(guard, middle, (guard + middle) % relays) for middle in range(relays) for guard in range(relays)]
    counts = {workload: [0] * len(paths) for workload in ("web", "bulk")}
    for workload, clients in (("web", web), ("bulk", bulk)):
        for i in range(clients):
            # Clients use all paths in turn. If there are fewer clients than paths, they use all relays in turn.
            scarce = clients < len(paths)
            counts[workload][(i // relays + i) % relays * relays + i % relays if scarce else i % len(paths)] += 1
    text = "".join(f"[relays.{position}-link{i + 1}]\n" for position in POSITIONS for i in range(relays))
    for workload, each in counts.items():
        for number, (path, count) in enumerate(zip(paths, each, strict=True), 1):
            names = [f"{position}-link{i + 1}" for position, i in zip(POSITIONS, path, strict=True)]
            if count:
                text += f'[clients.{workload}{number}-]\ncount = {count}\nworkload = "{workload}"\npath = {names}\n'
    return text


def realisation(relays: int, link: int, load: float, ratio: float) -> dict[str, Any]:
    """One network under vanilla scheduling, seeds 101 to 103.

    Its times to first byte, the bulk share of bytes, and the share of the waits in the outgoing kernel.
    """
    capacity = relays * link * 1e6 / 8
    web = round(load * capacity / PAGES)
    bulk = max(1, round(web / ratio))
    head = read("kist/stations")[2].split("[relays.guard-link1]")[0]
    head = re.sub(r'(\[relay\]\nlink = )"[^"]*"', rf'\1"{link} Mbit/s"', head)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "star.toml"
        file.write_text(head + network(relays, web, bulk) + '[[variants]]\nname = "vanilla"\n')
        result = runs.run(file, seed=101, runs=3, out=Path(folder) / "run")
        downloads = result.transfers.filter(~pl.col("warmup"))
        shares = {hop: sample(result, "kernel_out_share", "vanilla", "*", hop).sort("seed") for hop in POSITIONS}
    received = dict(downloads.group_by("workload").agg(pl.col("bytes_received").sum()).iter_rows())
    return {
        "name": f"k{relays}-l{link}-u{int(load * 100)}-r{ratio:g}",
        "web": web,
        "bulk": bulk,
        "ttfb": downloads["ttfb_s"].median(),
        "ttfb_web": downloads.filter(pl.col("workload") == "web")["ttfb_s"].median(),
        "share": received["bulk"] / sum(received.values()),
        "used": sum(received.values()) / 150 / 3 / capacity,
        "ko": {hop: [round(share, 3) for share in each["value"]] for hop, each in shares.items()},
    }


def grid(file: Path) -> None:
    """Append the missing networks of the grid."""
    done = {json.loads(line)["name"] for line in file.read_text().splitlines()} if file.exists() else set()
    for relays, link, load, ratio in product(RELAYS, LINKS, LOADS, RATIOS):
        if f"k{relays}-l{link}-u{int(load * 100)}-r{ratio:g}" not in done:
            with file.open("a") as lines:
                lines.write(json.dumps(realisation(relays, link, load, ratio)) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["waits", run]:
            with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True):
                print(waits(Path(run)))
        case ["grid", file]:
            grid(Path(file))
        case _:
            sys.exit(__doc__)
