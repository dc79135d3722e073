"""`penstock paths` over several consensuses: the times of circuits, guards, families, and errors."""

import base64
import lzma
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from conftest import Command, sentence
from documents import descriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import path_history, paths
from penstock.errors import PenstockError

START = datetime(2030, 1, 1, tzinfo=UTC)


def date(hour: float) -> str:
    return f"{START + timedelta(hours=hour):%Y-%m-%d %H:%M:%S}"


def consensus(relays: range | list[int], hour: float, hours: float = 1) -> str:
    """A made-up consensus: two relays each share a /16."""
    entries = [
        f"r relay{place} {base64.b64encode(place.to_bytes(20, 'big')).decode().rstrip('=')} {date(hour)} "
        f"10.{place // 2}.0.1 9001 0\ns Exit Fast Guard Running Stable V2Dir Valid\nw Bandwidth={100 + place % 9}\n"
        for place in relays
    ]
    return (
        f"network-status-version 3 microdesc\nvote-status consensus\nvalid-after {date(hour)}\n"
        f"fresh-until {date(hour + hours)}\nvalid-until {date(hour + 3 * hours)}\n{''.join(entries)}"
        "directory-footer\ndirectory-signature sha256 0 0\n"
    )


def write(tmp_path: Path, *texts: str) -> list[Path]:
    files = [tmp_path / f"consensus-{number}" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return files


def place(name: str) -> int:
    """The number of a relay, from `$FINGERPRINT~nickname`."""
    return int(name[1:41], 16)


def test_each_circuit_has_its_time_and_its_consensus(penstock: Command, tmp_path: Path) -> None:
    files = write(tmp_path, *(consensus(range(60), hour) for hour in range(3)))
    out = tmp_path / "circuits.csv"
    done = penstock("paths", *files, "--clients", "5", "--every", "1200", "--out", out)
    assert done.status == 0, done
    assert f"3 microdesc consensuses with 60 relays, valid after {date(0)} to {date(2)} UTC" in done.out
    assert "relays have no families, because no descriptors were given" in done.out
    assert "5 clients, each with a new circuit every 1,200 s: 45 circuits with seed 1" in done.out
    rows = pl.read_csv(out)
    assert rows.columns == ["time", "consensus", "client", "guard", "middle", "exit"]
    assert rows.height == 45
    assert rows["time"].is_sorted()
    for row in rows.iter_rows(named=True):
        assert (
            row["consensus"]
            <= row["time"]
            < (datetime.fromisoformat(row["consensus"]) + timedelta(hours=1)).isoformat(" ")
        )
    assert rows.group_by("client", "consensus").len()["len"].unique().to_list() == [3]
    assert rows["guard"].str.contains(r"^\$[0-9A-F]{40}~relay\d+$").all()


def test_a_run_repeats_to_the_byte(tmp_path: Path) -> None:
    found = path_history.ordered(write(tmp_path, *(consensus(range(60), hour) for hour in range(3))))
    texts = []
    for number, seed in enumerate([1, 1, 2]):
        out = tmp_path / f"{number}.csv"
        path_history.sample(found, clients=7, seed=seed, out=out)
        texts.append(out.read_bytes())
    assert texts[0] == texts[1] != texts[2]
    assert not list(tmp_path.glob("*.tmp"))


def test_guards_persist_over_consensuses(tmp_path: Path) -> None:
    without = [relay for relay in range(60) if relay % 6 != 2]
    files = write(tmp_path, consensus(range(60), 0), consensus(range(59, -1, -1), 1), consensus(without, 2))
    out = tmp_path / "circuits.csv"
    outcome = path_history.sample(path_history.ordered(files), clients=50, out=out)
    rows = pl.read_csv(out)
    # The guard that a client uses most often in each consensus; an exit of its network needs another one.
    usual = {
        key: group["guard"].mode().sort().to_list()
        for key, group in rows.group_by("client", "consensus", maintain_order=True)
    }
    lost = 0
    for client in range(50):
        first, second, third = (set(usual[client, date(hour)]) for hour in range(3))
        assert first & second
        if kept := {guard for guard in second if place(guard) in without}:
            assert kept & third
        else:
            lost += 1
    assert lost > 0, "some clients lose their guard"
    assert sum(outcome.used_guards.values()) == 50
    assert max(outcome.used_guards) <= 4


def test_a_directory_is_read_in_the_order_of_times(penstock: Command, tmp_path: Path) -> None:
    folder = tmp_path / "consensuses"
    (folder / "02").mkdir(parents=True)
    # The names have another order than the times.
    (folder / "b").write_text(consensus(range(30), 0))
    (folder / "a").write_text(consensus(range(30), 1))
    (folder / "02" / "c").write_bytes(lzma.compress(consensus(range(30), 2).encode()))
    (folder / ".hidden").write_text("no consensus")
    assert [consensus.path.name for consensus in path_history.ordered([folder])] == ["b", "a", "c"]
    assert "3 microdesc consensuses" in penstock("paths", folder, "--clients", "2").out
    assert "this directory has no files" in sentence(penstock("paths", write_empty(tmp_path)))


def write_empty(tmp_path: Path) -> Path:
    empty = tmp_path / "empty"
    empty.mkdir()
    return empty


def test_mistakes_are_one_sentence(penstock: Command, tmp_path: Path) -> None:
    texts = [consensus(range(30), 0), consensus(range(30), 1), consensus(range(30), 3), consensus(range(30), 0.5, 2)]
    one, two, late, long = write(tmp_path, *texts)
    mistakes: list[tuple[list[str | Path], str]] = [
        ([two, one], f"{one}: it is valid after {date(0)}, before {two} ({date(1)}); name the files in the order"),
        ([one, one], f"{one}: it is valid after {date(0)}, but {one} is fresh until {date(1)}; leave one"),
        ([one, long], f"{long}: it is valid after {date(0.5)}, but {one} is fresh until {date(1)}; leave one"),
        ([one, two, late], f"{late}: it is valid after {date(3)}, and {two} is fresh until {date(2)}; add"),
        ([one, two, "--pairs", "5"], "--pairs samples pairs of circuits of one consensus; leave it out"),
        ([one, "--clients", "5", "--pairs", "5"], "--pairs samples pairs of circuits of one consensus"),
        ([one, "--clients", "0"], "--clients"),
        ([one, "--every", "0"], "--every"),
        (
            [one, "--clients", "5000", "--every", "1"],
            f"{one}: 5,000 clients with a new circuit every 1 s have 18,000,000",
        ),
        ([one, tmp_path / "there-is-none"], "there-is-none: No such file"),
        ([one, "--out", tmp_path / "none" / "x.csv"], "cannot write"),
        ([one, two, "--descriptors", one], f"{one}:1: it begins with"),
    ]
    for words, said in mistakes:
        assert said in sentence(penstock("paths", *words))
    one.write_text(texts[0].replace("fresh-until", "fresh"))
    assert f"{one}: it has no line fresh-until before its relays" in sentence(penstock("paths", one, "--clients", "5"))
    # A mistake behind the first lines leaves no half of an output.
    out = tmp_path / "circuits.csv"
    two.write_text(texts[1].replace("Bandwidth=103", "Bandwidth=-1"))
    one.write_text(texts[0])
    assert 'the weight "-1"' in sentence(penstock("paths", one, two, "--out", out))
    assert not list(tmp_path.glob("circuits*"))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    families=st.lists(st.sets(st.integers(0, 29), min_size=2, max_size=6), max_size=5),
    one_sided=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=5),
    seed=st.integers(0, 1000),
)
def test_no_circuit_has_two_relays_of_one_family_or_network(
    tmp_path: Path, families: list[set[int]], one_sided: list[tuple[int, int]], seed: int
) -> None:
    named = {(one, other) for family in families for one in family for other in family} | set(one_sided)
    texts = [
        descriptor(
            relay, " ".join(f"${other.to_bytes(20, 'big').hex()}" for one, other in sorted(named) if one == relay)
        )
        for relay in range(30)
    ]
    file = tmp_path / "descriptors"
    file.write_text("".join(texts))
    found = path_history.ordered(write(tmp_path, consensus(range(30), 0), consensus(range(30), 1)))
    out = tmp_path / "circuits.csv"
    path_history.sample(found, clients=20, seed=seed, descriptors=paths.described([file]), out=out)
    for *_, guard, middle, exit_ in pl.read_csv(out).iter_rows():
        relays = [place(name) for name in (guard, middle, exit_)]
        for one, other in [(relays[0], relays[1]), (relays[0], relays[2]), (relays[1], relays[2])]:
            assert one // 2 != other // 2
            assert not ((one, other) in named and (other, one) in named)


def test_relays_that_name_each_other_on_one_side_are_used_together(tmp_path: Path) -> None:
    # Each relay names all relays with a higher number, so no two relays are of one family.
    texts = [
        descriptor(relay, " ".join(f"${other.to_bytes(20, 'big').hex()}" for other in range(relay + 1, 30)))
        for relay in range(30)
    ]
    file = tmp_path / "descriptors"
    file.write_text("".join(texts))
    found = path_history.ordered(write(tmp_path, consensus(range(30), 0)))
    outcome = path_history.sample(found, clients=5, descriptors=paths.described([file]))
    assert (outcome.networks[0]["described"], outcome.networks[0]["in_family"], outcome.circuits) == (30, 0, 30)
    every = " ".join(f"relay{other}" for other in range(30))
    file.write_text("".join(descriptor(relay, every) for relay in range(30)))
    with pytest.raises(PenstockError, match="1000 circuits in a row"):
        path_history.sample(found, clients=5, descriptors=paths.described([file]))
