"""The sawtooth of a congestion window: what a loss takes from it, and along which curve it comes back.

An epoch lies between two cuts. It starts from its floor, its smallest window, and follows
W(t) = C(t - K)^3 + origin with K = cbrt((origin - floor)/C). The origin is the window that was cut, or 0.85 of it if it
was smaller than the last origin (fast convergence). An epoch is whole if it grew beyond its origin before the next
cut; one that did not says nothing of the curve but a part.

Source: Ha, Rhee, Xu 2008, sections 3.1 and 3.7; RFC 9438, sections 4.2 and 4.7.
Deviation: the region in which CUBIC grows as Reno would (RFC 9438, section 4.3) has no part here, so windows must be
large for their round trip, as in `kist/cubic-sawtooth`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

C, BETA = 0.4, 0.7
"""CUBIC's constants [segment/s³] and [1]."""
CUT = 0.9
"""A slow start threshold that is set to less than this part of the window is a cut; HyStart sets it to the window."""


@dataclass(frozen=True)
class Epoch:
    """The samples between two cuts, which end with the flow if there is no next one."""

    times: NDArray[np.float64]
    """From the first sample after the cut to the last before the next, or to the end [s]."""
    windows: NDArray[np.float64]
    """[segment]"""
    before: float
    """The window that was cut [segment]."""
    origin: float
    """Where the curve is flat [segment]."""
    ended: float
    """When the next cut was seen; NaN if the flow ended before [s]."""

    def kept(self) -> float:
        """Which part of the window was left; NaN if the flow ended in it, since what follows an end is no loss."""
        return self._floor / self.before if np.isfinite(self.ended) else float("nan")

    def length(self) -> float:
        """How long a whole epoch took, over the time of the closed form to its last window; else NaN."""
        if not self._is_whole:
            return float("nan")
        rise = np.cbrt((self.origin - self._floor) / C) + np.cbrt((self.windows[-1] - self.origin) / C)
        return float((self.ended - self.times[0]) / rise)

    def concave(self) -> float:
        """Which part of the way up to the origin half of the time took: 7/8 on the curve, 1/2 on a line."""
        return self._half_way(self._begun, self._regained, self._floor) if self._is_whole else float("nan")

    def convex(self) -> float:
        """Which part of the way beyond it the second half of the time took: 7/8 on the curve, 1/2 on a line."""
        return 1 - self._half_way(self._regained, self.times[-1], self.origin) if self._is_whole else float("nan")

    @property
    def _floor(self) -> float:
        return float(self.windows.min())

    @property
    def _is_whole(self) -> bool:
        return bool(np.isfinite(self.ended) and self._floor < self.origin < self.windows[-1])

    @property
    def _regained(self) -> float:
        """When the window was first back at its origin [s]."""
        return float(self.times[np.argmax((self.windows >= self.origin) & (self.times > self._begun))])

    @property
    def _begun(self) -> float:
        """When it was first at its floor: a recovery takes a round trip to get there [s]."""
        return float(self.times[self.windows.argmin()])

    def _half_way(self, begin: float, end: float, bottom: float) -> float:
        """Which part of its rise above `bottom` the window had made when half of the time was over."""
        half, top = np.interp([(begin + end) / 2, end], self.times, self.windows)
        return float((half - bottom) / (top - bottom))


def epochs(rows: pl.DataFrame) -> Iterator[Epoch]:
    """The epochs of one flow, from its rows of `circuits.parquet`."""
    samples = rows.sort("t_s").select("t_s", "cwnd_segments", "ssthresh_segments").cast(pl.Float64)
    t, window, threshold = (column.to_numpy() for column in samples.fill_null(np.inf))
    last = 0.0
    for begin, end in pairwise([*_cuts(window, threshold), len(t)]):
        before = float(window[begin - 1])
        origin = before * (1 + BETA) / 2 if before < last else before
        last = origin
        yield Epoch(t[begin:end], window[begin:end], before, origin, float(t[end]) if end < len(t) else float("nan"))


def _cuts(window: NDArray[np.float64], threshold: NDArray[np.float64]) -> list[int]:
    """The first sample after each cut: a new threshold, or a fall towards the old one after the window had grown."""
    new = threshold[1:] != threshold[:-1]
    falls = (window[1:] < window[:-1]) & (window[1:] >= CUT * threshold[1:])
    cuts: list[int] = []
    for i in np.flatnonzero((new | falls) & (threshold[1:] < CUT * window[:-1])) + 1:
        if new[i - 1] or (cuts and window[i - 1] > window[cuts[-1] : i].min()):
            cuts.append(int(i))
    return cuts
