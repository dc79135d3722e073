"""Writes a variant of a scenario as an experiment of Shadow 3 with C tor and tgen.

The directory has `shadow.yaml`, the graph `network.gml`, configurations in `conf`, the folders of hosts with their keys
in `template`, and `penstock.json`, which the import reads. Shadow runs in the directory: `shadow shadow.yaml`.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _core, catalog
from penstock._types import Sampled, SampledHost, SampledServer
from penstock.errors import OutputError, PenstockError, ScenarioError, naming
from penstock.shadow import keys, limits, torrc, traffic
from penstock.shadow.names import Names
from penstock.shadow.torrc import Node

FACTS = "penstock.json"
"""The file with everything that the import needs."""

BOOT_S = 300
"""The time from the start of Shadow to the start of the scenario [s]. The clients have built circuits by then."""

CLIENTS_S = 180
"""The time at which the first client starts its Tor [s]; the last one starts a minute later."""

AUTHORITIES = 3
"""The number of authorities. Fewer than three authorities do not vote about measured bandwidths."""

AUTHORITY_RATE = 125_000_000
"""The rate of an authority's access link [B/s]."""


@dataclass(frozen=True)
class Programs:
    """The programs of the export and of Shadow, as names in the search path or as paths."""

    tor: str = "tor"
    gencert: str = "tor-gencert"
    tgen: str = "tgen"

    def absolute(self) -> "Programs":
        """The same programs with absolute paths, because Shadow runs in another directory."""
        paths = (self.tor, self.gencert, self.tgen)
        return Programs(*(str(Path(each).expanduser().absolute()) if "/" in each else each for each in paths))


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    directory: Path
    hosts: int
    stop_s: int
    """The simulated time at which Shadow stops [s]."""
    notes: tuple[str, ...]
    """Sentences about parts of the scenario that Shadow replaces by its own."""


def export(
    scenario: str | Path,
    out: Path,
    *,
    variant: str | None = None,
    seed: int | None = None,
    sets: Sequence[str] = (),
    network: Path | None = None,
    programs: Programs | None = None,
) -> Exported:
    """Write one variant in one network.

    Args:
        scenario: a file, or the name of a shipped scenario.
        out: the new directory.
        variant: the variant; required if the scenario has several.
        seed: the seed of Shadow, and of the network unless `run.networks` has one; by default, the scenario's first.
        sets: overrides, `key=value` with TOML values.
        network: a network file.
        programs: the programs.

    Raises:
        PenstockError: if the scenario is wrong, Shadow cannot express it, or a program is missing.
    """
    programs = (programs or Programs()).absolute()
    name, document = catalog.load(scenario, tuple(sets), network, () if variant is None else (variant,))
    chosen = _variant(document, variant)
    seed = document.seeds()[0] if seed is None else seed
    networks = document.networks()
    sampled = document.sampled(chosen, (networks or [seed])[0])
    limits.check(sampled)
    with naming(out, "make"):
        if out.exists():
            raise OutputError(f"{out} exists; choose another --out")
        (out / "conf").mkdir(parents=True)
    experiment = _Experiment(out, sampled, seed, programs)
    try:
        experiment.write()
    except PenstockError:
        shutil.rmtree(out)
        raise
    facts = {
        "version": _core.version(),
        "scenario": {
            "name": name,
            "fingerprint": document.fingerprint(),
            **document.head(),
            "sets": list(sets),
            "variants": [
                {
                    "name": chosen,
                    "label": dict(document.variants())[chosen],
                    "resolved": document.resolved(chosen),
                    "optimistic": False,
                }
            ],
        },
        "typed": str(scenario),
        "variant": chosen,
        "network": str(networks[0]) if networks else "",
        "seed": seed,
        **experiment.facts(),
    }
    _write(out / FACTS, json.dumps(facts, indent=1) + "\n")
    return Exported(out, len(experiment.hosts), experiment.stop_s, tuple(_notes(sampled, networks)))


