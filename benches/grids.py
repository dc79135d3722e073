"""The file and the commands that searches of a grid share: a row for each setting, and a table on a page."""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from penstock import generated

Row = dict[str, Any]
Setting = TypeVar("Setting")


def read(path: Path) -> list[Row]:
    """The rows of a file; none if it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, settings: Iterable[Setting], row: Callable[[Setting], Row]) -> None:
    """Measure the settings one after another, and append each row as soon as it is complete."""
    for setting in settings:
        line = json.dumps(row(setting))
        with path.open("a") as file:
            file.write(line + "\n")


def parser(description: str | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The commands `run FILE` and `table FILE [--markdown PAGE]`, and the parser of `run`, for more options."""
    top = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True)
    run, table = commands.add_parser("run"), commands.add_parser("table")
    run.add_argument("file", type=Path)
    table.add_argument("file", type=Path)
    table.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    return top, run


def show(body: str, page: Path | None, block: str) -> None:
    """Print a table, and write it into the block of a page if there is one."""
    print(body)
    if page:
        generated.write(page, block, body)
