"""`penstock play`: sliders that run a scenario again, and a saved page of runs made before."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SCHEMES, SIZES, chromium, controls, faults, reached_by_tab, serving, tab
from conftest import ENDLESS, SMALL, Command, sentence
from playwright.sync_api import Browser, expect

import penstock as package
from penstock.errors import Cancelled, PenstockError, ScenarioError
from penstock.explorer import play
from penstock.explorer.play import AS_GIVEN, Player, save
from penstock.report import save as write

WINDOWS = "relay.edge_control.circuit_window=100,200"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "tutorials" / "quickstart-slider.html"


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("played") / "small.toml"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as each:
        yield each


def player(scenario: str, *params: str, variants: tuple[str, ...] = (), sets: tuple[str, ...] = ()) -> Player:
    return Player(scenario, params, variants, sets, None)


def test_a_position_is_the_run_of_its_command(scenario: str, tmp_path: Path) -> None:
    made = player(scenario, WINDOWS, "network.rtt=40 ms,80 ms", variants=("stock",))
    found = made.at((1, 1))
    sets = ["relay.edge_control.circuit_window=100", "network.rtt=40 ms"]
    assert found["command"] == (
        f"penstock run {scenario} --variant stock --set {sets[0]} --set 'network.rtt=40 ms' --seed 1 --runs 1"
    )
    result = package.run(scenario, variants=["stock"], sets=sets, seed=1, runs=1, out=tmp_path / "out")
    row = result.summary().row(0, named=True)
    times = found["times"]["web"]["ttlb_s"]["rows"]
    assert times[0]["percentiles"] == pytest.approx([row["ttlb_median_s"], row["ttlb_p90_s"]], rel=1e-6)
    assert made.at((0, 0))["times"]["web"]["ttlb_s"]["rows"] != times


def test_the_usual_sliders_are_those_with_an_effect(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> list[str]:
        return [slider["key"] for slider in player(scenario).choices()["sliders"]]

    assert keys() == ["relay.edge_control.circuit_window", "network.rtt", "tcp.send_buffer"]
    # The scenario has no such relay, and the key of ECN has no effect without DCTCP.
    monkeypatch.setattr(play, "USUAL", ("relays.other.link=1 MiB/s,2 MiB/s", "relay.ecn_threshold=5,10"))
    with pytest.raises(ScenarioError, match="none of the usual keys has an effect"):
        keys()


def test_a_newer_position_ends_an_older_run(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(SMALL.replace('"30 s"', '"300 s"'))
    made = player(str(path), "run.duration=3 h,2 s", variants=("stock",))
    ended: list[BaseException] = []

    def old() -> None:
        try:
            made.at((1,))
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=old)
    thread.start()
    while made._share == 0:
        assert thread.is_alive()
        time.sleep(0.01)
    made.at((2,))
    thread.join()
    assert len(ended) == 1


@pytest.mark.parametrize(
    "given", [None, {}, {"positions": []}, {"positions": [3]}, {"positions": [-1]}, {"positions": [True]}]
)
def test_wrong_positions_are_refused(scenario: str, given: Any) -> None:
    with pytest.raises(PenstockError, match="position"):
        player(scenario, WINDOWS).page().acts["run"](given)


def test_mistakes_are_one_sentence(penstock: Command, scenario: str, tmp_path: Path) -> None:
    assert "circuit_window" in sentence(penstock("play", scenario, "--param", "relay.edge_control.circuit_window=x,y"))
    assert "relays.midle.link" in sentence(penstock("play", scenario, "--param", "relays.midle.link=1 MiB/s,2 MiB/s"))
    assert "there is no variant 'fast'" in sentence(penstock("play", scenario, "--variant", "fast"))
    endless = tmp_path / "endless.toml"
    endless.write_text(ENDLESS)
    assert "sliders need less than 20 s: shorten it" in sentence(penstock("play", endless))
    many = ["--param", f"network.rtt={','.join(f'{ms} ms' for ms in range(1, 90))}"]
    said = sentence(penstock("play", scenario, *many, "--save", tmp_path / "page.html"))
    assert said.startswith("penstock: the sliders have 90 positions, and a saved page at most 60")


def test_the_command_serves_until_ctrl_c(penstock: Command, scenario: str) -> None:
    process = penstock.start("play", scenario, "--no-browser")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("player: http://127.0.0.1:")
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, ""), (out, err)


def test_ctrl_c_ends_a_run(penstock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "long.toml").write_text(SMALL.replace('"30 s"', '"300 s"'))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setitem(penstock.env, "TMPDIR", str(tmp_path / "tmp"))
    # The first position runs for a moment, the second one for much longer than this test.
    process = penstock.start(
        "play", tmp_path / "long.toml", "--variant", "stock", "--param", "run.duration=3 h", "--no-browser"
    )
    assert process.stdout is not None
    address = process.stdout.readline().split()[1]

    def post() -> None:
        host = address.split("/")[2]
        connection = http.client.HTTPConnection(host, timeout=60)
        headers = {"Content-Type": "application/json", "Origin": f"http://{host}"}
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", f"/{address.split('/')[3]}/run", '{"positions": [1]}', headers)
            connection.getresponse().read()
        connection.close()

    threads = [threading.Thread(target=post) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for_any(tmp_path / "tmp", process)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    for thread in threads:
        thread.join()
    assert (process.returncode, err) == (0, ""), (out, err)
    assert list((tmp_path / "tmp").iterdir()) == []


def wait_for_any(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not list(folder.glob("penstock-play-*/out")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def noted(started: list[tuple[int, ...]]) -> Callable[[tuple[int, ...], int], dict[str, Any]]:
    """A run that only adds its positions to a list."""

    def run(positions: tuple[int, ...], _mine: int) -> dict[str, Any]:
        started.append(positions)
        return {"at": list(positions)}

    return run


def test_a_waiting_position_that_was_replaced_does_not_start(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = player(scenario, WINDOWS, variants=("stock",))
    started: list[tuple[int, ...]] = []
    monkeypatch.setattr(made, "_run", noted(started))
    ended: list[BaseException] = []

    def old() -> None:
        try:
            made.at((1,))
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=old)
    with made._running:
        thread.start()
        while made._newest == 0:
            time.sleep(0.01)
        made._next()
    thread.join()
    assert (len(ended), started) == (1, [])


def test_kept_results_have_a_limit_of_bytes(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = player(scenario, WINDOWS, variants=("stock",))
    started: list[tuple[int, ...]] = []
    monkeypatch.setattr(made, "_run", noted(started))
    assert [made.at((place,))["at"] for place in (0, 1, 0, 1)] == [[0], [1], [0], [1]]
    assert started == [(0,), (1,)]
    monkeypatch.setattr(play, "KEPT", 1)
    assert [made.at((place,))["at"] for place in (2, 2, 1)] == [[2], [2], [1]]
    assert started[2:] == [(2,), (1,)]


def test_more_variants_than_a_chart_shows_are_refused(penstock: Command, tmp_path: Path) -> None:
    more = "".join(f'[[variants]]\nname = "v{i}"\nset = {{ "network.rtt" = "{i + 1} ms" }}\n' for i in range(11))
    (tmp_path / "many.toml").write_text(SMALL + more)
    said = sentence(penstock("play", tmp_path / "many.toml"))
    assert said.endswith("has 13 variants, and a chart shows at most 12: select some with --variant")


def test_the_scenarios_own_values_are_those_of_its_first_position(browser: Browser, scenario: str) -> None:
    with serving(player(scenario, WINDOWS).page()) as running, tab(browser, running.address) as page:
        waiting: list[Any] = []
        # The first request never gets an answer.
        page.route("**/run", lambda route: route.continue_() if waiting else waiting.append(route))
        page.reload()
        expect(page.get_by_role("slider")).to_be_visible()
        # No result is there yet: neither this choice nor the slider may fail.
        page.locator("#metric").select_option("download time")
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#command")).to_contain_text("circuit_window=100")
        last = page.locator("#times-table tbody tr").first.locator("td").last
        expect(last).to_have_text("-")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#command")).not_to_contain_text("circuit_window")
        expect(last).not_to_have_text("-")
        own = last.inner_text()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#command")).to_contain_text("circuit_window=100")
        expect(last).to_have_text(own)


@pytest.mark.parametrize(("width", "scheme"), [(420, "dark"), (1300, "light")])
def test_a_slider_runs_the_scenario_again(browser: Browser, scenario: str, width: int, scheme: str) -> None:
    with serving(player(scenario, WINDOWS).page()) as running, tab(browser, running.address, width, scheme) as page:
        rows = page.locator("#times-table tbody tr")
        expect(rows).to_have_count(2)
        before = rows.first.inner_text()
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#command")).to_contain_text("--set relay.edge_control.circuit_window=100")
        expect(page.locator("#state")).to_contain_text("Finished in")
        assert rows.first.inner_text() != before
        expect(page.get_by_role("slider")).to_have_attribute("aria-valuetext", "100")
        page.locator("#workload").select_option("web")
        page.locator("#metric").select_option("download time")
        expect(page.locator("#times-table caption")).to_contain_text("download time")
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        expect(page.locator("#command")).not_to_contain_text("--set")
        expect(page.locator("#queue canvas")).to_be_visible()
        assert faults(page) == []
        assert controls(page) <= reached_by_tab(page)


def test_a_position_without_downloads_is_explained(browser: Browser, scenario: str) -> None:
    made = player(scenario, "run.duration=100 ms,20 s")
    with serving(made.page()) as running, tab(browser, running.address) as page:
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("alert")).to_contain_text("No download finished")
        expect(page.locator("#command")).to_contain_text("100 ms")
        expect(page.locator("#times-chart")).to_be_hidden()
        expect(page.locator("#times-table table")).to_have_count(0)
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#times-chart canvas")).to_be_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_the_documented_page_needs_no_server(browser: Browser, width: int, scheme: str) -> None:
    with tab(browser, DOCUMENTED.as_uri(), width, scheme) as page:
        median = page.locator("#times-table tbody td").nth(1)
        before = float(median.inner_text())
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowRight")
        assert float(median.inner_text()) < before / 2
        assert faults(page) == []


def test_the_documented_page_has_todays_numbers() -> None:
    data = re.search(r'<script type="application/json" id="saved">(.*?)</script>', DOCUMENTED.read_text(), re.DOTALL)
    assert data
    saved = json.loads(data[1])
    assert saved["sliders"][0]["values"][:2] == [AS_GIVEN, "100"]
    made = player(
        "quickstart", "relay.edge_control.circuit_window=100", variants=("stock",), sets=("trace.interval=500 ms",)
    )
    again = json.loads(json.dumps(made.at((1,))))
    assert saved["runs"]["1"] == again, "make slider writes the page again"


def test_a_saved_page_escapes_the_scenario(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(SMALL.replace("One path, for tests", "</script><script>alert(1)</script>"))
    page = save(player(str(path), "run.duration=2 s", variants=("stock",)), tmp_path / "page.html", write)
    assert "<script>alert" not in page.read_text()
    with pytest.raises(ScenarioError, match="takes about"):
        player(str(path), sets=("run.duration=9000 h",))
