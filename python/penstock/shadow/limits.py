"""Finds the parts of a scenario that Shadow with C tor and tgen cannot express."""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock._types import Sampled, SampledHost, SampledTor
from penstock.errors import PenstockError

LEAST_RATE = 75 * 1024
"""The least BandwidthRate of a relay of C tor [B/s] (`RELAY_REQUIRED_MIN_BANDWIDTH`)."""

WINDOWS = range(100, 1001)
"""The consensus parameter `circwindow` [cell] (`CIRCWINDOW_START_MIN`, `CIRCWINDOW_START_MAX`)."""

STREAM_WINDOW = 500
"""C tor's stream window, which is fixed [cell]."""

QUEUES = range(1000, 2**31)
"""The consensus parameter `circ_max_cell_queue_size` [cell]."""

MOST_NODES = 3000
"""The maximum number of nodes of the graph, which are places with their rates; its edges are the pairs of nodes."""

MOST_NAMED = 4
"""The maximum number of obstacles that a message lists."""


def check(sampled: Sampled) -> None:
    """Refuse a variant that Shadow with C tor and tgen cannot express.

    Raises:
        PenstockError: with the parts of the scenario that have no counterpart.
    """
    found = list(dict.fromkeys(_obstacles(sampled)))
    if found:
        more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        listed = "; ".join(found[:MOST_NAMED])
        raise PenstockError(f"Shadow with C tor and tgen cannot express this scenario: {listed}{more}")


def _obstacles(sampled: Sampled) -> Iterator[str]:
    for relay in sampled["relays"]:
        yield from _of_tor(f"relays.{relay['group']}", relay["tor"], relay=True)
    for client in sampled["clients"]:
        if client["path"] != "direct":
            yield from _of_tor(f"clients.{client['group']}", client["tor"], relay=False)
    yield from _of_circuits(sampled)
    yield from _of_traffic(sampled)
    yield from _of_network(sampled)
    yield from _of_consensus(sampled)


def _of_tor(place: str, tor: SampledTor, *, relay: bool) -> Iterator[str]:
    """Mechanisms that C tor 0.4.9 lacks."""
    if tor["circuit_policy"] != "ewma":
        yield f"{place} has circuit_policy = {tor['circuit_policy']!r}, and C tor has only EWMA"
    if tor["scheduler"] not in ("vanilla", "kist-deployed", "kist-lite"):
        yield f"{place} has scheduler = {tor['scheduler']!r}; C tor has vanilla, kist-deployed and kist-lite"
    if tor["edge_control"] not in ("windows", "vegas"):
        yield f"{place} has edge_control = {tor['edge_control']!r}; C tor has windows and vegas"
    if tor["edge_control"] == "windows":
        if tor["circuit_window"] not in WINDOWS:
            yield f"{place} has a circuit_window of {tor['circuit_window']} cells; C tor has 100 to 1000"
        if tor["stream_window"] != STREAM_WINDOW:
            yield f"{place} has a stream_window other than C tor's 500 cells"
        if tor["odd_sendmes"]:
            yield f"{place} sends SENDMEs at other times than C tor"
    if tor["hop_control"] != "none" or tor["datagrams"]:
        name = tor["hop_control"] if tor["hop_control"] != "none" else "datagrams"
        yield f"{place} has {name}, which C tor lacks"
    if tor["throttle"] not in ("none", "static") or tor["client_by_address"]:
        yield f"{place} has throttle = {tor['throttle']!r} with buckets that C tor lacks"
    if tor["channel_map"] != "shared":
        yield f"{place} has channel_map = {tor['channel_map']!r}, and C tor has only shared channels"
    if tor["ecn_threshold"] is not None:
        yield f"{place} marks cells (ecn_threshold), which C tor does not"
    if tor["worse_class"]:
        yield f"{place} has a priority class, which C tor lacks"
    if tor["max_circuit_queue"] not in QUEUES:
        yield f"{place} has a max_circuit_queue below C tor's minimum of 1000 cells"
    if not relay and tor["conflux"]:
        yield f"{place} has conflux, but exports switch Conflux off; add --set client.conflux=false"
    if not relay and tor["optimistic_data"]:
        yield f"{place} has optimistic_data, but tgen waits for CONNECTED; add --set client.optimistic_data=false"
    yield from _of_buckets(place, tor, relay=relay)


