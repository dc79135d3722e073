"""Prints a comparison on the terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from penstock.compare.sides import BOOTSTRAP, PAIRED, WELCH, Comparison, Row
from penstock.compare.source import Source, Tried
from penstock.replicates import MIN_REPLICATES
from penstock.tables import METRIC_NAMES, between, difference, plain, seconds, signed_share

CLOCK_WORDS = {
    "start": "from the start: the client's request for a stream, or its socket",
    "request": "from the request over an existing connection",
}


def show(comparison: Comparison, footer: str, to: Console) -> None:
    """Print quantiles, differences and failures of both sources, with notes and a footer."""
    for letter, source in comparison.lettered:
        to.print(f"{letter}: {about(source)}", soft_wrap=True)
    to.print()
    to.print(_quantiles(comparison))
    to.print(_failures(comparison))
    to.print()
    for sentence in remarks(comparison):
        to.print(f" {sentence}", soft_wrap=True)
    to.print(f"\n{footer}", soft_wrap=True)


def about(source: Source) -> str:
    """The name, kind, size and notes of a source."""
    whole = source.downloads.filter(outcome="ok").height
    replicates = source.replicates.text() if source.ours else ""
    if not source.ours and source.replicates.size > 1:
        replicates = f"{source.replicates.size} {'simulations' if source.kind == 'tornettools' else 'files'}"
    return ", ".join(filter(None, (f"{source.label} ({source.kind}", replicates, f"{whole} downloads)"))) + "".join(
        f"; {note}" for note in source.notes
    )


def _quantiles(comparison: Comparison) -> Table:
    numbers = ["A", "B", "B - A", "95 % interval", "relative", "n of A", "n of B", "K-S"]
    table = plain(f"Times {CLOCK_WORDS[comparison.clock]}", ["downloads", "time", "of"], numbers)
    for column in table.columns[3:]:
        column.no_wrap = True
    for row, first in grouped(comparison.rows):
        head = (row.downloads, METRIC_NAMES[row.metric]) if first else ("", "")
        tail = (str(row.a_count), str(row.b_count), f"{row.ks_distance:.2f}") if first else ("", "", "")
        middle = (seconds(row.a_s), seconds(row.b_s), difference(row.difference_s), interval(row), relative(row))
        table.add_row(*head, row.quantile, *middle, *tail)
    return table


def _failures(comparison: Comparison) -> Table:
    table = plain("\nFailed or timed out", ["downloads"], ["A", "B"])
    for row in comparison.failures:
        table.add_row(row.downloads, rate(row.a), rate(row.b))
    return table


def grouped(rows: Iterable[Row]) -> Iterable[tuple[Row, bool]]:
    """Each row, and whether it is the first of its kind and metric."""
    last: tuple[str, str] | None = None
    for row in rows:
        group = (row.downloads, row.metric)
        yield row, group != last
        last = group


def remarks(comparison: Comparison) -> list[str]:
    """How the numbers were computed, why they are uncertain, and which downloads are left out."""
    intervals = {row.interval for row in comparison.rows}
    said = []
    if PAIRED in intervals and comparison.common is not None:
        replicates = comparison.common
        counts = [row.pairs for row in comparison.rows if row.interval == PAIRED]
        said.append(
            f"Runs of the same {replicates.name()} are paired. Differences are means over "
            f"{replicates.range_text(counts)} in A and in B, with t intervals."
        )
        said.append(replicates.warning(counts))
    if WELCH in intervals:
        said += _unpaired(comparison)
    if BOOTSTRAP in intervals:
        said.append(
            "Runs are not paired. The intervals are a bootstrap over downloads. They only describe these downloads, "
            "because downloads of one network are not independent."
        )
    if comparison.left_out:
        shown = ", ".join(comparison.left_out[:8]) + (" and more" if len(comparison.left_out) > 8 else "")
        said.append(f"These downloads are left out, because one source lacks them or other kinds have more: {shown}.")
    return [sentence for sentence in said if sentence]


def _unpaired(comparison: Comparison) -> list[str]:
    counts = [
        f"{source.replicates.range_text([source.replicates.size])} in {letter}"
        for letter, source in comparison.lettered
    ]
    why = comparison.apart or "A and B have no common run with the same kind of download"
    single = any(source.replicates.size < 2 for source in comparison.sources)
    intervals = (
        "The differences have no intervals"
        if single
        else "The intervals are Welch's t intervals of the differences between the means"
    )
    said = [f"A and B are not paired, because {why}. {intervals}{': ' if single else ' of '}{' and '.join(counts)}."]
    for letter, source in comparison.lettered:
        replicates = source.replicates
        if replicates.size < 2:
            said.append(f"{letter}: {replicates.warning([replicates.size])}")
        elif replicates.of_one_network:
            said.append(f"{letter}: all seeds use one network, so the results apply to that network only.")
        elif replicates.size < MIN_REPLICATES:
            said.append(f"{letter}: {replicates.size} {replicates.name(2)} show only large differences.")
    return said


def interval(row: Row) -> str:
    """The interval of a difference [s]; a dash if there is none."""
    return between(row.low_s, row.high_s)


def relative(row: Row) -> str:
    """The difference as a share of A."""
    return signed_share(row.difference_s / row.a_s) if row.a_s else "-"


def rate(tried: Tried | None) -> str:
    """A failure rate as text, such as `3 of 400 (0.8 %)`; a dash if the rate is unknown."""
    if tried is None or not tried.attempts:
        return "-"
    return f"{tried.failed} of {tried.attempts} ({100 * tried.failed / tried.attempts:.1f} %)"
