"""Compares each cell of two downloads over three relays between Shadow and the simulator.

    .venv/bin/python benches/references/shadow_cells.py --shadow S --tgen T --tor T [--gencert G] [--markdown PAGE]

`make reference-shadow-cells` calls it. In Shadow, a capture of each interface has the TLS records between two nodes.
The lengths of records are not encrypted, so their sum counts the cells. In a record of TLS 1.3, type and tag have 17
bytes, and each cell has 514 bytes. The first cell after the request is CONNECTED, and all others have data. In the
simulator, `cells.parquet` has the same times: a cell leaves a relay, or arrives at the client.

The criterion existed before the first comparison: the times from the request until a tenth, a half, nine tenths and all
cells have left a relay or reached the client differ by at most 20 % of Shadow's, or by 10 ms. The numbers of cells
differ by at most 5 %, because C tor also builds circuits in advance on the same connections.
"""

import argparse
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from rows import refuse
from shadow import Shadow, scenario, verdict

import penstock
from penstock import catalog, generated
from penstock.errors import PenstockError
from penstock.output import read_json
from penstock.shadow import export, imported
from penstock.shadow.export import BOOT_S, FACTS

CELL = 514
"""A cell of link protocol 4 and later [B]."""
HEADER, INNER = 5, 17
"""The header of a TLS record, and the type and tag inside it [B] (RFC 8446, section 5.2)."""
PARTS = (0.1, 0.5, 0.9, 1.0)
RATIO, LEAST_S, COUNT = 0.20, 0.010, 0.05
PCAP = 'host_option_defaults:\n  pcap_enabled: true\n  pcap_capture_size: "65535 B"\n'
HOPS = ("exit", "middle", "guard", "client")
PATH = ("entry", "middle", "exit")
"""The relays of `shadow-line.toml`."""

Times = dict[tuple[str, str], list[float]]
"""For each client and hop: the time from the request until each data cell has passed [s]."""


def packets(path: Path) -> Iterator[tuple[float, bytes]]:
    """The time since the start of Shadow [s] and the bytes of each IPv4 packet of a capture."""
    data = path.read_bytes()
    place = 24
    while place + 16 <= len(data):
        seconds, micros, captured, _ = struct.unpack_from("<IIII", data, place)
        yield seconds + micros * 1e-6, data[place + 16 : place + 16 + captured]
        place += 16 + captured


def plaintext(path: Path, source: str, target: str) -> list[tuple[float, int]]:
    """When each TLS record from one address to another was complete, and the bytes inside [s, B].

    Bytes of one connection count once, at the first packet that has them. Several connections are read one by one.
    """
    ends = tuple(bytes(map(int, each.split("."))) for each in (source, target))
    streams: dict[bytes, list[tuple[float, int, bytes]]] = {}
    for at, packet in packets(path):
        tcp = (packet[0] & 15) * 4
        payload = packet[tcp + (packet[tcp + 12] >> 4) * 4 :]
        if packet[12:16] == ends[0] and packet[16:20] == ends[1] and payload:
            (number,) = struct.unpack_from(">I", packet, tcp + 4)
            streams.setdefault(packet[tcp : tcp + 4], []).append((at, number, payload))
    return sorted(record for pieces in streams.values() for record in records(pieces))


def records(pieces: list[tuple[float, int, bytes]]) -> Iterator[tuple[float, int]]:
    """The application data of one direction of a connection; a record is complete when all earlier bytes are known.

    Shadow's TCP numbers packets, and not bytes.
    """
    following = pieces[0][1]
    stream, waiting = bytearray(), dict[int, bytes]()
    place = 0
    for at, number, payload in pieces:
        if number >= following:
            waiting[number] = payload
        while following in waiting:
            stream += waiting.pop(following)
            following += 1
        while place + HEADER <= len(stream):
            kind, length = stream[place], int.from_bytes(stream[place + 3 : place + 5])
            if place + HEADER + length > len(stream):
                break
            place += HEADER + length
            if kind == 23:
                yield at, length - INNER


