"""The sawtooth of CUBIC's congestion window: how much a loss cuts the window, and how the window grows again.

An epoch is the time between two cuts. The floor is the smallest window of the epoch. From the floor, the window follows
W(t) = C(t - K)^3 + origin with K = cbrt((origin - floor)/C). The origin is the window before the cut. If that window is
smaller than before the previous cut, the origin is 0.85 of it (fast convergence). An epoch is complete if the window
grows beyond the origin before the next cut. An incomplete epoch shows only a part of the curve.

Source: Ha, Rhee, Xu 2008, sections 3.1 and 3.7; RFC 9438, sections 4.2 and 4.7.
Deviation: the module ignores the Reno-friendly region (RFC 9438, section 4.3). It therefore needs windows that are
large for their round-trip time, as in `kist/cubic-sawtooth`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

C, BETA = 0.4, 0.7
"""CUBIC's constants C [segment/s³] and beta [1]."""
CUT = 0.9
"""A cut sets the slow start threshold below this share of the window; HyStart sets the threshold to the window."""


@dataclass(frozen=True)
class Epoch:
    """The samples between two cuts, or between the last cut and the end of the flow."""

    times: NDArray[np.float64]
    """The times of the samples [s]."""
    windows: NDArray[np.float64]
    """The window at each sample [segment]."""
    before: float
    """The window before the cut [segment]."""
    origin: float
    """The window at which the curve is flat [segment]."""
    ended: float
    """The time of the next cut; NaN if the flow ended before [s]."""

    def kept(self) -> float:
        """The floor as a share of the window before the cut; NaN if the flow ended in this epoch."""
        return self._floor / self.before if np.isfinite(self.ended) else float("nan")

    def length(self) -> float:
        """The duration of a complete epoch, divided by the duration that the formula predicts; otherwise NaN."""
        if not self._is_complete:
            return float("nan")
        rise = np.cbrt((self.origin - self._floor) / C) + np.cbrt((self.windows[-1] - self.origin) / C)
        return float((self.ended - self.times[0]) / rise)

    def concave(self) -> float:
        """The share of the growth to the origin in the first half of its time: 7/8 for CUBIC, 1/2 for linear growth."""
        return self._half_way(self._begun, self._regained, self._floor) if self._is_complete else float("nan")

    def convex(self) -> float:
        """The share of growth above the origin in the second half of its time: 7/8 for CUBIC, 1/2 for linear growth."""
        return 1 - self._half_way(self._regained, self.times[-1], self.origin) if self._is_complete else float("nan")

    @property
    def _floor(self) -> float:
        return float(self.windows.min())

    @property
    def _is_complete(self) -> bool:
        return bool(np.isfinite(self.ended) and self._floor < self.origin < self.windows[-1])

    @property
    def _regained(self) -> float:
        """The time at which the window first reached its origin again [s]."""
        return float(self.times[np.argmax((self.windows >= self.origin) & (self.times > self._begun))])

    @property
    def _begun(self) -> float:
        """The time at which the window is at its floor, after the round trip of recovery from the cut [s]."""
        return float(self.times[self.windows.argmin()])

    def _half_way(self, begin: float, end: float, bottom: float) -> float:
        """The growth above `bottom` in the first half of the time, as a share of the growth until `end`."""
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
    """The first sample after each cut. A cut sets a new threshold, or returns a larger window to the old one."""
    new = threshold[1:] != threshold[:-1]
    falls = (window[1:] < window[:-1]) & (window[1:] >= CUT * threshold[1:])
    cuts: list[int] = []
    for i in np.flatnonzero((new | falls) & (threshold[1:] < CUT * window[:-1])) + 1:
        if new[i - 1] or (cuts and window[i - 1] > window[cuts[-1] : i].min()):
            cuts.append(int(i))
    return cuts
