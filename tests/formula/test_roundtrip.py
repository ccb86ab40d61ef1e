"""Printed formulas evaluate back to the function they were printed from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from symgrad.core.aval import make_aval
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph
from symgrad.core.op import OPS, Op
from symgrad.formula.formula import make_formula
from symgrad.formula.to_sympy import ELEMENTWISE
from symgrad.ops.casting import astype
from symgrad.ops.evaluate import evaluate
from symgrad.transforms.rewrite import fold
from tests.formula.graphs import evaluate_source, evaluate_text, reference

CONSTANTS = [
    2.0, 3.0, 0.5, -1.0, 1 / 3, 0.1, math.pi, math.sqrt(2), -2.0, 10.0, 0.25, 0.0, 1.0,
    2 / math.sqrt(math.pi),
]
ARITHMETIC = [
    "add", "subtract", "multiply", "divide", "negative", "power", "square", "reciprocal", "remainder",
    "floor_divide",
]
CONDITIONS = {"where": (1, 2), "keep": (1, 1)}
OPERATIONS = sorted(
    name for name, op in OPS.items()
    if op.lowering == "elementwise" and op.kind != "leaf" and op is not astype
    and not name.startswith(("bitwise", "left_", "right_", "invert"))
)
LOGIC = [name for name in OPERATIONS if name.startswith("logical")]
SHAPES = {"x": (), "y": (3,), "z": (2, 3), "x_1": (2, 1)}


def arity(op: Op) -> int:
    """Operands an elementwise operation takes."""
    return max(len(op.partials), len(op.transposes))


@st.composite
def graphs(draw: Any, shapes: dict[str, tuple[int, ...]], names: list[str], size: int = 12) -> Graph:
    """Random expressions: trees mostly, with a subterm used again now and then."""
    table = InternTable()
    inputs = [table.input(make_aval(shape, np.dtype(float)), name) for name, shape in shapes.items()]
    floats: list[Expr] = [*inputs, *[table.constant(c, np.dtype(float)) for c in draw(st.lists(
        st.sampled_from(CONSTANTS), min_size=1, max_size=3))]]
    bools: list[Expr] = []
    fresh = list(inputs)
    for _ in range(draw(st.integers(4, size))):
        op = OPS[draw(st.sampled_from(ARITHMETIC + names))]
        if op.name in LOGIC:
            if not bools:
                continue
            args = [draw(st.sampled_from(bools)) for _ in range(arity(op))]
        else:
            conditions, values = CONDITIONS.get(op.name, (0, arity(op)))
            if conditions and not bools:
                continue
            args = [draw(st.sampled_from(bools)) for _ in range(conditions)]
            # Recent results are taken first, so that expressions nest instead of staying flat.
            args += [draw(st.sampled_from(fresh[-2:] + floats)) for _ in range(values)]
        params = op.samples[0].params
        node = fold(table, op, tuple(args), tuple(sorted(params.items())))
        if node.value is not None:
            continue
        (bools if node.dtype.kind == "b" else floats).append(node)
        if node.dtype.kind == "f":
            fresh.append(node)
    if bools and draw(st.booleans()):
        fresh.append(astype(bools[-1], dtype="float64") * fresh[-1])
    return Graph(inputs, [fresh[-1]], "f")


def noisy(graph: Graph, rng: np.random.Generator, **arrays: Any) -> tuple[Any, bool]:
    """The value with every step disturbed by 1e-10, and whether all steps stay finite and moderate."""
    labels = graph.table.labels
    values: dict[int, Any] = {n.id: arrays[labels[n.id]] for n in graph.inputs}
    moderate = True
    for node in graph.nodes:
        if node.id in values:
            continue
        if node.value is not None:
            values[node.id] = node.value[()]
            continue
        args = [values[a.id] for a in node.args]
        value = evaluate(node.op, args, [a.aval for a in node.args], dict(node.params))
        if node.dtype.kind == "f":
            moderate &= bool(np.isfinite(value).all() and (np.abs(value) < 1e60).all())
            value = value * (1 + 1e-10 * rng.uniform(-1, 1, np.shape(value)))
        values[node.id] = value
    return values[graph.outputs[0].id], moderate


def sensitivity(graph: Graph, expected: Any, **arrays: Any) -> Any:
    """How far the result moves when every step is disturbed by 1e-10; rejects what jumps or is not finite."""
    rng = np.random.default_rng(0)
    runs = [noisy(graph, rng, **arrays) for _ in range(4)]
    assume(all(moderate for _, moderate in runs))
    moved = np.max([np.abs(value - expected) for value, _ in runs], axis=0)
    assume(bool((moved <= 1e-4 * (1 + np.abs(expected))).all()))
    return moved


def draw_arrays(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, Any]:
    """Values of both signs away from 0."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        values = rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0, 1.0], shape)
        made[name] = values if shape else np.float64(values)
    return made


