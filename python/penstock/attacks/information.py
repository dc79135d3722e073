"""The information that an adversary gains about each victim [bit].

A guess has a score for each candidate, and a higher score means a more likely candidate. A conclusion turns scores into
a candidate set, a rank or probabilities. The papers count the entropy lost: the logarithm of the candidates before,
divided by those that remain. This number is also positive if an adversary discards random candidates. Therefore each
conclusion also has the information gain: the logarithm of the probability that the adversary gives the true candidate,
divided by that of a uniform choice. A model with one parameter turns a conclusion into probabilities. The parameter is
fitted to other victims, so that an adversary that learns nothing gains nothing, or less than nothing.

Source: entropy lost: throttling section 5.2; remaining candidates: KIST section 6; information gain: the logarithmic
score, Good, Rational decisions, 1952.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHUFFLES = 999
"""The number of permutations of a permutation test."""

STEEPEST = 20.0
"""The largest parameter of a model. With it, the model is certain."""

FOLDS = 10
"""The number of parts into which the victims of a single fold are divided."""

NO, YES = "no", "yes"
"""The candidates of a guess about one question, such as whether two circuits have the same client."""


@dataclass(frozen=True)
class Guess:
    """The scores that an adversary gives to the candidates of one victim."""

    victim: str
    truth: int
    """The index of the true candidate."""
    names: tuple[str, ...]
    """The candidates."""
    scores: Floats
    """The score of each candidate; none is NaN."""
    facts: dict[str, float] = field(default_factory=dict)
    """Further numbers of the estimator, such as the error of an estimate."""

    @property
    def candidates(self) -> int:
        """The number of candidates."""
        return len(self.scores)

    @property
    def is_decision(self) -> bool:
        """Whether the guess answers one question with yes or no."""
        return self.names == (NO, YES)

    @property
    def rank(self) -> int:
        """The number of candidates that score at least as high as the true one.

        Candidates with the same score cannot be told apart, so all of them remain.
        """
        return int(np.sum(self.scores >= self.scores[self.truth]))

    @property
    def auc(self) -> float:
        """The probability that the true candidate scores higher than a random wrong one; ties count a half."""
        wrong = np.delete(self.scores, self.truth)
        true = self.scores[self.truth]
        return float(np.mean((wrong < true) + 0.5 * (wrong == true))) if wrong.size else float("nan")


def bits(candidates: float) -> float:
    """The entropy of a uniform choice among candidates [bit]."""
    return float(np.log2(candidates))


def kept(guess: Guess, at_least: float) -> NDArray[np.bool_]:
    """The candidates whose score reaches a threshold.

    One of the candidates is the true one. If none reaches the threshold, the adversary has learned nothing and keeps
    all of them.
    """
    remaining = guess.scores >= at_least
    return remaining if remaining.any() else np.ones_like(remaining)


def said(guess: Guess) -> NDArray[np.bool_]:
    """The single candidate with the highest score; the first of several."""
    remaining = np.zeros(guess.candidates, dtype=np.bool_)
    remaining[int(np.argmax(guess.scores))] = True
    return remaining


def gain_of_sets(sizes: Floats, candidates: Floats, hits: NDArray[np.bool_], folds: Sequence[object]) -> Floats:
    """The information gain of candidate sets [bit], one number for each victim.

    The model: a candidate in the set is exp(w) times as likely as one outside. Each fold uses the parameter w of
    the other folds. A gain is 0 if all candidates are in the set.
    """

    def likelihood(w: float, size: Floats, count: Floats, hit: NDArray[np.bool_]) -> Floats:
        odds = np.exp(w)
        inside: Floats = np.where(hit, w, 0.0) - np.log(odds * size + (count - size))
        return inside

    def loss(w: float, chosen: NDArray[np.bool_]) -> float:
        # Half a hit and half a miss of a set with half of the candidates keep the parameter finite.
        prior = 0.5 * w - np.log1p(np.exp(w))
        return -float(np.sum(likelihood(w, sizes[chosen], candidates[chosen], hits[chosen])) + prior)

    def score(w: float, chosen: NDArray[np.bool_]) -> Floats:
        return likelihood(w, sizes[chosen], candidates[chosen], hits[chosen]) + np.log(candidates[chosen])

    return _by_folds(folds, loss, score, -STEEPEST)


def gain_of_ranks(ranks: Floats, candidates: Floats, folds: Sequence[object]) -> Floats:
    """The information gain of ranks [bit], one number for each victim.

    The model: the probability of rank r is proportional to r ** -s, with s of at least 0, where all ranks are equal.
    """
    logs = np.log(np.arange(1, int(candidates.max()) + 1))

    def likelihood(s: float, chosen: NDArray[np.bool_]) -> Floats:
        norms = np.log(np.cumsum(np.exp(-s * logs)))
        logs_of: Floats = -s * np.log(ranks[chosen]) - norms[candidates[chosen].astype(int) - 1]
        return logs_of

    def loss(s: float, chosen: NDArray[np.bool_]) -> float:
        # Half an observation of each end of a pair of candidates.
        return -float(np.sum(likelihood(s, chosen)) - 0.5 * s * np.log(2) - np.log1p(2.0**-s))

    def score(s: float, chosen: NDArray[np.bool_]) -> Floats:
        return likelihood(s, chosen) + np.log(candidates[chosen])

    return _by_folds(folds, loss, score, 0.0)


def posteriors(guesses: Sequence[Guess], folds: Sequence[object]) -> list[Floats]:
    """The probabilities of each guess's candidates: proportional to exp(t * score), with the scores standardised.

    Each fold uses the parameter t, of at least 0, of the other folds (a conditional logit).
    """
    table = np.full((len(guesses), max(guess.candidates for guess in guesses)), -np.inf)
    for row, guess in zip(table, guesses, strict=True):
        row[: guess.candidates] = _standard(guess.scores)
    truths = np.array([guess.truth for guess in guesses])
    distributions = np.zeros_like(table)

    def log_of(t: float, chosen: NDArray[np.bool_]) -> Floats:
        # A product of 0 and the infinite score of a missing candidate would be NaN.
        weighted = np.where(np.isinf(table[chosen]), -np.inf, t * np.nan_to_num(table[chosen], neginf=0.0))
        logs: Floats = weighted - np.log(np.sum(np.exp(weighted), axis=1, keepdims=True))
        return logs

    def loss(t: float, chosen: NDArray[np.bool_]) -> float:
        return -float(np.sum(log_of(t, chosen)[np.arange(int(chosen.sum())), truths[chosen]])) + 0.05 * t

    def score(t: float, chosen: NDArray[np.bool_]) -> Floats:
        distributions[chosen] = np.exp(log_of(t, chosen))
        return np.zeros(int(np.sum(chosen)))

    _by_folds(folds, loss, score, 0.0)
    return [each[: guess.candidates] for each, guess in zip(distributions, guesses, strict=True)]


def _standard(scores: Floats) -> Floats:
    spread = float(np.std(scores))
    return (scores - np.max(scores)) / spread if spread > 0 else np.zeros_like(scores)


def _by_folds(
    folds: Sequence[object],
    loss: Callable[[float, NDArray[np.bool_]], float],
    score: Callable[[float, NDArray[np.bool_]], Floats],
    least: float,
) -> Floats:
    """For each fold, the score [bit] with the parameter that minimises the loss over the other folds.

    A single fold is divided into FOLDS folds.
    """
    from scipy.optimize import minimize_scalar  # a slow import

    names = list(dict.fromkeys(folds))
    of_fold = np.array([names.index(fold) for fold in folds]) if len(names) > 1 else np.arange(len(folds)) % FOLDS
    gains = np.zeros(len(folds))
    for fold in np.unique(of_fold):
        mine = of_fold == fold
        found = minimize_scalar(lambda x, others=~mine: loss(x, others), bounds=(least, STEEPEST), method="bounded")
        gains[mine] = score(float(found.x), mine) / np.log(2)
    return gains


def permutation(guesses: Sequence[Guess]) -> float:
    """The probability of truths that score as high as the real ones, if the truths are permuted among the victims.

    A small number shows that the scores depend on the victim. The statistic is the mean logarithm of the rank. Only
    victims with the same candidates exchange their truths. NaN without such victims.
    """
    groups: dict[tuple[str, ...], list[Guess]] = {}
    for guess in guesses:
        groups.setdefault(guess.names, []).append(guess)
    several = [group for group in groups.values() if len({guess.truth for guess in group}) > 1]
    if not several:
        return float("nan")
    rng = np.random.default_rng(1)
    tables = [(_log_ranks(group), np.array([guess.truth for guess in group])) for group in several]

    def statistic(truths: Sequence[NDArray[np.int64]]) -> float:
        picked = (
            float(np.sum(ranks[np.arange(len(of_group)), of_group]))
            for (ranks, _), of_group in zip(tables, truths, strict=True)
        )
        return sum(picked)

    real = statistic([truths for _, truths in tables])
    shuffled = (statistic([rng.permutation(truths) for _, truths in tables]) for _ in range(SHUFFLES))
    as_low = sum(each <= real + 1e-9 for each in shuffled)
    return (1 + as_low) / (1 + SHUFFLES)


def _log_ranks(group: Sequence[Guess]) -> Floats:
    """The logarithm of each candidate's rank, for each victim; candidates with the same score share the middle."""
    from scipy.stats import rankdata  # a slow import

    ranks: Floats = np.log(np.array([rankdata(-guess.scores) for guess in group]))
    return ranks
