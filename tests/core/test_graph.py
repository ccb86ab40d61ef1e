"""Graphs: canonical form, fingerprints, the verifier, printing and pickling."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symgrad.core.aval import make_aval
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph, canonical, digests, rebuild, substitute, verify
from symgrad.core.op import OPS
from symgrad.transforms.simplify import simplify
from tests.core.graphs import array_type, grad_graph, run, trace

ROOT = Path(__file__).resolve().parents[2]


def op(name: str, *args: Expr, **params: Any) -> Expr:
    return args[0].table.make(OPS[name], args, params)


# ------------------------------------------------------------------------------------------ canonical form


def fingerprint(graph: Graph) -> tuple[bytes, ...]:
    found = digests(graph)
    return tuple(found[out.id] for out in graph.outputs)


def shape_of(graph: Graph) -> list[Any]:
    """A graph as text without creation numbers."""
    index = {n.id: k for k, n in enumerate(graph.nodes)}
    return [(n.op.name, [index[a.id] for a in n.args], str(n.aval), repr(n.params) if n.args else "")
            for n in graph.nodes]  # fmt: skip


def in_order(order: list[int]) -> Graph:
    """sin(x)·y + exp(y)·x + sin(x)·3, its parts made in some order."""
    table = InternTable()
    x, y = table.input(array_type(), "x"), table.input(array_type(), "y")
    makers = [
        lambda: op("multiply", op("sin", x), y),
        lambda: op("multiply", x, op("exp", y)),
        lambda: op("multiply", table.constant(3.0, np.float64), op("sin", x)),
    ]
    parts: dict[int, Expr] = {}
    for k in order:
        op("cos", table.input(array_type()))  # numbers go elsewhere too
        parts[k] = makers[k]()
    ends = (parts[0], parts[1]) if order[0] == 0 else (parts[1], parts[0])
    return Graph([x, y], [op("add", op("add", *ends), parts[2])])


def test_the_order_of_creation_is_forgotten() -> None:
    graphs = [in_order(order) for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1])]
    assert len({fingerprint(g) for g in graphs}) == 1
    forms = [canonical(g) for g in graphs]
    for form in forms:
        verify(form)
        assert shape_of(form) == shape_of(forms[0])
    assert run(forms[0], 2.0, 3.0) == run(graphs[1], 2.0, 3.0)


def captured(first: int) -> tuple[Graph, list[Any]]:
    """a·x + b·y + a·b·x over captured arrays a, b of one type; ``first`` says which is met first."""
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    table = InternTable()
    x, y = table.input(array_type((2,))), table.input(array_type((2,)))
    for array in (a, b) if first == 0 else (b, a):
        table.capture(array)
    ka, kb = table.capture(a), table.capture(b)
    total = op(
        "add",
        op("add", op("multiply", ka, x), op("multiply", kb, y)),
        op("multiply", op("multiply", ka, kb), x),
    )
    return Graph([x, y], [total]), [a, b]


def test_the_order_in_which_arrays_were_captured_is_forgotten() -> None:
    (one, _), (other, _) = captured(0), captured(1)
    assert fingerprint(one) == fingerprint(other)
    forms = [canonical(one), canonical(other)]
    assert shape_of(forms[0]) == shape_of(forms[1])
    held = [[c.params[0][1].array.tolist() for c in f.captures] for f in forms]
    assert held[0] == held[1]
    np.testing.assert_array_equal(run(forms[0], np.ones(2), np.ones(2)), [1 + 3 + 3, 2 + 4 + 8])


def test_captured_arrays_are_told_apart_by_their_uses() -> None:
    """a·b + a·c: the array that is used twice is recognised, whatever came first."""

    def graph(order: str) -> Graph:
        table = InternTable()
        arrays = (
            {name: table.capture(np.ones(2) * k) for k, name in enumerate("abc")} if order == "abc" else {}
        )
        if not arrays:
            made = {name: np.ones(2) * k for k, name in enumerate("abc")}
            for name in order:
                arrays[name] = table.capture(made[name])
        a, b, c = (arrays[n] for n in "abc")
        return Graph([], [op("add", op("multiply", a, b), op("multiply", a, c))])

    forms = [canonical(graph(order)) for order in ("abc", "cba", "bca", "cab")]
    assert all(shape_of(f) == shape_of(forms[0]) for f in forms)


def test_what_differs_has_another_fingerprint() -> None:
    def graph(f: Any, *types: Any) -> Graph:
        return trace(f, *types)

    x, y = np.ones(3), np.ones(3)
    different = [
        graph(lambda x, y: x - y, x, y),
        graph(lambda x, y: y - x, x, y),
        graph(lambda x, y: x + y, x, y),
        graph(lambda x, y: x + x, x, y),
        graph(lambda x, y: x + 0.0, x, y),
        graph(lambda x, y: x + -0.0, x, y),
        graph(lambda x, y: x + 1, x, y),
        graph(lambda x, y: np.sum(x), x, y),
        graph(lambda x, y: np.sum(x, keepdims=True), x, y),
        graph(lambda x, y: x[::-1], x, y),
        graph(lambda x, y: x - y, np.ones(4), np.ones(4)),
        graph(lambda x, y: x - y, x.astype(np.float32), y.astype(np.float32)),
    ]
    assert len({fingerprint(g) for g in different}) == len(different)


SCRIPT = """
import numpy as np
from tests.core.graphs import grad_graph, trace
from symgrad.core.graph import canonical, digests
def f(w, x):
    return np.mean(np.tanh(x @ w) ** 2) + np.sum(np.where(w > 0, w, w * 2)) * 0.5
