"""The text of a scenario as one file, which a user can edit."""

import itertools
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import catalog
from penstock._core import Document
from penstock.errors import PenstockError, ScenarioError
from penstock.overrides import quoted

Table = dict[str, Any]

NODES = ("relays", "clients", "servers", "workloads")
"""Sections whose tables get a heading of their own, such as `[relays.middle]`."""

ALGORITHMS = ("circuit_policy", "scheduler", "edge_control", "hop_control", "throttle", "channel_map")
"""Keys for which the name of an algorithm is short for a table with this `kind`."""


def text(scenario: str | Path) -> str:
    """The text of a scenario file. The keys of included files are merged into it, without their comments.

    Raises:
        ScenarioError: if the scenario is wrong.
    """
    name, document = catalog.load(scenario)
    _, path, content = catalog.read(scenario)
    if not re.search(r"^\s*(\w+\.)?include\s*=", content, flags=re.MULTILINE):
        return content
    refusal = f"{name} cannot be written as one file; copy {path} and the files that it includes"
    try:
        whole = _whole(path, content)
        same = _what(Document(whole, str(path), ())) == _what(document)
    except (tomllib.TOMLDecodeError, ScenarioError) as error:
        # The parser of scenarios also reads TOML 1.1.
        raise PenstockError(refusal) from error
    if not same:
        raise PenstockError(refusal)
    return whole


def _whole(path: Path, content: str) -> str:
    """A file with the keys of the files that it includes."""
    own = tomllib.loads(content)
    included = own["scenario"].pop("include", [])
    included = [included] if isinstance(included, str) else included
    merged: Table = {}
    for each in (*(tomllib.loads(catalog.text(path.parent / file)) for file in included), own):
        _merge(merged, each)
    remark = f"# `penstock show` merged {', '.join(included)} into this file, without the comments.\n"
    return f"{_head(content)}{remark}\n{_toml(merged)}"


def resolved(scenario: str | Path, variant: str) -> str:
    """A variant of a scenario as the text of a file, with every default filled in.

    Raises:
        ScenarioError: if the scenario is wrong or has no such variant.
    """
    name, document = catalog.load(scenario)
    known = [each for each, _ in document.variants()]
    if variant not in known:
        raise ScenarioError(f"{name} has no variant {variant!r}; it has {', '.join(known)}")
    return document.resolved(variant)


def _what(document: Document) -> tuple[object, ...]:
    """Everything that a run and its report take from a scenario."""
    return (document.fingerprint(), document.variants(), document.seeds(), document.networks(), document.head())


def _head(content: str) -> str:
    """The comment with which a file begins."""
    lines = content.splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


def _merge(base: Table, over: Mapping[str, Any]) -> None:
    """Merge a table into another as the parser of scenarios merges files."""
    if isinstance(over.get("kind"), str):
        base.clear()
    if isinstance(over.get("link"), str):
        base.pop("link_up", None)
        base.pop("link_down", None)
    for key, value in over.items():
        below = base.get(key)
        if key in ALGORITHMS and isinstance(below, str):
            below = {"kind": below}
        if isinstance(below, dict) and isinstance(value, Mapping):
            base[key] = dict(below)
            _merge(base[key], value)
        else:
            base[key] = value


def _toml(root: Table) -> str:
    """Tables as a TOML file, with one heading for each section, node and entry of a list of tables."""
    parts: list[str] = []
    for section, value in root.items():
        match value:
            case [{}, *_]:
                parts.extend(_section(f"[[{_key(section)}]]", each) for each in value)
            case Mapping() if section in NODES:
                parts.extend(_section(f"[{_key(section)}.{_key(name)}]", each) for name, each in value.items())
            case _:
                parts.append(_section(f"[{_key(section)}]", value))
    return "\n".join(parts)


def _section(heading: str, keys: Mapping[str, Any]) -> str:
    return "".join([f"{heading}\n", *(f"{_key(key)} = {_value(value)}\n" for key, value in keys.items())])


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def _value(value: Any) -> str:
    match value:
        case str():
            return quoted(value)
        case Mapping():
            return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case bool():
            return json.dumps(value)
    return repr(value)
