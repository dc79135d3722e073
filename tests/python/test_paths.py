"""`penstock paths`: the relays that two circuits of a consensus share, and errors of documents."""

import base64
import lzma
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command, sentence
from documents import descriptor

from penstock import paths
from penstock.errors import PenstockError

PAIRS = 50_000


def consensus(relays: int, *, of_one_network: bool = False) -> str:
    """A made-up consensus: all relays are alike and may stand anywhere."""
    entries = []
    for place in range(relays):
        identity = base64.b64encode(place.to_bytes(20, "big")).decode().rstrip("=")
        address = f"10.1.{place}.1" if of_one_network else f"10.{place}.0.1"
        entries.append(
            f"r relay{place} {identity} 2030-01-01 00:00:00 {address} 9001 0\n"
            "s Exit Fast Guard Running Stable V2Dir Valid\nw Bandwidth=100\n"
        )
    return (
        "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2030-01-01 00:00:00\n"
        f"{''.join(entries)}directory-footer\ndirectory-signature sha256 0 0\n"
    )


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "consensus"
    path.write_text(consensus(20))
    return path


def test_shares_are_those_of_counting(document: Path) -> None:
    outcome = paths.sample(document, PAIRS, 1)
    n = 20
    orders = n * (n - 1) * (n - 2)
    socket = 4 / (n * (n - 1)) - 1 / orders
    relay = 1 - (n - 3) * (n - 4) * (n - 5) / orders
    assert outcome.counts["pairs"] == PAIRS
    assert outcome.network["weights"] == "even"
    for share, exact in [
        *((outcome.sharing(what), 1 / n) for what in ("guard", "middle", "exit")),
        (outcome.sharing("relay"), relay),
        (outcome.sharing("socket"), socket),
        (outcome.unshared("socket", given_a_relay=False), 1 - socket),
        (outcome.unshared("socket", given_a_relay=True), 1 - socket / relay),
    ]:
        assert abs(share.percent - 100 * exact) < 4.5 * share.error
    assert outcome.counts["connection"] > outcome.counts["socket"]


def test_the_command_prints_its_results_and_its_duration(penstock: Command, document: Path) -> None:
    done = penstock("paths", document, "--pairs", "5000")
    assert done.status == 0, done
    assert "20 relays: 20 candidates for guards, 20 for middles and 20 for exits" in done.out
    assert re.search(r"5,000 pairs of circuits with seed 1 in \d+\.\d s", done.out)
    assert "KIST, section 5.1: at least 99.775 %" in done.out
    lines = [line.split()[-2:] for line in done.out.splitlines() if line.strip().startswith("the guard")]
    share, error = map(float, lines[0])
    assert abs(share - 5) < 4.5 * error


def test_a_seed_repeats_whatever_the_steps_are(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = paths.sample(document, 5000, 7).counts
    monkeypatch.setattr(paths, "STEP", 700)
    assert paths.sample(document, 5000, 7).counts == whole
    assert paths.sample(document, 5000, 8).counts != whole


def test_a_document_may_be_compressed(document: Path) -> None:
    packed = document.with_name("consensus.xz")
    packed.write_bytes(lzma.compress(document.read_bytes()))
    assert paths.sample(packed, 1000, 1).counts == paths.sample(document, 1000, 1).counts


def test_mistakes_are_one_sentence(penstock: Command, document: Path) -> None:
    assert "there-is-none: No such file" in sentence(penstock("paths", "there-is-none"))
    document.write_bytes(b"\x00\x01\xff")
    assert f"{document}:1: it begins with" in sentence(penstock("paths", document))


def broken() -> list[tuple[str, bytes]]:
    """The error for each damaged document."""
    text = consensus(20)
    return [
        (":1: it begins with", b""),
        (":1: the line ends in CR LF", text.replace("\n", "\r\n").encode()),
        (": it is cut short", text[: len(text) // 2].rpartition("r relay")[0].encode()),
        (':6: the weight "-1"', text.replace("=100", "=-1").encode()),
        (": the xz compression is damaged or incomplete", lzma.compress(text.encode())[:-40]),
        (": the xz compression is damaged or incomplete", b"\xfd7zXZ\x00 and no more"),
        (": no relay can be an exit", text.replace("Exit ", "").encode()),
        (": 1000 circuits in a row", consensus(5, of_one_network=True).encode()),
    ]


@pytest.mark.parametrize(("said", "data"), broken())
def test_a_broken_document_is_refused(document: Path, said: str, data: bytes) -> None:
    document.write_bytes(data)
    with pytest.raises(PenstockError) as refused:
        paths.sample(document, 10, 1)
    assert str(refused.value).startswith(f"{document}")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pack", [bytes, lzma.compress])
def test_a_document_larger_than_any_is_refused(
    document: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    document.write_bytes(pack(b"\n" * (1 << 21)))
    monkeypatch.setattr(paths, "LARGEST", 1 << 20)
    with pytest.raises(PenstockError, match="it has more than 1 MiB"):
        paths.read(document)


@pytest.mark.parametrize("option", [["--pairs", "0"], ["--pairs", "many"], ["--seed", "-1"]])
def test_a_wrong_option_is_refused(penstock: Command, document: Path, option: list[str]) -> None:
    assert option[0] in sentence(penstock("paths", document, *option))


def test_families_come_from_descriptors(penstock: Command, document: Path) -> None:
    done = penstock("paths", document, "--pairs", "100")
    assert "relays have no families, because no descriptors were given; add --descriptors FILE" in done.out
    relays = document.with_name("descriptors")
    # All relays are of one family, except the last two.
    family = " ".join(f"${place.to_bytes(20, 'big').hex()}" for place in range(18))
    relays.write_text("".join(descriptor(place, family) for place in range(20)))
    done = penstock("paths", document, "--pairs", "100", "--descriptors", relays)
    assert done.status == 0, done
    assert "18 relays of the consensus are in a family; 20 of 20 have a descriptor" in done.out
    found = paths.described([relays])
    # Without the two middles, guards or exits of other families, no circuit is possible.
    outcome = paths.sample(document, 2000, 1, found)
    assert outcome.counts["relay"] > 1000 > paths.sample(document, 2000, 1).counts["relay"]
    assert outcome.counts == paths.sample(document, 2000, 1, paths.described([relays])).counts
    relays.write_text(descriptor(99, family))
    assert "none of its relays has one of the descriptors" in sentence(
        penstock("paths", document, "--descriptors", relays)
    )


def wait_until_busy(process: subprocess.Popen[str], seconds: float) -> None:
    """Until it has worked for so long [s of processor time], and surely has begun to draw."""
    stat = Path(f"/proc/{process.pid}/stat")
    deadline = time.monotonic() + 60
    while sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) < seconds * os.sysconf("SC_CLK_TCK"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it does nothing"
        time.sleep(0.02)


def test_ctrl_c_ends_it_with_one_sentence(penstock: Command, document: Path) -> None:
    process = penstock.start("paths", document, "--pairs", str(10**15))
    wait_until_busy(process, 2.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "penstock: stopped\n")
