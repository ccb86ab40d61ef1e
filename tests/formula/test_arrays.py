"""Formulas of operations on arrays: moving elements, reductions, matrix products, linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.core.aval import make_aval
from symgrad.core.expr import InternTable
from symgrad.core.graph import Graph
from symgrad.core.op import OPS, Sample
from symgrad.formula.formula import make_formula
from symgrad.ops.casting import python_number
from symgrad.ops.define import FUNCTIONS
from symgrad.ops.indexing import getitem
from symgrad.ops.masking import keep
from symgrad.ops.shaping import broadcast_to, reshape, take_slice, transpose
from tests.formula.graphs import N, evaluate_source, evaluate_text, gradient, graph_of, reference

ON_ARRAYS = sorted(
    name for name, op in OPS.items()
    if op.kind != "leaf" and op.lowering != "elementwise" and op.numpy and op.samples
)


def sample_arrays(sample: Sample, seed: int = 5) -> dict[str, Any]:
    """Arguments drawn as a record's sample says."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    assert sample.shapes is not None
    for k, (spec, shape) in enumerate(zip(sample.args, sample.shapes, strict=True)):
        if callable(spec):
            made[f"a{k}"] = np.asarray(spec(rng))
        elif spec == "bool":
            made[f"a{k}"] = rng.random(shape) < 0.5
        elif len(spec) == 3:
            made[f"a{k}"] = rng.integers(spec[0], spec[1] + 1, shape)
        else:
            made[f"a{k}"] = rng.uniform(spec[0], spec[1], shape)
    return made


def agree(graph: Graph, **arrays: Any) -> str:
    """Check text and source against the operations; give back the text."""
    formula = make_formula(graph, ["f"])
    (expected,) = reference(graph, **arrays)
    (text,) = evaluate_text(formula, **arrays)
    source = evaluate_source(formula, **arrays)
    for value in (text, source):
        assert np.shape(value) == np.shape(expected), formula.ascii
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-14, err_msg=formula.ascii)
    return formula.ascii


@pytest.mark.parametrize("name", ON_ARRAYS)
def test_every_operation_on_arrays_evaluates_back(name: str) -> None:
    for sample in OPS[name].samples:
        arrays = sample_arrays(sample)
        table = InternTable()
        inputs = [table.input(make_aval(v.shape, v.dtype), n) for n, v in arrays.items()]
        agree(Graph(inputs, [table.make(OPS[name], inputs, sample.params)], "f"), **arrays)


def text_of(f: Any, **shapes: Any) -> str:
    """The right-hand side, checked by evaluating it."""
    rng = np.random.default_rng(2)
    arrays = {name: rng.uniform(0.5, 1.5, shape) for name, shape in shapes.items()}
    graph = graph_of(f, **shapes)
    agree(graph, **arrays)
    return str(make_formula(graph, ["f"])).partition(" = ")[2]


