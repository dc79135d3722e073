"""Converts tgen's Markov models in GraphML into a workload of a scenario.

This module checks the form of a file and names wrong vertices and edges. The parser of scenarios then checks the
meaning of the model.
"""

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from penstock._core import Document
from penstock.errors import PenstockError, ScenarioError, naming

LARGEST = 16 << 20
"""The largest accepted file [B]; tgen's own server accepts models of 10 MiB."""

LONGEST_US = 100_000 * 3600 * 1_000_000
"""The longest duration in a scenario [us]."""

NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""Valid names of states in a scenario."""

OBSERVATIONS = {"+": "+", "-": "-", "$": "+", "F": "F"}
"""Observations of tgen and their names in scenarios. Older models write `$` for a stream."""

OLDER = {"location": "mu", "scale": "sigma", "rate": "lambda"}
"""The older names of parameters."""


AROUND = """
[scenario]
title = "x"
[run]
duration = "1 s"
[relays.r]
[servers.s]
[clients.c]
workload = "x"
path = ["r"]
"""
"""A minimal scenario around a workload, for the parser."""


@dataclass(frozen=True)
class Model:
    """One model in the notation of scenarios."""

    transitions: tuple[str, ...]
    emissions: tuple[str, ...]

    def toml(self, table: str) -> str:
        """The model as a TOML table with this name."""
        lines = [f"[{table}]", 'start = "start"']
        for key, values in (("transitions", self.transitions), ("emissions", self.emissions)):
            lines += [f"{key} = [", *(f'    "{value}",' for value in values), "]"]
        return "\n".join(lines) + "\n"


def workload(name: str, models: Mapping[str, Path]) -> str:
    """Convert GraphML files for `flows`, `streams` and `packets` into the TOML of a workload.

    Raises:
        PenstockError: if a file cannot be read or is no model; the sentence names it.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise PenstockError(f"{name!r} is not a valid name of a workload; use letters, digits, '_' and '-'")
    parts = [read(path, kind).toml(f"workloads.{name}.tgen.{kind}") for kind, path in models.items()]
    names = ", ".join(ascii(path.name)[1:-1] for path in models.values())
    return f"# Made by penstock workload from {names}\n\n" + "\n".join(parts)


def read(path: Path, kind: str = "packets") -> Model:
    """The model in a GraphML file, to be used for `flows`, `streams` or `packets`."""
    with naming(path, "read"):
        if path.stat().st_size > LARGEST:
            raise PenstockError(f"{path}: the file has more than {LARGEST >> 20} MiB; this is too large for a model")
        data = path.read_bytes()
    try:
        model = _model(data)
        _check(model, kind)
    except _WrongError as wrong:
        raise PenstockError(f"{path}: {wrong}") from wrong
    return model


class _WrongError(Exception):
    """An error in a file. The message does not contain the file's name."""


def _model(data: bytes) -> Model:
    import networkx

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = networkx.read_graphml(BytesIO(data), force_multigraph=True)
    # networkx raises many kinds of errors for invalid GraphML.
    except Exception as error:
        raise _WrongError(f"it is not GraphML ({_words(error)})") from error
    if not graph.is_directed():
        raise _WrongError('its edges have no direction; a model is a graph with edgedefault="directed"')
    states, observations = _vertices(graph.nodes(data=True))
    transitions, emissions = [], []
    for source, target, edge in graph.edges(data=True):
        about = f"the edge from {source!r} to {target!r}"
        if source not in states:
            raise _WrongError(f"{about} does not begin at a state")
        weight = _number(edge.get("weight"), f"the weight of {about}")
        kind = str(edge.get("type", "")).lower()
        if kind == "transition":
            if target not in states:
                raise _WrongError(f"{about} is a transition, but does not end at a state")
            transitions.append(f"{states[source]} -> {states[target]}: {weight!r}")
        elif kind == "emission":
            if target not in observations:
                raise _WrongError(f"{about} is an emission, but does not end at an observation")
            what = observations[target]
            after = "" if what == "F" else f" after {_delay(edge, about)}"
            emissions.append(f"{states[source]} -> {what}: {weight!r}{after}")
        else:
            raise _WrongError(f"{about} has the type {kind!r}; it must be transition or emission")
    return Model(tuple(transitions), tuple(emissions))


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _vertices(nodes: Iterable[tuple[Any, Mapping[str, Any]]]) -> tuple[dict[Any, str], dict[Any, str]]:
    states: dict[Any, str] = {}
    observations: dict[Any, str] = {}
    for node, attributes in nodes:
        name, kind = str(attributes.get("name", "")), str(attributes.get("type", "")).lower()
        if kind == "observation":
            if name not in OBSERVATIONS:
                raise _WrongError(f"the observation {node!r} has the name {name!r}; it must be +, - or F")
            observations[node] = OBSERVATIONS[name]
        elif kind == "state" or name == "start":
            if name == "start" and "start" in states.values():
                raise _WrongError("two states have the name 'start'; a model may have only one")
            states[node] = "start" if name == "start" else _free(name, str(node), states.values())
        else:
            raise _WrongError(f"the vertex {node!r} has the type {kind!r}; it must be state or observation")
    if "start" not in states.values():
        raise _WrongError("no state has the name 'start'")
    return states, observations


