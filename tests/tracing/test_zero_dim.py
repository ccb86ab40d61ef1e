"""Arrays without axes: writes reach the caller's array and captured ones, as NumPy's do."""

from __future__ import annotations

import copy
import functools
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


def added(x):
    y = x
    x += 2
    y *= x
    return x * 1, y * 2


def sent_on(x):
    x -= 1
    added(x)
    x **= 2
    return x + 1


VIEWS: dict[str, Any] = {
    "asarray": np.asarray,
    "asanyarray": np.asanyarray,
    "asarray of the dtype": lambda x: np.asarray(x, dtype=x.dtype),
    "transpose": lambda x: x.T,
    "np.transpose": np.transpose,
    "reshape": lambda x: x.reshape(()),
    "ravel": lambda x: x.ravel(),
    "a new axis": lambda x: x[None],
    "new axes": lambda x: x[..., None, None],
    "ellipsis": lambda x: x[...],
    "atleast_1d": np.atleast_1d,
    "squeeze": np.squeeze,
    "astype": lambda x: x.astype(x.dtype, copy=False),
    "itself": lambda x: x,
}
COPIES: dict[str, Any] = {
    "np.array": np.array,
    "np.copy": np.copy,
    "copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "astype": lambda x: x.astype(x.dtype),
    "zeros_like": np.zeros_like,
    "full_like": lambda x: np.full_like(x, 2.0),
    "where": lambda x: np.where(x > 0, x, -x),
    "broadcast_to": lambda x: np.broadcast_to(x, ()).copy(),
    "an item": lambda x: x[()],
    "positive": lambda x: +x,
    "zeros": lambda x: np.zeros(()),
    "array of a number": lambda x: np.array(4.0),
    "full": lambda x: np.full((), 3.0),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [*VIEWS])
def test_views(kind: str, backend: str) -> None:
    make = VIEWS[kind]

    def f(x: Any) -> Any:
        view = make(x)
        x += 1
        before = view * 2
        view *= 3
        view[...] = view + before
        return x * 1, view * 1, before * x

    agrees(f, backend, (np.array(3.0),), (np.array(-1.5),))
    agrees(lambda v: f(v[0, ...]), backend, (np.array([3.0, 4.0]),))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [*COPIES])
def test_copies(kind: str, backend: str) -> None:
    make = COPIES[kind]

    def add_to(total: Any, x: Any) -> None:
        total += x

    def f(x: Any) -> Any:
        made = make(x)
        alias = made
        add_to(made, x * 2)
        x *= 2
        return made * 1, alias * 1, x * 1

    agrees(f, backend, (np.array(3.0),), (np.array(-1.5),))


def test_results_of_functions_on_scalars_are_arrays_where_numpys_are() -> None:
    def add_to(total: Any, x: Any) -> None:
        total += x

    for kind in ("np.array", "np.copy", "zeros_like", "full_like", "where", "zeros"):
        make = COPIES[kind]

        def f(x: Any, make: Any = make) -> Any:
            made = make(x)
            add_to(made, x * x)
            return made * 1

        agrees(f, "numpy", (np.float64(3.0),))
    assert sg.grad(f)(3.0) == 6.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_items_with_an_ellipsis_share_memory(backend: str) -> None:
    def f(v: Any, m: Any) -> Any:
        s = v[0, ...]
        t = m[..., 1, 0]
        single = np.squeeze(v[1:2])
        s += 1
        t *= s
        single -= t
        return v * 2, m * 1

    agrees(f, backend, (np.array([1.0, 2.0]), np.arange(6.0).reshape(3, 2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_without_axes_of_arrays_that_are_known(backend: str) -> None:
    def f(x: Any) -> Any:
        b, c, d = np.zeros(3), np.ones((3, 1)).copy(), np.empty_like(x)
        for k in range(3):
            t = b[k, ...]
            t += x[k]
            t *= 2
            np.multiply(x[k], 2, out=d[k, ...])
        u = c[2].squeeze()
        u -= x[0]
        v = b[0:1].reshape(())
        v[...] = v + 1
        w = c[0, ..., 0]
        w[()] = x[1]
        return b, c, d, b[1] * 2

    agrees(f, backend, (np.array([1.5, -2.0, 3.25]),))
    assert sg.grad(lambda x: f(x)[3])(np.array([1.5, -2.0, 3.25]))[1] == 4.0


def test_what_they_are() -> None:
    def f(x: Any) -> Any:
        item = np.asarray(x)[()]
        kinds = (isinstance(x, np.ndarray), np.isscalar(x), isinstance(x, np.floating), isinstance(item, np.ndarray))
        return x * 1, [float(k) for k in kinds]

    for x in (np.array(3.0), np.float64(3.0)):
        agrees(f, "numpy", (x,))
    for bad in (len, list, hash):
        with pytest.raises(TypeError, match=r"unsized|0-d array|unhashable"):
            sg.compile(lambda x, bad=bad: x * bad(x))(np.array(2.0))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [everything, nothing, filled, given_as_out, added, sent_on])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_written_arguments(f: Any, dtype: Any, backend: str) -> None:
    agrees(f, backend, (np.array(3.0, dtype),), (np.array(-1.5, dtype),))


@pytest.mark.parametrize("f", [everything, nothing, given_as_out])
def test_scalars_cannot_be_written_to(f: Any) -> None:
    compiled = sg.compile(f)
    compiled(np.array(3.0))
    for _ in range(3):
        with pytest.raises(sg.TraceError, match=r"test_zero_dim.py:\d+"):
            compiled(np.float64(3.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_adding_in_place_replaces_a_scalar_and_changes_an_array(backend: str) -> None:
    def f(x: Any, kept: Any) -> Any:
        x += 1
        kept += x
        return x * kept

    compiled = sg.compile(f, backend=backend)
    for _ in range(4):
        scalar, array = np.float64(2.0), np.array(5.0)
        assert compiled(scalar, array) == 24.0
        assert (scalar, array) == (2.0, 8.0)
        first, second = np.array(2.0), np.float64(5.0)
        assert compiled(first, second) == 24.0
        assert (first, second) == (3.0, 5.0)


def test_derivatives_of_functions_that_write_to_arguments() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        x *= y
        return np.sum(x) * 2

    for make in (sg.grad, sg.value_and_grad, sg.jacobian, sg.hessian, lambda f: functools.partial(sg.vjp, f)):
        for x in (np.array(3.0), np.array([3.0, 5.0])):
            given = x.copy()
            made = make(f)
            for _ in range(3):
                given[...] = x
                made(given)
                np.testing.assert_array_equal(given, x**2)
    x, dx = np.array(3.0), np.array(1.0)
    assert sg.jvp(f, (x,), (dx,)) == (18.0, 12.0)
    assert (x, dx) == (9.0, 1.0)


def test_a_pullback_belongs_to_the_arguments_as_they_were() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        x *= y
        return np.sum(x) * 2

    for x in (np.array(3.0), np.array([3.0, 5.0])):
        given = x.copy()
        _, pullback = sg.vjp(f, given)
        given[...] = 7.0
        for _ in range(3):
            np.testing.assert_array_equal(pullback(1.0)[0], 4 * x)
            np.testing.assert_array_equal(given, np.full_like(x, 7.0))

    def inside(x: Any) -> Any:
        y = x * 1.0
        _, pullback = sg.vjp(f, y)
        y *= 10.0
        return np.sum(pullback(1.0)[0] * y)

    x = np.array([3.0, 5.0])  # the sum of 4·x·10·x²
    np.testing.assert_allclose(sg.grad(inside)(x), 120 * x**2)


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
