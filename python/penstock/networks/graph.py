"""Reads the latency between countries from a network graph of Shadow.

Source: Shadow, network graph specification: nodes with a country_code, edges with the one-way latency. The older form
of Shadow's GraphML files is also accepted: geocode, and latency as a number of milliseconds.

Deviation: bandwidths of nodes, jitter and loss of edges are not used. `internet` and `gml` read them.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from penstock import _core
from penstock.errors import PenstockError
from penstock.networks import places
from penstock.networks.relays import counted

MOST_NODES = 10
"""The maximum number of nodes of a country. Larger countries are sampled."""

LONGEST_MS = 1e6
"""The longest accepted edge [ms]."""

_UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "\u03bcs", "\u00b5s", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1e3),
}
"""The units in milliseconds; without a unit Shadow assumes seconds."""


class Matrix(NamedTuple):
    """Round-trip times between countries."""

    rtts: dict[str, float]
    """The round-trip time of each pair of countries, such as `DE-US` [ms]."""
    notes: list[str]


def read(data: bytes, path: Path, seed: int) -> Matrix:
    """The median round-trip times between nodes of two countries, along the shortest paths."""
    graph = parse(data, path)
    document = Document(path, data)
    index = {node: place for place, node in enumerate(graph.nodes)}
    where, elsewhere = _countries(graph, document)
    lengths = _lengths(graph, document)
    chosen = {
        code: [nodes[place] for place in _core.sample([(False, False, 0)] * len(nodes), MOST_NODES, seed)]
        for code, nodes in sorted(where.items())
    }
    ends = [node for nodes in chosen.values() for node in nodes]
    direct = all((one, other) in lengths for one, other in product(ends, ends))
    latency = lengths if direct else _shortest(lengths, index, ends)
    rtts: dict[str, float] = {}
    for one, other in combinations_with_replacement(chosen, 2):
        pairs = [pair for pair in product(chosen[one], chosen[other]) if pair[0] != pair[1] or pair in lengths]
        for pair in pairs:
            if math.isinf(latency[pair]) or math.isinf(latency[pair[::-1]]):
                lost = " to ".join(f"node {_plain(str(node), 40)}" for node in pair)
                raise PenstockError(f"{path}: there is no path from {lost} and back; a graph must be connected")
        if pairs:
            rtts[f"{one}-{other}"] = float(np.median([latency[pair] + latency[pair[::-1]] for pair in pairs]))
    if not rtts:
        raise PenstockError(f"{path}: it has one node and no edge from it to itself; a path needs two nodes")
    large = sum(len(nodes) > MOST_NODES for nodes in where.values())
    drawn = f", of {large} countries {MOST_NODES} nodes drawn with seed {seed}" if large else ""
    notes = [
        f"{path.name}, round-trip times between {len(chosen)} countries: medians of "
        + ("the edges" if direct else "the shortest paths")
        + f" between their nodes{drawn}",
        *(note.replace("relay", "node") for note in counted(*elsewhere)),
    ]
    return Matrix(rtts, notes)


def parse(data: bytes, path: Path) -> Any:
    """The graph of a GML document, by node id."""
    try:
        graph = nx.read_gml(BytesIO(data), label="id")
    # networkx raises many kinds of errors for invalid GML.
    except Exception as error:
        said = str(error)
        why = _plain(said, 200) or type(error).__name__
        if isinstance(error, RecursionError):
            why = "it is nested too deeply"
        line = _line(said, data)
        place = f"{path}:{line}" if line else f"{path}"
        raise PenstockError(f"{place}: this is not a graph in GML: {why}") from error
    if not graph.nodes:
        raise PenstockError(f"{path}: it has no node; a graph has nodes with a country_code, and edges")
    return graph


def _line(said: str, data: bytes) -> int | None:
    if found := re.search(r"line (\d+)", said) or re.search(r"at \((\d+), ", said):
        return int(found[1])
    if "not ASCII" in said:
        strange = next((place for place, byte in enumerate(data) if byte > 127), 0)
        return data.count(b"\n", 0, strange) + 1
    text = data.decode("ascii", "replace")
    if found := re.search(r"(node|edge) #(\d+)", said):
        return places.of_block(text, found[1], int(found[2]))
    if found := re.search(r"node id (.+) is duplicated", said):
        return places.of_fact(text, "node", {"id": found[1]}, again=True)
    return None


class Document(NamedTuple):
    """The document, which is needed to find the lines of errors."""

    path: Path
    data: bytes

    def wrong(self, what: str, why: str, line: int | None) -> NoReturn:
        """Refuse the document because of a line."""
        place = f"{self.path}:{line}" if line else f"{self.path}"
        raise PenstockError(f"{place}: {_plain(what, 80)}: {why}")

    def node(self, node: Any, key: str, why: str) -> NoReturn:
        """Refuse the document because of a node."""
        self.wrong(f"node {node}", why, places.of_fact(self._text, "node", {"id": str(node)}, key))

    def edge(self, one: Any, other: Any, why: str) -> NoReturn:
        """Refuse the document because of an edge."""
        ends = [(one, other), (other, one)]
        found = (
            places.of_fact(self._text, "edge", {"source": str(source), "target": str(target)}, "latency")
            for source, target in ends
        )
        self.wrong(f"edge {one}-{other}", why, next((line for line in found if line), None))

    @property
    def _text(self) -> str:
        return self.data.decode("ascii", "replace")


def _countries(graph: Any, document: Document) -> tuple[dict[str, list[Any]], tuple[int, str]]:
    known = set(_core.countries())
    where: dict[str, list[Any]] = {}
    elsewhere: list[str] = []
    for node, facts in graph.nodes(data=True):
        code = country(node, facts, document)
        if code is None:
            continue
        if code in known:
            where.setdefault(code, []).append(node)
        else:
            elsewhere.append(code)
    if not where:
        raise PenstockError(
            f"{document.path}: no node has a country_code that scenarios have a place for, such as DE or US"
        )
    names = ", ".join(sorted(set(elsewhere)))
    return where, (len(elsewhere), f"not used as ends, since scenarios have no place for {names}")


def country(node: Any, facts: Mapping[str, Any], document: Document) -> str | None:
    """The two letters of a node's country; none if the node has none."""
    key = "country_code" if "country_code" in facts else "geocode"
    code = facts.get(key)
    if code is None:
        return None
    if not isinstance(code, str) or not re.fullmatch("[A-Za-z]{2}", code):
        document.node(node, key, f"the {key} is {repr(code)[:40]}; it must have two letters, as in ISO 3166-1")
    return code.upper()


