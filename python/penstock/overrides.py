"""Python values as TOML, and overrides of scenario keys as Python values."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

Sets = Sequence[str] | Mapping[str, Any]
"""Overrides: `key=value` with TOML values, or a mapping of keys to values."""


def quoted(text: str) -> str:
    """Text as a string of TOML."""
    # TOML has the escapes of JSON, and also forbids DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def typed(sets: Sets) -> tuple[str, ...]:
    """The overrides as `--set` takes them. Text stays as it is, such as `40 ms` or `uniform(1 s, 3 s)`."""
    if isinstance(sets, Mapping):
        return tuple(f"{key}={toml(value, whole=True)}" for key, value in sets.items())
    return tuple(sets)


def parsed(text: str) -> Any:
    """The TOML value of an override. A string needs no quotes, because a shell removes them."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def toml(value: Any, *, whole: bool = False) -> str:
    """A value as TOML. Text that is the `whole` value stays as it is, without quotes."""
    match value:
        case str():
            return value if whole else quoted(value)
        case bool():
            return str(value).lower()
        case Mapping():
            return f"{{ {', '.join(f'{key} = {toml(each)}' for key, each in value.items())} }}"
        case Sequence():
            return f"[{', '.join(map(toml, value))}]"
    return repr(value)
