"""The correlation of a victim with probes over all lags."""

import numpy as np
import pytest
from conftest import program


def test_a_probe_that_gets_less_while_the_victim_sends_has_a_negative_correlation() -> None:
    victim = np.random.default_rng(1).normal(size=20_000)
    probes = np.array([1 - victim, np.roll(victim, 1), np.ones(20_000)])
    alone, later, constant = program("probe_correlation")["mean_of_lags"](victim, probes, 1)
    # One lag of three fits; the others have chance.
    assert alone == pytest.approx(-1 / 3, abs=0.02)
    assert later == pytest.approx(1 / 3, abs=0.02)
    assert constant == 0
