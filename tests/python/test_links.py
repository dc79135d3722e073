"""What `make docs` does not check: links outside of docs/ and from docs/ to the repository, and repeated headings."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "fuzz/README.md"]
PAGES = [ROOT / name for name in OUTSIDE] + sorted((ROOT / "docs").rglob("*.md"))
REPOSITORY = re.compile(r"https://github\.com/penstock/penstock/(?:blob|tree)/main/")


def prose(page: Path) -> str:
    """Return a page without its fenced code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    """Return the headings of a page."""
    return re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts and MkDocs make them."""
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings(page)}


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead to no file or no heading of the repository."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        target, _, anchor = link.partition("#")
        if REPOSITORY.match(target):
            path = ROOT / REPOSITORY.sub("", target)
        elif "://" in target or page.is_relative_to(ROOT / "docs"):
            continue
        else:
            path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(f"{page.relative_to(ROOT)}: {link}")
    return found


def test_links_lead_to_files_and_headings_of_the_repository() -> None:
    assert [link for page in PAGES for link in broken(page)] == []


def test_a_validation_page_has_each_section_once() -> None:
    for page in (ROOT / "docs" / "validation").glob("*.md"):
        assert len(headings(page)) == len(set(headings(page))), page.name
