"""`penstock workload`: tgen's GraphML becomes a workload, and an invalid model gives one sentence."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import networkx
import pytest
from conftest import Command, sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import markov
from penstock._core import Document
from penstock.errors import PenstockError


def packets() -> networkx.DiGraph[str]:
    """A model with every distribution, in the form that tgen's documentation gives."""
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_node("s0", type="state", name="start")
    graph.add_node("s1", type="state", name="a b")
    graph.add_node("o1", type="observation", name="+")
    graph.add_node("o2", type="observation", name="-")
    graph.add_node("o3", type="observation", name="F")
    graph.add_edge("s0", "s1", type="transition", weight=1.0)
    graph.add_edge("s1", "s1", type="transition", weight=1.0)
    graph.add_edge("s1", "o1", type="emission", weight=0.4, distribution="exponential", param_rate=0.001)
    graph.add_edge(
        "s1", "o2", type="emission", weight=0.5, distribution="lognormal", param_location=7.5, param_scale=2.0
    )
    graph.add_edge("s1", "o3", type="emission", weight=0.1, distribution="normal", param_location=5.0, param_scale=1.0)
    return graph


def written(path: Path, graph: networkx.DiGraph[str]) -> Path:
    networkx.write_graphml(graph, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "packets.graphml", packets())


def test_a_model_becomes_a_workload_that_runs(penstock: Command, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "workload.toml"
    assert penstock("workload", "x", "--packets", str(model), "--streams", str(model), "--out", str(out)).status == 0
    text = out.read_text()
    assert penstock("workload", "x", "--streams", str(model), "--packets", str(model)).out == text
    tgen = tomllib.loads(text)["workloads"]["x"]["tgen"]
    assert (
        tgen["streams"]
        == tgen["packets"]
        == {
            "start": "start",
            "transitions": ["start -> s1: 1.0", "s1 -> s1: 1.0"],
            "emissions": [
                "s1 -> +: 0.4 after exponential(1 ms)",
                "s1 -> -: 0.5 after lognormal(1808.042 us, 2.0, 100000 h)",
                "s1 -> F: 0.1",
            ],
        }
    )
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(markov.AROUND + text)
    run = penstock("run", str(scenario), "--set", "run.duration=10 s", "--no-report", "--out", str(tmp_path / "out"))
    assert run.status == 0, run.err


def test_parameters_are_tgens(tmp_path: Path) -> None:
    for parameters, delay in [
        ({"distribution": "uniform", "param_low": 3, "param_high": 2500.5}, "uniform(3 us, 2500.500 us)"),
        ({"distribution": "normal", "param_location": 2e6, "param_scale": 0}, "normal(2 s, 0 s)"),
        ({"distribution": "pareto", "param_scale": 1000, "param_shape": 1}, "pareto(1 ms, 1.0)"),
        ({"distribution": "Exponential", "param_lambda": 1 / 3}, "exponential(3 us)"),
        ({"distribution": "lognormal", "param_mu": math.log(2e6), "param_sigma": 1}, "lognormal(2 s, 1.0, 100000 h)"),
    ]:
        graph = packets()
        graph.remove_edge("s1", "o1")
        graph.add_edge("s1", "o1", type="emission", weight=1.0, **parameters)
        read = markov.read(written(tmp_path / "x.graphml", graph))
        assert f"s1 -> +: 1.0 after {delay}" in read.emissions


def broken(change: str) -> networkx.DiGraph[str]:
    """A model with one mistake."""
    graph = packets()
    match change:
        case "no start":
            graph.nodes["s0"]["name"] = "begin"
        case "two starts":
            graph.nodes["s1"]["name"] = "start"
        case "dead end":
            graph.remove_edge("s1", "s1")
        case "silent cycle":
            graph.add_node("s2", type="state", name="s2")
            graph.add_edge("s1", "s2", type="transition", weight=1.0)
            graph.add_edge("s2", "s1", type="transition", weight=1.0)
        case "negative":
            graph.edges["s1", "s1"]["weight"] = -1.0
        case "not a number":
            graph.edges["s1", "s1"]["weight"] = math.nan
        case "no weight":
            del graph.edges["s1", "s1"]["weight"]
        case "absurd":
            graph.edges["s1", "s1"]["weight"] = 1e300
        case "no distribution":
            del graph.edges["s1", "o1"]["distribution"]
        case "no rate":
            del graph.edges["s1", "o1"]["param_rate"]
        case "rate of zero":
            graph.edges["s1", "o1"]["param_rate"] = 0.0
        case "unknown observation":
            graph.nodes["o1"]["name"] = "x"
        case "astray":
            graph.edges["s1", "o1"]["type"] = "transition"
    return graph


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("no start", "no state has the name 'start'"),
        ("two starts", "two states have the name 'start'; a model may have only one"),
        ("dead end", 'the state "s1" has no transition to another state, and no emission F; add one of the two'),
        ("silent cycle", 'the model can enter the state "s2", which has no emission; add one'),
        ("negative", "the weight of the edge from 's1' to 's1' is -1.0; it must be a number from 0 to 1e+12"),
        ("not a number", "the weight of the edge from 's1' to 's1' is nan; it must be a number from 0 to 1e+12"),
        ("no weight", "the weight of the edge from 's1' to 's1' is missing"),
        ("absurd", "the weight of the edge from 's1' to 's1' is 1e+300; it must be a number from 0 to 1e+12"),
        (
            "no distribution",
            "the edge from 's1' to 'o1' has the distribution ''; "
            "it must be uniform, normal, lognormal, exponential or pareto",
        ),
        ("no rate", "param_rate of the edge from 's1' to 'o1' is missing"),
        ("rate of zero", "param_rate of the edge from 's1' to 'o1' is 0.0; its mean of more than 100000 h is too long"),
        ("unknown observation", "the observation 'o1' has the name 'x'; it must be +, - or F"),
        ("astray", "the edge from 's1' to 'o1' is a transition, but does not end at a state"),
    ],
)
def test_an_invalid_model_is_refused_with_a_reason(penstock: Command, tmp_path: Path, change: str, says: str) -> None:
    path = written(tmp_path / "x.graphml", broken(change))
    assert sentence(penstock("workload", "x", "--packets", str(path))) == f"penstock: {path}: {says}"


