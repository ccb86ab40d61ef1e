"""How graphs grow, and that neither depth nor breadth makes anything recurse or blow up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from symgrad.core.expr import InternTable
from symgrad.core.graph import Graph, verify
from symgrad.core.op import OPS
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify
from tests.core.graphs import (
    array_type,
    derivative_graph,
    evaluated,
    grad_graph,
    gradient,
    jvp_graph,
    run,
    trace,
)

# ------------------------------------------------------------------------------------------ counts


def _logistic(w: Any, x: Any, y: Any) -> Any:
    return np.mean(np.logaddexp(0.0, -y * (x @ w))) + 0.1 * np.sum(w**2)


def _network(a: Any, b: Any, c: Any, x: Any) -> Any:
    return np.mean((np.tanh(np.tanh(x @ a + b) @ a + b) @ c - 1.0) ** 2)


def _softmax(z: Any, y: Any) -> Any:
    shifted = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(np.sum(y * (shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))), axis=1))


def _rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def _gaussians(mu: Any, sigma: Any, x: Any) -> Any:
    t = (x[:, None] - mu) / sigma
    return -np.sum(np.log(np.sum(np.exp(-0.5 * t**2) / (sigma * np.sqrt(2 * np.pi)), axis=1)))


def _loop(x: Any, y: Any) -> Any:
    for k in range(30):
        x, y = x + 0.1 * np.sin(y) * k, y - 0.1 * x * np.exp(-y * y)
    return x * y


def _polynomial(x: Any) -> Any:
    total = 0.0
    for k in range(40):
        total = total * x + 1.0 / (k + 1)
    return total


def _ladder(x: Any) -> Any:
    for _ in range(20):
        x = np.where(x > 0, np.sqrt(x + 1.0), x * x)
    return np.sum(x)


def _elements(x: Any) -> Any:
    return sum(x[k] * x[k + 1] - np.sin(x[k]) for k in range(20))


def _everything(x: Any, a: Any) -> Any:
    s = np.std(x, axis=0)
    y = np.einsum("ij,jk->ik", x, a) / (1.0 + np.linalg.norm(a))
    return (
        np.max(y)
        + np.prod(s)
        + np.sum(np.clip(y, -1.0, 1.0) * np.hypot(y, 1.0))
        + np.sum(np.cumsum(y, axis=1) ** 3)
    )


_ROWS = np.ones((6, 3))
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "logistic": (_logistic, (np.ones(3), _ROWS, np.ones(6))),
    "network": (_network, (np.ones((3, 3)), np.ones(3), np.ones(3), _ROWS)),
    "softmax": (_softmax, (_ROWS, _ROWS)),
    "rosenbrock": (_rosenbrock, (np.ones(10),)),
    "gaussians": (_gaussians, (np.ones(3), np.ones(3), np.ones(6))),
    "loop": (_loop, (1.0, 2.0)),
    "polynomial": (_polynomial, (0.5,)),
    "ladder": (_ladder, (np.ones(4),)),
    "elements": (_elements, (np.ones(21),)),
    "everything": (_everything, (np.ones((4, 3)), np.ones((3, 3)))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gradient_is_at_most_five_times_its_function(name: str) -> None:
    function, args = PROGRAMS[name]
    graph = simplify(trace(function, *args))
    wrt = range(len(args))
    found = grad_graph(graph, list(wrt))
    both = simplify(Graph(found.inputs, [*graph.outputs, *found.outputs]))
    assert both.node_count <= 5 * graph.node_count


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tangent_is_at_most_five_times_its_function(name: str) -> None:
    function, args = PROGRAMS[name]
    graph = simplify(trace(function, *args))
    assert jvp_graph(graph, list(range(len(args)))).node_count <= 5 * graph.node_count


REPEATED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "product": (lambda x: np.sin(x) * np.exp(x) * np.log(1 + x * x), 0.5),
    "quotient": (lambda x: np.exp(-x * x) / (1 + x), 0.5),
    "composition": (lambda x: np.exp(np.sin(x * x)), 0.5),
    "roots": (lambda x: np.tanh(x * x) + np.sqrt(1 + x**2), 0.5),
    "powers": (lambda x: x**3.5 / np.log(x), 3.0),
    "logistic": (lambda x: sc.expit(x) * np.tanh(x) * sc.erf(x), 0.3),
}


@pytest.mark.parametrize("name", REPEATED)
def test_eight_derivatives_stay_small(name: str) -> None:
    """Each derivative costs a little more than the one before; none doubles the graph."""
    function, at = REPEATED[name]
    graph = simplify(trace(function, at))
    counts = []
    for _ in range(8):
        graph = derivative_graph(graph)
        counts.append(graph.node_count)
    assert counts[-1] <= (400 if name == "product" else 500)
    assert np.isfinite(run(graph, at))


def test_the_eighth_derivative_of_a_product() -> None:
    graph = simplify(trace(REPEATED["product"][0], 0.5))
    for _ in range(8):
        graph = derivative_graph(graph)
    np.testing.assert_allclose(run(graph, 0.5), _taylor_derivative(8, 0.5), rtol=1e-12)


def _taylor_derivative(order: int, at: float) -> float:
    """Derivative of sin(x)·exp(x)·log(1 + x²) by multiplying truncated Taylor series at a point."""
    n = order + 1
    factorials = np.cumprod([1.0, *range(1, n)])
    sine = np.array([np.sin(at + k * np.pi / 2) for k in range(n)]) / factorials
    exponential = np.exp(at) / factorials
    inner = np.zeros(n)
    inner[:3] = 1 + at * at, 2 * at, 1.0
    logarithm = np.zeros(n)
    logarithm[0] = np.log(inner[0])
    for k in range(1, n):
        known = sum(j * logarithm[j] * inner[k - j] for j in range(1, k))
        logarithm[k] = (inner[k] - known / k) / inner[0]
    series = np.convolve(np.convolve(sine, exponential)[:n], logarithm)[:n]
    return float(series[order] * factorials[order])


def test_powers_of_a_program_grow_linearly() -> None:
    """An unrolled loop of twice the length has a gradient of about twice the size."""

    def unrolled(steps: int) -> int:
        def f(x: Any) -> Any:
            for _ in range(steps):
                x = np.sin(x) * x + 0.5
            return x

        return grad_graph(trace(f, 1.0)).node_count

    short, long = unrolled(50), unrolled(100)
    assert long - short <= 1.05 * short


def test_reading_an_array_element_by_element_costs_linearly() -> None:
    """The gradient of n reads is one joined array, not n arrays."""

    def f(x: Any) -> Any:
        return sum(x[k] ** 2 for k in range(400)) + np.sum(x)

    x = np.arange(400.0)
    graph = grad_graph(trace(f, x))
    assert sum(n.aval.size for n in graph.nodes) <= 10 * 400
    np.testing.assert_allclose(run(graph, x), 2 * x + 1)


def test_many_reads_beside_another_use() -> None:
    n = 5_000
    table = InternTable()
    x = table.input(array_type((n,)))
    total = None
    from_reads = []
    for k in range(n):
        piece = table.make(_op("slice"), [x], {"starts": (k,), "sizes": (1,), "steps": (1,)})
        from_reads.append(piece)
    joined = table.make(_op("concatenate"), from_reads, {"axis": 0})
    total = table.make(_op("multiply"), [joined, x])
    (found,) = pullback([total], [table.input(total.aval)], [x])
    assert found is not None
    ones = np.ones(n)
    assert (
        run(Graph([x, *[i for i in _inputs(found) if i is not x]], [found]), np.arange(float(n)), ones)[7]
        == 14.0
    )


def _inputs(out: Any) -> list[Any]:
    return [node for node in Graph((), [out]).nodes if node.op.name == "input"]


def _op(name: str) -> Any:
    return OPS[name]


# ------------------------------------------------------------------------------------------ depth

DEEP = 100_000


def _chain(step: Callable[[Any, int], Any], count: int = DEEP) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        start = x
        for k in range(count):
            x = step(x, k)
        return x * start

    return f


@pytest.fixture
def shallow_stack() -> Any:
    """A stack on which nothing that recurses along a graph could survive."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("shallow_stack")
