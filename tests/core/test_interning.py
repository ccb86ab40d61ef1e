"""Structurally equal ⇔ the same object, for nodes, numbers and constants of one table."""

from __future__ import annotations

import gc
import struct
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad.core.expr import Expr, InternTable
from symgrad.core.op import OPS
from tests.core.graphs import array_type

NAMES = ["add", "multiply", "subtract", "divide", "maximum"]
programs = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12
)


def build(table: InternTable, inputs: list[Expr], program: list[tuple[str, int, int]]) -> list[Expr]:
    nodes = list(inputs)
    for name, i, j in program:
        nodes.append(table.make(OPS[name], [nodes[i % len(nodes)], nodes[j % len(nodes)]]))
    return nodes


def structure(node: Expr) -> Any:
    """The whole tree below a node, with operands of commutative operations in one order."""
    if not node.args:
        return node.params
    below = [structure(a) for a in node.args]
    return (node.op.name, *(sorted(below, key=repr) if node.op.commutative else below))


@given(programs)
def test_equal_structure_is_one_object(program: list[tuple[str, int, int]]) -> None:
    table = InternTable()
    inputs = [table.input(array_type()) for _ in range(2)]
    nodes = build(table, inputs, program)
    again = build(table, inputs, program)
    assert all(a is b for a, b in zip(nodes, again, strict=True))
    found: dict[str, Expr] = {}
    for node in nodes:
        assert found.setdefault(repr(structure(node)), node) is node
    assert len({id(n) for n in found.values()}) == len(found)


def test_operands_of_commutative_operations_may_be_exchanged() -> None:
    table = InternTable()
    x, y = table.input(array_type()), table.input(array_type())
    for name, op in OPS.items():
        if op.commutative and op.infer.__name__ == "same_dtype":
            assert table.make(op, [x, y]) is table.make(op, [y, x]), name
    for name in ("subtract", "divide", "power", "arctan2", "remainder"):
        assert table.make(OPS[name], [x, y]) is not table.make(OPS[name], [y, x])


def test_inputs_are_never_merged() -> None:
    table = InternTable()
    assert table.input(array_type()) is not table.input(array_type())


def distinct(values: list[Any]) -> bool:
    table = InternTable()
    return len({id(table.constant(v)) for v in values}) == len(values)


def test_numbers_that_python_holds_equal_stay_apart() -> None:
    assert distinct(
        [True, 1, 1.0, np.float64(1.0), np.float32(1.0), np.int64(1), np.int32(1), np.bool_(True)][:7]
    )
    assert distinct([0.0, -0.0, 0, False])
    assert distinct([np.array(1.0), np.array([1.0]), np.array([[1.0]])])
    assert distinct([np.array([0.0]), np.array([-0.0])])
    table = InternTable()
    assert table.constant(np.bool_(True)) is table.constant(True)


def test_every_nan_keeps_its_bits() -> None:
    quiet = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000))[0]
    payload = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]
    negative = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
    values = [np.float64(quiet), np.float64(payload), np.float64(negative)]
    table = InternTable()
    assert len({id(table.constant(v)) for v in values}) == 3
    assert table.constant(values[1]) is table.constant(values[1])
    assert table.constant(np.nan) is table.constant(float("nan"))


@given(st.floats(width=64), st.floats(width=64))
def test_constants_are_one_when_their_bits_are(a: float, b: float) -> None:
    table = InternTable()
    same = struct.pack("<d", a) == struct.pack("<d", b)
    assert (table.constant(np.float64(a)) is table.constant(np.float64(b))) == same


def test_a_constant_does_not_follow_its_array() -> None:
    table = InternTable()
    array = np.array([1.0, 2.0])
    node = table.constant(array)
    array[0] = 5.0
    assert node.value is not None
    assert node.value.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        node.value[0] = 3.0


def test_captured_arrays_are_told_apart_by_identity() -> None:
    table = InternTable()
    a, b = np.ones(3), np.ones(3)
    assert table.capture(a) is table.capture(a)
    assert table.capture(a) is not table.capture(b)
    a[0] = 7.0
    assert table.capture(a).params[0][1].array is a


def test_parameters_are_part_of_the_identity() -> None:
    table = InternTable()
    x = table.input(array_type((2, 3)))
    rows, columns = (table.make(OPS["sum"], [x], {"axis": (k,)}) for k in (0, 1))
    assert rows is not columns
    assert rows is table.make(OPS["sum"], [x], {"axis": (0,)})


def test_weak_and_strong_numbers_stay_apart() -> None:
    table = InternTable()
    weak, strong = table.constant(2.0), table.constant(np.float64(2.0))
    assert weak is not strong
    assert weak.aval.weak
    assert table.strong(weak) is strong


def test_a_node_has_no_truth_value_and_is_equal_to_itself_alone() -> None:
    table = InternTable()
    x, y = table.input(array_type()), table.input(array_type())
    with pytest.raises(TypeError, match="no truth value"):
        bool(x)
    assert x == x
    assert x != y
    assert len({x, y, x}) == 2


def test_operands_have_smaller_numbers() -> None:
    table = InternTable()
    x = table.input(array_type())
    nodes = build(table, [x], [("add", 0, 0), ("multiply", 1, 0), ("subtract", 2, 1)])
    for node in nodes:
        assert all(a.id < node.id for a in node.args)


def test_a_table_dies_with_its_expressions() -> None:
    table = InternTable()
    node = table.make(OPS["sin"], [table.input(array_type())])
    alive = weakref.ref(table)
    del table
    assert alive() is not None, "an expression keeps its table"
    del node
    gc.collect()
    assert alive() is None
