"""Programs on tiny arrays: every kind of node becomes operations on numbers, with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.core.graph import Graph, canonical, verify
from symgrad.lowering import lower
from symgrad.lowering.scalarise import TINY, scalarised
from tests.codegen.kernels import Kernel, reference
from tests.lowering.programs import Maker
from tests.lowering.test_fusion import traced, with_gradient


def tiny(seed: int) -> Maker:
    return Maker(seed, 25, sizes=(1, 2, 3), largest=TINY)


@pytest.mark.parametrize("seed", range(60))
def test_values_do_not_change(seed: int) -> None:
    maker = tiny(seed)
    args = maker.args()
    graph = canonical(maker.graph)
    made = scalarised(graph)
    if made is None:
        return  # an index that depends on data
    verify(Graph(made.inputs, made.outputs))
    for got, want in zip(reference(made, args), reference(graph, args), strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_most_random_programs_have_such_a_form() -> None:
    made = [scalarised(canonical(tiny(seed).graph)) for seed in range(60)]
    assert sum(1 for graph in made if graph is not None) > 20


@pytest.mark.c_backend
@pytest.mark.parametrize("seed", range(6))
def test_compiled_tiny_programs_agree_with_numpy(seed: int) -> None:
    maker = tiny(seed)
    args = maker.args()
    for got, want in zip(Kernel(maker.graph)(*args), reference(maker.graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def rotate(q: Any, v: Any) -> Any:
    w, u = q[0], q[1:]
    return np.sum((2.0 * np.dot(u, v) * u + (w * w - np.dot(u, u)) * v + 2.0 * w * np.cross(u, v)) ** 2)


def test_a_rotation_and_its_gradient_are_straight_line_code() -> None:
    program = lower(with_gradient(rotate, np.ones(4), np.ones(3)))
    assert program.nests == []
    assert program.workspace_bytes == 0


def test_larger_arrays_keep_their_loops() -> None:
    program = lower(traced(lambda x: x * 2.0 + 1.0, np.zeros(TINY + 1)))
    assert len(program.nests) == 1


def test_a_program_that_would_become_too_long_keeps_its_loops() -> None:
    def f(x: Any) -> Any:
        for _ in range(1500):
            x = x * 1.5 + 0.5
        return x

    assert scalarised(traced(f, np.zeros(TINY))) is None
