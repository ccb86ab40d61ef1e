"""Derivatives of a traced function, straight from the rules of the operations, for the checker to check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import symgrad.ops  # fills the table of operations
from symgrad.core.aval import aval_of
from symgrad.core.expr import CAPTURE, CONST, Expr
from symgrad.core.graph import Graph
from symgrad.core.op import lookup
from symgrad.ops.evaluate import evaluate
from symgrad.tracing.trace import trace_flat
from symgrad.transforms.forward import pushforward
from symgrad.transforms.reverse import pullback

assert symgrad.ops


def run(inputs: Sequence[Expr], outputs: Sequence[Expr | None], values: Sequence[Any]) -> list[Any]:
    """Values of expressions; None stays None."""
    known = {x.id: v for x, v in zip(inputs, values, strict=True)}
    wanted = [out for out in outputs if out is not None]
    for node in Graph(inputs, wanted).nodes if wanted else []:
        if node.id in known:
            continue
        if node.op in (CONST, CAPTURE):
            known[node.id] = node.params[0][1].array[()]
        else:
            operands = [known[a.id] for a in node.args]
            known[node.id] = evaluate(node.op, operands, [a.aval for a in node.args], dict(node.params))
    return [None if out is None else known[out.id] for out in outputs]


def traced(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """Arguments of ``check_derivatives`` for a scalar function of arrays."""
    names = [f"x{k}" for k in range(len(args))]
    graph, _ = trace_flat(function, [aval_of(a) for a in args], names, "f")
    (out,) = graph.outputs
    inputs = graph.inputs
    seed = out.table.constant(np.ones((), out.dtype))
    grads = pullback([out], [seed], inputs)
    tangents = [out.table.input(x.aval) for x in inputs]
    (along,) = pushforward([out], inputs, tangents)
    there = [k for k, g in enumerate(grads) if g is not None]
    pushed = pushforward([grads[k] for k in there], inputs, tangents)

    def second(v: list[Any]) -> list[Any]:
        results = iter(run([*inputs, *tangents], pushed, [*args, *v]))
        return [next(results) if k in there else None for k in range(len(args))]

    return {
        "value": function,
        "args": args,
        "names": names,
        "reverse": lambda *x: run(inputs, grads, x),
        "forward": lambda v: run([*inputs, *tangents], [along], [*args, *v])[0] or 0.0,
        "second": second,
        "graph": graph,
        "order": 2,
    }


@contextmanager
def planted(name: str, **rules: Any) -> Iterator[None]:
    """Replace rules of an operation for a while."""
    op = lookup(name)
    before = {key: getattr(op, key) for key in rules}
    for key, rule in rules.items():
        object.__setattr__(op, key, rule)
    try:
        yield
    finally:
        for key, rule in before.items():
            object.__setattr__(op, key, rule)
