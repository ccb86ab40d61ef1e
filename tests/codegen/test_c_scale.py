"""Long programs: cost in counts, chunks, and the same text in every process."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest

from symgrad.codegen.c_chunks import CHUNK, UNIT, WHOLE
from symgrad.codegen.c_source import CSource, generate
from symgrad.core.aval import Aval
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph, canonical
from symgrad.lowering import lower
from symgrad.ops.arithmetic import add, multiply
from symgrad.ops.transcendental import sin
from tests.codegen.kernels import Kernel, reference


def chain(length: int) -> Graph:
    """A chain of scalar operations that reaches far back at times."""
    draw = random.Random(1)
    table = InternTable()
    nodes: list[Expr] = [table.input(Aval((), "float64"), name) for name in "xy"]
    while len(nodes) < length + 2:
        a = nodes[-1]
        b = nodes[-2] if draw.random() < 0.7 else draw.choice(nodes)
        kind = draw.random()
        nodes.append(
            sin(add(a, b)) if kind < 0.3 else add(sin(a), b) if kind < 0.6 else multiply(sin(a), sin(b))
        )
    return canonical(Graph(nodes[:2], [nodes[-1]], "chain"))


def functions(source: CSource) -> list[int]:
    """Lines of each function."""
    pattern = r"^(?:__attribute__\S* |static |int )[^;]*?\{\n(.*?)^\}"
    bodies = re.findall(pattern, source.text, re.MULTILINE | re.DOTALL)
    return [body.count("\n") for body in bodies]


def test_a_long_chain_is_cut_into_functions_and_units() -> None:
    graph = chain(100_000)
    source = generate(lower(graph))
    statements = graph.node_count
    assert source.tier == "huge"
    assert statements / UNIT <= len(source.units) <= statements / UNIT * 1.2 + 1
    assert max(functions(source)) < 4 * CHUNK
    # Cross-chunk values take slots, which are used again.
    assert source.workspace_bytes < 8 * statements / 4


def test_a_short_program_is_one_function() -> None:
    source = generate(lower(chain(100)))
    assert len(source.units) == 1
    assert source.workspace_bytes == 0
    assert source.tier == "scalar"
    assert len(functions(source)) == 1
    assert functions(source)[0] < WHOLE


@pytest.mark.c_backend
@pytest.mark.parametrize("length", [2_000, 6_000])
def test_chunks_compute_what_one_function_would(length: int) -> None:
    graph = chain(length)
    kernel = Kernel(graph)
    assert kernel.source.text.count("_part1(") >= 1
    (got,) = kernel(0.3, 0.7)
    (want,) = reference(graph, [np.float64(0.3), np.float64(0.7)])
    np.testing.assert_allclose(got, want, rtol=1e-9)


PROGRAM = """
import hashlib, os, sys
sys.path.insert(0, sys.argv[1])
from symgrad.codegen.c_source import generate
from symgrad.core.graph import canonical
from symgrad.lowering import lower
from tests.lowering.programs import Maker
texts = [generate(lower(canonical(Maker(seed, 30).graph))).text for seed in range(12)]
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""


@pytest.mark.subprocess
def test_source_is_the_same_in_every_process(request: pytest.FixtureRequest) -> None:
    seen = set()
    for seed in ("0", "1", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(request.config.rootpath)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_the_order_in_which_a_graph_came_about_does_not_show() -> None:
    def build(swapped: bool) -> Graph:
        table = InternTable()
        x, y = (table.input(Aval((9,), "float64"), n) for n in "xy")
        parts = [lambda: sin(x), lambda: multiply(x, y)]
        made = [part() for part in (reversed(parts) if swapped else parts)]
        a, b = reversed(made) if swapped else made
        return canonical(Graph([x, y], [add(b, a) if swapped else add(a, b)], "f"))

    assert generate(lower(build(False))).text == generate(lower(build(True))).text
