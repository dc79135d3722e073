"""Finds the line of a value whose parser reports no line."""

import json
import re
from collections.abc import Iterator, Sequence


def of_keys(text: str, keys: Sequence[str]) -> int:
    """The line of the innermost of nested keys in JSON.

    If it does not exist, the line of the innermost existing key.
    """
    at = 0
    for key in keys:
        # A key may be written with other escapes; then its parent's line is used.
        found = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(text, at)
        if not found:
            break
        at = found.start()
    return text.count("\n", 0, at) + 1


def of_block(text: str, kind: str, place: int) -> int | None:
    """The first line of the block number `place` of a kind, `node` or `edge`, in GML."""
    return next((line for number, (line, _) in enumerate(_blocks(text, kind)) if number == place), None)


def of_fact(text: str, kind: str, has: dict[str, str], key: str | None = None, *, again: bool = False) -> int | None:
    """The line of `key` in the first block with these values; without the key, the first line of the block.

    With `again`, the second block with these values counts.
    """
    for line, block in _blocks(text, kind):
        if all(re.search(rf"\b{name}\s+{re.escape(value)}(?!\S)", block) for name, value in has.items()):
            if again:
                again = False
                continue
            found = re.search(rf"\b{key}\s", block) if key else None
            return line + (block.count("\n", 0, found.start()) if found else 0)
    return None


def _blocks(text: str, kind: str) -> Iterator[tuple[int, str]]:
    """The first line and the text of each block; strings are replaced by blanks."""
    plain = re.sub(r'"[^"]*"', lambda string: re.sub(r"[^\n]", " ", string[0]), text)
    begins = list(re.finditer(r"\b(node|edge)\s*\[", plain))
    ends = [found.start() for found in begins[1:]] + [len(plain)]
    line, before = 1, 0
    for begin, end in zip(begins, ends, strict=True):
        line += plain.count("\n", before, begin.start())
        before = begin.start()
        if begin[1] == kind:
            yield line, plain[begin.start() : end]
