"""Shapes and dtypes: broadcasting and promotion against NumPy's own."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.core.aval import (
    Aval,
    aval_of,
    broadcast_shapes,
    make_aval,
    normalize_axes,
    normalize_axis,
    promote,
    reduced_shape,
    short_dtype,
)
from symgrad.errors import DtypeError, ShapeError

DTYPES = [
    np.dtype(n)
    for n in [
        "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
        "bool",
    ]
]
dtypes = st.sampled_from(DTYPES)
weak_numbers = st.sampled_from([make_aval((), np.dtype(float), True), make_aval((), np.dtype(int), True)])
strong = st.builds(lambda d: make_aval((2,), d), dtypes)
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


def as_numpy(aval: Aval) -> Any:
    """What ``np.result_type`` takes for it."""
    if aval.weak:
        return 0.0 if aval.dtype.kind == "f" else 0
    return aval.dtype


@given(st.lists(st.one_of(strong, weak_numbers), min_size=1, max_size=4))
def test_promotion_is_numpys(avals: list[Aval]) -> None:
    dtype, weak = promote(*avals)
    assert weak == all(a.weak for a in avals)
    expected = np.result_type(*[as_numpy(a) for a in avals])
    assert dtype == expected


@given(st.lists(st.one_of(strong, weak_numbers), min_size=2, max_size=3))
def test_promotion_does_not_depend_on_order(avals: list[Aval]) -> None:
    assert promote(*avals) == promote(*reversed(avals))


@given(st.lists(shapes, min_size=1, max_size=4))
@settings(max_examples=200)
def test_broadcasting_is_numpys(given_shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="cannot be broadcast"):
            broadcast_shapes(*given_shapes)
    else:
        assert broadcast_shapes(*given_shapes) == expected


@given(shapes, st.data())
def test_reduced_shapes_are_numpys(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))) if shape else ()
    keepdims = data.draw(st.booleans())
    expected = np.sum(np.zeros(shape), axis=axes, keepdims=keepdims).shape
    assert reduced_shape(shape, normalize_axes(axes, len(shape)), keepdims) == expected


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (True, "bool", False),
        (1, "int64", True),
        (1.5, "float64", True),
        (np.float64(1.5), "float64", False),
        (np.float32(1.5), "float32", False),
        (np.int8(1), "int8", False),
        (np.bool_(True), "bool", False),
        (np.array(1.5), "float64", False),
    ],
)
def test_python_numbers_are_weak(value: Any, dtype: str, weak: bool) -> None:
    assert aval_of(value) == make_aval((), np.dtype(dtype), weak)


def test_avals_of_arrays() -> None:
    assert aval_of(np.zeros((2, 3), np.float32)) == make_aval((2, 3), np.dtype("float32"))
    assert aval_of([1.0, 2.0]) == make_aval((2,), np.dtype(float))
    assert aval_of(np.zeros(2, ">f8")).dtype.isnative


@pytest.mark.parametrize("value", [np.array(["a"]), 1j, np.zeros(2, complex), np.zeros(2, object),
                                   np.zeros(1, np.longdouble), np.datetime64("2000-01-01")], ids=repr)  # fmt: skip
def test_what_cannot_be_traced(value: Any) -> None:
    with pytest.raises(DtypeError, match="cannot be traced"):
        aval_of(value)


def test_a_text_is_no_number() -> None:
    with pytest.raises(DtypeError, match=r"a text is no number\.\n  Convert it first"):
        aval_of("text")


def test_equal_avals_are_shared_and_hash_alike() -> None:
    a, b = make_aval((2,), np.dtype(float)), make_aval((2,), np.dtype(np.float64))
    assert a is b
    assert pickle.loads(pickle.dumps(a)) is a
    assert a == Aval((2,), float)
    assert hash(a) == hash(Aval((2,), float))
    assert a != make_aval((2,), np.dtype(float), True)
    assert a != make_aval((2,), np.dtype(np.float32))
    assert a != "f64[2]"


def test_weakness_belongs_to_scalars() -> None:
    weak = make_aval((), np.dtype(float), True)
    assert weak.strong() == make_aval((), np.dtype(float))
    assert not weak.with_shape((3,)).weak
    assert weak.with_shape(()).weak
    assert not weak.with_dtype("float32").weak


def test_axes() -> None:
    assert normalize_axis(-1, 3) == 2
    assert normalize_axis(np.int64(1), 3) == 1
    assert normalize_axes(None, 2) == (0, 1)
    assert normalize_axes((-1, 0), 3) == (0, 2)
    assert normalize_axes([1], 2) == (1,)
    assert normalize_axes((), 2) == ()
    with pytest.raises(ShapeError, match="axis 3 is out of bounds for an array with 3 axes"):
        normalize_axis(3, 3)
    with pytest.raises(ShapeError, match="named twice"):
        normalize_axes((0, -2), 2)


def test_text() -> None:
    assert str(make_aval((2, 3), np.dtype(float))) == "f64[2,3]"
    assert str(make_aval((), np.dtype(int), True)) == "i64[]*"
    assert [short_dtype(np.dtype(d)) for d in ("bool", "uint8", "float32", "complex64")] == [
        "bool",
        "u8",
        "f32",
        "c64",
    ]
