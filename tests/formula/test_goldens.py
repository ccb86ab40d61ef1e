"""Formulas of everyday losses and their gradients, as they are printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from symgrad.formula.formula import make_formula
from symgrad.ops.define import FUNCTIONS
from symgrad.ops.indexing import getitem
from tests.formula.graphs import N, evaluate_source, evaluate_text, gradient, graph_of, reference


def misra1a(b1: Any, b2: Any, x: Any, y: Any) -> Any:
    return N.sum((y - b1 * (1 - N.exp(-b2 * x))) ** 2)


def misra1a_by_index(b: Any, x: Any, y: Any) -> Any:
    return N.sum((y - getitem(b, 0) * (1 - N.exp(-getitem(b, 1) * x))) ** 2)


def thurber(b1: Any, b2: Any, b3: Any, b4: Any, b5: Any, b6: Any, b7: Any, x: Any, y: Any) -> Any:
    model = (b1 + b2 * x + b3 * x**2 + b4 * x**3) / (1 + b5 * x + b6 * x**2 + b7 * x**3)
    return N.sum((y - model) ** 2)


def rat43(b1: Any, b2: Any, b3: Any, b4: Any, x: Any, y: Any) -> Any:
    return N.sum((y - b1 / (1 + N.exp(b2 - b3 * x)) ** (1 / b4)) ** 2)


def eckerle4(b1: Any, b2: Any, b3: Any, x: Any, y: Any) -> Any:
    return N.sum((y - b1 / b2 * N.exp(-((x - b3) ** 2) / (2 * b2**2))) ** 2)


def rosenbrock(x: Any) -> Any:
    head, tail = getitem(x, slice(None, -1)), getitem(x, slice(1, None))
    return N.sum(100 * (tail - head**2) ** 2 + (1 - head) ** 2)


def least_squares(w: Any, X: Any, y: Any) -> Any:
    return N.sum((X @ w - y) ** 2)


def ridge(w: Any, X: Any, y: Any, mu: Any) -> Any:
    return N.mean((X @ w - y) ** 2) + mu * (w @ w)


def logistic_regression(w: Any, X: Any, y: Any) -> Any:
    return N.mean(N.logaddexp(0.0, -y * (X @ w)))


def softmax_regression(z: Any, y: Any) -> Any:
    return N.log(N.sum(N.exp(z))) - y @ z


def quadratic_form(x: Any, A: Any, b: Any) -> Any:
    return 0.5 * (x @ A @ x) - b @ x


def gaussian(mu: Any, sigma: Any, x: Any) -> Any:
    return N.sum(0.5 * ((x - mu) / sigma) ** 2 + N.log(sigma * np.sqrt(2 * np.pi)))


def factorisation(U: Any, V: Any, M: Any) -> Any:
    return N.sum((U @ N.transpose(V) - M) ** 2)


def huber(w: Any, X: Any, y: Any) -> Any:
    r = X @ w - y
    return N.sum(N.where(N.absolute(r) < 1.0, 0.5 * r**2, N.absolute(r) - 0.5))


def network(W1: Any, b1: Any, w2: Any, X: Any, y: Any) -> Any:
    return N.mean((N.tanh(X @ W1 + b1) @ w2 - y) ** 2)


def log_determinant(A: Any) -> Any:
    return FUNCTIONS[np.linalg.slogdet](A)[1]


POINTS = {"x": (6,), "y": (6,)}
SCALARS = {f"b{k}": () for k in range(1, 8)}
ROWS = {"X": (6, 3), "y": (6,)}
CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...], dict[str, tuple[int, ...]]]] = {
    "misra1a": (misra1a, ("b1", "b2"), {"b1": (), "b2": (), **POINTS}),
    "misra1a_by_index": (misra1a_by_index, ("b",), {"b": (2,), **POINTS}),
    "thurber": (thurber, tuple(SCALARS), {**SCALARS, **POINTS}),
    "rat43": (rat43, ("b1", "b2", "b3", "b4"), {**dict.fromkeys(("b1", "b2", "b3", "b4"), ()), **POINTS}),
    "eckerle4": (eckerle4, ("b1", "b2", "b3"), {"b1": (), "b2": (), "b3": (), **POINTS}),
    "rosenbrock": (rosenbrock, ("x",), {"x": (5,)}),
    "least_squares": (least_squares, ("w", "X"), {"w": (3,), **ROWS}),
    "ridge": (ridge, ("w", "mu"), {"w": (3,), **ROWS, "mu": ()}),
    "logistic_regression": (logistic_regression, ("w",), {"w": (3,), **ROWS}),
    "softmax_regression": (softmax_regression, ("z",), {"z": (3,), "y": (3,)}),
    "quadratic_form": (quadratic_form, ("x",), {"x": (3,), "A": (3, 3), "b": (3,)}),
    "gaussian": (gaussian, ("mu", "sigma"), {"mu": (), "sigma": (), "x": (6,)}),
    "factorisation": (factorisation, ("U", "V"), {"U": (4, 2), "V": (3, 2), "M": (4, 3)}),
    "huber": (huber, ("w",), {"w": (3,), **ROWS}),
    "network": (network, ("W1", "b1", "w2"), {"W1": (3, 4), "b1": (4,), "w2": (4,), **ROWS}),
    "log_determinant": (log_determinant, ("A",), {"A": (3, 3)}),
}


@pytest.mark.parametrize("name", CASES)
def test_losses(name: str, golden: Callable[[str, str], None]) -> None:
    f, wrt, shapes = CASES[name]
    graph = graph_of(f, **shapes)
    value = make_formula(graph, [name])
    slope = make_formula(*gradient(graph, *wrt))
    both = make_formula(*gradient(graph, *wrt, value=True))
    parts = [str(value), str(slope), str(both), slope.ascii, slope.latex, slope.numpy()]
    golden(f"{name}.txt", "\n\n".join(part.rstrip() for part in parts) + "\n")

    rng = np.random.default_rng(11)
    arrays = {k: np.asarray(rng.uniform(0.5, 1.5, shape))[()] for k, shape in shapes.items()}
    for formula in (value, slope, both):
        expected = reference(formula.graph, **arrays)
        source = evaluate_source(formula, **arrays)
        for k, result in enumerate(evaluate_text(formula, **arrays)):
            np.testing.assert_allclose(result, expected[k], rtol=1e-11, atol=1e-13)
            one = source if len(expected) == 1 else source[k]
            np.testing.assert_allclose(one, expected[k], rtol=1e-11, atol=1e-13)
