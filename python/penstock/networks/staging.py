"""Relays that tornettools staged: `relayinfo_staging_*.json`.

Source: tornettools, `stage` (the format) and `generate` (which relays count). Each relay stands for those of one
operator in one place, and its weight is a share of all.

Deviation: `generate` draws relays as often as they were running, and flags as often as they had them. Here a relay
counts if it was running in half of the consensuses or more, and has the flags that it had in half of these: the file
alone decides.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from penstock import _core
from penstock.errors import PenstockError
from penstock.networks import places
from penstock.networks.relays import MOST, Relay, Source, counted

MOSTLY = 0.5
"""The share of consensuses from which a relay counts as running, guard or exit."""

_UNKNOWN = {"", "??", "A1", "A2"}
"""The codes of unknown countries (MaxMind)."""


def read(data: bytes, path: Path) -> Source:
    """The relays of a staging file."""
    reader = _Reader(path, data)
    root = reader.table(_parse(data, path))
    relays = reader.table(root.get("relays"), "relays")
    found: list[tuple[str, float, int, dict[str, Any]]] = []
    rare = idle = 0
    for fingerprint, entry in relays.items():
        where = ("relays", fingerprint)
        relay = reader.table(entry, *where)
        running = reader.number(relay, where, "running_frequency", 1)
        weight = reader.number(relay, where, "weight", 1)
        capacity = int(reader.number(relay, where, "bandwidth_capacity", MOST))
        known = reader.facts(relay, where)
        if running < MOSTLY:
            rare += 1
        elif weight == 0 or capacity == 0:
            idle += 1
        else:
            found.append((reader.nickname(relay, where), weight, capacity, known))
    if not found:
        raise PenstockError(
            f"{path}: relays: none was running half of the time, with a weight and a bandwidth_capacity"
        )
    total = sum(weight for _, weight, _, _ in found)
    of_all = sum(capacity for _, _, capacity, _ in found)
    members = [
        Relay(nickname, weight=min(MOST, max(1, round(weight / total * of_all))), link=capacity, **known)
        for nickname, weight, capacity, known in found
    ]
    notes = [
        f"{path.name}, relays staged by tornettools{reader.period(root)}",
        "links are the most that descriptors say was observed",
        *counted(rare, "left out that were running less than half of the time"),
        *counted(idle, "left out of no weight or no observed bandwidth"),
        *reader.homeless(),
    ]
    return Source(members, notes)


class _Reader:
    """Checks the values of the tree and reports the lines of mistakes."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._data = data
        self._countries = set(_core.countries())
        self._elsewhere: list[str] = []

    def wrong(self, where: tuple[str, ...], value: Any, right: str) -> NoReturn:
        # The line of a missing value is that of its parent.
        there = where if value is not None else where[:-1]
        line = places.of_keys(self._data.decode("utf-8"), there)
        name = "".join(f"{_short(key)}." for key in where).removesuffix(".")
        raise PenstockError(f"{self._path}:{line}: {name}{': ' if name else ''}{_shown(value)}; {right}")

    def table(self, value: Any, *where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong(where, value, "it must be an object, as in the relayinfo_staging of tornettools")
        return value

    def number(self, table: dict[str, Any], where: tuple[str, ...], key: str, most: int) -> float:
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
            self.wrong((*where, key), value, f"it must be a number from 0 to {most}")
        return float(value)

    def facts(self, relay: dict[str, Any], where: tuple[str, ...]) -> dict[str, Any]:
        """Flags, buckets and country."""
        rate = int(self.number(relay, where, "bandwidth_rate", MOST))
        burst = int(self.number(relay, where, "bandwidth_burst", MOST))
        return {
            "guard": self.number(relay, where, "guard_frequency", 1) >= MOSTLY,
            "exit": self.number(relay, where, "exit_frequency", 1) >= MOSTLY,
            "rate": rate or None,
            "burst": max(rate, burst) if rate else None,
            "country": self.country(relay.get("country_code"), where),
        }

    def country(self, code: Any, where: tuple[str, ...]) -> str | None:
        if code is None or (isinstance(code, str) and code in _UNKNOWN):
            return None
        if not isinstance(code, str) or not re.fullmatch("[A-Za-z]{2}", code):
            self.wrong((*where, "country_code"), code, "it must have two letters, as in ISO 3166-1")
        if code.upper() in self._countries:
            return code.upper()
        self._elsewhere.append(code.upper())
        return None

    def nickname(self, relay: dict[str, Any], where: tuple[str, ...]) -> str:
        names = relay.get("nicknames", [relay.get("nickname", "relay")])
        if not isinstance(names, list) or not names or not isinstance(names[0], str):
            self.wrong((*where, "nicknames"), names, "it must be a list of names")
        return str(names[0])

    def period(self, root: dict[str, Any]) -> str:
        if "min_unix_time" not in root and "max_unix_time" not in root:
            return ""
        year_9999 = 253_402_300_799
        ends = [self.number(root, (), key, year_9999) for key in ("min_unix_time", "max_unix_time")]
        first, last = (datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M") for end in ends)
        return f", consensuses valid after {first} to {last} UTC"

    def homeless(self) -> list[str]:
        where = ", ".join(sorted(set(self._elsewhere)))
        return counted(len(self._elsewhere), f"without country, since scenarios have no place for {where}")


def _parse(data: bytes, path: Path) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PenstockError(f"{path} is not a text file in UTF-8 (byte {error.start})") from error

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            again = [*re.finditer(re.escape(json.dumps(twice, ensure_ascii=False)) + r"\s*:", text)][1:]
            line = f":{text.count(chr(10), 0, again[0].start()) + 1}" if again else ""
            raise PenstockError(f"{path}{line}: {_short(twice)} is there twice; every relay and key must be there once")
        return table

    def refuse(word: str) -> NoReturn:
        line = text.count("\n", 0, max(0, text.find(word))) + 1
        raise PenstockError(f"{path}:{line}: {word} is no number of JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise PenstockError(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise PenstockError(f"{path}: this is not JSON that can be read: a number or a nesting is too long") from error


def _shown(value: Any) -> str:
    return "it is missing" if value is None else f"{_short(json.dumps(value))} is there"


def _short(text: str) -> str:
    """The text, shortened and with printable letters only."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= 44 else f"{plain[:40]}..."
