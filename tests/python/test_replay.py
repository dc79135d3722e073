"""`penstock run --replay`: the same requests, at the same times, whatever becomes of them."""

from pathlib import Path

import polars as pl
import pytest
from conftest import Command, sentence
from polars.testing import assert_frame_equal

import penstock as package
from penstock.errors import ScenarioError

ASKED = ["seed", "client", "workload", "start_s", "bytes"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the small scenario, with both seeds and variants."""
    from conftest import SMALL

    folder = tmp_path_factory.mktemp("replay")
    (folder / "small.toml").write_text(SMALL)
    package.run(folder / "small.toml", out=folder / "out")
    return folder


def asked(directory: Path, variant: str) -> pl.DataFrame:
    transfers = package.load(directory).transfers
    return transfers.filter(pl.col("variant") == variant).select(ASKED).sort(ASKED)


def test_a_replay_of_a_variant_is_that_variant(original: Path, tmp_path: Path) -> None:
    again = package.run(original / "small.toml", variants=["stock"], replay=original / "out", out=tmp_path / "out")
    before = package.load(original / "out").transfers.filter(pl.col("variant") == "stock")
    assert_frame_equal(again.transfers, before)
    assert again.manifest["replay"]["variant"] == "stock"
    assert f"--replay {original / 'out'} --replay-variant stock" in again.command


def test_another_variant_asks_at_the_same_times(penstock: Command, original: Path, tmp_path: Path) -> None:
    small, out = original / "small.toml", tmp_path / "out"
    words: list[str | Path] = [
        "--set",
        "relays.middle.link=64 KiB/s",
        "--replay",
        original / "out",
        "--replay-variant",
        "small",
    ]
    done = penstock("run", small, *words, "--no-report", "--out", out)
    assert done.status == 0, done.err
    for variant in ("stock", "small"):
        assert_frame_equal(asked(out, variant), asked(original / "out", "small"))
    repeated = tmp_path / "repeated"
    assert penstock("run", small, *words, "--no-report", "--out", repeated).status == 0
    assert (out / "transfers.parquet").read_bytes() == (repeated / "transfers.parquet").read_bytes()


def test_a_scenario_that_cannot_be_replayed_is_refused_with_a_reason(
    penstock: Command, original: Path, tmp_path: Path
) -> None:
    small, out = original / "small.toml", original / "out"
    other = tmp_path / "other.toml"
    other.write_text(small.read_text().replace("clients.web]", "clients.other]"))
    message = sentence(penstock("run", other, "--replay", out))
    assert message.endswith(
        f'{out} cannot be replayed: it has downloads of the client "web", which the scenario does not have'
    )
    other.write_text(small.read_text().replace("[workloads.web]", "[workloads.x]").replace('"web"', '"x"'))
    message = sentence(penstock("run", other, "--replay", out))
    assert message.endswith(
        f'{out} cannot be replayed: it has downloads of the workload "web", which the client "web" does not have'
    )
    message = sentence(penstock("run", small, "--seed", "7", "--replay", out))
    assert message.endswith(f"{out} has no downloads of 'stock' with seed 7 to replay; it has those of 1, 2")
    message = sentence(penstock("run", small, "--replay", out, "--replay-variant", "x"))
    assert message.endswith(f"there is no variant 'x' in {out} to replay; it ran stock, small")
    assert "add --replay DIR" in sentence(penstock("run", small, "--replay-variant", "x"))
    assert "does not exist" in sentence(penstock("run", small, "--replay", tmp_path / "none"))
    assert not (tmp_path / "runs").exists()


def test_downloads_without_tor_cannot_be_replayed(tmp_path: Path, original: Path) -> None:
    plain = tmp_path / "plain.toml"
    plain.write_text((original / "small.toml").read_text().replace('path = ["entry", "middle", "exit"]', "path = []"))
    package.run(plain, variants=["stock"], out=tmp_path / "out")
    with pytest.raises(ScenarioError, match=r"a download of 'web' used no circuit"):
        package.run(plain, variants=["stock"], replay=tmp_path / "out", out=tmp_path / "again")
