"""The script that makes a release."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("Cargo.toml", "Cargo.lock", "CITATION.cff", "CHANGELOG.md", ".ci/release")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the files that a release changes, and the manifests of all crates."""
    if shutil.which("cargo") is None or not (ROOT / ".git").exists():
        pytest.skip("needs cargo and a checkout")
    folder = tmp_path / "checkout"
    _git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(folder))
    for file in FILES:
        shutil.copy(ROOT / file, folder / file)
    for key, value in (("user.name", "x"), ("user.email", "x@example.org"), ("commit.gpgsign", "false")):
        _git(folder, "config", key, value)
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--allow-empty", "--message", "files of the working tree")
    return folder


def _release(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / ".ci/release", version], cwd=folder, capture_output=True, text=True, check=False)


def test_a_release_sets_the_version_everywhere_and_makes_a_tag(checkout: Path) -> None:
    done = _release(checkout, "9.8.7")
    assert done.returncode == 0, done.stderr
    assert '\nversion = "9.8.7"\n' in (checkout / "Cargo.toml").read_text()
    assert 'name = "penstock-core"\nversion = "9.8.7"\n' in (checkout / "Cargo.lock").read_text()
    assert 'name = "penstock-core"\nversion = "9.8.7"\n' in (checkout / "fuzz/Cargo.lock").read_text()
    citation = (checkout / "CITATION.cff").read_text()
    assert "\nversion: 9.8.7\n" in citation
    assert "\ndate-released: 20" in citation
    assert "## [Unreleased]\n\n## [9.8.7] - 20" in (checkout / "CHANGELOG.md").read_text()
    assert _git(checkout, "describe", "--exact-match") == "v9.8.7"
    assert _git(checkout, "status", "--porcelain") == ""
    assert _release(checkout, "9.8.8").stderr == (
        "release: the section Unreleased of CHANGELOG.md is empty; describe the changes there\n"
    )


@pytest.mark.parametrize(
    ("version", "reason"),
    [("", "write three numbers"), ("1.2", "write three numbers"), ("0.0.1", "choose a higher one")],
)
def test_a_wrong_version_changes_nothing(checkout: Path, version: str, reason: str) -> None:
    before = _git(checkout, "rev-parse", "HEAD")
    done = _release(checkout, version)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert reason in done.stderr
    assert (_git(checkout, "rev-parse", "HEAD"), _git(checkout, "tag")) == (before, "")


def test_uncommitted_changes_are_kept(checkout: Path) -> None:
    (checkout / "CITATION.cff").write_text("mine")
    assert "commit them or put them aside" in _release(checkout, "9.8.7").stderr
    assert (checkout / "CITATION.cff").read_text() == "mine"
