"""The stages of a compilation one by one, as the benchmarks time and count them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from symgrad.codegen.c_source import generate
from symgrad.core.aval import aval_of
from symgrad.core.graph import Graph, canonical
from symgrad.lowering import lower
from symgrad.tracing.trace import trace_flat
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify

T = TypeVar("T")


@contextmanager
def _no_collector() -> Iterator[None]:
    """The cyclic collector pauses, as it does while symgrad works."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Processor seconds of one call, and its result."""
    with _no_collector():
        start = time.process_time()
        result = work()
        return time.process_time() - start, result


@dataclass
class Stages:
    """Sizes and processor seconds on the way from a function to C source for its value and gradient."""

    traced: int = 0
    pulled: int = 0
    simplified: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)

    def enter(self, name: str, work: Callable[[], T], count: int) -> T:
        """Time a stage that works on so many nodes."""
        seconds, result = timed(work)
        self.seconds[name], self.nodes[name] = seconds, count
        return result

    def microseconds(self, name: str) -> float:
        """Time of a stage for each node it works on."""
        return self.seconds[name] / max(self.nodes[name], 1) * 1e6


def traced(function: Callable[..., Any], args: Sequence[Any]) -> Graph:
    """The graph as recorded, not simplified."""
    names = [f"x{k}" for k in range(len(args))]
    graph, _ = trace_flat(function, [aval_of(a) for a in args], names, function.__name__, args)
    return graph


def with_gradient(graph: Graph, wrt: Sequence[int]) -> Graph:
    """Outputs and gradient of the first output, not simplified."""
    out = graph.outputs[0]
    chosen = [graph.inputs[k] for k in wrt]
    grads = pullback([out], [graph.table.constant(np.ones(()), out.dtype)], chosen)
    return Graph(graph.inputs, [*graph.outputs, *[g for g in grads if g is not None]], graph.name)


def value_and_gradient(function: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int]) -> Graph:
    """What is compiled for a value and its gradient."""
    return simplify(with_gradient(simplify(traced(function, args)), wrt))


def stages(
    function: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int], to_c: bool = True
) -> Stages:
    """Time every stage once.

    A stage that makes nodes (trace, vjp) is charged for those it makes, another one for those it is given.
    """
    found = Stages()
    seconds, graph = timed(lambda: traced(function, args))
    found.seconds["trace"], found.nodes["trace"] = seconds, graph.node_count
    found.traced = graph.node_count
    simple = found.enter("simplify f", lambda: simplify(graph), graph.node_count)
    seconds, both = timed(lambda: with_gradient(simple, wrt))
    found.pulled = both.node_count
    found.seconds["vjp"], found.nodes["vjp"] = seconds, both.node_count - simple.node_count
    final = found.enter("simplify", lambda: simplify(both), both.node_count)
    found.simplified = final.node_count
    fixed = found.enter("canonical", lambda: canonical(final), final.node_count)
    if to_c:
        program = found.enter("lower", lambda: lower(fixed), final.node_count)
        found.enter("render C", lambda: generate(program), final.node_count)
    return found
