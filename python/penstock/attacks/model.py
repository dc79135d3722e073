"""The section `[[attacks]]` of a scenario: what an adversary controls, measures, estimates and concludes.

docs/reference/attacks.md explains the keys.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock import catalog
from penstock.errors import PenstockError
from penstock.overrides import parsed
from penstock.validation import Strict, parse

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *([a-z]+)")


def _seconds(value: Any) -> Any:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not found or found[2] not in UNITS:
        raise ValueError(f"it must be a duration with its unit, like '100 ms' ({', '.join(UNITS)})")
    return float(found[1]) * UNITS[found[2]]


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration [s], written with its unit."""
LONGEST = 2.0
"""The longest interval of throughput for `flag-time` [s]: a quarter of `flag_times.SETTLED`.

The median of fewer intervals would tell little.
"""
Text = Annotated[str, Field(min_length=1)]
Resource = Literal["exit", "guard", "server", "clients", "circuits"]


class Adversary(Strict):
    """The resources of an adversary."""

    controls: tuple[Resource, ...]
    """Nodes and circuits of the adversary."""
    victims: Text
    """The workload of the victims."""
    probes: str = ""
    """The workload of the adversary's own clients."""


class Measurement(Strict):
    """A measurement of every victim, and of every probe."""

    what: Literal["throughput", "round-trip", "backlog"]
    at: Literal["exit", "client", "server"] = "client"
    """Where throughput is measured: cells that leave the exit, bytes that the client receives, or the time of a server
    between a client's requests."""
    guards: Literal["probe", "relay"] = "probe"
    """The throughput of a guard: that of the probe through it, or all that the guard writes, as an observer of its
    link sees it."""
    reading: Literal["own", "reported", "largest"] = "largest"
    """Which backlog counts: the exit's own estimate, the next relay's report, or the larger one of both."""
    period: Seconds = 1.0
    """The interval of throughput and backlog [s]."""
    begin: Seconds = 0.0
    end: Seconds = float("inf")
    """Only samples between these times of the run count [s]."""


class Correlation(Strict):
    """The largest Pearson correlation of the series of a victim and of a probe, over all lags up to `lag`."""

    kind: Literal["correlation"]
    lag: Seconds = 0.0
    """The longest time by which a probe may be earlier or later than the victim [s]."""
    skip_shared: bool = False
    """Leaves out guards that are the middle or exit of a victim's circuit."""
    with_throughput: bool = False
    """Adds the correlation of the throughputs to that of the backlogs."""


class Rate(Strict):
    """The distance between a guard's rate and the victim's mean throughput, in deviations of the victim's throughput.

    The rate of a guard is the mean throughput of its probe.
    """

    kind: Literal["rate"]
    bandwidth_of: tuple[Text, ...] = ()
    """Variants in which the rate of a guard is its bandwidth: the least of its link and its BandwidthRate."""
    parts: Annotated[int, Field(ge=1)] = 1
    """Measurements one after the other, whose sets of guards are intersected."""


class Latency(Strict):
    """The smallest round trip of a victim, minus the known latencies of its circuit."""

    kind: Literal["latency"]
    server: Text
    """The server at which the pings end."""
    resolution: Seconds = 0.001
    """An estimate within this time of the smallest round trip counts as the best one [s]."""


class Wave(Strict):
    """The correlation of a victim's measurement with the times at which the probes are active."""

    kind: Literal["wave"]


class Linked(Strict):
    """The throughput of small downloads after a larger one, the smaller one of two circuits."""

    kind: Literal["linked"]
    largest: int
    """Downloads of at most this size are tests [B]."""


class Ends(Strict):
    """The correlation of a victim's throughput at the exit with the throughput of each victim at its client."""

    kind: Literal["ends"]
    lag: Seconds = 0.0
    """The longest time by which the client may be earlier or later than the exit [s]."""


class Speed(Strict):
    """The median rate of a victim's downloads. The question is whether the victim uses a certain guard."""

    kind: Literal["speed"]
    guard: Text
    """The beginning of the names of these guards."""


class FlagTime(Strict):
    """The count of cells with which a guard began to throttle the victim, as the time of this flag tells it.

    The probe of each guard tells the guard's own limit of this count. `flag_times` has the parameters of throttles.
    """

    kind: Literal["flag-time"]


class Set(Strict):
    """The candidates whose score reaches a threshold remain."""

    kind: Literal["set"]
    at_least: float


class Rank(Strict):
    """The candidates that score at least as high as the true one remain."""

    kind: Literal["rank"]


class Probabilities(Strict):
    """Each candidate gets a probability."""

    kind: Literal["probabilities"]


class Decision(Strict):
    """One question is answered with yes or no."""

    kind: Literal["decision"]


