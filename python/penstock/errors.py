"""What can go wrong, and with which exit status the command then ends.

The exceptions come from the extension module, where Rust's errors are mapped to them in one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath

from penstock._core import Cancelled, OutputError, PenstockError, ScenarioError
from penstock.stopping import STOPPED

__all__ = ["MISTAKE", "STOPPED", "Cancelled", "OutputError", "PenstockError", "ScenarioError", "exit_status", "naming"]

MISTAKE = 2
"""Exit status when the user, or the machine under it, has to change something."""


def exit_status(error: PenstockError) -> int:
    """The status with which the command ends after `error`."""
    return STOPPED if isinstance(error, Cancelled) else MISTAKE


@contextmanager
def naming(path: str | PathLike[str], doing: str = "write") -> Iterator[None]:
    """Turn an error of the file system into a sentence that names `path` and what we were `doing` to it."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot {doing} {fspath(path)}: {error.strerror or error}") from error
