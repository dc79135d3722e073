"""What each attack learns about its victims: figures 4(b), 4(c) of the throttling paper, and 10, 11 of KIST."""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from penstock.attacks import study
from penstock.attacks.information import NO, YES
from penstock.attacks.model import Attack
from penstock.figures import words
from penstock.figures.downloads import Panel, curve_of, draw_panels, how_drawn
from penstock.figures.picture import Picture
from penstock.figures.style import CurveStyle, curve_styles
from penstock.result import Result


class View(NamedTuple):
    """A distribution over victims: the title of its panel, its x axis, and its values."""

    title: str
    x_label: str
    value: pl.Expr


ENTROPY = View("entropy lost", "entropy lost [bit]", pl.col("entropy_lost"))
REMAINING = View("remaining", "remaining candidates [%]", 100 * (pl.col("remaining") - 1) / (pl.col("candidates") - 1))
ERROR = View("error of the estimate", "error of the latency [ms]", 1000 * pl.col("error_s"))
PINGS = View("time to the best estimate", "pings until the best estimate", pl.col("pings"))
CORRELATION = View("correlation with the guard", "correlation", pl.col("score").clip(-1.0, 1.0))
MISFIT = View("misfit of the guard", "-ln of the likelihood", -pl.col("score"))
_SCORE = pl.col("score").clip(0.0, 12.0)
USERS = View("victims that use the relay", "-log10 p", pl.when(pl.col("truth") == YES).then(_SCORE))
OTHERS = View("other victims", "-log10 p", pl.when(pl.col("truth") == NO).then(_SCORE))
SAME = View("circuits of one client", "-ln of the rate", pl.when(pl.col("truth") == YES).then(pl.col("score")))
DIFFERENT = View("circuits of two clients", "-ln of the rate", pl.when(pl.col("truth") == NO).then(pl.col("score")))
USED = View("victims of the guard", "ln of the rate", pl.when(pl.col("truth") == YES).then(pl.col("score")))
UNUSED = View("victims of other guards", "ln of the rate", pl.when(pl.col("truth") == NO).then(pl.col("score")))

VIEWS: Mapping[str, tuple[View, ...]] = {
    "correlation": (CORRELATION, REMAINING),
    "rate": (ENTROPY, REMAINING),
    "latency": (ERROR, PINGS, REMAINING),
    "wave": (USERS, OTHERS),
    "linked": (SAME, DIFFERENT),
    "ends": (CORRELATION, REMAINING),
    "speed": (USED, UNUSED),
    "flag-time": (MISFIT, REMAINING),
}
"""The panels of an attack, by its estimator."""


def draw(result: Result) -> Picture | None:
    """A row of panels for each attack of an output that has attacks."""
    found = study.of(result)
    styles = curve_styles(result.variants)
    rows = [_row(result, attack, found.victims.filter(attack=attack.name), styles) for attack in found.attacks]
    rows = [row for row in rows if row]
    if not rows:
        return None
    columns = max(map(len, rows))
    # A grid needs rows of the same length; the last panel of a short row is repeated and then removed.
    padded = [row + [row[-1]] * (columns - len(row)) for row in rows]
    figure = draw_panels(padded, (3.6, 2.9), [style.label for style in styles.values()], end=1.0, of="victims")
    for k, axes in enumerate(list(figure.axes)):
        if k % columns >= len(rows[k // columns]):
            axes.remove()
        elif padded[k // columns][k % columns].x_label == CORRELATION.x_label:
            axes.set_xlim(-0.5, 1.0)
    caption = (
        "Each row shows an attack, and each curve the fraction of victims with at most the value on the x axis. The "
        "entropy lost has only victims whose true candidate remains. Remaining candidates are the wrong "
        f"candidates that fit at least as well as the true one. {how_drawn(result.replicates)}"
    )
    return Picture("leaks", "What an adversary learns", caption, figure, _alt(found))


def _alt(found: study.Study) -> str:
    """The gain of each attack and variant [bit], as sentences."""
    return " ".join(
        f"Gain of {attack.name} [bit]: {words.listed(gains)}."
        for attack in found.attacks
        if (
            gains := {
                row["label"]: f"{row['gain']:.2f}"
                for row in found.leaks.filter(attack=attack.name).iter_rows(named=True)
                if row["victims"]
            }
        )
    )


def _row(result: Result, attack: Attack, rows: pl.DataFrame, styles: Mapping[str, CurveStyle]) -> list[Panel]:
    if rows.is_empty():
        return []
    return [
        Panel(
            f"{attack.name}: {view.title}",
            view.x_label,
            {
                style: curve_of(
                    result.replicates.samples(
                        rows.filter(variant=name).select("network", "seed", value=view.value), "value"
                    )
                )
                for name, style in styles.items()
            },
        )
        for view in VIEWS[attack.estimator.kind]
    ]
