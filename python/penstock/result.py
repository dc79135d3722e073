"""The contents of an output directory as data frames.

Statistics are imported on first use, because loading them takes longer than finding a mistake.
"""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.errors import OutputError, naming
from penstock.output import finished_parts, read_manifest

if TYPE_CHECKING:
    from penstock.replicates import Replicates

NEWEST = 4
"""The largest number of output directories that a message names."""


class Result:
    """An output directory.

    Its tables are read on first use and have the columns of the files. Times in columns ending in `_s` are seconds of
    the run. Times in columns ending in `_ns` are nanoseconds.
    """

    def __init__(self, directory: str | Path) -> None:
        """Open a directory that penstock wrote, finished or not."""
        self.directory = Path(directory)
        manifest = read_manifest(self.directory)
        if manifest is None:
            there = "is not an output of penstock: it has no manifest.json"
            raise OutputError(f"{directory} {there if self.directory.exists() else _missing(self.directory)}")
        self.manifest: dict[str, Any] = manifest
        self._parts: list[Path] | None = None
        if not self.finished:
            # An interrupted run may not have updated the manifest.
            found = finished_parts(self.directory, [each["name"] for each in self.scenario["variants"]])
            self.manifest["runs"] = [record for record, _ in found]
            self._parts = [part for _, part in found]

    def __repr__(self) -> str:
        return f"Result({str(self.directory)!r}, {len(self.manifest['runs'])} runs)"

    def _repr_html_(self) -> str:
        """The title and the summary, for notebooks."""
        from penstock.tables import seconds

        head = ("variant", "workload", "downloads", "TTFB median", "TTFB 90 %", "download median", "download 90 %")
        columns = ("ttfb_median_s", "ttfb_p90_s", "ttlb_median_s", "ttlb_p90_s")
        rows = [
            (row["label"], row["workload"], str(row["downloads"]), *(seconds(row[column]) for column in columns))
            for row in (self.summary().rows(named=True) if self.manifest["runs"] else ())
        ]
        table = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        names = "".join(f"<th>{name}</th>" for name in head)
        caption = f"{escape(self.title)}: {len(self.manifest['runs'])} runs in {escape(str(self.directory))}"
        return f"<table><caption>{caption}</caption><thead><tr>{names}</tr></thead><tbody>{table}</tbody></table>"

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario in the manifest."""
        scenario: dict[str, Any] = self.manifest["scenario"]
        return scenario

    @property
    def title(self) -> str:
        """The title of the scenario, or its name."""
        return str(self.scenario["title"] or self.scenario["name"])

    @property
    def finished(self) -> bool:
        """Whether every requested run is finished."""
        return bool(self.manifest["finished"])

    @property
    def asked(self) -> dict[str, Any]:
        """The scenario as typed, and the variants and seeds that were requested so far."""
        known = {"scenario": self.scenario["name"], "variants": list(self.variants), "seeds": self.seeds}
        return {**known, **self.manifest.get("asked", {})}

    @property
    def command(self) -> str:
        """The command that repeats the tables, or that finishes an unfinished directory."""
        asked = self.asked
        sweep = self.manifest.get("sweep")
        words = ["penstock", "sweep" if sweep else "run", asked["scenario"]]
        if sweep:
            words += [word for param in sweep["params"] for word in ("--param", param)]
            words += [word for name in sweep["variants"] for word in ("--variant", name)]
        elif asked["variants"] != [each["name"] for each in self.scenario["variants"]]:
            words += [word for name in asked["variants"] for word in ("--variant", name)]
        if replay := self.manifest.get("replay"):
            words += ["--replay", replay["directory"], "--replay-variant", replay["variant"]]
        words += ["--network", asked["network"]] if "network" in asked else []
        seeds, networks = asked["seeds"], asked.get("networks", [])
        together = seeds == list(range(seeds[0], seeds[0] + len(seeds))) if seeds else True
        lists = ({} if together else {"run.seeds": seeds}) | ({"run.networks": networks} if networks else {})
        named = {"run.seeds"} | ({"run.networks"} if networks else set())
        sets = [each for each in self.scenario["sets"] if each.partition("=")[0].strip() not in named]
        sets += [f"{key}={json.dumps(values, separators=(',', ':'))}" for key, values in lists.items()]
        words += [word for override in sets for word in ("--set", override)]
        if seeds and together:
            words += ["--seed", str(seeds[0]), "--runs", str(len(seeds))]
        words += ["--shard", self.manifest["shard"]] if "shard" in self.manifest else []
        if not self.finished:
            words += ["--out", str(self.directory)]
        return shlex.join(words)

    @cached_property
    def variants(self) -> dict[str, str]:
        """Names and labels of the variants that were run, in the order of the scenario."""
        ran = {run["variant"] for run in self.manifest["runs"]}
        return {each["name"]: each["label"] for each in self.scenario["variants"] if each["name"] in ran}

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run, in order."""
        return sorted({run["seed"] for run in self.manifest["runs"]})

    @cached_property
    def replicates(self) -> "Replicates":
        """The independent replicates: networks if there are several, otherwise seeds."""
        from penstock.replicates import Replicates

        return Replicates.of((run["network"], run["seed"]) for run in self.manifest["runs"])

    @cached_property
    def runs(self) -> pl.DataFrame:
        """One row per run: its costs and the counters of its nodes."""
        return pl.DataFrame(self.manifest["runs"])

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """One row per download."""
        return self._table("transfers")

    @cached_property
    def paths(self) -> pl.DataFrame:
        """One row per circuit."""
        return self._table("paths")

    @cached_property
    def relays(self) -> pl.DataFrame:
        """One row per relay and interval."""
        return self._table("relays")

    @cached_property
    def circuits(self) -> pl.DataFrame:
        """One row per traced circuit, hop and sample."""
        return self._table("circuits")

    @cached_property
    def clients(self) -> pl.DataFrame:
        """One row per client and interval with bytes; empty without `trace.clients`."""
        return self._table("clients")

    @cached_property
    def cells(self) -> pl.DataFrame:
        """One row per tracked cell and hop."""
        return self._table("cells")

    def scan(self, name: str) -> pl.LazyFrame:
        """A table by name, of which only the needed rows are read; collect it inside `reading`."""
        return pl.concat(pl.scan_parquet(file) for file in self._files(name)).cast({"seed": pl.Int64})

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of rows that `scan` reads into a sentence."""
        try:
            yield
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = " ".join(str(error).split())
            raise OutputError(f"{self.directory} has changed or is damaged: start again ({reason[:200]})") from error

    def _files(self, name: str) -> list[Path]:
        files = [part / f"{name}.parquet" for part in ([self.directory] if self._parts is None else self._parts)]
        if not files:
            raise OutputError(f"{self.directory} has no finished run yet")
        return files

    def _table(self, name: str) -> pl.DataFrame:
        files = self._files(name)
        try:
            with naming(files[0], "read"):
                return pl.concat(pl.read_parquet(file) for file in files).cast({"seed": pl.Int64})
        except pl.exceptions.PolarsError as error:
            raise OutputError(f"{files[0]} is damaged: {error}") from error

    def summary(self) -> pl.DataFrame:
        """One row per variant and workload; see `penstock.summary.summarise`."""
        from penstock.summary import summarise

        return summarise(self.transfers, self.variants)

    def differences(self) -> pl.DataFrame:
        """The differences of each variant to the first one; see `penstock.summary.compare`."""
        from penstock.summary import compare

        return compare(self.transfers, self.variants)


def load(directory: str | Path) -> Result:
    """Open an output directory, finished or not."""
    return Result(directory)


def _missing(directory: Path) -> str:
    """The message for a directory that does not exist, with the outputs in the same folder and in its `runs`."""
    parent = directory.parent
    manifests = [path for pattern in ("*/manifest.json", "runs/*/manifest.json") for path in parent.glob(pattern)]
    newest = sorted(manifests, key=lambda path: (-path.stat().st_mtime, path))[:NEWEST]
    there = ", ".join(str(path.parent) for path in newest)
    return f"does not exist; the newest outputs are {there}" if there else "does not exist"
