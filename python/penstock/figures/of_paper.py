"""Figures of a paper beside ours: its curves, and those of the same variants and measures in an output directory."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from penstock import stats
from penstock.figures import inset
from penstock.figures.downloads import curve_of, draw_distributions, how_drawn
from penstock.figures.picture import Picture
from penstock.figures.style import COLOURS, CurveStyle, curve_styles, grid_of, legend_above
from penstock.paper import insets, quantiles
from penstock.paper.curves import Curve, Panel
from penstock.paper.insets import Inset
from penstock.paper.measures import MEASURES
from penstock.paper.quantiles import Samples
from penstock.paper.totals import EVERY
from penstock.result import Result

LOGARITHMIC = 300.0
"""The ratio of a curve's largest to its smallest value from which the x axis of a panel is logarithmic."""

LINEAR = {"attack_score", "attack_remaining_share", "attack_entropy_lost"}
"""Measures that can be zero or negative. A logarithmic axis would not show these values."""

COLUMNS = 3
"""The most panels in a row."""

WIDTHS = {1: 6.5, 2: 3.9, 3: 3.3}
"""The width of a panel [inch] in a row of so many."""

PAPER = "the paper"
"""The label of the paper's dashed curves."""

SOURCES = {"slide-": "Slide {}", "report-": "Report, figure {}"}
"""The words for a number that begins like this. Other numbers are of the paper's figures."""

TITLES = {
    "ttfb_s": "time to first byte",
    "ttlb_s": "download time",
    "download_rate": "throughput of a download",
    "kernel_in_s": "wait in the incoming kernel",
    "kernel_out_s": "wait in the outgoing kernel",
    "tor_s": "wait in Tor",
    "circuit_wait_s": "wait on the circuit",
    "circuit_queue_s": "wait in the circuit's queue",
    "written_per_client": "written by relays, for each client",
    "queue_cells": "circuit's queue",
    "attack_error_s": "error of the estimated latency",
    "attack_pings": "pings until the best estimate",
    "attack_score": "correlation of the victims' guards",
    "attack_remaining_share": "share of guards that remain",
    "attack_entropy_lost": "entropy that the client lost",
}
"""The titles of measures. A measure without a title is shown by its name."""


def makers(result: Result, curves: Sequence[Curve]) -> list[Callable[[], Picture | None]]:
    """A function for each figure of the paper with curves; each draws one picture."""
    figures = groupby(curves, lambda curve: curve.number)
    return [partial(draw, result, number, list(group)) for number, group in figures]


def draw(result: Result, number: str, curves: Sequence[Curve]) -> Picture | None:
    """A panel for each panel of the figure: our curves, and the paper's dashed; None without values of ours."""
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    samples = {(curve.panel, curve.variant): quantiles.samples(result, curve) for curve in curves}
    if not any(samples.values()):
        return None
    drawn_in = {panel: [curve for curve in curves if curve.panel == panel] for panel in panels}
    variants = {
        panel: tuple(name for name in result.variants if any(curve.variant == name for curve in drawn))
        for panel, drawn in drawn_in.items()
    }
    shown_in = insets.of(result)
    # Panels of other variants have a legend of their own, because there are too few colours for all. A panel without an
    # inset has it, if there is one, because both are at the lower right.
    in_order = sorted(panels, key=lambda panel: panel.figure in shown_in)
    first_of = {variants[panel]: panel for panel in reversed(in_order)}
    has_groups = len(first_of) > 1 and len(result.variants) > len(COLOURS)
    down = math.ceil(len(panels) / COLUMNS)
    columns = math.ceil(len(panels) / down)
    figure, rows = grid_of(down, columns, WIDTHS[columns], 2.8 if columns > 1 else 3.6)
    for axes in figure.axes[len(panels) :]:
        axes.set_visible(False)
    handles: dict[str, Artist] = {}
    for axes, panel in zip(figure.axes, panels, strict=False):
        shown = {name: result.variants[name] for name in variants[panel]} if has_groups else result.variants
        styles = {variant: style._replace(line="-", marker="") for variant, style in curve_styles(shown).items()}
        ours = {curve: curve_of(samples[panel, curve.variant]) for curve in drawn_in[panel]}
        lines = _draw_panel(axes, panel, ours, styles, shown_in.get(panel.figure))
        if not has_groups:
            handles |= lines
        elif panel == first_of[variants[panel]]:
            loc: Literal["upper left", "lower right"] = "upper left" if panel.figure in shown_in else "lower right"
            axes.legend(list(lines.values()), list(lines), fontsize=5.5, loc=loc)
    for first, *_ in rows:
        first.set_ylabel("cumulative fraction")
    if has_groups:
        handles = {"Penstock": Line2D([], [], color="gray")}
    handles[PAPER] = Line2D([], [], color="gray", linestyle="--")
    legend_above(figure, list(handles.values()), list(handles))
    caption = (
        f"{named(number)}. Dashed curves are the paper's, read from its public PDF. Other curves are Penstock's. "
        f"{how_drawn(result.replicates)}{_of_insets(panels, shown_in)}"
    )
    return Picture(
        f"paper-{number}", f"{named(number)}, the paper's and ours", caption, figure, _medians(result, samples, curves)
    )


