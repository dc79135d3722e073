"""Studies which properties of a network decide whether KIST helps: a fractional factorial design.

    python benches/kist_factors.py run FILE [--networks 5] [--minutes 5] [--warmup 3] [--setting=SIGNS]
    python benches/kist_factors.py effects FILE [--markdown PAGE]

The network of KIST's authors differs from `kist/tenth` in many properties. The study varies eight of them. The level
`+` is that of `kist/authors-tenth`. The level `-` is that of `kist/tenth`, except for weights: there, `-` makes the
weight of a relay equal to its capacity. All other settings are those of `kist/authors-tenth`, such as the relays of
2013, the latencies, the think times, and a TCP_INFO that counts unsent bytes.

Sixteen settings (the design 2^(8-4) of resolution IV) run with vanilla and with KIST in each network. `run` appends a
line for each run to FILE, and skips runs that FILE has. `effects` estimates the effect of each property, and predicts
settings outside of the design, which `run --setting=-+-++---` measures.

Source: Box, Hunter and Hunter, Statistics for Experimenters, chapter 6.
"""

import argparse
import itertools
import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from grids import Row, read

from penstock import _core, generated, runs, stats

SCENARIO = "kist/authors-tenth"
SCHEDULERS = ("vanilla", "kist")
BLOCK = "benches/kist_factors.py effects"

CLIENT_LINKS = "quantiles(0.125 Mbit/s, 0.5 Mbit/s, 1 Mbit/s, 2 Mbit/s, 8 Mbit/s)"


@dataclass(frozen=True)
class Factor:
    """A property of the network, with the overrides of its level `-`. The level `+` is that of the scenario."""

    name: str
    minus: tuple[str, ...]


FACTORS = (
    Factor("loss", ('network.loss_of="none"',)),
    Factor("client links", (f'client.link="{CLIENT_LINKS}"',)),
    Factor(
        "token buckets",
        ("relays.relay.era_buckets=false", 'client.bandwidth_rate="none"', 'client.bandwidth_burst="auto"'),
    ),
    Factor("first send buffer", ('tcp.initial_send_buffer="21270 B"',)),
    Factor("receive queue", ('network.link_queue="75 kB"',)),
    Factor("server links", ('server.link="100 Mbit/s"',)),
    Factor("weights", ("relays.relay.era_weights=false",)),
    Factor("batches", ('tcp.interface_batch="0 s"',)),
)

GENERATORS = ((1, 2, 3), (0, 2, 3), (0, 1, 2), (0, 1, 3))
"""Each of the last four factors is the product of three of the first four."""

Setting = tuple[int, ...]
"""The level of each factor, -1 or 1."""

RESPONSES = {
    "first_byte_50": "first byte, median",
    "first_byte_80": "first byte, 80 %",
    "first_byte_90": "first byte, 90 %",
    "first_byte_99": "first byte, 99 %",
    "web_50": "320 KiB, median",
    "writes": "bytes that relays write",
}

OF_EACH_SCHEDULER = ("first_byte_50", "first_byte_90", "writes")
"""The responses whose effects are also shown for each scheduler alone."""


def design() -> list[Setting]:
    """The sixteen settings. In the first, all levels are `-`. In the last, all are `+`."""
    return [
        (*first, *(math.prod(first[place] for place in generator) for generator in GENERATORS))
        for first in itertools.product((-1, 1), repeat=4)
    ]


def signs(setting: Setting) -> str:
    """A setting in a command or a file, such as `+-++---+`."""
    return "".join("+" if level > 0 else "-" for level in setting)


def of_signs(text: str) -> Setting:
    """The setting that `text` describes.

    Raises:
        ValueError: if it has another number of levels, or other characters.
    """
    if len(text) != len(FACTORS) or set(text) - set("+-"):
        raise ValueError(f"{text!r} is no setting; it has {len(FACTORS)} signs, + or -")
    return tuple(1 if sign == "+" else -1 for sign in text)


def overrides(setting: Setting) -> list[str]:
    """The overrides of the scenario that make this setting."""
    return [key for factor, level in zip(FACTORS, setting, strict=True) if level < 0 for key in factor.minus]


def responses(transfers: pl.DataFrame, relays: pl.DataFrame, warmup: float, measured: float) -> dict[str, float]:
    """The responses of a run: quantiles of times [s], and bytes per second in the `measured` seconds [B/s]."""
    downloads = transfers.filter(~pl.col("warmup"))
    first = downloads["ttfb_s"].drop_nulls().to_numpy()
    web = downloads.filter(pl.col("workload") == "web")["ttlb_s"].drop_nulls().to_numpy()
    written = float(relays.filter(pl.col("t_s") > warmup)["written_bytes"].sum())
    quantiles = {f"first_byte_{q}": stats.quantile(first, q / 100) for q in (50, 80, 90, 99)}
    return {**quantiles, "web_50": stats.quantile(web, 0.5), "writes": written / measured}


