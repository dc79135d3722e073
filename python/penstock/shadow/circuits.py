"""The circuits of Shadow's clients, from the logs of their C tor."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from penstock.shadow.torrc import EPOCH

NEAR_S = 0.02
"""The largest difference between the time of CONNECTED in the logs of C tor and tgen [s]. C tor logs milliseconds."""

TIME = r"^(?P<day>[A-Z][a-z]{2} [0-9]{2} [0-9:]{8})\.(?P<ms>[0-9]+) "
"""The beginning of a line of C tor's log."""

_CONNECTED = re.compile(
    TIME + r"\[info\] connection_edge_process_\w+\(\): 'connected' received for circid (?P<id>\d+) "
)
_PATH = re.compile(r"\[info\] exit circ \(length 3\): \$(\w{40})\(\w+\) \$(\w{40})\(\w+\) \$(\w{40})\(\w+\)")


def time_of(line: re.Match[str]) -> float:
    """The time of a line of C tor's log, since the start of Shadow [s]."""
    at = datetime.strptime(f"2000 {line['day']}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    return at + float(f"0.{line['ms']}") - EPOCH


class Circuit(NamedTuple):
    """A circuit that carried a stream."""

    id: int
    """Its number in the client's log."""
    guard: str
    middle: str
    exit: str


class Circuits:
    """The circuits of the streams of one client."""

    def __init__(self, lines: Iterable[str], relays: Mapping[str, str]) -> None:
        """Read a client's log.

        Args:
            lines: the lines of the log.
            relays: the name of each relay by fingerprint.
        """
        self._connected: list[tuple[float, Circuit]] = []
        before: re.Match[str] | None = None
        for line in lines:
            path = _PATH.search(line)
            # The line after the one about CONNECTED has the path.
            if before is not None and path is not None and {*path.groups()} <= {*relays}:
                found = Circuit(int(before["id"]), *(relays[each] for each in path.groups()))
                self._connected.append((time_of(before), found))
            before = _CONNECTED.match(line)

    def take(self, at: float) -> Circuit | None:
        """The circuit of the stream that was connected at this time [s]; each stream is taken once."""
        near = min(self._connected, key=lambda each: abs(each[0] - at), default=None)
        if near is None or abs(near[0] - at) > NEAR_S:
            return None
        self._connected.remove(near)
        return near[1]

    def __bool__(self) -> bool:
        return bool(self._connected)


def row(client: str, number: int, circuit: Circuit) -> dict[str, Any]:
    """The row of a circuit in `paths`. The log has no time of its construction."""
    return {"circuit": number, "client": client, "guard": circuit.guard, "middle": circuit.middle, "exit": circuit.exit}
