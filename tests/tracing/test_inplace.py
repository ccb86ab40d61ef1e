"""In-place code: arrays that are written to behave as NumPy's, and derivatives see the values at each time."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS, agrees, slopes_agree

X = np.array([0.7, -1.2, 2.3, 0.4, -0.6])
M = np.array([[0.3, -1.1, 0.8, 1.7], [-0.5, 0.9, 2.1, -1.4], [1.2, -0.2, 0.6, -0.8]])
WEIGHTS = np.array([[1.0, -2.0, 3.0, 0.5], [4.0, 1.5, -1.0, 2.0], [-3.0, 2.5, 1.0, 5.0]])

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def elements(x):
    y = x.copy()
    y[1] = 3.0
    y[-1] += x[0]
    y[::2] *= 2
    y[1:4] = x[::-1][:3]
    y[::-1][0] = 7.0
    y[...] -= x
    return (y * y).sum() * y[1]


def several_at_once(x):
    y = x.copy()
    y[0] = y[1] = x[3] * x[4]
    y[2], y[3] = y[3], y[2]
    y[[1, 2]] = y[[2, 1]]
    y[[0, 4]] += [1.0, 2.0]
    return (y * np.arange(1.0, 6.0)).sum() + y[2] * y[4]


def repeated_positions(x):
    y = x.copy()
    y[[0, 0, 1]] += 1.0  # once, as in NumPy
    y[[2, 2]] = x[:2]  # the last one stays
    np.add.at(y, [0, 0, 1], x[1:4])  # each
    np.subtract.at(y, ([1, 1],), 0.5)
    np.multiply.at(y, [3, 3], 2.0)
    np.negative.at(y, [4])
    np.maximum.at(y, [0, 1], x[:2])
    return (y * y).sum()


def functions_that_write(x):
    y = np.empty_like(x)
    np.copyto(y, x)
    np.copyto(y, 0.5, where=x > 1)
    np.put(y, [4, -2], [1.0, 2.0])
    np.put(y, [7, -9], x[:2], mode="wrap")
    np.put(y, [99], x[2], mode="clip")
    y.put([1], x[0])
    np.putmask(y, x < -1, x[[1, 0]])
    z = x.copy()
    np.place(z, x < 0, [1.0, 2.0])
    w = x * 0
    w.fill(x[0])
    return (y * np.arange(1.0, 6.0)).sum() + (z * z).sum() * w[3]


def out_arguments(x):
    y = np.empty_like(x)
    np.multiply(x, 2, out=y)
    np.add(y, 1, y)
    np.multiply(y, y, out=y[:])
    np.subtract(y, x, out=(y,))
    np.add(y, 1, out=y, where=np.array([True, False, True, False, True]))
    np.multiply(y, x, out=y, where=x > 0)
    np.cumsum(y, out=y)
    y.cumsum(out=y)
    np.clip(y, -50.0, 50.0, out=y)
    return (y * np.arange(1.0, 6.0)).sum()


def matrix(m):
    y = m.copy()
    y[0] += y[1]
    y[:, 1] *= 2
    y[1:, ::2] = 0.5
    y[..., -1] -= y[..., 0]
    y[0, [1, 2]] = m[2, 2] * 7
    y[[0, 1], [2, 3]] += 1
    y[2, ...] = m[0]
    y[:, None][1, 0, 2] = m[1, 1]
    return (y * y * WEIGHTS).sum()


def diagonals(m):
    square = m[:, :3].copy()
    np.fill_diagonal(square, m[0, 3])
    tall = np.zeros_like(m.T)
    np.fill_diagonal(tall, [1.0, 2.0])
    wrapped = np.zeros_like(m.T)
    np.fill_diagonal(wrapped, m[0, 0], wrap=True)
    return (square * square).sum() + (tall * m.T).sum() + (wrapped * m.T).sum()


def along_axes(m):
    y = m.copy()
    np.put_along_axis(y, np.argmax(m, axis=1)[:, None], 0.0, axis=1)
    np.put_along_axis(y, np.array([[1], [0], [2]]), m[:, :1] * 2, 1)
    return (y * y * WEIGHTS).sum()


def sorted_in_place(m):
    y = m.copy()
    y.sort(axis=0)
    z = m.copy()
    z.sort()
    z[:, 1].sort()
    return (y * WEIGHTS).sum() + (z * WEIGHTS).sum()


def flat_elements(m):
    y = m.copy()
    y.flat[3] = 7.0
    y.T.flat[1] = m[0, 0]
    y.flat[[0, 3]] = [1.0, 2.0]
    y.T.flat[2:4] = m[1, 1] * 9
    total = sum(v for v in y.flat)
    z = m.copy()
    z.flat = [1.0, m[0, 0]]
    return total + y.flat[5] + (z * WEIGHTS).sum()


def static_masks(x):
    y = x.copy()
    m = np.array([True, False, True, True, False])
    y[m] *= 3
    y[~m] = x[:2]
    y[np.array([0, 2])[m[:2].nonzero()[0]]] = 5.0
    return (y * y).sum() + y[1] * y[4]


def traced_masks(x):
    y = x.copy()
    y[y > 2] = x[0]
    y[x < 0] *= 2
    y[x > 0.5] = x[x > 0.5] * x[3]
    y[(x > 0) & (x < 1)] += 1.0
    return (y * y).sum()


def traced_masks_of_matrices(m):
    y = m.copy()
    y[m > 1.5] = m[0, 0]
    y[:, m[0] > 0.5] = 0.25
    y[m[:, 0] > 0] *= 2
    y[m[:, 0] < 0] = m[2]
    y[y < -1] = y[0, 0]
    return (y * y * WEIGHTS).sum()


def traced_positions(x):
    y = x.copy()
    i = np.argmax(x)
    y[i] = 5 * x[0]
    y[np.argmin(x)] += x[3]
    y[np.argsort(x)] = np.arange(5.0) * x[1]
    y[np.argsort(x)[:3]] += x[:3]
    return (y * y).sum() + y[i]


def traced_positions_of_matrices(m):
    y = m.copy()
    k = np.argmax(m, axis=1)
    y[np.arange(3), k] = 0
    y[np.arange(3), k] -= m[:, 0]
    j = np.argmax(m[0])
    y[:, j] *= 2
    y[1, j] = m[0, 0]
    y[j - 1, 1:3] = m[0, :2]
    y[k % 3] += 1  # rows; repeated ones count once
    return (y * y * WEIGHTS).sum()


def aliases(x):
    y = x.copy()
    z = y
    z += 1
    w = y[:]
    w *= x
    y[1:] = y[:-1]
    y[:3] += y[2:]
    y[::-1] = y
    return (y * np.arange(1.0, 6.0)).sum() + (w * z).sum()


def nested_loops(m):
    y = m * 0
    for i in range(3):
        for j in range(4):
            y[i, j] = m[i, j] ** 2 + (y[i - 1, j] if i else 0) - (y[i, j - 1] if j else 0)
    return y[-1, -1] * y[1, 2] + y[1].sum()


def rows_in_a_loop(m):
    d = np.zeros_like(m)
    d[0] = m[0]
    for t in range(1, 3):
        d[t] = d[t - 1] * m[t] * 2
        d[t, 1:3] += d[t - 1, ::2]
    for row in d:
        row[0] = row[1] * row[2]
    a, b, _ = d
    a[:] = b
    return d[-1].sum() + (d * WEIGHTS).sum() + d[:, 1].sum()


def columns_in_a_loop(m):
    d = np.zeros_like(m)
    for j in range(4):
        d[:, j] = m[:, j] + (d[:, j - 1] if j else 0)
        d[j % 3, :j] *= 2
    return (d * d).sum()


def small_first_axis(m):
    d = np.ones_like(m[None] * np.ones((2, 1, 1)))
    d[0, 1] = m[1]
    d[1] *= m
    d[1, :, 0] += m[:, 3]
    d[0, 2, 1:3] = d[1, 0, :2]
    return (d * WEIGHTS).sum() + d[1, 2, 3] ** 2


ON_LINES = [
    elements, several_at_once, repeated_positions, functions_that_write, out_arguments, static_masks,
    traced_masks, traced_positions, aliases,
]  # fmt: skip
ON_MATRICES = [
    matrix, diagonals, along_axes, sorted_in_place, flat_elements, traced_masks_of_matrices,
    traced_positions_of_matrices, nested_loops, rows_in_a_loop, columns_in_a_loop, small_first_axis,
]  # fmt: skip


@pytest.mark.parametrize("f", ON_LINES, ids=lambda f: f.__name__)
def test_lines_as_numpy(f, backend):
    calls = [[X], [-X], [X[::-1].copy()]]
    agrees(f, backend, *calls, rtol=1e-14)
    slopes_agree(f, backend, *calls)


@pytest.mark.parametrize("f", ON_MATRICES, ids=lambda f: f.__name__)
def test_matrices_as_numpy(f, backend):
    calls = [[M], [-M], [M[::-1, ::-1].copy()]]
    agrees(f, backend, *calls, rtol=1e-14)
    slopes_agree(f, backend, *calls)


def test_positions_given_as_arguments(backend):
    def f(x, i, js):
        y = x.copy()
        y[i] = 2.0
        y[i - 1] *= 3
        y[js] = x[:3]
        y[js] *= x[1:4]
        np.add.at(y, js, x[2:])
        return (y * y).sum()

    calls = [[X, 2, np.array([0, 2, 4])], [X, 0, np.array([1, 1, 4])], [X, -1, np.array([-1, 1, 4])]]
    agrees(f, backend, *calls, rtol=1e-14)
    slopes_agree(f, backend, *calls)


def test_positions_outside_raise_as_in_numpy(backend):
    def f(x, i):
        y = x.copy()
        y[i] = 1.0
        return y.sum()

    def g(x, i):
        y = x.copy()
        y[int(i)] = 1.0
        return y.sum()

    agrees(f, backend, [X, 1], [X, 5], [X, -5], [X, -6], [X, 2])
    agrees(g, backend, [X, 1], [X, 5], [X, -5], [X, -6], [X, 2])


def test_wrong_writes_raise_as_in_numpy(backend):
    def too_far(x):
        y = x.copy()
        y[7] = 1.0

    def too_many(x):
        y = x.copy()
        y[:3] = x

    def too_wide(x):
        y = x.copy()
        y += np.ones((2, 5))

    def no_such_key(x):
        y = x.copy()
        y["a"] = 1

    def mask_with_too_many(x):
        y = x.copy()
        y[x > 0] = np.ones(4)

    def integers_cannot_hold_fractions(x):
        y = (x > 0).astype(int)
        y += x

    def integers_cannot_divide(x):
        y = (x > 0).astype(int)
        y /= 2

    def out_of_another_type(x):
        y = (x > 0).astype(int)
        np.add(x, 1, out=y)

    for f in (too_far, too_many, too_wide, no_such_key, mask_with_too_many, integers_cannot_hold_fractions,
              integers_cannot_divide, out_of_another_type):  # fmt: skip
        agrees(f, backend, [X])


def test_values_take_the_dtype_of_the_array(backend):
    def integers(x):
        y = (x > 0).astype(int)
        y[0] = 2.7  # truncates, as in NumPy
        y[1:3] = x[:2] * 10
        y[[3, 4]] = [1.9, -1.9]
        y += 1
        return y

    def singles(x):
        y = x.astype(np.float32)
        y[1] = x[0] / 3
        y += x
        y[x > 0] = 0.1
        return y

    def bools(x):
        y = x > 0
        y[1] = 7
        y[2:] = x[2:]
        y |= x > 2
        return y

    agrees(integers, backend, [X])
    agrees(singles, backend, [X])
    agrees(bools, backend, [X])


@pytest.mark.parametrize("n", [100, 200])
def test_writes_and_reads_in_a_loop_cost_a_fixed_number_of_operations_each(n, backend):
    def filled(x):
        y = np.zeros_like(x)
        for i in range(n):
            y[i] = x[i] * x[i]
        return y.sum()

    def running(x):
        y = x.copy()
        for i in range(1, n):
            y[i] = y[i - 1] * x[i]
        return y[-1]

    def rows(x):
        y = np.zeros_like(x)
        y[0] = x[0]
        for i in range(1, n):
            y[i] = y[i - 1] * x[i]
        return y.sum()

    def growth(f, shape):
        small = sg.compile(f, backend="numpy").graph(np.ones(shape)).node_count
        return small, sg.compile(sg.grad(f), backend="numpy").graph(np.ones(shape)).node_count

    # Each element or row that is read is a slice and a reshape; what was written is read where it was computed.
    assert growth(filled, n) == (4 * n + 2, 4 * n + 1)
    assert growth(running, n) == (3 * n - 1, 6 * n - 5)
    assert growth(rows, (n, 3)) == (3 * n + 2, 8 * n - 2)
