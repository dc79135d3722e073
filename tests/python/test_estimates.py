"""The estimated cost before a run, and the question before a long one."""

import io
from pathlib import Path

import pytest
from conftest import make_paper

import penstock
from penstock import catalog, estimates, runs
from penstock.attacks import study
from penstock.errors import PenstockError
from penstock.estimates import Cost
from penstock.paper import runner as paper


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make this process have a terminal, on which the user answers no. pytest replaces the streams after fixtures."""
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    return shown


def test_a_cost_is_the_sum_of_its_runs(small: Path) -> None:
    _, document = catalog.load(small)
    jobs = runs.plan(document, None, None, 3)
    cost = estimates.of(document, jobs, 2)
    assert (cost.runs, cost.at_once) == (6, 2)
    assert cost.wall_seconds == pytest.approx(
        3 * sum(document.estimate(name)["cpu_seconds"] for name in ("stock", "small")) / 2
    )
    assert estimates.of(document, [], 2).text() == "0 runs, 1 at the same time: about 1 s, 0 MB of memory"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (90, "1.5 min"), (5400, "1.5 h"), (864000, "10 days")]
)
def test_durations_have_their_largest_unit(seconds: float, text: str) -> None:
    assert estimates.duration(seconds) == text


def test_a_refused_run_leaves_no_directory(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(estimates, "ASK_S", 0.0)
    confirm = estimates.stated(yes=False)
    with pytest.raises(PenstockError, match="nothing was run; --yes answers the question"):
        penstock.run(small, runs=1, out=tmp_path / "out", confirm=confirm)
    assert not (tmp_path / "out").exists()
    assert "penstock: 2 runs, " in screen.getvalue()
    assert "continue? [y/N] " in screen.getvalue()


def test_short_runs_and_yes_ask_nothing(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    penstock.run(small, sets={"run.duration": "1 s"}, runs=1, out=tmp_path / "out", confirm=estimates.stated(yes=False))
    estimates.stated(yes=True)(Cost(200, 5e5, 2, 1e9))
    assert "continue?" not in screen.getvalue()
    assert "200 runs, 2 at the same time: about 5.79 days, 1000 MB of memory" in screen.getvalue()


def test_a_paper_asks_once_for_all_scenarios(small: Path, tmp_path: Path) -> None:
    make_paper(small, tmp_path)
    asked: list[Cost] = []

    def refuse(cost: Cost) -> None:
        asked.append(cost)
        raise PenstockError("refused")

    with pytest.raises(PenstockError, match="refused"):
        paper.run(str(tmp_path), seeds=3, out=tmp_path / "out", confirm=refuse)
    assert not (tmp_path / "out").exists()
    _, document = catalog.load(small)
    [cost] = asked
    one = estimates.of(document, runs.plan(document, ["stock"], None, 3), cost.at_once)
    assert cost.runs == 6
    assert cost.wall_seconds == pytest.approx(2 * one.wall_seconds)
    assert cost.memory == one.memory
    # A finished scenario costs nothing.
    penstock.run(small, variants=["stock"], runs=3, out=tmp_path / "out" / "small")
    (tmp_path / "out" / "claims.json").write_text('{"paper": "made-up", "scale": 1.0}')
    with pytest.raises(PenstockError, match="refused"):
        paper.run(str(tmp_path), seeds=3, out=tmp_path / "out", confirm=refuse)
    assert asked[1].runs == 3


def test_an_attack_asks_before_it_runs(tmp_path: Path) -> None:
    def refuse(cost: Cost) -> None:
        raise PenstockError(f"{cost.runs} refused")

    with pytest.raises(PenstockError, match=r"[0-9]+ refused"):
        study.run(catalog.with_attacks()[0], out=tmp_path / "out", confirm=refuse)
    assert not (tmp_path / "out").exists()


def test_a_log_gets_the_cost_of_long_runs_and_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    confirm = estimates.stated(yes=False)
    confirm(Cost(2, 5.0, 2, 1e9))
    confirm(Cost(200, 5e5, 2, 1e9))
    assert log.getvalue() == "penstock: 200 runs, 2 at the same time: about 5.79 days, 1000 MB of memory\n"
