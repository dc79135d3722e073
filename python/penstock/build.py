"""`penstock build`: link crates with algorithms into an extension module of its own."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

import penstock
from penstock import _core, extension
from penstock.errors import PenstockError, naming
from penstock.overrides import toml

WITH = ".with."
"""In a version, this text stands between Penstock's own version and the names of the crates."""

OURS = ("penstock-units", "penstock-core", "penstock-scenario", "penstock-network")
"""Crates of Penstock that an algorithm uses. It must use those of the same checkout."""


COLLISION = re.compile(
    r"package collision in the lockfile: packages (penstock-\w+) \S+ \((.+?)\) and \S+ \S+ \((.+?)\)"
)
"""Cargo's message if a crate uses another copy of Penstock with the same version."""


class Crate(NamedTuple):
    """A library crate with algorithms."""

    folder: Path
    name: str
    """The name of its package."""
    library: str
    """The name by which Rust code uses it."""


class Extension(NamedTuple):
    """A linked extension module."""

    file: Path
    version: str
    algorithms: list[tuple[str, str]]
    """Key and name of each algorithm that it adds."""


def build(folders: Sequence[Path], sources: Path | None = None, *, release: bool = False) -> Extension:
    """Link the crates in `folders` into an extension module, which PENSTOCK_EXTENSION selects.

    Args:
        folders: crates with a function `pub fn register(plugins: &mut Plugins)`.
        sources: the checkout of Penstock; by default the one that contains this package.
        release: link with optimisation across crates, as wheels are. This takes minutes.

    Raises:
        PenstockError: if cargo is missing, a crate is wrong or does not compile, or a name is taken.
    """
    root = _sources(sources)
    cargo = shutil.which("cargo")
    if cargo is None:
        raise PenstockError("penstock build needs cargo, and PATH has none; install Rust, see https://rustup.rs")
    crates = [_crate(cargo, folder) for folder in folders]
    names = "-".join(crate.name for crate in crates)
    # Two crates in different folders can have the same name.
    place = hashlib.sha256("\0".join(str(crate.folder) for crate in crates).encode()).hexdigest()[:8]
    work = root / "target" / "with" / f"{names}-{place}"
    with naming(work, "make"):
        work.mkdir(parents=True, exist_ok=True)
    with _locked(work):
        return _build(cargo, root, work, crates, names, release=release)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other `penstock build` uses this folder."""
    with naming(folder, "open"):
        lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _build(cargo: str, root: Path, work: Path, crates: Sequence[Crate], names: str, *, release: bool) -> Extension:
    with naming(work, "write"):
        _manifest(root, work, crates)
        shutil.copyfile(root / "Cargo.lock", work / "Cargo.lock")
    digest = _digest(_packages(cargo, work, root, crates))
    built = _compile(cargo, root, work, crates, f"{WITH}{names}.{digest}", release=release)
    file = work / digest / "_core.abi3.so"
    command = ["penstock", "build", *(word for crate in crates for word in ("--with", str(crate.folder)))]
    with naming(file):
        file.parent.mkdir(exist_ok=True)
        # A process may have the earlier file open, so it is replaced and not overwritten.
        shutil.copyfile(built, file.with_suffix(".tmp"))
        file.with_suffix(".tmp").replace(file)
        record = {"belongs_to": extension.belongs_to(penstock.__path__), "command": join(command)}
        (file.parent / extension.RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return _loaded(file, root, names)


def _sources(given: Path | None) -> Path:
    root = (given or Path(__file__).parents[2]).resolve()
    if (root / "crates" / "py" / "Cargo.toml").is_file():
        return root
    if given is None:
        raise PenstockError(
            f"penstock build needs Penstock's sources, and this installation has none; "
            f"check out {_plain(_core.version())} and add --sources DIR"
        )
    raise PenstockError(f"{given} is not a checkout of Penstock: it has no crates/py/Cargo.toml")


def _plain(version: str) -> str:
    """The version without linked crates."""
    return version.partition(WITH)[0]


def _crate(cargo: str, folder: Path) -> Crate:
    folder = folder.resolve()
    manifest = folder / "Cargo.toml"
    if not manifest.is_file():
        raise PenstockError(f"{folder} is not a crate: it has no Cargo.toml; name the folder of a library crate")
    packages = _metadata(cargo, manifest, "--no-deps")["packages"]
    package = next((each for each in packages if Path(each["manifest_path"]) == manifest), None)
    if package is None:
        raise PenstockError(f"{manifest} is a workspace without a package; name the folder of one of its crates")
    libraries = [each["name"] for each in package["targets"] if {"lib", "rlib"} & {*each["kind"]}]
    if not libraries:
        raise PenstockError(f"{folder} is not a library crate; add src/lib.rs with `pub fn register`")
    return Crate(folder, package["name"], libraries[0].replace("-", "_"))


def _metadata(cargo: str, manifest: Path, *options: str) -> dict[str, Any]:
    command = [cargo, "metadata", "--format-version", "1", "--color", "never", "--manifest-path", str(manifest)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise PenstockError(f"cargo refuses {manifest}: {_first_error(done.stderr)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _first_error(text: str) -> str:
    """The first error of cargo, with its causes, in one line."""
    lines = [line.strip() for line in text.partition("error: ")[2].splitlines() if line.strip()]
    return "; ".join(line for line in lines[:4] if line != "Caused by:") or "it failed without a message"


def _manifest(root: Path, work: Path, crates: Sequence[Crate]) -> None:
    """Write a package with the sources of crates/py, its dependencies, and the crates."""
    workspace = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    ours = tomllib.loads((root / "crates" / "py" / "Cargo.toml").read_text(encoding="utf-8"))
    shared = workspace["workspace"]["dependencies"]
    dependencies: dict[str, Any] = {}
    for name, needed in ours["dependencies"].items():
        inherits = isinstance(needed, dict) and needed.get("workspace")
        found = shared[name] if inherits else needed
        found = {"version": found} if isinstance(found, str) else found
        dependencies[name] = {key: str(root / value) if key == "path" else value for key, value in found.items()}
    for crate in crates:
        dependencies[crate.library] = {"package": crate.name, "path": str(crate.folder)}
    # Not with the name of the ordinary module, whose file would be replaced.
    tables: dict[str, Mapping[str, Any]] = {
        "package": {
            **{key: workspace["workspace"]["package"][key] for key in ("version", "edition")},
            "name": "penstock-with",
            "build": str(root / "crates" / "py" / "build.rs"),
        },
        "lib": {
            "name": "penstock_with",
            "path": str(root / "crates" / "py" / "src" / "lib.rs"),
            "crate-type": ["cdylib"],
        },
        "dependencies": dependencies,
        "workspace": {},
    }
    for profile in ("release", "quick"):
        scalars = {key: value for key, value in workspace["profile"][profile].items() if not isinstance(value, dict)}
        tables[f"profile.{profile}"] = scalars
    text = "".join(_table(title, table) for title, table in tables.items())
    (work / "Cargo.toml").write_text(text, encoding="utf-8")


def _table(title: str, table: Mapping[str, Any]) -> str:
    return f"[{title}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in table.items()) + "\n"


def _packages(cargo: str, work: Path, root: Path, crates: Sequence[Crate]) -> list[Path]:
    """The folders of all packages that are linked from this machine and are not Penstock's."""
    try:
        packages = _metadata(cargo, work / "Cargo.toml")["packages"]
    except PenstockError as error:
        if collision := COLLISION.search(str(error)):
            folders = (Path(folder) for folder in (collision[2], collision[3]))
            other = next(folder for folder in folders if not folder.is_relative_to(root / "crates"))
            raise _other_copy(crates, collision[1], other, root) from error
        raise
    local = {Path(each["manifest_path"]).parent: each["name"] for each in packages if each["source"] is None}
    for folder, name in local.items():
        if name in OURS and not folder.is_relative_to(root / "crates"):
            raise _other_copy(crates, name, folder, root)
    return [folder for folder in local if folder != work and not folder.is_relative_to(root / "crates")]


