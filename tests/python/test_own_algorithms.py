"""`penstock build --with` links the crate of the how-to page, and every command uses its algorithms."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL, Command, Finished, sentence

from penstock import build, extension
from penstock.errors import PenstockError

ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "examples" / "bring-your-own"
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")

OWN = SMALL.replace('label = "stock Tor"', 'label = "own"\nset = { "relay.scheduler" = "short-queues" }')
"""The small scenario with a scheduler of the crate."""

CLAIMS = """
paper = "made-up"
title = "A paper on short queues"
[scale.own]
duration_s = 30
[[claims]]
id = "fast"
section = "1"
figure = "1"
says = "The first byte arrives within a minute."
scenario = "own"
variants = ["stock"]
workload = "web"
measure = "ttfb_s"
statistic = "median"
gate = { at_most = 60.0, by = "every-seed" }
"""

ATTACK = """
[[attacks]]
name = "rates"
title = "Rates of the web clients"
adversary = { controls = ["server", "clients"], victims = "web", probes = "web" }
measurement = { what = "throughput", period = "5 s", begin = "10 s" }
estimator = { kind = "rate" }
conclusion = { kind = "probabilities" }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of `penstock build`."""
    command = Command(tmp_path_factory.mktemp("build"))
    words = command.words("build", "--with", CRATE)
    done = subprocess.run(words, cwd=command.directory, env=command.env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def own(built: str, penstock: Command) -> Callable[..., Finished]:
    """The command with the linked extension, in a process of its own."""
    name, _, value = built.rpartition("export ")[2].strip().partition("=")

    def run(*arguments: str | Path) -> Finished:
        before = penstock.env
        penstock.env = {**before, name: value}
        try:
            return penstock.run(penstock.words(*arguments))
        finally:
            penstock.env = before

    return run


@needs_cargo
def test_run_sweep_paper_and_attack_use_an_algorithm_of_another_crate(
    own: Callable[..., Finished], penstock: Command, built: str
) -> None:
    [version] = re.findall(r"version: (\S+)", built)
    assert re.search(r"\.with\.bring-your-own\.[0-9a-f]{8}$", version)
    assert "adds:    circuit_policy = least-sent\nadds:    scheduler = short-queues\n" in built
    (penstock.directory / "own.toml").write_text(OWN + ATTACK)
    (penstock.directory / "claims.toml").write_text(CLAIMS)

    listed = own("list", "algorithms", "short-queues").out
    assert 'most  "8 KiB" [B]' in listed
    assert "short-queues" in own("check", "own.toml").out
    wrong = own("check", "own.toml", "--set", "relay.scheduler.most=8")
    assert "relay.scheduler.most: 8 is an integer; it must be a size with its unit" in sentence(wrong)
    assert "did you mean most?" in sentence(own("check", "own.toml", "--set", "relay.scheduler.mots=8"))

    commands = {
        "run": ("run", "own.toml", "--no-report"),
        "sweep": (
            "sweep",
            "own.toml",
            "--variant",
            "stock",
            "--param",
            "relay.scheduler.most=4 KiB,64 KiB",
            "--no-report",
        ),
        "paper": ("paper", ".", "--runs", "2"),
        "attack": ("attack", "own.toml", "--no-report"),
    }
    for name, words in commands.items():
        done = own(*words, "--out", name)
        assert done.status == 0, done.err
        [manifest] = (penstock.directory / name).rglob("manifest.json")
        found = json.loads(manifest.read_text())
        assert found["version"] == version
        assert 'kind = "short-queues"' in found["scenario"]["variants"][0]["resolved"]
        assert found["finished"]
    # The scheduler decides: less waits in the kernel, so that other tables follow.
    refused = penstock("run", "own.toml")
    assert '"short-queues" is unknown; the kind must be one of vanilla' in sentence(refused)


@needs_cargo
def test_results_of_another_build_are_not_resumed_or_merged(
    own: Callable[..., Finished], penstock: Command, small: Path
) -> None:
    assert own("run", small, "--shard", "1/2", "--out", "a").status == 0
    assert penstock("run", small, "--shard", "2/2", "--out", "b").status == 0
    assert "another build of penstock" in sentence(penstock("merge", "a", "b", "--out", "all"))
    assert "continue with the other build" in sentence(penstock("run", small, "--shard", "1/2", "--out", "a"))


@needs_cargo
def test_a_mistake_in_a_crate_is_one_sentence(penstock: Command, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "src").mkdir(parents=True)

    def refused() -> str:
        return sentence(penstock("build", "--with", folder))

    assert "is not a crate: it has no Cargo.toml" in refused()
    (folder / "Cargo.toml").write_text("[package]\nname = 1\n")
    assert "cargo refuses" in refused()
    head = '[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n'
    (folder / "Cargo.toml").write_text(head)
    (folder / "src" / "main.rs").write_text("fn main() {}\n")
    assert "is not a library crate; add src/lib.rs" in refused()
    (folder / "src" / "lib.rs").write_text("")
    other = tmp_path / "other"
    (other / "src").mkdir(parents=True)
    (other / "src" / "lib.rs").write_text("")
    (other / "Cargo.toml").write_text(head.replace('"mine"', '"penstock-core"'))
    (folder / "Cargo.toml").write_text(head + f'[dependencies]\npenstock-core = {{ path = "{other}" }}\n')
    assert f"set its path to {ROOT / 'crates' / 'core'}" in refused()


@needs_cargo
def test_a_crate_that_does_not_compile_is_one_sentence_behind_the_errors(penstock: Command, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(CRATE, folder)
    manifest = (folder / "Cargo.toml").read_text().replace("../../crates", str(ROOT / "crates"))
    (folder / "Cargo.toml").write_text(manifest)
    source = folder / "src" / "least_sent.rs"
    # A method of an earlier version of the trait.
    source.write_text(source.read_text().replace("fn on_close(", "fn on_gone("))
    words = penstock.words("build", "--with", folder)
    done = subprocess.run(words, cwd=tmp_path, env=penstock.env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 2
    assert "method `on_gone` is not a member of trait `CircuitPolicy`" in done.stderr
    last = done.stderr.strip().rpartition("\n")[2]
    assert last.startswith("penstock: bring-your-own does not compile with Penstock ")


def test_a_package_without_sources_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="is not a checkout of Penstock"):
        build.build([CRATE], tmp_path)


def test_a_wrong_extension_is_one_sentence(penstock: Command, tmp_path: Path) -> None:
    penstock.env[extension.VARIABLE] = str(tmp_path / "_core.abi3.so")
    done = penstock.run(penstock.words("list"))
    assert "which is not an extension of penstock build; correct or unset it" in sentence(done)
    (tmp_path / extension.RECORD).write_text(json.dumps({"belongs_to": [1, 2], "command": "penstock build --with x"}))
    (tmp_path / "_core.abi3.so").write_text("")
    done = penstock.run(penstock.words("run", "quickstart"))
    assert "of another build of Penstock; run `penstock build --with x` again" in sentence(done)
    code = "import penstock; penstock.run"
    python = subprocess.run(
        [*penstock.words()[:1], "-c", code], env={**os.environ, **penstock.env}, capture_output=True, text=True
    )
    assert "penstock.extension.ExtensionError: PENSTOCK_EXTENSION names" in python.stderr


def test_the_page_shows_the_whole_crate() -> None:
    page = (ROOT / "docs" / "how-to" / "plug-in-an-algorithm.md").read_text()
    blocks = re.findall(r"^```(toml|rust)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    files = ("Cargo.toml", "src/least_sent.rs", "src/short_queues.rs", "src/lib.rs")
    # The blocks after these show the prototype.
    assert [text for _, text in blocks[: len(files)]] == [(CRATE / name).read_text() for name in files]
