"""Unrolled loops: what repeats itself is written once, and computes what the NumPy backend computes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import c_repeats
from symgrad.codegen.c_pieces import MOST_POINTERS, SharedPiece
from symgrad.codegen.c_repeats import LEAST_TIMES, SHORTEST, find_pieces
from symgrad.codegen.c_source import CSource, generate
from symgrad.codegen.cache import get_or_build
from symgrad.core.graph import in_creation_order
from symgrad.lowering import lower
from symgrad.lowering.program import Value
from symgrad.runtime import kernels
from tests.codegen.kernels import STRICT

DATA = np.random.default_rng(5).normal(size=400)
COUNTS = np.random.default_rng(6).integers(0, 5, 400)


def runge_kutta(x):
    a, b, c, d, u, v = [x[k] for k in range(6)]
    total = 0.0
    for _ in range(60):
        for weight in (0.5, 1.0):
            du, dv = a * u - b * u * v, d * u * v - c * v
            u, v = u + 0.01 * weight * du, v + 0.01 * weight * dv
        total = total + (u - 4.0) ** 2 + (v - 2.0) ** 2
    return total


def filtered_data(x):
    level, variance, loss = x[0], x[1], 0.0
    for value in DATA:
        error = value - level
        variance = 0.9 * variance + x[2] * error * error
        level = level + np.tanh(x[3]) * error / np.sqrt(1.0 + variance)
        loss = loss + error * error / (1.0 + variance) + np.log(1.0 + variance)
    return loss


def with_choices(x):
    s, total = x[0], 0.0
    for k in range(200):
        s = np.where(s > x[1], s * 0.9, s * 1.2 + 0.1)
        inside = (s < x[2]) & (s > -1.0)
        total = total + np.where(inside, s, np.minimum(s, x[3])) * (k % 2 + 0.5)
    return total


def with_integers(x):
    n, total = np.int64(3), x[0]
    for k in range(300):
        n = (n * 7 + int(COUNTS[k])) % 11
        total = total + np.sin(x[n % 4] * total) / (n + 1)
    return total


def two_loops(x):
    first, second = x[0], x[1]
    for _ in range(100):
        first = np.sin(first) * x[2] + 0.3 * np.cos(first + x[3]) + first / (1.0 + first * first)
    for _ in range(80):
        second = second - 0.1 * (np.exp(second) - first) * np.exp(second) / (1.0 + np.exp(2.0 * second))
    return first * second


def a_loop_over_arrays_between(x):
    s = x[0]
    for _ in range(40):
        s = np.sin(s) * x[1] + np.sum(np.cos(s * DATA[:70])) * 0.01 + s * s * 0.1
    for _ in range(150):
        s = s + 0.01 * (x[2] * s - s**3 + np.tanh(s * x[3]))
    return s


def changing_constants(x):
    s = x[0]
    for k in range(300):
        s = np.sin(s) + s * (0.001 * k) - x[1] * s * s * 0.01 + np.cos(x[2] + k)
    return s


def float32(x):
    s = x[0]
    for _ in range(200):
        s = np.sin(s) * x[1] + x[2] * np.exp(-s * s) + np.float32(0.125)
    return s


PROGRAMS: list[Callable[..., Any]] = [
    runge_kutta, filtered_data, with_choices, with_integers, two_loops, a_loop_over_arrays_between,
    changing_constants,
]  # fmt: skip
POINT = np.array([1.1, 0.4, 0.3, 0.2, 2.0, 1.5])


def _source(f: Callable[..., Any]) -> tuple[CSource, int]:
    graph = in_creation_order(sg.value_and_grad(f).graph(POINT))
    return generate(lower(graph)), graph.node_count


@pytest.mark.c_backend
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_slopes(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LARGE", 100)
    in_c = sg.compile(sg.value_and_grad(f), backend="c")
    in_numpy = sg.compile(sg.value_and_grad(f), backend="numpy")
    for x in (POINT, POINT * 0.9, POINT[::-1] * 0.5):
        value, slope = in_c(x)
        wanted, wanted_slope = in_numpy(x)
        assert value == pytest.approx(f(x), rel=1e-9)
        assert value == pytest.approx(wanted, rel=1e-11)
        np.testing.assert_allclose(slope, wanted_slope, rtol=1e-8, atol=1e-10 * np.max(np.abs(wanted_slope)))


@pytest.mark.c_backend
def test_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LARGE", 100)
    x = np.array([0.5, 0.75, 0.25], np.float32)
    in_c, in_numpy = (sg.compile(sg.value_and_grad(float32), backend=b) for b in ("c", "numpy"))
    assert in_c(x)[0].dtype == np.float32
    np.testing.assert_allclose(in_c(x)[0], in_numpy(x)[0], rtol=1e-5)
    np.testing.assert_allclose(in_c(x)[1], in_numpy(x)[1], rtol=1e-4)


@pytest.mark.c_backend
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_strict_compilers_accept_it(f: Callable[..., Any]) -> None:
    source, _ = _source(f)
    assert get_or_build(source.units, source.tier, STRICT, libs=source.libs).is_file()


def test_the_source_does_not_grow_with_the_number_of_rounds() -> None:
    def rounds(count: int) -> int:
        def f(x: Any) -> Any:
            s = x[0]
            for _ in range(count):
                s = s + 0.01 * (x[1] * s - s**3 + np.tanh(s * x[2]) / (1.0 + s * s))
            return s

        source, nodes = _source(f)
        assert nodes > 20 * count
        assert "_piece1(" in source.text
        return source.text.count("\n")

    few, many = rounds(200), rounds(1000)
    assert many < 3.0 * few, "sums over all rounds are written out in part"


def test_what_does_not_repeat_is_left_alone() -> None:
    draw = random.Random(0)
    choices = [(draw.randrange(k + 6), draw.randrange(6)) for k in range(1500)]

    def f(x: Any) -> Any:
        values = [x[k] for k in range(6)]
        for which, kind in choices:
            a, b = values[which], values[-1]
            values.append([a + b, a * b, np.sin(a), np.cos(b), a - b, np.tanh(a * b)][kind])
        return values[-1]

    source, _ = _source(f)
    assert "_piece" not in source.text


def _items(f: Callable[..., Any]) -> list[Any]:
    program = lower(in_creation_order(sg.value_and_grad(f).graph(POINT)))
    found = [item for group in program.root.in_order() for item in group]
    return [i for i in found if not (isinstance(i, Value) and i.kind in ("literal", "reduced"))]


def test_pieces_follow_each_other_and_do_not_overlap() -> None:
    for f in PROGRAMS:
        items = _items(f)
        pieces = find_pieces(items)
        ends = [0, *[p.stop for p in pieces]]
        assert all(p.start >= end for p, end in zip(pieces, ends, strict=False))
        for p in pieces:
            assert p.stop - p.start >= SHORTEST
            assert (p.stop - p.start) % p.period == 0
            assert sum(q.key == p.key for q in pieces) >= LEAST_TIMES
            assert all(isinstance(i, Value) for i in items[p.start : p.stop])
    covered = sum(p.stop - p.start for p in find_pieces(_items(runge_kutta)))
    assert covered > 0.85 * len(_items(runge_kutta))


def test_pointers_lead_to_values_that_move_together() -> None:
    shared = SharedPiece.of("piece", [[0, 10, 11, 40], [0, 20, 21, 39], [0, 30, 31, 38]], [5, 9, 13])
    assert shared is not None
    assert shared.places == [(0, 0), (1, 0), (1, 1), (2, 0)]
    assert shared.bases == [(0, 10, 40, 5), (0, 20, 39, 9), (0, 30, 38, 13)]
    scattered = [[k * k * n for k in range(MOST_POINTERS + 2)] for n in range(3)]
    assert SharedPiece.of("piece", scattered, [0, 1, 2]) is None


def test_finding_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    agreement = c_repeats._agreement

    def counted(kinds: Any, i: int, period: int) -> int:
        found = agreement(kinds, i, period)
        compared.append(found + period)
        return found

    monkeypatch.setattr(c_repeats, "_agreement", counted)
    costs = []
    for times in (1, 4):
        compared.clear()
        find_pieces(_items(filtered_data) * times)
        costs.append(sum(compared))
    assert 0 < costs[1] <= 4.5 * costs[0]
