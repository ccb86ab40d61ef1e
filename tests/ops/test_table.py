"""Every record of the table against NumPy, finite differences and itself. No operation has a looser bound."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import symgrad.ops  # noqa: F401 - fills the table
from symgrad.core.aval import aval_of
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph, verify
from symgrad.core.op import OPS, Op, Sample
from symgrad.transforms.forward import pushforward
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify
from tests.core.graphs import SPECIAL, central, prepared, run_all, same_bits, zeros_like
from tests.ops.references import REFERENCES, reference, ufunc_of

RECORDS = [op for op in OPS.values() if op.kind != "leaf"]
SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((),), ((2, 3),)],
    2: [((), ()), ((3, 1), (4,)), ((2, 3), (2, 3))],
    3: [((), (), ()), ((3, 1), (4,), ()), ((2, 3), (2, 3), (2, 3))],
}
STEP = 2.0**-12


@dataclass
class Case:
    """One way to call one op."""

    op: Op
    sample: Sample
    shapes: tuple[tuple[int, ...], ...] | None

    @property
    def name(self) -> str:
        shapes = "random" if self.shapes is None else " ".join(str(list(s)) for s in self.shapes)
        params = " ".join(f"{k}={v}" for k, v in self.sample.params.items())
        return f"{self.op.name} {shapes} {params}".replace(" ", "-").strip("-")

    def draw(self, rng: np.random.Generator, dtype: Any = np.float64) -> list[Any]:
        """Arguments within the domain."""
        shapes = self.shapes or ((),) * len(self.sample.args)
        return [_draw(rng, a, s, dtype) for a, s in zip(self.sample.args, shapes, strict=True)]

    def tangents(self, rng: np.random.Generator, args: Sequence[Any]) -> list[Any]:
        """A direction for each floating-point argument, None for the others."""
        projections = self.sample.tangents or (None,) * len(args)
        found: list[Any] = []
        for x, project in zip(args, projections, strict=True):
            if x.dtype.kind != "f":
                found.append(None)
                continue
            t = rng.uniform(-1, 1, x.shape).astype(x.dtype)[()]
            found.append(t if project is None else project(t))
        return found

    def graph(self, args: Sequence[Any]) -> Graph:
        """The op applied to inputs."""
        table = InternTable()
        inputs = [table.input(aval_of(a)) for a in args]
        return Graph(inputs, [table.make(self.op, inputs, self.sample.params)], self.op.name)


def _draw(rng: np.random.Generator, domain: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if domain == "bool":
        return (rng.uniform(size=shape) < 0.5)[()]
    if callable(domain):
        return domain(rng).astype(dtype)
    if domain[2:] == ("int",):
        return np.asarray(rng.integers(domain[0], domain[1], shape))[()]
    return rng.uniform(domain[0], domain[1], shape).astype(dtype)[()]


def _cases() -> list[Case]:
    found = []
    for op in RECORDS:
        for sample in op.samples:
            free = sample.shapes is None and not callable(sample.args[0])
            shapes = SHAPES[len(sample.args)] if free else [sample.shapes]
            found += [Case(op, sample, s) for s in shapes]
    return found


CASES = _cases()
_drawn = [(c, c.draw(np.random.default_rng(0))) for c in CASES]
FLOATS = [c for c, args in _drawn if c.graph(args).outputs[0].aval.is_float
          and any(isinstance(x, np.floating) or x.dtype.kind == "f" for x in args)]
# The one op whose derivative is not that of its value, by its very meaning.
SMOOTH = [c for c in FLOATS if c.op.name != "stop_gradient"]
DOUBLES = [c for c in SMOOTH if c.graph(c.draw(np.random.default_rng(0))).outputs[0].dtype == np.float64]
by_name = pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
by_smooth = pytest.mark.parametrize("case", SMOOTH, ids=[c.name for c in SMOOTH])


def seeded(case: Case) -> np.random.Generator:
    return np.random.default_rng(list(case.name.encode()))


# ------------------------------------------------------------------------------------------ the record


@pytest.mark.parametrize("op", RECORDS, ids=lambda op: op.name)
def test_record_is_complete(op: Op) -> None:
    assert op.doc.endswith("."), "a doc is a sentence"
    assert op.samples
    assert op.numpy
    if op.kind == "elementwise":
        assert any(p is not None for p in op.partials)
    elif op.kind in ("linear", "bilinear"):
        assert any(t is not None for t in op.transposes)
    elif op.kind == "custom":
        assert op.jvp is not None
    else:
        assert op.kind == "nondiff"
        assert not any(op.partials)
        assert not any(op.transposes)
    if op.lowering == "elementwise":
        assert op.c, "an element expression needs its C"
    if not op.variadic and op.transposes:
        assert all(len(s.args) == len(op.transposes) for s in op.samples)
    if op.partials:
        assert all(len(s.args) == len(op.partials) for s in op.samples)


def test_statements_are_about_known_operations() -> None:
    assert set(REFERENCES) <= set(OPS)


# ------------------------------------------------------------------------------------------ values


@by_name
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
def test_value(case: Case, dtype: Any) -> None:
    args = case.draw(seeded(case), dtype)
    graph = case.graph(args)
    verify(graph)
    (value,) = run_all(graph, *args)
    out = graph.outputs[0]
    assert np.shape(value) == out.shape
    assert np.asarray(value).dtype == out.dtype
    narrow = all(x.dtype.kind != "f" or x.dtype == dtype for x in args)
    if narrow and out.aval.is_float and "dtype" not in case.sample.params:
        assert out.dtype == dtype
    stated = reference(case.op)
    if stated is None:
        return
    expected = stated(*args, **case.sample.params)
    assert np.asarray(expected).dtype == out.dtype
    if ufunc_of(case.op) is not None and case.op.lowering == "elementwise":
        assert same_bits(value, expected)
    else:
        np.testing.assert_allclose(value, expected, rtol=1e-13 if dtype is np.float64 else 2e-6, atol=1e-300)


def _special_cases() -> list[Op]:
    return [op for op in RECORDS if op.lowering == "elementwise" and ufunc_of(op) is not None
            and op.samples[0].args[0] != "bool" and len(op.samples[0].args[0]) == 2]


@pytest.mark.parametrize("op", _special_cases(), ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
def test_special_values_are_numpys(op: Op, dtype: Any) -> None:
    n = len(op.samples[0].args)
    grid = np.array(list(itertools.product(SPECIAL, repeat=n))).T
    with np.errstate(all="ignore"):
        args = [np.ascontiguousarray(row).astype(dtype) for row in grid]
        expected = ufunc_of(op)(*args)  # type: ignore[misc]
    table = InternTable()
    inputs = [table.input(aval_of(a)) for a in args]
    (value,) = run_all(Graph(inputs, [table.make(op, inputs)]), *args)
    assert same_bits(value, expected)


# ------------------------------------------------------------------------------------------ derivatives


def _derivative_graphs(case: Case, args: Sequence[Any]) -> tuple[Graph, Graph, list[int]]:
    """Forward and reverse derivative; they take the arguments, then tangents or the cotangent."""
    graph = case.graph(args)
    table = graph.table
    (out,) = graph.outputs
    active = [k for k, x in enumerate(graph.inputs) if x.aval.is_float]
    wrt = [graph.inputs[k] for k in active]
    tangents = [table.input(x.aval) for x in wrt]
    (pushed,) = pushforward([out], wrt, tangents)
    seed = table.input(out.aval)
    pulled = pullback([out], [seed], wrt)
    forward = Graph([*graph.inputs, *tangents], [_or_zero(pushed, out)])
    reverse = Graph([*graph.inputs, seed], [_or_zero(g, x) for g, x in zip(pulled, wrt, strict=True)])
    verify(forward)
    verify(reverse)
    return forward, reverse, active


def _or_zero(x: Expr | None, like: Expr) -> Expr:
    return zeros_like(like) if x is None else x


def _moved(args: Sequence[Any], tangents: Sequence[Any], h: float) -> list[Any]:
    return [x if t is None else x + h * t for x, t in zip(args, tangents, strict=True)]


def _assert_differences(found: Any, expected: Any, values: Any, what: str) -> None:
    """1e-8 relative; below that only the rounding of the differences themselves is allowed for."""
    rounding = 64 * np.finfo(float).eps * np.max(np.abs(values), initial=0.0) / STEP
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=rounding, err_msg=what)


@by_smooth
def test_first_derivative(case: Case) -> None:
    rng = seeded(case)
    args = case.draw(rng)
    tangents = case.tangents(rng, args)
    forward, reverse, active = _derivative_graphs(case, args)
    moving = [tangents[k] for k in active]
    graph = case.graph(args)
    (value,) = run_all(graph, *args)
    (pushed,) = run_all(forward, *args, *moving)
    assert np.shape(pushed) == np.shape(value)
    plain = prepared(graph)
    differences = central(lambda h: plain(*_moved(args, tangents, h))[0], STEP)
    if graph.outputs[0].dtype == np.float64:
        _assert_differences(pushed, differences, value, "jvp against differences")
    ct = rng.uniform(-1, 1, np.shape(value)).astype(graph.outputs[0].dtype)[()]
    pulled = run_all(reverse, *args, ct)
    _assert_adjoint(ct, pushed, pulled, moving)
    simplified = run_all(simplify(reverse), *args, ct)
    for a, b in zip(pulled, simplified, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-13, atol=1e-15)


def _assert_adjoint(ct: Any, pushed: Any, pulled: Sequence[Any], moving: Sequence[Any]) -> None:
    left = np.sum(np.multiply(ct, pushed, dtype=np.float64))
    products = [np.multiply(g, t, dtype=np.float64) for g, t in zip(pulled, moving, strict=True)]
    right = sum(float(np.sum(p)) for p in products)
    scale = np.sum(np.abs(np.multiply(ct, pushed))) + sum(float(np.sum(np.abs(p))) for p in products)
    tolerance = 1e-12 if np.asarray(pushed).dtype == np.float64 else 1e-6
    assert abs(left - right) <= tolerance * max(float(scale), 1e-30), "the two modes are not adjoint"


@pytest.mark.parametrize("case", DOUBLES, ids=[c.name for c in DOUBLES])
def test_second_derivative(case: Case) -> None:
    rng = seeded(case)
    args = case.draw(rng)
    graph = case.graph(args)
    out = graph.outputs[0]
    _, reverse, active = _derivative_graphs(case, args)
    table = reverse.table
    wrt = [reverse.inputs[k] for k in active]
    directions = [table.input(x.aval) for x in wrt]
    pushed = pushforward(reverse.outputs, wrt, directions)
    outputs = [_or_zero(t, x) for t, x in zip(pushed, reverse.outputs, strict=True)]
    second = simplify(Graph([*reverse.inputs, *directions], outputs))
    verify(second)
    ct = rng.uniform(-1, 1, out.shape)[()]
    t1, t2 = ([case.tangents(rng, args)[k] for k in active] for _ in range(2))
    twice, once = prepared(second), prepared(reverse)
    along1, along2 = twice(*args, ct, *t1), twice(*args, ct, *t2)
    full: list[Any] = [None] * len(args)
    for k, t in zip(active, t1, strict=True):
        full[k] = t
    for which in range(len(active)):
        first = once(*args, ct)[which]
        differences = central(lambda h, w=which: once(*_moved(args, full, h), ct)[w], STEP)
        _assert_differences(along1[which], differences, first, f"second derivative, argument {active[which]}")
    cross12 = [np.multiply(a, b) for a, b in zip(along1, t2, strict=True)]
    cross21 = [np.multiply(a, b) for a, b in zip(along2, t1, strict=True)]
    total12, total21 = (sum(float(np.sum(p)) for p in ps) for ps in (cross12, cross21))
    scale = sum(float(np.sum(np.abs(p))) for p in (*cross12, *cross21))
    assert abs(total12 - total21) <= 1e-12 * max(scale, 1e-30), "the second derivative is not symmetric"


@pytest.mark.parametrize("case", FLOATS, ids=[c.name for c in FLOATS])
def test_derivatives_keep_float32(case: Case) -> None:
    rng = seeded(case)
    args = case.draw(rng, np.float32)
    forward, reverse, _ = _derivative_graphs(case, args)
    assert forward.outputs[0].dtype == case.graph(args).outputs[0].dtype
    for graph in (forward, reverse):
        half = simplify(graph)
        for out in half.outputs:
            assert out.dtype == np.float32
        for node in half.nodes:
            asked = "dtype" in case.sample.params
            assert node.dtype != np.float64 or asked, f"{node!r} is wider than its operands"


@pytest.mark.parametrize("case", [c for c in CASES if c.op.kind == "nondiff"], ids=lambda c: c.name)
def test_no_derivative_is_structurally_zero(case: Case) -> None:
    args = case.draw(seeded(case))
    graph = case.graph(args)
    (out,) = graph.outputs
    wrt = [x for x in graph.inputs if x.aval.is_float]
    if not wrt:
        return
    tangents: list[Expr | None] = [graph.table.input(x.aval) for x in wrt]
    assert pushforward([out], wrt, tangents) == [None]
    assert pullback([out], [graph.table.input(out.aval)], wrt) == [None] * len(wrt)