def test_a_deep_chain_is_traced_differentiated_and_simplified() -> None:
    graph = trace(_chain(lambda x, k: np.sin(x) if k % 2 else x * 1.0000001), 0.5)
    assert DEEP < graph.node_count <= DEEP + 3
    simplified = simplify(graph)
    found = grad_graph(simplified)
    verify(found)
    assert found.node_count <= 5 * DEEP


@pytest.mark.usefixtures("shallow_stack")
@pytest.mark.parametrize(
    "step",
    [
        lambda x, k: -x if k % 2 else x + 1.0,
        lambda x, k: x + k,
        lambda x, k: np.where(x > k, x, -x),
        lambda x, k: np.maximum(x, -k),
        lambda x, k: np.reshape(x, (1, 1) if k % 2 else (1,)),
    ],
    ids=["negative", "add", "where", "maximum", "reshape"],
)
def test_deep_chains_of_each_kind(step: Any) -> None:
    """Supports of zeros are followed through chains of every kind without recursion."""
    count = 1000
    x = np.ones(1)
    graph = trace(_chain(step, count), x)
    for found in (grad_graph(graph), jvp_graph(graph)):
        verify(found)
        assert found.node_count <= 7 * graph.node_count


def test_a_chain_runs() -> None:
    """x ← x/2 + 1, a thousand times: the slope is 2⁻¹⁰⁰⁰."""

    def f(x: Any) -> Any:
        for _ in range(1000):
            x = x / 2 + 1
        return x

    assert evaluated(f, 5.0) == 2.0
    assert gradient(f, 5.0) == 2.0**-1000


def test_a_wide_sum() -> None:
    def f(x: Any) -> Any:
        return sum(np.sin(x * k) for k in range(500))

    assert gradient(f, 0.0) == sum(range(500))
