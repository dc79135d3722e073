"""Repeats the requests of an earlier run in an open loop."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _core
from penstock.errors import ScenarioError
from penstock.output import Job
from penstock.result import Result


class Record:
    """The clients' requests in one variant of an output directory."""

    def __init__(self, directory: str | Path, variant: str | None = None) -> None:
        """Read the requests of `variant`, by default the first one."""
        self.directory = Path(directory)
        result = Result(directory)
        known = list(result.variants)
        self.variant = variant if variant is not None else known[0] if known else ""
        if self.variant not in known:
            ran = f"it ran {', '.join(known)}" if known else "it has no finished run"
            raise ScenarioError(f"there is no variant {self.variant!r} in {self.directory} to replay; {ran}")
        begun = (pl.col("built_s") - pl.col("build_time_s")).alias("begun_s")
        keys = ["network", "seed", "circuit"]
        own = pl.col("variant") == self.variant
        relays = ["guard", "middle", "exit"]
        circuits = result.paths.filter(own & begun.is_not_null()).select(*keys, begun, *relays)
        asked = result.transfers.filter(own).join(circuits, on=keys, how="left")
        lost = asked.filter(pl.col("begun_s").is_null())
        if not lost.is_empty():
            client = lost["client"][0]
            raise ScenarioError(
                f"{self.directory} cannot be replayed: a download of {client!r} used no circuit, "
                "and a replay repeats only downloads over circuits"
            )
        nanos = [(pl.col(f"{name}_s") * 1e9).round().cast(pl.UInt64).alias(name) for name in ("begun", "start")]
        asked = asked.with_columns(*nanos)
        self._asked = asked.select(
            "network", "seed", "client", "workload", "circuit", "begun", *relays, "start", "bytes"
        )

    def describe(self) -> dict[str, Any]:
        """The directory, the variant and a digest of the requests, for the manifest."""
        digest = hashlib.sha256(self._asked.write_csv().encode()).hexdigest()[:16]
        return {"directory": str(self.directory), "variant": self.variant, "requests": digest}

    def of(self, document: _core.Document, jobs: Sequence[Job]) -> dict[Job, _core.Replay]:
        """The requests for each job, which come from the run with the same network and seed."""
        return {job: self._one(document, job) for job in jobs}

    def _one(self, document: _core.Document, job: Job) -> _core.Replay:
        own = self._asked.filter((pl.col("network") == job.column) & (pl.col("seed") == job.seed))
        if own.is_empty():
            ran = sorted({(network, seed) for network, seed in self._asked.select("network", "seed").iter_rows()})
            there = ", ".join(f"{seed} in network {network}" if network else str(seed) for network, seed in ran)
            asked = f"{job.seed} in network {job.column}" if job.column else str(job.seed)
            raise ScenarioError(
                f"{self.directory} has no downloads of {self.variant!r} with seed {asked} to replay; "
                f"it has those of {there or 'none'}"
            )
        rows = list(own.drop("network", "seed").iter_rows())
        try:
            return _core.Replay(document, job.variant, rows)
        except ScenarioError as error:
            raise ScenarioError(f"{self.directory} cannot be replayed: {error}") from error
