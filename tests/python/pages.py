"""Run the commands that tutorials and how-to guides show, and write the output into the pages.

Usage: .venv/bin/python tests/python/pages.py [PAGE...] [--with FILE...]

A page is run from top to bottom in a folder with the files of `--with` alone. A code block with a `title` is written to
the file of that name. A `console` block is run, and its output replaced, if each of its commands begins with a program
of `PROGRAMS`. A line `...` in an output stands for left-out lines: as many lines as before stay in front of it and
behind it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAMS = ("penstock", "python", "cat", "head", "ls")
# Commands that run no simulation: tests/python/test_pages.py compares their outputs with the pages.
QUICK = ("penstock check", "penstock list")
# Pages with a consensus of CollecTor, which is not part of the repository.
NEEDS_FILES = ("use-a-consensus.md",)
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', flags=re.MULTILINE | re.DOTALL)


def rewritten(page: Path, folder: Path, programs: tuple[str, ...] = PROGRAMS) -> str:
    """Return the page's text with the output that its commands have now.

    Args:
        page: the page.
        folder: a folder for the files of the page.
        programs: the beginnings of commands that are run; other blocks keep their outputs.
    """

    def block(match: re.Match[str]) -> str:
        language, title, text = match.groups()
        if title:
            (folder / title).write_text(text, encoding="utf-8")
        if language != "console":
            return match[0]
        commands = [part for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part]
        if not all(command.startswith(programs) for command in commands):
            return match[0]
        return f"```console\n{''.join(_run(command, folder) for command in commands)}```"

    return BLOCK.sub(block, page.read_text(encoding="utf-8"))


def _run(text: str, folder: Path) -> str:
    """Run a command, which ends with the first line without a trailing backslash; return it with its output."""
    ended = re.match(r"(?:.*\\\n)*.*\n", text)
    assert ended, text
    command, before = ended[0], text[ended.end() :].splitlines()
    variables = os.environ | {"COLUMNS": "100", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    arguments = ["bash", "-c", command]
    done = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    # Progress goes to standard error, and so does the one sentence of a refused command.
    output = done.stdout if done.returncode == 0 else done.stderr
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    if "..." in before:
        place = before.index("...")
        behind = len(before) - place - 1
        lines = [*lines[:place], "...", *lines[len(lines) - behind :]]
    return "\n".join(["$ " + command.rstrip("\n"), *lines]) + "\n"


def every() -> list[Path]:
    """The tutorials and how-to guides that need no further file."""
    pages = [page for kind in ("tutorials", "how-to") for page in sorted((DOCS / kind).glob("*.md"))]
    return [page for page in pages if page.name not in NEEDS_FILES]


def main() -> None:
    """Rewrite the pages that are named; without a name all that need no further file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--with", nargs="+", default=[], type=Path, dest="files")
    options = parser.parse_args()
    for page in options.pages or every():
        with tempfile.TemporaryDirectory() as folder:
            for file in options.files:
                shutil.copy(file, folder)
            page.write_text(rewritten(page, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