@dataclass(frozen=True)
class Estimate:
    """A mean over networks, with half of its 95 % interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """The estimate from one value per network; without an interval from a single network."""
        if len(values) < 2:
            return cls(stats.mean(values), math.nan)
        return cls(stats.mean(values), stats.t_reach(len(values)) * float(np.std(values, ddof=1)))


def contrasts() -> dict[str, np.ndarray]:
    """The columns of the design: the mean, each factor, and each group of interactions that it cannot separate."""
    settings = np.array(design(), dtype=np.float64)
    columns = {"mean": np.ones(len(settings))}
    columns |= {factor.name: settings[:, place] for place, factor in enumerate(FACTORS)}
    groups: dict[tuple[float, ...], list[str]] = {}
    for one, other in itertools.combinations(range(len(FACTORS)), 2):
        key = tuple(settings[:, one] * settings[:, other])
        groups.setdefault(key, []).append(f"{FACTORS[one].name} x {FACTORS[other].name}")
    columns |= {", ".join(names): np.array(key) for key, names in groups.items()}
    return columns


def effects(changes: Mapping[int, Mapping[Setting, float]]) -> dict[str, Estimate]:
    """The mean, and the effect of each column: the mean at `+` minus the mean at `-`.

    Args:
        changes: for each network, a response at each setting of the design.
    """
    settings = design()
    found = {}
    for name, column in contrasts().items():
        scale = 1 if name == "mean" else 2
        values = [scale * float(np.mean(column * [of[setting] for setting in settings])) for of in changes.values()]
        found[name] = Estimate.of(values)
    return found


def predicted(changes: Mapping[int, Mapping[Setting, float]], setting: Setting) -> Estimate:
    """What the mean and the effects of single factors predict for a setting outside of the design.

    The interval is that of a measurement in the same networks. It has two independent parts: the spread between
    networks, and the misfit of the model, which the seven groups of interactions show.
    """
    model = np.column_stack([np.ones(len(design())), np.array(design(), dtype=np.float64)])
    responses = np.array([[of[row] for row in design()] for of in changes.values()])
    point = np.array([1, *setting], dtype=np.float64)
    weights = model @ point / len(model)
    between = Estimate.of(list(responses @ weights))
    mean = responses.mean(axis=0)
    misfit = mean - model @ (model.T @ mean) / len(model)
    degrees = len(model) - model.shape[1]
    deviation = math.sqrt(float(misfit @ misfit) / degrees * (1 + point @ point / len(model)))
    reach = stats.t_reach(degrees + 1) * math.sqrt(degrees + 1)
    return Estimate(between.mean, math.hypot(between.half, reach * deviation))


def check(rows: Iterable[Row], conditions: Mapping[str, Any]) -> None:
    """Refuse a file whose runs had other lengths or another version of Penstock.

    Raises:
        SystemExit: with a sentence.
    """
    for row in rows:
        for key, value in conditions.items():
            if row[key] != value:
                raise SystemExit(f"the file has runs with {key} {row[key]}, not {value}; write into another file")


def logarithms(rows: Iterable[Row], response: str) -> dict[int, dict[Setting, float]]:
    """The logarithm of KIST's response over vanilla's, by network and setting, where both runs exist."""
    kist, vanilla = (of_scheduler(rows, response, scheduler) for scheduler in ("kist", "vanilla"))
    found: dict[int, dict[Setting, float]] = {}
    for network, of in kist.items():
        for setting, value in of.items():
            if setting in vanilla.get(network, {}):
                found.setdefault(network, {})[setting] = value - vanilla[network][setting]
    return found


def of_scheduler(rows: Iterable[Row], response: str, scheduler: str) -> dict[int, dict[Setting, float]]:
    """The logarithm of a scheduler's response, by network and setting."""
    found: dict[int, dict[Setting, float]] = {}
    for row in rows:
        if row["scheduler"] == scheduler:
            found.setdefault(row["network"], {})[of_signs(row["setting"])] = math.log(row[response])
    return found


def in_all_settings(changes: Mapping[int, dict[Setting, float]]) -> dict[int, dict[Setting, float]]:
    """The networks in which all settings of the design ran."""
    return {network: of for network, of in changes.items() if set(of) >= set(design())}


