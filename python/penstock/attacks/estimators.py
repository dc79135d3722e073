"""The estimators of adversaries: from the measurements of one run to a score for each candidate of each victim."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.attacks import measurement, wave
from penstock.attacks.information import NO, YES, Floats, Guess
from penstock.attacks.measurement import Run
from penstock.attacks.model import Attack, Correlation, Latency, Linked

BLIND = -1e9
"""The score of a candidate about which the adversary has no number."""

SURE = 2.0
"""The negative decimal logarithm of the p-value from which a wave counts as found: p < 0.01."""


def guesses(attack: Attack, run: Run) -> list[Guess]:
    """The guesses of an attack about the victims of a run. Victims without a measurement have none."""
    return ESTIMATORS[attack.estimator.kind](attack, run)


def victims(attack: Attack, run: Run) -> int:
    """The number of victims in a run: of clients or, for `linked`, of pairs of circuits; with or without a guess."""
    if isinstance(attack.estimator, Linked):
        return len(_linked(attack, run))
    return len(run.names(attack.adversary.victims))


def correlations(victim: Floats, probes: Sequence[Floats], lags: int) -> Floats:
    """For each probe, the largest Pearson correlation with the victim over all shifts of up to `lags` samples.

    A constant series has no correlation, and scores lowest.
    """
    table = np.array(probes)
    best = np.full(len(table), -np.inf)
    count = len(victim)
    for lag in range(-lags, lags + 1):
        mine = victim[max(lag, 0) : count + min(lag, 0)]
        theirs = table[:, max(-lag, 0) : count + min(-lag, 0)]
        mine = mine - mine.mean()
        theirs = theirs - theirs.mean(axis=1, keepdims=True)
        scale = np.sqrt(np.sum(mine**2) * np.sum(theirs**2, axis=1))
        found = np.divide(theirs @ mine, scale, out=np.full(len(table), -np.inf), where=scale > 0)
        best = np.maximum(best, found)
    return np.where(np.isfinite(best), best, BLIND)


def distances(victim: Floats, rates: Floats) -> Floats:
    """For each rate, its negative distance to the victim's mean throughput [standard deviations of the throughput].

    Source: throttling section 5.2, attack 1: guards outside one standard deviation are removed.
    Deviation: with vanilla Tor, the authors use the bandwidth that a guard has available instead of a probe's rate.
    A victim with a constant throughput keeps the guards with exactly this rate.
    """
    deviation = float(np.std(victim, ddof=1))
    found: Floats = -np.abs(rates - victim.mean()) / max(deviation, 1e-9)
    return found


def best_ping(trips: Floats, resolution: float) -> tuple[float, int]:
    """The smallest round trip [s], and the number of pings until one is within `resolution` [s] of it."""
    least = float(trips.min())
    return least, int(np.argmax(trips <= least + resolution)) + 1


def _throughput(attack: Attack, run: Run) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The throughputs of the victims, and those of the probes by their first relay."""
    last = float(run.clients["t_s"].max() or 0.0)  # type: ignore[arg-type]
    borders = measurement.edges(attack.measurement, last)
    workload = attack.adversary.victims
    if attack.measurement.at == "exit":
        circuits = {name: circuit[0] for (name, of), circuit in run.circuits.items() if of == workload}
        victims = measurement.sent(run, circuits, borders)
    else:
        victims = measurement.received(run, run.names(workload), borders)
    relays = run.first_relays(attack.adversary.probes)
    probes = measurement.received(run, relays, borders)
    return victims, {relays[name]: series for name, series in probes.items()}


def _by_guard(attack: Attack, run: Run, score: Callable[[Floats, Mapping[str, Floats]], Floats]) -> list[Guess]:
    """A guess for each victim about its guard. `score` has the series of the victim and of the candidates' probes."""
    victims, probes = _throughput(attack, run)
    workload = attack.adversary.victims
    skipped: set[str] = set()
    correlates = isinstance(attack.estimator, Correlation)
    if isinstance(attack.estimator, Correlation) and attack.estimator.skip_shared:
        skipped = {relay for (_, of), circuit in run.circuits.items() if of == workload for relay in circuit[2:]}
    names = tuple(guard for guard in run.sampled.guards if guard in probes and guard not in skipped)
    found = []
    for victim in sorted(victims):
        series = victims[victim]
        guard = run.circuits.get((victim, workload), (0, ""))[1]
        # A constant series has no correlation, but a rate.
        known = guard in names and len(names) > 1 and len(series) > 2
        if known and (np.ptp(series) > 0 or not correlates):
            scores = score(series, {name: probes[name] for name in names})
            found.append(Guess(victim, names.index(guard), names, scores, {"score": float(scores[names.index(guard)])}))
    return found


def _correlation(attack: Attack, run: Run) -> list[Guess]:
    estimator = attack.estimator
    assert isinstance(estimator, Correlation)  # noqa: S101 the table of estimators selects by kind
    lags = round(estimator.lag / attack.measurement.period)
    return _by_guard(attack, run, lambda victim, probes: correlations(victim, list(probes.values()), lags))


def _rate(attack: Attack, run: Run) -> list[Guess]:
    return _by_guard(
        attack, run, lambda victim, probes: distances(victim, np.array([each.mean() for each in probes.values()]))
    )


