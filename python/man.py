"""Write the manual pages of `penstock`, with click-man's layout.

Usage: .venv/bin/python python/man.py DIR

click-man reads only commands of Click, and Typer has its own. This script therefore takes the parts of each page from
Typer's parser.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click_man.man import ManPage
from typer.main import get_command

from penstock import _core
from penstock.verbs import app


def pages(command: Any, name: str = "penstock", parent: Any = None) -> Iterator[tuple[str, str]]:
    """The file name and the text of the page of a command, and of all its subcommands."""
    context = command.context_class(command, info_name=name, parent=parent, **command.context_settings)
    page = ManPage(context.command_path)
    page.version = _core.version()
    page.short_help = command.get_short_help_str(80)
    page.description = command.help or ""
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.options = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    subcommands = getattr(command, "commands", {})
    page.commands = [(each, subcommand.get_short_help_str(80)) for each, subcommand in subcommands.items()]
    yield f"{'-'.join(context.command_path.split())}.1", str(page)
    for each, subcommand in subcommands.items():
        yield from pages(subcommand, each, context)


def main(folder: str) -> None:
    """Write all pages into a folder."""
    to = Path(folder)
    to.mkdir(parents=True, exist_ok=True)
    for name, text in pages(get_command(app)):
        (to / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
