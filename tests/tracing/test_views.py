"""Views share memory where NumPy's do, copies do not; written arguments are the caller's own arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import symgrad as sg
from tests.tracing.agreement import BACKENDS, agrees, assert_same, dual_gradient, slopes_agree

X = np.array([0.7, -1.2, 2.3, 0.4, -0.6])
M = np.array([[0.3, -1.1, 0.8, 1.7], [-0.5, 0.9, 2.1, -1.4], [1.2, -0.2, 0.6, -0.8]])
WEIGHTS = np.array([[1.0, -2.0, 3.0, 0.5], [4.0, 1.5, -1.0, 2.0], [-3.0, 2.5, 1.0, 5.0]])

both = pytest.mark.parametrize("backend", BACKENDS)


def slices_of_slices(x):
    y = x.copy()
    z = y[1:]
    z[0] = 3
    w = z[::-1]
    w[0] *= 2
    w[1:3] += z[:2]
    v = w[::2]
    v -= y[0]
    y[2] = x[4]
    return (y * np.arange(1.0, 6.0)).sum() + v[0] * w[-1] + z[2]


def reshapes_and_transposes(m):
    y = m.copy()
    r = y.reshape(-1)
    r[3] = m[0, 0]
    t = y.T
    t[0, 1] = 4
    t[2] *= m[2, 0]
    q = y.ravel()
    q[1] = m[1, 1] * 50
    y.reshape(2, 6)[1, ::2] += 1
    t.T[2, 3] = t[3, 0]
    return (y * WEIGHTS).sum() + r[4] + t[0, 1] * q[1]


def copies_are_no_views(m):
    y = m.copy()
    a = y.T.ravel()  # a transpose cannot be flattened without copying
    a[0] = 100
    b = y.T.reshape(2, 6)
    b[0, 0] = 200
    c = y.flatten()
    c[1] = 300
    d = y[[0, 1]]
    d[0] = 400
    e = y[y > 0]
    e[0] = 500
    f = y + 0
    f[0] = 600
    return (y * WEIGHTS).sum() + a.sum() + b.sum() + c.sum() + d.sum() + e.sum() + f[0, 0]


def views_of_numbers(m):
    y = m.copy()
    y[:] = 2.0  # known while tracing
    row = y[1]
    row[0] *= 3.0
    same, whole = row.T, np.squeeze(y)
    y[...] = 5.0
    y[1, 1] = m[0, 0]
    return (same * row).sum() + (whole * WEIGHTS).sum()


def raveled_lines(m):
    y = m.copy()
    y[:, 1].ravel()[0] = 100  # not contiguous: a copy
    np.ravel(y[0, ::2])[0] = 200
    np.ravel(y.T)[0] = 300
    y[::-1, 2].reshape(-1)[0] = m[0, 0]  # a reshape follows strides
    y[1].ravel()[2] = m[0, 1]
    y[1:].ravel()[0] = 7
    y.T.ravel(order="F")[3] = m[2, 2]
    y.ravel(order="F")[1] = 400
    return (y * WEIGHTS).sum()


def functions_that_give_views(m):
    y = m.copy()
    np.flip(y)[0, 0] = m[0, 0]
    np.rot90(y)[0, 1] = 2
    np.swapaxes(y, 0, 1)[3, 0] = 5
    np.moveaxis(y, 0, 1)[0, 0] = m[1, 1]
    np.split(y, 2, axis=1)[1][0, 0] = 9
    np.expand_dims(y, 0)[0, 2, 2] *= 6
    np.atleast_3d(y)[1, 1, 0] = m[2, 2]
    np.transpose(y)[1] += 1
    np.squeeze(y[None])[2, 0] = 8
    y[:, None, ::-1][2, 0, 0] *= m[0, 1]
    np.broadcast_arrays(y)[0][0, 1] = 3
    return (y * WEIGHTS).sum()


def more_functions_that_give_views(m):
    y = m.copy()
    d = np.diagonal(y)
    e = y[:, 1:].diagonal(1)
    b = np.broadcast_to(y[0], (2, 4))
    np.vsplit(y, 3)[0][0, 1] = m[0, 0]
    np.hsplit(y, 2)[1][1, 0] = m[1, 2] * 3
    y.view()[2, 2] = 4.0
    y.astype(float, copy=False)[2, 3] *= 2
    np.asarray(y)[1, 3] = m[0, 3]
    np.real(y)[0, 0] += 1
    np.einsum("ij->ji", y)[0, 1] = m[2, 0]
    np.array(y)[1, 1] = 100.0
    y[1, 1] *= m[1, 1]
    np.nan_to_num(y, copy=False)
    y.shape  # noqa: B018
    return (y * WEIGHTS).sum() + (d * d).sum() * e[0] + b[1, 1] * b[0, 3]


def rows_are_views(m):
    y = m.copy()
    for row in y:
        row[0] = row[1] * row[2]
        row *= 2
    first, *_, last = y
    first[:], last[1] = last, first[2]
    for line in y.T[1:3]:
        line += line[0]
    return (y * WEIGHTS).sum()


def views_see_later_writes(x):
    y = x.copy()
    evens, tail = y[::2], y[3:]
    y[0], y[2], y[4] = x[1] * 2, x[3], 7.0
    before = evens.sum() * tail[1]
    y *= x
    return before + (evens * evens).sum() + tail[0]


def a_view_outlives_a_name(x):
    def middle(a):
        a[0] = 1.0
        return a[1:-1]

    z = middle(x.copy())
    z[0] *= x[4]
    return (z * z).sum() + (z.base[0] if z.base is not None else 1.0)


@both
@pytest.mark.parametrize("f", [slices_of_slices, views_see_later_writes], ids=lambda f: f.__name__)
def test_views_of_lines(f, backend):
    agrees(f, backend, [X], [-X], rtol=1e-14)
    slopes_agree(f, backend, [X], [-X])


@both
def test_views_that_are_read_only(backend):
    def into_a_diagonal(m):
        np.diagonal(m.copy())[0] = 1.0

    def into_a_broadcast_array(m):
        np.broadcast_to(m.copy(), (2, 3, 4))[0] = 1.0

    def added_to_a_diagonal(m):
        d = m.copy().diagonal()
        d += 1

    for f in (into_a_diagonal, into_a_broadcast_array, added_to_a_diagonal):
        agrees(f, backend, [M])


@both
@pytest.mark.parametrize(
    "f", [reshapes_and_transposes, copies_are_no_views, raveled_lines, views_of_numbers, functions_that_give_views,
          more_functions_that_give_views, rows_are_views],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_views_of_matrices(f, backend):
    agrees(f, backend, [M], [-M], rtol=1e-14)
    slopes_agree(f, backend, [M], [-M])


# ------------------------------------------------------------------------------------------ arguments


def doubled(x):
    x[0] = 5.0
    x *= 2
    return (x * x).sum()


def into_the_second(x, y):
    y[:] = x * 2
    y[0] += 1
    return (x * y).sum()


def on_some_paths(x, y):
    if x[0] > 0:
        x[1] = 7.0
        y *= 2
    elif x[1] > 0:
        y[0] = x[1]
    return (x * x).sum() * y.sum()


def through_a_view(m):
    m[:, 1] += m.T[0]
    m.ravel()[5] = 3.0
    return (m * m).sum()


@both
def test_written_arguments_are_written_as_numpy_does(backend):
    agrees(doubled, backend, [X], [-X], rtol=1e-15)
    agrees(into_the_second, backend, [X, X * 0], rtol=1e-15)
    agrees(on_some_paths, backend, [X, X + 1], [-X, X], [-np.abs(X), X], [X * 2, X], rtol=1e-15)
    agrees(through_a_view, backend, [M], rtol=1e-15)


@both
@pytest.mark.parametrize("transform", [sg.grad, sg.value_and_grad])
@pytest.mark.parametrize(
    ("f", "args"),
    [(doubled, [X]), (into_the_second, [X, X * 3]), (on_some_paths, [X, X + 1]), (on_some_paths, [-X, X]),
     (on_some_paths, [-np.abs(X), X]), (through_a_view, [M])],
)  # fmt: skip
def test_derivatives_write_to_arguments_as_the_function_does(f, args, transform, backend):
    compiled = sg.compile(transform(f), backend=backend)
    slopes_agree(f, backend, args)
    plain = [a.copy() for a in args]
    value = f(*plain)
    for _ in range(3):
        own = [a.copy() for a in args]
        result = compiled(*own)
        assert_same(own, plain)
        if transform is sg.value_and_grad:
            np.testing.assert_allclose(result[0], value, rtol=1e-14)


@both
def test_read_only_arguments_stay_as_they_are(backend):
    compiled = sg.compile(doubled, backend=backend)
    fixed = X.copy()
    fixed.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            compiled(fixed)
    np.testing.assert_array_equal(fixed, X)


@both
def test_arguments_in_any_memory_order_are_written(backend):
    def through_the_transpose(m):
        m[:, 1] += m.T[0]
        m.T[2, 1] = 3.0
        return (m * m).sum()

    compiled = sg.compile(through_the_transpose, backend=backend)
    plain = M.copy()
    through_the_transpose(plain)
    for make in (np.asfortranarray, lambda m: np.repeat(np.repeat(m, 2, 0), 2, 1)[::2, ::2]):
        own = make(M.copy())
        compiled(own)
        np.testing.assert_array_equal(own, plain)


@both
def test_arguments_that_share_memory_are_refused_when_one_is_written(backend):
    compiled = sg.compile(into_the_second, backend=backend)
    own = X.copy()
    compiled(X.copy(), own)
    for first, second in ((own, own), (own[:4], own[1:]), (own[::-1], own)):
        before = own.copy()
        with pytest.raises(sg.TraceError, match="shares memory"):
            compiled(first, second)
        np.testing.assert_array_equal(own, before)
    # Interleaved arrays do not share an element.
    row = np.arange(10.0)
    compiled(row[::2], row[1::2])
    np.testing.assert_array_equal(row[1::2], row[::2] * 2 + [1, 0, 0, 0, 0])


# ------------------------------------------------------------------------------------------ random programs

NUMBERS = st.sampled_from([-1.5, 0.5, 2.0, 3.25])


@st.composite
def keys(draw, ndim):
    """Keys of slices, integers, new axes and an ellipsis."""
    parts = []
    for _ in range(draw(st.integers(0, ndim))):
        ends = st.one_of(st.none(), st.integers(-4, 4))
        cut = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, -1, -2]))
        parts.append(draw(st.one_of(st.integers(-3, 2), cut, cut)))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
    if draw(st.integers(0, 5)) == 0:
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


def _view(draw):
    kind = draw(st.sampled_from(["cut", "cut", "cut", "T", "ravel", "rows", "flip"]))
    return ("view", kind, draw(keys(2)))


def _write(draw):
    kind = draw(st.sampled_from(["number", "other", "list", "mask", "greater", "largest", "add.at", "add", "multiply",
                                 "subtract", "swap", "out", "flat", "fill", "copy"]))  # fmt: skip
    return ("write", kind, draw(keys(2)), draw(NUMBERS), draw(st.lists(st.integers(-3, 2), min_size=1, max_size=4)))


@st.composite
def programs(draw):
    """Lists of instructions on a growing collection of arrays, each with two numbers that choose arrays."""
    made = []
    for _ in range(draw(st.integers(2, 9))):
        body = (_view if draw(st.integers(0, 2)) == 0 else _write)(draw)
        made.append((*body, draw(st.integers(0, 9)), draw(st.integers(0, 9))))
    return made


def run(program, x):
    """Plain NumPy; works on floats, tracers and dual numbers alike."""
    base = x.copy()
    arrays = [base, base[1]]
    for step in program:
        a, b = arrays[step[-2] % len(arrays)], arrays[step[-1] % len(arrays)]
        if step[0] == "view":
            made = cut(a, step[1], step[2])
            if np.ndim(made) and np.size(made):
                arrays.append(made)
        else:
            write(a, b, *step[1:5])
    return arrays


def cut(a, kind, key):
    if kind == "T":
        return a.T
    if kind == "ravel":
        return a.ravel()
    if kind == "rows":
        return a.reshape(-1, a.shape[-1])
    return np.flip(a, 0) if kind == "flip" else a[key]


def write(a, b, kind, key, number, places):
    first = (0,) * a.ndim
    if kind == "number":
        a[key] = number
    elif kind == "other":
        a[key] = b.ravel()[0] * a[first]
    elif kind == "list":
        a[places] *= number
    elif kind == "mask":
        a[np.arange(len(a)) % 2 == 0] = b.ravel()[-1]
    elif kind == "greater":
        a[a > number] = b.ravel()[0]
    elif kind == "largest":
        a.ravel()[np.argmax(a)] += 1.0
        a[int(np.argmax(b)) % len(a)] *= number
    elif kind == "add.at":
        np.add.at(a, places, number)
    elif kind == "add":
        a += number
    elif kind == "subtract":
        a[key] -= a[key] * 0.5
    elif kind == "multiply":
        a *= b.ravel()[0]
    elif kind == "swap":
        a[[places[0], places[-1]]] = a[[places[-1], places[0]]]
    elif kind == "out":
        np.multiply(a, number, out=a)
    elif kind == "flat":
        a.flat[1 % a.size] = number * b.ravel()[-1]
    elif kind == "fill":
        if a.ndim == 1:
            a.fill(number)
    else:
        a[:] = a.copy() + number


def total(program, x):
    """A number that every element of every array is part of."""
    made = 0.0
    for k, a in enumerate(run(program, x)):
        for j, v in enumerate(a.ravel()):
            made = made + v * (0.5 + 0.25 * k + 0.125 * (j % 5))
    return made


def check(program, backend):
    try:
        wanted = run(program, M)
    except (ValueError, IndexError, TypeError) as error:
        base = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
        with pytest.raises(base):
            sg.compile(lambda x: run(program, x), backend=backend)(M)
        return
    compiled = sg.compile(lambda x: run(program, x), backend=backend)
    for _ in range(2):
        assert_same(compiled(M), wanted)
    gradient = sg.compile(sg.grad(lambda x: total(program, x)), backend=backend)
    expected = dual_gradient(lambda x: total(program, x), M)
    for _ in range(2):
        np.testing.assert_allclose(gradient(M), expected, rtol=1e-12, atol=1e-12)


LIMITS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


@settings(max_examples=120, **LIMITS)
@given(programs())
def test_random_programs_as_numpy(program):
    check(program, "numpy")


@pytest.mark.c_backend
@settings(max_examples=12, **LIMITS)
@given(programs())
def test_random_programs_in_c_as_numpy(program):
    check(program, "c")