def _latency(attack: Attack, run: Run) -> list[Guess]:
    """A guess for each victim about its place: the candidates are all clients of the network."""
    estimator = attack.estimator
    assert isinstance(estimator, Latency)  # noqa: S101 the table of estimators selects by kind
    network, found = run.sampled, []
    names = tuple(network.clients)
    for victim, (_, trips) in measurement.pings(run, attack.adversary.victims, attack.measurement).items():
        _, guard, middle, end = run.circuits[victim, attack.adversary.victims]
        least, count = best_ping(trips, estimator.resolution)
        known = network.rtt(guard, middle) + network.rtt(middle, end) + network.rtt(end, estimator.server)
        estimate, truth = least - known, network.rtt(victim, guard)
        scores = -np.abs(np.array([network.rtt(name, guard) for name in names]) - estimate)
        facts = {
            "estimate_s": estimate,
            "error_s": abs(estimate - truth),
            "pings": float(count),
            "of": float(len(trips)),
        }
        found.append(Guess(victim, names.index(victim), names, scores, facts))
    return found


def _wave(attack: Attack, run: Run) -> list[Guess]:
    """A guess for each victim about the question whether its circuit uses the relay of the probes."""
    relays = run.first_relays(attack.adversary.probes)
    begins = _begins(run, attack.adversary.probes, list(relays))
    begins = begins[begins >= attack.measurement.begin]
    if len(begins) < wave.FEWEST:
        return []
    rhythm = wave.Wave(begins, float(np.median(np.diff(begins))))
    workload = attack.adversary.victims
    if attack.measurement.what == "round-trip":
        pings = measurement.pings(run, workload, attack.measurement)
        halves = {name: _halves(at, -trips, rhythm) for name, (at, trips) in pings.items()}
    else:
        last = float(run.clients["t_s"].max() or 0.0)  # type: ignore[arg-type]
        borders = measurement.edges(attack.measurement, last)
        series = measurement.received(run, run.names(workload), borders)
        halves = {name: _halves(borders[:-1], each, rhythm) for name, each in series.items()}
    flooded = _targets(run, list(relays))
    found = []
    for victim in sorted(halves):
        correlation, p = wave.confirm(halves[victim])
        truth = int(bool(flooded & set(run.circuits[victim, workload][1:])))
        scores = np.array([SURE, -np.log10(max(p, 1e-300))])
        found.append(Guess(victim, truth, (NO, YES), scores, {"correlation": correlation, "p": p}))
    return found


def _begins(run: Run, workload: str, names: list[str]) -> Floats:
    """The times at which the probes become active together [s]: they begin downloads, or build circuits to hold."""
    downloads = run.transfers.filter(workload=workload)["start_s"]
    built = run.paths.filter(pl.col("client").is_in(names)).drop_nulls("built_s")
    starts = downloads if len(downloads) else built["built_s"] - built["build_time_s"]
    found: Floats = starts.round(1).unique().sort().to_numpy()
    # Circuits of one client may begin a moment later than its first one.
    return found[np.diff(found, prepend=-np.inf) > 1.0]


def _targets(run: Run, names: list[str]) -> set[str]:
    """The relays of the probes that do not serve every victim: those that a wave can tell apart."""
    rows = run.paths.filter(pl.col("client").is_in(names)).select("guard", "middle", "exit").rows()
    shared = [set(circuit[1:]) for circuit in run.circuits.values()]
    everywhere = set.intersection(*shared) if shared else set()
    return {relay for row in rows for relay in row} - everywhere


def _halves(at: Floats, values: Floats, rhythm: wave.Wave) -> Floats:
    """The mean value in each half period with the probes active, and in the following one; whole periods only."""
    last = float(at.max()) if at.size else 0.0
    half = rhythm.period / 2
    starts = [begin + add for begin in rhythm.begins if begin + 2 * half <= last for add in (0.0, half)]
    means = [_mean(values[(at >= start) & (at < start + half)]) for start in starts]
    pairs = np.array(means).reshape(-1, 2)
    kept: Floats = pairs[np.isfinite(pairs).all(axis=1)].ravel()
    return kept


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")


def _linked(attack: Attack, run: Run) -> list[Guess]:
    """A guess for each pair of circuits about the question whether one client built both.

    A client with several circuits is a pair. Clients with one circuit form pairs in the order of their names.
    """
    estimator = attack.estimator
    assert isinstance(estimator, Linked)  # noqa: S101 the table of estimators selects by kind
    tests = run.transfers.filter(
        pl.col("workload").str.starts_with(attack.adversary.victims),
        pl.col("bytes") <= estimator.largest,
        pl.col("ttlb_s").is_not_null(),
        pl.col("start_s").is_between(attack.measurement.begin, attack.measurement.end),
    )
    speed = tests.with_columns(rate=pl.col("bytes") / pl.col("ttlb_s"))
    of_circuit = speed.group_by("client", "workload").agg(pl.col("rate").median()).sort("client", "workload")
    of_client = of_circuit.group_by("client", maintain_order=True).agg("rate")
    same = [(name, list(rates)) for name, rates in of_client.iter_rows() if len(rates) > 1]
    single = [(name, rates[0]) for name, rates in of_client.iter_rows() if len(rates) == 1]
    other = [(f"{a}+{b}", [x, y]) for (a, x), (b, y) in zip(single[::2], single[1::2], strict=False)]
    slowest: NDArray[np.float64] = np.array([-np.log(max(rates)) for _, rates in same + other])
    if not slowest.size:
        return []
    border = float(np.median(slowest))
    labels = [1] * len(same) + [0] * len(other)
    return [
        Guess(name, label, (NO, YES), np.array([border, score]), {"rate": float(np.exp(-score))})
        for (name, _), label, score in zip(same + other, labels, slowest, strict=True)
    ]


ESTIMATORS: dict[str, Callable[[Attack, Run], list[Guess]]] = {
    "correlation": _correlation,
    "rate": _rate,
    "latency": _latency,
    "wave": _wave,
    "linked": _linked,
}
