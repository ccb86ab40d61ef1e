"""Writes into arrays have NumPy's meaning, also through views, and are differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture(params=["numpy", "c"], autouse=True)
def backend(request):
    with sg.config(backend=request.param):
        yield request.param


def numerical_gradient(f, x, h=1e-6):
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += h
        down[index] -= h
        gradient[index] = (f(up) - f(down)) / (2 * h)
    return gradient


def slices(x):
    y = x * 1.0
    y[1:4] = y[1:4] ** 2
    y[::-2] += x[0]
    y[-1] = 3.0
    return y


def views(x):
    y = x * 2.0
    v = y[1:]
    w = v[::2]
    w *= 3.0
    v[0] = v[1] + y[0]
    y += 1.0
    return np.concatenate([y, v, w])


def reshaped(x):
    y = x + 0.0
    m = y.reshape(2, 3)
    m.T[0] = m[:, 1] * 5.0
    m[1] -= m[0]
    copy = y.reshape(3, 2).T.ravel()
    copy[0] = 100.0
    return y * np.arange(6.0) + copy


def indices(x):
    y = np.zeros(6)
    y[[0, 0, 3]] = x[:3]
    y[np.array([1, 2])] += x[3:5] * 2.0
    np.add.at(y, [4, 4, 5], x[:3])
    return y


def masks(x):
    y = x.copy()
    y[np.array([True, False, True, False, True, False])] = x[:3]
    y[x > 1.0] *= 2.0
    y[y < 0] = 0.0
    return y


def swapped(x):
    y = x.copy()
    y[[0, 2]] = y[[2, 0]]
    y[1], y[3] = y[3], y[1]
    return y * np.arange(1.0, 7.0)


def functions(x):
    y = np.empty_like(x)
    np.multiply(x, x, out=y)
    np.add(y, x, out=y[:6])
    m = np.zeros((3, 3))
    np.fill_diagonal(m, x[:3])
    m.fill(2.0)
    np.copyto(m[0], x[3:])
    np.put(y, [0, 2], x[1] * 3.0)
    z = x.copy()
    z.sort()
    return np.concatenate([y, m.ravel(), z * np.arange(6.0)])


def aliases(x):
    y = x * 1.0
    z = y
    z += x
    z[0] = 7.0
    return y


def running(x):
    h = np.zeros(len(x))
    h[0] = x[0]
    for i in range(1, len(x)):
        h[i] = 0.5 * h[i - 1] + x[i] ** 2
    return h


PROGRAMS = [slices, views, reshaped, indices, masks, swapped, functions, aliases, running]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_values_and_gradients(program):
    x = np.array([0.5, -1.2, 2.3, 0.7, 1.4, -0.3])
    weights = np.cos(np.arange(program(x).size))
    np.testing.assert_allclose(sg.compile(program)(x), program(x), rtol=1e-15)

    def loss(x):
        return np.sum(program(x).ravel() * weights)

    np.testing.assert_allclose(sg.grad(loss)(x), numerical_gradient(loss, x), rtol=1e-7, atol=1e-8)


def test_arguments_are_written_to_as_numpy_would():
    def f(x, y):
        x[1:] *= 2.0
        y[0, :] = x[0]
        return np.sum(x * y[0])

    x, y = np.array([1.0, 2.0, 3.0]), np.ones((2, 3))
    plain = x.copy(), y.copy()
    expected = f(*plain)
    for transform in (sg.compile, sg.grad):
        made = transform(f)
        for _ in range(3):
            given = x.copy(), y.copy()
            result = made(*given)
            np.testing.assert_array_equal(given[0], plain[0])
            np.testing.assert_array_equal(given[1], plain[1])
            if transform is sg.compile:
                assert result == expected
            else:
                np.testing.assert_array_equal(result, [sum([1.0, 4.0, 6.0]) + 1.0, 2.0, 2.0])


def test_captured_arrays_are_written_to_as_numpy_would():
    total = np.zeros(2)

    def f(x):
        total[:] = total + x
        return np.sum(total)

    made = sg.compile(f)
    assert [made(np.ones(2)) for _ in range(3)] == [2.0, 4.0, 6.0]
    np.testing.assert_array_equal(total, [3.0, 3.0])


def test_values_are_cast_to_the_array_written_to():
    def f(x):
        counts = np.zeros(2, dtype=int)
        counts[0] = x[0]
        return counts

    np.testing.assert_array_equal(sg.compile(f)(np.array([2.7])), [2, 0])

    def g(x):
        counts = np.zeros(1, dtype=int)
        counts += x
        return counts

    with pytest.raises(TypeError, match="does not fit into an array of dtype int64"):
        sg.compile(g)(np.array([2.7]))


@pytest.mark.parametrize("n", [50, 100])
def test_writes_of_single_elements_in_a_loop_cost_a_few_operations_each(n):
    def f(x):
        h = np.zeros(n)
        for i in range(n):
            h[i] = x[i] * 2.0 + (h[i - 1] if i else 0.0)
        return h[n - 1]

    forward, backward = sg.compile(f), sg.grad(f)
    x = np.ones(n)
    assert forward(x) == 2.0 * n
    np.testing.assert_array_equal(backward(x), np.full(n, 2.0))
    assert forward.graph(x).node_count <= 4 * n
    assert backward.graph(x).node_count <= 2 * n


@pytest.mark.parametrize("backend", ["numpy", pytest.param("c", marks=pytest.mark.c_backend)])
def test_an_answer_for_arrays_in_c_order_is_not_given_for_others(backend: str) -> None:
    ordered = np.arange(6.0).reshape(2, 3)
    f = sg.compile(lambda x: x.ravel(order="K") * 1.0, backend=backend)
    assert f(ordered).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(sg.errors.TraceError, match="memory order of an argument"):
        f(np.asfortranarray(ordered))
    assert f(ordered).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
