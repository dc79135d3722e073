"""An inset: a part of a panel's distribution functions, drawn again with a logarithmic x axis."""

from collections.abc import Callable, Iterable
from math import isfinite

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from penstock import stats
from penstock.paper.curves import Curve
from penstock.paper.insets import Inset

LEFT, BOTTOM, WIDTH, HEIGHT = 0.46, 0.13, 0.51, 0.45
"""The place of an inset: fractions of its panel's axes."""

LABELS = 0.1
"""The space for the labels at the left of an inset: a fraction of its panel's x axis."""

CLEAR = BOTTOM + HEIGHT + 0.07
"""The share that every curve must have reached there: above the inset, with space for half a label."""

SIZE = 6.5
"""The size of an inset's labels [pt]."""


def edge(inset: Inset, ours: Iterable[stats.Curve], papers: Iterable[Curve]) -> float:
    """The right end of the panel's x axis: the paper's, or a larger one with which the inset covers no curve.

    A distribution function never falls. So a curve that is above the inset at its left end stays above it.
    """
    of_us = [float(curve.x[curve.y >= CLEAR][0]) for curve in ours if curve.x.size]
    reached = [value for value in (*of_us, *(curve.quantile(CLEAR) for curve in papers)) if isfinite(value)]
    return max(inset.edge, max(reached, default=0.0) / (LEFT - LABELS))


def draw(axes: Axes, inset: Inset, draw_curves: Callable[[Axes], object]) -> Axes:
    """Draw an inset at the right of a panel, below its curves. `draw_curves` draws the panel's curves into axes."""
    inner = axes.inset_axes((LEFT, BOTTOM, WIDTH, HEIGHT))
    draw_curves(inner)
    inner.set_xscale("log")
    inner.set_xlim(inset.least, inset.most)
    inner.set_ylim(inset.share, 1.0)
    ticks = doublings(inset.least, inset.most)
    inner.set_xticks(ticks, [f"{value:g}" for value in ticks])
    inner.xaxis.set_minor_locator(NullLocator())
    inner.tick_params(labelsize=SIZE, length=2, pad=1.5)
    inner.set_facecolor("#f6f6f6")
    inner.spines[:].set_visible(True)
    return inner


def doublings(least: float, most: float) -> list[float]:
    """The values from `least` to `most`, each twice the one before."""
    found = [least]
    while 2 * found[-1] <= most * (1 + 1e-9):
        found.append(2 * found[-1])
    return found
