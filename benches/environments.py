"""Compares a generated environment with an exact one, and fits the rows of an era to exact relays.

`penstock network` makes NETWORK, an exact environment, from hosts and a topology of Shadow 1.x.

`python benches/environments.py compare NETWORK YEAR ENVIRONMENT` prints quantiles of loss, latency, links of clients
and bandwidths of relays over the hosts of NETWORK, the same quantiles of generated networks, and their ratios.

`python benches/environments.py shuffle NETWORK SEED` prints NETWORK with the relays at each other's places, in random
order. Such networks show how far results depend on which relay is at which place.

`python benches/environments.py results --exact OUT... --generated OUT...` compares runs of the first variant in exact
and in generated networks: medians of the first byte, bytes that relays write, and shares of the busiest relays.

With `--markdown FILE`, `compare` and `results` also write their table into FILE.

`python benches/environments.py fit NETWORK YEAR [--quantiles N]` prints rows of `crates/network/data/eras.csv`.
Authorities and relays without a link are left out.

Each of the four classes has N fitted values for the capacity, which is the smaller of link and token bucket. Each third
of a class by capacity has a few fitted values for link / capacity and for weight / capacity. The values of a row are at
equally distant probabilities from 0 to 1, and logarithms are interpolated. A least-squares fit chooses values that
return the quantiles of all relays and the mean of each class. No value is that of a single relay. If there are fewer
than 100 relays, each class also has its mean weight, and the share of its fastest relay in the weight of the class.
"""

import argparse
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import least_squares

from penstock import _core
from penstock import generated as generated_blocks

Vector = NDArray[np.float64]

CLASSES = {"plain": (False, False), "guard": (True, False), "exit": (False, True), "both": (True, True)}
THIRDS = ("slow", "medium", "fast")
KIB = 1024
UNITS = {"B": 1, "kB": 1000, "KiB": KIB, "MB": 1_000_000, "MiB": KIB * KIB}

AUTHORITY = "4uthority"
"""The beginning of the names of authorities in Shadow's examples."""

TESTED = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The probabilities that a test compares, and to which the fit gives more weight."""
PROBABILITIES = np.array(sorted([*np.arange(0.05, 1, 0.05), *TESTED * 3]))
FEW = 100
"""With fewer relays, a row has the total weights, too: a few relays then have most of the weight."""
PARTS = 997
"""The number of parts of equal probability in the fit."""


@dataclass(frozen=True)
class Host:
    """A relay of the network file."""

    guard: bool
    exit: bool
    link: float
    """The rate of the link in the slower direction [B/s]."""
    rate: float
    """The rate of the token bucket [B/s]."""
    burst: float
    weight: float
    country: str | None

    @property
    def capacity(self) -> float:
        """The smaller of link and token bucket [B/s]."""
        return min(self.link, self.rate)


def size(text: str) -> float:
    """The bytes of an amount, or the bytes in a second of a rate."""
    found = re.fullmatch(r"([0-9.]+) ([kKM]?i?B)(/s)?", text)
    if found is None:
        raise SystemExit(f"{text!r} is no amount of bytes; a network file of `penstock network` has only such amounts")
    return float(found[1]) * UNITS[found[2]]


def hosts(network: dict[str, Any]) -> list[Host]:
    """The relays of a network file that have links and a token bucket, without authorities."""
    places = network["network"]["places"]
    found = []
    for name, relay in network["relays"].items():
        links = [relay[key] for key in ("link", "link_down", "link_up") if relay.get(key, "place") != "place"]
        if name.startswith(AUTHORITY) or not links or "bandwidth_rate" not in relay:
            continue
        found.append(
            Host(
                guard="guard" in relay["flags"],
                exit="exit" in relay["flags"],
                link=min(map(size, links)),
                rate=size(relay["bandwidth_rate"]),
                burst=size(relay["bandwidth_burst"]),
                weight=size(relay["weight"]),
                country=places[relay["place"]].get("country"),
            )
        )
    return found


def at(row: Vector, ranks: Vector) -> Vector:
    """The values at these ranks; `row` has values at equally distant probabilities."""
    return np.interp(ranks, np.linspace(0, 1, len(row)), row)


def smooth(values: Vector, weights: Vector) -> Vector:
    """The interpolated quantiles of weighted values at `PROBABILITIES`."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return np.interp(PROBABILITIES, below / weights.sum(), values[order])


def spread(base: int) -> Vector:
    """Numbers of van der Corput, which fill (0, 1) evenly."""
    values = np.zeros(PARTS)
    for index in range(PARTS):
        share, rest = 1.0, index + 1
        while rest:
            share /= base
            values[index] += share * (rest % base)
            rest //= base
    return values


RANKS = (np.arange(PARTS) + 0.5) / PARTS
THIRD = np.minimum((RANKS * 3).astype(int), 2)


