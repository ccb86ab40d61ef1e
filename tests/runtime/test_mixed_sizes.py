"""Random branching programs whose blocks hold arrays of very different sizes: C and NumPy code agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime import kernels

pytestmark = pytest.mark.c_backend

#: A vector and a matrix: small, large, of the same size, and around what is written into the source.
SIZES = [(200, (12, 12)), (300, (9, 11)), (70, (3, 4)), (30, (12, 12)), (30, (80, 12)), (64, (65, 1)), (2500, (12, 12))]


def _term(kind: int, v: Any, c: float) -> Any:
    if kind == 0:
        return np.sum(np.sin(v) * c)
    if kind == 1:
        return np.mean(v**2) + c
    if kind == 2:
        return np.sum(v[::-1] * v) / v.size
    if kind == 3:
        return np.max(v) * c
    if kind == 4:
        return np.sum(np.cumsum(v.ravel()) * 0.01)
    return np.sum(v @ v.T) * 0.001 if v.ndim == 2 else np.sum(v[1:] * v[:-1])


def _program(seed: int) -> Callable[..., Any]:
    rng = np.random.default_rng(seed)
    kinds = [(int(rng.integers(0, 6)), float(rng.normal())) for _ in range(5)]

    def f(x: Any, a: Any, s: float) -> Any:
        total = s * 1.0
        for k, (kind, c) in enumerate(kinds):
            u = _term(kind, (x, a)[k % 2], c)
            if u > c:
                total = total + u
            else:
                total = total - np.tanh(u)
            if k == 2 and total > 3:
                return total
        return total

    return f


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int, growing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if growing:
        monkeypatch.setattr(kernels, "LARGE", 0)
    f = _program(seed)
    derivative = sg.value_and_grad(f, argnums=(0, 1))
    in_c = sg.compile(derivative, backend="c")
    in_numpy = sg.compile(derivative, backend="numpy")
    rng = np.random.default_rng(1000 + seed)
    for n, shape in SIZES * 2:
        x, a, s = rng.normal(size=n) * 10 ** rng.uniform(-1, 0.5), rng.normal(size=shape), float(rng.normal() * 4)
        value, slopes = in_c(x, a, s)
        wanted, wanted_slopes = in_numpy(x, a, s)
        np.testing.assert_allclose(value, f(x, a, s), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(value, wanted, rtol=1e-11, atol=1e-11)
        for slope, other in zip(slopes, wanted_slopes, strict=True):
            np.testing.assert_allclose(slope, other, rtol=1e-11, atol=1e-11 * (1 + np.max(np.abs(other))))
