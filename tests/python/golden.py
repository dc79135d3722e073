"""Digests of the five tables of every shipped scenario: the reference that shows when a change moves a result.

`python tests/python/golden.py` (`make golden`) rewrites `golden.tsv`; `test_golden.py` compares with it. Every variant
runs with two seeds, for a few simulated seconds. The digests cover values only, so that a renamed variant or column
keeps its digest; rename the variant in `golden.tsv` in the same commit.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import polars

from penstock import _core, catalog

FILE = Path(__file__).with_name("golden.tsv")
TABLES = ("transfers", "paths", "relays", "circuits", "cells")
SEEDS = (1, 2)
DURATION_S = 10
"""Simulated time of a run [s]."""

DURATIONS_S = {
    "kist/authors": 3,
    "kist/authors-tenth": 3,
    "kist/full": 2,
    "kist/interval": 4,
    "kist/tenth": 4,
    "marut/authors-100-bulk": 4,
    "marut/authors-375": 4,
    "marut/dumbbell-100-bulk": 4,
    "marut/dumbbell-375": 4,
    "marut/dumbbell-375-4": 4,
    "marut/step": 61,
}
"""Of scenarios that are too large for the default, or that change something later [s]."""


class Run(NamedTuple):
    """One run, as a line of the file names it."""

    scenario: str
    variant: str
    seed: int


def load(scenario: str) -> _core.Document:
    """A shipped scenario, cut to a few simulated seconds without warm-up."""
    seconds = DURATIONS_S.get(scenario, DURATION_S)
    return catalog.load(scenario, (f'run.duration = "{seconds} s"', 'run.warmup = "0 s"'))[1]


def digests(document: _core.Document, run: Run) -> tuple[str, ...]:
    """The digest of each table of one run, without the names of its columns and variant.

    The first variant runs with its last seed in several threads, on which the digests do not depend.
    """
    in_threads = run.seed == SEEDS[-1] and run.variant == document.variants()[0][0]
    control = _core.Control(3 if in_threads else 1)
    with tempfile.TemporaryDirectory() as part:
        _core.run(document, run.variant, None, run.seed, part, control)
        return tuple(_digest(Path(part) / f"{table}.parquet") for table in TABLES)


def _digest(table: Path) -> str:
    rows = polars.read_parquet(table).drop("variant").write_csv(include_header=False)
    return hashlib.sha256(rows.encode()).hexdigest()[:12]


def measured() -> Iterator[tuple[Run, tuple[str, ...]]]:
    """Every run and its digests, in the order of the file."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for scenario in catalog.shipped():
            document = load(scenario)
            runs = [Run(scenario, variant, seed) for variant, _ in document.variants() for seed in SEEDS]
            yield from zip(runs, pool.map(lambda run, document=document: digests(document, run), runs), strict=True)


def recorded() -> dict[Run, tuple[str, ...]]:
    """The contents of `golden.tsv`."""
    rows = [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()[1:]]
    return {Run(scenario, variant, int(seed)): tuple(found) for scenario, variant, seed, *found in rows}


def main() -> None:
    """Rewrite `golden.tsv`."""
    lines = ["\t".join(("scenario", "variant", "seed", *TABLES))]
    lines += ["\t".join((run.scenario, run.variant, str(run.seed), *found)) for run, found in measured()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(lines) - 1} runs")


if __name__ == "__main__":
    main()
