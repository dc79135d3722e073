"""Finds the source (a directory or a single document) that a name on the command line stands for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from penstock import packed
from penstock.compare import analysis, ours, plotted, tgen
from penstock.compare.source import LARGEST, Found, Source
from penstock.errors import OutputError, naming

KNOWN = (
    "an output of penstock, *onionperf.analysis.json, tornet.plot.data, tgen.analysis.json, tor_metrics_*.json, or "
    "logs of tgen's clients (*tgen*.log, *.stdout), each also as .xz"
)


def read(spec: str, *, workloads: Sequence[str] = (), skip: float = 0.0) -> Source:
    """Read one of the two sources of a comparison.

    Args:
        spec: a file, a directory, or an output of Penstock with a variant, `DIR:VARIANT`.
        workloads: the workloads of a Penstock output; by default all.
        skip: for other tools, the time at the start of each replicate; downloads in it do not count [s].

    Raises:
        OutputError: if the path has no complete download, or cannot be read.
    """
    path, variant = _path(spec)
    if (path / "manifest.json").is_file():
        return ours.read(spec, path, variant, workloads)
    if variant:
        raise OutputError(
            f"{path} is not an output of penstock; only outputs of penstock have variants like {variant!r}"
        )
    source = _directory(spec, path) if path.is_dir() else _file(spec, path)
    if not skip:
        return source
    at = pl.col("at_s")
    rows = source.downloads.filter(at.is_null() | (at >= at.min().over("network") + skip))
    if rows.filter(outcome="ok").is_empty():
        raise OutputError(f"{path}: no download is left after the first {skip:g} s; choose a smaller --skip")
    return replace(source, downloads=rows)


def _path(spec: str) -> tuple[Path, str]:
    """The path, and the variant after the last colon. A path may contain colons, too."""
    path = Path(spec)
    with naming(path, "read"):
        if path.exists():
            return path, ""
        directory, colon, variant = spec.rpartition(":")
        if colon and variant and directory and Path(directory).exists():
            return Path(directory), variant
    raise OutputError(f"{spec} does not exist")


def _directory(label: str, path: Path) -> Source:
    """The best source in a directory: measurements and extracts come before raw logs."""
    with naming(path, "read"):
        plots = [path] if path.name == plotted.FOLDER else sorted(path.rglob(plotted.FOLDER))
        metrics = _matching(path, "tor_metrics_*.json")
        readers: list[tuple[list[Path], Callable[[str, Path, list[Path]], Source]]] = [
            (_matching(path, "*onionperf.analysis*.json"), _analyses),
            (plots, _simulations),
            (_matching(path, "tgen.analysis.json"), _analyses),
            (metrics[:1], lambda label, _, files: _file(label, files[0])),
            (_matching(path, "*tgen*.log", "*tgen*.stdout"), _logs),
        ]
    for files, reader in readers:
        if files:
            return reader(label, path, files)
    raise OutputError(f"{path} has nothing to compare; supported are {KNOWN}")


def _matching(path: Path, *patterns: str) -> list[Path]:
    return sorted({found for pattern in patterns for end in ("", ".xz") for found in path.rglob(pattern + end)})


def _name(path: Path, file: Path, files: Sequence[Path]) -> str:
    return str(file.relative_to(path)) if len(files) > 1 else ""


def _analyses(label: str, path: Path, files: list[Path]) -> Source:
    """Read each file as one replicate: a day or host of OnionPerf, or a simulation of tgentools."""
    found, kinds = Found(), []
    for file in files:
        found.network = _name(path, file, files)
        kinds.append(analysis.read(file, plotted.document(file), found))
    # Analyses of tgen beside each other are simulations of tornettools.
    kind = "tornettools" if kinds[0] == "tgen" else kinds[0]
    return found.whole(label, path, kind)


def _simulations(label: str, path: Path, folders: list[Path]) -> Source:
    found = Found()
    for folder in folders:
        found.network = _name(path, folder, folders).removesuffix(f"/{plotted.FOLDER}")
        plotted.read_simulation(folder, found)
    return found.whole(label, path, "tornettools")


def _logs(label: str, path: Path, files: list[Path]) -> Source:
    found = Found()
    for file in files:
        tgen.read_log(_text(packed.read(file, LARGEST, "a larger log is not supported")), found)
    return found.whole(label, path, "tgen")


def _file(label: str, path: Path) -> Source:
    """The source in a single document. The content of the document tells its kind."""
    if path.name.startswith((plotted.FIRST, plotted.LAST)):
        return _simulations(label, path.parent, [path.parent])
    data = packed.read(path, LARGEST, "a larger file is not supported")
    found = Found()
    if data.lstrip()[:1] not in (b"{", b"["):
        tgen.read_log(_text(data), found)
        if not found.rows and not found.unread:
            raise OutputError(f"{path} has no download; supported are {KNOWN}")
        return found.whole(label, path, "tgen")
    document = plotted.parsed(path, data)
    if "data" in document:
        return found.whole(label, path, analysis.read(path, document, found))
    if "download_times" in document:
        plotted.read_metrics(path, document, found)
        note = "smaller sizes may be the first bytes of larger downloads, as in Tor's metrics since 2020"
        return found.whole(label, path, "OnionPerf", note)
    raise OutputError(f"{path} has neither the key data nor download_times; supported are {KNOWN}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