g = canonical(grad_graph(trace(f, np.ones(3), np.ones((4, 3))), [0, 1]))
found = digests(g)
print([found[n.id].hex() for n in g.nodes])
print([(n.op.name, [a.id for a in n.args]) for n in g.nodes])
"""


@pytest.mark.subprocess
def test_fingerprints_do_not_depend_on_the_process() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1
    assert texts.pop().strip()


# ------------------------------------------------------------------------------------------ the verifier


def well_formed() -> tuple[InternTable, Expr, Expr]:
    table = InternTable()
    x = table.input(array_type((2,)))
    return table, x, op("sin", x)


def test_good_graphs_pass() -> None:
    _, x, y = well_formed()
    verify(Graph([x], [y]))
    verify(Graph([x], [x]))


def test_a_node_of_another_table_is_found() -> None:
    table, x, _ = well_formed()
    _, _, foreign = well_formed()
    mixed = Expr(OPS["add"], (x, foreign), (), x.aval, table.mark(), table)
    with pytest.raises(AssertionError, match="another intern table"):
        verify(Graph([x], [mixed]))


def test_an_input_that_is_not_listed_is_found() -> None:
    _, _, y = well_formed()
    with pytest.raises(AssertionError, match="input that the graph does not list"):
        verify(Graph([], [y]))


def test_a_cycle_is_found() -> None:
    _, x, y = well_formed()
    z = op("exp", y)
    y.args = (z,)
    with pytest.raises(AssertionError, match="depends on a later node"):
        verify(Graph([x], [z]))


@pytest.mark.parametrize(
    "wrong", [array_type((3,)), array_type((2,), np.float32), make_aval((2,), np.dtype(float), True)]
)
def test_a_wrong_type_is_found(wrong: Any) -> None:
    table, x, _ = well_formed()
    bad = Expr(OPS["cos"], (x,), (), wrong, table.mark(), table)
    with pytest.raises(AssertionError, match="should have type"):
        verify(Graph([x], [bad]))


def test_a_second_copy_is_found() -> None:
    table, x, y = well_formed()
    copy = Expr(OPS["sin"], (x,), (), y.aval, table.mark(), table)
    with pytest.raises(AssertionError, match="second copy"):
        verify(Graph([x], [y, copy]))
    a, b = table.input(array_type()), table.input(array_type())
    total = op("add", a, b)
    swapped = Expr(OPS["add"], (b, a), (), total.aval, table.mark(), table)
    with pytest.raises(AssertionError, match="second copy"):
        verify(Graph([a, b], [total, swapped]))


def test_a_second_copy_of_a_constant_is_found() -> None:
    table, x, _ = well_formed()
    one = table.constant(1.0, np.float64)
    copy = Expr(one.op, (), one.params, one.aval, table.mark(), table)
    with pytest.raises(AssertionError, match="second copy"):
        verify(Graph([x], [op("add", x, one), copy]))


# ------------------------------------------------------------------------------------------ copying


def test_rebuilding_replaces_nodes() -> None:
    table, x, y = well_formed()
    z = op("multiply", y, op("exp", y))
    replaced = rebuild(Graph([x], [z]), replace={y.id: x}).outputs[0]
    assert replaced is op("multiply", x, op("exp", x))
    assert substitute([z], {y.id: x})[0] is replaced
    assert substitute([], {}) == []
    assert len(table) > 0


def test_rebuilding_in_another_table_keeps_lines_and_names() -> None:
    def f(x: Any) -> Any:
        result = np.sin(x)
        return result * 2

    graph = trace(f, 1.0)
    copy = rebuild(graph, table=InternTable())
    assert copy.table is not graph.table
    assert [n.origin for n in copy.nodes if n.args] == [n.origin for n in graph.nodes if n.args]
    assert copy.table.labels[copy.inputs[0].id] == "x0"
    assert shape_of(copy) == shape_of(graph)


# ------------------------------------------------------------------------------------------ pickling


def test_pickled_graphs_come_back() -> None:
    def f(x: Any, i: Any) -> Any:
        a = np.where(x > 0, x, -0.0) * np.float32(1.5) + i
        return a[::-1], np.sum(a, keepdims=True) * np.nan

    x, i = np.array([1.0, -2.0]), np.array([3, 4])
    graph = trace(f, x, i)
    copy = pickle.loads(pickle.dumps(graph))
    verify(copy)
    assert copy.name == "f"
    assert fingerprint(copy) == fingerprint(graph)
    assert [n.origin for n in copy.nodes] == [n.origin for n in graph.nodes]
    assert [copy.table.labels.get(n.id) for n in copy.inputs] == ["x0", "x1"]
    for a, b in zip(run(copy, x, i), run(graph, x, i), strict=True):
        np.testing.assert_array_equal(a, b)
    assert fingerprint(grad_graph(copy)) == fingerprint(grad_graph(graph))


def test_captured_arrays_are_pickled_with_their_graph() -> None:
    w = np.array([1.0, 2.0])
    graph = trace(lambda x: x * w + w, 3.0)
    copy = pickle.loads(pickle.dumps(graph))
    assert len(copy.captures) == 1
    np.testing.assert_array_equal(run(copy, 3.0), [4, 8])


def test_an_input_without_use_survives_pickling() -> None:
    graph = trace(lambda x, y: x, 1.0, 2.0)
    copy = pickle.loads(pickle.dumps(graph))
    assert len(copy.inputs) == 2
    verify(copy)


def test_an_expression_alone_is_not_pickled() -> None:
    _, _, y = well_formed()
    with pytest.raises(TypeError, match="pickle its Graph"):
        pickle.dumps(y)


# ------------------------------------------------------------------------------------------ printing


def test_printed_graphs_name_types_and_lines() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0
        return y  # noqa: RET504 - the name is what is tested

    text = str(trace(f, np.ones(3)))
    head, *body, last = text.splitlines()
    assert head == "f(x0: f64[3])"
    assert body[0].startswith("  t1: f64[3] = sin(x0)")
    assert "multiply(" in body[1]
    assert "2.0" in body[1]
    assert "test_graph.py:" in body[1]
    assert last == f"  return {body[1].split(':')[0].strip()}"
    assert repr(trace(f, np.ones(3))) == "<Graph f: 1 inputs, 1 outputs, 2 ops>"


# ------------------------------------------------------------------------------------------ size

MILLION = 1_000_000


def test_a_chain_of_a_million_nodes() -> None:
    """Built, walked, verified, simplified, pickled and freed; nothing recurses."""
    limit = sys.getrecursionlimit()
    gc.disable()
    try:
        table = InternTable()
        x = table.input(array_type(), "x")
        steps = [OPS["sin"], OPS["cos"]]
        node = x
        for k in range(MILLION):
            node = table.remake(steps[k % 2], (node,), ())
        graph = Graph([x], [node])
        sys.setrecursionlimit(200)
        assert graph.node_count == MILLION
        text = pickle.dumps(graph)
        alive = weakref.ref(table)
        del table, x, node, graph
        gc.collect()
        assert alive() is None
        copy = pickle.loads(text)
        assert copy.node_count == MILLION
    finally:
        sys.setrecursionlimit(limit)
        gc.enable()
    del copy
    gc.collect()


def test_deep_graphs_are_verified_fingerprinted_and_simplified() -> None:
    limit = sys.getrecursionlimit()
    graph = trace(lambda x: _deep(x, 20_000), 0.5)
    sys.setrecursionlimit(200)
    try:
        verify(graph)
        form = canonical(graph)
        assert fingerprint(form) == fingerprint(graph)
        assert simplify(graph).node_count == graph.node_count
    finally:
        sys.setrecursionlimit(limit)


def _deep(x: Any, count: int) -> Any:
    for _ in range(count):
        x = np.sin(x)
    return x
