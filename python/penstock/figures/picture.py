"""A figure with the words that go with it, and how it becomes files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from penstock.errors import naming


@dataclass(frozen=True)
class Picture:
    """A figure, drawn but not yet a file."""

    name: str
    """The files' name without its end."""
    title: str
    caption: str
    """What to see."""
    figure: Figure

    def save(self, folder: Path) -> Saved:
        """Write it as SVG and PNG, the same bytes for the same data: no dates, no random ids."""
        # Where things stand is worked out once; drawing twice would do it twice.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")
        svg, png = folder / f"{self.name}.svg", folder / f"{self.name}.png"
        with naming(svg):
            self.figure.savefig(svg, metadata={"Date": None, "Creator": None})
        with naming(png):
            self.figure.savefig(png, dpi=160, metadata={"Software": None})
        return Saved(self.name, self.title, self.caption, svg, png)


@dataclass(frozen=True)
class Saved:
    """A picture's files and words."""

    name: str
    title: str
    caption: str
    svg: Path
    png: Path
