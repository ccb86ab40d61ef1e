"""Functions without a rule on what is known while tracing, and grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS, agrees

X = np.array([[0.5, -1.5, 2.0], [1.0, 3.0, -0.25]])


def eigenvalues(x):
    return np.sum(x) * np.max(np.linalg.eigvalsh(np.eye(3) * 2 + np.ones((3, 3))))


def named_results(x):
    made = np.linalg.eigh(np.diag([1.0, 3.0, 2.0]))
    return x @ made.eigenvalues


def with_options(x):
    table = np.linspace(0, 1, 5)
    table[2] = 0.9
    return x * np.percentile(table, q=[10, 50, 90], axis=0)


def counted(x):
    counts, edges = np.histogram(np.arange(10.0), bins=3)
    return x * counts + edges[0]


def a_polynomial(x):
    t = np.arange(4.0)
    return np.polyfit(t, t**2, 2)[0] * x


def results_that_are_written_to(x):
    table = np.gradient(np.arange(3.0) ** 2)
    table[1] = x[0, 0]
    return x * table


def numbers_of_loops(x):
    total = 0.0
    for k in range(3):
        total = total + x[0, k] * np.spacing(np.float64(k))
    return total * 1e16


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f", [eigenvalues, named_results, with_options, counted, a_polynomial, results_that_are_written_to,
          numbers_of_loops]
)  # fmt: skip
def test_functions_without_a_rule(f: Any, backend: str) -> None:
    agrees(f, backend, (X,), (X * 2,))


def meshed(x):
    a, b = np.meshgrid(x[0], np.arange(2.0))
    a[0, 0] = 7.0
    return a * b + x[0]


def meshed_by_index(x):
    a, b, c = np.meshgrid(x[0], x[1], [1.0, 2.0], indexing="ij")
    return a * b - c


def meshed_sparsely(x):
    a, b = np.meshgrid(x[0], x[1], sparse=True)
    return a @ b.T if a.shape == b.shape else a * b


def chosen(x):
    return x[np.ix_([1, 0], np.arange(2))] * 2


def chosen_by_masks(x):
    return x[np.ix_(np.array([True, False]), x[0] > 0)]


def replaced(x):
    y = x.copy()
    y[np.ix_([0], [2, 0])] = x[1, :2] * 3
    return y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [meshed, meshed_by_index, meshed_sparsely, chosen, chosen_by_masks, replaced])
def test_grids(f: Any, backend: str) -> None:
    agrees(f, backend, (X,), (-X,))


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: np.linalg.eigvalsh(x[:, :2]), "np.linalg.eigvalsh"),
        (lambda x: np.linalg.eigvalsh(np.diag(x[0])), "np.linalg.eigvalsh"),
        (lambda x: np.percentile(np.arange(3.0), x[0, 0]), "np.percentile"),
        # A view of a constant: what is written to it would have to be seen there.
        (lambda x: np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 2) * x[0, 0], "sliding_window_view"),
        (lambda x: np.lib.stride_tricks.sliding_window_view(np.ones(5000) * 2, 2)[0] * x[0, 0], "sliding_window_view"),
        (lambda x: np.sum(x) * len(np.array2string(np.arange(3.0)) + str(np.lib.scimath.sqrt(x[0]))), "scimath"),
    ],
)
def test_what_depends_on_arguments_is_refused(f: Any, name: str) -> None:
    with pytest.raises(sg.SymgradError, match=rf"{name}[\s\S]*test_constants.py:\d+"):
        sg.compile(f)(X)


def test_slopes_of_grids() -> None:
    def f(x: Any) -> Any:
        a, b = np.meshgrid(x, x**2)
        return np.sum(a * b)

    x = np.array([1.0, 2.0, -0.5])
    np.testing.assert_allclose(sg.grad(f)(x), np.sum(x**2) + 2 * x * np.sum(x))
