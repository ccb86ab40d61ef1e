"""SciPy functions that are no ufuncs, called as users call them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from scipy import linalg, special
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logsumexp, softmax

import symgrad as sg

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
B = np.array([1.0, -2.0, 0.5])

PROGRAMS = {
    "lower triangle": lambda a: np.sum(solve_triangular(a, B, lower=True) ** 2),
    "upper triangle, transposed": lambda a: np.sum(linalg.solve_triangular(a, B, trans=1) ** 2),
    "unit diagonal": lambda a: np.sum(solve_triangular(a, B, lower=True, unit_diagonal=True)),
    "Cholesky factor": lambda a: np.sum(np.log(np.diag(scipy.linalg.cholesky(a @ a.T, lower=True)))),
    "upper Cholesky factor": lambda a: np.sum(scipy.linalg.cholesky(a @ a.T) ** 2 * A),
    "Cholesky solve": lambda a: B @ cho_solve(cho_factor(a @ a.T), B),
    "lower Cholesky solve": lambda a: B @ cho_solve(cho_factor(a @ a.T, lower=True), B),
    "solve": lambda a: np.sum(linalg.solve(a, B)),
    "inverse and determinant": lambda a: np.sum(linalg.inv(a)) * linalg.det(a),
    "norm": lambda a: linalg.norm(a) + linalg.norm(a[0], 1),
    "logsumexp": lambda a: logsumexp(a) + np.sum(scipy.special.logsumexp(a, axis=1) * B),
    "logsumexp with weights": lambda a: logsumexp(a, b=np.abs(A)),
    "softmax": lambda a: np.sum(softmax(a, axis=0) * A) + np.sum(special.log_softmax(a, axis=-1) * A),
}


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_derivatives(name, backend):
    f = PROGRAMS[name]
    x = A + 0.1 * np.arange(9.0).reshape(3, 3)
    with sg.config(backend=backend):
        np.testing.assert_allclose(sg.compile(f)(x), f(x), rtol=1e-13)
        assert sg.check_grads(f, (x,), order=1).ok


def test_logsumexp_where_exponentials_overflow_or_vanish():
    g = sg.value_and_grad(logsumexp)
    value, gradient = g(np.array([1000.0, 1000.0, -np.inf]))
    assert value == pytest.approx(1000.0 + np.log(2.0), rel=1e-15)
    np.testing.assert_array_equal(gradient, [0.5, 0.5, 0.0])
    value, gradient = g(np.array([-np.inf, -np.inf, -np.inf]))
    assert value == -np.inf
    np.testing.assert_array_equal(gradient, np.zeros(3))
