"""Graphs built by hand for the tests of formulas, and the evaluation of printed text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from symgrad.core.aval import make_aval
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph
from symgrad.core.op import OPS
from symgrad.formula.formula import Formula
from symgrad.ops.define import FUNCTIONS, UFUNCS, lift
from symgrad.ops.evaluate import evaluate
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify


class Functions:
    """NumPy's functions on expressions: ``N.exp(x)``, ``N.sum(x, axis=0)``, ``N.expit(x)``."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in UFUNCS:
            return UFUNCS[name]
        return FUNCTIONS[getattr(np, name)]


N = Functions()


def graph_of(f: Callable[..., Any], captured: dict[str, Any] | None = None, **inputs: Any) -> Graph:
    """The graph of ``f``: each keyword is an argument, given by its shape or by (shape, dtype)."""
    table = InternTable()
    made = {}
    for name, spec in inputs.items():
        shape, dtype = spec if spec and isinstance(spec[-1], str) else (spec, "float64")
        made[name] = table.input(make_aval(shape, np.dtype(dtype)), name)
    held = {}
    for name, array in (captured or {}).items():
        held[name] = table.capture(np.asarray(array))
        table.labels[held[name].id] = name
    result = f(**made, **held)
    outputs = [lift(r, table) for r in (result if isinstance(result, (tuple, list)) else [result])]
    return Graph(list(made.values()), outputs, getattr(f, "__name__", "f"))


def gradient(graph: Graph, *wrt: str, value: bool = False) -> tuple[Graph, list[str]]:
    """The simplified gradient of a scalar graph and the left-hand sides of its equations."""
    table = graph.table
    (out,) = graph.outputs
    nodes = [n for name in wrt for n in graph.inputs if table.labels[n.id] == name]
    parts = pullback([out], [table.constant(1.0, out.dtype)], nodes)
    results = [p if p is not None else table.constant(0.0, out.dtype) for p in parts]
    outputs = [out, *results] if value else results
    names = ([graph.name] if value else []) + [f"∂{graph.name}/∂{name}" for name in wrt]
    return simplify(Graph(graph.inputs, outputs, graph.name)), names


def reference(graph: Graph, **arrays: Any) -> list[Any]:
    """Values of the outputs, one operation at a time."""
    table = graph.table
    values: dict[int, Any] = {n.id: arrays[table.labels[n.id]] for n in graph.inputs}
    for node in graph.nodes:
        if node.id not in values:
            values[node.id] = _value(node, values)
    return [values[o.id] for o in graph.outputs]


def _value(node: Expr, values: dict[int, Any]) -> Any:
    if node.op.kind == "leaf":
        return node.params[0][1].array[()]
    args = [values[a.id] for a in node.args]
    return evaluate(node.op, args, [a.aval for a in node.args], dict(node.params))


def _operation(name: str) -> Callable[..., Any]:
    op = OPS[name]

    def call(*args: Any, **params: Any) -> Any:
        avals = [make_aval(np.shape(a), np.asarray(a).dtype) for a in args]
        if name in ("cumsum", "cumprod", "linear_scan"):
            params.setdefault("reverse", False)
        if name == "cumprod":
            params.setdefault("exclusive", False)
        if name == "solve_triangular":
            params = {"lower": False, "trans": False} | params
        return evaluate(op, list(args), avals, params)

    return call


def namespace() -> dict[str, Any]:
    """What the names of functions in ASCII text mean: NumPy's first, SciPy's, then symgrad's own."""
    names: dict[str, Any] = {name: _operation(name) for name in OPS if OPS[name].kind != "leaf"}
    own = {"spherical_jn", "cumsum", "cumprod"}
    for name in [*dir(np), "det", "inv"]:
        if not name.startswith("_") and name not in own:
            names[name] = getattr(np.linalg, name) if name in ("det", "inv") else getattr(np, name)
    for name in ("expit", "log_expit", "logit", "erf", "erfc"):
        names[name] = getattr(scipy.special, name)
    names["stop"] = np.positive
    names["sech"] = lambda x: 1 / np.cosh(x)
    names["unslice"] = _operation("put_slice")
    names.update({f"j{n}": functools.partial(_operation("spherical_jn"), n=n) for n in range(8)})
    return names


def evaluate_text(formula: Formula, **arrays: Any) -> list[Any]:
    """Run the ASCII text as Python and give back the values on its left-hand sides."""
    scope: dict[str, Any] = namespace() | formula.arrays
    scope.update(zip(formula.inputs, arrays.values(), strict=True))
    lines = formula.ascii
    exec(compile(lines, "<formula>", "exec"), scope)
    names = [line.partition(" = ")[0] for line in lines.splitlines() if " = " in line and line[0] != " "]
    return [scope[name] for name in names[-len(formula.names):]]


def evaluate_source(formula: Formula, **arrays: Any) -> Any:
    """Run the NumPy source."""
    scope: dict[str, Any] = {}
    exec(compile(formula.numpy(), "<formula>", "exec"), scope)
    (function,) = [v for v in scope.values() if inspect.isfunction(v)]
    return function(*arrays.values(), **formula.arrays)
