"""A pullback belongs to the run that gave the value: nothing is run again, and nothing that changed since is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.transforms import _pullbacks
from symgrad.errors import ShapeError
from tests.tracing.agreement import BACKENDS

STATE = np.zeros(1)
WEIGHTS = np.array([2.0, 3.0])
EXPONENT = 2.0


@pytest.fixture(autouse=True, params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Any:
    STATE[0] = 0.0
    WEIGHTS[:] = 2.0, 3.0
    with sg.config(backend=request.param):
        yield


def test_writes_to_captured_arrays_happen_once() -> None:
    def f(x: Any) -> Any:
        STATE[0] += 1
        return x * STATE[0]

    value, pullback = sg.vjp(f, np.array([1.0, 2.0]))
    np.testing.assert_array_equal(value, [1.0, 2.0])
    for _ in range(3):
        np.testing.assert_array_equal(pullback(np.ones(2))[0], [1.0, 1.0])
    assert STATE[0] == 1.0
    sg.vjp(f, np.array([1.0, 2.0]))
    assert STATE[0] == 2.0


def test_captured_values_are_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return x**EXPONENT * WEIGHTS

    x = np.array([1.0, 2.0])
    _, pullback = sg.vjp(f, x)
    _, again = sg.vjp(f, x)
    WEIGHTS[:] = 100.0
    monkeypatch.setitem(globals(), "EXPONENT", 3.0)
    for back in (pullback, again, pullback):
        np.testing.assert_allclose(back(np.ones(2))[0], [4.0, 12.0])
    np.testing.assert_allclose(sg.vjp(f, x)[1](np.ones(2))[0], 300.0 * x**2)
    np.testing.assert_allclose(pullback(np.ones(2))[0], [4.0, 12.0])


def test_each_run_keeps_its_own_path() -> None:
    def f(x: Any) -> Any:
        return (x**2, x) if np.sum(x) > 0 else {"cube": x**3}

    ones = np.ones(2)
    x, y = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
    runs = [sg.vjp(f, v) for v in (x, y, x + 1.0)]
    for _ in range(2):
        np.testing.assert_allclose(runs[0][1]((ones, 3 * ones))[0], 2 * x + 3)
        np.testing.assert_allclose(runs[1][1]({"cube": ones})[0], 3 * y**2)
        np.testing.assert_allclose(runs[2][1]((ones, ones))[0], 2 * (x + 1) + 1)
    with pytest.raises(ShapeError, match="structure"):
        runs[1][1]((ones, ones))


def test_many_runs_trace_and_compile_once() -> None:
    def f(a: Any, x: Any) -> Any:
        return np.tanh(a @ x), np.sum(x)

    rng = np.random.default_rng(0)
    for _ in range(5):
        a, x = rng.normal(size=(3, 4)), rng.normal(size=4)
        value, pullback = sg.vjp(f, a, x)
        ct = rng.normal(size=3)
        slope = ct * (1 - np.tanh(a @ x) ** 2)
        given_a, given_x = pullback((ct, 2.0))
        np.testing.assert_allclose(value[0], np.tanh(a @ x), rtol=1e-14)
        np.testing.assert_allclose(given_a, np.outer(slope, x), rtol=1e-12)
        np.testing.assert_allclose(given_x, a.T @ slope + 2.0, rtol=1e-12)
    assert _pullbacks[f].cache_info().traces == 1


def test_integers_constants_and_what_nothing_reaches() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"count": np.argmax(x), "value": 2.5, "sum": np.sum(x) * 3.0}

    value, pullback = sg.vjp(f, np.array([1.0, 5.0]), np.ones((2, 2)))
    assert (value["count"], value["value"], value["sum"]) == (1, 2.5, 18.0)
    gx, gy = pullback({"count": np.int64(0), "value": 1.0, "sum": 2.0})
    np.testing.assert_array_equal(gx, [6.0, 6.0])
    np.testing.assert_array_equal(gy, np.zeros((2, 2)))


def test_inside_a_function_it_is_differentiated_again() -> None:
    def outer(x: Any) -> Any:
        calls.append(1)
        value, pullback = sg.vjp(lambda y: y**3, x)
        return np.sum(value) + np.sum(pullback(x)[0]) + np.sum(pullback(np.ones(2))[0])

    calls: list[int] = []
    x = np.array([1.0, 2.0])
    # the sum of x³ + 3·x³ + 3·x²
    with pytest.warns(sg.SideEffectWarning):
        np.testing.assert_allclose(sg.grad(outer)(x), 12 * x**2 + 6 * x)
