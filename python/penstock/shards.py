"""Shards: parts of a list of runs, which several machines execute, and their merge into one output directory."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock import _core
from penstock.errors import OutputError, ScenarioError, naming
from penstock.output import Job, finished_parts, jobs_of, read_manifest, write_json
from penstock.result import Result

SAME = {
    "version": "another build of penstock",
    "world": "another --world",
    "sweep": "another grid",
    "replay": "another replay",
    "asked": "other variants, networks or seeds",
}
"""The keys of the manifest that all shards share, and the name of a difference."""


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard of `K/N`."""
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise ScenarioError(f"--shard is {text!r}; write K/N with K from 1 to N, such as 3/20")
        return cls(int(match[1]), int(match[2]))

    def of(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The runs of this shard. They are neighbours in the list, so a shard has all variants of most of its seeds."""
        first, end = (len(jobs) * number // self.count for number in (self.number - 1, self.number))
        return jobs[first:end]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def merge(directories: Sequence[str | Path], out: str | Path) -> Result:
    """Merge the directories of all shards into the new directory `out`.

    Its tables have the same bytes as the tables of one command without shards.

    Raises:
        OutputError: if a directory is no shard, if shards do not belong together, or if a run is missing.
    """
    paths, to = [Path(directory) for directory in directories], Path(out)
    manifests = [_manifest(path) for path in paths]
    first = manifests[0]
    for path, manifest in zip(paths, manifests, strict=True):
        _check_same(first, manifest, paths[0], path)
    found = _runs(paths, [each["name"] for each in first["scenario"]["variants"]])
    asked = jobs_of(first["asked"])
    if absent := [job for job in asked if job not in found]:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise OutputError(f"the run {absent[0].folder}{more} is in none of these directories; finish all shards first")
    with naming(to, "make"):
        if to.exists():
            raise OutputError(f"{to} exists; choose another --out")
        to.mkdir(parents=True)
    try:
        _core.merge([found[job][1] for job in asked], to)
        write_json(to / "manifest.json", _merged(manifests, [found[job][0] for job in asked]))
        result = Result(to)
        if "sweep" in first:
            from penstock import points

            points.write(result)
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise
    return result


def _manifest(path: Path) -> dict[str, Any]:
    manifest = read_manifest(path)
    if manifest is None:
        raise OutputError(f"{path} is not an output of penstock: it has no manifest.json")
    if "shard" not in manifest:
        raise OutputError(f"{path} is not a shard; make shards with penstock run --shard K/N --out DIR")
    return manifest


def _check_same(first: dict[str, Any], other: dict[str, Any], first_path: Path, path: Path) -> None:
    def comparable(manifest: dict[str, Any], key: str) -> Any:
        if key != "asked":
            return manifest.get(key)
        # The scenario as typed may be another path on another machine.
        return {name: value for name, value in manifest[key].items() if name not in ("scenario", "network")}

    different = [name for key, name in SAME.items() if comparable(first, key) != comparable(other, key)]
    if first["scenario"]["fingerprint"] != other["scenario"]["fingerprint"]:
        different.insert(0, "another scenario or --set")
    if different:
        raise OutputError(f"{path} has {different[0]} than {first_path}; merge shards of one command")


def _runs(paths: Sequence[Path], variants: Sequence[str]) -> dict[Job, tuple[dict[str, Any], Path]]:
    """The record and the part of each finished run."""
    found: dict[Job, tuple[dict[str, Any], Path]] = {}
    for path in paths:
        for record, part in finished_parts(path, variants):
            job = Job.of(record)
            if job in found:
                raise OutputError(f"{found[job][1]} and {part} are the same run; name each shard once")
            found[job] = record, part
    return found


def _merged(manifests: Sequence[dict[str, Any]], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The manifest of all runs, with the platforms of all shards."""
    platforms = sorted({each["build"]["platform"] for each in manifests})
    return {
        **{key: value for key, value in manifests[0].items() if key != "shard"},
        "build": {**manifests[0]["build"], "platform": "; ".join(platforms)},
        "finished": True,
        "runs": runs,
        "peak_rss_bytes": max(each["peak_rss_bytes"] for each in manifests),
    }
