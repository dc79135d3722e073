"""Python classes of a package run as algorithms: same tables as built-in ones, and one sentence for each mistake."""

import importlib.util
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL, Command, Finished, sentence

from penstock.output import TABLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "plug-in-an-algorithm.md").read_text(encoding="utf-8")

[WINDOWS] = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
"""The class of the how-to page, a copy of stock Tor's windows."""

TURNS = '''

from penstock.prototypes import CircuitPolicy


class Turns(CircuitPolicy):
    """Round robin, as in stock Tor."""

    def __init__(self) -> None:
        self.turns: list[int] = []

    def on_ready(self, now: int, circuit: int) -> None:
        self.turns.append(circuit)

    def on_blocked(self, now: int, circuit: int) -> None:
        self.turns.remove(circuit)

    def on_flush(self, now: int, circuit: int, cells: int, weight: float) -> None:
        self.turns.append(self.turns.pop(0))

    def on_close(self, circuit: int) -> None:
        self.turns = [each for each in self.turns if each != circuit]

    def head(self, now: int) -> tuple[float, int]:
        return 0.0, self.turns[0]
'''

BOTH = ("relay.edge_control=fixed", "client.edge_control=fixed", "relay.circuit_policy=turns")


class Package:
    """A package with prototypes, and the command in processes of its own that find it."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command = command
        self.folder = folder
        self.module = folder / "my_algorithms.py"
        self.module.write_text(WINDOWS + TURNS)
        self.helper = folder / "my_helper.py"
        self.helper.write_text("")
        self.declare("1.0", "fixed = my_algorithms:FixedWindow\nturns = my_algorithms:Turns\n")
        command.env["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])

    def declare(self, version: str, entries: str) -> None:
        """Write the metadata of the package, as pip does."""
        for each in self.folder.glob("*.dist-info/*"):
            each.unlink()
        info = self.folder / "my_algorithms-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: my-algorithms\nVersion: {version}\n")
        (info / "RECORD").write_text("my_algorithms.py,,\nmy_helper.py,,\n")
        (info / "entry_points.txt").write_text(f"[penstock.algorithms]\n{entries}")

    def change(self, before: str, after: str) -> None:
        """Change the source."""
        text = (WINDOWS + TURNS).replace(before, after)
        assert text != WINDOWS + TURNS
        self.module.write_text(text)

    def __call__(self, *arguments: str | Path) -> Finished:
        return self.command.run(self.command.words(*arguments))


@pytest.fixture
def package(penstock: Command, tmp_path: Path) -> Package:
    (tmp_path / "installed").mkdir()
    return Package(penstock, tmp_path / "installed")


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., list[str]]:
    """The words of a run whose first variant has these overrides."""

    def words(*sets: str, out: str, variant: str = "stock") -> list[str]:
        (tmp_path / "own.toml").write_text(SMALL)
        chosen = [word for each in sets for word in ("--set", each)]
        return ["run", "own.toml", "--variant", variant, "--no-report", "--out", out, *chosen]

    return words


def same_tables(one: Path, other: Path) -> bool:
    return all((one / f"{each}.parquet").read_bytes() == (other / f"{each}.parquet").read_bytes() for each in TABLES)


def test_copies_of_built_in_algorithms_have_the_same_tables(
    package: Package, own: Callable[..., list[str]], tmp_path: Path
) -> None:
    for name, sets in (("built-in", ()), ("once", BOTH), ("again", BOTH)):
        done = package(*own(*sets, out=name))
        assert done.status == 0, done.err
    small = ("relay.edge_control.circuit_window=100", "client.edge_control.circuit_window=100")
    assert package(*own(*BOTH, *small, out="small")).status == 0
    assert same_tables(tmp_path / "built-in", tmp_path / "once")
    assert same_tables(tmp_path / "once", tmp_path / "again")
    assert not same_tables(tmp_path / "once", tmp_path / "small")
    manifest = json.loads((tmp_path / "once" / "manifest.json").read_text())
    built_in = json.loads((tmp_path / "built-in" / "manifest.json").read_text())
    assert re.fullmatch(
        re.escape(built_in["version"]) + r"\.python\.my-algorithms\.1\.0\.[0-9a-f]{8}", manifest["version"]
    )
    assert manifest["build"]["libraries"]["my-algorithms"] == "1.0"
    assert "my-algorithms" not in built_in["build"]["libraries"]


def test_lists_and_checks_know_a_prototype(package: Package, own: Callable[..., list[str]]) -> None:
    listed = package("list", "algorithms", "fixed").out
    assert "source: the Python class my_algorithms:FixedWindow of my-algorithms 1.0" in listed
    assert "circuit_window  1000 [cell]  " in listed
    assert "circuit_policy = turns" in package("list").out
    own(out="")
    fixed = ("check", "own.toml", "--set", "relay.edge_control=fixed", "--set")
    assert package(*fixed, "relay.edge_control.circuit_window=200").status == 0
    assert "circuit_window: 1.5 is a number" in sentence(package(*fixed, "relay.edge_control.circuit_window=1.5"))
    assert "circuit_window is 50; it must be from 100 to 1000" in sentence(
        package(*fixed, "relay.edge_control.circuit_window=50")
    )
    assert "did you mean circuit_window?" in sentence(package(*fixed, "relay.edge_control.circuit_windw=200"))


def test_other_sources_are_not_resumed_or_merged(package: Package, own: Callable[..., list[str]]) -> None:
    def run(number: int) -> Finished:
        words = own(BOTH[0], out=f"{number}", variant="small")
        return package(*words, "--shard", f"{number}/2")

    package.command.directory.joinpath("own.toml").write_text(SMALL)
    assert run(1).status == 0
    assert run(1).status == 0
    package.helper.write_text("SIZE = 3")
    assert "continue with the other build" in sentence(run(1))
    package.helper.write_text("")
    package.change("self.left += 100", "self.left += 100  # the same, in other words")
    assert "continue with the other build" in sentence(run(1))
    assert run(2).status == 0
    assert "another build of penstock" in sentence(package("merge", "1", "2", "--out", "all"))
    # An output without prototypes does not depend on the package.
    assert package(*own(out="built-in"), "--shard", "1/2").status == 0
    package.declare("2.0", "fixed = my_algorithms:FixedWindow\n")
    assert package(*own(out="built-in"), "--shard", "1/2").status == 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "self.left -= 1",
            "self.left = 1 // 0",
            r"FixedWindow\.on_package failed at \S+/my_algorithms\.py:LINE: ZeroDivisionError: ",
        ),
        (
            "        self.left += 100",
            "        self.left += sorted([1, 'a'], key=lambda each: int(each))[0]",
            r"FixedWindow\.on_sendme failed at \S+/my_algorithms\.py:LINE: ValueError: invalid literal",
        ),
        (
            "        return self.left",
            "        return str(self.left)",
            r"FixedWindow\.package_window at \S+/my_algorithms\.py:\d+ returned '1000' of type str; it must",
        ),
        (
            "        return self.left",
            "        return -self.left",
            r"FixedWindow\.package_window at \S+:\d+ returned -1000 of type int; it must return",
        ),
        (
            "return 0.0, self.turns[0]",
            "return 0.0, 4711",
            r"Turns\.head at \S+:\d+ returned \(0\.0, 4711\) of type tuple; it must return a priority and the number",
        ),
        (
            "self.turns: list[int] = []",
            "self.turns = open('/proc/self/mem/x')",
            r"Turns\.__init__ failed at \S+/my_algorithms\.py:LINE: NotADirectoryError",
        ),
        (
            "    def head(self, now: int)",
            "    def tail(self, now: int)",
            "the algorithm turns of my-algorithms 1.0 lacks the method head; correct the package or uninstall it",
        ),
        (
            "from penstock.prototypes import CircuitPolicy\n",
            "import no_such_module\n",
            "the algorithm fixed of my-algorithms 1.0 cannot be imported: ModuleNotFoundError: No module named",
        ),
        (
            "from penstock.prototypes import CircuitPolicy\n",
            "raise SystemExit(0)\n",
            "the algorithm fixed of my-algorithms 1.0 cannot be imported: SystemExit",
        ),
        (
            'whole(1000, "cell", "The number of cells.")',
            'whole(1000, "cell", 7)',
            "the parameter circuit_window has the default '1000' and the meaning 7; write name, default and meaning as",
        ),
        (
            '{"circuit_window": whole(1000, "cell", "The number of cells.")}',
            "3",
            "has parameters = 3 of type int; it must",
        ),
        (
            'whole(1000, "cell", "The number of cells.")',
            "3",
            "the parameter circuit_window is 3; use a function such as",
        ),
        ("class Turns(CircuitPolicy)", "class Turns", "which is not a class derived from EdgeControl or CircuitPolicy"),
        ("        return self.left\n", "        raise SystemExit\n", r"package_window failed at \S+:LINE: SystemExit"),
        (
            "        self.left -= 1",
            "        raise Violation",
            r"FixedWindow\.on_package failed at \S+:LINE: Violation",
        ),
    ],
)
def test_a_mistake_of_a_class_is_one_sentence(
    package: Package, own: Callable[..., list[str]], before: str, after: str, expected: str, tmp_path: Path
) -> None:
    package.change(before, after)
    line = package.module.read_text().partition(after)[0].count("\n") + 1
    found = sentence(package(*own(*BOTH, out="out")))
    assert re.search(expected.replace("LINE", str(line)), found), found
    assert not list(tmp_path.glob("out/parts/*"))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            "windows = my_algorithms:FixedWindow\n",
            'edge_control = "windows" of the Python class my_algorithms:FixedWindow of my-algorithms 1.0 is taken by',
        ),
        ("two.words = my_algorithms:Turns\n", "is not a name"),
        ("turns = my_algorithms:Missing\n", "cannot be imported: AttributeError"),
    ],
)
def test_a_wrong_entry_point_is_one_sentence(package: Package, entries: str, expected: str) -> None:
    package.declare("1.0", entries)
    assert expected in sentence(package("run", "quickstart"))


def test_a_violation_closes_circuits(package: Package, own: Callable[..., list[str]]) -> None:
    package.change("        self.deliver -= 1\n", "        raise Violation\n")
    done = package(*own(*BOTH, out="out"))
    assert done.status == 0, done.err
    assert re.search(r" web +0 ", done.out), done.out


def test_a_prototype_runs_in_one_thread(package: Package, own: Callable[..., list[str]]) -> None:
    what = "edge_control = fixed is a Python class, "
    assert f"{what}which runs in one thread; leave --threads out" in sentence(
        package(*own(BOTH[0], out="out"), "--threads", "2")
    )
    assert f"{what}which runs in one thread; leave --jobs out" in sentence(
        package(*own(BOTH[0], out="out"), "--jobs", "2")
    )
    code = (
        "from penstock import _core; d = _core.Document(open('own.toml').read(), 'x', ['relay.edge_control=fixed']); "
    )
    code += "_core.run(d, 'stock', None, 1, 'out', _core.Control(2))"
    done = package.command.run([package.command.words()[0], "-c", code])
    assert f"ScenarioError: {what}which runs in one thread" in done.err


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'penstock[ray]'")
def test_ray_runs_a_prototype_in_processes(package: Package, own: Callable[..., list[str]], tmp_path: Path) -> None:
    assert package(*own(*BOTH, out="alone")).status == 0
    words = package.command.words(*own(*BOTH, out="ray"), "--ray", "local", "--jobs", "2")
    # Ray takes minutes to start on a busy machine.
    done = subprocess.run(words, cwd=tmp_path, env=package.command.env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert same_tables(tmp_path / "alone", tmp_path / "ray")
