"""The comparison of cells with Shadow, on a made-up capture."""

import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import program


@pytest.fixture
def bench() -> dict[str, Any]:
    """The functions of the program."""
    return program("references/shadow_cells")


def record(plain: int, kind: int = 23) -> bytes:
    """A TLS record with this number of bytes inside."""
    return struct.pack(">BHH", kind, 0x303, plain + 17) + bytes(plain + 17)


def packet(at: float, number: int, payload: bytes, source: str = "11.1.0.1", target: str = "11.1.0.2") -> bytes:
    """A packet of a capture, with TCP's header of 20 bytes."""
    addresses = b"".join(bytes(map(int, each.split("."))) for each in (source, target))
    ip = bytes([0x45]) + bytes(11) + addresses
    tcp = struct.pack(">HHIIBBHHH", 9001, 5000, number, 0, 5 << 4, 0, 0, 0, 0)
    data = ip + tcp + payload
    return struct.pack("<IIII", int(at), round(at % 1 * 1e6), len(data), len(data)) + data


def capture(path: Path, *packets: bytes) -> Path:
    path.write_bytes(bytes(24) + b"".join(packets))
    return path


def test_records_over_several_packets_are_complete_with_their_last_byte(bench: dict[str, Any], tmp_path: Path) -> None:
    two = record(514) + record(1028)
    path = capture(
        tmp_path / "eth0.pcap",
        packet(1.0, 7, two[:600]),
        packet(1.5, 7, two[:600]),  # a retransmission counts once
        packet(2.0, 8, two[600:]),
        packet(2.5, 9, two, source="11.1.0.9"),
    )
    assert bench["plaintext"](path, "11.1.0.1", "11.1.0.2") == [(1.0, 514), (2.0, 1028)]


def test_packets_that_arrive_early_wait_for_those_before_them(bench: dict[str, Any], tmp_path: Path) -> None:
    path = capture(
        tmp_path / "eth0.pcap",
        packet(1.0, 1, record(100, kind=22)),  # a handshake has no cells
        packet(2.0, 3, record(514)),
        packet(3.0, 2, record(514)),
    )
    assert bench["plaintext"](path, "11.1.0.1", "11.1.0.2") == [(3.0, 514), (3.0, 514)]


def test_cells_count_from_the_request_and_leave_connected_out(bench: dict[str, Any]) -> None:
    done = [(9.0, 514), (10.5, 514), (11.0, 1000), (12.0, 28), (20.0, 514)]
    assert bench["cells"](done, 10.0, 15.0) == pytest.approx([1.0, 2.0])


def test_a_download_within_20_percent_at_each_part_holds(bench: dict[str, Any]) -> None:
    theirs = {("web", "exit"): [0.1 * n for n in range(1, 101)]}
    near = {("web", "exit"): [0.119 * n for n in range(1, 101)]}
    [line] = bench["table"]("kist", theirs, near)
    assert line[-1] == "holds"
    late = {("web", "exit"): [*near["web", "exit"][:-1], 12.1]}
    [line] = bench["table"]("kist", theirs, late)
    assert line[-1] == "differs"
    few = {("web", "exit"): near["web", "exit"][::2]}
    assert bench["table"]("kist", theirs, few)[0][-1] == "differs"
