"""The file and the commands that searches of a grid share: a row for each setting, and a table on a page."""

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
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


def main(
    description: str | None,
    block: str,
    settings: Iterable[Setting],
    setting_of: Callable[[Row], Setting],
    row: Callable[[Setting], Row],
    table: Callable[[list[Row]], str],
) -> None:
    """Measure the settings that the file lacks, or print the table of its rows."""
    asked = parser(description)[0].parse_args()
    rows = read(asked.file)
    if asked.command == "run":
        done = [setting_of(each) for each in rows]
        append(asked.file, (setting for setting in settings if setting not in done), row)
    else:
        show(table(rows), asked.markdown, block)


def mean_square(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The mean squared logarithm of the ratios of our quantiles to those of a paper, as far as the paper draws them."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.mean(math.log(our / their) ** 2 for our, their in pairs if not math.isnan(their))
