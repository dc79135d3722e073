"""The figures of an output directory. A figure is drawn only if its data exists."""

import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from penstock.errors import naming
from penstock.figures import (
    attacks,
    downloads,
    families,
    grid,
    life_cycle,
    loads,
    queues,
    stations,
    step,
    sweep,
    waits,
)
from penstock.figures.picture import Picture
from penstock.figures.style import RC
from penstock.paper import curves
from penstock.result import Result

if TYPE_CHECKING:
    from penstock.paper.printed import Point

__all__ = ["Picture", "draw", "draw_into"]


def _draw_leaks(result: Result) -> Picture | None:
    from penstock.figures import leaks  # a slow import

    return leaks.draw(result)


FIGURES: tuple[Callable[[Result], Picture | None], ...] = (
    downloads.draw,
    sweep.draw,
    families.draw,
    loads.draw,
    queues.draw_length,
    queues.draw_delays,
    stations.draw,
    waits.draw,
    life_cycle.draw,
    attacks.draw_probe,
    attacks.draw_wave,
    step.draw,
)
"""All figures, in the order of the report. Sweeps and studies of attacks have others."""

OF_ATTACKS = (downloads.draw, _draw_leaks)
"""The figures of a study of attacks. It can have more traced cells than fit into memory, so others are left out."""


def draw(result: Result, points: "Sequence[Point]" = ()) -> list[Picture]:
    """Draw all figures with data into the folder `figures`, replacing old ones.

    Figures of a paper come first: those whose curves ship, and those with `points` that its text states.
    """
    makers: list[Callable[[], Picture | None]] = []
    if drawn := curves.of(result):
        from penstock.figures import of_paper  # a slow import

        makers += of_paper.makers(result, drawn)
    if points:
        from penstock.figures import printed

        makers += printed.makers(result, points)
    if "sweep" in result.manifest:
        chosen: tuple[Callable[[Result], Picture | None], ...] = (grid.draw,)
    else:
        chosen = OF_ATTACKS if "attacks" in result.manifest else FIGURES
    makers += [partial(make, result) for make in chosen]
    return draw_into(result.directory / "figures", makers)


def draw_into(folder: Path, makers: Iterable[Callable[[], Picture | None]]) -> list[Picture]:
    """Remove all files of a folder, and draw the figures of these functions into it."""
    with naming(folder, "make"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    style: Any = {**mpl.rcParamsDefault, **RC, "backend": "agg"}
    with mpl.rc_context(style), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        pictures = [picture for picture in [make() for make in makers] if picture]
        for picture in pictures:
            picture.save(folder)
    return pictures
