"""Kinks, jumps, edges and rounding: what finite differences can and cannot know."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from symgrad.checking.finite_difference import differentiate


@pytest.mark.parametrize(
    ("f", "x", "left", "right"),
    [
        (abs, 0.0, -1.0, 1.0),
        (lambda x: abs(x) + 1, 0.0, -1.0, 1.0),
        (lambda x: max(x, 0.0), 0.0, 0.0, 1.0),
        (lambda x: np.clip(x, -1, 1), 1.0, 1.0, 0.0),
        (lambda x: np.clip(x, -1, 1), -1.0, 0.0, 1.0),
        (lambda x: 1e3 * x + abs(x), 0.0, 999.0, 1001.0),
        (lambda x: np.exp(x) + 3 * max(x - 2, 0), 2.0, math.exp(2), math.exp(2) + 3),
        (lambda x: abs(x - 1e8), 1e8, -1.0, 1.0),
        (lambda x: abs(np.sin(x)), 0.0, -1.0, 1.0),
    ],
)
def test_kinks_have_two_slopes(f: Any, x: float, left: float, right: float) -> None:
    slope = differentiate(f, x)
    assert slope.kind == "kink"
    assert [slope.left, slope.right] == pytest.approx([left, right], rel=1e-5, abs=1e-8)


def test_a_kink_nearby_is_seen_around() -> None:
    slope = differentiate(abs, 1e-9)
    assert slope.kind == "smooth"
    assert slope.value == pytest.approx(1.0, rel=1e-9)
    assert differentiate(lambda x: abs(x) + 1, 1e-9).value == pytest.approx(1.0, rel=1e-5)
    assert differentiate(lambda x: max(x - 1e-3, 0), 0.0).value == 0.0


def test_flat_here_is_not_rounded() -> None:
    # Constant within a thousandth of zero, sloping beyond: the derivative is zero, whatever larger steps say.
    slope = differentiate(lambda x: np.sign(x) * max(abs(x) - 1e-3, 0), 0.0)
    assert (slope.value, slope.kind) == (0.0, "smooth")
    assert slope.error < 1e-10


def test_rounded_is_not_flat() -> None:
    slope = differentiate(lambda x: (1e10 + x) - 1e10, 1.0)
    assert slope.value == pytest.approx(1.0, rel=1e-4)
    assert slope.error > 1e-6


@pytest.mark.parametrize(
    ("f", "x", "value"),
    [
        (np.sqrt, 0.0, math.inf),
        (np.arcsin, 1.0, math.inf),
        (np.arccos, 1.0, -math.inf),
        (lambda x: special.xlogy(x, x), 0.0, -math.inf),
        (lambda x: x**1.5, 0.0, 0.0),
        (lambda x: x * np.sqrt(1 - x), 1.0, -math.inf),
        (np.log, 1e-300, 1e300),
    ],
)
def test_edges_of_the_domain(f: Any, x: float, value: float) -> None:
    assert differentiate(f, x).value == pytest.approx(value, rel=1e-9, abs=1e-8)


def test_one_side_is_enough() -> None:
    slope = differentiate(lambda x: np.where(x < 2, np.nan, x**3), 2.0)
    assert slope.kind == "edge"
    assert slope.value == pytest.approx(12.0, rel=1e-8)
    assert math.isnan(slope.left)


def test_infinite_on_both_sides() -> None:
    assert differentiate(np.cbrt, 0.0).value == math.inf
    cusp = differentiate(lambda x: np.sqrt(abs(x)), 0.0)
    assert (cusp.kind, cusp.left, cusp.right) == ("kink", -math.inf, math.inf)


@pytest.mark.parametrize("f", [np.floor, np.sign, lambda x: np.where(x > 0, x, x - 1)])
def test_jumps(f: Any) -> None:
    assert differentiate(f, 0.0).kind == "jump"


def test_a_jump_leaves_the_slope_of_the_other_side() -> None:
    slope = differentiate(lambda x: np.where(x > 0, 5 * x, 3 * x + 1), 0.0)
    assert slope.kind == "jump"
    assert slope.left == pytest.approx(3.0)
    assert math.isnan(slope.right)


@pytest.mark.parametrize(("f", "x"), [(np.log, -1.0), (np.log, 0.0), (lambda x: np.nan, 1.0)])
def test_nothing_is_claimed_off_the_domain(f: Any, x: float) -> None:
    assert differentiate(f, x).kind == "unknown"


def test_rounding_inside_is_noticed_at_every_phase_of_the_rounding() -> None:
    functions: list[tuple[Any, Any]] = [
        (lambda x: np.float64(np.sin(np.float32(x))), np.cos),
        (lambda x: (1e9 + x * x) - 1e9, lambda x: 2 * x),
        (lambda x: np.sin(1e5 * x), lambda x: 1e5 * np.cos(1e5 * x)),
    ]
    for x in np.random.default_rng(3).uniform(-3, 3, 150):
        for f, derivative in functions:
            slope, right = differentiate(f, float(x)), derivative(x)
            assert slope.kind == "smooth"
            assert abs(slope.value - right) <= 1e-5 * abs(right) + 3 * slope.error
            assert slope.error <= 0.05 * max(abs(right), 1e-3)
