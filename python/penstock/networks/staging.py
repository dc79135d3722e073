"""Relays that tornettools staged: `relayinfo_staging_*.json`.

Source: tornettools, `stage` (the format) and `generate` (which relays count). Each staged relay stands for the relays
of one operator in one place. Its weight is a share of the network.

Deviation: `generate` samples each relay with the probability that it was running, and samples its flags in the same
way. In Penstock, a relay counts if it was running in at least half of the consensuses. It has the flags that it had in
at least half of these consensuses. The result thus depends only on the file.
"""

import json
import re
from collections.abc import Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from penstock import _core
from penstock.errors import PenstockError
from penstock.networks import places
from penstock.networks.relays import MOST, Relay, Source, counted
from penstock.validation import must

MOSTLY = 0.5
"""A relay counts as running, guard or exit if this share of the consensuses says so."""

YEAR_9999 = 253_402_300_799

_UNKNOWN = {"", "??", "A1", "A2"}
"""The codes of unknown countries (MaxMind)."""

Share = Annotated[float, Field(strict=True, ge=0, le=1), must("it must be a number from 0 to 1")]
Rate = Annotated[float, Field(strict=True, ge=0, le=MOST), must(f"it must be a number from 0 to {MOST}")]
Time = Annotated[float, Field(strict=True, ge=0, le=YEAR_9999), must(f"it must be a number from 0 to {YEAR_9999}")]
Country = Annotated[
    Annotated[str, Field(pattern="^[A-Za-z]{2}$")] | None,
    BeforeValidator(lambda code: None if isinstance(code, str) and code in _UNKNOWN else code),
    must("it must have two letters, as in ISO 3166-1"),
]

_MISSING: Any = None


class _Staged(BaseModel):
    """A relay; missing numbers are refused."""

    model_config = ConfigDict(validate_default=True)

    running_frequency: Share = _MISSING
    weight: Share = _MISSING
    bandwidth_capacity: Rate = _MISSING
    bandwidth_rate: Rate = _MISSING
    bandwidth_burst: Rate = _MISSING
    guard_frequency: Share = _MISSING
    exit_frequency: Share = _MISSING
    country_code: Country = None
    nickname: Annotated[str, must("it must be a name")] = "relay"
    nicknames: Annotated[list[str], Field(min_length=1), must("it must be a list of names")] | None = None

    @property
    def country(self) -> str:
        return (self.country_code or "").upper()

    def relay(self, weight: int, countries: Set[str]) -> Relay:
        rate = int(self.bandwidth_rate)
        return Relay(
            (self.nicknames or [self.nickname])[0],
            guard=self.guard_frequency >= MOSTLY,
            exit=self.exit_frequency >= MOSTLY,
            weight=min(MOST, max(1, weight)),
            link=int(self.bandwidth_capacity),
            rate=rate or None,
            burst=max(rate, int(self.bandwidth_burst)) if rate else None,
            country=self.country if self.country_code and self.country in countries else None,
        )


class _Document(BaseModel):
    relays: dict[str, _Staged]
    min_unix_time: Time | None = None
    max_unix_time: Time | None = None

    @property
    def period(self) -> str:
        if self.min_unix_time is None or self.max_unix_time is None:
            return ""
        first, last = (datetime.fromtimestamp(end, UTC) for end in (self.min_unix_time, self.max_unix_time))
        return f", consensuses valid after {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


def read(data: bytes, path: Path) -> Source:
    """The relays of a staging file."""
    document = _checked(data, path)
    running = [relay for relay in document.relays.values() if relay.running_frequency >= MOSTLY]
    found = [relay for relay in running if relay.weight > 0 and relay.bandwidth_capacity >= 1]
    if not found:
        raise PenstockError(
            f"{path}: relays: none was running half of the time, with a weight and a bandwidth_capacity"
        )
    total = sum(relay.weight for relay in found)
    of_all = sum(int(relay.bandwidth_capacity) for relay in found)
    known = {*_core.countries(), ""}
    elsewhere = [relay.country for relay in document.relays.values() if relay.country not in known]
    members = [relay.relay(round(relay.weight / total * of_all), known) for relay in found]
    notes = [
        f"{path.name}, relays staged by tornettools{document.period}",
        "links are the largest observed bandwidths of the descriptors",
        *counted(len(document.relays) - len(running), "left out: running less than half of the time"),
        *counted(len(running) - len(found), "left out: no weight or no observed bandwidth"),
        *counted(
            len(elsewhere), f"without country, since scenarios have no place for {', '.join(sorted(set(elsewhere)))}"
        ),
    ]
    return Source(members, notes)


def _checked(data: bytes, path: Path) -> _Document:
    try:
        return _Document.model_validate(_parse(data, path))
    except ValidationError as error:
        mistake = error.errors()[0]
    keys, value = [str(key) for key in mistake["loc"]], mistake["input"]
    if mistake["type"] == "missing":
        value = None
    right = mistake["msg"] if mistake["type"] == "must" else "it must be an object, as in the files of tornettools"
    # The line of a missing value is that of its parent.
    line = places.of_keys(data.decode("utf-8"), keys if value is not None else keys[:-1])
    name = "".join(f"{_short(key)}." for key in keys).removesuffix(".")
    raise PenstockError(f"{path}:{line}: {name}{': ' if name else ''}{_shown(value)}; {right}")


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
        raise PenstockError(f"{path}:{line}: {word} is not a number in JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise PenstockError(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise PenstockError(f"{path}: this is not JSON that can be read: a number or a nesting is too long") from error


def _shown(value: Any) -> str:
    return "it is missing" if value is None else f"{_short(json.dumps(value))} is there"


def _short(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= 44 else f"{plain[:40]}..."
