"""The package for scripts and notebooks."""

import ast
import json
from contextlib import chdir
from pathlib import Path
from typing import Any, get_args

import pytest

import penstock
from penstock import listing, verbs
from penstock.overrides import typed
from penstock.paths import Share
from penstock.result import Result

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "notebook.ipynb"


def test_dir_names_everything_public() -> None:
    assert set(penstock.__all__) <= set(dir(penstock))
    assert all(getattr(penstock, name) is not None for name in penstock.__all__)


def test_overrides_may_be_python_values(small: Path, tmp_path: Path) -> None:
    values = {"network.rtt": "40 ms", "run.seeds": [3, 4], "trace.cells": 5, "relay.optimistic_data": True}
    assert typed(values) == ("network.rtt=40 ms", "run.seeds=[3, 4]", "trace.cells=5", "relay.optimistic_data=true")
    assert typed({"relay.scheduler": {"kind": "kist", "interval": "2 ms"}}) == (
        'relay.scheduler={ kind = "kist", interval = "2 ms" }',
    )
    assert typed(["a=1"]) == ("a=1",)
    result = penstock.run(small, variants=["stock"], sets={"run.seeds": [7], "run.duration": "2 s"}, out=tmp_path / "o")
    assert result.seeds == [7]
    assert result.scenario["sets"] == ["run.seeds=[7]", "run.duration=2 s"]


def test_check_and_entries_are_the_json_of_the_commands(small: Path) -> None:
    checked = penstock.check(small, sets={"run.duration": "5 s"})
    assert [each["name"] for each in checked["variants"]] == ["stock", "small"]
    assert checked["variants"][0]["estimate"]["sim_seconds"] == 5
    assert "quickstart" in [each["name"] for each in penstock.entries()]
    assert get_args(verbs.List) == listing.KINDS
    with pytest.raises(penstock.ScenarioError, match="there is no list 'relays'; there are scenarios"):
        penstock.entries("relays")


def test_outputs_are_compared(made_up: Path) -> None:
    found = penstock.compare_outputs(f"{made_up}:stock", f"{made_up}:small", workloads=["web"])
    assert found.rows
    assert not (Path.cwd() / "runs" / "compare-1").exists()


def test_a_notebook_shows_a_result_as_a_table(made_up: Path) -> None:
    html = Result(made_up)._repr_html_()
    assert html.count("<tr>") == 5
    assert "<td>50 KiB window</td><td>web</td><td>295</td>" in html


def test_no_event_gives_an_upper_bound() -> None:
    # Wilson's upper end for 0 of n is z^2 / (n + z^2).
    assert Share(0, 1000).at_most == pytest.approx(100 * 3.8414588 / 1003.8414588, rel=1e-6)
    assert Share(0, 1000).cells == ("0.00000", "at most 0.38")
    assert Share(1000, 1000).cells == ("100.00000", "at least 99.61732")
    assert Share(10, 1000).cells == ("1.00000", "0.31464")


def test_the_notebook_runs(tmp_path: Path) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = []
    with chdir(tmp_path):
        for cell in cells:
            code = ast.parse("".join(cell["source"]))
            last = code.body.pop()
            assert isinstance(last, ast.Expr)
            exec(compile(code, NOTEBOOK.name, "exec"), names)  # noqa: S102
            shown.append(eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names))  # noqa: S307
        assert shown[1]._repr_html_().startswith("<table>")
        assert shown[2]["variant"].sort().to_list() == ["50KiB", "stock"]
        assert set(shown[3]["workload"]) == {"web"}
        assert (shown[3]["low_s"] < shown[3]["high_s"]).all()
        assert "<svg" in shown[4]._repr_svg_()
    assert "out=" not in NOTEBOOK.read_text(), "a second execution would be refused"
