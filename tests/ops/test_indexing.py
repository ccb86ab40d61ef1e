"""Positions that are data: counted from the end like NumPy's, refused outside of the array like NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

X = np.array([10.0, 11.0, 12.0, 13.0])
BACKENDS = [pytest.param("numpy"), pytest.param("c", marks=pytest.mark.c_backend)]

both = pytest.mark.parametrize("backend", BACKENDS)


@both
def test_every_position_in_and_beside_an_array(backend):
    f = sg.compile(lambda x, i: x[i] * 2, backend=backend)
    for i in range(-13, 13):
        if -4 <= i < 4:
            assert f(X, np.int64(i)) == 2 * (10 + i % 4)
        else:
            with pytest.raises(IndexError):
                f(X, np.int64(i))
    assert f.cache_info().traces == 1


@both
@pytest.mark.parametrize("outside", [-9, -8, -5, 4, 7])
def test_one_position_of_many_is_outside(backend, outside):
    f = sg.compile(lambda x, i: np.sum(x[i]), backend=backend)
    assert f(X, np.array([-4, 3, -1])) == 10 + 13 + 13
    with pytest.raises(IndexError):
        f(X, np.array([-4, outside, -1]))


@both
def test_gradient_where_the_position_is_data(backend):
    g = sg.compile(sg.grad(lambda x, i: x[i] ** 2), backend=backend)
    np.testing.assert_array_equal(g(X, np.int64(-4)), [20.0, 0.0, 0.0, 0.0])
    with pytest.raises(IndexError):
        g(X, np.int64(-5))


@both
@pytest.mark.parametrize("outside", [-9, -5, 4])
def test_written_position_outside(backend, outside):
    def f(x, i):
        y = x.copy()
        y[i] = 0.0
        return y

    compiled = sg.compile(f, backend=backend)
    np.testing.assert_array_equal(compiled(X, np.int64(-1)), [10.0, 11.0, 12.0, 0.0])
    with pytest.raises(IndexError):
        compiled(X, np.int64(outside))
