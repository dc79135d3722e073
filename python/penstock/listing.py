"""What there is to choose from, a line each."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import _core, catalog


def lines(what: str) -> list[str]:
    """The lines of one list: a name and what it is."""
    return LISTS[what]()


def scenarios() -> list[str]:
    """The shipped scenarios with their titles."""
    loaded = [catalog.load(name) for name in catalog.shipped()]
    return _columns((name, document.head()["title"]) for name, document in loaded)


def papers() -> list[str]:
    """The papers whose claims can be checked."""
    from penstock.paper.claims import load

    return _columns((name, load(name).title) for name in catalog.papers())


def algorithms() -> list[str]:
    """The algorithms with the key that chooses them."""
    return _columns((f"{key} = {name}", meaning) for key, name, meaning in _core.algorithms())


def presets() -> list[str]:
    """Versions of Tor for a relay's or client's `preset`."""
    return _columns(_core.presets())


def workloads() -> list[str]:
    """What clients can do."""
    return _columns(_core.workload_kinds())


def networks() -> list[str]:
    """Networks that ship, beside those that scenarios spell out."""
    return ["none yet: a scenario names its relays, clients and servers itself"]


LISTS = {
    "scenarios": scenarios,
    "papers": papers,
    "algorithms": algorithms,
    "presets": presets,
    "workloads": workloads,
    "networks": networks,
}


def _columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Two columns, the second one flush."""
    table = list(rows)
    width = max((len(name) for name, _ in table), default=0)
    return [f"{name:<{width}}  {text}".rstrip() for name, text in table]
