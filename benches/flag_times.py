"""The causes of the small gain from the time of a flag, and the choice of its constants.

    python benches/flag_times.py causes DIRECTORY [--markdown PAGE]
    python benches/flag_times.py constants DIRECTORY [--markdown PAGE]

DIRECTORY is an output of `penstock attack attacks/flag-times`. For the constants, it is one of the network 206:
`--set 'run.networks=[206]'`.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import grids
import numpy as np
import polars as pl

from penstock import generated
from penstock.attacks import conclusions, estimators, flag_times, study
from penstock.attacks.flag_times import Limit
from penstock.attacks.measurement import Run, runs
from penstock.attacks.model import Attack, FlagTime
from penstock.result import Result

BLOCK = "benches/flag_times.py"

CONSTANTS: dict[str, tuple[float, ...]] = {
    "ERROR": (0.15, 0.3, 0.6, 1.2),
    "OUTLIERS": (0.01, 0.05, 0.2),
    "STEADY": (10.0, 20.0, 40.0),
    "SETTLED": (4.0, 8.0, 16.0),
    "FEWEST": (0.6, 0.8, 0.9),
    "NEAR": (0.015, 0.03, 0.06),
}
"""The values of each constant of `flag_times`, while the others keep theirs."""


class Victim(NamedTuple):
    """One victim: the limit that the estimator found, and the time at which the guard throttled the victim."""

    limit: Limit
    throttled_s: float
    """The end of the first interval in which the guard throttled the victim [s]; infinite if it did not."""
    gain: float
    """The gain about its guard [bit]."""
    of_guard: Limit | None
    """The limit that the probe of its guard shows."""

    @property
    def seen(self) -> bool:
        """Whether the estimator found a flag."""
        return np.isfinite(self.limit.flagged_s)

    @property
    def throttled(self) -> bool:
        """Whether the guard throttled the victim."""
        return np.isfinite(self.throttled_s)

    @property
    def bounded(self) -> bool:
        """Whether the estimator found only a lower bound."""
        return not self.seen and self.limit.low > 0

    @property
    def silent(self) -> bool:
        """Whether the estimator found nothing."""
        return not self.seen and self.limit.low == 0


def mine(output: study.Study) -> list[Attack]:
    """The attacks with the time of a flag."""
    return [attack for attack in output.attacks if isinstance(attack.estimator, FlagTime)]


def victims_of(attack: Attack, run: Run, gains: dict[str, float]) -> list[Victim]:
    """The victims of one run with a guess."""
    throttle = flag_times.throttle_of(run.document.resolved(run.variant))
    if throttle is None:
        return []
    series, probes = estimators.throughputs(attack, run)
    period, begin = attack.measurement.period, attack.measurement.begin
    throttled = run.clients.filter(pl.col("throttled"), pl.col("t_s") > begin)
    first = dict(throttled.group_by("client").agg(pl.col("t_s").min() - begin).iter_rows())
    guards = {name: flag_times.limit(each, period, throttle) for name, each in probes.items()}
    return [
        Victim(
            flag_times.limit(series[name], period, throttle),
            first.get(name, np.inf),
            gain,
            guards.get(run.circuits[name, attack.adversary.victims][1]),
        )
        for name, gain in gains.items()
    ]


def mean(victims: Sequence[Victim]) -> str:
    """The mean gain of victims, and their number."""
    return f"{np.mean([each.gain for each in victims]):.2f} (n = {len(victims)})" if victims else "- (n = 0)"


def spread(values: Sequence[float], digits: int) -> str:
    """The median of values, their 10th and 90th percentiles, and their number."""
    if not values:
        return "- (n = 0)"
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}; n = {len(values)})"


def difference(victim: Victim) -> float | None:
    """The factor between the limits of a victim and of its guard's probe [1]; None unless both show a flag."""
    other = victim.of_guard
    if not victim.seen or other is None or not np.isfinite(other.high):
        return None
    mine, theirs = (0.5 * (limit.low + limit.high) for limit in (victim.limit, other))
    return float(max(mine, theirs) / min(mine, theirs))


ROWS: dict[str, Callable[[list[Victim]], str]] = {
    "victims": lambda all_: str(len(all_)),
    "throttled by their guard": lambda all_: str(sum(each.throttled for each in all_)),
    "throttled, and their flag is seen": lambda all_: str(sum(each.seen and each.throttled for each in all_)),
    "not throttled, but a flag is seen": lambda all_: str(sum(each.seen and not each.throttled for each in all_)),
    "only a lower bound is seen": lambda all_: str(sum(each.bounded for each in all_)),
    "nothing is seen": lambda all_: str(sum(each.silent for each in all_)),
    "mean gain if a flag is seen [bit]": lambda all_: mean([each for each in all_ if each.seen]),
    "mean gain if only a lower bound is seen [bit]": lambda all_: mean([each for each in all_ if each.bounded]),
    "mean gain if nothing is seen [bit]": lambda all_: mean([each for each in all_ if each.silent]),
    "error of the time of a flag [s]: median (10th to 90th percentile)": lambda all_: spread(
        [each.limit.flagged_s - each.throttled_s for each in all_ if each.seen and each.throttled], 1
    ),
    "factor between the limits of victim and probe: median (10th to 90th percentile)": lambda all_: spread(
        [found for each in all_ if (found := difference(each)) is not None], 1
    ),
}
"""The rows of the table of causes."""


def causes(result: Result) -> str:
    """The causes of a small gain: a column for each attack, over all networks."""
    output = study.of(result)
    there = runs(result, study.document_of(result), backlogs=False)
    columns = []
    for attack in mine(output):
        found: list[Victim] = []
        for run in there:
            rows = output.victims.filter(attack=attack.name, variant=run.variant, network=run.network)
            found += victims_of(attack, run, dict(rows.select("victim", "gain").iter_rows()))
        columns.append((attack.name, found))
    head = ["", *(f"`{name}`" for name, _ in columns)]
    return generated.table(head, [[name, *(row(found) for _, found in columns)] for name, row in ROWS.items()])


def constants(result: Result) -> str:
    """The mean gain with each value of each constant: a column for each attack."""
    output = study.of(result)
    there = runs(result, study.document_of(result), backlogs=False)
    attacks, lines = mine(output), []
    for name, values in CONSTANTS.items():
        for value in values:
            with patch.object(flag_times, name, value):
                gains = [gain(attack, there) for attack in attacks]
            mark = "**" if value == getattr(flag_times, name) else ""
            lines.append([f"`{name}`", f"{mark}{value:g}{mark}", *gains])
    head = ["constant", "value", *(f"`{attack.name}`: gain [bit]" for attack in attacks)]
    return "Bold: the value of the estimator.\n\n" + generated.table(head, lines)


def gain(attack: Attack, there: Sequence[Run]) -> str:
    """The mean gain of all victims [bit]."""
    made = [(run, guess) for run in there for guess in estimators.guesses(attack, run)]
    rows = conclusions.rows_of(attack, there[0].variant, made)
    return f"{np.mean([row['gain'] for row in rows]):.2f}"


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("causes", "constants"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    asked = parser.parse_args()
    made = {"causes": causes, "constants": constants}[asked.table](Result(asked.directory))
    grids.show(made, asked.markdown, f"{BLOCK} {asked.table}")


if __name__ == "__main__":
    main()
