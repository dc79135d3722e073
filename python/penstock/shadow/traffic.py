"""Graphs of tgen, which repeat the workloads of a client in a closed loop."""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from penstock._types import SampledClient, SampledWorkload

PORT = 80
"""The port of tgen's servers."""

LEAST_PAUSE_S = 0.001
"""The least pause [s]. Without a pause, tgen would retry a failed download immediately and without end."""

KEYS = ("serverport", "peers", "socksproxy", "loglevel", "heartbeat", "time", "timeout", "stallout", "sendsize")
KEYS_OF_STREAMS = ("recvsize", "socksusername", "sockspassword", "socksauthseed")

Attributes = dict[str, str]


def server() -> str:
    """The graph of a server."""
    return _document([("start", {"serverport": str(PORT), "heartbeat": "0"})], [])


def vertex(workload: int, circuit: int, size: int = 0) -> str:
    """The name of a download in tgen's graph and log: its workload, circuit and size by number."""
    return f"stream-{workload}-{circuit}-{size}"


def client(client: SampledClient, workloads: Sequence[SampledWorkload], peers: Sequence[str], proxy: str | None) -> str:
    """The graph of a client: for each circuit, a pause until the start, then downloads and pauses.

    Args:
        client: the client.
        workloads: all workloads of the scenario.
        peers: the addresses of the client's servers.
        proxy: the address of the client's Tor; none for a client without Tor.
    """
    # tgen looks for timeouts only at its heartbeats.
    start = {"peers": ",".join(peers), "heartbeat": "1 second", "stallout": "0", "sendsize": "0"}
    if proxy is not None:
        start["socksproxy"] = proxy
    nodes: list[tuple[str, Attributes]] = [("start", start)]
    edges: list[tuple[str, str, float | None]] = []
    for number in client["workloads"]:
        workload = workloads[number]
        begin = workload["start_s"] if client["start_s"] is None else client["start_s"]
        for circuit in range(workload["circuits"]):
            first, pause = f"pause-first-{number}-{circuit}", f"pause-{number}-{circuit}"
            nodes += [(first, {"time": _times(begin)}), (pause, {"time": _times(workload["pause_s"])})]
            edges.append(("start", first, None))
            for index, (share, size) in enumerate(workload["sizes"]):
                name = vertex(number, circuit, index)
                nodes.append((name, _stream(client, workload, number, circuit, index, size, proxied=proxy is not None)))
                weight = share if len(workload["sizes"]) > 1 else None
                edges += [(first, name, weight), (pause, name, weight), (name, pause, None)]
    return _document(nodes, edges)


def _stream(
    client: SampledClient, workload: SampledWorkload, number: int, circuit: int, index: int, size: int, *, proxied: bool
) -> Attributes:
    timeout = workload["timeout_s"]
    stream = {"recvsize": f"{size} bytes", "timeout": "0" if timeout is None else _time(timeout)}
    if proxied and workload["fresh_circuit"]:
        # tgen has a generator of names for each vertex; equal seeds would give equal names, and so shared circuits.
        before = number * workload["circuits"] * len(workload["sizes"])
        stream["socksauthseed"] = str(1 + before + circuit * len(workload["sizes"]) + index)
    elif proxied:
        # Streams with the same name and password share a circuit.
        own = client["isolate"] or workload["circuits"] > 1
        stream["socksusername"] = f"workload{number}circuit{circuit}" if own else "shared"
        stream["sockspassword"] = "x"
    return stream


def _times(values: Sequence[float]) -> str:
    return ",".join(_time(value) for value in values)


def _time(seconds: float) -> str:
    return f"{round(max(seconds, LEAST_PAUSE_S) * 1e6)} microseconds"


def _document(nodes: Sequence[tuple[str, Attributes]], edges: Sequence[tuple[str, str, float | None]]) -> str:
    keys = (*KEYS, *KEYS_OF_STREAMS)
    used = {key for _, attributes in nodes for key in attributes}
    lines = ['<?xml version="1.0" encoding="utf-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += [f'  <key id="{key}" for="node" attr.name="{key}" attr.type="string"/>' for key in keys if key in used]
    if any(weight is not None for *_, weight in edges):
        lines.append('  <key id="weight" for="edge" attr.name="weight" attr.type="string"/>')
    lines.append('  <graph edgedefault="directed">')
    for name, attributes in nodes:
        lines.append(f"    <node id={quoteattr(name)}>")
        lines += [f'      <data key="{key}">{escape(value)}</data>' for key, value in attributes.items()]
        lines.append("    </node>")
    for source, target, weight in edges:
        ends = f"<edge source={quoteattr(source)} target={quoteattr(target)}"
        share = "/>" if weight is None else f'><data key="weight">{weight!r}</data></edge>'
        lines.append(f"    {ends}{share}")
    return "\n".join([*lines, "  </graph>", "</graphml>"]) + "\n"
