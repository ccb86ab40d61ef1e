"""Tracing, differentiating and running graphs with NumPy: what the tests of the lower rooms share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import symgrad.ops  # noqa: F401 - fills the table of operations
from symgrad.codegen.numpy_source import evaluate_graph, generate, load
from symgrad.core.aval import aval_of, make_aval
from symgrad.core.expr import Expr
from symgrad.core.graph import Graph, verify
from symgrad.ops.shaping import broadcast_to
from symgrad.tracing.trace import trace_flat
from symgrad.transforms.forward import pushforward
from symgrad.transforms.gradient import gradient as gradient_of
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify

SPECIAL = (-np.inf, -2.0, -0.0, 0.0, 5e-324, 0.5, 1.0, 700.0, 1e308, np.inf, np.nan)
"""Doubles on which rules and values are compared bit for bit."""


def trace(function: Callable[..., Any], *args: Any) -> Graph:
    """The graph of a function at arguments of these types; it must be well formed."""
    names = [f"x{k}" for k in range(len(args))]
    graph, _ = trace_flat(function, [aval_of(a) for a in args], names, getattr(function, "__name__", "f"))
    verify(graph)
    return graph


def run(graph: Graph, *values: Any) -> Any:
    """Value of a graph: one array, or a tuple of them."""
    results = evaluate_graph(graph, values)
    return results[0] if len(results) == 1 else results


def evaluated(function: Callable[..., Any], *args: Any) -> Any:
    """Trace and run."""
    return run(trace(function, *args), *args)


def zeros_like(x: Expr) -> Expr:
    """A constant zero of the type of an expression."""
    zero = x.table.constant(np.zeros((), x.dtype), x.dtype)
    return broadcast_to(zero, shape=x.shape) if x.shape else zero


def vjp_graph(graph: Graph, wrt: Sequence[int] = (0,), simplified: bool = True) -> Graph:
    """Cotangents of the inputs ``wrt``; takes the inputs, then one cotangent for each output."""
    table = graph.table
    seeds = [table.input(o.aval) for o in graph.outputs]
    chosen = [graph.inputs[k] for k in wrt]
    found = pullback(graph.outputs, seeds, chosen)
    outputs = [zeros_like(x) if g is None else g for g, x in zip(found, chosen, strict=True)]
    return _finished(Graph([*graph.inputs, *seeds], outputs, f"vjp_{graph.name}"), simplified)


def jvp_graph(graph: Graph, wrt: Sequence[int] = (0,), simplified: bool = True) -> Graph:
    """Tangents of the outputs; takes the inputs, then one tangent for each of ``wrt``."""
    table = graph.table
    chosen = [graph.inputs[k] for k in wrt]
    tangents = [table.input(x.aval) for x in chosen]
    found = pushforward(graph.outputs, chosen, tangents)
    outputs = [zeros_like(o) if t is None else t for t, o in zip(found, graph.outputs, strict=True)]
    return _finished(Graph([*graph.inputs, *tangents], outputs, f"jvp_{graph.name}"), simplified)


def grad_graph(graph: Graph, wrt: Sequence[int] = (0,), simplified: bool = True) -> Graph:
    """Gradient of the sum of all outputs; takes the inputs of the graph."""
    table = graph.table
    seeds: list[Expr] = []
    for out in graph.outputs:
        one = table.constant(np.ones((), out.dtype), out.dtype)
        seeds.append(broadcast_to(one, shape=out.shape) if out.shape else one)
    chosen = [graph.inputs[k] for k in wrt]
    found = pullback(graph.outputs, seeds, chosen)
    outputs = [zeros_like(x) if g is None else g for g, x in zip(found, chosen, strict=True)]
    return _finished(Graph(graph.inputs, outputs, f"grad_{graph.name}"), simplified)


def derivative_graph(graph: Graph) -> Graph:
    """Derivative of a scalar function of one scalar, as the package takes it; takes the same input."""
    (found,) = gradient_of(graph.outputs[0], graph.inputs)
    return _finished(
        Graph(graph.inputs, [zeros_like(graph.outputs[0]) if found is None else found], f"d{graph.name}"),
        True,
    )


def _finished(graph: Graph, simplified: bool) -> Graph:
    verify(graph)
    if simplified:
        graph = simplify(graph)
        verify(graph)
    return graph


def gradient(function: Callable[..., Any], *args: Any, wrt: Sequence[int] | None = None) -> Any:
    """Gradient of the sum of the outputs, by reverse mode, confirmed by forward mode and without simplifying.

    The function is simplified before, as the transforms of the package do.
    """
    graph = simplify(trace(function, *args))
    chosen = [k for k, a in enumerate(args) if aval_of(a).is_float] if wrt is None else list(wrt)
    found = run_all(grad_graph(graph, chosen), *args)
    plain = run_all(grad_graph(graph, chosen, simplified=False), *args)
    forward = [_forward_gradient(graph, k, args) for k in chosen]
    for g, p, t in zip(found, plain, forward, strict=True):
        np.testing.assert_allclose(p, g, rtol=1e-11, atol=1e-13, err_msg="before simplification")
        if np.all(np.isfinite(g)):  # beside an infinite slope a tangent's own zeros become NaN
            np.testing.assert_allclose(t, g, rtol=1e-11, atol=1e-13, err_msg="forward mode")
    return found[0] if len(found) == 1 else tuple(found)


def run_all(graph: Graph, *values: Any) -> list[Any]:
    """Values of all outputs, as a list."""
    return list(evaluate_graph(graph, values))


def prepared(graph: Graph) -> Callable[..., list[Any]]:
    """The same as a function, for graphs that are run again and again."""
    function = load(generate(graph))
    arrays = [node.params[0][1].array for node in graph.captures]

    def call(*values: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            return list(function(*values, *arrays))

    return call


def _forward_gradient(graph: Graph, k: int, args: Sequence[Any]) -> Any:
    """The same gradient by one tangent for each element."""
    pushed = jvp_graph(graph, [k])
    x = np.asarray(args[k])
    result = np.zeros(x.shape, x.dtype)
    for position in np.ndindex(x.shape):
        tangent = np.zeros(x.shape, x.dtype)
        tangent[position] = 1
        tangents = run_all(pushed, *args, tangent[()])
        result[position] = sum(np.sum(t) for t in tangents)
    return result[()]


def derivatives(function: Callable[..., Any], x: Any, order: int) -> list[float]:
    """Value and derivatives of a scalar function up to an order, reverse over reverse; to the third also forward."""
    graph = forward = simplify(trace(function, x))
    values = [float(run(graph, x))]
    for k in range(order):
        graph = grad_graph(graph)
        values.append(float(run(graph, x)))
        if k < 3:
            forward = derivative_graph(forward)
            np.testing.assert_allclose(
                run(forward, x), values[-1], rtol=1e-11, atol=1e-12, err_msg="forward over forward"
            )
    return values


def hessian(function: Callable[..., Any], x: Any) -> np.ndarray[Any, Any]:
    """Second derivatives of a scalar function of one array, forward over reverse."""
    pushed = jvp_graph(grad_graph(simplify(trace(function, x))))
    x = np.asarray(x)
    rows = []
    for position in np.ndindex(x.shape):
        tangent = np.zeros(x.shape, x.dtype)
        tangent[position] = 1
        rows.append(np.ravel(run(pushed, x, tangent)))
    return np.array(rows)


def central(function: Callable[..., Any], h: float = 2.0**-12) -> Any:
    """Derivative at 0 of a function of one number, by 5-point central differences."""
    ends = function(2 * h), function(-2 * h)
    near = function(h), function(-h)
    return (8.0 * (near[0] - near[1]) - (ends[0] - ends[1])) / (12.0 * h)


def same_bits(a: Any, b: Any) -> bool:
    """Equal dtype, shape and value; NaN equals NaN, but 0.0 and -0.0 differ."""
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    equal = (x == y) & (np.signbit(x) == np.signbit(y))
    return bool(np.all(equal | (np.isnan(x) & np.isnan(y))))


def array_type(shape: tuple[int, ...] = (), dtype: Any = np.float64) -> Any:
    """Aval of an array, for graphs built by hand."""
    return make_aval(shape, np.dtype(dtype))