def _free(name: str, node: str, taken: Iterable[str]) -> str:
    """A valid, unused name of a state: its name, its id, or a number."""
    used = {"start", *taken}
    numbers = (f"s{number}" for number in range(len(used) + 1))
    return next(each for each in (name, node, *numbers) if NAME.fullmatch(each) and each not in used)


def _number(value: object, what: str, *, most: float = 1e12) -> float:
    if value is None:
        raise _WrongError(f"{what} is missing")
    try:
        number = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= most:
        raise _WrongError(f"{what} is {value!r}; it must be a number from 0 to {most:g}")
    return number + 0.0


def _delay(edge: Mapping[str, Any], about: str) -> str:
    def parameter(name: str, *, most: float = LONGEST_US) -> float:
        value = edge.get(f"param_{name}", edge.get(f"param_{OLDER.get(name, name)}"))
        return _number(value, f"param_{name} of {about}", most=most)

    distribution = str(edge.get("distribution", "")).lower()
    if distribution == "uniform":
        low, high = parameter("low"), parameter("high")
        if low > high:
            raise _WrongError(f"param_low of {about} is above its param_high")
        return f"uniform({_us(low)}, {_us(high)})"
    if distribution == "normal":
        return f"normal({_us(parameter('location'))}, {_us(parameter('scale'))})"
    if distribution == "lognormal":
        median = math.exp(parameter("location", most=math.log(LONGEST_US)))
        return f"lognormal({_us(median)}, {parameter('scale', most=10)!r}, 100000 h)"
    if distribution == "exponential":
        rate = parameter("rate", most=1e12)
        if rate * LONGEST_US < 1:
            raise _WrongError(f"param_rate of {about} is {rate!r}; its mean of more than 100000 h is too long")
        return f"exponential({_us(1 / rate)})"
    if distribution == "pareto":
        scale, shape = parameter("scale"), parameter("shape", most=1000)
        if shape < 0.01:
            raise _WrongError(f"param_shape of {about} is {shape!r}; it must be at least 0.01")
        return f"pareto({_us(scale)}, {shape!r})"
    known = "uniform, normal, lognormal, exponential or pareto"
    raise _WrongError(f"{about} has the distribution {distribution!r}; it must be {known}")


def _us(microseconds: float) -> str:
    nanos = min(round(microseconds * 1000), LONGEST_US * 1000)
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanos % size == 0:
            return f"{nanos // size} {unit}"
    return f"{nanos // 1000}.{nanos % 1000:03} us"


def _check(model: Model, kind: str) -> None:
    tables = [model.toml(f"workloads.x.tgen.{kind}")]
    if kind != "packets":
        least = Model(("start -> a: 1",), ("a -> F: 1",))
        tables.append(least.toml("workloads.x.tgen.packets"))
    try:
        Document(AROUND + "".join(tables), "x.toml")
    except ScenarioError as error:
        # Its file, line and key are those of the minimal scenario.
        raise _WrongError(str(error).split(": ", 2)[-1]) from error
