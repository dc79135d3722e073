"""The experiments of the TCP references and the model, and the format of their results.

A row is a JSON object on one line. It describes one run:

    reference            "linux-6.18 cubic", "ns-3.44 reno", "model linux-6 cubic"
    experiment           "goodput", "window", "download" or "buffers"
    congestion           "cubic", "reno" or "newreno" (only ns-3 has this)
    rate_bytes_per_s     the link, both directions, IP headers included
    rtt_s                round trip without queue and serialisation
    loss                 probability of the loss of a packet, in each direction, for ACKs too
    repeat               from 1: the seed
    queue_bytes          drop-tail queue in front of the link
    warmup_s, seconds    `bytes` were received in `seconds` after `warmup_s`
    bytes                application bytes that the receiver got
    goodput_bytes_per_s  bytes / seconds
    retransmits          retransmitted segments; null if unknown
    seconds_to_finish    from the SYN to the last byte; null if the download did not finish
    samples              "window" only, every 10 ms: [t, cwnd, ssthresh or null, srtt or null] [s, segments]

A reference may add its own keys.

- `goodput`: one bulk flow over 10 MiB/s, 60 s after 5 s.
- `download`: 100 MiB over 10 MiB/s, round trip 10 ms.
- `buffers`: the same with ns-3's default buffers of 128 KiB, so only ns-3 and its profile run it.
- `window`: 100 MiB over 100 Mbit/s; without random loss, only the full queue causes the sawtooth.

The queue holds one bandwidth-delay product, and for all but `window` at least 100 full packets. Segments carry 1448 B.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

MSS = 1448
"""Payload of a full segment [B]: an MTU of 1500 without headers of 40 and timestamps of 12."""
PACKET = 1500
"""A full IP packet [B]."""
FILE = 100 << 20
"""Size of a download and of the flow whose window is sampled [B]."""
WARMUP_S, SECONDS = 5.0, 60.0
"""Goodput counts the bytes that arrive in SECONDS after WARMUP_S."""
SAMPLE_S = 0.01
"""Interval between samples of the window [s]."""

EXPERIMENTS = ("goodput", "download", "window", "buffers")
CONGESTION = ("cubic", "reno", "newreno")
EVERYWHERE = ("cubic", "reno")
"""The congestion controls that Linux has, too."""
TEN_MIB, HUNDRED_MBIT = 10 << 20, 12_500_000
RTTS = (0.01, 0.1)
GATES, BEYOND = (0.0, 0.001, 0.005, 0.01, 0.02), (0.03, 0.05, 0.1)
"""Loss at which the model is compared with the references, and loss at which it is only shown."""


@dataclass(frozen=True)
class Run:
    """The conditions of a row."""

    experiment: str
    congestion: str
    rate_bytes_per_s: int
    rtt_s: float
    loss: float
    repeat: int

    @property
    def queue_bytes(self) -> int:
        """The queue in front of the link [B]."""
        product = round(self.rate_bytes_per_s * self.rtt_s)
        return product if self.experiment == "window" else max(product, 100 * PACKET)

    def row(self, reference: str, **measured: Any) -> dict[str, Any]:
        """The row of this run with its measurements."""
        return {"reference": reference, **asdict(self), "queue_bytes": self.queue_bytes, **measured}


def run_of(row: dict[str, Any]) -> Run:
    """The run that a row describes."""
    return Run(*(row[field.name] for field in fields(Run)))


def grid() -> Iterator[Run]:
    """All runs, the most important ones first."""
    yield from _goodput(GATES)
    for congestion in EVERYWHERE:
        for rtt in RTTS:
            yield Run("window", congestion, HUNDRED_MBIT, rtt, 0.0, 1)
            yield from (Run("window", congestion, HUNDRED_MBIT, rtt, 0.0001, repeat) for repeat in (1, 2, 3))
    for congestion in EVERYWHERE:
        for loss in GATES + BEYOND:
            yield from (Run("download", congestion, TEN_MIB, 0.01, loss, repeat) for repeat in range(1, 11))
    yield from _goodput(BEYOND)


def only_ns3() -> Iterator[Run]:
    """The runs of ns-3 and of its profile that no other reference can repeat."""
    for loss in GATES:
        for experiment, congestion in (("download", "newreno"), ("buffers", "cubic"), ("buffers", "newreno")):
            yield from (Run(experiment, congestion, TEN_MIB, 0.01, loss, repeat) for repeat in range(1, 11))


def _goodput(losses: tuple[float, ...]) -> Iterator[Run]:
    for congestion in EVERYWHERE:
        for loss in losses:
            for rtt in RTTS:
                yield from (Run("goodput", congestion, TEN_MIB, rtt, loss, repeat) for repeat in range(1, 6))


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; an incomplete last line is ignored."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def append(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Append each row to a file as soon as it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for row in rows:
            print(line(row), file=file, flush=True)


def line(row: dict[str, Any]) -> str:
    """A row as one line of JSON."""
    return json.dumps(row, separators=(",", ":"))


def refuse(sentence: str) -> NoReturn:
    """Print a sentence for the user, and end with status 2."""
    print(sentence, file=sys.stderr)
    sys.exit(2)
