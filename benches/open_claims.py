"""How many claims of each paper are open, and how each one ends, for docs/validation/index.md.

    python benches/open_claims.py docs/validation [--markdown docs/validation/index.md]

A claim is open if it fails or is undecided. Its verdict is in a generated table of the paper's page. How it ends is in
another table of this page: the first cell of a row names claims, and the second cell begins with a letter.
"""

import argparse
import re
from fnmatch import fnmatchcase
from pathlib import Path

from penstock import generated

BLOCK = "benches/open_claims.py"
PAPERS = {
    "defenestrator": "DefenestraTor",
    "ewma": "EWMA",
    "kist": "KIST",
    "throttling": "Throttling",
    "marut": "BackTap and Marut",
    "attacks": "Attacks of the papers",
}
"""The pages of the papers, and their titles in the table."""

BLOCKS = re.compile(r"<!-- begin generated: .*?<!-- end generated -->", flags=re.DOTALL)
VERDICT = re.compile(r"\| (?:\*\*)?(holds|fails|undecided|not gated|not yet|needs the network)(?:\*\*)? \|")
NAME = re.compile(r"`([\w.*-]+)`")
LETTER = re.compile(r"^\*\*([ABCD])\b")
OPEN = ("fails", "undecided")
"""The verdicts of open claims, the worse one first."""


def verdicts(page: str) -> list[tuple[str, str]]:
    """The claims in the generated tables of a page, with their verdicts."""
    rows = [line for block in BLOCKS.findall(page) for line in block.splitlines() if line.startswith("| `")]
    return [(NAME.findall(row)[0], found[1]) for row in rows if (found := VERDICT.search(row))]


def text(page: str) -> str:
    """A page without its generated tables."""
    return BLOCKS.sub("", page)


def named(claim: str, names: list[str]) -> list[str]:
    """Those of the names that mean this claim: `*` stands for any characters, and `-end` for names with this end."""
    return [name for name in names if fnmatchcase(claim, f"*{name}" if name.startswith("-") else name)]


def ending(claim: str, page: str) -> str | None:
    """The letter of an open claim, from the row whose name is longest; None without such a row."""
    rows = [line.strip("|").split(" | ") for line in text(page).splitlines() if line.startswith("| ")]
    letters = [(NAME.findall(cells[0]), found[1]) for cells in rows if (found := LETTER.match(cells[1].strip()))]
    endings = [(len(name), letter) for names, letter in letters for name in named(claim, names)]
    return max(endings)[1] if endings else None


def row(title: str, page: str) -> list[str]:
    """The cells of a paper: its claims with each verdict, and its open claims with each letter.

    A claim that several tables have counts once. It is open if one of them says so.
    """
    worst: dict[str, str] = {}
    for claim, verdict in verdicts(page):
        known = (worst.get(claim, verdict), verdict)
        worst[claim] = next((each for each in OPEN if each in known), known[0])
    found = list(worst.values())
    counts = [found.count(verdict) for verdict in ("holds", *OPEN)]
    ends = [ending(claim, page) for claim, verdict in worst.items() if verdict in OPEN]
    return [title, *map(str, counts), *(str(ends.count(letter)) for letter in "ABCD")]


def table(pages: Path) -> str:
    """The table of all papers.

    Args:
        pages: The folder of the pages.
    """
    rows = [row(title, (pages / f"{name}.md").read_text(encoding="utf-8")) for name, title in PAPERS.items()]
    return generated.table(["paper", "hold", "fail", "undecided", "A", "B", "C", "D"], rows)


def main() -> None:
    """Print the table, or also write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, help="the folder of the papers' pages")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    options = parser.parse_args()
    body = table(options.pages)
    print(body)
    if options.markdown:
        generated.write(options.markdown, BLOCK, body)


if __name__ == "__main__":
    main()