@pytest.mark.parametrize(("f", "expected"), [
    (lambda x, A: getitem(x, 0), "x[0]"),
    (lambda x, A: getitem(x, slice(1, None)), "x[1:]"),
    (lambda x, A: getitem(x, slice(None, -1)), "x[:-1]"),
    (lambda x, A: getitem(x, slice(None, None, -1)), "x[::-1]"),
    (lambda x, A: getitem(x, slice(1, 2)), "x[1:2]"),
    (lambda x, A: getitem(x, slice(2, 2)), "x[:0]"),
    (lambda x, A: getitem(A, (slice(None), 1)), "A[:, 1]"),
    (lambda x, A: getitem(A, (1, slice(0, 2))), "A[1, :-1]"),
    (lambda x, A: getitem(getitem(x, slice(1, None)), 1), "x[2]"),
    (lambda x, A: N.transpose(A), "Aᵀ"),
    (lambda x, A: N.transpose(N.transpose(A)), "A"),
    (lambda x, A: A - N.mean(A, axis=0), "A - Σ(A, axis=0)/2"),
    (lambda x, A: A - N.max(A, axis=1, keepdims=True), "A - max(A, axis=1, keepdims=True)"),
    (lambda x, A: A * N.expand_dims(N.exp(N.sum(A, axis=1)), 1), "A·exp(Σ(A, axis=1))[:, None]"),
    (lambda x, A: N.sum(2 * x), "2·Σ(x)"),
    (lambda x, A: N.sum(broadcast_to(getitem(x, 0), shape=(4,))), "4·x[0]"),
    (lambda x, A: broadcast_to(getitem(x, 0), shape=(4,)), "ones(4)·x[0]"),
    (lambda x, A: N.outer(x, getitem(A, 0)), "outer(x, A[0])"),
    (lambda x, A: A @ x, "A @ x"),
    (lambda x, A: A @ x @ A, "A @ x @ A"),
    (lambda x, A: N.transpose(A) @ (A @ x - 1.0), "Aᵀ @ (A @ x - 1)"),
    (lambda x, A: x * (x @ N.transpose(A) @ A), "x·(x @ Aᵀ @ A)"),
    (lambda x, A: -(2.0 * (A @ x)), "-2·A @ x"),
    (lambda x, A: A * N.expand_dims(2 / N.sum(A, axis=1), 1), "2·A/Σ(A, axis=1, keepdims=True)"),
    (lambda x, A: N.reshape(x, (3, 1)) @ N.reshape(x, (1, 3)), "outer(x, x)"),
    (lambda x, A: A @ N.diag(broadcast_to(getitem(x, 1), shape=(3,))), "x[1]·A"),
    (lambda x, A: keep(x < 1.0, x) + keep(~(x < 1.0), 2.0 * N.exp(x)), "where(x < 1, x, 2·exp(x))"),
    (lambda x, A: python_number(getitem(x, 0)) * x, "x[0]·x"),
    (lambda x, A: N.trace(A @ N.transpose(A)), "trace(A @ Aᵀ)"),
    (lambda x, A: N.diag(x), "diag(x)"),
    (lambda x, A: N.tril(A), "tril(A)"),
    (lambda x, A: N.triu(A, 1), "triu(A, k=1)"),
    (lambda x, A: N.stack([getitem(x, 0), getitem(x, 2) ** 2]), "[x[0], x[2]²]"),
    (lambda x, A: N.concatenate([x, x]), "concatenate((x, x))"),
    (lambda x, A: N.stack([x, 2 * x]), "stack((x, 2·x))"),
    (lambda x, A: N.reshape(A, (3, 2)), "reshape(A, (3, 2))"),
    (lambda x, A: N.ravel(A), "ravel(A)"),
    (lambda x, A: N.take(x, np.array([0, 2])), "x[[0, 2]]"),
    (lambda x, A: N.cumsum(x), "cumsum(x, axis=0)"),
    (lambda x, A: N.prod(x), "Π(x)"),
    (lambda x, A: N.argmax(x), "argmax(x, axis=0)"),
])
def test_arrays_read_like_numpy(f: Any, expected: str) -> None:
    assert text_of(f, x=(3,), A=(2, 3)) == expected


def test_linear_algebra() -> None:
    def f(A: Any, b: Any) -> Any:
        return FUNCTIONS[np.linalg.solve](A, b) + N.transpose(FUNCTIONS[np.linalg.inv](A)) @ b

    assert str(make_formula(graph_of(f, A=(3, 3), b=(3,)), ["f"])) == "f(A, b) = solve(A, b) + A⁻ᵀ @ b"
    arrays = {"A": np.array([[3.0, 1, 0], [0, 2, 1], [1, 0, 4]]), "b": np.array([1.0, 2, 3])}
    agree(graph_of(f, **{k: v.shape for k, v in arrays.items()}), **arrays)


def test_gradients_of_matrix_functions() -> None:
    def quadratic_inverse(A: Any, b: Any) -> Any:
        return b @ FUNCTIONS[np.linalg.solve](A, b)

    def trace_of_square(A: Any, b: Any) -> Any:
        return N.trace(A @ A)

    shapes = {"A": (3, 3), "b": (3,)}
    slope = make_formula(*gradient(graph_of(quadratic_inverse, **shapes), "A"))
    assert str(slope).partition(" = ")[2] == "-outer(solve(Aᵀ, b), solve(A, b))"
    slope = make_formula(*gradient(graph_of(trace_of_square, **shapes), "A"))
    assert str(slope).partition(" = ")[2] == "2·Aᵀ"
    assert slope.latex.partition(" = ")[2] == "2 A^{T}"


def test_the_norm_and_its_gradient() -> None:
    graph = graph_of(FUNCTIONS[np.linalg.norm], x=(3,))
    assert str(make_formula(graph, ["g"])) == "g = √Σ(x²)"
    slope, names = gradient(graph, "x")
    (value,) = evaluate_text(make_formula(slope, names), x=np.array([3.0, 0.0, 4.0]))
    np.testing.assert_allclose(value, [0.6, 0.0, 0.8], rtol=1e-15)


