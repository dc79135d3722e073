"""A page in Debian's Chromium for tests, which fails on errors in the console and on requests to other servers.

Playwright drives the browser, because it needs no further driver. It downloads none: `make test` skips these tests
without Chromium, and `.ci/run` installs it.
"""

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from penstock.explorer import server

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZES = (420, 1300)
SCHEMES = ("light", "dark")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser; skips the test without one."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("Chromium is missing; install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


@contextmanager
def serving(page: server.Page) -> Iterator[server.Server]:
    """A running server of a page."""
    with server.Server(page) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def tab(
    browser: Browser, address: str, width: int = 1300, scheme: Any = "light", expected: Sequence[str] = ()
) -> Iterator[Page]:
    """A page at an address. At the end, its console must have exactly the `expected` messages, in this order."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    # A control that does not answer within this time [ms] is broken.
    page.set_default_timeout(10_000)
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"exception: {error}"))
    page.on("request", lambda request: None if _local(request.url, address) else trouble.append(request.url))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    yield page
    context.close()
    assert trouble == list(expected)


def _local(url: str, address: str) -> bool:
    return url.startswith((address.partition("#")[0], "data:"))


def faults(page: Page) -> list[str]:
    """The violations that axe finds, and an overflow of the page."""
    found = [
        f"{each['id']}: {each['help']}: {[node['html'] for node in each['nodes']]}"
        for each in Axe().run(page).response["violations"]
    ]
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return found + ([f"the page is {over} px wider than the window"] if over > 0 else [])


def reached_by_tab(page: Page) -> set[str]:
    """The controls that the key Tab reaches, from the focused element once around the page."""
    page.evaluate("window.reached = new Set()")
    again = "() => { const here = document.activeElement; const again = here !== document.body && reached.has(here);"
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate(f"{again} reached.add(here); return again }}"):
            break
    return set(page.evaluate(f"[...reached].map({NAMED})"))


def controls(page: Page) -> set[str]:
    """The controls that a mouse can use."""
    which = "a[href], button:enabled, input, select, summary, [role=application]"
    shown = f"[...document.querySelectorAll('{which}')].filter((each) => each.checkVisibility())"
    return set(page.evaluate(f"{shown}.map({NAMED})"))


NAMED = "(each) => `${each.tagName} ${each.id || each.getAttribute('aria-label') || each.value || each.textContent}`"
"""A name of an element."""
