"""Dtypes and number types as traced functions see them: comparisons answer as NumPy's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import agrees

X = np.array([1.0, 2.0])

LINES = """
x.dtype.type is np.float64
x.dtype.type is np.float32
x.dtype.type in (np.float32, np.float16)
x.dtype == np.float64
x.dtype == "f8"
x.dtype != np.float32
x.dtype in (np.float64, np.float32)
x.dtype is np.dtype("float64")
np.dtype("f8").type is np.float64
np.dtype(float) == x.dtype
np.dtype(np.float32).type is np.float32
np.issubdtype(x.dtype, np.floating)
np.issubdtype(x.dtype.type, np.float64)
np.isdtype(x.dtype, "real floating")
np.can_cast(x.dtype, np.float32)
issubclass(x.dtype.type, np.floating)
isinstance(x.dtype, np.dtype)
isinstance(x.dtype.type(2), np.float64)
np.result_type(x, 1).type is np.float64
np.result_type(x.dtype, np.float32) == x.dtype
np.sum(x).dtype.type is np.float64
np.ones(2).dtype.type is np.float64
np.array([1, 2]).dtype.type is np.int64
x.dtype.kind == "f" and x.dtype.char == "d" and x.dtype.name == "float64" and x.dtype.itemsize == 8
str(x.dtype) == "float64" and repr(x.dtype) == "dtype('float64')"
{np.float64: True}[x.dtype.type]
{x.dtype: True}[np.dtype(float)]
x.dtype >= np.dtype(np.float32)
type(x.dtype) is type(np.dtype(float))
x.dtype.newbyteorder("=") == x.dtype
""".strip().splitlines()


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_comparisons(line: str, dtype: Any) -> None:
    names: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    return x * (2 if {line} else 3)", names)
    try:
        agrees(names["f"], "numpy", (X.astype(dtype),))
    except KeyError:
        assert dtype is np.float32


def test_they_are_taken_as_dtypes() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(2, dtype=x.dtype) + x.astype(np.int64).astype(x.dtype)
        return y + np.finfo(x.dtype).eps, np.sum(x, dtype=x.dtype), np.full_like(y, 2, dtype=x.dtype), x.astype(
            np.dtype("f4")
        )

    agrees(f, "numpy", (X,), (X.astype(np.float32),))


def test_what_is_kept_outside_is_numpys_own() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x.dtype)
        return x * len(pickle.dumps(x.dtype)) * 0

    with pytest.warns(sg.errors.SideEffectWarning):
        sg.compile(f, backend="numpy")(X)
    assert kept[0] is X.dtype
