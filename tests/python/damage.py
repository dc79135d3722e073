"""Structural damage to documents of JSON: each place, and what belongs in hardly any."""

import math
import re
from collections.abc import Iterator
from typing import Any


def places(inside: Any, shape: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every key of a document with what holds it, and a name that is the same for places that are alike."""
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
"""What belongs in hardly any place."""


def put(inside: Any, key: Any, value: Any) -> None:
    """The value in a place, or nothing there if it is `...`."""
    if value is ...:
        del inside[key]
    else:
        inside[key] = value
