"""Writes network files."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import _core, catalog, packed, paths
from penstock.errors import PenstockError
from penstock.networks import circuits as circuit_lists
from penstock.networks import consensus, hosts, params, staging
from penstock.networks.relays import Relay, Source

if TYPE_CHECKING:
    from penstock.networks.internet import Internet

LARGEST_GRAPH = 4 << 30
"""The largest accepted graph [B]."""

LEAST_ACCESS = "1 us"
"""The access latency with a graph, whose paths already include the access links of both ends."""


def make(
    path: Path | None,
    *,
    descriptors: Sequence[Path] = (),
    graph: Path | None = None,
    clients: Path | None = None,
    circuits: Path | None = None,
    places: bool = False,
    relays: int | None = None,
    seed: int = 1,
) -> str:
    """The text of a network file.

    Args:
        path: a consensus, a staging file of tornettools, or hosts of Shadow 1.x; may be none with a graph or circuits.
        descriptors: files with server descriptors, for a consensus.
        graph: a graph of Shadow, for latency and loss.
        clients: other hosts of Shadow 1.x, for the places of clients and servers.
        circuits: a list of circuits, of nstor or with names of relays.
        places: makes places of a graph even if its nodes have countries.
        relays: the number of relays; by default, or if the document has fewer, all.
        seed: the seed of the sampling.

    Raises:
        PenstockError: if a file cannot be read or is wrong.
    """
    if path is None and graph is None and circuits is None:
        raise PenstockError("no input is given; name a FILE with relays, --graph FILE or --circuits FILE")
    if path is None and (descriptors or relays is not None or clients is not None):
        raise PenstockError("--descriptors, --clients and --relays need a FILE with relays")
    data = None if path is None else packed.read(path, hosts.LARGEST, "the largest known input some 100 MiB")
    parts: list[str] = []
    notes: list[str] = []
    source: Source | None = None
    if path is not None and data is not None and data.lstrip()[:1] == b"<":
        if graph is None:
            raise PenstockError(f"{path}: hosts of Shadow need the graph of their places; add --graph FILE")
        source, parts, notes = _shadow(path, data, graph, clients, relays, seed)
    else:
        if clients is not None:
            raise PenstockError("--clients needs a FILE with hosts of Shadow 1.x")
        source = None if path is None else _sampled(_read(path, descriptors), relays, seed)
        if data is not None and params.found(data):
            catalog.warn(f"{path}: a network file has no consensus parameters; its head names the keys to set")
        notes = source.notes if source else []
        if graph is not None:
            network, found = _graph(graph, places, seed)
            parts.append(network)
            notes = [*notes, *found]
    if circuits is not None:
        listed = circuit_lists.read(packed.read(circuits, circuit_lists.LARGEST, "nstor's has 2 MiB"), circuits)
        source = source or listed.source
        notes = [*notes, *listed.notes]
        if source is not None:
            _check_circuits(listed.each, source, circuits)
        rows = "\n".join(["circuits = [", *(f'    "{" ".join(circuit)}",' for circuit in listed.each), "]"])
        if parts:
            parts[0] = parts[0].replace("[network]\n", f"[network]\n{rows}\n", 1)
        else:
            parts.append(f"[network]\n{rows}")
    if source:
        width = max(4, len(str(len(source.relays))))
        names = [_name(relay, number, width) for number, relay in enumerate(source.relays, 1)]
        parts += [_relay(relay, name, names) for relay, name in zip(source.relays, names, strict=True)]
    head = [f"A network, made by penstock {_core.version()}", *notes]
    return "\n".join([*(f"# {_plain(note)}." for note in head), *("\n" + part for part in parts)]) + "\n"


def _sampled(source: Source, relays: int | None, seed: int) -> Source:
    if relays is None:
        return source
    if relays > (count := len(source.relays)):
        catalog.warn(
            f"--relays {relays} is more than the {count} usable relays of the file, so the network has {count}"
        )
    return source.sample(relays, seed)


def _graph(path: Path, places: bool, seed: int) -> tuple[str, list[str]]:
    """The latency of a graph: round trips between countries if its nodes have countries, otherwise places."""
    from penstock.networks import graph as graphs
    from penstock.networks import internet

    data = packed.read(path, LARGEST_GRAPH, "the largest known some 1 GiB")
    is_gml = data.lstrip()[:1] != b"<"
    if is_gml and not places and re.search(rb"\b(country_code|geocode)\b", data):
        found = graphs.read(data, path, seed)
        return _network(found.rtts), found.notes
    whole = internet.read(data, path)
    return whole.toml(None), [*whole.notes, *whole.without_country()]


def _shadow(
    path: Path, data: bytes, graph: Path, clients: Path | None, relays: int | None, seed: int
) -> tuple[Source, list[str], list[str]]:
    """Hosts of Shadow 1.x at the places of a graph: the relays, the other sections, and notes."""
    from penstock.networks import internet

    whole = internet.read(packed.read(graph, LARGEST_GRAPH, "the largest known some 1 GiB"), graph)
    own = hosts.read(data, path, whole.places, seed)
    ends = own
    notes = [*whole.notes, *own.relays.notes]
    if clients is not None:
        other = packed.read(clients, hosts.LARGEST, "the largest of Shadow's own has 3 MiB")
        ends = hosts.read(other, clients, whole.places, seed)
        notes.append(f"{clients.name}, the places of clients and servers")
    hosts.check(own, path)
    source = _sampled(own.relays, relays, seed)
    if relays is not None and relays < len(own.relays.relays):
        notes.append(source.notes[-1])
    counts = Counter(relay.place for relay in source.relays)
    for group in (*ends.clients.values(), *ends.servers.values()):
        counts.update(group.places)
    kept = [index for index, place in enumerate(whole.places) if counts[place.name]]
    used = whole.only(kept)
    if len(kept) < len(whole.places):
        notes.append(f"{len(kept)} of {len(whole.places)} places have hosts")
    notes += used.without_country()
    _check_links(source, (*ends.clients.values(), *ends.servers.values()), used, path)
    parts = [used.toml([counts[place.name] for place in used.places])]
    for section, groups in (("clients", ends.clients), ("servers", ends.servers)):
        for group in groups.values():
            keys = [*hosts.links(group), ("place", hosts.place_table(group.places))]
            parts.append("\n".join([f"[{section}.{group.name}]", *(f"{key} = {value}" for key, value in keys)]))
    return source, parts, notes


def _check_links(source: Source, groups: Sequence[hosts.Group], used: "Internet", path: Path) -> None:
    lacking = {place.name for place in used.places if place.down is None or place.up is None}
    needing = {relay.place for relay in source.relays if not relay.link or not relay.link_up}
    for group in groups:
        if not all(group.down) or not all(group.up):
            needing.update(group.places)
    if wrong := sorted(place for place in needing if place in lacking):
        raise PenstockError(
            f"{path}: hosts without a bandwidth are at {', '.join(wrong[:6])}, and the graph has none there either; "
            "give these hosts or these nodes a bandwidthdown and a bandwidthup"
        )


def _check_circuits(circuits: Sequence[Sequence[str]], source: Source, path: Path) -> None:
    known = {relay.nickname for relay in source.relays}
    for number, circuit in enumerate(circuits, 1):
        if wrong := next((name for name in circuit if name not in known), None):
            raise PenstockError(f"{path}: circuit {number}: there is no relay {wrong!r} in FILE; name its relays")


def _read(path: Path, descriptors: Sequence[Path]) -> Source:
    data = paths.read(path)
    if path.suffix == ".json" and data.lstrip()[:1] != b"{":
        raise PenstockError(f"{path}:1: this is not a staging file of tornettools; it must be a JSON object in {{ }}")
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


def _name(relay: Relay, number: int, width: int) -> str:
    name = re.sub("[^A-Za-z0-9_-]", "", relay.nickname) or "relay"
    return f"{name}-{number:0{width}}" if relay.number else name


def _relay(relay: Relay, name: str, names: Sequence[str]) -> str:
    flags = ", ".join(f'"{flag}"' for flag, has in (("guard", relay.guard), ("exit", relay.exit)) if has)
    lines = [f"[relays.{name}]"]
    if relay.link and relay.link_up:
        lines += [f'link_down = "{_amount(relay.link)}/s"', f'link_up = "{_amount(relay.link_up)}/s"']
    elif relay.link:
        lines.append(f'link = "{_amount(relay.link)}/s"')
    elif relay.place is not None:
        lines.append('link = "place"')
    if relay.rate is not None:
        lines.append(f'bandwidth_rate = "{_amount(relay.rate)}/s"')
    if relay.burst is not None:
        lines.append(f'bandwidth_burst = "{_amount(relay.burst)}"')
    lines += [f'weight = "{_amount(relay.weight)}/s"', f"flags = [{flags}]"]
    if relay.family:
        family = ", ".join(f'"{names[other]}"' for other in relay.family)
        lines.append(f"family = [{family}]")
    if relay.country is not None:
        lines.append(f'country = "{relay.country}"')
    if relay.place is not None:
        lines.append(f'place = "{relay.place}"')
    return "\n".join(lines)


def _amount(size: int) -> str:
    if size % 1000 == 0:
        return f"{size // 1000} kB"
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def _plain(note: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in note)
