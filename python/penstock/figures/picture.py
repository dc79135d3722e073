"""A figure with title and caption, and how it is written to files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from penstock.errors import naming


@dataclass(frozen=True)
class Picture:
    """A drawn figure."""

    name: str
    """The file name without extension."""
    title: str
    caption: str
    """How to read the figure."""
    figure: Figure

    def save(self, folder: Path) -> Saved:
        """Write SVG and PNG files; the same data gives the same bytes."""
        # Compute the layout once for both files.
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
    """The files, the title and the caption of a written figure."""

    name: str
    title: str
    caption: str
    svg: Path
    png: Path