def named(figure: str) -> str:
    """The figure's number with the words for its source, such as "Slide 14" or "Figure 7a"."""
    return next(
        (words.format(figure.removeprefix(start)) for start, words in SOURCES.items() if figure.startswith(start)),
        f"Figure {figure}",
    )


def _draw_panel(
    axes: Axes,
    panel: Panel,
    ours: Mapping[Curve, stats.Curve],
    styles: Mapping[str, CurveStyle],
    within: Inset | None,
) -> dict[str, Artist]:
    """Draw our curves and the paper's into one panel, and again into its inset. Returns our lines by their labels."""

    def draw_curves(into: Axes) -> dict[str, Artist]:
        return _draw_curves(into, ours, styles)

    lines = draw_curves(axes)
    axes.set_title(f"{named(panel.figure).removeprefix('Figure ')}: {_title(panel)}")
    axes.set_xlabel(f"[{unit}]" if (unit := MEASURES[panel.measure].unit) else "")
    if within:
        axes.set_xlim(0, inset.edge(within, ours.values(), ours))
        inset.draw(axes, within, draw_curves)
    else:
        linear = panel.measure in LINEAR
        ends = (0.01, 1.0) if linear else (0.01,)
        of_us = [float(curve.x[curve.y >= end][0]) for curve in ours.values() if curve.x.size for end in ends]
        _set_scale(axes, [value for curve in ours for value in curve.values] + of_us, linear)
    return lines


def _draw_curves(axes: Axes, ours: Mapping[Curve, stats.Curve], styles: Mapping[str, CurveStyle]) -> dict[str, Artist]:
    """Draw our curves, and the paper's dashed. Returns our lines by their labels."""
    by_style = {styles[curve.variant]: each for curve, each in ours.items()}
    handles = draw_distributions(axes, by_style)
    for curve in ours:
        colour = styles[curve.variant].colour
        axes.plot(curve.values, curve.shares, color=colour, linestyle=(0, (4, 2)), linewidth=1.2)
    return dict(zip((style.label for style in by_style), handles, strict=True))


def _of_insets(panels: Sequence[Panel], shown_in: Mapping[str, Inset]) -> str:
    """A sentence of the caption for each inset."""
    return "".join(
        f" The inset of {panel.figure} shows the same curves from {each.least:g} to {each.most:g} "
        f"{MEASURES[panel.measure].unit} and above the share {each.share:g}, with a logarithmic x axis."
        for panel in panels
        if (each := shown_in.get(panel.figure))
    )


def _set_scale(axes: Axes, values: Sequence[float], linear: bool) -> None:
    """Choose the x axis for these values: logarithmic if their range is large."""
    least, most = min((value for value in values if value > 0), default=1.0), max(values)
    if linear:
        axes.set_xlim(min(0, *values), 1.02 * most)
    elif most / least > LOGARITHMIC:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(-4, 10)]))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(least, most)
    else:
        axes.set_xlim(0 if least < most / 3 else 0.9 * least, 1.02 * most)


def _medians(result: Result, samples: Mapping[tuple[Panel, str], Samples], curves: Sequence[Curve]) -> str:
    """The medians of all curves, as the picture's alternative text."""
    said = []
    for curve in curves:
        [(paper, of_us)] = quantiles.pairs(curve, samples[curve.panel, curve.variant], [0.5])
        said.append(
            f"{curve.panel.figure}, {result.variants[curve.variant]}: paper {quantiles.shown(paper, curve)}, "
            f"ours {quantiles.shown(of_us, curve)}"
        )
    return f"Medians. {'; '.join(said)}."


def _title(panel: Panel) -> str:
    """The title of a panel: workload, measure and position."""
    who = "" if panel.workload == EVERY else f"{panel.workload}, "
    return (
        f"{who}{TITLES.get(panel.measure, panel.measure)}{f' ({panel.hop})' if panel.hop in quantiles.RELAYS else ''}"
    )
