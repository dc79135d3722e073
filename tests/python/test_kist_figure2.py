"""The teeth of figure 2b of KIST."""

import pytest
from conftest import program


def test_a_window_that_falls_in_two_samples_has_one_loss_at_its_top() -> None:
    tooth = [(0.0, 70.0), (0.5, 105.0), (0.51, 90.0), (0.52, 73.0)]
    points = [(at + start, size) for start in (1.0, 2.5, 4.0) for at, size in tooth]
    gaps, tops = zip(*program("kist_figure2")["teeth"](points), strict=True)
    assert gaps == pytest.approx((1.5, 1.5))
    assert tops == (105.0, 105.0)