def solve(start: list[Vector], sample: Any, right: list[Vector], least: float, most: list[float]) -> list[Vector]:
    """The rows whose samples have the quantiles of all right values and the mean of each class. All are logarithms."""
    first = np.clip(np.concatenate(start), least, None)
    ends = np.cumsum([len(row) for row in start])[:-1]
    weights = np.repeat([len(values) / PARTS for values in right], PARTS)
    together = np.concatenate(right)
    wanted = quantile(together, np.ones(len(together)), PROBABILITIES)
    means = [np.log(np.exp(values).mean()) for values in right]

    def residuals(point: Vector) -> Vector:
        rows = np.split(point, ends)
        sampled = sample(rows)
        off = smooth(np.concatenate(sampled), weights) - wanted
        of_means = [np.log(np.exp(values).mean()) - mean for values, mean in zip(sampled, means, strict=True)]
        falling = np.concatenate([np.minimum(np.diff(row), 0) for row in rows])
        return np.concatenate([5 * off, 3 * np.array(of_means), 0.06 * (point - first), 10 * falling])

    bound = np.concatenate([np.full(len(row), value) for row, value in zip(start, most, strict=True)])
    found = least_squares(residuals, np.clip(first, None, bound), bounds=(least - 1e-9, bound), max_nfev=60)
    return [np.maximum.accumulate(row) for row in np.split(found.x, ends)]


def thirds(members: list[Host], value: Any, count: int) -> list[Vector]:
    """The quantiles of a value in each third of the relays by capacity; without relays, those of the whole."""
    ordered = sorted(members, key=lambda host: host.capacity)
    parts = [[ordered[index] for index in part] for part in np.array_split(np.arange(len(ordered)), 3)]
    whole = [value(host) for host in ordered if value(host) is not None]
    rows = []
    for part in parts:
        values = [value(host) for host in part if value(host) is not None] or whole
        rows.append(np.quantile(np.log(values), np.linspace(0, 1, count)))
    return rows


def total_weight(members: list[Host], scale: float) -> Vector:
    """The mean weight of a class [KiB/s], and the share of its fastest relay in the weight of the class [1/1000]."""
    ordered = sorted(members, key=lambda host: host.capacity)
    total = sum(host.weight for host in ordered)
    return np.array([total / len(ordered) / scale / KIB, 1000 * ordered[-1].weight / total])


def rows(relays: list[Host], year: str, count: int) -> list[str]:
    """The rows of an era."""
    members = [[host for host in relays if (host.guard, host.exit) == flags] for flags in CLASSES.values()]
    if min(map(len, members)) < 3:
        raise SystemExit("a class has fewer than three relays; an era needs at least three in each class")
    few = 4 if count > 6 else 3
    even, odd = spread(2), spread(3)

    def by_class(value: Any) -> list[Vector]:
        return [np.log([value(host) for host in each]) for each in members]

    capacity = by_class(lambda host: host.capacity / KIB)
    start = [np.quantile(each, np.linspace(0, 1, count)) for each in capacity]
    most = [np.log(1.6) + each.max() for each in capacity]
    capacities = solve(start, lambda found: [at(row, RANKS) for row in found], capacity, 0.0, most)
    sampled = [at(row, RANKS) for row in capacities]

    limited = [np.mean([host.rate < host.link for host in each]) for each in members]

    def links(found: list[Vector]) -> list[Vector]:
        result = []
        for index, share in enumerate(limited):
            ranks = np.clip((even - (1 - share)) / share, 0, 1)
            ratio = np.choose(THIRD, [at(row, ranks) for row in found[3 * index : 3 * index + 3]])
            result.append(sampled[index] + np.where(even < 1 - share, 0, ratio))
        return result

    def excess(host: Host) -> float | None:
        return host.link / host.rate if host.rate < host.link else None

    def weights(found: list[Vector]) -> list[Vector]:
        ratios = [
            np.choose(THIRD, [at(row, odd) for row in found[3 * index : 3 * index + 3]])
            for index in range(len(members))
        ]
        return [one + ratio for one, ratio in zip(sampled, ratios, strict=True)]

    start = [row for each in members for row in thirds(each, excess, few)]
    link_rows = solve(start, links, by_class(lambda host: host.link / KIB), 0.0, [np.inf] * len(start))
    scale = 1.0 if np.median([host.weight / host.capacity for host in relays]) < 100 else 1000.0
    start = [row for each in members for row in thirds(each, lambda host: host.weight / scale / host.capacity, few)]
    weight_rows = solve(
        start, weights, by_class(lambda host: host.weight / scale / KIB), np.log(0.001), [np.inf] * len(start)
    )

    def line(group: str, quantity: str, row: Vector) -> str:
        return f"{year},{group},{quantity}," + " ".join(str(round(value)) for value in row)

    lines = []
    for index, name in enumerate(CLASSES):
        lines.append(f"{year},{name},relays,{len(members[index])}")
        lines.append(line(name, "capacity", np.exp(capacities[index])))
        lines.append(f"{year},{name},limited,{round(1000 * limited[index])}")
        for part, third in enumerate(THIRDS):
            lines.append(line(name, f"link_{third}", 1000 * np.exp(link_rows[3 * index + part])))
        for part, third in enumerate(THIRDS):
            lines.append(line(name, f"weight_{third}", 1000 * np.exp(weight_rows[3 * index + part])))
        if len(relays) < FEW:
            lines.append(line(name, "weight_total", total_weight(members[index], scale)))
    bursts = np.quantile([np.clip(host.burst / host.rate, 1, 10) for host in relays], np.linspace(0, 1, 11))
    lines.append(line("all", "burst", 1000 * bursts))
    countries = Counter(host.country for host in relays if host.country is not None)
    lines += [f"{year},{code},country,{number}" for code, number in countries.most_common()]
    return lines