def _other_copy(crates: Sequence[Crate], name: str, folder: Path, root: Path) -> PenstockError:
    return PenstockError(
        f"{crates[0].name} uses {name} in {folder}, and this is another copy of Penstock; "
        f"set its path to {root / 'crates' / name.removeprefix('penstock-')}"
    )


def _digest(folders: Sequence[Path]) -> str:
    """A digest of the sources in `folders`, without the files that builds write."""
    digest = hashlib.sha256()
    for folder in sorted(folders):
        for path in sorted(folder.rglob("*")):
            within = path.relative_to(folder)
            if within.parts[0] in ("target", "Cargo.lock") or within.parts[0].startswith(".") or not path.is_file():
                continue
            with naming(path, "read"):
                content = path.read_bytes()
            digest.update(f"{within}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:8]


def _compile(cargo: str, root: Path, work: Path, crates: Sequence[Crate], suffix: str, *, release: bool) -> Path:
    """Compile the package; cargo's progress and the compiler's errors appear on standard error."""
    variables = {
        **os.environ,
        # The registry's libraries are those of the checkout's own builds.
        "CARGO_TARGET_DIR": str(root / "target"),
        "PYO3_PYTHON": sys.executable,
        "PENSTOCK_SOURCES": str(root),
        "PENSTOCK_PLUGINS": " ".join(crate.library for crate in crates),
        "PENSTOCK_WITH": suffix,
    }
    command = [cargo, "build", "--manifest-path", str(work / "Cargo.toml"), "--message-format=json-render-diagnostics"]
    command += ["--profile", "release" if release else "quick"]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise PenstockError(
            f"{' or '.join(crate.name for crate in crates)} does not compile with Penstock {_plain(_core.version())}: "
            "correct the errors above; a crate needs `pub fn register(plugins: &mut Plugins)`"
        )
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    files = [
        each["filenames"][0]
        for each in messages
        if each["reason"] == "compiler-artifact" and each["target"]["name"] == "penstock_with"
    ]
    return Path(files[-1])


def _loaded(file: Path, root: Path, names: str) -> Extension:
    """Load the module in another process, which finds names that are taken, and a mistake in the defaults."""
    code = "import json; from penstock import _core; print(json.dumps([_core.version(), _core.plugins()]))"
    variables = {**os.environ, extension.VARIABLE: str(file)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        file.unlink()
        last = done.stderr.strip().rpartition("\n")[2]
        raise PenstockError(f"{names} cannot be used: {last.partition(': ')[2] or last}")
    version, algorithms = json.loads(done.stdout)
    if _plain(version) != _plain(_core.version()):
        file.unlink()
        raise PenstockError(
            f"the sources in {root} are Penstock {_plain(version)}, and this command is {_plain(_core.version())}; "
            "install Penstock from the same sources, in a checkout with `make setup`"
        )
    return Extension(file, version, [(key, name) for key, name in algorithms])
