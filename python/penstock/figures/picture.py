"""A figure with title and caption, which can be saved as files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
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
    alt: str = ""
    """The result that the figure shows, for readers who do not see it."""
    svg: Path = Path()
    """The written files."""
    png: Path = Path()

    def _repr_svg_(self) -> str:
        """The written figure, for notebooks."""
        return self.svg.read_text(encoding="utf-8")

    def save(self, folder: Path) -> None:
        """Write SVG and PNG files; the same data gives the same bytes."""
        self.svg, self.png = folder / f"{self.name}.svg", folder / f"{self.name}.png"
        # Compute the layout once for both files. A canvas draws once, and `savefig` draws twice for each file.
        if engine := self.figure.get_layout_engine():
            engine.execute(self.figure)
        self.figure.set_layout_engine("none")
        with naming(self.svg):
            svg: Any = FigureCanvasSVG(self.figure)
            svg.print_svg(self.svg, metadata={"Date": None, "Creator": None})
            # Text stays text, so that a reader can search it. Not every machine has matplotlib's font.
            text = self.svg.read_text(encoding="utf-8").replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
            self.svg.write_text(text, encoding="utf-8")
        self.figure.set_dpi(160)
        with naming(self.png):
            png: Any = FigureCanvasAgg(self.figure)
            png.print_png(self.png, metadata={"Software": None})
        # The memory of the drawing is free now; `clear` would make new axes first.
        self.figure = Figure()
