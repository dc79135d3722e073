"""Relays, clients and servers from Shadow's hosts: `shadow.config.xml` of Shadow 1.6 to 1.9, `hosts.xml` up to 1.5.

Source: Shadow 1.9.0 and 1.5.0, `shd-parser.c` and the plug-in scallion, whose first arguments are the role and the
consensus weight [kB/s]. In 1.5.0 the token bucket follows, in 1.9.0 it is in `--BandwidthRate` and `--BandwidthBurst`.
`shd-topology.c`: a host without a bandwidth has that of its place. A host whose country the graph lacks can be
anywhere.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from penstock.errors import PenstockError
from penstock.networks import xml
from penstock.networks.internet import Place
from penstock.networks.relays import MOST, Relay, Source
from penstock.networks.xml import Element

LARGEST = 256 << 20
"""The largest accepted file [B]; the largest of Shadow's own has 3 MiB."""

DIGITS = 18
"""The largest accepted number of digits."""

ROLES = {"dirauth": "relay", "relay": "relay", "exitrelay": "relay", "client": "client"}
"""The first argument of Tor's plug-in, and the kind of node."""


@dataclass(frozen=True)
class Group:
    """Clients or servers whose names differ only in their number."""

    name: str
    places: Counter[str]
    """The number of nodes by place."""
    down: list[int | None]
    """The receiving rates [B/s]; none is that of the place."""
    up: list[int | None]


@dataclass
class Hosts:
    """The hosts of one file."""

    relays: Source
    clients: dict[str, Group] = field(default_factory=dict)
    servers: dict[str, Group] = field(default_factory=dict)


@dataclass(frozen=True)
class _Node:
    element: Element
    id: str
    role: str
    """The first argument of Tor's plug-in, or `server`."""
    words: list[str]
    """The arguments of Tor's plug-in."""
    place: str


def read(data: bytes, path: Path, places: Sequence[Place], seed: int) -> Hosts:
    """The hosts of a file, at the places of a graph."""
    root = xml.read(data, path)
    if root.name not in ("shadow", "hosts"):
        root.wrong(f"these are not hosts of Shadow: it begins with <{root.name}>; it must be <shadow> or <hosts>")
    lost: list[str] = []
    nodes = list(_nodes(root, places, seed, lost))
    relays = [node for node in nodes if ROLES.get(node.role) == "relay"]
    has_guards = any("guard" in node.id for node in relays)
    found = [_relay(node) for node in relays]
    notes = [f"{path.name}, {len(found)} relays, with the links, token buckets and weights of its hosts"]
    if not has_guards:
        found = _guards(found, {node.id for node in relays if node.role == "dirauth"})
        notes.append("guards are the relays whose bandwidth is at least the median, as authorities decide")
    authorities = sum(node.role == "dirauth" for node in relays)
    notes += [f"authorities, neither guards nor exits: {authorities}"] if authorities else []
    if lost:
        unknown = ", ".join(sorted(set(lost)))
        notes.append(f"hosts at random places, since the graph does not have theirs ({unknown}): {len(lost)}")
    hosts = Hosts(Source(found, notes))
    for kind, groups in (("client", hosts.clients), ("server", hosts.servers)):
        for node in nodes:
            if ROLES.get(node.role, "server") == kind:
                _join(groups, node)
        for group in groups.values():
            _check_mixed(group, path)
    return hosts


def _nodes(root: Element, places: Sequence[Place], seed: int, lost: list[str]) -> Iterator[_Node]:
    rng = random.Random(f"{seed}/places")  # noqa: S311
    software = {each.need("id"): each for each in root.each("software")}
    names = {place.name for place in places}
    codes: dict[str, list[str]] = {}
    for place in places:
        codes.setdefault(place.code.upper(), []).append(place.name)
    elements = list(root.each("node", "host"))
    if not elements:
        root.wrong("there is no <node>; a file of hosts has one for each host or group of hosts")
    for element in elements:
        applications = [_words(each) for each in element.each("application", "process")]
        if (soft := element.facts.get("software")) is not None:
            if soft not in software:
                element.wrong(f"there is no software {soft!r}; it must be the id of a <software>")
            applications.append(_words(software[soft]))
        tor = next((words for words in applications if words[:1] and words[0] in ROLES and words[1:2] != ["multi"]), [])
        serves = any(words[:1] == ["server"] for words in applications)
        if not tor and not serves:
            continue
        wanted = element.facts.get("cluster", element.facts.get("geocodehint", ""))
        quantity = _number(element, "quantity", 1, 1_000_000)
        for number in range(1, quantity + 1):
            id_ = element.need("id") + (str(number) if quantity > 1 else "")
            here = [wanted] if wanted in names else codes.get(wanted.upper(), [])
            if not here:
                lost.append(wanted or "of theirs")
                here = [place.name for place in places]
            yield _Node(element, id_, tor[0] if tor else "server", tor, rng.choice(here))


