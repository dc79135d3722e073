"""The information of adversaries with known knowledge: oracles, blind adversaries, and those in between."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from penstock.attacks import information
from penstock.attacks.information import Guess

Gain = Callable[[Sequence[Guess]], np.ndarray]
"""The information gain of each victim [bit]."""

GUARDS = tuple(f"guard{k}" for k in range(50))


def guesses(knowledge: float, count: int = 200, names: Sequence[str] = GUARDS, seed: int = 1) -> list[Guess]:
    """Victims with random truths; the true candidate's score is higher by `knowledge` standard deviations."""
    rng = np.random.default_rng(seed)
    made = []
    for k in range(count):
        scores, truth = rng.normal(size=len(names)), int(rng.integers(len(names)))
        scores[truth] += knowledge
        made.append(Guess(f"v{k}", truth, tuple(names), scores))
    return made


def oracle(count: int = 40) -> list[Guess]:
    rng = np.random.default_rng(2)
    truths = rng.integers(50, size=count)
    return [Guess(f"v{k}", int(truth), GUARDS, np.eye(50)[truth]) for k, truth in enumerate(truths)]


def of_sets(made: Sequence[Guess], at_least: float, folds: Sequence[object] | None = None) -> np.ndarray:
    sets = [information.kept(guess, at_least) for guess in made]
    sizes, hits = (
        np.array([each.sum() for each in sets], dtype=float),
        np.array([bool(each[guess.truth]) for each, guess in zip(sets, made, strict=True)]),
    )
    return information.gain_of_sets(sizes, np.full(len(made), 50.0), hits, folds or [0] * len(made))


def of_ranks(made: Sequence[Guess]) -> np.ndarray:
    ranks = np.array([guess.rank for guess in made], dtype=float)
    return information.gain_of_ranks(ranks, np.full(len(made), 50.0), [0] * len(made))


def of_probabilities(made: Sequence[Guess]) -> np.ndarray:
    found = information.posteriors(made, [0] * len(made))
    return np.array([np.log2(50 * each[guess.truth]) for each, guess in zip(found, made, strict=True)])


def test_fifty_guards_have_5_64_bits() -> None:
    assert information.bits(50) == pytest.approx(5.644, abs=5e-4)


@pytest.mark.parametrize("gain", [lambda made: of_sets(made, 0.5), of_ranks, of_probabilities])
def test_an_oracle_learns_all_bits(gain: Gain) -> None:
    assert gain(oracle()).mean() == pytest.approx(information.bits(50), abs=0.1)


@pytest.mark.parametrize("gain", [lambda made: of_sets(made, 1.0), of_ranks, of_probabilities])
@pytest.mark.parametrize("seed", range(5))
def test_a_blind_adversary_learns_nothing(gain: Gain, seed: int) -> None:
    assert gain(guesses(0.0, seed=seed)).mean() == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("gain", [lambda made: of_sets(made, 1.5), of_ranks, of_probabilities])
def test_more_knowledge_is_more_information(gain: Gain) -> None:
    gains = [gain(guesses(knowledge)).mean() for knowledge in (0.0, 1.0, 2.0, 4.0)]
    assert gains == sorted(gains)
    assert 0 < gains[-1] < information.bits(50)


def test_probabilities_find_the_information_of_a_known_law() -> None:
    # The true candidate is drawn with the probabilities that the scores imply, so the gain is the mean entropy lost.
    rng = np.random.default_rng(3)
    made, lost = [], []
    for k in range(2000):
        scores = rng.normal(scale=2.0, size=50)
        probabilities = np.exp(scores) / np.exp(scores).sum()
        made.append(Guess(f"v{k}", int(rng.choice(50, p=probabilities)), GUARDS, scores))
        lost.append(np.log2(50) + np.sum(probabilities * np.log2(probabilities)))
    assert of_probabilities(made).mean() == pytest.approx(np.mean(lost), abs=0.12)


def test_a_random_set_loses_entropy_but_gains_no_information() -> None:
    made = guesses(0.0, count=400)
    sizes = np.array([information.kept(guess, 2.0).sum() for guess in made])
    assert np.mean(np.log2(50 / sizes)) > 3
    assert of_sets(made, 2.0).mean() == pytest.approx(0.0, abs=0.05)


def test_an_adversary_that_keeps_all_candidates_gains_exactly_nothing() -> None:
    assert np.allclose(of_sets(guesses(3.0), -100.0), 0.0, atol=1e-9)


def test_an_empty_set_keeps_all_candidates() -> None:
    guess = Guess("v", 0, GUARDS, np.zeros(50))
    assert information.kept(guess, 1.0).sum() == 50


def test_each_fold_uses_the_law_of_the_others() -> None:
    # One network leaks everything, and the other nothing: neither model fits the other network.
    made = oracle(40) + guesses(0.0, count=40)
    gains = of_sets(made, 0.5, [0] * 40 + [1] * 40)
    assert gains[:40].mean() < 1.0
    assert gains[40:].mean() < 0.0


def test_candidates_with_the_score_of_the_truth_remain() -> None:
    guess = Guess("v", 1, ("a", "b", "c", "d"), np.array([1.0, 1.0, 0.0, 2.0]))
    assert guess.rank == 3
    assert guess.auc == pytest.approx((0.5 + 1 + 0) / 3)


def test_the_permutation_test_finds_a_leak() -> None:
    assert information.permutation(guesses(1.0)) == pytest.approx(0.001)


def test_the_permutation_test_finds_no_leak_where_there_is_none() -> None:
    found = [information.permutation(guesses(0.0, count=30, seed=seed)) for seed in range(100)]
    assert 0.01 <= np.mean(np.array(found) < 0.05) <= 0.11
    assert 0.4 < np.mean(found) < 0.6


def test_the_permutation_test_ignores_popular_candidates() -> None:
    # Half of the victims use one guard, and the adversary prefers this guard for every victim.
    rng = np.random.default_rng(5)
    made = []
    for k in range(100):
        scores = rng.normal(size=50)
        scores[7] += 3.0
        made.append(Guess(f"v{k}", 7 if k % 2 else int(rng.integers(50)), GUARDS, scores))
    assert information.permutation(made) > 0.05


def test_without_other_truths_there_is_no_permutation() -> None:
    assert np.isnan(information.permutation([Guess("v", 0, GUARDS, np.zeros(50))]))
