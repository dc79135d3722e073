"""One table of several studies: attacks by mechanisms."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import generated
from penstock.attacks.model import Attack
from penstock.attacks.study import Study

NOTE = (
    "Each cell has the gain [bit] with its 95 % interval; 0 is an adversary that learns nothing. The "
    "number after `lost` is the entropy lost of victims whose true candidate remains. A star marks a single network or "
    "seed, with an interval over victims."
)


def markdown(studies: Sequence[Study]) -> str:
    """A row for each attack and a column for each mechanism, in the order in which the attacks name them.

    An empty cell is not measured. Its reason is in the list below the table: that of the attack, or that its variant
    has no run or no victim with a guess.
    """
    attacks = [(attack, _cells(attack.mechanisms, study, attack.name)) for study in studies for attack in study.attacks]
    columns = list(dict.fromkeys(name for attack, _ in attacks for name in attack.mechanisms))
    rows = [(f"`{attack.name}`", *(cells.get(column, "") for column in columns)) for attack, cells in attacks]
    reasons = [
        f"- `{attack.name}`: {reason}" for attack, cells in attacks if (reason := _reason(attack, cells, columns))
    ]
    return "\n".join(
        [generated.table(("attack", *columns), rows), "", NOTE, "", "Reasons of empty cells:", "", *reasons]
    )


def _cells(mechanisms: Mapping[str, str], study: Study, attack: str) -> dict[str, str]:
    if study.leaks.is_empty():
        return {}
    rows = {row["variant"]: row for row in study.leaks.filter(attack=attack).iter_rows(named=True)}
    measured = {name: rows[variant] for name, variant in mechanisms.items() if variant in rows}
    return {name: _cell(row) for name, row in measured.items() if row["victims"]}


def _cell(row: Mapping[str, Any]) -> str:
    star = "*" if row["units"] == "victims" else ""
    lost = _number(row, "entropy_lost")
    return _number(row, "gain") + star + (f"; lost {lost}" if lost else "")


def _number(row: Mapping[str, Any], name: str) -> str:
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if mean is None or mean != mean:
        return ""
    # A rounded negative zero has no sign.
    mean, low, high = (round(each, 2) + 0.0 for each in (mean, low, high))
    return f"{mean:.2f}" + (f" ({low:.2f} to {high:.2f})" if low == low else "")


def _reason(attack: Attack, cells: Mapping[str, str], columns: Sequence[str]) -> str:
    reasons = []
    if any(column not in attack.mechanisms for column in columns):
        reasons.append(attack.elsewhere or "The scenario has no variant with these mechanisms.")
    if missing := [name for name in attack.mechanisms if name not in cells]:
        reasons.append(f"No victim with a guess, or no run: {', '.join(missing)}.")
    return " ".join(reasons)
