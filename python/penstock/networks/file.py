"""Writes network files."""

import re
from collections.abc import Sequence
from pathlib import Path

from penstock import _core, packed, paths
from penstock.errors import PenstockError
from penstock.networks import consensus, staging
from penstock.networks.relays import Relay, Source

LARGEST_GRAPH = 4 << 30
"""The largest accepted graph [B]."""

LEAST_ACCESS = "1 us"
"""The access latency with a graph, whose paths already include the access links of both ends."""


def make(
    path: Path | None,
    *,
    descriptors: Sequence[Path] = (),
    graph: Path | None = None,
    relays: int | None = None,
    seed: int = 1,
) -> str:
    """The text of a network file.

    Args:
        path: a consensus, or a staging file of tornettools; may be none with a graph.
        descriptors: files with server descriptors, for a consensus.
        graph: a graph in GML, for latency.
        relays: the number of relays; by default, or if the document has fewer, all.
        seed: the seed of the sampling.

    Raises:
        PenstockError: if a file cannot be read or is wrong.
    """
    if path is None and graph is None:
        raise PenstockError("no input is given; name a consensus, a staging file, or --graph FILE")
    if path is None and (descriptors or relays is not None):
        raise PenstockError("--descriptors and --relays need a FILE with relays")
    source = None
    if path is not None:
        source = _read(path, descriptors)
        source = source if relays is None else source.sample(relays, seed)
    notes = source.notes if source else []
    parts = []
    if graph is not None:
        from penstock.networks import graph as graphs

        data = packed.read(graph, LARGEST_GRAPH, "the largest known some 1 GiB")
        found = graphs.read(data, graph, seed)
        notes = [*notes, *found.notes]
        parts.append(_network(found.rtts))
    if source:
        width = max(4, len(str(len(source.relays))))
        parts += [_relay(relay, number, width) for number, relay in enumerate(source.relays, 1)]
    head = [f"A network, made by penstock {_core.version()}", *notes]
    return "\n".join([*(f"# {_plain(note)}." for note in head), *("\n" + part for part in parts)]) + "\n"


def _read(path: Path, descriptors: Sequence[Path]) -> Source:
    data = paths.read(path)
    if path.suffix == ".json" and data.lstrip()[:1] != b"{":
        raise PenstockError(f"{path}:1: this is no staging file of tornettools; it must be a JSON object in {{ }}")
    if data.lstrip()[:1] != b"{":
        return consensus.read(data, path, descriptors)
    if descriptors:
        raise PenstockError(f"{path}: staged relays of tornettools include their descriptors; leave --descriptors out")
    return staging.read(data, path)


def _network(rtts: dict[str, float]) -> str:
    # A scenario refuses a round-trip time of zero.
    rounded = {pair: f"{max(rtt, 0.001):.3f}".rstrip("0").rstrip(".") for pair, rtt in rtts.items()}
    matrix = [f'{pair} = "{rtt} ms"' for pair, rtt in rounded.items()]
    return "\n".join(
        ["[network]", 'latency = "rtt-matrix"', f'access = "{LEAST_ACCESS}"', "", "[network.rtt_matrix]", *matrix]
    )


def _relay(relay: Relay, number: int, width: int) -> str:
    name = re.sub("[^A-Za-z0-9_-]", "", relay.nickname) or "relay"
    flags = ", ".join(f'"{flag}"' for flag, has in (("guard", relay.guard), ("exit", relay.exit)) if has)
    lines = [f"[relays.{name}-{number:0{width}}]", f'link = "{_amount(relay.link)}/s"']
    if relay.rate is not None:
        lines.append(f'bandwidth_rate = "{_amount(relay.rate)}/s"')
    if relay.burst is not None:
        lines.append(f'bandwidth_burst = "{_amount(relay.burst)}"')
    lines += [f'weight = "{_amount(relay.weight)}/s"', f"flags = [{flags}]"]
    if relay.country is not None:
        lines.append(f'country = "{relay.country}"')
    return "\n".join(lines)


def _amount(size: int) -> str:
    return f"{size} B" if size % 1000 else f"{size // 1000} kB"


def _plain(note: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in note)
