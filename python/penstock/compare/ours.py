"""Reads one variant of a Penstock output as a side of a comparison."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from penstock import summary
from penstock.compare import setting
from penstock.compare.source import SCHEMA, Source, in_nanoseconds
from penstock.errors import OutputError
from penstock.result import Result


def read(label: str, directory: Path, variant: str, workloads: Sequence[str]) -> Source:
    """A variant's downloads after the warm-up, of some workloads or all."""
    try:
        return _read(label, Result(directory), variant, workloads)
    except (KeyError, TypeError, AttributeError, ValueError, pl.exceptions.PolarsError) as error:
        raise OutputError(f"{directory} is damaged: its manifest or a table has wrong contents") from error


def _read(label: str, result: Result, variant: str, workloads: Sequence[str]) -> Source:
    directory, known = result.directory, list(result.variants)
    if not variant and len(known) > 1:
        raise OutputError(f"{directory} has the variants {', '.join(known)}; name one, such as {directory}:{known[0]}")
    if variant and variant not in known:
        raise OutputError(f"{directory} has no variant {variant!r}; it has {', '.join(known) or 'none yet'}")
    if not known:
        raise OutputError(f"{directory} has no finished run yet")
    variant = variant or known[0]
    rows = summary.after_warmup(result.transfers).filter(variant=variant)
    there = summary.workloads(rows)
    for name in workloads:
        if name not in there:
            raise OutputError(f"{directory} has no downloads of a workload {name!r}; it has {', '.join(there)}")
    if workloads:
        rows = rows.filter(pl.col("workload").is_in(list(workloads)))
    # With optimistic data, clients send the request before CONNECTED, so its time is unknown.
    apart = pl.lit(None, pl.Float64()) if _optimistic(result, variant) else pl.col("connect_s")
    whole = pl.col("outcome") == "ok"
    downloads = rows.select(
        "network",
        "seed",
        "workload",
        "bytes",
        part=pl.lit(value=False),
        at_s=pl.lit(None, pl.Float64()),
        outcome="outcome",
        ttfb_s=pl.when(whole).then("ttfb_s"),
        ttlb_s=pl.when(whole).then("ttlb_s"),
        ttfb_request_s=pl.when(whole).then(pl.col("ttfb_s") - apart),
        ttlb_request_s=pl.when(whole).then(pl.col("ttlb_s") - apart),
    ).cast(SCHEMA)  # type: ignore[arg-type]
    if downloads.filter(outcome="ok").is_empty():
        raise OutputError(f"{directory}: no download of {variant} finished after the warm-up")
    notes = [] if result.finished else ["its runs are not finished"]
    if result.manifest.get("world") == "shadow":
        notes.append("C tor in Shadow")
    where = setting.of(result.scenario, variant)
    return Source(label, directory, "penstock", in_nanoseconds(downloads), notes=tuple(notes), setting=where)


def _optimistic(result: Result, variant: str) -> bool:
    """Whether clients send optimistic data; older manifests do not have the key."""
    return any(each["name"] == variant and each.get("optimistic", False) for each in result.scenario["variants"])
