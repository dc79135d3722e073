"""The style of all figures: each variant has one colour and one line style in all figures.

The colours are Okabe and Ito's. Readers with any kind of colour vision can distinguish them. Line styles distinguish
the curves in grey print.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle, pairwise
from string import ascii_lowercase
from typing import Any, NamedTuple

from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from penstock.figures.ordered import find
from penstock.stations import STATIONS as STATION_NAMES
from penstock.summary import METRICS, Metric

WIDE = 20.0
"""The ratio of the largest to the smallest value from which an axis is logarithmic."""

RC: dict[str, Any] = {
    "svg.hashsalt": "penstock",
    "svg.fonttype": "none",
    "text.parse_math": False,  # labels of the user may contain dollar signs
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 7.0,
    "axes.labelsize": 9.5,
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#999999",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "xtick.color": "#777777",
    "ytick.color": "#777777",
    "xtick.labelcolor": "#333333",
    "ytick.labelcolor": "#333333",
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "agg.path.chunksize": 0,
}

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")

COOL = ("#0072B2", "#009E73", "#56B4E9")
"""The colours that resemble those of the sequential palette."""

LINES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.4, 1.2)), (0, (5, 1.4, 1.2, 1.4)), (0, (8, 2)))

MARKERS = ("", "o", "s", "^", "D", "v", "P")

STATIONS = dict(
    zip(
        STATION_NAMES,
        zip(STATION_NAMES.values(), ("#9ecae1", "#08519c", "#fdae6b", "#a63603"), strict=True),
        strict=True,
    )
)
"""The stations of a cell in order: columns of `cells`, names and colours."""


class CurveStyle(NamedTuple):
    """The style of a variant."""

    label: str
    colour: str
    line: Any
    marker: str = ""
    """A marker for variants whose colour another variant has, too."""


def curve_styles(variants: Mapping[str, str]) -> dict[str, CurveStyle]:
    """The style of each variant, by its position in the scenario.

    Variants that differ in one quantity have the colours of a sequential palette, from dark to bright.
    """
    sweep = find(variants)
    ordered = dict(zip(sweep.values, sequence(len(sweep.values)), strict=True)) if sweep else {}
    # Beside the sequential palette, other variants have warm colours.
    others = (category_style(i) for i in count() if not sweep or COLOURS[i % len(COLOURS)] not in COOL)
    return {
        name: CurveStyle(label, ordered[name], "-") if name in ordered else CurveStyle(label, *next(others))
        for name, label in variants.items()
    }


def category_style(place: int) -> tuple[str, Any, str]:
    """Colour, line and marker of the category at a place; only the first categories need no marker."""
    return COLOURS[place % len(COLOURS)], LINES[place % len(LINES)], MARKERS[place // len(COLOURS) % len(MARKERS)]


def sequence(length: int) -> list[str]:
    """Colours of a sequential palette, which differ in brightness, too."""
    return [to_hex(colormaps["viridis"](0.85 * place / max(length - 1, 1))) for place in range(length)]


def grid_of(rows: int, columns: int, width: float, height: float, **kwargs: Any) -> tuple[Figure, list[list[Axes]]]:
    """A figure of rows x columns panels, each `width` x `height` [inch]."""
    figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    return figure, [[axes[row][column] for column in range(columns)] for row in range(rows)]


def letters() -> Iterator[str]:
    """The letters of panels, in order."""
    return cycle(ascii_lowercase)


def time_panels(workloads: Sequence[str], x_label: str) -> tuple[Figure, list[tuple[Axes, str, Metric]]]:
    """A row of panels with titles for each workload, and a column for each time."""
    figure, panels = grid_of(len(workloads), len(METRICS), 3.9, 2.75, sharex=True)
    places = [(workload, metric) for workload in workloads for metric in METRICS]
    for letter, axes, (workload, metric) in zip(letters(), figure.axes, places, strict=False):
        axes.set_title(f"({letter}) {workload}: {metric.title}")
    for row in panels:
        row[0].set_ylabel("time [s]")
    for axes in panels[-1]:
        axes.set_xlabel(x_label)
    return figure, [(axes, *place) for axes, place in zip(figure.axes, places, strict=True)]


def mark_values(axes: Axes, x: Sequence[float], labels: Sequence[str]) -> None:
    """Place a tick of the axis at each of the values."""
    axes.set_xticks(x, labels)
    axes.minorticks_off()


def legend_above(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """One legend for all panels, above them."""
    columns = _columns_that_fit(labels, figure.get_size_inches()[0])
    legend = figure.legend(handles, [" "] * len(labels), loc="outside upper left", ncols=columns, handlelength=2.6)
    # matplotlib leaves out labels that begin with an underscore, so labels are set afterwards.
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_text(label)


def _columns_that_fit(labels: Sequence[str], width: float) -> int:
    for columns in range(min(len(labels), 4), 1, -1):
        # The first columns are longer if the labels do not divide evenly.
        rows, over = divmod(len(labels), columns)
        starts = [column * rows + min(column, over) for column in range(columns + 1)]
        longest = [max(map(len, labels[start:end])) for start, end in pairwise(starts)]
        if sum(0.085 * letters + 0.8 for letters in longest) <= width:
            return columns
    return 1