def cells(done: list[tuple[float, int]], request: float, end: float) -> list[float]:
    """The times from the request until each data cell is complete [s]; the cell before the first one is CONNECTED."""
    found: list[float] = []
    whole = 0
    for at, size in done:
        if request <= at <= end:
            whole += size
            found += [at - request] * (whole // CELL - len(found))
    return found[1:]


def in_shadow(folder: Path, requests: dict[str, tuple[float, float]], path: list[str]) -> Times:
    """The times of cells in a finished run of Shadow with captures.

    Args:
        folder: the directory of the experiment.
        requests: for each client, the begin of its request and the end of its download [s from the scenario's start].
        path: the hosts of the relays, guard first.
    """
    addresses = dict(addresses_of(folder / "shadow.yaml"))
    hosts = folder / imported.DATA / "hosts"
    guard, middle, last = path
    times: Times = {}
    for client, (begin, end) in requests.items():
        for hop, source, target, where in (
            ("exit", last, middle, last),
            ("middle", middle, guard, middle),
            ("guard", guard, client, guard),
            ("client", guard, client, client),
        ):
            done = plaintext(hosts / where / "eth0.pcap", addresses[source], addresses[target])
            times[client, hop] = cells(done, begin + BOOT_S, end + BOOT_S + 1)
    return times


def addresses_of(path: Path) -> Iterator[tuple[str, str]]:
    """The name and address of each host."""
    name = ""
    for line in path.read_text().splitlines():
        if line.startswith('  "'):
            name = line.strip(' ":')
        elif line.strip().startswith("ip_addr:"):
            yield name, line.partition(":")[2].strip()


def in_simulator(out: Path, variant: str) -> Times:
    """The times of cells in a run of the simulator."""
    tables = {name: pl.read_parquet(out / f"{name}.parquet").filter(variant=variant) for name in ("cells", "transfers")}
    times: Times = {}
    for row in tables["transfers"].iter_rows(named=True):
        # As in Shadow, the request is the one on a stream that exists: tgen waits for CONNECTED.
        begin = row["start_s"]
        for hop in HOPS:
            column = "nic_in_ns" if hop == "client" else "nic_out_ns"
            rows = tables["cells"].filter(circuit=row["circuit"], hop=hop)
            times[row["client"], hop] = sorted((rows[column] * 1e-9 - begin).to_list())
    return times


HEAD = ("variant", "client", "place", "cells: Shadow", "Penstock",
        *(f"{100 * part:.0f} %: Shadow, Penstock [s]" for part in PARTS), "verdict")  # fmt: skip


def table(variant: str, theirs: Times, ours: Times) -> list[list[str]]:
    """A line for each client and hop."""
    lines = []
    for (client, hop), there in theirs.items():
        here = ours[client, hop]
        if not there:
            refuse(f"shadow: {variant}: the capture has no cell that passes {hop} for {client}")
        pairs = [(at(there, part), at(here, part)) for part in PARTS]
        holds = all(abs(right - left) <= max(RATIO * left, LEAST_S) for left, right in pairs)
        holds &= abs(len(here) / len(there) - 1) <= COUNT
        shown = [f"{left:.3f}, {right:.3f}" for left, right in pairs]
        lines.append([variant, client, hop, str(len(there)), str(len(here)), *shown, verdict(holds)])
    return lines


def at(times: list[float], part: float) -> float:
    """The time when a part of all cells has passed [s]."""
    return times[max(0, round(part * len(times)) - 1)]


def main() -> int:
    """Run both worlds, and print the table."""
    parser = argparse.ArgumentParser(description="Shadow with C tor as the reference for each cell")
    for name, usual in (("shadow", ""), ("tgen", ""), ("tor", "tor"), ("gencert", "tor-gencert")):
        parser.add_argument(f"--{name}", default=usual)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    programs = Shadow(arguments)
    _, document = catalog.load(scenario("cells"))
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-cells-") as name:
        folder = Path(name)
        penstock.run(scenario("cells"), out=folder / "sim", threads=1)
        for variant, _ in document.variants():
            theirs = shadow_times(programs, variant, folder / variant)
            lines += table(variant, theirs, in_simulator(folder / "sim", variant))
    text = generated.table(HEAD, lines)
    print(text)
    if arguments.markdown:
        generated.write(arguments.markdown, "benches/references/shadow_cells.py", text)
    return 0 if all(line[-1] == verdict(True) for line in lines) else 1


def shadow_times(programs: Shadow, variant: str, folder: Path) -> Times:
    """Export a variant, add captures, run it in Shadow, and read the times of its cells."""
    export.export(scenario("cells"), folder, variant=variant, programs=programs.programs)
    configuration = folder / "shadow.yaml"
    configuration.write_text(configuration.read_text().replace("\nhosts:\n", f"\n{PCAP}hosts:\n", 1))
    with (folder / "shadow.log").open("wb") as log:
        subprocess.run(  # noqa: S603
            [programs.paths["shadow"], configuration.name],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    imported.read([folder], folder / "imported")
    facts: dict[str, Any] = read_json(folder / FACTS)
    rows = pl.read_parquet(folder / "imported" / "transfers.parquet")
    requests = {row["client"]: (row["start_s"], row["start_s"] + row["ttlb_s"]) for row in rows.iter_rows(named=True)}
    hosts = {relay["name"]: relay["host"] for relay in facts["relays"]}
    return in_shadow(folder, requests, [hosts[name] for name in PATH])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PenstockError as error:
        print(f"shadow: {error}", file=sys.stderr)
        sys.exit(2)
