"""Finds the source that a name on the command line means: a directory or a single document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from penstock import packed
from penstock.compare import analysis, ours, plotted, tgen
from penstock.compare.source import LARGEST, Found, Reader, Source, Tried, after
from penstock.errors import OutputError, naming

KNOWN = (
    "an output of penstock, *onionperf.analysis.json, tornet.plot.data, tgen.analysis.json, tor_metrics_*.json, or "
    "logs of tgen's clients (*tgen*.log, *.stdout), each also as .xz"
)

ANALYSES = ("*onionperf.analysis*.json", "*onionperf.analysis*.json.xz")
TGEN = ("tgen.analysis.json", "tgen.analysis.json.xz")
METRICS = ("tor_metrics_*.json", "tor_metrics_*.json.xz")
LOGS = ("*tgen*.log", "*tgen*.log.xz", "*tgen*.stdout", "*tgen*.stdout.xz")


def read(spec: str, *, workloads: Sequence[str] = (), skip: float = 0.0) -> Source:
    """A side of a comparison.

    Args:
        spec: a file, a directory, or one of ours with a variant, `DIR:VARIANT`.
        workloads: of ours, only these; all if there are none.
        skip: of others, leave out what began less than so many seconds after the first download of its replicate [s].

    Raises:
        OutputError: if there is nothing, or nothing whole, to compare.
    """
    path, variant = _path(spec)
    if (path / "manifest.json").is_file():
        return ours.read(spec, path, variant, workloads)
    if variant:
        raise OutputError(f"{path} is no output of penstock; only outputs of penstock have variants like {variant!r}")
    source = _directory(spec, path) if path.is_dir() else _file(spec, path)
    if not skip:
        return source
    rows = after(source.downloads, skip)
    if rows.filter(outcome="ok").is_empty():
        raise OutputError(f"{path}: no download is left after the first {skip:g} s; choose a smaller --skip")
    return Source(source.label, path, source.kind, rows, source.tried, source.notes)


def _path(spec: str) -> tuple[Path, str]:
    """The path, and the variant after a colon; a path may contain colons, too."""
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
        plots = [path] if path.name == plotted.FOLDER else _matching(path, (plotted.FOLDER,))
        readers: list[tuple[list[Path], Callable[[str, Path, list[Path]], Source]]] = [
            (_matching(path, ANALYSES), _analyses),
            (plots, _simulations),
            (_matching(path, TGEN), _analyses),
            (_matching(path, METRICS)[:1], lambda label, _, files: _file(label, files[0])),
            (_matching(path, LOGS), _logs),
        ]
    for files, reader in readers:
        if files:
            return reader(label, path, files)
    raise OutputError(f"{path} has nothing to compare; supported are {KNOWN}")


def _matching(path: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({found for pattern in patterns for found in path.rglob(pattern)})


def _names(path: Path, files: Sequence[Path]) -> list[str]:
    """The relative path of each file; empty if there is only one."""
    if len(files) == 1:
        return [""]
    return [str(file.relative_to(path)) for file in files]


def _analyses(label: str, path: Path, files: list[Path]) -> Source:
    """Of OnionPerf each file counts as a replicate, a day or a host; of tgentools each is a simulation."""
    found, kinds = Found(), []
    for file, name in zip(files, _names(path, files), strict=True):
        reader = Reader(file)
        document = reader.mapping(plotted.document(file), "the document")
        if "data" not in document:
            raise reader.wrong("data", "is missing: it is no analysis of OnionPerf or tgentools")
        kinds.append(analysis.read(reader, document, name, found))
    # Analyses of tgen beside each other are simulations of tornettools.
    kind = "tornettools" if kinds[0] == "tgen" else kinds[0]
    return found.whole(label, path, kind)


def _simulations(label: str, path: Path, folders: list[Path]) -> Source:
    found, tried = Found(), []
    for folder, name in zip(folders, _names(path, folders), strict=True):
        tried.append(plotted.read_simulation(folder, name.removesuffix(f"/{plotted.FOLDER}"), found))
    source = found.whole(label, path, "tornettools")
    known = [each for each in tried if each is not None]
    total = Tried(sum(each.failed for each in known), sum(each.attempts for each in known)) if known else None
    return Source(label, path, source.kind, source.downloads, total, source.notes)


def _logs(label: str, path: Path, files: list[Path]) -> Source:
    """Logs of clients in one network."""
    found = Found()
    for file in files:
        tgen.read_log(_text(packed.read(file, LARGEST, "no log of a client is so large")), found)
    return found.whole(label, path, "tgen")


def _file(label: str, path: Path) -> Source:
    """A single document; its contents tell the kind."""
    if path.name.startswith((plotted.FIRST, plotted.LAST)):
        return _simulations(label, path.parent, [path.parent])
    data = packed.read(path, LARGEST, "no analysis and no log is so large")
    found, reader = Found(), Reader(path)
    if data.lstrip()[:1] not in (b"{", b"["):
        text = _text(data)
        tgen.read_log(text, found)
        if not found.rows and not found.unread:
            raise OutputError(f"{path} has no download; supported are {KNOWN}")
        return found.whole(label, path, "tgen")
    document = reader.mapping(plotted.parsed(path, data), "the document")
    if "data" in document:
        return found.whole(label, path, analysis.read(reader, document, "", found))
    if "download_times" in document:
        tried = plotted.read_metrics(reader, document, found)
        source = found.whole(label, path, "OnionPerf", _SMALLER)
        return Source(label, path, source.kind, source.downloads, tried, source.notes)
    raise OutputError(f"{path} has neither the key data nor download_times; supported are {KNOWN}")


_SMALLER = ("smaller sizes may be the first bytes of larger downloads, as in Tor's metrics since 2020",)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
