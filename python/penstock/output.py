"""Output directories: creating, resuming and finishing them.

A run is written into `parts/<variant>-<seed>.tmp` and renamed to `parts/<variant>-<seed>` when it is complete. With
networks that have their own seeds, the name is `<variant>-<network>-<seed>`.
`manifest.json` has `"finished": false` until every requested run is complete. Until then, runs and tables are read
from the parts, and afterwards from the merged tables.
"""

import fcntl
import json
import os
import resource
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from penstock import _core, identity, prototypes
from penstock._types import RunStats
from penstock.errors import OutputError, naming, replacing
from penstock.terminal import printable_strings

TABLES = ("transfers", "paths", "relays", "circuits", "cells", "clients")
"""The tables of a run, each a Parquet file."""


COSTS = ("sim_seconds", "wall_seconds", "cpu_seconds", *list(RunStats.__annotations__)[1:])
"""The costs of a run in the manifest."""

UNDER = Path("runs")
"""The default parent of output directories."""


def same_replay(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two records of a manifest are the same replay, or both `None`. Their directory may have moved."""
    keys = ("variant", "requests")
    return [one and one[key] for key in keys] == [other and other[key] for key in keys]


def fresh(stem: str, under: Path = UNDER) -> Path:
    """An unused path: `runs/<stem>-<n>`."""
    n = 1
    with naming(under / f"{stem}-{n}", "make"):
        while (under / f"{stem}-{n}").exists():
            n += 1
    return under / f"{stem}-{n}"


@dataclass(frozen=True, order=True)
class Job:
    """One run: a variant, the seed of its network (-1 if its own seed samples the network), and its own seed."""

    variant: str
    network: int
    seed: int

    @property
    def network_seed(self) -> int | None:
        """The seed of the run's network; None if its own seed samples the network."""
        return self.network if self.network >= 0 else None

    @property
    def folder(self) -> str:
        """The name of the run's part, escaped for file names."""
        network = f"{self.network}-" if self.network >= 0 else ""
        return f"{quote(self.variant, safe=' ,+=')}-{network}{self.seed}"

    @property
    def column(self) -> str:
        """The value of the run in the column `network` of tables."""
        return str(self.network) if self.network >= 0 else ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The run that a record of the manifest describes."""
        return cls(record["variant"], int(record["network"] or -1), record["seed"])


@dataclass(frozen=True)
class Origin:
    """The scenario and version of a directory. Only runs of the same scenario and version may be added."""

    name: str
    document: _core.Document
    sets: tuple[str, ...]
    typed: str
    """The scenario as typed."""
    sweep: dict[str, Any] | None = None
    """The grid of a sweep, as in the manifest."""
    replay: dict[str, Any] | None = None
    """The replayed output, as in the manifest."""
    network: str | None = None
    """The network file as typed."""
    attacks: tuple[dict[str, Any], ...] = ()
    """The tables `[[attacks]]` of the scenario."""
    world: str = "sim"
    """The backend: `sim` or `testbed`."""

    @property
    def version(self) -> str:
        """The version of Penstock, with the packages of prototypes that the scenario selects."""
        return prototypes.version_with(prototypes.of(self.document))

    def describe(self) -> dict[str, Any]:
        """The resolved scenario for the manifest."""
        variants = [
            {
                "name": name,
                "label": label,
                "resolved": self.document.resolved(name),
                "optimistic": self.document.optimistic(name),
            }
            for name, label in self.document.variants()
        ]
        described: dict[str, Any] = {
            "name": self.name,
            "fingerprint": self.document.fingerprint(),
            **self.document.head(),
            "sets": list(self.sets),
            "variants": variants,
        }
        if places := self.document.places():
            generated, source = places
            described["places"] = {"kind": "generated" if generated else "exact", "source": source}
        return described


class OutputDir:
    """The directory of one `penstock run`, locked against other writers."""

    def __init__(self, path: Path, origin: Origin, jobs: Iterable[Job], shard: str | None = None) -> None:
        """Create `path`, or resume an unfinished directory of the same origin; refuse any other.

        The requested runs grow by `jobs`: all variants so far, in all networks, with all seeds. The directory of a
        `shard` keeps its parts and never finishes; `penstock.shards` merges them.
        """
        self.path = path
        self.origin = origin
        self.shard = shard
        with naming(path, "make"):
            existed = path.exists()
            if not existed:
                path.mkdir(parents=True)
        self._lock = self._take_lock()
        try:
            jobs = list(jobs)
            earlier = self._check_resumable() if existed else {}
            self._variants = {*earlier.get("variants", ()), *(job.variant for job in jobs)}
            self._networks = {*earlier.get("networks", ()), *(job.network for job in jobs)}
            self._seeds = {*earlier.get("seeds", ()), *(job.seed for job in jobs)}
            if shard and existed and {*jobs_of(earlier)} != {*jobs}:
                raise OutputError(f"{path} exists and is a shard of other runs; choose another --out")
            refuse_link(self.parts)
            with naming(self.parts, "make"):
                self.parts.mkdir(exist_ok=True)
            self._drop_tables()
            self.write_manifest(finished=False)
        except BaseException:
            self.close()
            raise

    @classmethod
    def fresh(cls, origin: Origin, jobs: Iterable[Job], under: Path = UNDER) -> Self:
        """A new directory: `runs/<scenario>-<n>` or `runs/sweep-<scenario>-<n>`."""
        stem = ("sweep-" if origin.sweep else "") + origin.name.replace("/", "-")
        return cls(fresh(stem, under), origin, jobs)

    @property
    def parts(self) -> Path:
        """The folder of finished runs until their tables are merged."""
        return self.path / "parts"

    @property
    def asked(self) -> list[Job]:
        """Every run that was requested so far, in the order of the final tables."""
        variants = [name for name, _ in self.origin.document.variants() if name in self._variants]
        networks, seeds = sorted(self._networks), sorted(self._seeds)
        return [Job(name, network, seed) for name in variants for network in networks for seed in seeds]

    def _check_resumable(self) -> dict[str, Any]:
        """The runs that were requested earlier, if the directory can be resumed."""
        manifest = read_manifest(self.path)
        if manifest is None:
            raise OutputError(f"{self.path} exists and is not an output of penstock; choose another --out")
        if manifest.get("finished"):
            raise OutputError(
                f"{self.path} exists and is finished; choose another --out, or read it with penstock report {self.path}"
            )
        if manifest.get("shard") != self.shard:
            which = f"shard {manifest['shard']}" if "shard" in manifest else "runs without --shard"
            raise OutputError(f"{self.path} exists and holds {which}; choose another --out")
        scenario = manifest.get("scenario", {})
        same = manifest.get("sweep") == self.origin.sweep
        replayed = same_replay(manifest.get("replay"), self.origin.replay)
        was_in = manifest.get("world", "sim")
        if was_in != self.origin.world:
            raise OutputError(f"{self.path} exists and holds unfinished runs of --world {was_in}; choose another --out")
        if not same or not replayed or scenario.get("fingerprint") != self.origin.document.fingerprint():
            was = scenario.get("name", "?")
            if was != self.origin.name:
                what = f"scenario {was}"
            elif same and not replayed:
                what = "the same scenario, " + ("with another replay" if manifest.get("replay") else "without a replay")
            elif same:
                what = "the same scenario with other contents or --set"
            else:
                what = "the same scenario, " + ("with another grid" if manifest.get("sweep") else "without a sweep")
            raise OutputError(f"{self.path} exists and holds unfinished runs of {what}; choose another --out")
        if manifest.get("version") != self.origin.version:
            raise OutputError(
                f"{self.path} exists and was made by penstock {manifest.get('version')}, and this is "
                f"{self.origin.version}; continue with the other build, or choose another --out"
            )
        asked: dict[str, Any] = manifest.get("asked", {})
        return asked

    def _take_lock(self) -> int:
        with naming(self.path, "open"):
            lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise OutputError(f"another penstock is writing to {self.path}") from None
        return lock

    def close(self) -> None:
        """Unlock the directory."""
        os.close(self._lock)

    def begin(self, job: Job) -> Path:
        """An empty directory for the tables of a run that starts now."""
        part = self.parts / f"{job.folder}.tmp"
        with naming(part, "make"):
            if part.exists():
                shutil.rmtree(part)
            part.mkdir()
        return part

    def commit(self, job: Job, stats: dict[str, Any]) -> None:
        """Keep a complete run."""
        part = self.parts / f"{job.folder}.tmp"
        costs = {name: stats[name] for name in COSTS}
        write_json(part / "run.json", {"variant": job.variant, "network": job.column, "seed": job.seed, **costs})
        with naming(part, "rename"):
            part.rename(self.parts / job.folder)

    def discard(self, job: Job) -> None:
        """Remove the files of an incomplete run."""
        shutil.rmtree(self.parts / f"{job.folder}.tmp", ignore_errors=True)

    def finished(self) -> dict[Job, dict[str, Any]]:
        """The finished runs and their costs, in the order of the final tables."""
        order = [name for name, _ in self.origin.document.variants()]
        return {Job.of(record): record for record, _ in finished_parts(self.path, order)}

    def missing(self) -> list[Job]:
        """The requested runs that are not finished."""
        return missing(self.asked, self.finished())

    @property
    def complete(self) -> bool:
        """Whether all requested runs are finished and can be merged here."""
        return not self.shard and not self.missing()

    def merge(self) -> None:
        """Join the tables of the finished runs."""
        _core.merge([self.parts / job.folder for job in self.finished()], self.path)

    def finish(self) -> None:
        """Write the manifest; remove the parts if all runs are finished and merged."""
        finished = self.complete
        self.write_manifest(finished=finished)
        if finished:
            shutil.rmtree(self.parts, ignore_errors=True)

    def keep(self) -> None:
        """Keep only the parts of an unfinished directory."""
        with suppress(OutputError):
            self._drop_tables()
            self.write_manifest(finished=False)

    def _drop_tables(self) -> None:
        """Remove merged tables of fewer runs or of an incomplete merge."""
        for table in TABLES:
            for path in (self.path / f"{table}{end}" for end in (".parquet", ".parquet.tmp", ".csv")):
                with naming(path, "remove"):
                    path.unlink(missing_ok=True)
        for path in (self.path / "summary.csv", self.path / "differences.csv"):
            with naming(path, "remove"):
                path.unlink(missing_ok=True)

    def write_manifest(self, *, finished: bool) -> None:
        """Write the manifest."""
        networks = sorted(network for network in self._networks if network >= 0)
        origin = self.origin
        asked = {
            "scenario": origin.typed,
            "network": origin.network,
            "variants": list(dict.fromkeys(job.variant for job in self.asked)),
            "networks": networks or None,
            "seeds": sorted(self._seeds),
        }
        manifest = {
            "version": origin.version,
            "build": identity.build(prototypes.of(origin.document)),
            "finished": finished,
            "asked": _given(asked),
            "world": origin.world if origin.world != "sim" else None,
            "sweep": origin.sweep,
            "replay": origin.replay,
            "attacks": list(origin.attacks) or None,
            "shard": self.shard,
            "scenario": origin.describe(),
            "runs": list(self.finished().values()),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        write_json(self.path / "manifest.json", _given(manifest))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of an output directory; None if there is no manifest."""
    path = directory / "manifest.json"
    with naming(path, "read"):
        if not path.is_file():
            return None
    manifest = read_json(path)
    from penstock.manifest import check_manifest

    check_manifest(manifest, path)
    return manifest


def finished_parts(directory: Path, variants: Sequence[str]) -> list[tuple[dict[str, Any], Path]]:
    """The records and parts of finished runs, in the order of the final tables."""
    from penstock.manifest import check_record

    parts = directory / "parts"
    refuse_link(parts)
    files = [path for path in parts.glob("*/run.json") if path.parent.suffix != ".tmp"]
    found = [(read_json(path), path.parent) for path in files]
    order = {name: rank for rank, name in enumerate(variants)}
    for record, part in found:
        refuse_link(part)
        check_record(record, part / "run.json", {*order})
    return sorted(found, key=lambda part: (order[part[0]["variant"]], Job.of(part[0])))


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link, which could lead to files outside the output directory."""
    if path.is_symlink():
        raise OutputError(f"{path} is a symbolic link; remove it, or choose another output directory")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Its strings are safe to print on a terminal."""
    try:
        with naming(path, "read"):
            value = printable_strings(json.loads(path.read_text(encoding="utf-8")))
    except RecursionError as error:
        raise OutputError(f"{path} is not an output of penstock: its nesting is too deep") from error
    except ValueError as error:
        raise OutputError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OutputError(f"{path} is not an output of penstock: it contains no JSON object")
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def jobs_of(asked: Mapping[str, Any]) -> list[Job]:
    """Every run that `asked` of a manifest requests, in the order of the final tables."""
    networks = asked.get("networks") or [-1]
    return [
        Job(variant, network, seed) for variant in asked["variants"] for network in networks for seed in asked["seeds"]
    ]


def missing(jobs: Sequence[Job], finished: Iterable[Job]) -> list[Job]:
    """The runs that are not finished, in the requested order."""
    done = set(finished)
    return [job for job in jobs if job not in done]
