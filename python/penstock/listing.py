"""The lists of `penstock list`, with a line for each entry."""

from collections.abc import Iterable

from penstock import _core, catalog
from penstock._types import Algorithm
from penstock.errors import PenstockError

MIB = 1 << 20
"""Bytes."""


def lines(what: str) -> list[str]:
    """The lines of one list: names and meanings."""
    return LISTS[what]()


def details(what: str, name: str | None) -> list[str]:
    """The details of a list or of one of its entries."""
    if what == "algorithms":
        return _algorithms_in_full(name)
    if name is not None:
        raise PenstockError(f"only algorithms have details; leave {name!r} out")
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
    """Each algorithm with parameters, defaults, units, source and incompatible choices."""
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
        notes.append(("incompatible with" if refused else "no effect with", f"{key} = {other}: it {why}"))
    if not algorithm["partners"]:
        notes.append(("works with", "everything"))
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
    """The kinds of workloads, and the named workloads for the key `preset`."""
    named = [(f"preset = {name}", meaning) for name, meaning in _core.workload_presets()]
    return _columns([*_core.workload_kinds(), *named])


def networks() -> list[str]:
    """The shipped networks: the years for a relay's `era`."""

    def facts(relays: int, link: int, capacity: int) -> str:
        means = (
            f"mean link {link / MIB:.1f} MiB/s, mean capacity (the smaller of link and rate) {capacity / MIB:.1f} MiB/s"
        )
        return f"{relays} relays: {means}"

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
    """Two aligned columns."""
    table = list(rows)
    width = max((len(name) for name, _ in table), default=0)
    return [f"{name:<{width}}  {text}".rstrip() for name, text in table]
