"""A comparison for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from penstock.compare.sides import BOOTSTRAP, PAIRED, WELCH, Comparison, Row
from penstock.compare.source import Source, Tried
from penstock.replicates import MIN_REPLICATES
from penstock.tables import METRIC_NAMES, between, difference, seconds, signed_share

CLOCK_WORDS = {
    "start": "from the start: the client's call for a stream, or its socket",
    "request": "from the request, sent over a connection that was there",
}


def show(comparison: Comparison, footer: str, to: Console) -> None:
    """Quantiles, differences and failures of both sources, what they rest on, and where to read on."""
    for letter, source in _lettered(comparison):
        to.print(f"{letter}: {about(source)}", soft_wrap=True)
    to.print()
    to.print(_quantiles(comparison))
    to.print(_failures(comparison))
    to.print()
    for sentence in remarks(comparison):
        to.print(f" {sentence}", soft_wrap=True)
    to.print(f"\n{footer}", soft_wrap=True)


def about(source: Source) -> str:
    """What it is, how much of it there is, and what is to be known of it."""
    whole = source.downloads.filter(outcome="ok").height
    replicates = source.replicates.text() if source.ours else ""
    if not source.ours and source.replicates.size > 1:
        replicates = f"{source.replicates.size} {'simulations' if source.kind == 'tornettools' else 'files'}"
    return ", ".join(filter(None, (f"{source.label} ({source.kind}", replicates, f"{whole} downloads)"))) + "".join(
        f"; {note}" for note in source.notes
    )


def _quantiles(comparison: Comparison) -> Table:
    table = Table(title=f"Times {CLOCK_WORDS[comparison.clock]}", title_justify="left", title_style="bold", box=None)
    for column in ("downloads", "time", "of"):
        table.add_column(column)
    for column in ("A", "B", "B - A", "95 % interval", "relative", "n of A", "n of B", "K-S"):
        table.add_column(column, justify="right", no_wrap=True)
    for row, first in grouped(comparison.rows):
        head = (row.downloads, METRIC_NAMES[row.metric]) if first else ("", "")
        tail = (str(row.a_count), str(row.b_count), f"{row.ks_distance:.2f}") if first else ("", "", "")
        middle = (seconds(row.a_s), seconds(row.b_s), difference(row.difference_s), interval(row), relative(row))
        table.add_row(*head, row.quantile, *middle, *tail)
    return table


def _failures(comparison: Comparison) -> Table:
    table = Table(title="\nFailed or timed out", title_justify="left", title_style="bold", box=None)
    table.add_column("downloads")
    for column in ("A", "B"):
        table.add_column(column, justify="right")
    for row in comparison.failures:
        table.add_row(row.downloads, rate(row.a), rate(row.b))
    return table


def grouped(rows: Iterable[Row]) -> Iterable[tuple[Row, bool]]:
    """Each row, and whether it is the first of its kind and time."""
    last: tuple[str, str] | None = None
    for row in rows:
        group = (row.downloads, row.metric)
        yield row, group != last
        last = group


def remarks(comparison: Comparison) -> list[str]:
    """What the numbers rest on."""
    intervals = {row.interval for row in comparison.rows}
    said = []
    if PAIRED in intervals and comparison.common is not None:
        replicates = comparison.common
        counts = [row.pairs for row in comparison.rows if row.interval == PAIRED]
        said.append(
            f"Paired by {replicates.name()}: a quantile of each of {replicates.range_text(counts)} in A and in B, "
            "t interval of the differences."
        )
        said.append(replicates.warning(counts))
    if WELCH in intervals:
        said += _unpaired(comparison)
    if BOOTSTRAP in intervals:
        said.append(
            "Not paired: intervals are a bootstrap over downloads. They describe these downloads and decide nothing, "
            "since downloads of one network are not independent of each other."
        )
    if comparison.left_out:
        shown = ", ".join(comparison.left_out[:8]) + (" and more" if len(comparison.left_out) > 8 else "")
        said.append(f"Left out, since only one of them has it or others have more downloads: {shown}.")
    return [sentence for sentence in said if sentence]


def _unpaired(comparison: Comparison) -> list[str]:
    """Of two outputs of ours that are independent of each other."""
    told = [
        f"{source.replicates.range_text([source.replicates.size])} in {letter}"
        for letter, source in _lettered(comparison)
    ]
    why = comparison.apart or "a kind of downloads is in no run that both have"
    said = [
        f"Not paired, since {why}: a quantile of each of {' and of each of '.join(told)}, Welch's t interval of the "
        "difference of their means."
    ]
    for letter, source in _lettered(comparison):
        replicates = source.replicates
        if replicates.size < 2:
            said.append(f"{letter}: {replicates.warning([replicates.size])}")
        elif replicates.of_one_network:
            said.append(f"{letter}: all seeds are of one network, and say nothing of others.")
        elif replicates.size < MIN_REPLICATES:
            said.append(
                f"{letter}: {replicates.size} {replicates.name(2)} are few; what is undecided here may well be there."
            )
    return said


def _lettered(comparison: Comparison) -> Iterable[tuple[str, Source]]:
    return zip("AB", comparison.sources, strict=True)


def interval(row: Row) -> str:
    """The interval of a difference [s]; a dash if there is none."""
    return between(row.low_s, row.high_s)


def relative(row: Row) -> str:
    """The difference, as a part of A."""
    return signed_share(row.difference_s / row.a_s) if row.a_s else "-"


def rate(tried: Tried | None) -> str:
    """`3 of 400 (0.8 %)`; a dash where it is not known."""
    if tried is None or not tried.attempts:
        return "-"
    return f"{tried.failed} of {tried.attempts} ({100 * tried.failed / tried.attempts:.1f} %)"
