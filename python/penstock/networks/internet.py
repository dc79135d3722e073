"""Places of the Internet with loss, and the delay, jitter and loss between them, from the graphs of Shadow.

Three formats exist. Shadow 1.6 to 1.15 reads GraphML, Shadow up to 1.5 reads its own `topology.xml`, and Shadow 2 and 3
read GML.

Source: Shadow 1.9.0 `shd-topology.c`: a complete graph has a path for each edge. Otherwise a packet takes the path with
the lowest latency, and every edge of the path may lose it. Both ends of the path may lose it, too. `shd-worker.c`:
packets without payload are never lost, and the jitter has no effect. Shadow 1.5.0 `shd-network.c`, `shd-link.c`: every
packet may be lost, and its delay is uniform within the jitter.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from penstock import _core
from penstock.errors import PenstockError
from penstock.networks import xml
from penstock.networks.xml import Element

MOST = 2048
"""The most places of a network file."""

MOST_NODES = 2 * MOST
"""The most nodes of a graph, whose matrices then need 1 GiB. Places without hosts are not in a network file."""

LONGEST_MS = 1e6
"""The longest accepted latency [ms]."""

OWN_MS = 1.0
"""The delay within a place without an edge to itself [ms]."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """A vertex of a graph where hosts can be."""

    name: str
    code: str
    """The country's two letters, or other letters of the graph; may be empty."""
    down: int | None
    """The default receiving rate of a host [B/s]."""
    up: int | None
    """The default sending rate of a host [B/s]."""
    loss: float


@dataclass(frozen=True)
class Edge:
    """An edge in one direction."""

    latency: float
    """The one-way latency [ms]."""
    jitter: float
    loss: float


@dataclass(frozen=True)
class Internet:
    """Places, with a path from each place to each."""

    places: list[Place]
    latency: Matrix
    """One-way latencies by source and target [ms]."""
    jitter: Matrix
    loss: Matrix
    """Losses of the edges of a path, without those of places."""
    spares_acks: bool
    """Whether packets without payload are never lost."""
    notes: list[str]

    def only(self, kept: Sequence[int]) -> Self:
        """These places alone."""
        square = np.ix_(kept, kept)
        latency, jitter, loss = (matrix[square] for matrix in (self.latency, self.jitter, self.loss))
        return replace(self, places=[self.places[place] for place in kept], latency=latency, jitter=jitter, loss=loss)

    def without_country(self) -> list[str]:
        """A note on places whose letters are no country of scenarios, if there are any."""
        known = {*_core.countries(), ""}
        codes = [place.code.upper() for place in self.places if place.code.upper() not in known]
        names = ", ".join(sorted(set(codes)))
        return [f"places without country, since scenarios do not know {names}: {len(codes)}"] if codes else []

    def toml(self, weights: Sequence[int] | None) -> str:
        """The sections of a network file; `weights` are the numbers of hosts by place."""
        if len(self.places) > MOST:
            raise PenstockError(
                f"{len(self.places)} nodes of the graph are places; a network file has at most {MOST} places; "
                "give a graph with fewer nodes, or hosts at fewer of them"
            )
        known = set(_core.countries())
        lines = ["[network]", 'latency = "places"', f'loss_of = "{"data" if self.spares_acks else "all"}"']
        for index, place in enumerate(self.places):
            lines += ["", f"[network.places.{place.name}]"]
            if place.code.upper() in known:
                lines.append(f'country = "{place.code.upper()}"')
            lines += [f'{key} = "{rate(value)}"' for key, value in place_links(place)]
            lines.append(f"loss = {float(place.loss)!r}")
            if weights is not None:
                lines.append(f"weight = {weights[index]}")
        names = ", ".join(f'"{place.name}"' for place in self.places)
        lines += ["", "[network.edges]", f"order = [{names}]", *_rows("latency", self.latency, " ms")]
        if self.jitter.any():
            lines += _rows("jitter", self.jitter, " ms")
        if self.loss.any():
            lines += _rows("loss", self.loss, "")
        return "\n".join(lines)


def place_links(place: Place) -> list[tuple[str, int]]:
    """The keys of a place's links, with their rates [B/s]."""
    links = (("link_down", place.down), ("link_up", place.up))
    return [(key, value) for key, value in links if value is not None]


