"""Lists of circuits: those of nstor, with the relays' bandwidths, or lists of relay names.

Source: nstor, `TorDumbbellHelper::ParseFile()`. A line has the number of the circuit and, for each of three relays, its
fingerprint, its continent and its bandwidth [B/s]. The bandwidth is the rate and the burst of the token bucket.

Deviation: the continent is not used. nstor draws each continent anew, because its condition
`continent[i] != "EU" || continent[i] != "NA"` is always true.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import PenstockError
from penstock.networks.relays import MOST, Relay, Source

LARGEST = 64 << 20
"""The largest accepted file [B]; nstor's has 2 MiB."""

FORM = "NUMBER FINGERPRINT CONTINENT BANDWIDTH FINGERPRINT CONTINENT BANDWIDTH FINGERPRINT CONTINENT BANDWIDTH"

_NUMBERED = re.compile(rb"\s*\d+\s+[0-9A-Fa-f]{40}\s+\S+\s+\d+\s")


@dataclass
class Circuits:
    """The circuits of a file, as names of relays, and the relays if the file describes them."""

    each: list[list[str]]
    source: Source | None
    notes: list[str]


def is_nstor(data: bytes) -> bool:
    """Whether a document is a list of nstor."""
    return bool(_NUMBERED.match(data))


def read(data: bytes, path: Path) -> Circuits:
    """The circuits of a list."""
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise PenstockError(f"{path} is not a list of circuits: byte {error.start} is not ASCII") from error
    if is_nstor(data):
        return _nstor(lines, path)
    each = []
    for number, line in enumerate(lines, 1):
        names = line.split("#")[0].split()
        if not names:
            continue
        if wrong := next((name for name in names if not re.fullmatch("[A-Za-z0-9_-]+", name)), None):
            raise PenstockError(
                f"{path}:{number}: {wrong[:40]!r} is not a name of a relay; a line has names and blanks"
            )
        each.append(names)
    if not each:
        raise PenstockError(f"{path}: it has no circuit; a line has the names of relays from the entry to the exit")
    return Circuits(each, None, [f"{path.name}, {len(each)} circuits"])


def _nstor(lines: list[str], path: Path) -> Circuits:
    bandwidths: dict[str, int] = {}
    each: list[list[str]] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        relays, rates = words[1::3], words[3::3]
        right = len(words) == 10 and all(rate.isdecimal() and 0 < int(rate) <= MOST for rate in rates)
        if not right or not all(re.fullmatch("[0-9A-Fa-f]{40}", relay) for relay in relays):
            raise PenstockError(f"{path}:{number}: this is not a circuit of nstor; a line is {FORM}")
        for relay, rate in zip(relays, map(int, rates), strict=True):
            if bandwidths.setdefault(relay, rate) != rate:
                raise PenstockError(
                    f"{path}:{number}: the relay {relay} has another bandwidth in an earlier line; both must be equal"
                )
        each.append(relays)
    short = _short(list(bandwidths))
    found = [
        Relay(short[relay], guard=True, exit=True, weight=rate, link=0, rate=rate, burst=rate, number=False)
        for relay, rate in sorted(bandwidths.items())
    ]
    note = f"{path.name}, {len(each)} circuits of nstor over {len(found)} relays"
    return Circuits([[short[relay] for relay in circuit] for circuit in each], Source(found), [note])


def _short(relays: list[str]) -> dict[str, str]:
    """Names of relays: the first digits of their fingerprints, as many as all relays need to differ."""
    digits = next(count for count in range(8, 41) if len({relay[:count] for relay in relays}) == len(relays))
    return {relay: f"r{relay[:digits]}" for relay in relays}
