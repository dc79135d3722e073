"""Digests of the six tables of every shipped scenario: the reference that shows when a change moves a result.

`python tests/python/golden.py [SCENARIO...]` (`make golden`) rewrites `golden.tsv`, or only the rows of these
scenarios; `test_golden.py` compares with it. Every variant runs with seed 1, for a few simulated seconds. The
digests cover values only, so that a renamed variant or column keeps its digest; rename the variant in `golden.tsv` in
the same commit.
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import polars

from penstock import _core, catalog
from penstock.output import TABLES

FILE = Path(__file__).with_name("golden.tsv")
SEED = 1
DURATION_S = 10
"""Simulated time of a run [s]."""

WITHOUT = (
    *("kist-light", "kist-heavy", "today-light", "today-medium", "today-heavy"),
    *("fortieth", "fortieth-today", "sensitivity"),
    "attacks/flag-times",
)
"""Scenarios without digests. Those of `capstone` have the variants of `kist-medium` in other networks. The victims of
`attacks/flag-times` begin after 120 s, so the digests of a few seconds would show nothing of them."""

DURATIONS_S = {
    "attacks/guard-rates": 4,
    "attacks/latency": 4,
    "attacks/latency-exits": 4,
    "attacks/latency-padded": 4,
    "attacks/latency-tenth": 2,
    "attacks/throughput": 4,
    "attacks/throughput-exits": 4,
    "attacks/throughput-probes": 4,
    "capstone/kist-medium": 3,
    "defenestrator/step": 22,
    "ewma/middle-relay": 4,
    "ewma/network": 4,
    "kist/authors": 3,
    "kist/authors-calibrated": 3,
    "kist/authors-exits": 3,
    "kist/authors-exits-double": 2,
    "kist/authors-tenth": 3,
    "kist/authors-writes": 3,
    "kist/bursts": 4,
    "kist/full": 2,
    "kist/interval": 4,
    "kist/tenth": 4,
    "marut/authors-100-4": 4,
    "marut/authors-100-bulk": 4,
    "marut/authors-375": 4,
    "marut/authors-375-4": 4,
    "marut/dumbbell-100-bulk": 4,
    "marut/dumbbell-375": 4,
    "marut/dumbbell-375-4": 4,
    "marut/options": 4,
    "marut/step": 61,
    "throttling/loads": 3,
    "throttling/loads-authors": 3,
}
"""Of scenarios that are too large for the default, or that change something later [s]."""


class Run(NamedTuple):
    """One run, as a line of the file names it."""

    scenario: str
    variant: str


def shipped() -> list[str]:
    """The scenarios with digests."""
    return [scenario for scenario in catalog.shipped() if scenario.removeprefix("capstone/") not in WITHOUT]


def load(scenario: str) -> _core.Document:
    """A shipped scenario, cut to a few simulated seconds without warm-up, with a table of its clients."""
    seconds = DURATIONS_S.get(scenario, DURATION_S)
    return catalog.load(scenario, (f'run.duration = "{seconds} s"', 'run.warmup = "0 s"', 'trace.clients = "1 s"'))[1]


def digests(document: _core.Document, run: Run, threads: int = 1) -> tuple[str, ...]:
    """The digest of each table of one run, without the names of its columns and variant.

    The digests must not depend on the number of threads. The file has those of one thread.
    """
    control = _core.Control(threads)
    with tempfile.TemporaryDirectory() as part:
        _core.run(document, run.variant, None, SEED, part, control)
        return tuple(_digest(Path(part) / f"{table}.parquet") for table in TABLES)


def _digest(table: Path) -> str:
    rows = polars.read_parquet(table).drop("variant").write_csv(include_header=False)
    return hashlib.sha256(rows.encode()).hexdigest()[:12]


def measured(only: Sequence[str] = ()) -> Iterator[tuple[Run, tuple[str, ...]]]:
    """Every run and its digests, in the order of the file; with `only`, other scenarios keep their rows."""
    known = recorded() if only else {}
    with ThreadPoolExecutor(_core.cores()) as pool:
        for scenario in shipped():
            if only and scenario not in only:
                yield from ((run, found) for run, found in known.items() if run.scenario == scenario)
                continue
            document = load(scenario)
            runs = [Run(scenario, variant) for variant, _ in document.variants()]
            yield from zip(runs, pool.map(lambda run, document=document: digests(document, run), runs), strict=True)


def recorded() -> dict[Run, tuple[str, ...]]:
    """The contents of `golden.tsv`."""
    rows = [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()[1:]]
    return {Run(scenario, variant): tuple(found) for scenario, variant, *found in rows}


def main() -> None:
    """Rewrite `golden.tsv`."""
    only = sys.argv[1:]
    if unknown := set(only) - set(shipped()):
        raise SystemExit(f"{', '.join(sorted(unknown))}: no scenario with digests; see `penstock list scenarios`")
    lines = ["\t".join(("scenario", "variant", *TABLES))]
    lines += ["\t".join((*run, *found)) for run, found in measured(only)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(lines) - 1} runs")


if __name__ == "__main__":
    main()