def measure(path: Path, settings: Sequence[Setting], networks: int, minutes: float, warmup: float) -> None:
    """Append the runs that the file lacks."""
    conditions = {"minutes": minutes, "warmup": warmup, "version": _core.version()}
    rows = read(path)
    check(rows, conditions)
    done = {(row["network"], row["setting"], row["scheduler"]) for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    times = [f'run.duration="{minutes + warmup} min"', f'run.warmup="{warmup} min"', "run.networks=[NETWORK]"]
    for network, setting in itertools.product(range(1, networks + 1), settings):
        missing = [each for each in SCHEDULERS if (network, signs(setting), each) not in done]
        if not missing:
            continue
        sets = [key.replace("NETWORK", str(network)) for key in times] + ["trace.workloads=[]", *overrides(setting)]
        with tempfile.TemporaryDirectory() as folder:
            result = runs.run(SCENARIO, variants=missing, sets=sets, out=Path(folder) / "run", jobs=len(missing))
            found = {}
            for scheduler in missing:
                transfers, relays = (each.filter(variant=scheduler) for each in (result.transfers, result.relays))
                found[scheduler] = responses(transfers, relays, 60 * warmup, 60 * minutes)
        for scheduler, measured in found.items():
            row = {"network": network, "setting": signs(setting), "scheduler": scheduler, **conditions, **measured}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def percent(estimate: Estimate) -> str:
    """A logarithm of a ratio as a change in percent, with its interval."""
    if math.isnan(estimate.half):
        return f"{100 * math.expm1(estimate.mean):+.1f} %"
    low, high = estimate.mean - estimate.half, estimate.mean + estimate.half
    return f"{100 * math.expm1(estimate.mean):+.1f} % ({100 * math.expm1(low):+.1f} to {100 * math.expm1(high):+.1f})"


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """The tables of the page: KIST's mean effect and what changes it, and the predictions of other settings."""
    complete = {response: in_all_settings(logarithms(rows, response)) for response in RESPONSES}
    networks = len(complete["writes"])
    found = {response: effects(changes) for response, changes in complete.items() if changes}
    if not found:
        yield "No network has all sixteen settings yet."
        return
    yield f"Networks: {networks}. Each number is KIST's response over vanilla's, as a change in percent."
    head = ["", *(RESPONSES[response] for response in found)]
    yield generated.table(head, [[name, *(percent(found[each][name]) for each in found)] for name in contrasts()])
    yield "The same for each scheduler: a response at the level `+` over that at `-`."
    yield generated.table(*of_each_scheduler(rows))
    others = {of_signs(row["setting"]) for row in rows} - set(design())
    for setting in sorted(others):
        yield f"Setting `{signs(setting)}`, which is not in the design:"
        lines = []
        for response in found:
            same = {n: of for n, of in complete[response].items() if setting in of}
            if same:
                measured = Estimate.of([of[setting] for of in same.values()])
                lines.append([RESPONSES[response], percent(predicted(same, setting)), percent(measured)])
        yield generated.table(["", "predicted", "measured"], lines)


def of_each_scheduler(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """The effects of the factors on some responses with each scheduler: the head and the rows of a table."""
    columns = [(response, scheduler) for response in OF_EACH_SCHEDULER for scheduler in SCHEDULERS]
    # Both schedulers have the same networks, those of the table of changes.
    complete = in_all_settings(logarithms(rows, OF_EACH_SCHEDULER[0]))
    found = [effects({network: of_scheduler(rows, *column)[network] for network in complete}) for column in columns]
    head = ["", *(f"{RESPONSES[response]}, {scheduler}" for response, scheduler in columns)]
    return head, [[factor.name, *(percent(each[factor.name]) for each in found)] for factor in FACTORS]


def main() -> None:
    """Run the study, or print its effects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what FILE lacks")
    run.add_argument("file", type=Path)
    run.add_argument("--networks", type=int, default=5)
    run.add_argument("--minutes", type=float, default=5, help="the measured time of each run")
    run.add_argument("--warmup", type=float, default=3, help="the time before it [min]")
    run.add_argument("--setting", type=of_signs, help="only this setting, such as +-++---+")
    shown = commands.add_parser("effects", help="print the effects of the factors")
    shown.add_argument("file", type=Path)
    shown.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the tables into PAGE")
    asked = parser.parse_args()
    if asked.command == "run":
        settings = [asked.setting] if asked.setting else design()
        measure(asked.file, settings, asked.networks, asked.minutes, asked.warmup)
        return
    body = "\n\n".join(tables(read(asked.file)))
    print(body)
    if asked.markdown:
        generated.write(asked.markdown, BLOCK, body)


if __name__ == "__main__":
    main()
