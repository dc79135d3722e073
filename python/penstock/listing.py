"""What there is to choose from, a line each."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import _core, catalog
from penstock._types import Algorithm
from penstock.errors import PenstockError

MIB = 1 << 20
"""Bytes."""


def lines(what: str) -> list[str]:
    """The lines of one list: a name and what it is."""
    return LISTS[what]()


def details(what: str, name: str | None) -> list[str]:
    """All that is known of what a list names, or of one of them; a line each where there is no more."""
    if what == "algorithms":
        return _algorithms_in_full(name)
    if name is not None:
        raise PenstockError(f"only algorithms can be listed one at a time; leave {name!r} out")
    return lines(what)


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
    return _columns((_choice(each), each["meaning"]) for each in _core.algorithms())


def _choice(algorithm: Algorithm) -> str:
    return f"{algorithm['key']} = {algorithm['kind']}"


def _algorithms_in_full(name: str | None) -> list[str]:
    """Each with its parameters, their defaults and units, its source, and what it does not go with."""
    known = _core.algorithms()
    chosen = [each for each in known if name is None or name in (each["kind"], each["key"])]
    if not chosen:
        names = ", ".join(dict.fromkeys(each["kind"] for each in known))
        raise PenstockError(f"there is no algorithm {name!r}; there are {names}")
    blocks = [_block(each) for each in chosen]
    return [line for block in blocks for line in ["", *block]][1:]


def _block(algorithm: Algorithm) -> list[str]:
    notes = [("source", algorithm["source"])]
    for key, other, refused, why in algorithm["partners"]:
        notes.append(("not with" if refused else "in vain with", f"{key} = {other}: it {why}"))
    if not algorithm["partners"]:
        notes.append(("goes with", "everything"))
    parameters = algorithm["parameters"]
    values = [(default or "required") + (f" [{unit}]" if unit else "") for _, default, unit, _ in parameters]
    width = max(map(len, values), default=0)
    table = _columns(
        (name, f"{value:<{width}}  {meaning}") for (name, _, _, meaning), value in zip(parameters, values, strict=True)
    )
    return [
        _choice(algorithm),
        f"  {algorithm['meaning']}",
        *(f"  {word}: {text}" for word, text in notes),
        *(f"    {line}" for line in table),
    ]


def presets() -> list[str]:
    """Versions of Tor for a relay's or client's `preset`."""
    return _columns(_core.presets())


def workloads() -> list[str]:
    """What clients can do, and workloads that have a name for a workload's `preset`."""
    named = [(f"preset = {name}", meaning) for name, meaning in _core.workload_presets()]
    return _columns([*_core.workload_kinds(), *named])


def networks() -> list[str]:
    """Networks that ship: the years for a relay's `era`."""

    def facts(relays: int, link: int, capacity: int) -> str:
        means = (
            f"mean link {link / MIB:.1f} MiB/s, mean capacity (the smaller of link and rate) {capacity / MIB:.1f} MiB/s"
        )
        return f"as {relays} relays were: {means}"

    return _columns((f"era = {year}", facts(*rest)) for year, *rest in _core.eras())


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
