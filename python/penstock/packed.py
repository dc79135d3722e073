"""Input documents, plain or compressed with xz."""

import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from penstock.errors import PenstockError, naming

MAGIC = b"\xfd7zXZ\x00"
"""The first bytes of an xz file."""


def read(path: Path, largest: int, usual: str) -> bytes:
    """Read a document of at most `largest` bytes. The error for a larger document names the `usual` size."""
    with _reading(path):
        with path.open("rb") as raw:
            data = raw.read(largest + 1)
        if data.startswith(MAGIC):
            with lzma.open(BytesIO(data)) as packed:
                data = packed.read(largest + 1)
    if len(data) > largest:
        raise PenstockError(f"{path}: it has more than {largest >> 20} MiB, and {usual}")
    return data


def head(path: Path, size: int) -> bytes:
    """The whole lines in the first `size` bytes of a document."""
    with _reading(path), path.open("rb") as raw:
        is_packed = raw.read(len(MAGIC)) == MAGIC
        raw.seek(0)
        if is_packed:
            with lzma.open(raw) as packed:
                data = packed.read(size)
        else:
            data = raw.read(size)
    return data if len(data) < size else data[: data.rfind(b"\n") + 1]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the file system and of the compression into one sentence."""
    try:
        with naming(path, "read"):
            yield
    except (lzma.LZMAError, EOFError) as error:
        raise PenstockError(f"{path}: the xz compression is damaged or incomplete") from error
