"""The estimators of adversaries: from the measurements of one run to a score for each candidate of each victim."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from penstock.attacks import flag_times, measurement, wave
from penstock.attacks.information import NO, YES, Floats, Guess
from penstock.attacks.measurement import Run
from penstock.attacks.model import Attack, Correlation, Ends, Latency, Linked, Rate, Speed

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
    best = np.max(list(by_lag(victim, probes, lags)), axis=0)
    return np.where(np.isfinite(best), best, BLIND)


def by_lag(victim: Floats, probes: Sequence[Floats], lags: int) -> Iterator[Floats]:
    """For each shift of up to `lags` samples, the Pearson correlations of probes; -inf if a series is constant."""
    table = np.array(probes)
    count = len(victim)
    for lag in range(-lags, lags + 1):
        mine = victim[max(lag, 0) : count + min(lag, 0)]
        theirs = table[:, max(-lag, 0) : count + min(-lag, 0)]
        mine = mine - mine.mean()
        theirs = theirs - theirs.mean(axis=1, keepdims=True)
        scale = np.sqrt(np.sum(mine**2) * np.sum(theirs**2, axis=1))
        yield np.divide(theirs @ mine, scale, out=np.full(len(table), -np.inf), where=scale > 0)


def distances(victim: Floats, rates: Floats) -> Floats:
    """For each rate, its negative distance to the victim's mean throughput [standard deviations of the throughput].

    Source: throttling section 5.2, attack 1: guards outside one standard deviation are removed.
    A victim with a constant throughput keeps the guards with exactly this rate.
    """
    deviation = float(np.std(victim, ddof=1))
    found: Floats = -np.abs(rates - victim.mean()) / max(deviation, 1e-9)
    return found


def of_parts(victim: Floats, rates: Sequence[Floats], parts: int) -> Floats:
    """For each series of rates, its largest distance to the victim in any of `parts` equal parts, negative.

    A guard is within a distance of the victim only if it is so in every part: the parts' sets of guards intersect.
    The last samples are left out if the parts have no equal length.

    Source: throttling section 5.2: "running the attack repeatedly over time, an intersection will narrow the set".
    """
    length = len(victim) // parts
    spans = [slice(k * length, (k + 1) * length) for k in range(parts)]
    found = [distances(victim[span], np.array([each[span].mean() for each in rates])) for span in spans]
    worst: Floats = np.min(found, axis=0)
    return worst


def best_ping(trips: Floats, resolution: float) -> tuple[float, int]:
    """The smallest round trip [s], and the number of pings until one is within `resolution` [s] of it."""
    least = float(trips.min())
    return least, int(np.argmax(trips <= least + resolution)) + 1


def _borders(attack: Attack, run: Run) -> Floats:
    """The borders of the intervals of throughput [s]."""
    last = float(run.clients["t_s"].max() or 0.0)  # type: ignore[arg-type]
    return measurement.edges(attack.measurement, last)


def throughputs(attack: Attack, run: Run) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The throughputs of the victims, and those of the guards, by `measurement.guards`."""
    borders = _borders(attack, run)
    workload = attack.adversary.victims
    if attack.measurement.at == "exit":
        circuits = {name: circuit[0] for (name, of), circuit in run.circuits.items() if of == workload}
        victims = measurement.sent(run, circuits, borders)
    elif attack.measurement.at == "server":
        victims = measurement.served(run, workload, borders)
    else:
        victims = measurement.received(run, run.names(workload), borders)
    if attack.measurement.guards == "relay":
        return victims, measurement.written(run, run.sampled.guards, borders)
    relays = run.first_relays(attack.adversary.probes)
    probes = measurement.received(run, relays, borders)
    return victims, {relays[name]: series for name, series in probes.items()}


def _backlog(attack: Attack, run: Run) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The backlogs at the exits of the victims, and those at the exits of the probes by their first relay."""
    borders, reading = _borders(attack, run), attack.measurement.reading
    workload, own = attack.adversary.victims, attack.adversary.probes
    numbers = {key: circuit[0] for key, circuit in sorted(run.circuits.items())}
    victims = {name: circuit for (name, of), circuit in numbers.items() if of == workload}
    probes = {run.circuits[name, of][1]: circuit for (name, of), circuit in numbers.items() if of == own}
    return measurement.backlog(run, victims, borders, reading), measurement.backlog(run, probes, borders, reading)


def _by_guard(
    attack: Attack,
    run: Run,
    score: Callable[[Floats, Mapping[str, Floats]], Floats],
    measured: Callable[[Attack, Run], tuple[dict[str, Floats], dict[str, Floats]]] = throughputs,
) -> list[Guess]:
    """A guess for each victim about its guard. `score` has the series of the victim and of the candidates' probes."""
    victims, probes = measured(attack, run)
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

    def score(victim: Floats, probes: Mapping[str, Floats]) -> Floats:
        return correlations(victim, list(probes.values()), lags)

    if attack.measurement.what == "throughput":
        return _by_guard(attack, run, score)
    found = _by_guard(attack, run, score, _backlog)
    return _added(found, _by_guard(attack, run, score)) if estimator.with_throughput else found


