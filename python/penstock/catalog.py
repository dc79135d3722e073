"""The shipped scenarios, and how a name on the command line becomes a file."""

import difflib
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock._core import Document
from penstock.errors import OutputError, ScenarioError, naming
from penstock.terminal import printable

SHIPPED = Path(__file__).resolve().parent / "scenarios"
"""The folder of shipped scenarios; in a checkout it is a link to the folder beside the crates."""

FEW = 6
"""The maximum number of files that a message names."""

CLAIMS = "claims.toml"
"""The name of the claims file, which is beside a paper's scenarios."""


def shipped() -> list[str]:
    """The names of the shipped scenarios, in alphabetical order: `quickstart`, `defenestrator/bottleneck`.

    A file whose name begins with `_` is not a scenario. Scenarios in the same folder include it.
    """
    files = (path for path in SHIPPED.rglob("*.toml") if path.name != CLAIMS and not path.name.startswith("_"))
    return sorted(path.relative_to(SHIPPED).with_suffix("").as_posix() for path in files)


def attacks(path: Path, content: str) -> list[dict[str, Any]]:
    """The tables `[[attacks]]` of a scenario's text, or of the last included file that has some; unchecked.

    A file that is not TOML has none, because the parser of scenarios explains the mistake.
    """
    try:
        file = tomllib.loads(content)
        included = file.get("scenario", {}).get("include", [])
        files = [file, *(tomllib.loads(text(path.parent / name)) for name in reversed(_list(included)))]
    except (tomllib.TOMLDecodeError, ScenarioError, OutputError, AttributeError, TypeError):
        return []
    return next((each["attacks"] for each in files if "attacks" in each), [])


def _list(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def with_attacks() -> list[str]:
    """The names of the shipped scenarios with attacks, in alphabetical order."""
    paths = ((name, SHIPPED / f"{name}.toml") for name in shipped())
    return [name for name, path in paths if attacks(path, text(path))]


def papers() -> list[str]:
    """The names of the papers whose claims ship, in alphabetical order: `defenestrator`, `ewma`."""
    return sorted(path.parent.relative_to(SHIPPED).as_posix() for path in SHIPPED.rglob(CLAIMS))


def title(scenario: str) -> str:
    """The title of a shipped scenario. The rest of the scenario is not checked."""
    path = SHIPPED / f"{scenario}.toml"
    return Document.title(text(path), str(path))


def paper_title(paper: str) -> str:
    """The title of a paper whose claims ship. The claims are not checked."""
    path = SHIPPED / paper / CLAIMS
    # The keys of the file's head precede its first table.
    head = text(path).partition("\n[")[0]
    return str(tomllib.loads(head)["title"])


def find(scenario: str | Path) -> tuple[str, Path]:
    """The name and the file of a scenario, given as a path or as the name of a shipped scenario.

    A file has precedence, so that users can edit and run a copy of a shipped scenario in the working directory.
    """
    path = Path(scenario)
    with naming(path, "read"):
        there = path.is_file()
    if path.suffix == ".toml" or there:
        if not there:
            raise ScenarioError(f"there is no scenario file {path}; {_beside(path)}")
        whole, shelf = path.resolve(), SHIPPED.resolve()
        name = whole.relative_to(shelf) if whole.is_relative_to(shelf) else Path(path.name)
        return name.with_suffix("").as_posix(), path
    asked = str(scenario)
    names = shipped()
    if asked in names:
        return asked, SHIPPED / f"{asked}.toml"
    close = difflib.get_close_matches(asked, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]}?" if close else f"penstock list scenarios shows the {len(names)} shipped names"
    raise ScenarioError(f"there is no scenario {asked!r}: it is neither a file nor a shipped name; {hint}")


def _beside(missing: Path) -> str:
    """The scenario file in the folder with a name similar to the missing file, or the folder's first scenario files."""
    folder = missing.parent
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix == ".toml")
    except OSError:
        return f"there is no readable folder {folder}"
    if close := difflib.get_close_matches(missing.name, names, n=1):
        return f"did you mean {folder / close[0]}?"
    place = "the current folder" if folder == Path() else f"the folder {folder}"
    few = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
    return f"{place} has {few or 'no .toml file'}"


def read(scenario: str | Path) -> tuple[str, Path, str]:
    """The name, the file and the text of a scenario."""
    name, path = find(scenario)
    return name, path, text(path)


def network_file(path: str | Path | None) -> tuple[str, str] | None:
    """The text and the path of a network file; None without a file."""
    return None if path is None else (text(Path(path)), str(path))


def text(path: Path) -> str:
    """The text of a file in UTF-8."""
    with naming(path, "read"):
        data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not a text file in UTF-8 (byte {error.start})") from error


def load(
    scenario: str | Path,
    sets: tuple[str, ...] = (),
    network: str | Path | None = None,
    variants: Sequence[str] = (),
) -> tuple[str, Document]:
    """The name of a scenario and its parsed document, with the overrides `sets` (`key=value`) and a network file.

    If the overrides do not fit all variants, but fit the selected `variants`, the document has only these.
    """
    name, path, content = read(scenario)
    file = network_file(network)
    try:
        document = Document(content, str(path), sets, file)
    except ScenarioError as error:
        if sets and not variants and (fit := _fitting(content, path, sets, file)):
            raise ScenarioError(f"{error}; or select variants that take it: {fit}") from error
        if not sets or not variants:
            raise
        try:
            document = Document.sweep(content, str(path), sets, variants, [("", ())], file)
        except ScenarioError as again:
            raise again from error
    warn(*document.warnings())
    return name, document


def resolved(scenario: Mapping[str, Any], variant: str) -> tuple[str, Document]:
    """A variant of an output, as it was run: its name in the document, and the document with only this variant.

    `scenario` is the scenario in the manifest.
    """
    document = Document(resolved_text(scenario, variant), variant)
    ((name, _),) = document.variants()
    return name, document


def resolved_text(scenario: Mapping[str, Any], variant: str) -> str:
    """The text of a variant of an output, as it was run; empty if the manifest has none.

    `scenario` is the scenario in the manifest.
    """
    return str(next(each.get("resolved", "") for each in scenario["variants"] if each["name"] == variant))


def _fitting(content: str, path: Path, sets: tuple[str, ...], network: tuple[str, str] | None) -> str:
    """The options that select the variants that the overrides fit; empty if these are none or all."""
    try:
        names = [name for name, _ in Document(content, str(path), (), network).variants()]
    except ScenarioError:
        return ""
    fit = [name for name in names if _fits(content, path, sets, name, network)]
    return " ".join(f"--variant {name}" for name in fit) if len(fit) < len(names) else ""


def _fits(content: str, path: Path, sets: tuple[str, ...], variant: str, network: tuple[str, str] | None) -> bool:
    try:
        Document.sweep(content, str(path), sets, [variant], [("", ())], network)
    except ScenarioError:
        return False
    return True


_WARNED: set[str] = set()
"""Warnings that were printed already, because each warning is printed once."""


def warn(*warnings: str) -> None:
    """Print warnings to stderr, such as those of a document about the old name of a key."""
    for warning in warnings:
        if warning not in _WARNED:
            _WARNED.add(warning)
            print(f"penstock: warning: {printable(warning)}", file=sys.stderr)
