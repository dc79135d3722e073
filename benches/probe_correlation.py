"""Compares how the probe of a victim's own guard and the probes of other guards correlate with the victim's throughput.

    penstock attack attacks/throughput --out runs/probes
    python benches/probe_correlation.py runs/probes

All victims and guards count, with shared ones, which the attack can skip. The attack keeps the largest correlation of
all lags. This is the mean of the lags, so that no choice favours one sign: a negative value means that a probe gets
less while the victim sends.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock import generated, stats
from penstock.attacks import estimators, measurement, study
from penstock.attacks.information import Floats
from penstock.attacks.model import Attack, Correlation
from penstock.result import Result


def mean_of_lags(victim: Floats, probes: Sequence[Floats], lags: int) -> Floats:
    """For each probe, the mean of its correlations with the victim over all lags; zero for a constant probe."""
    found = np.array(list(estimators.by_lag(victim, probes, lags)))
    mean: Floats = np.where(np.isfinite(found), found, 0).mean(axis=0)
    return mean


def of_run(attack: Attack, lags: int, run: measurement.Run) -> tuple[float, float]:
    """The mean correlation over a run's victims with their own guard, and with the other guards."""
    victims, probes = estimators.throughputs(attack, run)
    names, table = list(probes), list(probes.values())
    own, others = [], []
    for name, series in victims.items():
        guard = run.circuits.get((name, attack.adversary.victims), (0, ""))[1]
        if guard in probes and np.ptp(series) > 0:
            all_guards = mean_of_lags(series, table, lags)
            own.append(all_guards[names.index(guard)])
            others.append(np.delete(all_guards, names.index(guard)).mean())
    return float(np.mean(own)), float(np.mean(others))


def rows(output: Path) -> list[list[str]]:
    """A row for each attack and variant, with intervals over the runs."""
    result = Result(output)
    there = measurement.runs(result, study.document_of(result), backlogs=False)
    found = []
    for attack in study.attacks_of(result):
        if isinstance(attack.estimator, Correlation):
            lags = round(attack.estimator.lag / attack.measurement.period)
            for variant, label in result.variants.items():
                pairs = [of_run(attack, lags, run) for run in there if run.variant == variant]
                cells = [stats.mean_interval(each) for each in zip(*pairs, strict=True)]
                found.append(
                    [f"`{attack.name}`", label, *(f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in cells)]
                )
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    print(generated.table(["attack", "variant", "own guard", "other guards"], rows(parser.parse_args().output)))


if __name__ == "__main__":
    main()
