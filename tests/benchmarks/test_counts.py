"""What compiling costs, in numbers that do not depend on the machine: nodes, traces, kernels, loops, buffers.

A number that changes is not wrong, but it is worth knowing why: less is better, and growth must stay linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import canonical
from symgrad.lowering import lower
from symgrad.lowering.program import Program as Lowered
from symgrad.lowering.program import Scope
from tests.benchmarks import programs
from tests.benchmarks.measure import stages, traced, value_and_gradient

# ---------------------------------------------------------------- nodes of gradients

NODES = {
    # operations of the function, and of value and gradient together
    "rosenbrock": (10, 20),
    "logistic regression": (11, 22),
    "network": (9, 26),
    "cross entropy": (13, 34),
    "mixture": (10, 28),
    "n-body energy": (13, 25),
    "pendulum": (504, 1107),
    "horner": (100, 245),
    "gaussian process": (16, 34),
}


@pytest.mark.parametrize("name", programs.FUNCTIONS)
def test_nodes_of_a_gradient(name: str) -> None:
    program = programs.FUNCTIONS[name]
    own = value_and_gradient(program.function, program.args, [])
    both = value_and_gradient(program.function, program.args, programs.wrt(name))
    assert (own.node_count, both.node_count) == NODES[name]
    assert both.node_count <= 5 * own.node_count


@pytest.mark.parametrize("steps", [200, 400])
def test_nodes_of_a_chain(steps: int) -> None:
    """Five operations a step; their derivatives are eleven with the value."""
    found = stages(*programs.scalar_chain(5 * steps), [0, 1], to_c=False)
    assert (found.traced, found.pulled, found.simplified) == (5 * steps + 1, 11 * steps, 11 * steps - 4)


@pytest.mark.parametrize("steps", [10, 20])
def test_nodes_of_an_array_program(steps: int) -> None:
    found = stages(*programs.array_program(15 * steps), [0, 1, 2], to_c=False)
    assert (found.traced, found.pulled, found.simplified) == (18 * steps + 2, 51 * steps + 2, 49 * steps - 1)


@pytest.mark.parametrize("n", [50, 100, 1000])
def test_nodes_of_writes_in_a_loop(n: int) -> None:
    """Each write is one element, not one array: nodes, and elements in all of them, grow with n."""
    program = programs.scalar_writes(n)
    graph = traced(program.function, program.args)
    assert graph.node_count == 4 * n + 3
    both = value_and_gradient(program.function, program.args, [0])
    assert both.node_count == 7 * n + 5
    assert sum(node.aval.size for node in both.nodes) == 12 * n + 2
    # Nodes that were ever made, also those that nothing needs.
    assert len(both.table) == 14 * n + 23


@pytest.mark.parametrize("n", [50, 100, 1000])
def test_nodes_of_reads_in_a_loop(n: int) -> None:
    program = programs.scalar_reads(n)
    graph = traced(program.function, program.args)
    assert graph.node_count == 4 * n
    both = value_and_gradient(program.function, program.args, [0])
    assert both.node_count == 6 * n + 1
    assert sum(node.aval.size for node in both.nodes) == 8 * n + 1
    assert len(both.table) == 7 * n + 5


# ---------------------------------------------------------------- loops, statements and buffers

LOWERED = {
    # outermost loops, calls, statements inside and outside of loops, buffers in the workspace and their bytes
    "rosenbrock": (4, 0, 38, 0, 0),
    "logistic regression": (3, 0, 25, 0, 0),
    "network": (3, 5, 14, 5, 5120),
    "cross entropy": (2, 0, 26, 3, 320),
    "mixture": (2, 0, 55, 1, 64),
    "n-body energy": (2, 0, 26, 3, 768),
    "pendulum": (0, 0, 1107, 0, 0),
    "horner": (0, 0, 245, 0, 0),
    "gaussian process": (5, 5, 20, 10, 2752),
}


def statements(program: Lowered) -> int:
    """Operations on elements that the source of a program spells out, however often they run."""
    count = 0
    pending: list[Scope] = [program.root]
    while pending:
        scope = pending.pop()
        count += sum(1 for value in scope.values if value.kind == "apply")
        pending.extend(loop.scope for loop in scope.loops)
    return count


@pytest.mark.parametrize("name", programs.FUNCTIONS)
def test_loops_statements_and_buffers(name: str) -> None:
    program = programs.FUNCTIONS[name]
    lowered = lower(canonical(value_and_gradient(program.function, program.args, programs.wrt(name))))
    found = (
        len(lowered.nests), len(lowered.root.calls), statements(lowered), len(lowered.materialised),
        lowered.workspace_bytes,
    )
    assert found == LOWERED[name]


# ---------------------------------------------------------------- traces and kernels


def counts(f: Any) -> tuple[int, int]:
    info = f.cache_info()
    return info.traces, info.kernels


def test_a_compiled_gradient_makes_each_node_once() -> None:
    """Nothing is copied for the variables of the derivative: the table holds what the stages alone make."""
    x = np.linspace(0.1, 1.0, 10)
    f = sg.value_and_grad(programs.rosenbrock)
    f(x)
    assert f.graph().node_count == 20
    assert len(f.graph().table) == len(value_and_gradient(programs.rosenbrock, [x], [0]).table)


def test_a_function_called_once_is_not_compiled() -> None:
    f = sg.grad(programs.ten_ops(1.0))
    f(np.ones(3))
    assert counts(f) == (1, 0)


@pytest.mark.c_backend
def test_a_function_called_often_is_compiled_once_for_its_types() -> None:
    f = sg.grad(programs.ten_ops(2.0))
    for _ in range(5):
        f(np.ones(3))
    assert counts(f) == (1, 1)
    for _ in range(5):
        f(np.ones(4))
    assert counts(f) == (2, 2)


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.c_backend)])
def test_each_path_is_traced_once(backend: str) -> None:
    with sg.config(backend=backend):
        f = sg.value_and_grad(programs.doubled)
        for _ in range(3):
            for y, rounds in zip(programs.doubled_inputs(), programs.ROUNDS, strict=True):
                value, slope = f(y)
                assert value == pytest.approx(np.sum(y) * 2.0**rounds, rel=1e-14)
                assert set(slope) == {2.0**rounds}
        assert counts(f) == (12, 1 if backend == "c" else 0)
        assert [row.hits for row in f.paths()] == [3] * 12