def rate(value: int) -> str:
    """A rate as scenarios write it."""
    return f"{value // 1024} KiB/s" if value % 1024 == 0 else f"{value} B/s"


def _rows(key: str, matrix: Matrix, unit: str) -> list[str]:
    def number(value: float) -> str:
        return f"{value:.6f}".rstrip("0").rstrip(".") or "0"

    return [f"{key} = [", *(f'    "{" ".join(map(number, row))}{unit}",' for row in matrix.tolist()), "]"]


def read(data: bytes, path: Path) -> Internet:
    """The places of a graph in one of Shadow's formats."""
    if data.lstrip()[:1] != b"<":
        from penstock.networks import gml

        return gml.read(data, path)
    root = xml.read(data, path)
    if root.name == "graphml":
        return _graphml(root, path)
    if root.name != "topology":
        root.wrong(f"this is not a graph of Shadow: it begins with <{root.name}>; it must be <graphml> or <topology>")
    return _topology(root, path)


def _graphml(root: Element, path: Path) -> Internet:
    names = {key.need("id"): key.facts.get("attr.name", "") for key in root.each("key")}
    graph = next(root.each("graph"), None)
    if graph is None:
        root.wrong("there is no <graph>; a GraphML file has one")
    places: dict[str, Place] = {}
    for node in graph.each("node"):
        facts = _facts(node, names)
        code = facts.get("geocode", facts.get("countrycode", ""))
        links = (_link(node, facts, "bandwidthdown"), _link(node, facts, "bandwidthup"))
        _add(places, node, node.need("id"), Place(node.need("id"), code, *links, _loss(node, facts)))
    directed = graph.facts.get("edgedefault") == "directed"
    edges: dict[tuple[str, str], Edge] = {}
    for edge in graph.each("edge"):
        ends = (_end(edge, "source", places), _end(edge, "target", places))
        facts = _facts(edge, names)
        # Shadow reads the jitter, and does not use it.
        found = Edge(_latency(edge, facts), 0.0, _loss(edge, facts))
        for pair in [ends] if directed else [ends, ends[::-1]]:
            edges.setdefault(pair, found)
    internet = join(list(places.values()), edges, path, spares_acks=True)
    codes = [place.code for place in places.values()]
    named = [
        replace(place, name=name(place.code) if codes.count(place.code) == 1 and place.code else name(place.name))
        for place in internet.places
    ]
    return replace(internet, places=unique(named, path))


def _topology(root: Element, path: Path) -> Internet:
    places: dict[str, Place] = {}
    for cluster in root.each("cluster"):
        id_ = cluster.need("id")
        links = (_link(cluster, cluster.facts, "bandwidthdown"), _link(cluster, cluster.facts, "bandwidthup"))
        _add(places, cluster, id_, Place(name(id_), id_[:2], *links, _loss(cluster, cluster.facts)))
    edges: dict[tuple[str, str], Edge] = {}
    for link in root.each("link"):
        ends = link.need("clusters").split()
        if len(ends) != 2:
            link.wrong(f'the link has {len(ends)} clusters; it must have two, as in clusters="USUS DEDE"')
        for end in ends:
            if end not in places:
                link.wrong(f"there is no cluster {end!r}; each end of a link must be the id of a <cluster>")
        latency = _latency(link, link.facts)
        jitter = _number(link, link.facts, "jitter", LONGEST_MS) or 0.0
        # Shadow 1.5 computes delays in whole milliseconds.
        edges[ends[0], ends[1]] = Edge(latency, min(jitter, max(latency - 1, 0)), _loss(link, link.facts))
    internet = join(list(places.values()), {**edges}, path, spares_acks=False, ids=list(places))
    return replace(internet, places=unique(internet.places, path))