def test_streams_without_end_at_one_instant_are_refused(tmp_path: Path) -> None:
    graph = packets()
    graph.remove_node("o3")
    for observation in ("o1", "o2"):
        graph.edges["s1", observation].update(distribution="uniform", param_low=0.0, param_high=0.0)
    path = written(tmp_path / "x.graphml", graph)
    markov.read(path, "packets")
    with pytest.raises(PenstockError, match=r'the model never ends after the state "s1", and has no delay'):
        markov.read(path, "streams")


def test_a_file_that_is_no_graphml_is_refused_with_a_reason(penstock: Command, model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes()
    for name, data in [
        ("truncated", whole[: len(whole) // 2]),
        ("empty", b""),
        ("other", b"<html></html>"),
        ("undirected", whole.replace(b'edgedefault="directed"', b'edgedefault="undirected"')),
    ]:
        path = tmp_path / name
        path.write_bytes(data)
        assert sentence(penstock("workload", "x", "--packets", str(path))).startswith(f"penstock: {path}: it")
    missing = sentence(penstock("workload", "x", "--packets", str(tmp_path / "none")))
    assert missing.startswith(f"penstock: cannot read {tmp_path / 'none'}: ")
    assert "is not a valid name of a workload" in sentence(penstock("workload", "a b", "--packets", str(model)))


def outcome(path: Path, kind: str = "packets") -> str:
    """A workload that the parser takes, or one sentence that begins with the file."""
    try:
        text = markov.workload("x", {kind: path} if kind == "packets" else {"packets": path, kind: path})
    except PenstockError as error:
        text = str(error)
        assert text.startswith(f"{path}: "), text
        assert "\n" not in text
        return "refused"
    Document(markov.AROUND + text, "x.toml")
    return "taken"


SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(st.data())
def test_damaged_files_are_taken_or_refused(model: Path, tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(model.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        length = data.draw(st.integers(0, 12))
        damaged[place : place + length] = data.draw(st.binary(max_size=6))
        if not damaged:
            break
    path = tmp_path / "damaged.graphml"
    path.write_bytes(bytes(damaged))
    outcome(path)


def test_a_file_that_is_cut_anywhere_is_refused(model: Path, tmp_path: Path) -> None:
    whole = model.read_bytes().rstrip()
    path = tmp_path / "cut.graphml"
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert outcome(path) == "refused"


@pytest.mark.parametrize(
    "value",
    ["", "x", "[]", "{}", "null", "true", "-1", "0", "1.5", "1e300", "NaN", "9" * 400, "9" * 5000, "\u0661"],
    ids=lambda value: value[:12],
)
def test_each_value_is_replaced_by_a_wrong_one(model: Path, tmp_path: Path, value: str) -> None:
    whole = model.read_text()
    path = tmp_path / "misplaced.graphml"
    # Numbers as each type that GraphML has: networkx makes them.
    for kind in ("double", "long", "boolean", "string"):
        typed = whole.replace('attr.type="double"', f'attr.type="{kind}"')
        for found in re.finditer(r'(?<=">)[^<\n]+(?=</data>)|(?<==")[^"]*(?=")', typed):
            path.write_text(typed[: found.start()] + value + typed[found.end() :])
            outcome(path)


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 1e9),
    st.sampled_from([0.0, 1.0, 1e-9, 1e12, -1.0]),
    st.sampled_from(["", "x", "1", "1e400", "\u0661"]),
    st.integers(-5, 10**30),
)


@SLOW
@given(st.data())
def test_any_graph_is_taken_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    kinds = st.sampled_from(["state", "state", "observation", "State", "", "x"])
    names = st.sampled_from(["start", "+", "-", "F", "$", "a", "a b", "s1", '"', "\\", "é"])
    count = data.draw(st.integers(0, 6))
    for node in range(count):
        graph.add_node(f"n{node}", type=data.draw(kinds), name=data.draw(names))
    for _ in range(data.draw(st.integers(0, 12)) if count else 0):
        ends = [f"n{data.draw(st.integers(0, count - 1))}" for _ in range(2)]
        keys = ["weight", "param_location", "param_scale", "param_rate", "param_low", "param_high", "param_shape"]
        chosen = {key: str(data.draw(VALUES)) for key in keys if data.draw(st.booleans())}
        distribution = data.draw(st.sampled_from(["normal", "lognormal", "exponential", "uniform", "pareto", "", "x"]))
        kind = data.draw(st.sampled_from(["transition", "emission", "Emission", ""]))
        graph.add_edge(*ends, type=kind, distribution=distribution, **chosen)
    path = tmp_path / "any.graphml"
    networkx.write_graphml(graph, path)
    outcome(path, data.draw(st.sampled_from(["packets", "streams", "flows"])))


@SLOW
@given(st.data())
def test_models_of_any_numbers_are_taken(tmp_path: Path, data: st.DataObject) -> None:
    graph = packets()
    graph.edges["s1", "o1"].update(param_rate=data.draw(st.floats(1e-14, 1e12)))
    location, scale = data.draw(st.floats(0, 33)), data.draw(st.floats(0, 10))
    graph.edges["s1", "o2"].update(param_location=location, param_scale=scale)
    for edge in graph.edges.values():
        edge["weight"] = data.draw(st.floats(1e-9, 1e12))
    path = written(tmp_path / "x.graphml", graph)
    assert outcome(path, data.draw(st.sampled_from(["packets", "streams", "flows"]))) == "taken"
