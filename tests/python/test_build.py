"""The build script of crates/py names the commit, the tag and changed files."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "crates" / "py" / "build.rs"
RUSTC, GIT = shutil.which("rustc"), shutil.which("git")
pytestmark = pytest.mark.skipif(RUSTC is None or GIT is None, reason="rustc or git is missing")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled build script."""
    program = tmp_path_factory.mktemp("build") / "script"
    subprocess.run([str(RUSTC), "--edition", "2024", "-o", program, SCRIPT], check=True)
    return program


class Tree:
    """A source tree with a crate, and the version of its builds."""

    def __init__(self, root: Path, program: Path) -> None:
        """Make the tree in `root`."""
        self.root, self._program = root, program
        self.source = root / "crates" / "py" / "lib.rs"
        self.source.parent.mkdir(parents=True)
        self.source.write_text("one")
        (root / "README.md").write_text("text")

    def git(self, *words: str) -> str:
        names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        variables = {**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        command = [str(GIT), "-C", str(self.root), *words]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        """Commit everything; returns the first digits of the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change", "--allow-empty")
        return self.git("rev-parse", "HEAD")[:7]

    def version(self, **variables: str) -> str:
        given = {"CARGO_MANIFEST_DIR": str(self.source.parent), "CARGO_PKG_VERSION": "0.1.0", "RUSTC": str(RUSTC)}
        given["OUT_DIR"] = str(self._program.parent)
        done = subprocess.run(
            [self._program], env={**os.environ, **given, **variables}, capture_output=True, text=True, check=True
        )
        _, _, version = done.stdout.partition("cargo:rustc-env=PENSTOCK_VERSION=")
        return version.partition("\n")[0]


@pytest.fixture
def tree(tmp_path: Path, program: Path) -> Tree:
    return Tree(tmp_path / "tree", program)


def test_a_source_without_git_says_so(tree: Tree) -> None:
    assert tree.version() == "0.1.0+unknown"
    assert tree.version(PENSTOCK_COMMIT="0123456789abcdef") == "0.1.0+g0123456"
    # The repository of another project around an unpacked archive.
    subprocess.run([str(GIT), "init", "--quiet", tree.root.parent], check=True)
    assert tree.version() == "0.1.0+unknown"


def test_a_version_has_the_commit_and_the_tag(tree: Tree) -> None:
    tree.git("init", "--quiet")
    first = tree.commit()
    assert tree.version() == f"0.1.0+g{first}"
    tree.git("tag", "v0.2.0")
    assert tree.version() == f"0.2.0+g{first}"
    second = tree.commit()
    assert tree.version() == f"0.2.0+1.g{second}"


def test_changed_files_are_in_the_version(tree: Tree) -> None:
    tree.git("init", "--quiet")
    commit = tree.commit()
    (tree.root / "README.md").write_text("another text")
    assert tree.version() == f"0.1.0+g{commit}"
    tree.source.write_text("two")
    changed = tree.version()
    assert re.fullmatch(rf"0\.1\.0\+g{commit}\.dirty\.[0-9a-f]{{8}}", changed)
    assert tree.version() == changed
    tree.source.write_text("three")
    assert tree.version() != changed
    tree.source.write_text("one")
    assert tree.version() == f"0.1.0+g{commit}"
    (tree.source.parent / "new.rs").write_text("four")
    assert ".dirty." in tree.version()
