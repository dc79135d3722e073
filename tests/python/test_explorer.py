"""`penstock open`: the server, the numbers that it serves, and its page in a browser."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import SCHEMES, SIZES, chromium, controls, faults, reached_by_tab, serving, tab
from conftest import SMALL, Command, sentence
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

import penstock
from penstock.errors import PenstockError
from penstock.explorer import server, views
from penstock.explorer.server import Query, Server
from penstock.result import Result
from penstock.stations import STATIONS

VIEWS = ("downloads", "relays", "circuits", "cells")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The output of a small scenario."""
    folder = tmp_path_factory.mktemp("explored")
    (folder / "small.toml").write_text(SMALL)
    return penstock.run(folder / "small.toml", out=folder / "out")


def page_of(result: Result) -> server.Page:
    return server.Page(server.files("open.html", "open.js"), views.Views(result).asks)


@pytest.fixture(scope="module")
def running(output: Result) -> Iterator[Server]:
    with serving(page_of(output)) as each:
        yield each


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as each:
        yield each


# The server


def fetch(
    running: Server, path: str, host: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(server.HOST, running.server_port, timeout=10)
    body = b"{}" if method == "POST" else None
    connection.request(
        method, path, body, {"Host": host or f"{server.HOST}:{running.server_port}", "Connection": "close", **headers}
    )
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, dict(answer.getheaders())


def test_only_the_address_with_its_token_is_answered(running: Server) -> None:
    status, text, headers = fetch(running, f"/{running.token}/")
    assert (status, "Penstock explorer" in text) == (200, True)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for path in ("/", "/open.js", f"/{running.token}", f"/{running.token[:-1]}/", f"/{'x' * 22}/choices", "/%E9/"):
        assert fetch(running, path)[0] == 403
    assert fetch(running, f"/{running.token}/../server.py")[0] == 404
    # A name of another site that resolves to 127.0.0.1 is refused.
    assert fetch(running, f"/{running.token}/", host="evil.example")[0] == 403


def test_each_server_has_another_token(output: Result) -> None:
    with serving(page_of(output)) as one, serving(page_of(output)) as other:
        assert one.token != other.token
        assert fetch(one, f"/{other.token}/")[0] == 403


def test_actions_are_only_for_the_page_itself(output: Result) -> None:
    page = page_of(output)._replace(acts={"act": lambda given: {"given": given}})
    with serving(page) as running:
        own = f"http://{server.HOST}:{running.server_port}"
        kind = {"Content-Type": "application/json"}
        act = f"/{running.token}/act"
        assert fetch(running, act, method="POST", Origin=own, **kind)[:2] == (200, '{"given": {}}')
        assert fetch(running, act, method="POST", Origin="https://evil.example", **kind)[0] == 403
        assert fetch(running, act, method="POST", **kind)[0] == 403
        assert fetch(running, act, method="POST", Origin=own)[0] == 403
        assert fetch(running, act, method="POST", Origin=own, **kind, **{"Content-Length": "99999999"})[0] == 413
        assert fetch(running, act)[0] == 404


def test_the_command_serves_until_ctrl_c(penstock: Command, output: Result) -> None:
    process = penstock.start("open", output.directory, "--no-browser")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"explorer: http://{server.HOST}:")
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, ""), (out, err)


def test_a_browser_gets_the_address_from_a_file_of_this_user(
    output: Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def opened(address: str) -> None:
        path = Path(address.removeprefix("file://"))
        seen.append((path, path.stat().st_mode & 0o777, path.read_text()))
        raise KeyboardInterrupt

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened)
    server.serve(page_of(output), 0, "explorer", browser=True)
    address = capsys.readouterr().out.split()[1]
    [(path, mode, text)] = seen
    assert address.split("/")[3] not in str(path)
    assert (mode, f'content="0; {address}"' in text, path.exists()) == (0o600, True, False)


