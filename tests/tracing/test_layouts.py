"""Memory order: where a reshape is a view, and what order="K" and "A" mean, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError
from tests.tracing.agreement import BACKENDS, agrees

X = np.arange(6.0).reshape(3, 2)
G = np.asfortranarray(np.arange(6.0).reshape(2, 3))
LINE = np.arange(6.0)[::2]


def computed_from_a_transpose(x):
    t = x.T * 2
    t.ravel()[0] = 5
    t.T.reshape(-1)[1] = 7
    return t


def indexed_along_the_second_axis(x):
    y = x[:, [1, 0]]
    y.ravel()[0] = 5
    return y, y.ravel("K")


def copies(x):
    k, c, f = np.copy(x.T), x.T.copy(), x.T.copy(order="F")
    for y in (k, c, f, np.array(x.T)):
        y.reshape(-1)[0] = 9.0
    return k, c, f, k.ravel("K"), c.ravel("A"), f.flatten("A"), x.T.copy("A").ravel("K")


def orders(x):
    return (
        x.ravel("K"), x.T.ravel("K"), x.T.flatten("A"), x.T.reshape(3, 2, order="A"), np.ravel(x[::-1], "K"),
        np.reshape(x, (2, 3), order="F"), (x @ x.T).ravel("K"), (x.T + np.ones((2, 3))).ravel("K"),
        np.concatenate([x.T, x.T]).ravel("K"), x.sum(axis=1).ravel("K"),
    )  # fmt: skip


def made_contiguous(x):
    a, b, c = np.ascontiguousarray(x.T), np.asfortranarray(x), np.ascontiguousarray(x)
    a[0], b[0], c[0] = 3.0, 4.0, 5.0
    return a, b, c, np.ascontiguousarray(x[0, 0])


def strided_lines(x):
    x[:, 1].ravel()[0] = 8.0
    x[::2].reshape(-1)[0] = 7.0
    LINE.ravel()[0] = x[0, 0]
    LINE.reshape(3, 1)[1] = x[1, 1]
    return x, LINE * 1


def an_explicit_copy(x):
    x.reshape(-1, copy=True)[0] = 9.0
    x.reshape(3, 2, 1)[1] = 7.0
    x.flat[0] = 8.0
    return x


def captured(x):
    z = G * x[0, 1]
    z.ravel()[0] = 4.0
    return z, G.ravel("K") * x[0, 1], (G * x.T).ravel("K")


def read_only(x):
    return x.reshape(-1) * 2, x.ravel() + x.T.ravel(), x.reshape(2, 3, order="F")


ALL = [computed_from_a_transpose, indexed_along_the_second_axis, copies, orders, made_contiguous, an_explicit_copy,
       captured, read_only, strided_lines]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", ALL)
def test_as_numpy(f: Any, backend: str) -> None:
    agrees(f, backend, (X,))


@pytest.mark.parametrize("f", [read_only, an_explicit_copy])
@pytest.mark.parametrize("order", ["F", "steps"])
def test_arguments_of_any_order(f: Any, order: str) -> None:
    def given() -> Any:
        return np.asfortranarray(X) if order == "F" else np.repeat(X, 2, axis=1)[:, ::2]

    if f is an_explicit_copy:
        f = lambda x: (x.flat.__setitem__(0, 8.0), x.T.__setitem__(1, 2.0), x * 2)[2]
    own, plain = given(), given()
    found, wanted = sg.compile(f, backend="numpy")(own), f(plain)
    np.testing.assert_array_equal(own, plain)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.ravel("K"),
        lambda x: (x * 2).flatten(order="A"),
        lambda x: np.reshape(x, 6, order="A"),
        lambda x: x.reshape(-1).__setitem__(0, 1.0),
        lambda x: np.ascontiguousarray(x).__setitem__(0, 1.0),
        lambda x: x[:, 1].ravel().__setitem__(0, 1.0),
        computed_from_a_transpose,
    ],
)
def test_the_order_of_an_argument_is_no_part_of_the_signature(f: Any) -> None:
    with pytest.raises(TraceError, match=r"memory order of an argument[\s\S]*test_layouts[\s\S]*ascontiguousarray"):
        sg.compile(f)(np.asfortranarray(X))