def quantile(values: Vector, weights: Vector, ranks: Any) -> Vector:
    """The smallest values that at least these shares of the weight do not exceed."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) / weights.sum()
    return values[order][np.searchsorted(below, np.asarray(ranks) - 1e-12)]


Samples = dict[str, tuple[Vector, Vector]]
"""Values and their weights, by quantity."""

KINDS = ("relay", "client", "server")
PAIRS = (("relay", "relay"), ("client", "relay"), ("relay", "server"), ("client", "server"))


def exact(network: Mapping[str, Any]) -> Samples:
    """The quantities over the hosts of a network file."""
    places, order = network["network"]["places"], network["network"]["edges"]["order"]
    counts = {kind: Counter[str]() for kind in KINDS}
    counts["relay"].update(relay["place"] for relay in network["relays"].values())
    for kind in ("client", "server"):
        for group in network[f"{kind}s"].values():
            place = group["place"]
            counts[kind].update({place: 1} if isinstance(place, str) else place)
    weights = {kind: np.array([float(counts[kind][name]) for name in order]) for kind in KINDS}
    loss = np.array([places[name]["loss"] for name in order])
    found: Samples = {f"loss of {kind}s' places": (loss, weights[kind]) for kind in KINDS}
    rows = network["network"]["edges"]["latency"]
    latency = np.array([[float(word) for word in row.removesuffix(" ms").split()] for row in rows])
    for one, other in PAIRS:
        both = weights[one][:, None] * weights[other][None, :]
        found[f"latency {one}-{other} [ms]"] = (latency.ravel(), both.ravel())
    for key, name in (("link_down", "download link"), ("link_up", "upload link")):
        links = np.array([size(places[place][key]) / KIB for place in order])
        found[f"{name} of clients [KiB/s]"] = (links, weights["client"])
    relays = hosts(dict(network))
    ones = np.ones(len(relays))
    found["bandwidth of relays [KiB/s]"] = (np.array([host.capacity / KIB for host in relays]), ones)
    found["link of relays [KiB/s]"] = (np.array([host.link / KIB for host in relays]), ones)
    return found


def generated(year: str, environment: str, relays: int, networks: int) -> Samples:
    """The quantities over generated networks with this number of relays."""
    found: dict[str, list[float]] = {}
    for seed in range(1, networks + 1):
        drawn, sampled = _core.sample_places(environment, seed), _core.sample_era(year, relays, seed)
        if drawn is None or sampled is None:
            raise SystemExit(
                f"there is no era {year!r} or no environment {environment!r}; see `penstock list networks`"
            )
        facts, latencies = drawn
        members = {kind: [n for n, fact in enumerate(facts) if fact[0].startswith(kind)] for kind in KINDS}
        for kind in KINDS:
            found.setdefault(f"loss of {kind}s' places", []).extend(facts[place][1] for place in members[kind])
        matrix = 1000 * np.array(latencies)
        for one, other in PAIRS:
            block = matrix[np.ix_(members[one], members[other])]
            found.setdefault(f"latency {one}-{other} [ms]", []).extend(block.ravel())
        for place, name in ((2, "download link"), (3, "upload link")):
            links = [(facts[client][place] or 0) / KIB for client in members["client"]]
            found.setdefault(f"{name} of clients [KiB/s]", []).extend(links)
        found.setdefault("bandwidth of relays [KiB/s]", []).extend(min(relay[2:4]) / KIB for relay in sampled)
        found.setdefault("link of relays [KiB/s]", []).extend(relay[2] / KIB for relay in sampled)
    return {name: (np.array(values), np.ones(len(values))) for name, values in found.items()}


def compared(one: Samples, other: Samples) -> Iterator[tuple[str, float, float, float]]:
    """Quantity, probability, and the quantiles of both at this probability."""
    for name in one:
        for rank, right, value in zip(TESTED, *(quantile(*each[name], TESTED) for each in (one, other)), strict=True):
            yield name, rank, float(right), float(value)


def shuffled(text: str, seed: int) -> str:
    """A network file whose relays have exchanged their places."""
    head, relays = re.split(r"(?m)^(?=\[relays\.)", text, maxsplit=1)
    line = re.compile(r'(?m)^place = "([^"]+)"$')
    places = line.findall(relays)
    random.Random(seed).shuffle(places)  # noqa: S311
    rest = iter(places)
    return head + line.sub(lambda _: f'place = "{next(rest)}"', relays)


MEASURES = ("first byte, median [s]", "relay writes [GB]", "share of the busiest middle", "share of the busiest exit")


def measured(out: Path) -> list[tuple[float, float, float, float]]:
    """The measures of each run of the first variant of an output, without warm-up and unfinished downloads."""
    tables = {name: pl.read_parquet(out / f"{name}.parquet") for name in ("transfers", "relays", "paths")}
    first = tables["transfers"]["variant"][0]
    runs = tables["paths"].filter(variant=first).select("network", "seed").unique().sort("network", "seed")
    found = []
    for network, seed in runs.iter_rows():
        key = pl.col("network").eq_missing(network) & (pl.col("seed") == seed) & (pl.col("variant") == first)
        transfers, relays, paths = (tables[name].filter(key) for name in ("transfers", "relays", "paths"))
        later = transfers.filter(~pl.col("warmup"))
        written = relays.filter(pl.col("t_s") > later["start_s"].min())["written_bytes"].sum()
        shares = [paths[place].value_counts()["count"].max() / len(paths) for place in ("middle", "exit")]
        median = later.filter(pl.col("outcome") == "ok")["ttfb_s"].median()
        found.append((float(median), written / 1e9, *shares))
    return found


def results(exact: list[Path], generated: list[Path]) -> list[list[str]]:
    """The rows of a table: a measure, its values and mean on both sides, and the difference of the means."""
    sides = [np.array([run for out in outs for run in measured(out)]) for outs in (exact, generated)]
    rows = []
    for place, name in enumerate(MEASURES):
        row, means = [name], [float(side[:, place].mean()) for side in sides]
        for side, mean in zip(sides, means, strict=True):
            error = side[:, place].std(ddof=1) / len(side) ** 0.5 if len(side) > 1 else np.nan
            values = ", ".join(f"{value:.2f}" for value in sorted(side[:, place]))
            row += [values, f"{mean:.2f} ± {error:.2f}"]
        rows.append([*row, f"{100 * (means[1] / means[0] - 1):+.0f} %"])
    return rows


def show(head: tuple[str, ...], rows: list[list[str]], name: str, markdown: Path | None) -> None:
    """Print a table, and write it into a file if there is one."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    if markdown:
        generated_blocks.write(markdown, f"benches/environments.py {name}", generated_blocks.table(head, rows))


