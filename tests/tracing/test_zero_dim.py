"""Arrays without axes: writes reach the caller's array and captured ones, as NumPy's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS, agrees

COUNTER = np.array(2.0)
WHOLE = np.array(3, np.int8)


@pytest.fixture(autouse=True)
def _as_before() -> None:
    COUNTER[...] = 2.0
    WHOLE[...] = 3


def everything(x):
    x[...] = 8.0
    return x * 2


def nothing(x):
    before = x * 1
    x[()] = before + x
    return before, x * 2


def filled(x):
    x.fill(7)
    y = x[...]
    y[()] = x + y
    return x[()] * 2, +x


def given_as_out(x):
    np.add(x, 1, out=x)
    np.copyto(x, x * 3)
    return x * 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [everything, nothing, filled, given_as_out])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_written_arguments(f: Any, dtype: Any, backend: str) -> None:
    compiled = agrees(f, backend, (np.array(3.0, dtype),), (np.array(-1.5, dtype),))
    with pytest.raises(TypeError):
        compiled(np.float64(3.0))  # a scalar cannot be written to


def test_what_is_no_write() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        x = x + 1
        return x * 2, y * 1

    agrees(f, "numpy", (np.array(3.0),), (np.float64(3.0),))
    agrees(lambda x: x.__setitem__(0, 1.0), "numpy", (np.array(3.0),))
    agrees(lambda x: np.add(x, 0.5, out=x), "numpy", (np.array(3),))


@pytest.mark.parametrize("backend", BACKENDS)
def test_written_captured_arrays(backend: str) -> None:
    def f(x: Any) -> Any:
        counter, whole = COUNTER, WHOLE
        counter += x
        counter *= 2
        whole -= 1
        WHOLE[...] = whole * 2
        return x * counter + WHOLE

    wanted = [f(3.0), f(1.5), float(COUNTER), int(WHOLE)]
    COUNTER[...], WHOLE[...] = 2.0, 3
    compiled = sg.compile(f, backend=backend)
    assert [compiled(3.0), compiled(1.5), float(COUNTER), int(WHOLE)] == wanted


def test_slopes_see_what_was_written() -> None:
    def f(x: Any) -> Any:
        COUNTER[...] = x[0] * x[1]
        local = COUNTER
        local += x[0]
        return COUNTER * x[1]

    np.testing.assert_allclose(sg.grad(f)(np.array([2.0, 3.0])), [12.0, 14.0])
    assert COUNTER == 8.0
