"""Errors and their exit statuses.

The extension module defines the exceptions and maps Rust's errors to them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from penstock._core import Cancelled, OutputError, PenstockError, ScenarioError
from penstock.stopping import STOPPED

__all__ = [
    "MISTAKE",
    "STOPPED",
    "Cancelled",
    "OutputError",
    "PenstockError",
    "ScenarioError",
    "exit_status",
    "naming",
    "replacing",
]

MISTAKE = 2
"""The exit status after an error of the user or a problem of the machine."""


def exit_status(error: PenstockError) -> int:
    """The status with which the command ends after `error`."""
    return STOPPED if isinstance(error, Cancelled) else MISTAKE


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that replaces `path` at the end. Readers find the whole old file or the whole new file."""
    temporary = path.with_name(f"{path.name}.tmp")
    with naming(path):
        yield temporary
        temporary.replace(path)


@contextmanager
def naming(path: str | PathLike[str], doing: str = "write") -> Iterator[None]:
    """Turn an error of the file system into a sentence with the path and the action."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot {doing} {fspath(path)}: {error.strerror or error}") from error
