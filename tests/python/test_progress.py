"""Long jobs print their progress: as bars in a terminal and as lines elsewhere."""

import pytest

from penstock import progress


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_log_gets_a_line_after_two_seconds_and_then_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.Shown("quickstart") as watch:
        for second in range(60):
            clock.now = 100.0 + second
            watch.update(1, 4, {"stock-2": 0.5})
    line = "penstock: quickstart: 1 of 4 runs finished, 38 % done"
    assert capsys.readouterr().err.splitlines() == [line, line]


def test_a_short_job_prints_no_progress(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.Shown("quickstart") as watch:
        clock.now += 1.9
        watch.update(3, 4, {})
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_bars(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.Shown("quickstart") as watch:
        clock.now += 3
        watch.update(1, 4, {"stock-2": 0.5})
        watch.update(2, 4, {"small-2": 0.1})
    shown = capsys.readouterr().err
    assert "quickstart" in shown
    assert "2/4 runs" in shown
