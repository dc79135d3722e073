"""What an adversary concludes from its guesses, and how much of it is right: one row for each victim.

The columns of the rows are listed in docs/reference/output.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from penstock import stats
from penstock.attacks import information
from penstock.attacks.information import NO, YES, Guess
from penstock.attacks.measurement import Run
from penstock.attacks.model import Attack, Decision, Set
from penstock.replicates import RUN, Replicates

VICTIM = {
    "attack": pl.String(),
    "variant": pl.String(),
    "network": pl.String(),
    "seed": pl.Int64(),
    "victim": pl.String(),
    "truth": pl.String(),
    "candidates": pl.Int64(),
    "remaining": pl.Float64(),
    "hit": pl.Boolean(),
    "auc": pl.Float64(),
    "false_positives": pl.Float64(),
    "entropy_lost": pl.Float64(),
    "eliminated": pl.Float64(),
    "gain": pl.Float64(),
    "score": pl.Float64(),
    "error_s": pl.Float64(),
    "pings": pl.Float64(),
    "spread_s": pl.Float64(),
}
"""The columns of victims."""

RATES = ("false_eliminations", "true_positive_rate", "false_positive_rate", "auc")
"""Columns of leaks whose means and intervals are within [0, 1]."""

MEASURED = ("entropy_lost", "eliminated", "gain", "remaining", *RATES)
"""The columns of leaks with an interval."""


class Remaining(NamedTuple):
    """The candidates that remain of a guess."""

    size: float
    """The number of candidates; of probabilities, two to the power of their entropy."""
    hit: bool
    """Whether the true candidate remains; of ranks and probabilities, whether it alone has the highest score."""
    wrong: float
    """The fraction of the wrong candidates that remain."""


Made = Sequence[tuple[Run, Guess]]
"""The guesses about the victims of one attack and variant, with their runs."""


def rows_of(attack: Attack, variant: str, made: Made) -> list[dict[str, Any]]:
    """A row for each victim of one attack under one variant. Gains use probabilities fitted to the other replicates."""
    guesses = [guess for _, guess in made]
    several = len({run.network for run, _ in made}) > 1
    folds = [run.network if several else (run.network, run.seed) for run, _ in made]
    remaining, gains = concluded(attack, guesses, folds) if made else ([], [])
    return [
        {
            "attack": attack.name,
            "variant": variant,
            "network": run.network,
            "seed": run.seed,
            "victim": guess.victim,
            "truth": guess.names[guess.truth],
            "candidates": guess.candidates,
            "remaining": left.size,
            "hit": left.hit,
            "auc": _auc(guess, guesses),
            "false_positives": left.wrong,
            "entropy_lost": _entropy_lost(attack, guess, left),
            "eliminated": _eliminated(attack, guess),
            "gain": float(gain),
            "score": float(guess.scores[1] if guess.is_decision else guess.scores[guess.truth]),
            "error_s": guess.facts.get("error_s"),
            "pings": guess.facts.get("pings"),
            "spread_s": guess.facts.get("spread_s"),
        }
        for (run, guess), left, gain in zip(made, remaining, gains, strict=True)
    ]


def _entropy_lost(attack: Attack, guess: Guess, left: Remaining) -> float | None:
    """The entropy lost of a victim [bit]; none for a decision, and for a set without the true candidate.

    A decision leaves one answer of two whether it is right or wrong. Victims whose true candidate was discarded are
    counted as false eliminations instead.
    """
    if isinstance(attack.conclusion, Decision) or (isinstance(attack.conclusion, Set) and not left.hit):
        return None
    return information.bits(guess.candidates / left.size)


def _eliminated(attack: Attack, guess: Guess) -> float | None:
    """The entropy lost if nobody asks whether the true candidate remains [bit]; only for a set.

    At least one candidate remains, so that a set without any counts as if the adversary had found a single one.

    Source: throttling section 5.2, which removes guards and does not say that the true one must remain.
    """
    if not isinstance(attack.conclusion, Set):
        return None
    return information.bits(guess.candidates / max(int((guess.scores >= attack.conclusion.at_least).sum()), 1))


def _auc(guess: Guess, all_of_variant: Sequence[Guess]) -> float:
    """The probability that the truth scores higher than a wrong candidate, or than a victim with the other answer."""
    if not guess.is_decision:
        return guess.auc
    others = np.array([other.scores[1] for other in all_of_variant if other.truth != guess.truth])
    mine = guess.scores[1]
    right = others < mine if guess.truth else others > mine
    return float(np.mean(right + 0.5 * (others == mine))) if others.size else float("nan")


def concluded(
    attack: Attack, guesses: Sequence[Guess], folds: Sequence[object]
) -> tuple[list[Remaining], Sequence[float]]:
    """The remaining candidates of each guess, and the information gain of each [bit]."""
    counts = np.array([guess.candidates for guess in guesses], dtype=float)
    match attack.conclusion.kind:
        case "probabilities":
            fitted = information.posteriors(guesses, folds)
            spread = [float(2 ** -np.sum(each * np.log2(np.maximum(each, 1e-300)))) for each in fitted]
            found = [
                Remaining(count, guess.rank == 1, _others(count, guess))
                for count, guess in zip(spread, guesses, strict=True)
            ]
            true = np.array([each[guess.truth] for each, guess in zip(fitted, guesses, strict=True)])
            return found, list(np.log2(np.maximum(true, 1e-300) * counts))
        case "rank":
            found = [Remaining(guess.rank, guess.rank == 1, _others(guess.rank, guess)) for guess in guesses]
            return found, list(information.gain_of_ranks(np.array([left.size for left in found]), counts, folds))
    found = [_of_set(attack, guess) for guess in guesses]
    sizes, hits = np.array([left.size for left in found]), np.array([left.hit for left in found])
    return found, list(information.gain_of_sets(sizes, counts, hits, folds))


def _of_set(attack: Attack, guess: Guess) -> Remaining:
    conclusion = attack.conclusion
    chosen = information.kept(guess, conclusion.at_least) if isinstance(conclusion, Set) else information.said(guess)
    hit = bool(chosen[guess.truth])
    return Remaining(float(chosen.sum()), hit, float((chosen.sum() - hit) / (guess.candidates - 1)))


def _others(count: float, guess: Guess) -> float:
    return max(count - 1.0, 0.0) / (guess.candidates - 1)


def leak_of(
    attack: Attack, variant: str, label: str, rows: pl.DataFrame, left_out: int, p: float = float("nan")
) -> dict[str, Any]:
    """The row of one attack and variant: means over the replicates, or over the victims of a single replicate.

    Each mean has the ends of its 95 % t interval, `_low` and `_high`; those of rates are clipped to [0, 1]. `p` is the
    p-value of the permutation test, and `left_out` the number of victims without a guess. Without a number, a mean is
    NaN.
    """
    row: dict[str, Any] = {"attack": attack.name, "title": attack.title, "variant": variant, "label": label}
    row |= {"victims": rows.height, "left_out": left_out, "units": ""}
    row["prior"] = stats.mean(np.log2(rows["candidates"].to_numpy()))
    for name in MEASURED:
        # Ranks and probabilities discard no candidate, and a decision is right or wrong.
        none = name == "false_eliminations" and not isinstance(attack.conclusion, Set)
        numbers, row["units"] = of_units(rows.clear() if none else rows, name) if rows.height else ([], "")
        mean, low, high = stats.mean_interval(numbers)
        if name in RATES:
            low, high = (float(np.clip(end, 0.0, 1.0)) for end in (low, high))
        row[name], row[f"{name}_low"], row[f"{name}_high"] = mean, low, high
    return {**row, "p": p}


def p_value(made: Made) -> float:
    """The p-value of the permutation test of guesses, in which only victims of the same run exchange their truths."""
    return information.permutation([_of_run(run, guess) for run, guess in made])


def _of_run(run: Run, guess: Guess) -> Guess:
    """A guess whose truth is only exchanged with victims of the same run."""
    return guess if guess.is_decision else replace(guess, names=(f"{run.network}/{run.seed}", *guess.names))


def values(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """The numbers of victims: the columns `network`, `seed` and `value`. Rates of decisions count one side only."""
    if name in _OF_SIDES and rows["truth"].is_in([NO, YES]).any():
        rows = rows.filter(_OF_SIDES[name])
    found = rows.select(*RUN, value=_EXPRESSIONS.get(name, pl.col(name).cast(pl.Float64)))
    return found.filter(pl.col("value").is_not_nan()).drop_nulls("value")


def of_units(rows: pl.DataFrame, name: str) -> tuple[list[float], str]:
    """The numbers of the replicates of one variant, or of its victims if there is one replicate; and their kind."""
    found, replicates = values(rows, name), Replicates.in_rows(rows)
    if replicates.size < 2:
        return found["value"].to_list(), "victims"
    of_runs = found.group_by(RUN).agg(pl.col("value").mean())
    return replicates.average(of_runs)["value"].to_list(), replicates.name(2)


_EXPRESSIONS: dict[str, pl.Expr] = {
    "true_positive_rate": pl.col("hit").cast(pl.Float64),
    "false_eliminations": 1.0 - pl.col("hit").cast(pl.Float64),
    "false_positive_rate": pl.col("false_positives"),
    "remaining_share": (pl.col("remaining") - 1) / (pl.col("candidates") - 1),
}

_OF_SIDES: dict[str, pl.Expr] = {
    "true_positive_rate": pl.col("truth") == YES,
    "false_positive_rate": pl.col("truth") != YES,
}
"""The victims that count for a rate of decisions: those of the question's positive or negative side."""
