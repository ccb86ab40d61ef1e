"""Decisions on traced values: on every path the results, derivatives, writes and errors are those of plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
import tests.tracing.loops  # noqa: F401 - enters its functions
from tests.tracing.agreement import BACKENDS, agrees, assert_same, copied, differences
from tests.tracing.branches import CASES, three_nested, way

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaN and zeros in the plain runs

nan, inf = math.nan, math.inf


@pytest.fixture(params=BACKENDS)
def backend(request):
    with sg.config(backend=request.param):
        yield request.param


def drawn(name: str, count: int, seed: int = 5) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [CASES[name].draw(rng) for _ in range(count)]


def close(found: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * max(1.0, np.abs(wanted).max()))


def outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call gives, and what it leaves in its arguments; or the exception."""
    own = copied(args)
    try:
        return f(*own), own
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises
        return type(error), str(error), error.args


def same_outcomes(f: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Call a function and its compiled form twice with everything; results and errors must be the same to the bit."""
    compiled = sg.compile(f)
    for args in (*calls, *calls):
        found, wanted = outcome(compiled, args), outcome(f, args)
        assert_same(found[0], wanted[0]) if len(wanted) == 2 else None
        if len(wanted) == 2:
            assert_same(list(found[1]), list(wanted[1]))
        else:
            assert found == wanted
    return compiled


# ---- every function of the table --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_values_slopes_and_one_trace_for_each_path(name, backend):
    f, _, asks = CASES[name]
    inputs = drawn(name, 40)
    gradient = sg.value_and_grad(f)
    # The first paths are found by kernels that grow; the others at once, to build few of them.
    calls = Counter((way(f, x), asks(x)) for x in inputs[:3])
    for x in inputs[:3]:
        close(gradient(x)[0], f(x), 1e-13)
    with sg.config(backend="numpy"):
        for x in inputs:
            gradient(x)
    for x in inputs:
        value, slope = gradient(x)
        close(value, f(x), 1e-13)
        close(slope, differences(f, [x], 1e-5), 1e-7)
        calls[way(f, x), asks(x)] += 2
    assert gradient.cache_info().traces == len(calls) == len(gradient.paths())
    assert sorted(row.hits for row in gradient.paths()) == sorted(calls.values())


@pytest.mark.parametrize("name", CASES)
def test_results_are_to_the_bit_those_of_numpy(name):
    f = CASES[name].function
    agrees(f, "numpy", *[(x,) for x in drawn(name, 12, 17)])


IN_C_TOO = ("three_nested", "ternaries_in_one_expression", "min_and_max", "positions_of_a_sort", "doubling",
            "newton_until_close", "recursion", "raised_and_caught", "condition_on_what_was_written")


def higher_cases() -> list[Any]:
    made = [pytest.param(name, "numpy", id=name) for name in CASES]
    marks = pytest.mark.c_backend
    return made + [pytest.param(name, "c", marks=marks, id=f"{name}-c") for name in IN_C_TOO]


@pytest.mark.parametrize(("name", "backend"), higher_cases())
def test_second_derivatives_jvp_and_vjp(name, backend):
    f = CASES[name].function
    rng = np.random.default_rng(3)
    with sg.config(backend=backend):
        slope, curvature = sg.grad(f), sg.hessian(f)
        twice = sg.grad(lambda x, w: np.sum(w * sg.grad(f)(x)))
        for x in drawn(name, 4, 11):
            w = rng.normal(size=np.shape(x)) if np.ndim(x) else 1.0
            first = slope(x)
            wanted = differences(lambda y, w=w: float(np.sum(w * slope(y))), [x], 1e-5)
            close(twice(x, w), wanted, 1e-6)
            close(np.tensordot(curvature(x), w, np.ndim(x)) if np.ndim(x) else curvature(x), wanted, 1e-6)
            value, along = sg.jvp(f, (x,), (w,))
            close(value, f(x), 1e-13)
            close(along, np.sum(first * w), 1e-12)
            close(sg.vjp(f, x)[1](2.5)[0], 2.5 * np.asarray(first), 1e-12)


def test_second_derivative_of_a_number(backend):
    second = sg.grad(sg.grad(lambda a: a**4 if a > 1.0 else np.sin(a) if a > 0.0 else a**2))
    for a in (2.0, 0.5, -1.0, 1.5, 0.25, -2.0):
        close(second(a), 12 * a**2 if a > 1 else -np.sin(a) if a > 0 else 2.0, 1e-14)
    assert second.cache_info().traces == 3


def nested_slope(x):
    a, b, c = x
    if a > 0:
        y, slope = a * b, np.array([b, a, 0.0])
        if not b > c:
            return 2.0 * 0.3 * np.exp(0.3 * y) * slope
        y, slope = y + c**2, slope + np.array([0.0, 0.0, 2 * c])
        return 2.0 * (slope * a + np.array([y, 0, 0]) if a + c < 1 else slope - np.array([0, np.cos(b), 0]))
    return 2.0 * (np.array([0.0, 3 * b**2, 0.0]) if c < 0.5 else np.array([1.0, -c, -b]))


def nested_outcomes(x):
    a, b, c = x
    if a > 0:
        return (True, True, bool(a + c < 1)) if b > c else (True, False)
    return False, bool(c < 0.5)


def test_a_thousand_inputs_through_three_nested_branches(backend):
    gradient = sg.value_and_grad(three_nested)
    calls: Counter[tuple[bool, ...]] = Counter()
    for x in np.random.default_rng(1).normal(size=(1000, 3)):
        value, slope = gradient(x)
        close(value, three_nested(x), 1e-13)
        close(slope, nested_slope(x), 1e-13)
        calls[nested_outcomes(x)] += 1
    assert len(calls) == 5
    assert gradient.cache_info().traces == 5
    assert {tuple(o for _, o in row.decisions): row.hits for row in gradient.paths()} == calls


@pytest.mark.parametrize("name", ["elif_ladder", "rows", "bubble_sort", "mutual_recursion"])
def test_check_grads_on_every_path(name, backend):
    for x in drawn(name, 6, 23):
        sg.check_grads(CASES[name].function, (x,))


# ---- exceptions -------------------------------------------------------------------------------------------


class Own(Exception):
    """Carries a value of the function."""

    def __init__(self, value, note):
        super().__init__(note)
        self.values = {"value": [value]}


def raises_many(a):
    if a > 9.0:
        raise ValueError(f"too large: {a} ({a:.2f})")
    if a > 8.0:
        raise Own(a * 2.0, "own")
    if a > 7.0:
        return [1.0, 2.0][int(a)] * a
    if a > 6.0:
        return {}[int(a)]
    if a > 5.0:
        return a * (1 // 0)
    if a > 4.0:
        return undefined_name  # noqa: F821 - the error is what is tested
    assert a != 3.5, "three and a half"
    assert a != 3.25
    return a**2 if a > 0.0 else -a


def raises_in_a_helper(a):
    return a * _root(a - 1.0)


def _root(b):
    if b < 0.0:
        raise ArithmeticError("no root")
    return b**0.5


def raises_another_one(a):
    try:
        if a > 2.0:
            raise KeyError("inner")
        return a
    except KeyError as error:
        if a > 3.0:
            raise TypeError("outer") from error
        return a**3
    finally:
        if a < 0.0:
            raise RuntimeError("at last")


def raises_in_a_generator(a):
    def values():
        yield a
        if a > 2.0:
            raise LookupError("ran dry")
        yield a * a

    return sum(values())


RAISING = {
    raises_many: ([9.5, 8.5, 7.5, 6.5, 5.5, 4.5, 3.5, 3.25, 2.0, -1.0], 2),
    raises_in_a_helper: ([0.5, 2.0, 3.0, -1.0], 1),
    raises_another_one: ([1.0, 2.5, 3.5, -1.0], 2),
    raises_in_a_generator: ([1.0, 3.0, 1.5], 1),
}
"""Numbers to call with, and how many paths end without an exception."""


@pytest.mark.parametrize("f", RAISING, ids=lambda f: f.__name__)
def test_exceptions_are_those_of_plain_python(f, backend):
    inputs, paths = RAISING[f]
    compiled = same_outcomes(f, *[(a,) for a in inputs])
    good = [a for a in inputs if len(outcome(f, (a,))) == 2]
    assert len(compiled.paths()) == paths
    assert sum(row.hits for row in compiled.paths()) == 2 * len(good)
    # A path that ends with an exception is not kept: it is run in Python each time.
    assert compiled.cache_info().traces == paths + 2 * (len(inputs) - len(good))


@pytest.mark.parametrize("f", RAISING, ids=lambda f: f.__name__)
def test_exceptions_while_a_derivative_is_traced(f, backend):
    gradient = sg.grad(f)
    for a in RAISING[f][0] * 2:
        wanted = outcome(f, (a,))
        if len(wanted) == 2:
            close(gradient(a), differences(f, [a], 1e-5), 1e-7)
        else:
            assert outcome(gradient, (a,)) == wanted


def test_what_an_exception_carries(backend):
    def f(a):
        try:
            if a > 2.0:
                raise Own(a * 2.0, "inner")
            return a
        except Own as error:
            raise Own(a * 3.0, "outer") from error

    compiled = sg.compile(f)
    assert compiled(1.0) == 1.0
    for a in (3.0, 4.0):
        with pytest.raises(Own, match="outer") as caught:
            compiled(a)
        assert caught.value.values == {"value": [3 * a]}
        assert type(caught.value.values["value"][0]) is float
        assert caught.value.__cause__.values == {"value": [2 * a]}


def test_an_exception_in_an_inner_derivative(backend):
    def inner(y):
        if y < 0.0:
            raise ValueError("negative")
        return y**3 if y > 1.0 else y**2

    gradient = sg.grad(lambda x: x * sg.grad(inner)(x - 1.0))
    for _ in range(2):
        assert gradient(3.0) == 3 * 4.0 + 3.0 * 12.0
        assert gradient(1.5) == 2 * 0.5 + 1.5 * 2
        assert outcome(gradient, (0.5,)) == (ValueError, "negative", ("negative",))
    guarded = sg.value_and_grad(lambda x: _or_ten_times(inner, x))
    assert [guarded(a) for a in (-1.0, 0.5, 2.0, -3.0)] == [(-10.0, 10.0), (2.0, 4.0), (24.0, 24.0), (-30.0, 10.0)]
    assert guarded.cache_info().traces == 3


def _or_ten_times(inner, x):
    try:
        return sg.grad(inner)(x) * 2.0
    except ValueError:
        return x * 10.0


# ---- in which order, and what not -------------------------------------------------------------------------


def test_no_later_decision_is_evaluated_after_an_earlier_one(backend):
    def later(x):
        # Would raise where the first half of the condition is false.
        assert x[0] > 0.0
        return x[1] > 1.0

    gradient = sg.grad(lambda x: x[0] * x[1] if x[0] > 0.0 and later(x) else np.sum(x**2))
    for x in ([1.0, 2.0], [-1.0, 2.0], [1.0, 0.5], [-1.0, 0.5], [2.0, 3.0]):
        x = np.array(x)
        np.testing.assert_array_equal(gradient(x), x[::-1] if x[0] > 0 and x[1] > 1 else 2 * x)
    assert gradient.cache_info().traces == 3
    assert [[o for _, o in row.decisions] for row in gradient.paths()] == [[True, True], [False], [True, False]]


def test_an_element_is_not_read_where_its_number_is_out_of_range(backend):
    def f(x, n):
        if 0 <= n < len(x) and x[n] > 0.0:
            return x[n] ** 2
        return np.sum(x)

    gradient = sg.grad(f)
    x = np.array([1.5, -2.0, 3.0])
    for n in (0, 1, 2, 10**15, -(10**15), 3, -1, 0, 10**15):
        wanted = np.where(np.arange(3) == n, 2 * x, 0.0) if n in (0, 2) else np.ones(3)
        np.testing.assert_array_equal(gradient(x, n), wanted)
    assert gradient.cache_info().traces == 4


def test_the_second_operand_is_not_evaluated_where_the_first_decides(backend):
    seen: list[str] = []

    def told(name, condition):
        seen.append(name)
        return condition

    def f(a):
        first = told("a", a > 0.0) and told("b", a > 1.0)
        second = told("c", a < -1.0) or told("d", a > 2.0)
        return a * (2.0 if first else 3.0) * (5.0 if second else 7.0)

    with pytest.warns(sg.errors.SideEffectWarning):
        assert sg.compile(f)(-0.5) == -0.5 * 21
    assert seen == ["a", "c", "d"]


def test_shapes_are_no_decisions(backend):
    def f(x):
        if len(x) > 2 and x.ndim == 1 and x.shape[0] < 5 and x.size != 7 and x.dtype.kind == "f":
            return np.sum(x**2)
        return np.sum(x**3)

    gradient = sg.grad(f)
    for n in (2, 3, 6):
        x = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(gradient(x), 2 * x if n == 3 else 3 * x**2)
        assert [row.decisions for row in gradient.paths(x)] == [()]
    assert gradient.cache_info().traces == 3


# ---- numbers that are no numbers, too large, or at the edge -----------------------------------------------


def smaller_larger_or_neither(x):
    if x[0] > x[1]:
        return x[0]
    elif x[0] <= x[1]:  # noqa: RET505 - three outcomes for NaN
        return x[1] * 2.0
    else:
        return x[2] * 3.0


def asked_for_nan(a):
    return (a if a == a else 7.0), (a if a != a else 8.0), (a if not a > 0.0 else 9.0), (1.0 if a else 2.0)


def order_of_python(x):
    return min(x[0], x[1]), max(x[0], x[1]), min(x), max(x), sorted(x)[0], sorted(x, reverse=True)[0]


def sign_of_zero(a):
    return a + 1.0 if np.copysign(1.0, a) > 0.0 else a - 2.0 if a == 0.0 else a * 2.0


@pytest.mark.parametrize("f", [asked_for_nan, sign_of_zero], ids=lambda f: f.__name__)
def test_conditions_of_nan_and_zero(f, backend):
    same_outcomes(f, *[(a,) for a in (1.0, -1.0, 0.0, -0.0, nan, inf, -inf)])


@pytest.mark.parametrize("f", [smaller_larger_or_neither, order_of_python], ids=lambda f: f.__name__)
def test_comparisons_with_nan(f, backend):
    inputs = [(1, 2, 3), (2, 1, 3), (nan, 1, 3), (1, nan, 3), (nan, nan, 0), (inf, -inf, nan), (1, 1, 1)]
    same_outcomes(f, *[(np.array(x, float),) for x in inputs])


def test_slopes_where_conditions_are_nan(backend):
    gradient = sg.grad(lambda x: smaller_larger_or_neither(x) ** 2)
    np.testing.assert_array_equal(gradient(np.array([nan, 1.0, 2.0])), [0.0, 0.0, 36.0])
    np.testing.assert_array_equal(gradient(np.array([1.0, 2.0, nan])), [0.0, 16.0, 0.0])
    np.testing.assert_array_equal(gradient(np.array([2.0, 1.0, nan])), [4.0, 0.0, 0.0])


def integer_or_other(a):
    try:
        return 1.0 * int(a)
    except ValueError:
        return -7.0
    except OverflowError:
        return a


LARGE = [1.5, nan, -2.5, inf, -inf, 1e19, 1e300, -1e19, -(2.0**63), 2.0**63, -(2.0**63) + 2048, 2.0**63 - 1024]


@pytest.mark.parametrize(
    "f", [integer_or_other, lambda a: a * int(a), lambda a: a + math.floor(a) - 2.0 * math.trunc(a) * math.ceil(a)],
    ids=["caught", "int", "floor, trunc, ceil"],
)
def test_integer_parts_that_int64_cannot_hold(f, backend):
    compiled = same_outcomes(f, *[(a,) for a in LARGE])
    good = [a for a in LARGE if len(outcome(f, (a,))) == 2]
    assert sum(row.hits for row in compiled.paths()) == 2 * len(good)


def test_integers_without_sign(backend):
    arrays = [np.array([n, 3], np.uint64) for n in (5, 2**63 + 2**20, 2**64 - 1)]
    same_outcomes(lambda x: 1.0 * int(x[0]) if x[0] > x[1] else 0.5, *[(x,) for x in arrays])


ROUNDED = {
    "thirds": lambda a: a if a / 3.0 * 3.0 == a else 2.0 * a,
    "there and back": lambda a: a if (a + 0.1) - 0.1 == a else 2.0 * a,
    "difference of products": lambda a: a if a * 0.1 - a * 0.3 + a * 0.2 == 0.0 else 2.0 * a,
    "order of factors": lambda a: a if a * 3.0 * 5.1 == a * 15.3 else 2.0 * a,
    "twice inverted": lambda a: a if 1.0 / (1.0 / a) == a else 2.0 * a,
    "order of terms": lambda a: a if (a + 0.1) + 0.2 == a + 0.30000000000000004 else 2.0 * a,
    "factored": lambda a: a if a * 0.3 + a * 0.7 == a else 2.0 * a,
    "a product instead of a quotient": lambda a: a if a / 7.0 == a * (1.0 / 7.0) else 2.0 * a,
}


@pytest.mark.parametrize("name", ROUNDED)
def test_simplification_changes_no_decision(name, backend):
    f = ROUNDED[name]
    inputs = [float(a) for a in np.random.default_rng(0).uniform(0.0, 10.0, 60)]
    assert len({f(a) == a for a in inputs}) == 2, "a test that cannot fail"
    compiled = same_outcomes(f, *[(a,) for a in inputs])
    assert compiled.cache_info().traces == 2
    assert sorted(row.hits for row in compiled.paths()) == sorted(
        2 * sum((f(a) == a) is same for a in inputs) for same in (True, False)
    )


# ---- bools as numbers, integers ---------------------------------------------------------------------------

COUNTING = {
    "sum of comparisons": lambda a: (a > 0.0) + (a < 2.0) + 1,
    "sum()": lambda a: sum([a > 0.0, a > 1.0, a > 2.0]) * a,
    "product": lambda a: a * (a > 0.0) + (a > 1.0) * a,
    "difference": lambda a: (a > 0.0) - (a < 0.0),
    "a bool of a decision": lambda a: a * (not a > 1.0) + (a > 0.0 and a < 2.0),
    "negative": lambda a: -(a > 0.0) * a,
    "absolute": lambda a: abs(a > 0.0) + 0.5,
    "and of comparisons": lambda a: ((a > 0.0) & (a < 2.0)) + ((a > 1.0) | (a < -1.0)) + 0.0,
    "quotient": lambda a: (a > 0.0) / 4 + (a > 1.0) // 2,
    "power": lambda a: a ** (a > 1.0) + 2 ** (a > 0.0),
    "True": lambda a: (True - a) * True + a // True,
    "as an index": lambda a: [a, a**2][a > 1.0],
}


@pytest.mark.parametrize("name", COUNTING)
def test_bools_of_python_are_integers(name, backend):
    same_outcomes(COUNTING[name], *[(a,) for a in (1.5, -2.0, 0.0, 3.0, 0.5)])


def test_bools_of_numpy_are_not(backend):
    f = lambda x: ((x[0] > 0.0) + (x[1] > 0.0), (x > 0.0) + True, (x[0] > 0.0) * x[1], (x > 0.0) * True)
    same_outcomes(f, *[(np.array(x),) for x in ([1.0, 2.0], [-1.0, 2.0], [-1.0, -2.0])])


WHOLE = {
    "parity": lambda n: n // 3 if n % 2 == 0 else n**2 if n & 1 and n > 3 else -n,
    "truth": lambda n: n if n else -1,
    "range": lambda n: sum(range(n)) + n,
    "index": lambda n: [1, 2, 3, 4, 5][n] * n,
    "match": lambda n: _named(n) * n,
    "dict": lambda n: {3: 1.5, 0: 2.5}.get(n, 0.5) * n,
    "gcd by hand": lambda n: _gcd(abs(n) + 1, 12),
    "int and bool": lambda n: int(n) + bool(n) * 2 + (n > 2),
}


def _named(n):
    match n:
        case 3:
            return 10
        case 0 | -2:
            return 20
        case _:
            return 30


def _gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@pytest.mark.parametrize("name", WHOLE)
def test_decisions_on_integers(name, backend):
    same_outcomes(WHOLE[name], *[(n,) for n in (3, -2, 0, 4, 1, 3)])


# ---- writing, results of different kinds, long paths ------------------------------------------------------


def writes_and_asks(x):
    if x[0] > 0.0:
        x[1] = x[0] * 2.0
    if x[1] > 1.0:
        x[0] = -x[0]
    if x[0] < 0.0:
        return x[1] * 1.0
    return x[0] + 0.0


def doubles_in_place(x):
    x += 1.0
    while x[0] < 10.0:
        x *= 2.0
    return x[0] * 1.0


WRITTEN = {
    writes_and_asks: [(1, 1), (0.1, 0.1), (-1, 2), (-1, 0), (0, 0), (3, 1), (20, 2)],
    doubles_in_place: [(1, 1), (0.1, 2), (3, 1), (20, 2)],
}


@pytest.mark.parametrize("f", WRITTEN, ids=lambda f: f.__name__)
def test_decisions_on_an_argument_that_is_written_to(f, backend):
    inputs = WRITTEN[f]
    calls = [(np.array(x, float),) for x in inputs]
    compiled = agrees(f, backend, *calls)
    assert compiled.cache_info().traces == len(compiled.paths())
    gradient = sg.grad(f)
    for x in inputs:
        x = np.array(x, float) + 0.03125  # away from the corners
        close(gradient(x.copy()), differences(lambda y: f(y.copy()), [x], 1e-5), 1e-7)


def test_results_of_different_kinds(backend):
    def f(x):
        if x[0] > 1.0:
            return x * 2.0
        if x[0] > 0.0:
            return x[0], {"a": x[1], "b": [x]}
        if x[0] > -1.0:
            return None
        return 3 if x[0] > -2.0 else (x[1] > 0.0, float(x[1]))

    same_outcomes(f, *[(np.array([a, 1.5]),) for a in (2.0, 0.5, -0.5, -1.5, -2.5)])


def test_hundreds_of_decisions_on_one_path(backend):
    def f(a):
        n = 0
        while a > 1.0:
            a, n = a * 0.99, n + 1
        return a * n

    gradient = sg.grad(f)
    for a in (20.0, 0.5, 20.0):
        n = 0 if a < 1 else math.ceil(math.log(a) / -math.log(0.99))
        assert gradient(a) == pytest.approx(n * 0.99**n, rel=1e-12)
    assert [len(row.decisions) for row in gradient.paths()] == [300, 1]
    assert [row.hits for row in gradient.paths()] == [2, 1]


def test_a_compiled_function_that_calls_itself(backend):
    @sg.compile
    def factorial(a):
        return a if a < 2.0 else a * factorial(a - 1.0)

    assert [factorial(a) for a in (1.0, 3.0, 5.0, 3.0, 4.0, 5.0)] == [1.0, 6.0, 120.0, 6.0, 24.0, 120.0]
    assert factorial.cache_info().traces == 4
    assert sg.grad(factorial)(3.0) == 11.0  # of a (a - 1) (a - 2)
