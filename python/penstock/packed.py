"""Input documents, plain or compressed with xz."""

import lzma
from io import BytesIO
from pathlib import Path

from penstock.errors import PenstockError, naming

MAGIC = b"\xfd7zXZ\x00"
"""The first bytes of an xz file."""


def read(path: Path, largest: int, usual: str) -> bytes:
    """Read a document of at most `largest` bytes. The error for a larger document names the `usual` size."""
    try:
        with naming(path, "read"), path.open("rb") as raw:
            data = raw.read(largest + 1)
        if data.startswith(MAGIC):
            with lzma.open(BytesIO(data)) as packed:
                data = packed.read(largest + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise PenstockError(f"{path}: the xz compression is damaged or incomplete") from error
    if len(data) > largest:
        raise PenstockError(f"{path}: it has more than {largest >> 20} MiB, and {usual}")
    return data


def head(path: Path, size: int) -> bytes:
    """The whole lines in the first `size` bytes of a document."""
    try:
        with naming(path, "read"), path.open("rb") as raw:
            packed = raw.read(len(MAGIC)) == MAGIC
            raw.seek(0)
            if packed:
                with lzma.open(raw) as unpacked:
                    data = unpacked.read(size)
            else:
                data = raw.read(size)
    except (lzma.LZMAError, EOFError) as error:
        raise PenstockError(f"{path}: the xz compression is damaged or incomplete") from error
    return data if len(data) < size else data[: data.rfind(b"\n") + 1]
