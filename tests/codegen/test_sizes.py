"""The same C code for arrays of other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import c_text
from symgrad.codegen.c_sizes import Sizes
from symgrad.codegen.cache import default_cache
from symgrad.core.aval import Aval
from symgrad.core.expr import InternTable
from symgrad.core.graph import Graph
from symgrad.lowering import lower

pytestmark = pytest.mark.c_backend

Program = tuple[Callable[..., Any], Callable[[int, np.random.Generator], tuple[Any, ...]]]


def _vector(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random(n) + 0.1,)


def _rows(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random((n, 3)),)


PROGRAMS: dict[str, Program] = {
    "sum of squares": (lambda x: np.sum(x**2), _vector),
    "mean": (lambda x: np.mean(np.exp(x)), _vector),
    "float32": (lambda x: np.mean(x**2), lambda n, rng: (rng.random(n).astype(np.float32),)),
    "variance": (lambda x: np.var(x, ddof=1) + np.std(x), _vector),
    "Rosenbrock": (lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), _vector),
    "ends and reversal": (lambda x: np.sum(x[::-1] * x) + x[-1] * x[0], _vector),
    "running sum": (lambda x: np.sum(np.cumsum(x) ** 2), _vector),
    "joined": (lambda x: np.sum(np.concatenate([x, 2 * x]) ** 2), _vector),
    "padded": (lambda x: np.sum(np.pad(x, (1, 2)) ** 2 * x.sum()), _vector),
    "sorted": (lambda x: np.sum(np.sort(x) * np.linspace(0, 1, len(x))), _vector),
    "extremes": (lambda x: np.max(x) * np.min(x) + x[np.argmax(x)], _vector),
    "pairs": (lambda x: np.sum(1 / np.sqrt(np.sum((x[:, None] - x[None]) ** 2, -1) + 0.5)), _rows),
    "log-sum-exp": (
        lambda x: np.mean(np.log(np.sum(np.exp(x - np.max(x, 1, keepdims=True)), 1))), _rows,
    ),
    "regression": (
        lambda w, x, y: np.mean(np.log1p(np.exp(-y * (x @ w)))),
        lambda n, rng: (rng.random(70), rng.random((n, 70)), rng.random(n)),
    ),
    "layer": (
        lambda w, x, v: np.mean(np.tanh(x @ w) @ v),
        lambda n, rng: (rng.random((20, 30)), rng.random((n, 20)), rng.random(30)),
    ),
    "Gaussian process": (
        lambda x, y: y @ np.linalg.solve(np.exp(-((x[:, None] - x[None]) ** 2)) + np.eye(len(y)), y),
        lambda n, rng: (rng.random(n), rng.random(n)),
    ),
    "gathered": (
        lambda x, i: np.sum(x[i] ** 2), lambda n, rng: (rng.random(n), rng.integers(0, n, 2 * n)),
    ),
    "a branch": (lambda x: np.sum(x**2) if np.sum(x) > 0 else np.prod(x), _vector),
    "a loop": (lambda x: sum([np.sum(x**k) for k in range(1, 4)]), _vector),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_new_sizes_need_no_compiler(name: str) -> None:
    function, make = PROGRAMS[name]
    rng = np.random.default_rng(0)
    compiled = sg.compile(sg.value_and_grad(function), backend="c")
    reference = sg.compile(sg.value_and_grad(function), backend="numpy")
    compiled(*make(331, rng))
    built = default_cache().stats().builds
    texts = {compiled.source("c")}
    for n in (332, 470, 931):
        args = make(n, rng)
        value, gradient = compiled(*args)
        expected, slope = reference(*args)
        tight = 1e-12 if value.dtype == np.float64 else 1e-5
        assert abs(value - expected) <= tight * abs(expected)
        assert np.max(np.abs(gradient - slope)) <= tight * np.max(np.abs(slope))
        texts.add(compiled.source("c"))
    assert len(texts) == 1
    assert default_cache().stats().builds == built
    assert compiled.cache_info().traces == 4


def test_short_axes_are_written_into_the_source() -> None:
    compiled = sg.compile(lambda x: np.sum(x**2, axis=1), backend="c")
    sources = []
    for shape in ((500, 5), (600, 5), (600, 7)):
        x = np.random.default_rng(1).random(shape)
        np.testing.assert_allclose(compiled(x), np.sum(x**2, axis=1), rtol=1e-14)
        sources.append(compiled.source("c"))
    assert sources[0] == sources[1]
    assert sources[1] != sources[2]


def test_equal_sizes_are_not_taken_for_one_another() -> None:
    """Code for a square matrix must not answer for another one."""
    compiled = sg.compile(lambda a, b: np.sum(a @ b, axis=0) * a.shape[1], backend="c")
    for n, m, k in ((100, 100, 100), (100, 200, 100), (200, 100, 300), (300, 300, 300)):
        rng = np.random.default_rng(n)
        a, b = rng.random((n, m)), rng.random((m, k))
        np.testing.assert_allclose(compiled(a, b), np.sum(a @ b, axis=0) * m, rtol=1e-13)


def test_a_constant_equal_to_a_size_by_chance_keeps_its_value() -> None:
    compiled = sg.compile(lambda x: np.sum(x * 100.0 + 0.01 - 99.0 / x), backend="c")
    for n in (100, 99, 300, 50, 1000):
        x = np.linspace(1, 2, n)
        np.testing.assert_allclose(compiled(x), np.sum(x * 100.0 + 0.01 - 99.0 / x), rtol=1e-13)


def test_the_first_call_with_a_new_size_is_answered_by_known_code() -> None:
    gradient = sg.grad(lambda x: np.mean(np.sin(x) * x**2))
    for n in (700, 700, 800, 900):
        x = np.linspace(0, 1, n)
        np.testing.assert_allclose(gradient(x), (np.cos(x) * x**2 + 2 * x * np.sin(x)) / n, rtol=1e-13)
    assert gradient.cache_info().kernels == 3


def test_each_solution_has_its_own_scratch() -> None:
    """Scratch of several calls lies at the same place, but its parts are of other sizes."""
    compiled = sg.compile(
        lambda a, b, c, d: np.sum(np.linalg.solve(a, b)) + np.sum(np.linalg.solve(c, d)), backend="c"
    )
    rng = np.random.default_rng(0)
    for n, m, k, p in ((90, 70, 30, 200), (100, 70, 200, 80), (30, 90, 20, 300)):
        a, c = rng.random((n, n)) + n * np.eye(n), rng.random((k, k)) + k * np.eye(k)
        args = a, rng.random((n, m)), c, rng.random((k, p))
        expected = np.sum(np.linalg.solve(a, args[1])) + np.sum(np.linalg.solve(c, args[3]))
        np.testing.assert_allclose(compiled(*args), expected, rtol=1e-12)


def test_a_parameter_has_one_value() -> None:
    sizes = Sizes(c_text.Names())
    sizes.know(lower(Graph([x := InternTable().input(Aval((500,), "float64"), "x")], [x * 2.0])))
    first, second = sizes.integer(1000, "at", "slots"), sizes.integer(2000, "at", "slots")
    assert first != second
    assert sizes.integer(1000, "at", "slots") == first


def test_sizes_next_to_short_ones() -> None:
    """The last position of an array may be short though its size is not."""
    compiled = sg.compile(lambda x: np.sum(x * (len(x) - 1)), backend="c")
    for n in (64, 65, 66, 500):
        x = np.arange(n)
        assert compiled(x) == np.sum(x * (n - 1))


def test_more_sizes_than_are_parameters() -> None:
    def function(*arrays: Any) -> Any:
        return sum([np.sum(x) * (len(x) - 1) for x in arrays])

    arrays = [np.arange(n) for n in range(65, 325, 2)]
    compiled = sg.compile(function, backend="c")
    assert compiled(*arrays) == function(*arrays)


def test_blocks_of_small_arrays_beside_large_ones() -> None:
    """All blocks of a kernel read the same parameters, those without large dimensions too."""

    def function(x: Any, a: Any) -> Any:
        if np.sum(x) > 0:
            if a[0, 0] > 5:
                return np.sum(a)
            return np.sum(np.sin(a) * a.T)
        return np.sum(x) * a[0, 0]

    compiled = sg.compile(sg.value_and_grad(function, argnums=1), backend="c")
    for n in (500, 300, 70):
        for sign, shift in ((1.0, 0.0), (-1.0, 0.0), (1.0, 9.0), (1.0, 0.0)):
            x, a = sign * np.ones(n), np.random.default_rng(n).random((12, 12)) + shift
            value, gradient = compiled(x, a)
            np.testing.assert_allclose(value, function(x, a), rtol=1e-13)
            if sign < 0:
                slope = np.zeros_like(a)
                slope[0, 0] = -n
            else:
                slope = np.ones_like(a) if shift else np.cos(a) * a.T + np.sin(a.T)
            np.testing.assert_allclose(gradient, slope, rtol=1e-13)
