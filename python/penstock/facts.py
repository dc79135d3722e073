"""The JSON objects of the option `--json`."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import _core, catalog

if TYPE_CHECKING:
    from penstock.compare.sides import Comparison
    from penstock.result import Result

ALGORITHM = {
    "parameters": ("name", "default", "unit", "meaning"),
    "partners": ("key", "kind", "refused", "reason"),
}
"""The keys of the tuples of an algorithm."""


def text(value: object) -> str:
    """A value as JSON, with null for a number that is not finite."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False)


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Path():
            return str(value)
        case Mapping():
            return {key: _finite(each) for key, each in value.items()}
        case str():
            return value
        case Sequence():
            return [_finite(each) for each in value]
    return value


def lists(kinds: Sequence[str], name: str | None) -> dict[str, Any]:
    """The entries of lists, by the name of the list. `name` selects algorithms."""
    from penstock import listing

    listing.refuse_name(kinds[0], name)
    return {kind: _entries(kind, name) for kind in kinds}


def _entries(what: str, name: str | None) -> list[dict[str, Any]]:
    match what:
        case "scenarios":
            return [{"name": each, "title": catalog.title(each)} for each in catalog.shipped()]
        case "papers":
            return [{"name": each, "title": catalog.paper_title(each)} for each in catalog.papers()]
        case "algorithms":
            from penstock.listing import algorithms

            return [_algorithm({**each}) for each in algorithms(name)]
        case "attacks":
            return [{"name": each, "title": catalog.title(each)} for each in catalog.with_attacks()]
        case "presets":
            return [{"name": each, "meaning": meaning} for each, meaning in _core.presets()]
        case "workloads":
            kinds = [{"kind": each, "meaning": meaning} for each, meaning in _core.workload_kinds()]
            return [*kinds, *({"preset": each, "meaning": meaning} for each, meaning in _core.workload_presets())]
    names = ("era", "relays", "mean_link_bytes_per_s", "mean_capacity_bytes_per_s")
    return [dict(zip(names, each, strict=True)) for each in _core.eras()]


def _algorithm(each: dict[str, Any]) -> dict[str, Any]:
    tables = {key: [dict(zip(names, row, strict=True)) for row in each[key]] for key, names in ALGORITHM.items()}
    return {**each, **tables}


def scenario(name: str, document: _core.Document) -> dict[str, Any]:
    """A checked scenario: its variants with their estimated costs, and its seeds."""
    variants = [
        {"name": each, "label": label, "hosts": document.hosts(each), "estimate": document.estimate(each)}
        for each, label in document.variants()
    ]
    return {
        "scenario": name,
        **document.head(),
        "fingerprint": document.fingerprint(),
        "seeds": document.seeds(),
        "networks": document.networks(),
        "variants": variants,
        "warnings": document.warnings(),
    }


def result(of: "Result", page: Path | None) -> dict[str, Any]:
    """The summary of an output directory."""
    head = {
        "directory": of.directory,
        "version": of.manifest["version"],
        "finished": of.finished,
        "shard": of.manifest.get("shard"),
        "runs": len(of.manifest["runs"]),
        "report": page,
        "scenario": of.scenario["name"],
        "title": of.title,
        "seeds": of.seeds,
    }
    if not of.manifest["runs"]:
        return head
    from penstock import refusals

    head["refused"] = refusals.sentences(of)
    if "sweep" in of.manifest:
        from penstock import points

        return {**head, "points": points.table(of).rows(named=True)}
    return {**head, "summary": of.summary().rows(named=True), "differences": of.differences().rows(named=True)}


def comparison(of: "Comparison", page: Path | None) -> dict[str, Any]:
    """A comparison of two sources."""
    from penstock.compare.show import remarks

    sources = {
        letter: {"label": source.label, "kind": source.kind, "notes": source.notes} for letter, source in of.lettered
    }
    failures = [
        {"downloads": each.downloads, "a": each.a and each.a._asdict(), "b": each.b and each.b._asdict()}
        for each in of.failures
    ]
    rows = [row._asdict() for row in of.rows]
    return {
        "sources": sources,
        "clock": of.clock,
        "rows": rows,
        "failures": failures,
        "remarks": remarks(of),
        "report": page,
    }
