"""When a guard begins to throttle a circuit, and the limit of its count that this reveals: the throttle `flagging`.

Flagging keeps a moving count of the cells that a guard sent to each client. It throttles a client whose count is above
the guard's fair count M. An observer of a circuit's throughput at the client knows its count. So the time at which the
guard flags the circuit tells the limit M.

The flag is visible only when the client has spent its burst. The observer first finds the change of the rate, and then
walks back: between the flag and the change, the client received one burst more than the refill.

Source: throttling section 5.2, attacks 1 and 2 ("this determination must be made after the fact to account for the
burst bucket of the target circuit, but it can still be made precisely"), and equation 1.

Deviation: the paper gives no method. Only the first flag of a circuit counts, and a guard's limit is constant. The
observer is at the client, and the paper's adversary has a server or an exit (section 5.1). `threshold` is refused. Its
rate is the lowest throughput of a guard's throttled clients, so it differs between guards and times.
"""

import tomllib
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from penstock.attacks.information import Floats
from penstock.attacks.model import UNITS
from penstock.attacks.probe import CELL, CELLS_OF_RECORD, PAYLOAD, RECORD
from penstock.errors import PenstockError

FULL, SINGLE = CELL + RECORD / CELLS_OF_RECORD, CELL + RECORD
"""The bytes on the wire of a cell in a full record of TLS, and of a cell with its own record [B]."""

QUANTUM = 16 << 10
"""The most bytes of one write, by which a bucket is full or empty too early [B]."""

STEADY = 20.0
"""The time for which a throttled circuit keeps the rate of its throttle [s].

At 20 KiB/s, one write of `QUANTUM` is then 4 % of the bytes, which is close to `NEAR`.
"""

SETTLED = 8.0
"""The time after a change in which the ratio of the throttle's rate and the throughput is measured [s].

The windows of this ratio have the length `STEADY`, and they begin at each border in this time. With less time, all of
them can have a part of the burst. With more, a flag that ends after 20 s removes them.
"""

FEWEST, NEAR = 0.8, 0.03
"""The smallest share of a cell's payload that a circuit uses, and the error of a rate over the time `STEADY` [1].

Packets of a server fill their last cell in part: those of 3984 B use all of 8 cells, and those of 1434 B use 96 % of 3.
Below 80 %, most cells would hold less than 400 B, and steady rates far below the throttle's would look like a flag.
"""

GRID = np.linspace(0.0, np.log(30_000), 400)
"""The logarithms of the limits that a guard can have [cell]."""

ERROR, OUTLIERS = 0.3, 0.05
"""The mean error of the logarithm of a limit, and the share of limits with any other value [1].

They were chosen with network 206. `benches/flag_times.py constants` gives the gain with other values.
"""

SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
"""The units of sizes in a resolved scenario [B]."""


class Throttle(NamedTuple):
    """The parameters of flagging that are the same at all guards, and public."""

    rate: float
    """The rate of a throttled client [B/s]."""
    burst: float
    """The depth of a client's bucket [B]."""
    half_life: float
    """The half-life of counts [s]."""
    refill: float
    """The time between two refills, at which a guard compares counts with its limit [s]."""

    @property
    def slack(self) -> float:
        """How exactly an observer knows the content of a bucket [B]: one write and one refill."""
        return QUANTUM + self.rate * self.refill


class Limit(NamedTuple):
    """The limit of a guard's counts, as far as one circuit shows it."""

    low: float
    """The largest count of the circuit with which it was not flagged [cell]."""
    high: float
    """The largest count with which it may have been flagged [cell]; infinite if it was not flagged."""
    flagged_s: float
    """The time of the flag [s]; infinite if it was not flagged."""


def throttle_of(resolved: str) -> Throttle | None:
    """The flagging of all relays of a resolved variant; None if it has no flags.

    Raises:
        PenstockError: if relays have different throttles, because a circuit does not show which of them it has; or if
            they have `threshold`, whose rate a circuit does not know.
    """
    scenario = tomllib.loads(resolved)
    relay = scenario["relay"]
    given, refill = relay["throttle"], _number(relay["refill"])
    if any(group.get("throttle", given) != given for group in scenario["relays"].values()):
        raise PenstockError(
            "the estimator 'flag-time' needs one throttle; set relay.throttle and no relays.NAME.throttle"
        )
    if given["kind"] == "threshold":
        raise PenstockError(
            "the estimator 'flag-time' refuses relay.throttle 'threshold', whose rate differs between guards and "
            "times; use 'flagging', or another estimator"
        )
    if given["kind"] != "flagging":
        return None
    return Throttle(_number(given["rate"]), _number(given["burst"]), _number(given["half_life"]), refill)


def _number(value: str) -> float:
    """A value of a resolved scenario in bytes, seconds or bytes per second."""
    number, unit = value.split()
    return float(number) * {**SIZES, **UNITS}[unit.removesuffix("/s")]


def counts(throughput: Floats, period: float, half_life: float) -> Floats:
    """The count of a client at the borders of intervals with this throughput of payload [B/s] in full cells; [cell].

    Source: throttling section 3.2; crates/core/src/throttle/average.rs.
    """
    kept = 2.0 ** (-period / half_life)
    found = np.zeros(len(throughput) + 1)
    for index, cells in enumerate(throughput / PAYLOAD):
        found[index + 1] = found[index] * kept + cells * (1 - kept) * half_life / np.log(2)
    return found


