"""A figure with title and caption, which can be saved as files."""

from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from penstock.errors import naming


@dataclass
class Picture:
    """A drawn figure."""

    name: str
    """The file name without extension."""
    title: str
    caption: str
    """The caption, which explains the figure."""
    figure: Figure
    svg: Path = Path()
    """The written files."""
    png: Path = Path()

    def save(self, folder: Path) -> None:
        """Write SVG and PNG files; the same data gives the same bytes."""
        self.svg, self.png = folder / f"{self.name}.svg", folder / f"{self.name}.png"
        # Compute the layout once for both files.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")
        with naming(self.svg):
            self.figure.savefig(self.svg, metadata={"Date": None, "Creator": None})
        with naming(self.png):
            self.figure.savefig(self.png, dpi=160, metadata={"Software": None})
        self.figure.clear()