def main() -> None:
    """Compare, or print the rows of an era."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    fit, compare, shuffle, result = (verbs.add_parser(verb) for verb in ("fit", "compare", "shuffle", "results"))
    for verb in (fit, compare, shuffle):
        verb.add_argument("network", type=Path)
    for verb in (fit, compare):
        verb.add_argument("year")
    fit.add_argument("--quantiles", type=int, default=11, choices=range(3, 12), metavar="N", help="3 to 11")
    compare.add_argument("environment")
    compare.add_argument("--networks", type=int, default=20, help="the number of generated networks")
    shuffle.add_argument("seed", type=int)
    result.add_argument("--exact", type=Path, nargs="+", required=True, metavar="OUT")
    result.add_argument("--generated", type=Path, nargs="+", required=True, metavar="OUT")
    for verb in (compare, result):
        verb.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table into FILE")
    given = parser.parse_args()
    if given.verb == "results":
        head = ("vanilla", "exact", "mean", "generated", "mean", "difference of the means")
        show(head, results(given.exact, given.generated), "results", given.markdown)
        return
    text = given.network.read_text(encoding="utf-8")
    if given.verb == "shuffle":
        print(shuffled(text, given.seed), end="")
        return
    network = tomllib.loads(text)
    if given.verb == "fit":
        print("\n".join(rows(hosts(network), given.year, given.quantiles)))
        return
    other = generated(given.year, given.environment, len(hosts(network)), given.networks)
    quantiles = [
        [name, f"{rank:.2f}", f"{right:.4g}", f"{value:.4g}", f"{value / right:.2f}"]
        for name, rank, right, value in compared(exact(network), other)
    ]
    show(("quantity", "probability", "exact", "generated", "ratio"), quantiles, "compare", given.markdown)


if __name__ == "__main__":
    main()
