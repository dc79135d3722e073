"""Documents of others, plain or compressed with xz."""

from __future__ import annotations

import lzma
from io import BytesIO
from pathlib import Path

from penstock.errors import PenstockError, naming

MAGIC = b"\xfd7zXZ\x00"
"""How a file begins that xz compressed."""


def read(path: Path, largest: int, usual: str) -> bytes:
    """A whole document of at most `largest` bytes; the sentence that refuses a larger one ends in what is `usual`."""
    try:
        with naming(path, "read"), path.open("rb") as raw:
            data = raw.read(largest + 1)
        if data.startswith(MAGIC):
            with lzma.open(BytesIO(data)) as packed:
                data = packed.read(largest + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise PenstockError(f"{path}: its xz compression is damaged or cut short") from error
    if len(data) > largest:
        raise PenstockError(f"{path}: it has more than {largest >> 20} MiB, and {usual}")
    return data
