"""The lists of `penstock list`, with a line for each entry."""

from collections.abc import Iterable

from penstock import _core, catalog
from penstock._types import Algorithm
from penstock.errors import PenstockError

KINDS = ("scenarios", "papers", "attacks", "algorithms", "presets", "workloads", "networks")
"""All lists, in the order of `penstock list`."""


def text(what: str | None, name: str | None = None) -> str:
    """The output of `penstock list`: one list in detail, or all lists with a line for each entry."""
    if what is not None:
        return "\n".join(details(what, name))
    return "\n".join(f"{each}:\n" + "\n".join(f"  {line}" for line in lines(each)) for each in KINDS)


def lines(what: str) -> list[str]:
    """The lines of one list: names and meanings."""
    match what:
        case "scenarios":
            return _columns((name, catalog.title(name)) for name in catalog.shipped())
        case "papers":
            return _columns((name, catalog.paper_title(name)) for name in catalog.papers())
        case "attacks":
            return _columns((name, catalog.title(name)) for name in catalog.with_attacks())
        case "algorithms":
            return _columns((_choice(each), each["meaning"]) for each in _core.algorithms())
        case "presets":
            return _columns(_core.presets())
        case "workloads":
            named = [(f"preset = {name}", meaning) for name, meaning in _core.workload_presets()]
            return _columns([*_core.workload_kinds(), *named])
    return _columns((f"era = {year}", _network(*rest)) for year, *rest in _core.eras())


def details(what: str, name: str | None) -> list[str]:
    """The details of a list or of one of its entries."""
    if what == "algorithms":
        return _algorithms_in_full(name)
    refuse_name(what, name)
    return lines(what)


def refuse_name(what: str | None, name: str | None) -> None:
    """Refuse the name of an entry, except of an algorithm."""
    if name is not None and what != "algorithms":
        raise PenstockError(f"only algorithms have details; leave {name!r} out")


def _network(relays: int, link: int, capacity: int) -> str:
    link_, capacity_ = (f"{size / (1 << 20):.1f} MiB/s" for size in (link, capacity))
    return f"{relays} relays: mean link {link_}, mean capacity (the smaller of link and rate) {capacity_}"


def _choice(algorithm: Algorithm) -> str:
    return f"{algorithm['key']} = {algorithm['kind']}"


def _algorithms_in_full(name: str | None) -> list[str]:
    blocks = [_block(each) for each in algorithms(name)]
    return [line for block in blocks for line in ["", *block]][1:]


def algorithms(name: str | None) -> list[Algorithm]:
    """The algorithms with this name or key; all without a name."""
    known = _core.algorithms()
    chosen = [each for each in known if name is None or name in (each["kind"], each["key"])]
    if not chosen:
        names = ", ".join(dict.fromkeys(each["kind"] for each in known))
        raise PenstockError(f"there is no algorithm {name!r}; there are {names}")
    return chosen


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


def _columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    table = list(rows)
    width = max((len(name) for name, _ in table), default=0)
    return [f"{name:<{width}}  {text}".rstrip() for name, text in table]