def test_a_changed_directory_and_a_bug_are_one_sentence(make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    page = page_of(Result(directory))
    asks = {**page.asks, "bug": lambda _: os.environ["MISSING"], "nan": lambda _: float("nan")}
    with serving(page._replace(asks=asks)) as running:
        (directory / "relays.parquet").write_bytes(b"other contents")
        status, text, _ = fetch(running, f"/{running.token}/choices")
        assert (status, f"{directory} has changed or is damaged: start again" in text) == (400, True)
        (directory / "relays.parquet").unlink()
        status, text, _ = fetch(running, f"/{running.token}/choices")
        assert (status, f"{directory} has changed or is damaged: start again" in text) == (400, True)
        status, text, _ = fetch(running, f"/{running.token}/bug")
        assert (status, json.loads(text)) == (
            500, {"error": "penstock has a bug, please report it: KeyError: 'MISSING'"}
        )  # fmt: skip
        assert fetch(running, f"/{running.token}/nan")[0] == 500


def test_mistakes_are_one_sentence(penstock: Command, tmp_path: Path, output: Result) -> None:
    assert "does not exist" in sentence(penstock("open", tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    assert "is not an output of penstock" in sentence(penstock("open", tmp_path / "empty"))
    with socket.create_server((server.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        said = sentence(penstock("open", output.directory, "--port", str(port)))
        assert said == (
            f"penstock: cannot listen on port {port}: address already in use; choose another --port, or leave it out "
            "for a free one"
        )


# The numbers


def asked(result: Result, question: str, **values: Any) -> Any:
    given = {
        key: [str(each) for each in (value if isinstance(value, list) else [value])] for key, value in values.items()
    }
    answer = views.Views(result).asks[question](Query(given))
    # What the page receives is JSON without NaN.
    return json.loads(json.dumps(answer, allow_nan=False))


def test_distributions_and_percentiles_are_those_of_the_tables(made_up: Path) -> None:
    result = Result(made_up)
    found = asked(result, "downloads", workload="web", metric="ttfb_s", variant=["small", "stock"], percentile=[50, 90])
    summary = result.summary().filter(workload="web")
    assert [row["label"] for row in found["rows"]] == ["stock", "50 KiB window"]
    for row, mine in zip(found["rows"], summary.iter_rows(named=True), strict=True):
        assert row["percentiles"] == pytest.approx([mine["ttfb_median_s"], mine["ttfb_p90_s"]], rel=1e-6)
        assert row["downloads"] == mine["downloads"]
    stock = result.transfers.filter(variant="stock", workload="web", outcome="ok", warmup=False)["ttfb_s"]
    for place in (0, len(found["x"]) // 2, -1):
        share = (stock <= found["x"][place] * (1 + 1e-6)).mean()
        assert found["series"][0]["values"][place] == pytest.approx(share, abs=0.005)


def test_rates_and_limits_of_relays_are_those_of_the_tables(output: Result) -> None:
    found = asked(output, "relays", measure="written", network="", seed=1, variant=["stock"], relay=["middle"])
    mine = output.relays.filter(variant="stock", seed=1, relay="middle").sort("t_s")
    assert found["x"] == pytest.approx(mine["t_s"].to_list())
    assert found["series"][0]["values"] == pytest.approx([size / 1024 for size in mine["written_bytes"]], rel=1e-5)
    share = mine.filter(bound_by="link").height / mine.height
    assert found["rows"][0]["bound"]["link"] == pytest.approx(share)


def test_a_cell_passes_its_stations_in_order(output: Result) -> None:
    traced = asked(output, "circuits", network="", seed=1, variant="stock")
    assert [(each["workload"], each["path"][:3]) for each in traced] == [("web", ["exit", "middle", "entry"])]
    found = asked(output, "cell", network="", seed=1, variant="stock", circuit=traced[0]["circuit"])
    assert found["hops"] == ["exit", "middle", "guard", "client"]
    stays = found["stations"]
    assert all(one["to"] <= other["from"] for one, other in pairwise(stays))
    cells = output.cells.filter(variant="stock", seed=1, circuit=traced[0]["circuit"])
    waits = cells.group_by("cell").agg(pl.sum_horizontal(list(STATIONS)).sum().alias("wait"))
    assert found["cell"] in waits.filter(pl.col("wait") == waits["wait"].max())["cell"]
    with pytest.raises(PenstockError, match=r"cell 3 was not tracked; the nearest tracked cell is 0"):
        asked(output, "cell", network="", seed=1, variant="stock", circuit=traced[0]["circuit"], cell=3)


@pytest.mark.parametrize(
    ("question", "values", "says"),
    [
        ("downloads", {"metric": "ttfb_s", "variant": "stock"}, "one value of 'workload'"),
        ("downloads", {"workload": "ftp", "metric": "ttfb_s"}, "no downloads of 'ftp'"),
        ("downloads", {"workload": "web", "metric": "ttfb_s", "percentile": "101"}, "from 0 to 100, not '101'"),
        ("downloads", {"workload": "web", "metric": "ttfb_s", "variant": "x"}, "there are stock, small"),
        ("relays", {"measure": "heat"}, "no measure 'heat'"),
        ("relays", {"measure": "queue", "variant": ["stock", "small"], "relay": list("abcdefg")}, "at most 12 curves"),
        ("circuit", {"quantity": "rtt_s", "network": "", "seed": "-1"}, "'seed' must be a whole number, not '-1'"),
    ],
)
def test_wrong_questions_are_answered_with_a_sentence(
    made_up: Path, question: str, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(PenstockError, match=says):
        asked(Result(made_up), question, **values)


def test_an_unfinished_output_is_explored_and_one_without_runs_refused(make_up: Callable[..., Path]) -> None:
    directory = make_up(finished=False, seeds=2)
    assert not asked(Result(directory), "choices")["finished"]
    assert asked(Result(directory), "downloads", workload="web", metric="ttfb_s", variant=["stock"])["rows"]
    for part in (directory / "parts").glob("*/run.json"):
        part.unlink()
    with pytest.raises(PenstockError, match="has no finished run yet"):
        views.Views(Result(directory))


# The page


def go(page: Tab, view: str) -> None:
    page.get_by_role("link", name=view.capitalize()).click()
    page.wait_for_load_state("networkidle")
    expect(page.locator(f"#{view} canvas")).to_be_visible()


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_view_passes_axe_and_fits(browser: Browser, running: Server, width: int, scheme: str) -> None:
    with tab(browser, running.address, width, scheme) as page:
        for view in VIEWS:
            go(page, view)
            assert faults(page) == []


def test_tab_reaches_every_control(browser: Browser, running: Server) -> None:
    with tab(browser, running.address) as page:
        for view in VIEWS:
            go(page, view)
            assert controls(page) <= reached_by_tab(page)


def test_keys_move_the_cursor_select_and_zoom(browser: Browser, running: Server) -> None:
    with tab(browser, running.address + "#downloads") as page:
        chart = page.locator("#downloads .plot")
        chart.focus()
        page.keyboard.press("Home")
        status = page.locator("#downloads [role=status]")
        expect(status).to_contain_text("time to first byte [s]: 0; stock Tor: 0; 50 KiB windows: 0")
        page.keyboard.press("End")
        expect(status).to_contain_text("stock Tor: 1; 50 KiB windows: 1")
        page.keyboard.press("Shift+Home")
        for _ in range(5):
            page.keyboard.press("Shift+ArrowRight")
        expect(page.locator("#downloads-table")).to_contain_text("in the interval")
        page.keyboard.press("Enter")
        zoomed = limits(page, "downloads")
        expect(page.locator("#downloads-table")).not_to_contain_text("in the interval")
        page.keyboard.press("PageDown")
        assert limits(page, "downloads")[0] > zoomed[0]
        page.keyboard.press("0")
        whole = limits(page, "downloads")
        assert whole[0] == 0
        assert whole[1] - whole[0] > zoomed[1] - zoomed[0]
        page.keyboard.press("+")
        assert limits(page, "downloads")[1] - limits(page, "downloads")[0] == pytest.approx(whole[1] / 2)
        page.keyboard.press("-")
        assert limits(page, "downloads")[1] - limits(page, "downloads")[0] == pytest.approx(whole[1])


def limits(page: Tab, view: str) -> list[float]:
    """The visible range of the x axis, which the chart shows on its element."""
    found: list[float] = json.loads(page.locator(f"#{view} .plot").get_attribute("data-range") or "[]")
    return found


def test_dragging_counts_the_downloads_of_an_interval(browser: Browser, made_up: Path) -> None:
    output = Result(made_up)
    with serving(page_of(output)) as running, tab(browser, running.address) as page:
        box = page.locator("#downloads .u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 1, box["y"] + 50)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=5)
        page.mouse.up()
        row = page.locator("#downloads-table tbody tr").first
        expect(page.locator("#downloads-table")).to_contain_text("in the interval")
        shown = float(row.locator("td").last.inner_text().removesuffix(" %"))
        times = output.transfers.filter(variant="stock", workload="web", outcome="ok", warmup=False)["ttfb_s"]
        half = limits(page, "downloads")[1] / 2
        assert shown / 100 == pytest.approx((times <= half).mean(), abs=0.05)
        page.get_by_role("button", name="Zoom to selection").first.click()
        assert limits(page, "downloads")[1] == pytest.approx(half, rel=0.02)
        page.get_by_role("button", name="Show all").first.click()
        assert limits(page, "downloads")[1] == pytest.approx(2 * half, rel=0.01)
        page.locator("#downloads .u-over").hover(position={"x": box["width"] - 2, "y": 50})
        expect(page.locator("#downloads .curves .value").first).to_have_text("1")


def test_the_controls_of_downloads(browser: Browser, running: Server) -> None:
    with tab(browser, running.address) as page:
        head = page.locator("#downloads-table thead")
        expect(head).to_have_text("variantdownloads50 %90 %")
        page.get_by_label("99 %").check()
        expect(head).to_have_text("variantdownloads50 %90 %99 %")
        page.locator("#metric").select_option("download time")
        expect(page.locator("#downloads-table caption")).to_contain_text("Percentiles of the download time")
        curve = page.locator("#downloads .curves").get_by_role("button", name="stock Tor")
        curve.click()
        expect(curve).to_have_attribute("aria-pressed", "false")
        page.get_by_label("50 KiB windows", exact=True).uncheck()
        expect(page.locator("#downloads-table tbody tr")).to_have_count(1)
        page.get_by_label("stock Tor", exact=True).uncheck()
        expect(page.locator("#downloads")).to_contain_text("There is no data for this choice.")


def test_the_controls_of_relays(browser: Browser, running: Server) -> None:
    with tab(browser, running.address) as page:
        go(page, "relays")
        rows = page.locator("#relays-table tbody tr")
        expect(rows).to_have_count(2)
        page.locator("#filter").fill("exi")
        page.get_by_label("exit").check()
        expect(rows).to_have_count(4)
        expect(rows.filter(has_text="exit, stock Tor")).to_contain_text("%")
        page.locator("#filter").fill("zzz")
        expect(page.locator("#more")).to_have_text("No relay has this name.")
        page.locator("#measure").select_option("cells in circuit queues [cells]")
        expect(page.locator("#relays-table")).to_contain_text("largest")
        page.locator("#relays-run").select_option("2")
        expect(page.locator("#problem")).to_be_hidden()


REFUSED = "error: Failed to load resource: the server responded with a status of 400 (Bad Request)"
ABORTED = "error: Failed to load resource: net::ERR_FAILED"


def test_the_controls_of_circuits_and_cells(browser: Browser, running: Server) -> None:
    with tab(browser, running.address, expected=[REFUSED]) as page:
        go(page, "circuits")
        expect(page.locator("#way")).to_have_text(
            "Path of the cells: exit (exit), middle (middle), entry (guard), web (client)."
        )
        page.locator("#quantity").select_option("window [cells]")
        expect(page.locator("#circuits-table caption")).to_contain_text("largest window [cells]")
        page.locator("#circuits-variant").select_option("50 KiB windows")
        expect(page.locator("#circuits-table tbody tr").first).to_contain_text("100")
        go(page, "cells")
        title = page.locator("#cell-title")
        page.get_by_role("spinbutton").fill("10")
        page.keyboard.press("Enter")
        expect(title).to_contain_text("Cell 10 took")
        page.get_by_role("button", name="Next cell").click()
        expect(title).to_contain_text("Cell 20 took")
        page.get_by_role("button", name="Previous cell").click()
        expect(title).to_contain_text("Cell 10 took")
        page.get_by_role("spinbutton").fill("13")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("the nearest tracked cell is 10")
        page.locator("#cells .plot").focus()
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        expect(title).to_contain_text("Cell 0 took")
        expect(page.get_by_role("alert")).to_be_hidden()


def test_names_of_a_scenario_are_text_and_not_markup(browser: Browser, make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    manifest = directory / "manifest.json"
    manifest.write_text(manifest.read_text().replace("Two clients", "<img src=x onerror=alert(1)>"))
    with serving(page_of(Result(directory))) as running, tab(browser, running.address) as page:
        expect(page.locator("h1")).to_contain_text("<img src=x")


def test_a_missing_table_and_a_stopped_server_are_explained(browser: Browser, make_up: Callable[..., Path]) -> None:
    directory = make_up(seeds=1)
    for table in ("circuits", "cells"):
        path = directory / f"{table}.parquet"
        pl.read_parquet(path).clear().write_parquet(path)
    with serving(page_of(Result(directory))) as running, tab(browser, running.address, expected=[ABORTED]) as page:
        page.get_by_role("link", name="Cells").click()
        expect(page.get_by_role("alert")).to_have_text(
            "This output has no tracked cells: add trace.cells to the scenario."
        )
        page.route("**/downloads?*", lambda route: route.abort())
        page.get_by_role("link", name="Downloads").click()
        expect(page.get_by_role("alert")).to_contain_text("The server has stopped.")
        expect(page.locator("#downloads-found")).to_be_hidden()


def test_nothing_of_an_older_circuit_stays(browser: Browser, made_up: Path) -> None:
    with serving(page_of(Result(made_up))) as running, tab(browser, running.address) as page:
        go(page, "circuits")
        expect(page.locator("#circuits-found")).to_be_visible()
        first = page.locator("#circuits-variant option").first.get_attribute("value")
        other = page.locator("#circuits-variant option").last.get_attribute("value")
        # The data of a circuit arrive after the list of circuits.
        with page.expect_response("**/circuit?*"):
            page.locator("#circuits-variant").select_option(other)
        # The list of the first variant arrives after the reader has returned to the other one.
        waiting: list[Any] = []
        page.route(f"**/circuits?*variant={first}*", lambda route: waiting.append(route))
        with page.expect_request("**/circuits?*"):
            page.locator("#circuits-variant").select_option(first)
        page.locator("#circuits-variant").select_option(other)
        shown = page.locator("#circuit").inner_text()
        with page.expect_response("**/circuits?*"):
            waiting[0].fulfill(json=[{"circuit": 999, "workload": "late", "cells": 0, "path": []}])
        page.wait_for_timeout(200)
        assert page.locator("#circuit").inner_text() == shown
        page.unroute(f"**/circuits?*variant={first}*")
        page.route(f"**/circuits?*variant={first}*", lambda route: route.fulfill(json=[]))
        page.locator("#circuits-variant").select_option(first)
        expect(page.get_by_role("alert")).to_have_text("This run has no traced circuits.")
        expect(page.locator("#circuits-found")).to_be_hidden()