def _words(element: Element) -> list[str]:
    return element.facts.get("arguments", "").split()


def _relay(node: _Node) -> Relay:
    words = node.words
    named = dict(pairwise(words))
    if len(words) < 2:
        node.element.wrong(f"the arguments of {node.id} have no weight; they must begin with a role and a weight")
    weight = _size(node, words[1], "weight")
    if "--BandwidthRate" in named:
        rate, burst = (_size(node, named.get(key, ""), key) for key in ("--BandwidthRate", "--BandwidthBurst"))
    elif len(words) > 3 and words[2].isdecimal() and words[3].isdecimal():
        rate, burst = (_size(node, word, "rate") for word in words[2:4])
    else:
        rate, burst = 0, 0
    down, up = (_link(node, fact) for fact in ("bandwidthdown", "bandwidthup"))
    return Relay(
        node.id,
        guard="guard" in node.id,
        exit=node.role == "exitrelay",
        weight=min(MOST, max(1, weight) * 1000),
        link=down or 0,
        link_up=up or 0,
        rate=rate or None,
        burst=max(rate, burst) if rate else None,
        place=node.place,
        number=False,
    )


def _guards(relays: list[Relay], authorities: set[str]) -> list[Relay]:
    """Gives the flag Guard as authorities do: to the half of the relays with more bandwidth, and from 250 KiB/s on.

    Source: C tor 0.2.3 `dirserv_compute_performance_thresholds()`, `AuthDirGuardBWGuarantee` (250 KB, which
    C tor reads as 250 * 1024 B).
    """
    bandwidths = [min(relay.link_up or relay.link, relay.link, relay.rate or relay.link) for relay in relays]
    least = min(median(bandwidths), 250 * 1024) if bandwidths else 0
    return [
        replace(relay, guard=bandwidth >= least and relay.nickname not in authorities)
        for relay, bandwidth in zip(relays, bandwidths, strict=True)
    ]


def _join(groups: dict[str, Group], node: _Node) -> None:
    base = re.sub(r"[^A-Za-z0-9_-]", "-", re.sub(r"\d+$", "", node.id))
    name = re.sub(r"client", "", base) or base or "hosts"
    group = groups.setdefault(name, Group(name, Counter(), [], []))
    group.places[node.place] += 1
    group.down.append(_link(node, "bandwidthdown"))
    group.up.append(_link(node, "bandwidthup"))


def _check_mixed(group: Group, path: Path) -> None:
    for fact, rates in (("bandwidthdown", group.down), ("bandwidthup", group.up)):
        if any(rates) and not all(rates):
            raise PenstockError(
                f"{path}: some hosts of the group {group.name} have a {fact} and others do not; "
                f"give each of them a {fact}, or give the others names of their own"
            )


def _link(node: _Node, fact: str) -> int | None:
    kib = _number(node.element, fact, 0, MOST >> 10)
    return kib * 1024 or None


def _number(element: Element, fact: str, default: int, most: int) -> int:
    text = element.facts.get(fact)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > DIGITS or int(text) > most:
        element.wrong(f"the {fact} is {text[:40]!r}; it must be a whole number up to {most}")
    return int(text)


def _size(node: _Node, text: str, what: str) -> int:
    if not text.isdecimal() or len(text) > DIGITS:
        node.element.wrong(f"the {what} of {node.id} is {text[:40]!r}; it must be a whole number up to {MOST}")
    return min(MOST, int(text))


def place_table(places: Counter[str]) -> str:
    """The value of the key `place` for a group."""
    if len(places) == 1:
        return f'"{next(iter(places))}"'
    return "{ " + ", ".join(f"{place} = {count}" for place, count in sorted(places.items())) + " }"


def links(group: Group) -> list[tuple[str, str]]:
    """The keys of a group's access links, with their TOML."""
    from penstock.networks.internet import rate

    if not any(group.down) and not any(group.up):
        return [("link", '"place"')]
    keys = []
    for key, rates in (("link_down", group.down), ("link_up", group.up)):
        known = sorted(one for one in rates if one is not None)
        if not known:
            keys.append((key, '"place"'))
        elif known[0] == known[-1]:
            keys.append((key, f'"{rate(known[0])}"'))
        else:
            steps = [known[round(step * (len(known) - 1) / 20)] for step in range(21)]
            keys.append((key, f'"quantiles({", ".join(map(rate, steps))})"'))
    return keys


def check(hosts: Hosts, path: Path) -> None:
    """Refuse a file without relays, clients and servers."""
    if not hosts.relays.relays and not hosts.clients and not hosts.servers:
        raise PenstockError(
            f"{path}: no host is a relay, client or server of the plug-ins scallion and filetransfer; "
            'give it hosts with arguments such as "relay 1310", "client 10240" or "server 80"'
        )
