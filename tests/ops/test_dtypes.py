"""Dtypes and values of every ufunc on every combination of dtypes, against NumPy (NEP 50)."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from symgrad.errors import SymgradError
from symgrad.ops.define import UFUNCS
from tests.core.graphs import SPECIAL, evaluated, run, same_bits, trace

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "uint64", "bool")


def sample(dtype: str, k: int = 0) -> Any:
    """A few values on which nothing is out of range."""
    if dtype == "bool":
        return np.array([True, False, bool(k)])
    base = np.array([2, 1, 3]) if k else np.array([1, 3, 2])
    return base.astype(dtype)


def ufunc_named(name: str) -> np.ufunc:
    found = getattr(np, name, None)
    if isinstance(found, np.ufunc):
        return found
    made: np.ufunc = getattr(scipy.special, name)
    return made


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What NumPy makes of it: an array, or the class of the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*args))
        except (TypeError, ValueError, OverflowError) as error:
            return type(error)


def assert_as_numpy(function: Callable[..., Any], *args: Any) -> None:
    expected = outcome(function, *args)
    if isinstance(expected, type):
        with pytest.raises((SymgradError, expected)):
            trace(function, *args)
        return
    assert same_bits(evaluated(function, *args), expected)


# np.clip is a function whose ufunc is private.
PUBLIC = [n for n in UFUNCS if n != "clip"]
UNARY = [n for n in PUBLIC if ufunc_named(n).nin == 1]
BINARY = [n for n in PUBLIC if ufunc_named(n).nin == 2 and n != "matmul"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    ufunc = ufunc_named(name)
    assert_as_numpy(lambda x: ufunc(x), sample(dtype))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    ufunc = ufunc_named(name)
    for a, b in itertools.product(DTYPES, repeat=2):
        assert_as_numpy(lambda x, y: ufunc(x, y), sample(a), sample(b, 1))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("number", [2, 2.5, True], ids=["int", "float", "bool"])
def test_python_numbers_are_weak(name: str, number: Any) -> None:
    ufunc = ufunc_named(name)
    for dtype in DTYPES:
        x = sample(dtype)
        assert_as_numpy(lambda x: ufunc(x, number), x)
        assert_as_numpy(lambda x: ufunc(number, x), x)


OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("other", [2, 2.5, True, np.float32(2), np.int8(2), np.array(2.0)], ids=repr)
def test_operators(symbol: str, other: Any) -> None:
    function = OPERATORS[symbol]
    for dtype in DTYPES:
        x = sample(dtype)
        assert_as_numpy(lambda x: function(x, other), x)
        if not isinstance(other, (np.ndarray, np.generic)):
            assert_as_numpy(lambda x: function(other, x), x)


@pytest.mark.parametrize("symbol", [s for s in OPERATORS if s not in ("&", "|", "^", "<<", ">>")])
@pytest.mark.parametrize(("a", "b"), [(2.5, 0.75), (3, 2), (3, 0.5), (2.5, 2)], ids=repr)
def test_operators_on_python_numbers(symbol: str, a: float, b: float) -> None:
    """Python numbers stay Python numbers, also where int meets float, and adapt to float32 later on."""
    function = OPERATORS[symbol]
    results = [
        (trace(lambda a, b: function(a, b), a, b), (a, b)),
        (trace(lambda a: function(a, b), a), (a,)),
        (trace(lambda b: function(a, b), b), (b,)),
    ]
    x = np.ones(2, np.float32)
    for graph, given in results:
        out = graph.outputs[0]
        assert np.asarray(run(graph, *given)) == function(a, b)
        assert out.dtype == np.asarray(function(a, b)).dtype
        assert out.aval.weak == (out.dtype.kind != "b")
    assert trace(lambda a, b, x: function(a, b) * x, a, b, x).outputs[0].dtype == np.float32


def test_python_integers_to_negative_powers() -> None:
    assert evaluated(lambda n: n**-2, 4) == 0.0625
    assert trace(lambda n, x: n**-2 * x, 4, np.ones(2, np.float32)).outputs[0].dtype == np.float32


@pytest.mark.parametrize("number", [2.5, 3.5, -0.75, 7, np.float64(1.25), np.float32(1.25)], ids=repr)
@pytest.mark.parametrize("digits", [None, 1])
def test_round_of_numbers(number: Any, digits: int | None) -> None:
    """Without digits the result is a Python int, as Python has it."""
    expected = round(number, digits)
    graph = trace(lambda x: round(x, digits), number)
    assert np.asarray(run(graph, number)) == expected
    assert graph.outputs[0].dtype == np.asarray(expected).dtype
    assert graph.outputs[0].aval.weak == (not isinstance(expected, np.generic))


def test_round_of_arrays_is_refused_as_in_numpy() -> None:
    with pytest.raises(TypeError, match=r"np\.round"):
        trace(lambda x: round(x), np.ones(2))


def test_functions_make_python_numbers_strong() -> None:
    """NumPy's functions answer with NumPy's float64, which does not adapt; operators keep weakness."""
    x = np.ones(2, np.float32)
    assert trace(lambda a, x: a * 2 * x, 2.5, x).outputs[0].dtype == np.float32
    assert trace(lambda a, x: np.multiply(a, 2) * x, 2.5, x).outputs[0].dtype == np.float64
    assert trace(lambda a, x: np.sin(a) * x, 2.5, x).outputs[0].dtype == np.float64
    assert (np.sin(2.5) * x).dtype == np.float64
    assert trace(lambda a, x: np.where(x > 0, a, x), 2.5, x).outputs[0].dtype == np.float32
    assert np.where(x > 0, 2.5, x).dtype == np.float32


def test_small_integers_wrap() -> None:
    c = np.array([200, 10], np.uint8)
    assert evaluated(lambda c: c + np.uint8(100), c).tolist() == [44, 110]
    assert evaluated(lambda c: c * c, c).tolist() == [64, 100]
    assert evaluated(lambda c: -c, c).tolist() == [56, 246]
    assert evaluated(lambda c: np.square(c - 201), c).tolist() == [1, 129]


def test_python_integers_out_of_range_raise_as_in_numpy() -> None:
    c = np.array([200, 10], np.uint8)
    for function in (lambda c: c + 300, lambda c: c * -1, lambda c: np.maximum(c, 256)):
        with pytest.raises(OverflowError):
            function(c)
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            trace(function, c)


def test_comparisons_with_python_integers_out_of_range() -> None:
    """NumPy compares with the integer as it is: 200 < 300 although 300 does not fit."""
    c = np.array([200, 10], np.uint8)
    for symbol in ("<", "<=", ">", ">=", "==", "!="):
        for number in (300, -1, 2**70, -(2**70)):
            assert_as_numpy(lambda c, f=OPERATORS[symbol], n=number: f(c, n), c)
            assert_as_numpy(lambda c, f=OPERATORS[symbol], n=number: f(n, c), c)


def test_integer_division_rounds_down() -> None:
    k = np.array([-7, 7, -1, 0])
    assert evaluated(lambda k: k // 2, k).tolist() == [-4, 3, -1, 0]
    assert evaluated(lambda k: k % 3, k).tolist() == [2, 1, 2, 0]
    assert evaluated(lambda k: np.fmod(k, 3), k).tolist() == [-1, 1, -1, 0]
    assert evaluated(lambda k: k / 2, k).tolist() == [-3.5, 3.5, -0.5, 0.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "cumsum", "cumprod", "argmax", "argmin",
     "argsort", "sort", "median", "ptp", "average", "trace", "round", "nan_to_num", "count_nonzero", "nansum",
     "nanmean", "real", "fix", "sinc"],
)
def test_functions(name: str, dtype: str) -> None:
    function = getattr(np, name)
    x = np.array([[1, 3], [2, 1]]).astype(dtype)
    expected = outcome(function, x)
    if isinstance(expected, type):
        with pytest.raises((SymgradError, expected)):
            evaluated(lambda x: function(x), x)
        return
    found = np.asarray(evaluated(lambda x: function(x), x))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-13 if expected.dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_astype(source: str, target: str) -> None:
    assert_as_numpy(lambda x: x.astype(target), sample(source))
    assert_as_numpy(lambda x: np.astype(x, np.dtype(target)), sample(source))


@pytest.mark.parametrize("target", [complex, np.longdouble, "U3", object])
def test_dtypes_that_cannot_be_traced(target: Any) -> None:
    with pytest.raises(SymgradError, match="dtype"):
        trace(lambda x: x.astype(target), np.ones(2))


@pytest.mark.parametrize(
    "exponent", [0.5, 2, 2.0, -1.0, -1, 1.0, 1, 0, 0.0, 3, 1.5, np.float64(0.5), np.float32(0.5)], ids=repr
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_powers_of_special_values(exponent: Any, dtype: str) -> None:
    """The operator on arrays is NumPy's sqrt, square and reciprocal: not pow at -inf and -0.0."""
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(dtype)
    assert_as_numpy(lambda x: x**exponent, x)
    assert_as_numpy(lambda x: np.power(x, exponent), x)
    assert_as_numpy(lambda x: exponent**x, x)


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round_to_decimals(decimals: int) -> None:
    assert_as_numpy(lambda x: np.round(x, decimals), np.array([15, 25, -149, 1250]))
    assert_as_numpy(lambda x: x.round(decimals), np.array([0.5, 1.5, -2.345, 1234.5678]))
    assert_as_numpy(lambda x: np.round(x, decimals), np.array([0.5, 1.5, -2.345, 1234.5678], np.float32))