def check(graph: Graph, seed: int, shapes: dict[str, tuple[int, ...]]) -> None:
    """Text and source agree with the operations, to 1e-12 and to what rounding alone can do."""
    arrays = draw_arrays(shapes, seed)
    formula = make_formula(graph, ["f"])
    with np.errstate(all="ignore"):
        (expected,) = reference(graph, **arrays)
        moved = sensitivity(graph, expected, **arrays)
        (text,) = evaluate_text(formula, **arrays)
        source = evaluate_source(formula, **arrays)
    allowed = 1e-12 * np.abs(expected) + 1e-4 * moved + 1e-300
    for value in (text, source):
        assert np.shape(value) == np.shape(expected), formula.ascii
        assert (np.abs(value - expected) <= allowed).all(), formula.ascii


SLOW = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
SETTINGS = settings(max_examples=300, **SLOW)


@SETTINGS
@given(graphs(SHAPES, OPERATIONS), st.integers(0, 3))
def test_text_evaluates_back(graph: Graph, seed: int) -> None:
    check(graph, seed, SHAPES)


@SETTINGS
@given(graphs({"a": (), "b": ()}, ARITHMETIC, 8), st.integers(0, 3))
def test_arithmetic_keeps_its_parentheses(graph: Graph, seed: int) -> None:
    check(graph, seed, {"a": (), "b": ()})


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_elementwise_operation_evaluates_back(name: str) -> None:
    op = OPS[name]
    for sample in op.samples:
        table = InternTable()
        rng = np.random.default_rng(1)
        arrays = {}
        for k, spec in enumerate(sample.args):
            if spec == "bool":
                arrays[f"a{k}"] = rng.random((2, 3)) < 0.5
            else:
                values = rng.uniform(spec[0], spec[1], (2, 3))
                arrays[f"a{k}"] = values.round().astype(int) if len(spec) == 3 else values
        inputs = [table.input(make_aval(v.shape, v.dtype), n) for n, v in arrays.items()]
        graph = Graph(inputs, [table.make(op, inputs, sample.params)], "f")
        (expected,) = reference(graph, **arrays)
        formula = make_formula(graph, ["f"])
        (text,) = evaluate_text(formula, **arrays)
        np.testing.assert_allclose(text, expected, rtol=1e-14)
        np.testing.assert_allclose(evaluate_source(formula, **arrays), expected, rtol=1e-14)


SYMBOLIC = sorted(name for name in OPERATIONS if OPS[name] in ELEMENTWISE or OPS[name].sympy)


@settings(max_examples=120, **SLOW)
@given(graphs({"a": (), "b": ()}, SYMBOLIC, 8), st.integers(0, 3))
def test_sympy_agrees(graph: Graph, seed: int) -> None:
    arrays = draw_arrays({"a": (), "b": ()}, seed)
    with np.errstate(all="ignore"):
        (expected,) = reference(graph, **arrays)
        moved = sensitivity(graph, expected, **arrays)
    expression = make_formula(graph, ["f"]).sympy()
    value = expression.subs({sympy.Symbol(k): sympy.Float(float(v), 40) for k, v in arrays.items()}).evalf(30)
    assert float(value) == pytest.approx(float(expected), rel=1e-11, abs=float(1e-4 * moved) + 1e-300)