def _variant(document: _core.Document, asked: str | None) -> str:
    names = [name for name, _ in document.variants()]
    if asked is None and len(names) > 1:
        raise ScenarioError(f"the scenario has the variants {', '.join(names)}; choose one with --variant")
    if asked is not None and asked not in names:
        raise ScenarioError(f"there is no variant {asked!r}; the scenario has {', '.join(names)}")
    return asked or names[0]


def _notes(sampled: Sampled, networks: Sequence[int]) -> list[str]:
    notes = [
        "Shadow has its own TCP, which the profile shadow-3.3 models; of [tcp], only fixed buffer sizes have an effect"
    ]
    kist = any(relay["tor"]["scheduler"] == "kist-deployed" for relay in sampled["relays"])
    if kist and not any(loss for _, _, _, _, loss, *_ in sampled["edges"]):
        notes.append("without loss, congestion windows in Shadow grow without end, so KIST limits nothing")
    if networks:
        others = f"; choose another with --set run.networks=[{networks[1]}]" if networks[1:] else ""
        notes.append(f"run.networks chooses network {networks[0]}, and the seed changes only Shadow{others}")
    if sampled["run"]["stops_early"]:
        notes.append("the run lasts for the whole run.duration, because Shadow does not count downloads")
    if any(delay < 0.001 for _, _, delay, *_ in sampled["edges"]):
        notes.append("Shadow rounds delays below 1 ms up to about 1 ms")
    return notes


