"""The verdicts of a paper, for a terminal, the report and a Markdown page."""

import re
from math import isnan

from rich.console import Console
from rich.table import Table

from penstock import generated
from penstock.paper import curves, quantiles, tradeoffs
from penstock.paper.claims import EVERY_SEED, INTERVAL, MEAN, Claim
from penstock.paper.runner import Outcome
from penstock.paper.verdicts import FAILS, HOLDS, NEEDS_NETWORK, NOT_GATED, NOT_YET, UNDECIDED, Checked, unit_of

VERDICTS = (HOLDS, FAILS, UNDECIDED, NOT_GATED, NOT_YET, NEEDS_NETWORK)
"""All verdicts, in the order of the counts."""

BEST = 5
"""The number of variants with the best scores on a terminal; the report has all."""

STYLES = {FAILS: "bold red", UNDECIDED: "bold yellow"}
"""The styles of rows on a terminal."""


def show(outcome: Outcome, footer: str, to: Console) -> None:
    """Print a row for each claim, the counts, and a footer."""
    table = Table(title=outcome.claims.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("where", no_wrap=True)
    table.add_column("the paper says", ratio=1)
    for column in ("measured", "95 % interval", "n", "bound"):
        table.add_column(column, justify="right", no_wrap=column != "bound")
    table.add_column("verdict", no_wrap=True)
    for each in outcome.checked:
        claim = each.claim
        said = f"{claim.says} [{claim.id}]" + (f" ({each.reason})" if each.reason else "")
        count = str(each.n) if each.n else ""
        cells = (where(claim), said, measured(each), interval(each), count, bound(claim))
        table.add_row(*cells, each.verdict, style=STYLES.get(each.verdict))
    to.print(table)
    to.print(f"\n{remark(outcome)}", soft_wrap=True)
    for compared in outcome.compared:
        best = ", ".join(f"{row.label} ({tradeoffs.score_text(compared.score(row))})" for row in compared.ranked[:BEST])
        to.print(f"best scores in {compared.scenario}: {best}", soft_wrap=True)
    to.print(footer, soft_wrap=True)


def markdown(outcome: Outcome) -> str:
    """The counts, a table of all claims, and a table of the paper's curves and ours for each scenario that has some.

    Failing claims come first, then undecided claims, then the others by figure.
    """
    rank = {FAILS: 0, UNDECIDED: 1}
    ordered = sorted(outcome.checked, key=lambda each: (rank.get(each.verdict, 2), _by_figure(each.claim)))
    head = ("claim", "the paper says", "bound", "measured, 95 % interval", "n", "verdict", "reason")
    rows = [
        (
            f"`{each.claim.id}`",
            f"{where(each.claim)}: {each.claim.says}",
            bound(each.claim),
            ", ".join(filter(None, (measured(each), interval(each)))),
            str(each.n or ""),
            f"**{each.verdict}**" if each.missed else each.verdict,
            each.reason,
        )
        for each in ordered
    ]
    blocks = [remark(outcome), generated.table(head, rows)] if rows else [overridden(outcome)]
    settings = [outcome.sensitive.markdown()] if outcome.sensitive else []
    blocks += [*_curves(outcome), *map(tradeoffs.markdown, outcome.compared), *settings]
    return "\n\n".join(filter(None, blocks))


def _curves(outcome: Outcome) -> list[str]:
    """The quantiles of the paper's curves and ours, for each scenario with some."""
    found = []
    for name, result in outcome.results.items():
        if drawn := [each for each in curves.of(result) if outcome.figure is None or each.is_of(outcome.figure)]:
            found += [f"Curves of the paper and of `{name}`:", quantiles.table(result, drawn)]
    return found


def _by_figure(claim: Claim) -> tuple[bool, int, str]:
    digits = re.match(r"\d*", claim.figure)[0]  # type: ignore[index]
    return not claim.figure, int(digits or 0), claim.figure


def remark(outcome: Outcome) -> str:
    """The number of claims with each verdict, the scale and the overrides."""
    counts = {verdict: sum(each.verdict == verdict for each in outcome.checked) for verdict in VERDICTS}
    said = ", ".join(f"{verdict} ({count})" for verdict, count in counts.items() if count)
    note = "" if outcome.scale == 1 else f" At scale {outcome.scale:g}; the bounds apply to the full experiment."
    if outcome.sets:
        note += f" {overridden(outcome)}"
    return f"The verdicts of {len(outcome.checked)} claims are {said}.{note}"


def overridden(outcome: Outcome) -> str:
    """A sentence with the overrides of all scenarios; empty without any."""
    if not outcome.sets:
        return ""
    return f"With {', '.join(f'`{each}`' for each in outcome.sets)}; the bounds apply without these overrides."


def where(claim: Claim) -> str:
    """The figure or section of the paper."""
    return f"fig. {claim.figure}" if claim.figure else f"sec. {claim.section}"


def measured(checked: Checked) -> str:
    """The number with its unit; empty if there is none."""
    return "" if isnan(checked.measured) else _number(checked.claim, checked.measured)


def interval(checked: Checked) -> str:
    """Both ends of the interval; empty if there is none."""
    if isnan(checked.low):
        return ""
    return f"{_number(checked.claim, checked.low, unit=False)} to {_number(checked.claim, checked.high)}"


def bound(claim: Claim) -> str:
    """The condition on the number."""
    gate = claim.gate
    if gate is None:
        return ""
    if gate.direction:
        return f"{gate.direction} 0"
    low, high = (None if end is None else _bound(claim, end) for end in (gate.at_least, gate.at_most))
    text = f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    return text + {MEAN: "", INTERVAL: ", the interval", EVERY_SEED: ", each seed"}[gate.by]


def _bound(claim: Claim, value: float) -> str:
    return f"{100 * value:g} %" if _in_percent(claim) else f"{value:g} {unit_of(claim)}".rstrip()


def _number(claim: Claim, value: float, *, unit: bool = True) -> str:
    sign = "+" if claim.compare in ("difference", "change", "worst-change", "ratio-change") else ""
    if _in_percent(claim):
        return f"{100 * value:{sign}.1f}" + (" %" if unit else "")
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    return f"{value:{sign}.{digits}f}" + (f" {unit_of(claim)}".rstrip() if unit else "")


def _in_percent(claim: Claim) -> bool:
    return claim.compare in ("change", "worst-change", "gain", "ratio-change", "quantiles-below") or claim.is_share