def _lengths(graph: Any, document: Document) -> dict[tuple[Any, Any], float]:
    """The latency of each edge by direction [ms]."""
    lengths: dict[tuple[Any, Any], float] = {}
    for one, other, facts in graph.edges(data=True):
        length = latency_of(facts, partial(document.edge, one, other))
        for pair in [(one, other)] if graph.is_directed() else [(one, other), (other, one)]:
            lengths[pair] = min(length, lengths.get(pair, math.inf))
    if not lengths:
        raise PenstockError(f"{document.path}: it has no edge; the latency of a path comes from its edges")
    return lengths


def latency_of(facts: Mapping[str, Any], wrong: Callable[[str], NoReturn]) -> float:
    """The latency of an edge [ms]."""
    value = facts.get("latency")
    right = 'it must be a duration, like "50 ms"'
    if value is None:
        wrong(f"the latency is missing; {right}")
    if isinstance(value, str):
        parts = re.fullmatch(r"\s*(-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*", value)
        scale = _UNITS.get(parts[2]) if parts else None
        if parts is None or scale is None:
            wrong(f"the latency is {value[:40]!r}; {right}")
        latency = float(parts[1]) * scale
    elif isinstance(value, (int, float)):
        latency = value
    else:
        wrong(f"the latency is a {type(value).__name__}; {right}")
    if not 0 <= latency <= LONGEST_MS:
        wrong(f"the latency is {str(value)[:40]!r}; it must be from 0 to {LONGEST_MS / 1e3:g} s")
    return float(latency)


def _shortest(
    lengths: Mapping[tuple[Any, Any], float], index: Mapping[Any, int], ends: list[Any]
) -> dict[tuple[Any, Any], float]:
    """The latency of the shortest path between any two `ends`, or of a node's edge to itself [ms]."""
    pairs = [pair for pair in lengths if pair[0] != pair[1]]
    rows, columns = ([index[pair[place]] for pair in pairs] for place in (0, 1))
    # scipy ignores edges of length zero.
    values = [max(lengths[pair], 1e-9) for pair in pairs]
    matrix = csr_array((values, (rows, columns)), shape=(len(index), len(index)))
    places = [index[node] for node in ends]
    found = dijkstra(matrix, directed=True, indices=places)
    own = {(node, node): lengths[node, node] for node in ends if (node, node) in lengths}
    return {
        (one, other): float(found[row, index[other]]) for row, one in enumerate(ends) for other in ends if one != other
    } | own


def _plain(text: str, most: int) -> str:
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))[:most]