def join(
    places: list[Place],
    edges: Mapping[tuple[str, str], Edge],
    path: Path,
    *,
    spares_acks: bool,
    ids: Sequence[str] | None = None,
) -> Internet:
    """The paths between all places: the edges of a complete graph, otherwise the shortest paths."""
    ids = ids or [place.name for place in places]
    if not places:
        raise PenstockError(f"{path}: it has no node; a graph has nodes, and edges between them")
    index = {id_: place for place, id_ in enumerate(ids)}
    count = len(places)
    if count > MOST_NODES:
        raise PenstockError(f"{path}: it has {count} nodes; it must have at most {MOST_NODES}; give a smaller graph")
    latency, jitter, loss = np.full((count, count), np.inf), np.zeros((count, count)), np.zeros((count, count))
    for (one, other), edge in edges.items():
        pair = index[one], index[other]
        latency[pair], jitter[pair], loss[pair] = edge.latency, edge.jitter, edge.loss
    complete = bool(np.isfinite(latency).all())
    if not complete:
        latency, jitter, loss = _shortest(latency, jitter, loss)
        if not np.isfinite(latency).all():
            lost = np.argwhere(~np.isfinite(latency))[0]
            one, other = (ids[place] for place in lost)
            raise PenstockError(f"{path}: there is no path from node {one} to node {other}; a graph must be connected")
    note = f"{path.name}, {count} places with the delays of " + ("its edges" if complete else "the shortest paths")
    return Internet(places, latency, jitter, loss, spares_acks, [note])


def _shortest(latency: Matrix, jitter: Matrix, loss: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """The latency, jitter and loss along the paths of least latency; within a place, those of its own edge."""
    count = len(latency)
    own = latency.diagonal().copy()
    rows, columns = np.nonzero(np.isfinite(latency) & ~np.eye(count, dtype=bool))
    # scipy ignores edges of length zero.
    weights = csr_array((np.maximum(latency[rows, columns], 1e-9), (rows, columns)), shape=latency.shape)
    distance, before = dijkstra(weights, directed=True, return_predecessors=True)
    spread, kept = np.zeros_like(latency), np.ones_like(latency)
    for source in range(count):
        for target in np.argsort(distance[source], kind="stable"):
            last = before[source, target]
            if last >= 0:
                spread[source, target] = spread[source, last] + jitter[last, target]
                kept[source, target] = kept[source, last] * (1 - loss[last, target])
    within = np.diag_indices(count)
    distance[within] = np.where(np.isfinite(own), own, OWN_MS)
    spread[within] = np.where(np.isfinite(own), jitter[within], 0.0)
    kept[within] = np.where(np.isfinite(own), 1 - loss[within], 1.0)
    return distance, spread, 1 - kept


def unique(places: list[Place], path: Path) -> list[Place]:
    """The places, if all have different names."""
    names = [place.name for place in places]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PenstockError(f"{path}: two nodes have the name {twice!r}; each node needs its own id")
    return places


def name(text: str) -> str:
    """A text as the name of a place."""
    plain = re.sub("[^A-Za-z0-9_-]", "-", text) or "place"
    return "any-" if plain == "any" else plain


def _facts(element: Element, names: Mapping[str, str]) -> dict[str, str]:
    return {names.get(data.need("key"), ""): data.text.strip() for data in element.children if data.name == "data"}


def _add(places: dict[str, Place], element: Element, id_: str, place: Place) -> None:
    if id_ in places:
        element.wrong(f"the id {id_!r} is there twice; each <{element.name}> needs its own id")
    places[id_] = place


def _end(edge: Element, fact: str, places: Mapping[str, Place]) -> str:
    id_ = edge.need(fact)
    if id_ not in places:
        edge.wrong(f"there is no node {id_!r}; the {fact} of an edge must be the id of a <node>")
    return id_


def _latency(element: Element, facts: Mapping[str, str]) -> float:
    latency = _number(element, facts, "latency", LONGEST_MS)
    if latency is None or latency <= 0:
        element.wrong("the latency is missing or zero; it must be a number of milliseconds above 0")
    return latency


def _loss(element: Element, facts: Mapping[str, str]) -> float:
    loss = _number(element, facts, "packetloss", 1.0) or 0.0
    if loss == 1:
        element.wrong("the packetloss is 1; it must be below 1, since no packet would arrive")
    return loss


def _link(element: Element, facts: Mapping[str, str], fact: str) -> int | None:
    kib = _number(element, facts, fact, 2**30)
    return None if not kib else int(kib) * 1024


def _number(element: Element, facts: Mapping[str, str], fact: str, most: float) -> float | None:
    text = facts.get(fact)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        element.wrong(f"the {fact} is {text[:40]!r}; it must be a number from 0 to {most:g}")
    return value


Wrong = Callable[[str], NoReturn]


def decimal(value: Any) -> float | None:
    """A number; none for other types and values that are not finite."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if ok else None