def _added(guesses: Sequence[Guess], others: Sequence[Guess]) -> list[Guess]:
    """Guesses with the sums of two scores, for victims with the same candidates in both."""
    of_victim = {(guess.victim, guess.names): guess.scores for guess in others}
    pairs = ((guess, of_victim.get((guess.victim, guess.names))) for guess in guesses)
    return [replace(guess, scores=guess.scores + scores, facts={}) for guess, scores in pairs if scores is not None]


def _rate(attack: Attack, run: Run) -> list[Guess]:
    estimator = attack.estimator
    assert isinstance(estimator, Rate)  # noqa: S101 the table of estimators selects by kind
    known = run.sampled.bandwidths if run.variant in estimator.bandwidth_of else {}

    def score(victim: Floats, probes: Mapping[str, Floats]) -> Floats:
        rates = [np.full_like(victim, known[name]) if known else series for name, series in probes.items()]
        return of_parts(victim, rates, estimator.parts)

    # A deviation needs two samples.
    return _by_guard(attack, run, score) if len(_borders(attack, run)) > 2 * estimator.parts else []


def _flag_time(attack: Attack, run: Run) -> list[Guess]:
    """A guess for each victim about its guard, by the limits of counts that the victim and the probes show."""
    throttle = flag_times.throttle_of(run.document.resolved(run.variant))
    if throttle is None:
        return []
    period = attack.measurement.period

    def limit(throughput: Floats) -> flag_times.Limit:
        return flag_times.limit(throughput, period, throttle)

    # Every victim has the same probes.
    limits: dict[str, flag_times.Limit] = {}

    def score(victim: Floats, probes: Mapping[str, Floats]) -> Floats:
        limits.update((name, limit(series)) for name, series in probes.items() if name not in limits)
        mine = limit(victim)
        return np.array([flag_times.score(mine, limits[name]) for name in probes])

    return _by_guard(attack, run, score)


def _ends(attack: Attack, run: Run) -> list[Guess]:
    """A guess for each victim about its client, among the clients of all victims."""
    estimator = attack.estimator
    assert isinstance(estimator, Ends)  # noqa: S101 the table of estimators selects by kind
    workload = attack.adversary.victims
    borders = _borders(attack, run)
    circuits = {name: circuit[0] for (name, of), circuit in sorted(run.circuits.items()) if of == workload}
    exits, clients = measurement.sent(run, circuits, borders), measurement.received(run, circuits, borders)
    names = tuple(circuits)
    lags = round(estimator.lag / attack.measurement.period)
    found = []
    for index, victim in enumerate(names):
        if len(names) > 1 and len(borders) > 2 * lags + 3 and np.ptp(exits[victim]) > 0:
            scores = correlations(exits[victim], [clients[name] for name in names], lags)
            found.append(Guess(victim, index, names, scores, {"score": float(scores[index])}))
    return found


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
            "spread_s": float(np.std(trips, ddof=1)) if len(trips) > 1 else float("nan"),
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
        borders = _borders(attack, run)
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
    slowest = [-float(np.log(max(rates))) for _, rates in same + other]
    labels = [1] * len(same) + [0] * len(other)
    return _above_median([name for name, _ in same + other], labels, slowest)


def _speed(attack: Attack, run: Run) -> list[Guess]:
    """A guess for each victim about the question whether its guard is one of those of the estimator.

    The adversary expects faster downloads through these guards, and says yes above the median of all victims.
    """
    estimator = attack.estimator
    assert isinstance(estimator, Speed)  # noqa: S101 the table of estimators selects by kind
    workload = attack.adversary.victims
    rows = run.transfers.filter(
        pl.col("workload") == workload,
        pl.col("ttlb_s").is_not_null(),
        pl.col("start_s").is_between(attack.measurement.begin, attack.measurement.end),
    )
    rates = rows.group_by("client").agg(rate=(pl.col("bytes") / pl.col("ttlb_s")).median()).sort("client")
    names = rates["client"].to_list()
    labels = [int(run.circuits[name, workload][1].startswith(estimator.guard)) for name in names]
    return _above_median(names, labels, [float(np.log(rate)) for rate in rates["rate"]])


def _above_median(names: Sequence[str], labels: Sequence[int], scores: Sequence[float]) -> list[Guess]:
    """Answers to one question: yes for the scores above the median of all."""
    border = float(np.median(scores)) if len(scores) else 0.0
    return [
        Guess(name, label, (NO, YES), np.array([border, score]), {"score": score})
        for name, label, score in zip(names, labels, scores, strict=True)
    ]


ESTIMATORS: dict[str, Callable[[Attack, Run], list[Guess]]] = {
    "correlation": _correlation,
    "rate": _rate,
    "latency": _latency,
    "wave": _wave,
    "linked": _linked,
    "ends": _ends,
    "speed": _speed,
    "flag-time": _flag_time,
}
