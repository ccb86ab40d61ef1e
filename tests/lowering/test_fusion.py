"""What becomes of known programs: how many nests and buffers, and exactly how much workspace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.core.aval import aval_of
from symgrad.core.graph import Graph, canonical
from symgrad.lowering import lower
from symgrad.lowering.program import Program
from symgrad.ops.reduction import sum_
from symgrad.tracing.trace import trace_flat
from symgrad.transforms.reverse import pullback
from symgrad.transforms.simplify import simplify


def traced(function: Any, *args: Any) -> Graph:
    graph, _ = trace_flat(
        function, [aval_of(np.asarray(a)) for a in args], [f"x{k}" for k in range(len(args))], "f"
    )
    return canonical(simplify(graph))


def with_gradient(function: Any, *args: Any, wrt: tuple[int, ...] = (0,)) -> Graph:
    graph, _ = trace_flat(
        function, [aval_of(np.asarray(a)) for a in args], [f"x{k}" for k in range(len(args))], "f"
    )
    (value,) = graph.outputs
    chosen = [graph.inputs[k] for k in wrt]
    found = pullback([value], [graph.table.constant(1.0, value.dtype)], chosen)
    return canonical(simplify(Graph(graph.inputs, [value, *[g for g in found if g is not None]], "f")))


def sizes(program: Program) -> list[tuple[int, ...]]:
    """For each nest the extents of the loops along its first branch."""
    found = []
    for loop in program.nests:
        extents = [loop.extent]
        while loop.scope.loops:
            loop = loop.scope.loops[0]
            extents.append(loop.extent)
        found.append(tuple(extents))
    return found


def residual(b0: Any, b1: Any, x: Any, y: Any) -> Any:
    return np.sum((y - b0 * np.exp(-b1 * x)) ** 2)


X = np.linspace(0.0, 1.0, 214)


def test_a_residual_and_its_gradient_are_one_loop() -> None:
    program = lower(with_gradient(residual, 1.0, 2.0, X, X, wrt=(0, 1)))
    assert sizes(program) == [(214,)]
    assert len(program.nests[0].reductions) == 3
    assert program.materialised == []
    assert program.workspace_bytes == 0


def test_the_exponential_is_computed_once_an_element() -> None:
    program = lower(with_gradient(residual, 1.0, 2.0, X, X, wrt=(0, 1)))
    called = [v.node.op.name for v in program.nests[0].scope.values if v.kind == "apply"]
    assert called.count("exp") == 1


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_rosenbrock_needs_no_memory_and_divides_its_gradient_at_the_ends() -> None:
    program = lower(with_gradient(rosenbrock, np.zeros(1000)))
    assert sorted(loop.range for loop in program.nests) == [(0, 1), (0, 999), (1, 999), (999, 1000)]
    assert program.workspace_bytes == 0


def potential(x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return np.sum(1.0 / np.sqrt(np.sum(d**2, axis=-1) + 0.01))


def test_pairs_are_never_stored() -> None:
    n = 500
    program = lower(with_gradient(potential, np.zeros((n, 3))))
    assert sizes(program) == [(n, n), (3 * n,)]
    # Sums over i and over j, the first of them in columns, and the positions in columns.
    assert sorted(b.nbytes for b in program.materialised) == [24 * n] * 3
    assert program.workspace_bytes < 100 * n


def test_rows_of_softmax_share_one_outer_loop() -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    program = lower(traced(softmax, np.zeros((300, 40))))
    assert sizes(program) == [(300, 40)]
    (outer,) = program.nests
    assert [loop.extent for loop in outer.scope.loops] == [40, 40, 40]
    # One row of exponentials is kept between the second loop and the third.
    assert [b.nbytes for b in program.materialised] == [320]
    assert program.workspace_bytes == 320


def test_a_softmax_over_everything_is_three_loops() -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    program = lower(traced(softmax, np.zeros(4000)))
    assert sizes(program) == [(4000,)] * 3
    # The exponentials are written where the result will be.
    assert program.materialised == []
    assert program.workspace_bytes == 0


def test_values_that_do_not_change_are_computed_outside() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.sum(np.exp(x)[:, None] * w)

    program = lower(traced(f, np.zeros(50), np.zeros((50, 60))))
    (outer,) = program.nests
    (inner,) = outer.scope.loops
    assert [v.node.op.name for v in outer.scope.values if v.kind == "apply"] == ["exp"]
    assert [v.node.op.name for v in inner.scope.values if v.kind == "apply"] == ["multiply"]


def test_an_expensive_row_is_computed_once_and_not_in_every_iteration() -> None:
    program = lower(traced(lambda x, w: np.exp(x) * w, np.zeros(60), np.zeros((50, 60))))
    assert sizes(program) == [(60,), (50, 60)]
    assert program.workspace_bytes == 512  # 60 doubles, rounded up to a cache line


def test_arrays_of_one_shape_become_one_long_loop() -> None:
    program = lower(traced(lambda x, y: np.sin(x) * y + 1.0, np.zeros((7, 8, 9)), np.zeros((7, 8, 9))))
    assert sizes(program) == [(7 * 8 * 9,)]


def test_a_reshape_of_what_lies_in_order_is_free() -> None:
    program = lower(traced(lambda x: np.sum(np.reshape(np.sin(x), (-1,)) * 2.0), np.zeros((20, 30))))
    assert sizes(program) == [(600,)]
    assert program.workspace_bytes == 0


def test_transposed_operands_are_not_copied_before_a_product() -> None:
    program = lower(traced(lambda a, b: a.T @ b.T, np.zeros((40, 30)), np.zeros((50, 40))))
    assert program.nests == []
    (call,) = program.root.calls
    assert call.transposed == [True, True]
    assert program.workspace_bytes == 0


def test_a_dot_product_fuses_with_its_operands() -> None:
    program = lower(traced(lambda x: np.dot(np.sin(x), x + 1.0), np.zeros(500)))
    assert sizes(program) == [(500,)]
    assert program.root.calls == []
    assert program.workspace_bytes == 0


def test_many_scalars_are_written_straight_into_one_array() -> None:
    def f(x: Any) -> Any:
        return np.stack([x[k] * x[k + 1] for k in range(2000)])

    program = lower(traced(f, np.zeros(2001)))
    assert program.nests == []
    assert len(program.root.effects) == 2000
    assert program.workspace_bytes == 0


def test_operands_that_end_give_their_memory_to_the_result() -> None:
    def f(a: Any, b: Any) -> Any:
        return np.cumsum(np.tanh(np.cumsum(a * b, axis=0)) * 2.0, axis=0)

    program = lower(traced(f, np.zeros((50, 60)), np.zeros((50, 60))))
    # Four arrays, of which two work in place: product, first sum and what is made of it.
    assert program.workspace_bytes == 2 * 50 * 60 * 8


@pytest.mark.parametrize("n", [10, 1000])
def test_an_adjoint_of_many_reads_is_one_array(n: int) -> None:
    def f(x: Any) -> Any:
        total = x[0] * 0.0
        for k in range(n):
            total = total + x[k] * x[(k + 1) % n]
        return total

    program = lower(with_gradient(f, np.zeros(n)))
    assert program.nests == []
    assert len(program.root.effects) == n + 1


def test_long_bodies_are_divided() -> None:
    def f(x: Any, w: Any) -> Any:
        for _ in range(100):
            x = x + 0.1 * np.sin(x) * w
        return np.sum(x)

    program = lower(with_gradient(f, np.zeros(1000), 1.0, wrt=(0, 1)))
    assert len(program.nests) >= 4
    bodies = [sum(1 for v in loop.scope.values if v.kind == "apply") for loop in program.nests]
    assert max(bodies) <= 300
    called = [v.node.op.name for loop in program.nests for v in loop.scope.values if v.kind == "apply"]
    assert called.count("sin") == 100


def test_work_counts_operations_and_bytes() -> None:
    program = lower(traced(lambda x: np.sum(np.sin(x) * 2.0), np.zeros(1000)))
    assert program.work.flops == 1000 * (20 + 1 + 1)
    assert program.work.bytes == 8 * 1001


def test_a_program_of_scalars_has_no_loops() -> None:
    program = lower(traced(lambda a, b: np.sin(a) * b + a, 1.0, 2.0))
    assert program.nests == []
    assert program.workspace_bytes == 0
    assert sum_.name not in {v.node.op.name for v in program.root.values}


def test_a_product_is_the_measure_of_what_may_be_stored() -> None:
    def f(x: Any) -> Any:
        y = np.tanh(x[:, :, None] @ x[:, None, :])
        return y / np.max(y, axis=0)

    program = lower(traced(f, np.zeros((20, 5))))
    inner = [loop.scope.loops[0].scope for loop in program.nests]
    called = [v.node.op.name for scope in inner for v in scope.values if v.kind == "apply"]
    assert called.count("tanh") == 1
    assert not program.recomputes


def test_what_is_computed_twice_is_noted() -> None:
    def f(x: Any, y: Any) -> Any:
        pairs = np.exp(x[:, None] * y[None, :])
        return np.sum(pairs == np.max(pairs))

    # Too large to be stored: the maximum and the comparison each compute all pairs.
    assert lower(traced(f, np.zeros(300), np.zeros(300))).recomputes
    assert not lower(traced(rosenbrock, np.zeros(50))).recomputes
    assert not lower(with_gradient(potential, np.zeros((50, 3)))).recomputes
