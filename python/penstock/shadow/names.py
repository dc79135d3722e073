"""Names of hosts in the files of other tools."""

import re


class Names:
    """Names of small letters, digits and hyphens, each name once."""

    def __init__(self) -> None:
        """Start without names."""
        self.taken: set[str] = set()

    def take(self, name: str) -> str:
        """A new name that resembles `name`."""
        stem = re.sub(r"[^a-z0-9-]", "-", name.lower()).strip("-")[:50] or "host"
        found, number = stem, 1
        while found in self.taken:
            number += 1
            found = f"{stem}-{number}"
        self.taken.add(found)
        return found
