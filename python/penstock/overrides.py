"""Overrides of scenario keys as Python values."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Sets = Sequence[str] | Mapping[str, Any]
"""Overrides: `key=value` with TOML values, or a mapping of keys to values."""


def typed(sets: Sets) -> tuple[str, ...]:
    """The overrides as `--set` takes them. Text stays as it is, such as `40 ms` or `uniform(1 s, 3 s)`."""
    if isinstance(sets, Mapping):
        return tuple(f"{key}={_toml(value, whole=True)}" for key, value in sets.items())
    return tuple(sets)


def _toml(value: Any, *, whole: bool = False) -> str:
    match value:
        case str():
            return value if whole else json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case Mapping():
            return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}"
        case Sequence():
            return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
