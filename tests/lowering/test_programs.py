"""Random programs: what lowering makes of them is checked for consistency, and compiled C against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.core.graph import Graph, canonical
from symgrad.lowering import lower
from symgrad.lowering.program import Buffer, Program, Scope
from symgrad.ops.reduction import sum_
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify
from tests.codegen.kernels import Kernel, reference
from tests.lowering.programs import Maker

SEEDS = range(40)
COMPILED = range(100, 118)


def gradient(maker: Maker) -> Graph:
    """The sum of all outputs, and its gradient."""
    graph = maker.graph
    parts = [
        sum_(o, axis=tuple(range(o.ndim))) if o.ndim else o for o in graph.outputs if o.dtype.kind == "f"
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    found = pullback([total], [maker.table.constant(1.0, total.dtype)], graph.inputs)
    return simplify(Graph(graph.inputs, [total, *[g for g in found if g is not None]], "gradient"))


def check_order(scope: Scope, known: set[int]) -> None:
    """Every value is there before it is used, within its loop or outside."""
    known = set(known)
    for items in scope.in_order():
        for item in items:
            if hasattr(item, "scope"):
                check_order(item.scope, known)
                continue
            needed = list(getattr(item, "args", []))
            if getattr(item, "value", None) is not None:
                needed.append(item.value)
            for value in needed:
                assert value.kind == "literal" or id(value) in known, f"{item!r} needs {value!r} too early"
            if hasattr(item, "kind"):
                known.add(id(item))
    for loop in scope.loops:
        for r in loop.reductions:
            assert r.first <= r.last == loop.scope.depth - 1


def overlap(a: Buffer, b: Buffer) -> bool:
    if a.offset >= b.offset + b.nbytes or b.offset >= a.offset + a.nbytes:
        return False
    return a.born <= b.dies and b.born <= a.dies


def check_memory(program: Program) -> None:
    placed = program.materialised
    for k, a in enumerate(placed):
        assert a.offset % 64 == 0
        assert a.offset + a.nbytes <= program.workspace_bytes
        for b in placed[:k]:
            assert not overlap(a, b), f"{a!r} and {b!r} share memory while both are in use"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_are_consistent(seed: int) -> None:
    program = lower(canonical(Maker(seed, 30).graph))
    check_order(program.root, set())
    check_memory(program)


@pytest.mark.c_backend
@pytest.mark.parametrize("seed", COMPILED)
def test_compiled_random_programs_agree_with_numpy(seed: int) -> None:
    maker = Maker(seed, 30)
    args = maker.args()
    compare(maker.graph, args)


@pytest.mark.c_backend
@pytest.mark.parametrize("seed", COMPILED)
def test_compiled_gradients_agree_with_numpy(seed: int) -> None:
    maker = Maker(seed, 14)
    args = maker.args()
    compare(gradient(maker), args)


def compare(graph: Graph, args: list[Any]) -> None:
    for got, want in zip(Kernel(graph)(*args), reference(graph, args), strict=True):
        if got.dtype.kind != "f":
            assert (got == want).all()
            continue
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=0.0)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * scale + 1e-300)
