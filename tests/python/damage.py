"""Structural damage to JSON documents: each key, and values that are wrong at nearly every key."""

import math
import re
from collections.abc import Iterator
from typing import Any


def places(inside: Any, shape: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every key of a document with its container, and a name that similar keys share."""
    for key in list(inside) if isinstance(inside, dict) else range(len(inside)):
        name = "*" if re.search(r"\d", str(key)) else key
        yield f"{shape}.{name}", inside, key
        if isinstance(inside[key], (dict, list)):
            yield from places(inside[key], f"{shape}.{name}")


DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]

NASTY: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    2**2000,
    1e308,
    math.nan,
    "",
    "x",
    "-5",
    "9" * 400,
    [],
    [1],
    [[]],
    DEEP,
    {},
    {"a": 1},
]
"""Values that are wrong at nearly every key."""


def put(inside: Any, key: Any, value: Any) -> None:
    """The value in a place, or nothing there if it is `...`."""
    if value is ...:
        del inside[key]
    else:
        inside[key] = value