class Attack(Strict):
    """An attack on the victims of a scenario."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: Text
    paper: str = ""
    section: str = ""
    figure: str = ""
    adversary: Adversary
    measurement: Measurement
    estimator: Annotated[
        Correlation | Rate | Latency | Wave | Linked | Ends | Speed | FlagTime, Field(discriminator="kind")
    ]
    conclusion: Annotated[Set | Rank | Probabilities | Decision, Field(discriminator="kind")]
    mechanisms: dict[Text, Text] = Field(default_factory=dict)
    """The rows of `penstock leaks`: for each mechanism, the variant that shows it."""
    elsewhere: str = ""
    """Why the attack does not measure the other mechanisms; one sentence."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        decides = isinstance(self.estimator, Wave | Linked | Speed)
        if decides != isinstance(self.conclusion, Decision):
            raise ValueError(
                f"conclusion.kind is {self.conclusion.kind!r}; the estimator {self.estimator.kind!r} needs "
                + ("decision" if decides else "set, rank or probabilities")
            )
        what, at, correlates = self.measurement.what, self.measurement.at, isinstance(self.estimator, Correlation)
        observed = self.measurement.guards == "relay"
        if observed and not (correlates and what == "throughput"):
            raise ValueError(
                "measurement.guards is 'relay'; it needs what = 'throughput' and the estimator 'correlation'"
            )
        if observed and "guard" not in self.adversary.controls:
            raise ValueError("measurement.guards is 'relay'; add 'guard' to adversary.controls")
        needs_probes = isinstance(self.estimator, Correlation | Rate | Wave | FlagTime) and not observed
        if needs_probes and not self.adversary.probes:
            raise ValueError(f"adversary.probes is missing; the estimator {self.estimator.kind!r} needs probes")
        if at in ("exit", "server") and at not in self.adversary.controls:
            raise ValueError(f"measurement.at is {at!r}; add {at!r} to adversary.controls")
        if what == "backlog":
            if not correlates or at != "exit":
                raise ValueError("measurement.what is 'backlog'; it needs at = 'exit' and the estimator 'correlation'")
            if "circuits" not in self.adversary.controls:
                raise ValueError("measurement.what is 'backlog'; add 'circuits' to adversary.controls")
        elif isinstance(self.estimator, Correlation | Rate | Ends | FlagTime) and what != "throughput":
            raise ValueError(f"measurement.what must be 'throughput' for the estimator {self.estimator.kind!r}")
        if isinstance(self.estimator, FlagTime) and self.measurement.period > LONGEST:
            raise ValueError(
                f"measurement.period is {self.measurement.period:g} s; "
                f"the estimator 'flag-time' needs at most {LONGEST:g} s"
            )
        if at == "exit" and isinstance(self.estimator, FlagTime):
            raise ValueError("measurement.at is 'exit'; the estimator 'flag-time' measures at the client")
        if at == "server" and not isinstance(self.estimator, Correlation | Rate):
            raise ValueError(
                f"measurement.at is 'server'; the estimator {self.estimator.kind!r} does not measure there"
            )
        if isinstance(self.estimator, Correlation) and self.estimator.with_throughput and what != "backlog":
            raise ValueError("estimator.with_throughput needs measurement.what = 'backlog'")
        return self


class _Attacks(Strict):
    attacks: tuple[Attack, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, count in Counter(attack.name for attack in self.attacks).items():
            if count > 1:
                raise ValueError(f"two attacks have the name {name!r}; give each attack its own name")
        return self


def read(tables: object, where: Path | str) -> tuple[Attack, ...]:
    """The checked attacks of a file."""
    return parse(_Attacks, {"attacks": tables}, where).attacks


def of_scenario(name: str, sets: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The checked tables `[[attacks]]` of a scenario with the overrides `attacks.NAME.KEY=VALUE`.

    Raises:
        PenstockError: if the scenario has no attacks, if an override names none of them, or if a table is wrong.
    """
    _, path, text = catalog.read(name)
    tables = catalog.attacks(path, text)
    if not tables:
        raise PenstockError(f"{path} has no [[attacks]]; penstock list attacks shows the scenarios with attacks")
    for each in sets:
        _override(tables, each)
    read(tables, ", ".join([str(path), *(f"--set {each}" for each in sets)]))
    return tables


def _override(tables: list[dict[str, Any]], override: str) -> None:
    """Set a key of one of the tables."""
    path, _, text = override.partition("=")
    _, name, *keys = path.strip().split(".")
    table = next((table for table in tables if table.get("name") == name), None)
    for key in keys[:-1]:
        table = table.setdefault(key, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict) or not keys or not text.strip():
        names = ", ".join(str(table.get("name")) for table in tables)
        raise PenstockError(f"--set {override}: write attacks.NAME.KEY=VALUE; NAME is one of {names}")
    table[keys[-1]] = parsed(text.strip())
