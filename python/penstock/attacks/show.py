"""The table of leaks, for a terminal, Markdown and JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from penstock import generated, tables
from penstock.attacks.study import Study
from penstock.result import Result

COLUMNS = {
    "entropy_lost": "entropy lost [bit]",
    "false_eliminations": "false eliminations",
    "eliminated": "eliminated [bit]",
    "gain": "gain [bit]",
    "remaining": "remaining",
    "true_positive_rate": "true positives",
    "false_positive_rate": "false positives",
    "auc": "AUC",
}
"""The columns with intervals, and their heads."""

NOTE = (
    "Entropy lost: from all candidates to those that remain, for victims whose true candidate remains. False "
    "eliminations: the other victims. Eliminated: entropy lost of all victims, whether or not the true candidate "
    "remains. Gain: information about the true one, with probabilities fitted to other networks or victims. Left "
    "out: victims without a guess. p: permutation test of a leak. Intervals: 95 %; those of rates are in [0, 1]."
)


def show(study: Study, footer: str, to: Console) -> None:
    """Print a table for each attack, and a footer."""
    if study.leaks.is_empty():
        to.print(f"No victim was measured.\n{footer}", soft_wrap=True)
        return
    to.width = max(to.width, 150) if not to.is_terminal else to.width
    for attack in study.attacks:
        rows = study.leaks.filter(attack=attack.name)
        if rows.is_empty():
            to.print(f"{attack.title}: no victim was measured")
            continue
        table = tables.plain(
            f"{attack.title} [{attack.name}]", ["variant"], ["victims", "left out", "prior", *COLUMNS.values(), "p"]
        )
        for row in rows.iter_rows(named=True):
            table.add_row(row["label"], str(row["victims"]), str(row["left_out"]), *_cells(row), _p(row["p"]))
        to.print(table)
    to.print(f"\n{NOTE}\n{footer}", soft_wrap=True)


def markdown(study: Study) -> str:
    """A table with a row for each attack and variant."""
    head = ("attack", "variant", "victims", "left out", "units", "prior [bit]", *COLUMNS.values(), "p")
    rows = [
        (
            f"`{row['attack']}`",
            row["label"],
            str(row["victims"]),
            str(row["left_out"]),
            row["units"],
            *_cells(row),
            _p(row["p"]),
        )
        for row in study.leaks.iter_rows(named=True)
    ]
    return generated.table(head, rows)


def facts(study: Study, result: Result, page: Path | None) -> dict[str, Any]:
    """The object of `--json`."""
    return {
        "directory": result.directory,
        "version": result.manifest["version"],
        "finished": result.finished,
        "scenario": result.scenario["name"],
        "report": page,
        "attacks": [attack.model_dump() for attack in study.attacks],
        "leaks": study.leaks.rows(named=True),
    }


def _cells(row: Mapping[str, Any]) -> list[str]:
    measured = [_with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in COLUMNS]
    return ["-" if row["prior"] != row["prior"] else f"{row['prior']:.2f}", *measured]


def _with_interval(mean: float, low: float, high: float) -> str:
    if mean != mean:
        return "-"
    return f"{mean:.2f}" + (f" ({low:.2f} to {high:.2f})" if low == low else "")


def _p(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
