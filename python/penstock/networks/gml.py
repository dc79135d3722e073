"""Places from a graph of Shadow 2 or 3 in GML: each node is a place.

Source: Shadow, network graph specification. The jitter of an edge has no effect there. Loss is a fact of edges alone.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.networks import graph as graphs
from penstock.networks.internet import Edge, Internet, Place, decimal, join, name, unique

_BITS = {
    **dict.fromkeys(("", "bit", "bits"), 1.0),
    **dict.fromkeys(("K", "kilobit", "kilobits", "Kbit", "kbit"), 1e3),
    **dict.fromkeys(("M", "megabit", "megabits", "Mbit"), 1e6),
    **dict.fromkeys(("G", "gigabit", "gigabits", "Gbit"), 1e9),
    **dict.fromkeys(("Kibit", "kibibit", "kibibits"), 1024.0),
    **dict.fromkeys(("Mibit", "mebibit", "mebibits"), 1024.0**2),
    **dict.fromkeys(("Gibit", "gibibit", "gibibits"), 1024.0**3),
}
"""The units of bandwidth in bits per second."""


def read(data: bytes, path: Path) -> Internet:
    """The places of a graph, with the latency and loss of its edges."""
    graph = graphs.parse(data, path)
    document = graphs.Document(path, data)
    ids = [str(node) for node in graph.nodes]
    places = [_place(node, facts, document) for node, facts in graph.nodes(data=True)]
    edges: dict[tuple[str, str], Edge] = {}
    for one, other, facts in graph.edges(data=True):
        wrong = partial(document.edge, one, other)

        loss = decimal(facts.get("packet_loss", 0))
        if loss is None or not 0 <= loss < 1:
            wrong(f"the packet_loss is {str(facts.get('packet_loss'))[:40]!r}; it must be a number from 0 to below 1")
        found = Edge(max(graphs.latency_of(facts, wrong), 0.001), 0.0, loss)
        pair = str(one), str(other)
        for ends in [pair] if graph.is_directed() else [pair, pair[::-1]]:
            if ends not in edges or found.latency < edges[ends].latency:
                edges[ends] = found
    internet = join(places, edges, path, spares_acks=True, ids=ids)
    return replace(internet, places=unique(internet.places, path))


def _place(node: Any, facts: Mapping[str, Any], document: graphs.Document) -> Place:
    def link(key: str) -> int | None:
        value = facts.get(key)
        if value is None:
            return None
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", str(value))
        scale = _BITS.get(found[2]) if found else None
        if not found or scale is None or not float(found[1]):
            document.node(node, key, f'the {key} is {str(value)[:40]!r}; it must be a rate, like "10 Mbit"')
        return max(1, int(float(found[1]) * scale / 8))

    links = link("host_bandwidth_down"), link("host_bandwidth_up")
    return Place(name(f"node-{node}"), graphs.country(node, facts, document) or "", *links, 0.0)
