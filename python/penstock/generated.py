"""Generated blocks of Markdown files: tables between two comments, with their origin below."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from penstock import _core
from penstock.errors import PenstockError, naming


def origin() -> str:
    """Penstock's version, its git commit if it runs from a checkout, and today's date."""
    parts = [f"Penstock {_core.version()}", _commit(), f"{datetime.now(UTC):%Y-%m-%d}"]
    return ", ".join(filter(None, parts))


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"commit {done.stdout.strip()}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    cells = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * len(head), *lines[1:]])


def write(path: Path, name: str, body: str, made: str | None = None) -> None:
    """Put a block into a file: in the place of its block of this name, or into a new file.

    Raises:
        PenstockError: if the file exists without such a block, or with an end missing.
    """
    begin, end = f"<!-- begin generated: {name} -->", "<!-- end generated -->"
    block = f"{begin}\n\n{body.strip()}\n\n*{made or origin()}*\n\n{end}"
    with naming(path, "read"):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text:
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise PenstockError(f"{path} has no generated block of this name; add the lines {begin} and {end} to it")
        block = before + block + after.removesuffix("\n")
    with naming(path):
        path.write_text(block + "\n", encoding="utf-8")
