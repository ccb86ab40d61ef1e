"""Loop nests that occur several times are one function, and compute the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.c_nests import Nests, Outside, nest
from symgrad.codegen.c_source import CSource, generate
from symgrad.codegen.cache import get_or_build
from symgrad.core.graph import Graph, canonical, in_creation_order
from symgrad.lowering import lower
from tests.codegen.kernels import STRICT

RNG = np.random.default_rng(9)
WEIGHTS = RNG.normal(size=(30, 30)) / 6


def diffusion(u, k):
    for _ in range(12):
        v = u.copy()
        v[1:-1] = u[1:-1] + 0.1 * k * (u[2:] - 2 * u[1:-1] + u[:-2]) + 0.01 * np.sin(u[1:-1])
        u = v
    return np.sum(u**2)


def layers(u, k):
    for _ in range(6):
        u = np.tanh(WEIGHTS @ u[:30] * k + 0.1)
    return np.sum(u) + np.max(u)


def normalised(u, k):
    for _ in range(8):
        u = u / np.sqrt(np.sum(u * u) + k) + 0.1 * np.mean(u)
    return np.sum(u[::2])


def masks_and_integers(u, k):
    total = 0.0
    for n in range(7):
        positive = u > 0.1 * n
        u = np.where(positive, u * 0.9, u * k + 0.01)
        total = total + np.sum(positive) * 0.01 + np.sum(u[np.argsort(u)[:5]])
    return total


def gathered(u, k):
    index = np.arange(len(u))[::-1] % 17
    for _ in range(5):
        u = u[index] * k + np.cumsum(u) * 0.01
    return np.sum(u * u)


PROGRAMS: list[Callable[..., Any]] = [diffusion, layers, normalised, masks_and_integers, gathered]


def _source(f: Callable[..., Any], n: int, order: Callable[[Graph], Graph] = canonical) -> CSource:
    graph = sg.value_and_grad(f, (0, 1)).graph(np.ones(n), 0.7)
    return generate(lower(order(graph)))


@pytest.mark.c_backend
@pytest.mark.parametrize("n", [40, 150])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_slopes(f: Callable[..., Any], dtype: Any, n: int) -> None:
    in_c, in_numpy = (sg.compile(sg.value_and_grad(f, (0, 1)), backend=b) for b in ("c", "numpy"))
    accuracy = 1e-10 if dtype is np.float64 else 2e-3
    for k in (0.7, 0.3):
        u = RNG.normal(size=n).astype(dtype)
        value, slopes = in_c(u, dtype(k))
        wanted, wanted_slopes = in_numpy(u, dtype(k))
        np.testing.assert_allclose(value, wanted, rtol=accuracy)
        for slope, other in zip(slopes, wanted_slopes, strict=True):
            np.testing.assert_allclose(slope, other, rtol=accuracy, atol=accuracy * np.max(np.abs(other)))


@pytest.mark.c_backend
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_strict_compilers_accept_it(f: Callable[..., Any]) -> None:
    source = _source(f, 150)
    assert get_or_build(source.units, source.tier, STRICT, libs=source.libs).is_file()


def test_further_rounds_are_calls() -> None:
    def rounds(count: int) -> tuple[int, int]:
        def f(u: Any, k: Any) -> Any:
            for _ in range(count):
                u = u + 0.1 * k * np.sin(np.sum(u) * 0.01 + u)
            return np.sum(u)

        text = _source(f, 100, in_creation_order).text
        return len(re.findall(r"for \(long", text)), len(re.findall(r"^    kernel_nest\d+\(", text, re.MULTILINE))

    (few_loops, few_calls), (many_loops, many_calls) = rounds(20), rounds(60)
    assert many_loops < 2 * few_loops, "three times as many rounds"
    assert many_calls - few_calls >= 40


def _made(body: str, names: dict[str, str], weight: int = 1) -> Any:
    outside = {n: Outside(kind, f"&{n}" if "result" in kind else n) for n, kind in names.items()}
    return nest(["{", f"    {body}", "}"], [body], outside, {"table1", "table2"}, weight)


def test_what_is_the_same_function() -> None:
    pointers = {"a": "const double *restrict ", "b": "double *restrict "}
    first = _made("for (long i = 0; i < 9; ++i) b[i] = a[i] + 1.0;", pointers)
    renamed = _made("for (long i = 0; i < 9; ++i) y[i] = x[i] + 1.0;",
                    {"x": "const double *restrict ", "y": "double *restrict "})  # fmt: skip
    assert first.key == renamed.key
    assert (first.arguments, renamed.arguments) == ("b, a", "y, x")
    assert first.parameters == "double *restrict b, const double *restrict a"
    others = [
        _made("for (long i = 0; i < 9; ++i) b[i] = a[i] + 2.0;", pointers),
        _made("for (long i = 0; i < 9; ++i) b[i] = b[i] + 1.0;", {"b": "double *restrict "}),
        _made("for (long i = 0; i < 9; ++i) b[i] = a[i] - 1.0;", pointers),
        _made("for (long i = 0; i < 9; ++i) b[i] = a[i] + 1.0;", {**pointers, "a": "const float *restrict "}),
        _made("for (long i = 0; i < 9; ++i) b[i] = sin(a[i]) + 1.0;", pointers),
        _made("for (long i = 0; i < 9; ++i) b[i] = cos(a[i]) + 1.0;", pointers),
        _made("for (long i = 0; i < 9; ++i) b[i] = a[i] + table1[i];", pointers),
        _made("for (long i = 0; i < 9; ++i) b[i] = a[i] + table2[i];", pointers),
        _made("for (long i = 0; i < 9; ++i) { const float t = a[i]; b[i] = t; }", pointers),
        _made("for (long i = 0; i < 9; ++i) { const double t = a[i]; b[i] = t; }", pointers),
    ]
    keys = [first.key, *[o.key for o in others]]
    assert len(set(keys)) == len(keys)
    assert _made("sg_fail = 1;", {}).key is None


def test_comments_do_not_count() -> None:
    a = _made("/* one.py:3: y = x */ b[0] = a[0];", {"a": "const double *", "b": "double *"})
    b = _made("/* two.py:4: z = y */ b[0] = a[0];", {"a": "const double *", "b": "double *"})
    assert a.key == b.key


def test_only_what_occurs_again_leaves_its_place() -> None:
    nests = Nests("kernel")
    marks = [nests.add(_made(text, {"b": "double *restrict "}, 5)) for text in ("b[0] = 1;", "b[0] = 2;", "b[0] = 1;")]
    nests.settle()
    lines, called, saved = nests.expanded(["first", *marks, "last"])
    assert lines == ["first", "kernel_nest1(b);", "{", "    b[0] = 2;", "}", "kernel_nest1(b);", "last"]
    assert (len(called), saved) == (2, 10)
    assert nests.head(called[0]) == "void kernel_nest1(double *restrict b)"
