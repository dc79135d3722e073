"""Makes a scenario from Python values, without TOML text."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from penstock._core import Document
from penstock.errors import ScenarioError, replacing
from penstock.overrides import quoted

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]
"""A value of a key. Sizes, rates and times are strings with their unit, as in a scenario file: `"128 KiB/s"`."""


class Scenario:
    """A scenario, section by section. The keys are those of the scenario reference.

    A keyword `edge_control__circuit_window` stands for the key `edge_control.circuit_window`. Methods return the
    scenario, so that calls can be chained:

        scenario = (
            Scenario("A slow middle relay")
            .section("run", duration="1 min")
            .relay("entry").relay("middle", link="128 KiB/s").relay("exit")
            .server("destination")
            .workload("web", size="300 KiB")
            .client("web", workload="web", path=["entry", "middle", "exit"])
            .variant("stock")
            .variant("small", {"relay.edge_control.circuit_window": 100}, label="50 KiB window")
        )
        penstock.run(scenario.save("slow.toml"))
    """

    def __init__(self, title: str, **head: Value) -> None:
        """A scenario with this title; `head` has other keys of `[scenario]`, such as `include`."""
        self._sections: dict[str, dict[str, Value]] = {"scenario": {"title": title, **_keys(head)}}
        self._variants: list[dict[str, Value]] = []

    def section(self, name: str, **keys: Value) -> Self:
        """Set keys of a section such as `run`, `network`, or `relay` for all relays."""
        self._sections.setdefault(name, {}).update(_keys(keys))
        return self

    def relay(self, name: str, **keys: Value) -> Self:
        """Add a relay, or set its keys."""
        return self.section(f"relays.{name}", **keys)

    def client(self, name: str, **keys: Value) -> Self:
        """Add a client, or set its keys."""
        return self.section(f"clients.{name}", **keys)

    def server(self, name: str, **keys: Value) -> Self:
        """Add a server, or set its keys."""
        return self.section(f"servers.{name}", **keys)

    def workload(self, name: str, **keys: Value) -> Self:
        """Add a workload, or set its keys."""
        return self.section(f"workloads.{name}", **keys)

    def variant(self, name: str, sets: Mapping[str, Value] | None = None, *, label: str | None = None) -> Self:
        """Add a variant, with the keys that it overrides, such as `relay.scheduler`."""
        shown: dict[str, Value] = {} if label is None else {"label": label}
        self._variants.append({"name": name, **shown, "set": dict(sets or {})})
        return self

    def toml(self) -> str:
        """The scenario as the text of a scenario file.

        Raises:
            ScenarioError: if a value has no form in TOML.
        """
        parts = [_table(f"[{title}]", keys) for title, keys in self._sections.items()]
        text = "\n".join([*parts, *(_table("[[variants]]", each) for each in self._variants)])
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = text[error.start]
            raise ScenarioError(f"the scenario has {half!a}, half of a character; give the whole character") from None
        return text

    def save(self, path: str | Path) -> Path:
        """Check the scenario and write it to a file, which `penstock.run` and the command accept.

        Raises:
            ScenarioError: if a key or a value is wrong; then nothing is written.
            OutputError: if the file cannot be written.
        """
        path = Path(path)
        text = self.toml()
        Document(text, str(path), ())
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return path


def _keys(keywords: Mapping[str, Value]) -> dict[str, Value]:
    return {name.replace("__", "."): value for name, value in keywords.items()}


def _table(title: str, keys: Mapping[str, Value]) -> str:
    return "".join([f"{title}\n", *(f"{_key(name)} = {_toml(name, value)}\n" for name, value in keys.items())])


def _key(name: str) -> str:
    """A key of a file, in which a dot separates tables."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else quoted(part) for part in name.split("."))


def _toml(name: str, value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int() | float():
            # TOML calls them nan and inf, as Python does.
            return repr(value)
        case Mapping():
            # A dotted key of an override is one key, in quotes.
            inner = (f"{quoted(str(key))} = {_toml(f'{name}.{key}', each)}" for key, each in value.items())
            return "{ " + ", ".join(inner) + " }"
        case Sequence():
            return "[" + ", ".join(_toml(name, each) for each in value) + "]"
    raise ScenarioError(
        f"{name} is {value!r}, a {type(value).__name__}; it must be a string, number, boolean, list or mapping"
    )