class _Experiment:
    """The files of an experiment."""

    def __init__(self, out: Path, sampled: Sampled, seed: int, programs: Programs) -> None:
        self.out = out
        self.sampled = sampled
        self.seed = seed
        self.programs = programs
        self.stop_s = BOOT_S + int(-(-sampled["run"]["duration_s"] // 1))
        names = Names()
        self.authority_hosts = [names.take(f"authority{number}") for number in range(1, AUTHORITIES + 1)]
        self.relay_hosts = [names.take(relay["name"]) for relay in sampled["relays"]]
        self.client_hosts = [names.take(client["name"]) for client in sampled["clients"]]
        self.server_hosts = [names.take(server["name"]) for server in sampled["servers"]]
        self.hosts: dict[str, str] = {}
        self.graphs: dict[str, str] = {}
        self.nodes: dict[tuple[int, int, int], int] = {}
        """The number of the graph's node for each place and its rates, down and up [B/s]."""

    def write(self) -> None:
        """Write all files."""
        authorities, relays = self._keys()
        self.relays = relays
        sampled = self.sampled
        template, conf = self.out / "template" / "hosts", self.out / "conf"
        guards, exits = self._flags()
        shared = torrc.common(authorities)
        _write(conf / "common.torrc", shared)
        _write(conf / "resolv.conf", "nameserver 127.0.0.1\n")
        _write(conf / "bandwidths", torrc.bandwidths(sampled, relays, authorities))
        parameters = torrc.parameters(sampled["relays"][0]["tor"])
        names = ([relays[place].fingerprint for place in sorted(places)] for places in (guards, exits))
        guard_names, exit_names = names
        for number, node in enumerate(authorities):
            text = torrc.authority(node, parameters, guard_names, exit_names)
            self._tor_host(template, node.name, text, address=node.address, start_s=1 + number)
        # C tor would refuse a fixed path with two relays of a family, and Penstock's clients do not.
        is_fixed = any(client["path"] == "fixed" for client in sampled["clients"])
        for place, (node, relay) in enumerate(zip(relays, sampled["relays"], strict=True)):
            family = [] if is_fixed else [relays[other].fingerprint for other in relay["family"]]
            text = torrc.relay(node, relay, sampled["run"]["sample_s"], exits=place in exits, family=family)
            # The relays reach the authorities before the first vote.
            self._tor_host(template, node.name, text, relay, address=node.address, start_s=5 + place % 20)
        _write(conf / "server.graphml", traffic.server())
        for place, (name, server) in enumerate(zip(self.server_hosts, sampled["servers"], strict=True)):
            self._add(name, server, _address(3, place), [self._tgen("server.graphml", BOOT_S - 20)])
        for place, (name, client) in enumerate(zip(self.client_hosts, sampled["clients"], strict=True)):
            peers = [f"{_address(3, server)}:{traffic.PORT}" for server in client["servers"]]
            proxy = None if client["path"] == "direct" else f"127.0.0.1:{torrc.SOCKS_PORT}"
            graph = self._conf(client["group"], traffic.client(client, sampled["workloads"], peers, proxy))
            processes = [self._tgen(graph, BOOT_S)]
            if proxy is not None:
                _write(template / name / "torrc", torrc.client(client, relays))
                start_s = CLIENTS_S + place * 60 // len(self.client_hosts)
                processes.insert(0, self._tor(start_s))
            self._add(name, client, _address(2, place), processes)
        _write(self.out / "network.gml", self._graph())
        _write(self.out / "shadow.yaml", self._yaml())

    def facts(self) -> dict[str, Any]:
        """The names and weights that the import needs."""
        guards, exits = self._flags()
        sampled = self.sampled
        return {
            "boot_s": BOOT_S,
            "duration_s": sampled["run"]["duration_s"],
            "warmup_s": sampled["run"]["warmup_s"],
            "sample_s": max(1, round(sampled["run"]["sample_s"])),
            "relays": [
                {
                    "name": relay["name"],
                    "host": node.name,
                    "fingerprint": node.fingerprint,
                    "weight": relay["weight"],
                    "guard": place in guards,
                    "exit": place in exits,
                }
                for place, (relay, node) in enumerate(zip(sampled["relays"], self.relays, strict=True))
            ],
            "clients": [
                {"name": client["name"], "host": host, "direct": client["path"] == "direct"}
                for client, host in zip(sampled["clients"], self.client_hosts, strict=True)
            ],
            "authorities": self.authority_hosts,
            "logs": {"tor": Path(self.programs.tor).name, "tgen": Path(self.programs.tgen).name},
            "workloads": [workload["name"] for workload in sampled["workloads"]],
        }

    def _flags(self) -> tuple[set[int], set[int]]:
        """The relays with the flags Guard and Exit. Without sampled paths, these are the ends of the fixed paths."""
        relays, clients = self.sampled["relays"], self.sampled["clients"]
        if any(client["path"] == "tor" for client in clients):
            return {place for place, relay in enumerate(relays) if relay["guard"]}, {
                place for place, relay in enumerate(relays) if relay["exit"]
            }
        fixed = [client["relays"] for client in clients if client["path"] == "fixed"]
        return {path[0] for path in fixed}, {path[-1] for path in fixed}

    def _keys(self) -> tuple[list[Node], list[Node]]:
        """Generate the keys of authorities and relays, several at the same time."""
        programs = self.programs
        template = self.out / "template" / "hosts"

        def authority(number: int, name: str) -> Node:
            address = f"100.0.0.{number + 1}"
            v3ident = keys.authority(programs.gencert, template / name, f"{address}:{torrc.DIR_PORT}")
            return Node(name, address, keys.relay(programs.tor, template / name), v3ident)

        def relay(number: int, name: str) -> Node:
            return Node(name, _address(1, number), keys.relay(programs.tor, template / name))

        jobs: list[tuple[Callable[[int, str], Node], int, str]] = [
            *((authority, number, name) for number, name in enumerate(self.authority_hosts)),
            *((relay, number, name) for number, name in enumerate(self.relay_hosts)),
        ]
        with ThreadPoolExecutor(max_workers=_core.cores()) as pool:
            nodes = list(pool.map(lambda job: job[0](job[1], job[2]), jobs))
        return nodes[:AUTHORITIES], nodes[AUTHORITIES:]

    def _conf(self, group: str, graph: str) -> str:
        """The name of the file with this graph, which clients with the same graph share."""
        if graph not in self.graphs:
            stem = re.sub(r"[^a-z0-9-]", "-", group.lower())
            self.graphs[graph] = f"{stem}-{len(self.graphs) + 1}.graphml"
            _write(self.out / "conf" / self.graphs[graph], graph)
        return self.graphs[graph]

    def _tor_host(
        self, template: Path, name: str, text: str, host: SampledHost | None = None, *, address: str, start_s: int
    ) -> None:
        _write(template / name / "torrc", text)
        self._add(name, host, address, [self._tor(start_s)])

    def _add(self, name: str, host: SampledHost | SampledServer | None, address: str, processes: list[str]) -> None:
        # A host of Shadow 3.3.0 with its own rates sends at its receiving rate, so the node in the graph has the rates.
        authority = 0, AUTHORITY_RATE, AUTHORITY_RATE
        key = authority if host is None else (host["place"], host["link_down"], host["link_up"])
        lines = [
            f"  {_quoted(name)}:",
            f"    network_node_id: {self.nodes.setdefault(key, len(self.nodes))}",
            f"    ip_addr: {address}",
            "    processes:",
            *processes,
        ]
        self.hosts[name] = "\n".join(lines)

    def _tor(self, start_s: int) -> str:
        arguments = "--defaults-torrc ../../../conf/common.torrc -f torrc"
        return _process(self.programs.tor, arguments, start_s)

    def _tgen(self, graph: str, start_s: int) -> str:
        return _process(self.programs.tgen, f"../../../conf/{graph}", start_s)

    def _yaml(self) -> str:
        sampled = self.sampled
        hosts = [*sampled["relays"], *sampled["clients"], *sampled["servers"]]
        send, receive = hosts[0]["send_buffer"], hosts[0]["receive_buffer"]
        # The sockets of Linux take turns at an interface. Shadow's default is the order of writes.
        experimental = ["  interface_qdisc: round-robin"]
        for name, size in (("send", send), ("recv", receive)):
            if size is not None:
                experimental += [f"  socket_{name}_buffer: {size} B", f"  socket_{name}_autotune: false"]
        lines = [
            "general:",
            f"  stop_time: {self.stop_s} s",
            f"  bootstrap_end_time: {BOOT_S - 30} s",
            f"  seed: {self.seed % 2**32}",
            "  parallelism: 1",
            "  template_directory: template",
            "  data_directory: shadow.data",
            "network:",
            "  use_shortest_path: false",
            "  graph:",
            "    type: gml",
            "    file:",
            "      path: network.gml",
            "experimental:",
            *experimental,
            "hosts:",
            *(self.hosts[name] for name in sorted(self.hosts)),
        ]
        return "\n".join(lines) + "\n"

    def _graph(self) -> str:
        facts = {(source, target): (delay, loss) for source, target, delay, _, loss, *_ in self.sampled["edges"]}
        directed = any(facts[target, source] != value for (source, target), value in facts.items())
        lines = ["graph [", f"  directed {int(directed)}"]
        for (_, down, up), node in self.nodes.items():
            rates = {"host_bandwidth_down": f'"{down * 8} bit"', "host_bandwidth_up": f'"{up * 8} bit"'}
            lines += _item("node", id=node, **rates)
        for (source, *_), start in self.nodes.items():
            for (target, *_), end in self.nodes.items():
                if directed or start <= end:
                    delay, loss = facts[source, target]
                    latency = f'"{max(1, round(delay * 1e9))} ns"'
                    lines += _item("edge", source=start, target=end, latency=latency, packet_loss=repr(loss))
        return "\n".join([*lines, "]"]) + "\n"


def _item(kind: str, **values: int | str) -> list[str]:
    """A node or an edge. Shadow needs each key on a line of its own."""
    return [f"  {kind} [", *(f"    {key} {value}" for key, value in values.items()), "  ]"]


def _address(network: int, place: int) -> str:
    """The address of a relay (network 1), client (2) or server (3)."""
    if place >= 250 * 250:
        raise PenstockError(f"the export supports {250 * 250} relays, clients and servers each")
    return f"11.{network}.{place // 250}.{place % 250 + 1}"


def _process(path: str, arguments: str, start_s: int) -> str:
    lines = [
        f"    - path: {_quoted(path)}",
        f"      args: {_quoted(arguments)}",
        '      environment: { OPENBLAS_NUM_THREADS: "1", TZ: "UTC" }',
        f"      start_time: {start_s}",
        "      expected_final_state: running",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A string of YAML, of which strings of JSON are a part."""
    return json.dumps(text)


def _write(path: Path, text: str) -> None:
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
