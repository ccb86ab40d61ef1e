"""Comparing compiled functions with plain Python, and with dual numbers that know nothing of symgrad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg

BACKENDS = [pytest.param("numpy"), pytest.param("c", marks=pytest.mark.c_backend)]

RAISED = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def copied(args: Sequence[Any]) -> list[Any]:
    """The same arguments, not shared."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def assert_same(found: Any, wanted: Any, rtol: float = 0.0) -> None:
    """Same containers, types, dtypes, shapes and values; to the bit unless ``rtol`` says otherwise."""
    assert type(found) is type(wanted), (found, wanted)
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            assert_same(f, w, rtol)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_same(found[key], wanted[key], rtol)
    elif wanted is not None:
        assert np.shape(found) == np.shape(wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
        if rtol:
            np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(found, wanted)


def agrees(f: Callable[..., Any], backend: str, *calls: Sequence[Any], rtol: float = 0.0, twice: bool = True) -> Any:
    """Call a function and its compiled form; results, written arguments and errors must be the same.

    Returns the compiled function.
    """
    compiled = sg.compile(f, backend=backend)
    for args in calls:
        for _ in range(1 + twice):
            plain_args, own_args = copied(args), copied(args)
            try:
                wanted = f(*plain_args)
            except RAISED as error:
                base = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
                with pytest.raises(base):
                    compiled(*own_args)
                continue
            assert_same(compiled(*own_args), wanted, rtol)
            assert_same(own_args, plain_args)
    return compiled


def differences(f: Callable[..., Any], args: Sequence[Any], step: float = 1e-3) -> np.ndarray:
    """The gradient of a scalar function with respect to its first argument, by five-point differences."""
    x = np.asarray(args[0], float)
    made = np.zeros_like(x)
    for index in np.ndindex(x.shape):

        def shifted(k: int, index: Any = index) -> float:
            moved = x.copy()
            moved[index] += k * step
            rest = copied(args[1:])
            return float(f(moved if x.shape else float(moved), *rest))

        made[index] = (8 * (shifted(1) - shifted(-1)) - (shifted(2) - shifted(-2))) / (12 * step)
    return made


def slopes_agree(
    f: Callable[..., Any], backend: str, *calls: Sequence[Any], rtol: float = 1e-7, step: float = 1e-3
) -> Any:
    """Compare the gradient of a scalar function with differences; returns the compiled gradient."""
    gradient = sg.compile(sg.grad(f), backend=backend)
    for args in calls:
        wanted = differences(f, args, step)
        for _ in range(2):
            found = gradient(*copied(args))
            np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * max(1.0, np.abs(wanted).max()))
    return gradient


class Dual:
    """A number with a derivative; arrays of them run NumPy code by NumPy's own rules for objects."""

    __slots__ = ("slope", "value")

    def __init__(self, value: float, slope: float = 0.0) -> None:
        self.value = float(value)
        self.slope = float(slope)

    @staticmethod
    def of(x: Any) -> Dual:
        return x if isinstance(x, Dual) else Dual(x)

    def __add__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.value + o.value, self.slope + o.slope)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.value - o.value, self.slope - o.slope)

    def __rsub__(self, other: Any) -> Dual:
        return Dual.of(other) - self

    def __mul__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.value * o.value, self.slope * o.value + self.value * o.slope)

    __rmul__ = __mul__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __lt__(self, other: Any) -> bool:
        return self.value < Dual.of(other).value

    def __gt__(self, other: Any) -> bool:
        return self.value > Dual.of(other).value

    def __le__(self, other: Any) -> bool:
        return self.value <= Dual.of(other).value

    def __ge__(self, other: Any) -> bool:
        return self.value >= Dual.of(other).value

    def __eq__(self, other: object) -> bool:
        return self.value == Dual.of(other).value

    __hash__ = None  # type: ignore[assignment]


def dual_gradient(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """The gradient of a scalar function of an array, one direction after the other."""
    made = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        seeded = np.array([Dual(v) for v in x.ravel()], dtype=object).reshape(x.shape)
        seeded[index].slope = 1.0
        made[index] = Dual.of(f(seeded)).slope
    return made
