"""NumPy's functions that put the elements of a traced array into a random order: the elements stay traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS, agrees

M = np.array([[0.3, -1.1], [-0.5, 0.9], [1.2, -0.2], [2.5, 4.5]])

pytestmark = pytest.mark.filterwarnings("ignore::symgrad.SideEffectWarning")


def legacy_rows(x):
    np.random.seed(0)
    y = x.copy()
    np.random.shuffle(y)
    return y


def rows_of_a_view(x):
    np.random.default_rng(3).shuffle(x[1:])
    return x * 2


def a_column(x):
    np.random.RandomState(4).shuffle(x[:, 1])
    return x


def columns(x):
    np.random.default_rng(0).shuffle(x, axis=1)
    return x


def permutations(x):
    rng = np.random.default_rng(5)
    np.random.seed(1)
    return rng.permutation(x), rng.permuted(x, axis=0), rng.permutation(x, axis=1), np.random.permutation(x[:, 0])


def choices(x):
    rng = np.random.default_rng(6)
    np.random.seed(1)
    return rng.choice(x, 2, replace=False), rng.choice(x[0]), np.random.choice(x[:, 0], size=(2, 3))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [legacy_rows, rows_of_a_view, a_column, columns, permutations, choices])
def test_orders_are_numpys(f: Any, backend: str) -> None:
    agrees(f, backend, (M,))


def test_slopes_follow_the_elements() -> None:
    weights = np.arange(8.0).reshape(4, 2)

    def f(x: Any) -> Any:
        y = x.copy()
        np.random.default_rng(2).shuffle(y)
        return (y * weights).sum()

    places = np.arange(4)
    np.random.default_rng(2).shuffle(places)
    wanted = np.empty_like(weights)
    wanted[places] = weights
    np.testing.assert_array_equal(sg.grad(f)(M), wanted)