def _of_buckets(place: str, tor: SampledTor, *, relay: bool) -> Iterator[str]:
    limited = tor["bandwidth"] is not None or tor["throttle"] == "static"
    if limited and (tor["unblock_s"] is None or tor["refill_s"] != 0.016):
        yield (
            f"{place} refills its buckets at other times than C tor; "
            "add --set relay.refill='16 ms' --set relay.refill_unblock='100 ms'"
        )
    if tor["bandwidth"] is not None:
        rate, burst = tor["bandwidth"]
        if relay and rate < LEAST_RATE:
            yield f"{place} has a bandwidth_rate of {rate} B/s, and relays of C tor need at least {LEAST_RATE} B/s"
        if burst < rate:
            yield f"{place} has a bandwidth_burst below one second's bandwidth_rate, which C tor refuses"


def _of_circuits(sampled: Sampled) -> Iterator[str]:
    samples = any(client["path"] == "tor" for client in sampled["clients"])
    for client in sampled["clients"]:
        place = f"clients.{client['group']}"
        if client["at_entry"]:
            yield f"{place} is at its entry, and clients of C tor have a host of their own; set at = 'host'"
        match client["path"]:
            case "weighted":
                yield f"{place} samples relays by weight alone; C tor weights them by position (path = 'tor')"
            case "fixed" if len(client["relays"]) != 3:
                yield f"{place} has a path of {len(client['relays'])} relays; C tor's circuits have three"
            case "fixed" if samples:
                entry, exit_ = (sampled["relays"][client["relays"][position]] for position in (0, 2))
                if not (entry["guard"] and exit_["exit"]):
                    yield f"{place} has a path whose ends lack the flags Guard and Exit, which other clients consider"
        lifetime = client["circuit_lifetime_s"]
        if lifetime is not None and lifetime < 10:
            yield f"{place} has a circuit_lifetime below C tor's 10 s"
        if client["learns_as_tor"] is False:
            yield f"{place} learns its build timeout with other parameters than C tor; set build_timeout = 'adaptive'"


def _of_traffic(sampled: Sampled) -> Iterator[str]:
    for workload in sampled["workloads"]:
        if workload["does"] == "tgen":
            yield f"workloads.{workload['name']} follows Markov models, which the export does not write"
        elif workload["does"] != "download":
            yield f"workloads.{workload['name']} holds circuits without traffic, which tgen cannot"
    for server in sampled["servers"]:
        if server["thinks"]:
            yield f"servers.{server['group']} has a think_time, and tgen's servers answer immediately"


def _of_network(sampled: Sampled) -> Iterator[str]:
    if sampled["run"]["changes"]:
        yield "[[changes]] change settings during the run"
    kinds: dict[str, Sequence[SampledHost]] = {
        "relays": sampled["relays"],
        "clients": sampled["clients"],
        "servers": sampled["servers"],
    }
    hosts: list[SampledHost] = []
    for kind, members in kinds.items():
        hosts += members
        for host in members:
            if host["link_queue"] is not None:
                yield f"{kind}.{host['group']} has a link_queue, but Shadow's queue has a fixed discipline"
            if host["cpu"]:
                yield f"{kind}.{host['group']} has a cpu, and Shadow's processors take no time"
    buffers = {
        "send_buffer": {host["send_buffer"] for host in hosts},
        "receive_buffer": {host["receive_buffer"] for host in hosts},
    }
    for key, sizes in buffers.items():
        if len(sizes) > 1:
            yield f"hosts differ in {key}, and Shadow has one {key} for all sockets"
    for _, _, _, jitter, _, spares, uneven in sampled["edges"]:
        if jitter:
            yield "the network has jitter, and Shadow's links have a constant latency"
        if spares:
            yield "loss spares ACKs (loss_of), but Shadow loses packets of all kinds"
        if uneven:
            yield "the network reorders or duplicates datagrams"
    nodes = {(host["place"], host["link_down"], host["link_up"]) for host in hosts}
    if len(nodes) > MOST_NODES:
        yield f"the hosts have {len(nodes)} pairs of place and rates, and a graph has at most {MOST_NODES}"


def _of_consensus(sampled: Sampled) -> Iterator[str]:
    """Settings that are parameters of the consensus, and therefore the same at all nodes."""
    nodes: list[Any] = [relay["tor"] for relay in sampled["relays"]]
    nodes += [client["tor"] for client in sampled["clients"] if client["path"] != "direct"]
    for key in ("edge_control", "circuit_window", "vegas", "edge_queue", "max_circuit_queue"):
        if len({repr(tor[key]) for tor in nodes}) > 1:
            yield f"nodes differ in {key}, which is a parameter of the consensus in C tor"