class Change(NamedTuple):
    """The visible change of a circuit's rate."""

    border: int
    """The border of intervals from which on the circuit has its throttle's rate."""
    used: float
    """The share of a cell's payload that the circuit uses [1]."""

    @property
    def wire(self) -> float:
        """The bytes on the wire for each byte of payload before the change, with one cell in each record [1]."""
        return SINGLE / PAYLOAD / self.used


def limit(throughput: Floats, period: float, throttle: Throttle) -> Limit:
    """The limit that a circuit shows which receives this throughput of payload [B/s] in intervals of `period` [s]."""
    change = change_of(throughput, period, throttle)
    # The bytes on the wire beyond the refill of a throttled client, at the borders of intervals.
    known = _beyond(throughput, period, throttle, change.wire if change else FULL / PAYLOAD)
    if change:
        known = known[: change.border + round(STEADY / period) + 1]
    # The tokens that the circuit used later, if its bucket was full at a border for the last time.
    used = np.maximum.accumulate(known[::-1])[::-1] - known
    # The refill with which a client is flagged has the rate of the throttle. So its bucket was full one refill before.
    refill = max(round(throttle.refill / period), 1)
    # A guard counts cells, full or not. Without a change, their fill is unknown, and the bound is that of full cells.
    sent = counts(throughput, period, throttle.half_life) / (change.used if change else 1.0)
    count, used = sent[refill : len(used)], used[: len(used) - refill]
    free = used > throttle.burst + throttle.slack
    low = _largest(count, free, refill)
    if not change:
        return Limit(low, np.inf, np.inf)
    flags = np.arange(min(change.border + 1, len(used)))
    first = int(flags[free[flags]].max(initial=-1)) + 1
    last = int(flags[used[flags] >= throttle.burst - throttle.slack].max(initial=first))
    high = float(count[first : last + 1].max())
    return Limit(min(low, high), high, (0.5 * (first + last) + refill) * period)


def change_of(throughput: Floats, period: float, throttle: Throttle) -> Change | None:
    """The first change of a throughput [B/s] to the rate of the throttle, after a burst was spent; None without one.

    The rate of the throttle counts bytes on the wire, and the throughput counts payload. After the change, the circuit
    has the rate of the throttle, so that the ratio of both tells how full its cells are. Then the guard has enough
    cells for full records of TLS. Before the change, records have between one cell and eight.
    """
    length = round(STEADY / period)
    if len(throughput) < length:
        return None
    arrived = np.concatenate([[0.0], np.cumsum(throughput * period)])
    windows = sliding_window_view(arrived, length + 1)
    rates = (windows[:, -1] - windows[:, 0]) / (length * period)
    uneven = np.ptp(windows - rates[:, None] * period * np.arange(length + 1), axis=1)
    with np.errstate(divide="ignore"):
        full = throttle.rate / rates * PAYLOAD / FULL  # of a cell's payload, the inverse of the used share
    possible = (full >= 1 - NEAR) & (full <= (1 + NEAR) / FEWEST) & (uneven <= throttle.slack)
    for border in np.flatnonzero(possible):
        # The window at the change itself can have a part of the time before.
        settled = full[border : border + round(SETTLED / period)]
        change = Change(int(border), 1 / max(float(np.median(settled)), 1.0))
        beyond = _beyond(throughput[:border], period, throttle, change.wire)
        if beyond[-1] - beyond.min() >= throttle.burst - throttle.slack:
            return change
    return None


def _beyond(throughput: Floats, period: float, throttle: Throttle, wire: float) -> Floats:
    """The bytes on the wire beyond the throttle's refill, from the start to each border of intervals [B]."""
    return np.concatenate([[0.0], np.cumsum((throughput * wire - throttle.rate) * period)])


def _largest(count: Floats, free: Any, checks: int) -> float:
    """The largest count that a check must have seen without a flag: the least one between two checks."""
    if len(count) <= checks:
        return 0.0
    least = sliding_window_view(count, checks + 1).min(axis=1)
    unflagged = sliding_window_view(free, checks + 1).all(axis=1)
    return float(least[unflagged].max(initial=0.0))


def score(victim: Limit, guard: Limit) -> float:
    """The logarithm of the likelihood of a victim's limit, if its guard's probe has shown the limit `guard`.

    The probe tells how likely each limit is. Before, the logarithm of a limit is uniform. The score is the likelihood
    of the victim's observation, averaged over the limits. A guard whose probe tells nothing gets the mean of all.
    """
    of_victim, of_guard = _likelihood(victim), _likelihood(guard)
    return float(np.log(np.sum(of_victim * of_guard) / np.sum(of_guard)))


def _likelihood(of: Limit) -> Floats:
    """The likelihood of what a circuit showed, for each limit of the grid; 1 for the limits that it admits.

    The likelihood of other limits falls with the distance of logarithms. It does not become zero, because congestion
    can look like a flag.
    """
    low, high = np.log(max(of.low, 1.0)), np.log(max(of.high, 1.0))
    gap = np.maximum(np.maximum(low - GRID, GRID - high), 0.0)
    found: Floats = OUTLIERS + (1 - OUTLIERS) * np.exp(-gap / ERROR)
    return found
