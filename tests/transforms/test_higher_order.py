"""Derivatives of derivatives: any nesting of the modes, kinks and masks of second order, no confusion of variables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph
from symgrad.core.op import OPS
from symgrad.transforms.forward import pushforward
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify
from tests.core.graphs import (
    array_type,
    central,
    derivatives,
    grad_graph,
    gradient,
    hessian,
    jvp_graph,
    run,
    run_all,
    trace,
    vjp_graph,
)


def vec(*values: float) -> Any:
    return np.array(values, float)


SERIES: list[tuple[str, Callable[[Any], Any], float, list[float]]] = [
    ("polynomial", lambda x: 2 * x**3 - x, 1.5, [5.25, 12.5, 18, 12, 0]),
    ("exponential", lambda x: np.exp(2 * x), 0.0, [1, 2, 4, 8, 16]),
    ("sine", np.sin, 0.0, [0, 1, 0, -1, 0, 1]),
    ("logarithm", np.log, 2.0, [np.log(2), 0.5, -0.25, 0.25, -0.375]),
    ("log1p of a square", lambda x: np.log1p(x * x), 0.0, [0, 0, 2, 0, -12]),
    ("reciprocal", lambda x: 1 / x, 2.0, [0.5, -0.25, 0.25, -0.375]),
    ("square root", np.sqrt, 4.0, [2, 0.25, -1 / 32, 3 / 256]),
    ("tanh at 0", np.tanh, 0.0, [0, 1, 0, -2, 0, 16]),
    ("logistic at 0", sc.expit, 0.0, [0.5, 0.25, 0, -0.125, 0, 0.25]),
    ("softplus at 0", lambda x: np.logaddexp(x, 0.0), 0.0, [np.log(2), 0.5, 0.25, 0, -0.125]),
    ("sinc at 0", np.sinc, 0.0, [1, 0, -(np.pi**2) / 3, 0, np.pi**4 / 5]),
    ("arctan at 0", np.arctan, 0.0, [0, 1, 0, -2, 0, 24]),
    ("error function", sc.erf, 0.0, [0, 2 / np.sqrt(np.pi), 0, -4 / np.sqrt(np.pi)]),
    ("absolute value cubed", lambda x: np.abs(x) ** 3, 0.0, [0, 0, 0]),
    ("absolute value cubed, beside", lambda x: np.abs(x) ** 3, -2.0, [8, -12, 12, -6]),
    ("x |x|", lambda x: x * np.abs(x), -3.0, [-9, 6, -2]),
    ("power at 0", lambda x: x**4, 0.0, [0, 0, 0, 0, 24]),
    ("variable exponent", lambda x: x**x, 1.0, [1, 1, 2]),
    ("where, branch not taken", lambda x: np.where(x > 1.0, x * np.sqrt(x - 1.0), x**3), 0.5, [0.125, 0.75, 3, 6]),
    ("where, on the edge", lambda x: np.where(x > 1.0, np.sqrt(x - 1.0), 2 * x), 1.0, [2, 2, 0]),
    ("square root of a clipped value", lambda x: np.sqrt(np.clip(x, 0.0, 5.0)), -1.0, [0, 0, 0]),
    ("maximum squared", lambda x: np.maximum(x, 0.0) ** 2, -1.0, [0, 0, 0]),
    ("norm squared", lambda x: np.linalg.norm(np.stack([x, 2 * x])) ** 2, 0.0, [0, 0, 10]),
    ("unrolled root finding", lambda a: _newton(a), 2.0, [2**0.5, 2**-1.5, -(2**-3.5)]),
    ("remainder", lambda x: (x % 2.0) ** 2, 5.5, [2.25, 3, 2]),
    ("two factors", lambda x: np.sin(x) * np.exp(x), 0.0, [0, 1, 2, 2, 0, -4]),
]  # fmt: skip


def _newton(a: Any) -> Any:
    x = 1.0 + 0.0 * a
    for _ in range(12):
        x = 0.5 * (x + a / x)
    return x


@pytest.mark.parametrize(("name", "function", "at", "expected"), SERIES, ids=[s[0] for s in SERIES])
def test_derivatives_of_rising_order(name: str, function: Any, at: float, expected: list[float]) -> None:
    found = derivatives(function, at, len(expected) - 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


HESSIANS: list[tuple[str, Callable[[Any], Any], Any, Any]] = [
    (
        "valley", lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), vec(2, 1),
        [[4402, -800], [-800, 200]],
    ),
    ("largest, squared", lambda x: np.max(x) ** 2, vec(1, 3, 2), np.diag([0, 2, 0])),
    ("largest by smallest", lambda x: np.max(x) * np.min(x), vec(1, 3, 2), [[0, 1, 0], [1, 0, 0], [0, 0, 0]]),
    ("largest, tied, squared", lambda x: np.max(x) ** 2, vec(3, 3), [[0.5, 0.5], [0.5, 0.5]]),
    ("product", np.prod, vec(2, 3, 5), [[0, 5, 3], [5, 0, 2], [3, 2, 0]]),
    ("product with a zero", np.prod, vec(2, 0, 5), [[0, 5, 0], [5, 0, 2], [0, 2, 0]]),
    ("product with two zeros", np.prod, vec(2, 0, 0), [[0, 0, 0], [0, 0, 2], [0, 2, 0]]),
    ("running product", lambda x: np.cumprod(x)[-1], vec(2, 0, 0), [[0, 0, 0], [0, 0, 2], [0, 2, 0]]),
    ("norm squared at 0", lambda x: np.linalg.norm(x) ** 2, vec(0, 0), 2 * np.eye(2)),
    ("norm", np.linalg.norm, vec(3, 4), [[0.128, -0.096], [-0.096, 0.072]]),
    ("variance", np.var, vec(1, 5, 2), 2 / 3 * (np.eye(3) - 1 / 3)),
    ("softmax normaliser", lambda x: np.logaddexp(x[0], x[1]), vec(1, 1), [[0.25, -0.25], [-0.25, 0.25]]),
    (
        "normaliser of base 2", lambda x: np.logaddexp2(x[0], x[1]), vec(1, 1),
        np.log(2) / 4 * np.array([[1, -1], [-1, 1]]),
    ),
    ("length", lambda x: np.hypot(x[0], x[1]), vec(3, 4), [[0.128, -0.096], [-0.096, 0.072]]),
    ("angle", lambda x: np.arctan2(x[0], x[1]), vec(1, 0), [[0, 1], [1, 0]]),
    ("power in both", lambda x: np.power(x[0], x[1]), vec(1, 2), [[2, 1], [1, 0]]),
    ("quadratic form", lambda x: x @ np.array([[1.0, 2.0], [0.0, 3.0]]) @ x, vec(7, 8), [[2, 2], [2, 6]]),
    (
        "determinant", lambda x: np.linalg.det(np.reshape(x, (2, 2))), vec(1, 2, 3, 4),
        np.fliplr(np.diag([1, -1, -1, 1])),
    ),
    ("log determinant", lambda x: np.linalg.slogdet(np.diag(x))[1], vec(2, 4), np.diag([-0.25, -1 / 16])),
    ("inverse", lambda x: np.linalg.inv(np.diag(x))[0, 0], vec(2, 4), np.diag([0.25, 0])),
    ("masked square root", lambda x: np.sum(np.where(x > 0, np.sqrt(x), x**2)), vec(0, 4), np.diag([2, -1 / 32])),
    ("indexed twice", lambda x: x[0] * x[[1, 1]].sum() * x[-1], vec(2, 3), [[0, 12], [12, 8]]),
    ("constant", lambda x: np.sum(x * 0.0 + 3.0), vec(1, 2), np.zeros((2, 2))),
    ("linear", lambda x: np.sum(np.cumsum(x)), vec(1, 2), np.zeros((2, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "at", "expected"), HESSIANS, ids=[h[0] for h in HESSIANS])
def test_second_derivatives(name: str, function: Any, at: Any, expected: Any) -> None:
    found = hessian(function, at)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    graph = simplify(trace(function, at))
    rows = [
        run(grad_graph(Graph(g.inputs, [g.outputs[0]])), at) for g in _components(grad_graph(graph), len(at))
    ]
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-13, err_msg="reverse over reverse")
    columns = [
        run(jvp_graph(jvp_graph(graph)), at, a, b) for a, b in itertools.product(np.eye(len(at)), repeat=2)
    ]
    np.testing.assert_allclose(
        np.reshape(columns, np.shape(expected)),
        expected,
        rtol=1e-12,
        atol=1e-13,
        err_msg="forward over forward",
    )


def _components(graph: Graph, n: int) -> list[Graph]:
    (out,) = graph.outputs
    pieces = []
    for k in range(n):
        piece = out.table.make(OPS["slice"], [out], {"starts": (k,), "sizes": (1,), "steps": (1,)})
        pieces.append(Graph(graph.inputs, [piece]))
    return pieces


def program(x: Any, y: Any) -> Any:
    return np.sum(
        np.tanh(x @ y) * np.exp(-np.square(x[:, 0])) + np.maximum(x, 0.1).sum(axis=1) / (1 + y[0] ** 2)
    )


def test_all_nestings_agree() -> None:
    """d²f along u and v by the four ways in which two derivatives can be nested."""
    rng = np.random.default_rng(5)
    x, y, u, v = (
        rng.uniform(-1, 1, (3, 2)),
        rng.uniform(-1, 1, 2),
        rng.uniform(-1, 1, (3, 2)),
        rng.uniform(-1, 1, 2),
    )
    graph = trace(program, x, y)
    one = np.float64(1.0)
    forward_forward = run(jvp_graph(jvp_graph(graph, [0]), [1]), x, y, u, v)
    reverse = vjp_graph(graph, [0])
    forward_reverse = np.sum(u * run(jvp_graph(reverse, [1]), x, y, one, v))
    reverse_forward = np.sum(v * run(vjp_graph(jvp_graph(graph, [0]), [1]), x, y, u, one))
    reverse_reverse = np.sum(v * run(vjp_graph(reverse, [1]), x, y, one, u))
    np.testing.assert_allclose(
        [forward_reverse, reverse_forward, reverse_reverse], forward_forward, rtol=1e-13
    )


def test_reverse_is_linear_in_its_cotangent() -> None:
    """Differentiating a pullback with respect to its cotangent gives the pushforward."""
    x, y, u = vec(1, 2, 3), vec(0.5, -1, 2), vec(1, -1, 0.5)
    graph = trace(lambda x, y: np.sin(x) * y + np.cumsum(x), x, y)
    pulled = vjp_graph(graph, [0])
    transposed = vjp_graph(pulled, [2])
    np.testing.assert_allclose(run(transposed, x, y, u, u), run(jvp_graph(graph, [0]), x, y, u), rtol=1e-14)


def test_no_perturbation_confusion() -> None:
    """Values from the outer function are constants of the inner derivative, and variables of the outer one."""
    table = InternTable()
    x, y = table.input(array_type()), table.input(array_type())
    one = table.constant(1.0, np.float64)

    def derivative(out: Expr, wrt: Expr, reverse: bool) -> Expr:
        (found,) = pullback([out], [one], [wrt]) if reverse else pushforward([out], [wrt], [one])
        return found if found is not None else table.constant(0.0, np.float64)

    for inner_mode, outer_mode in itertools.product([True, False], repeat=2):
        # d/dx x·(d/dy (x + y)) = 1, not 2.
        inner = derivative(x + y, y, inner_mode)
        assert run(Graph([x, y], [derivative(x * inner, x, outer_mode)]), 3.0, 1.0) == 1.0
        # d/dx x·(d/dy x·y) = 2x.
        inner = derivative(x * y, y, inner_mode)
        assert run(Graph([x, y], [derivative(x * inner, x, outer_mode)]), 3.0, 1.0) == 6.0
        # d/dx of (d/dy x²y³) = 6xy².
        inner = derivative(x * x * y * y * y, y, inner_mode)
        assert run(Graph([x, y], [derivative(inner, x, outer_mode)]), 3.0, 2.0) == 72.0


def test_the_order_of_differentiation_does_not_matter() -> None:
    """Masks do not depend on which derivatives were taken before in the same table."""
    x = vec(0, 4)
    graph = trace(lambda x: np.sum(np.sqrt(x)[1:] ** 2 * x[1]), x)
    first = run(grad_graph(graph), x)
    for _ in range(3):
        assert np.array_equal(run(grad_graph(graph, simplified=False), x), first)
        assert np.array_equal(run(grad_graph(graph), x), first)
    np.testing.assert_allclose(first, [0, 8])


def test_masks_hold_at_every_order() -> None:
    for order, value in enumerate(
        derivatives(lambda x: np.where(x > 0, np.log(x) * np.sqrt(x), np.sin(x)), 0.0, 5)
    ):
        assert value == [0, 1, 0, -1, 0, 1][order]


def test_masks_hold_through_reductions_and_products() -> None:
    x = vec(0, 1, 2)
    weights = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def f(x: Any) -> Any:
        safe = np.where(x > 0, np.sqrt(x), 0.0)
        return np.sum((weights @ safe) ** 2)

    found = hessian(f, x)
    assert np.all(np.isfinite(found))
    assert np.array_equal(found[0], [0, 0, 0])
    assert np.array_equal(found[:, 0], [0, 0, 0])


def test_supports_may_be_smaller_than_what_they_mask() -> None:
    """The mask of the deviation at 0 is one number, beside gradients that are arrays."""
    x = np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 3.0]])

    def f(x: Any) -> Any:
        return np.sum(x[0] / (1 + np.std(x)))

    found = hessian(f, x)
    np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-14)
    gradient_graph = grad_graph(trace(f, x))
    for k, step in enumerate(np.eye(6).reshape(6, 2, 3)):
        row = central(lambda h, step=step: run(gradient_graph, x + h * step))
        np.testing.assert_allclose(found[k], np.ravel(row), rtol=1e-8, atol=1e-10)


def test_derivatives_with_respect_to_several_arguments() -> None:
    x, y = vec(1, 2), vec(3, 4)
    gx, gy = gradient(lambda x, y: np.sum(x * y**2), x, y)
    assert gx.tolist() == [9, 16]
    assert gy.tolist() == [6, 16]


# ------------------------------------------------------------------------------------------ structure


def structural(function: Callable[..., Any], *args: Any) -> list[Expr | None]:
    graph = trace(function, *args)
    table = graph.table
    return pullback(graph.outputs, [table.input(o.aval) for o in graph.outputs], graph.inputs)


def test_what_does_not_reach_the_output_has_no_gradient() -> None:
    assert structural(lambda x, y: x * 2, 1.0, 1.0)[1] is None
    assert structural(lambda x: np.floor(x), 1.0) == [None]
    assert structural(lambda x: np.sum(x > 0), vec(1, 2)) == [None]
    assert structural(lambda x: np.argmax(x), vec(1, 2)) == [None]
    assert structural(lambda x: np.zeros_like(x), vec(1, 2)) == [None]
    assert structural(lambda x: x.astype(int), vec(1, 2)) == [None]
    assert structural(lambda x: x**0, vec(1, 2)) == [None]


def test_integers_and_bools_have_no_tangent_space() -> None:
    found = structural(
        lambda x, i, b: np.where(b, x * i, x), vec(1, 2), np.array([3, 4]), np.array([True, False])
    )
    assert found[0] is not None
    assert found[1] is None
    assert found[2] is None


def test_zeros_never_become_arrays() -> None:
    """Structural zeros leave no trace in the graph: no constant 0, no multiplication by one."""
    graph = trace(
        lambda x, y: np.sum(np.sin(x) + np.floor(y) * 2 + np.where(y > 0, x, 3.0)), vec(1, 2), vec(1, 2)
    )
    found = grad_graph(graph, [0])
    assert {n.op.name for n in found.nodes} == {"input", "const", "cos", "keep", "greater", "add"}
    (value,) = [n for n in found.nodes if n.op.name == "keep"]
    assert value.args[1].value == 1


def test_a_tangent_that_is_missing_stays_missing() -> None:
    graph = trace(lambda x, y: (x * 2, y * 3, x + y), 1.0, 2.0)
    table = graph.table
    tangent = table.input(array_type())
    found = pushforward(graph.outputs, graph.inputs, [tangent, None])
    assert found[0] is not None
    assert found[1] is None
    assert found[2] is tangent


def test_several_outputs_share_the_pullback() -> None:
    x = vec(1, 2)
    pulled = vjp_graph(trace(lambda x: (np.sin(x), np.sin(x) * 2), x), [0])
    a, b = vec(1, 0), vec(0, 3)
    np.testing.assert_allclose(run_all(pulled, x, a, b)[0], np.cos(x) * (a + 2 * b), rtol=1e-15)
    assert sum(n.op.name == "cos" for n in pulled.nodes) == 1


def test_an_output_that_is_an_input() -> None:
    assert run(grad_graph(trace(lambda x: x, 3.0)), 3.0) == 1.0
    assert run(jvp_graph(trace(lambda x, y: y, 3.0, 4.0), [1]), 3.0, 4.0, 5.0) == 5.0


def test_dtypes_of_gradients_are_those_of_arguments() -> None:
    half, full = np.ones(2, np.float32), np.ones(2)
    graph = trace(lambda a, b: np.sum(a * b * 2.5), half, full)
    outputs = grad_graph(graph, [0, 1]).outputs
    assert [o.dtype for o in outputs] == [np.float32, np.float64]
    small = trace(lambda a: np.sum(np.log2(a) * 0.5 + a / 3 + np.maximum(a, 0.25 * a)) / 2, half)
    found = grad_graph(small)
    assert all(n.dtype != np.float64 for n in found.nodes)
    np.testing.assert_allclose(
        run(found, np.array([2, 8], np.float32)), (0.5 / np.log(2) / np.array([2, 8]) + 4 / 3) / 2, rtol=1e-6
    )
