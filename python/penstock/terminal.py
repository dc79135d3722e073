"""Makes text of files and scenarios safe for a terminal."""

import unicodedata
from typing import Any


def printable(text: str) -> str:
    """`text` with a replacement for each control or format character, except line breaks and tabs.

    A title could otherwise send escape sequences to the terminal, or change the direction of other text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or unicodedata.category(letter)[0] != "C" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def printable_strings(value: Any) -> Any:
    """A JSON value with `printable` strings, also in keys."""
    match value:
        case str():
            return printable(value)
        case list():
            return [printable_strings(each) for each in value]
        case dict():
            return {printable(key): printable_strings(each) for key, each in value.items()}
    return value