def test_integers_and_bools_keep_their_meaning() -> None:
    def f(n: Any, x: Any) -> Any:
        whole = FUNCTIONS["astype"](x, np.int64)
        positive = FUNCTIONS["astype"](x > 0.5, np.float64)
        return FUNCTIONS["astype"](N.floor_divide(n, 2) + whole, np.float64) * positive

    graph = graph_of(f, n=((3,), "int64"), x=(3,))
    assert str(make_formula(graph, ["f"])).endswith("= where(x > 0.5, 1, 0)·(n//2 + trunc(x))")
    agree(graph, n=np.array([5, -3, 8]), x=np.array([1.7, 0.2, -3.9]))


@pytest.mark.parametrize(("old", "new"), [
    ((3,), (1, 3)), ((3,), (3, 1)), ((1, 3), (3,)), ((3, 1), (3,)), ((2, 1, 3), (2, 3)), ((2, 3), (2, 1, 3)),
    ((1, 1), ()), ((), (1, 1)), ((1, 3, 1), (3, 1, 1)), ((2, 3), (6,)), ((6,), (2, 3)),
])
def test_reshaping_evaluates_back(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    agree(graph_of(lambda x: reshape(x, shape=new), x=old), x=rng.normal(size=old))
    # With an operand that was broadcast lazily, and used further.
    further = graph_of(lambda x, s: reshape(x * 2.0 + s, shape=new) ** 2, x=old, s=())
    agree(further, x=rng.normal(size=old), s=1.5)
    lazy = graph_of(lambda s: reshape(broadcast_to(s, shape=old), shape=new), s=())
    agree(lazy, s=np.float64(2.5))


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1), (2, 1, 3)])
def test_transposing_evaluates_back(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).normal(size=shape)
    agree(graph_of(lambda x: transpose(x, axes=axes) + 1.0, x=shape), x=x)
    row = np.random.default_rng(4).normal(size=shape[-1:])
    agree(graph_of(lambda r: transpose(broadcast_to(r, shape=shape), axes=axes), r=shape[-1:]), r=row)


def test_slices_of_broadcast_operands_evaluate_back() -> None:
    row = np.array([1.0, 2.0, 3.0])

    def f(r: Any) -> Any:
        wide = broadcast_to(r, shape=(4, 3))
        return take_slice(wide, starts=(1, 0), sizes=(2, 2), steps=(1, 2))

    agree(graph_of(f, r=(3,)), r=row)
    agree(graph_of(lambda r: N.sum(broadcast_to(r, shape=(4, 3)), axis=0), r=(3,)), r=row)
    agree(graph_of(lambda r: N.max(broadcast_to(r, shape=(4, 3)), axis=(0, 1)), r=(3,)), r=row)
    agree(graph_of(lambda r: N.prod(broadcast_to(r, shape=(4, 3)), axis=0), r=(3,)), r=row)
    rows = graph_of(lambda r: N.concatenate([broadcast_to(r, shape=(n, 3)) for n in (2, 1)]), r=(3,))
    agree(rows, r=row)


def test_captured_arrays_have_names() -> None:
    data = {"y": np.arange(30.0), "weights": np.linspace(1, 2, 30)}

    def f(a: Any, y: Any, weights: Any) -> Any:
        hidden = a.table.capture(np.ones((30, 30)) * 3)
        return N.sum(weights * (hidden @ y - a) ** 2)

    formula = make_formula(graph_of(f, data, a=()), ["f"])
    assert str(formula) == "f(a) = Σ(weights·(A₁ @ y - a)²)"
    assert sorted(formula.arrays) == ["A1", "weights", "y"]
    graph = formula.graph
    (expected,) = reference(graph, a=2.0)
    (value,) = evaluate_text(formula, a=2.0)
    assert value == pytest.approx(expected, rel=1e-14)
    assert evaluate_source(formula, a=2.0) == pytest.approx(expected, rel=1e-14)


def test_short_constants_are_written_out() -> None:
    graph = graph_of(lambda x: x * x.table.constant(np.array([1.0, 0.5, 3.0])), x=(3,))
    assert str(make_formula(graph, ["f"])) == "f = x·[1, 0.5, 3]"
    graph = graph_of(lambda x: x * x.table.constant(np.full((3, 3), 0.5)), x=(3,))
    assert agree(graph, x=np.arange(3.0)).startswith("f = 0.5*ones((3, 3))*x")
