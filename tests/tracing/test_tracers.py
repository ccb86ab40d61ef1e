"""What a traced value knows and does besides arithmetic: shapes, loops, containers, writes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tests.core.graphs import evaluated, gradient, trace

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def seen(look: Any, *args: Any) -> Any:
    """What a function sees while it is traced."""
    found: list[Any] = []

    def f(*tracers: Any) -> Any:
        found.append(look(*tracers))
        return tracers[0]

    trace(f, *args)
    return found[0]


def test_what_is_known_while_tracing() -> None:
    assert seen(lambda x: (x.shape, x.ndim, x.size, x.dtype, len(x), x.itemsize, x.nbytes), X) == (
        (2, 3), 2, 6, np.float64, 2, 8, 48,
    )  # fmt: skip
    assert seen(lambda x: (x.shape, x.ndim, x.size, x.dtype), 2) == ((), 0, 1, np.int64)
    assert seen(lambda x: (np.shape(x), np.ndim(x), np.size(x), np.size(x, 0)), X) == ((2, 3), 2, 6, 2)
    assert seen(repr, X) == "<traced f64[2,3]>"
    assert seen(lambda x: f"{x}", 1.5) == "<traced f64[]*>"


def test_loops_and_unpacking() -> None:
    assert evaluated(lambda x: sum(row.sum() for row in x), X) == 5.5
    first, second = evaluated(lambda x: tuple(x), X)
    np.testing.assert_array_equal(first, X[0])
    np.testing.assert_array_equal(second, X[1])

    def unpacked(x: Any) -> Any:
        (a, b, c), rest = x
        return a * b + c - rest[0]

    assert evaluated(unpacked, X) == 0.5
    assert evaluated(lambda x: [v for k, v in enumerate(x[0]) if k != 1], X) == (1.0, 3.0)
    assert evaluated(lambda x: np.stack([r * k for k, r in enumerate(x)]), X).tolist() == [
        [0, 0, 0],
        [0.5, 4, -1],
    ]
    np.testing.assert_array_equal(evaluated(lambda x: np.stack(next(zip(*x, strict=True))), X), [1, 0.5])


def test_operators_that_python_swaps() -> None:
    v = np.array([2.0, 3.0])
    table = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
             "%": operator.mod, "**": operator.pow}  # fmt: skip
    for function in table.values():
        for other in (2.5, 2, v, np.float64(1.5), np.float32(1.5), np.array(2.0)):
            np.testing.assert_array_equal(
                evaluated(lambda x, f=function, o=other: f(x, o), v), function(v, other)
            )
            np.testing.assert_array_equal(
                evaluated(lambda x, f=function, o=other: f(o, x), v), function(other, v)
            )
    assert evaluated(lambda x: divmod(x, 2.0), 7.5) == (3.0, 1.5)
    assert evaluated(lambda x: divmod(7.5, x), 2.0) == (3.0, 1.5)


def test_arrays_in_lists_and_nested_lists() -> None:
    np.testing.assert_array_equal(evaluated(lambda x: x + [1.0, 2.0, 3.0], X), X + [1, 2, 3])  # noqa: RUF005 - arithmetic
    np.testing.assert_array_equal(
        evaluated(lambda x: np.stack([x[0], [x[0, 0], 2.0, 3.0]]), X), [X[0], [1, 2, 3]]
    )
    np.testing.assert_array_equal(
        evaluated(lambda x: np.concatenate([x[0], [x[0, 0], 7.0]]), X), [1, -2, 3, 1, 7]
    )


def test_results_may_be_nested() -> None:
    graph = trace(lambda x: {"a": x[0], "b": [x[1] * 2, 3.0]}, X)
    assert [o.shape for o in graph.outputs] == [(3,), (3,), ()]
    assert trace(lambda x: 3.0, X).outputs[0].value == 3
    assert trace(lambda x: np.ones(2), X).outputs[0].shape == (2,)
    assert trace(lambda x: None, X).outputs == ()


def test_an_array_captured_by_the_function_is_held_by_reference() -> None:
    w = np.array([1.0, 2.0, 3.0])
    graph = trace(lambda x: x * w + w, X)
    (capture,) = graph.captures
    assert capture.params[0][1].array is w
    np.testing.assert_array_equal(evaluated(lambda x: x * w, X), X * w)
    assert not trace(lambda x: x * np.array(2.0), X).captures


WRITES = {
    "element": lambda y: y.__setitem__((0, 1), 9.0),
    "row": lambda y: y.__setitem__(1, y[0] * 2),
    "column": lambda y: y.__setitem__((slice(None), 0), 1.0),
    "reversed slice": lambda y: y.__setitem__((0, slice(None, None, -1)), y[1]),
    "step": lambda y: y.__setitem__((slice(None), slice(None, None, 2)), 0.0),
    "integer array": lambda y: y.__setitem__((slice(None), [2, 0]), y[:, :2]),
    "repeated index": lambda y: y.__setitem__((0, [1, 1]), np.array([5.0, 6.0])),
    "static mask": lambda y: y.__setitem__(np.array([True, False]), 7.0),
    "traced mask": lambda y: y.__setitem__(y > 0, 0.0),
    "whole": lambda y: y.__setitem__(slice(None), y * y),
    "broadcast": lambda y: y.__setitem__(..., np.array([1.0, 2.0, 3.0])),
    "through a view": lambda y: y[0].__setitem__(2, 8.0),
    "through a transpose": lambda y: y.T.__setitem__(0, np.array([5.0, 6.0])),
    "through a reshape": lambda y: y.reshape(-1).__setitem__(4, 5.0),
    "through a view of a view": lambda y: y[1][1:].__setitem__(0, 3.0),
    "np.add.at": lambda y: np.add.at(y, ([0, 0], [1, 1]), 2.0),
    "np.multiply.at": lambda y: np.multiply.at(y, ([0, 0, 1], [1, 1, 2]), [2.0, 3.0, 4.0]),
    "np.negative.at": lambda y: np.negative.at(y, (0, [0, 2])),
    "fill": lambda y: y.fill(3.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_mean_what_they_mean_in_numpy(name: str) -> None:
    write = WRITES[name]

    def f(x: Any) -> Any:
        y = x * 1.0
        before = np.sum(y)
        write(y)
        return y * 2 + before

    np.testing.assert_array_equal(evaluated(f, X), f(X))
    found = gradient(lambda x: np.sum(f(x) * np.arange(6.0).reshape(2, 3)), X)
    for position in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[position] = 2.0**-20
        slope = np.sum((f(X + step) - f(X - step)) * np.arange(6.0).reshape(2, 3)) / 2.0**-19
        np.testing.assert_allclose(found[position], slope, rtol=1e-6, atol=1e-6)


IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow]


@pytest.mark.parametrize("function", IN_PLACE, ids=lambda f: f.__name__)
def test_operators_in_place(function: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        view = y[0]
        y = function(y, 2.0)
        return y + view

    np.testing.assert_array_equal(evaluated(f, X), f(X))


def test_a_number_is_not_changed_in_place() -> None:
    def f(x: Any) -> Any:
        y = x
        y += 1
        return x * 10 + y

    assert evaluated(f, 2.0) == 23
