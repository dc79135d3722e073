"""Reads XML as a tree of elements with lines.

Python's expat parses the document. Entity declarations are refused, so a small document cannot expand into a large one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from penstock.errors import PenstockError

DEEPEST = 100
"""The deepest accepted nesting of elements."""


@dataclass(slots=True)
class Element:
    """An element of a document."""

    name: str
    """The name without its namespace."""
    facts: dict[str, str]
    """The attributes."""
    line: int
    path: Path
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def each(self, *names: str) -> Iterator["Element"]:
        """All descendants with one of these names, in the order of the document."""
        for child in self.children:
            if child.name in names:
                yield child
            yield from child.each(*names)

    def wrong(self, why: str) -> NoReturn:
        """Refuse the document because of this element."""
        raise PenstockError(f"{self.path}:{self.line}: {_plain(why)}")

    def need(self, fact: str) -> str:
        """The value of an attribute; refuses the document if the attribute is missing."""
        value = self.facts.get(fact)
        if value is None:
            self.wrong(f"<{self.name}> has no {fact}; it must have one, as in Shadow's own files")
        return value


def read(data: bytes, path: Path) -> Element:
    """The root element of a document."""
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    root = Element("", {}, 1, path)
    stack = [root]

    def refuse(*_: Any) -> NoReturn:
        why = "it declares an entity; remove the declaration, since Shadow's files have none"
        raise PenstockError(f"{path}:{parser.CurrentLineNumber}: {why}")

    def start(name: str, facts: dict[str, str]) -> None:
        if len(stack) > DEEPEST:
            raise PenstockError(f"{path}:{parser.CurrentLineNumber}: the elements are nested more than {DEEPEST} deep")
        child = Element(name.rpartition("}")[2], facts, parser.CurrentLineNumber, path)
        stack[-1].children.append(child)
        stack.append(child)

    def text(content: str) -> None:
        stack[-1].text += content

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code)
        raise PenstockError(f"{path}:{error.lineno}: this is not XML: {why}") from error
    except (ValueError, LookupError) as error:
        raise PenstockError(f"{path}: this is not XML in a known encoding: {_plain(str(error))}") from error
    return root.children[0]


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:300]
