"""Functions with decisions that depend on data; and which way plain Python goes through them."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

FILES = {__file__}


class Case(NamedTuple):
    """A function of one argument, and how an argument is drawn.

    Attributes
    ----------
    function
        From a number or an array to a number.
    draw
        Makes one argument.
    asks
        What functions written in C ask of an argument, which bytecode does not show.
    """

    function: Callable[[Any], Any]
    draw: Callable[[np.random.Generator], Any]
    asks: Callable[[Any], Any]


CASES: dict[str, Case] = {}


def vector(n: int, scale: float = 1.5) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.normal(scale=scale, size=n)


def matrix(rows: int, columns: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.normal(scale=1.5, size=(rows, columns))


def number(low: float = -3.0, high: float = 3.0) -> Callable[[np.random.Generator], Any]:
    return lambda rng: float(rng.uniform(low, high))


def case(
    draw: Callable[[np.random.Generator], Any] | None = None, asks: Callable[[Any], Any] = lambda x: None
) -> Callable[..., Any]:
    """Enter a function into the table."""

    def enter(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        FILES.add(function.__code__.co_filename)
        CASES[function.__name__] = Case(function, draw or vector(3), asks)
        return function

    return enter


def way(function: Callable[[Any], Any], x: Any) -> tuple[Any, ...]:
    """The instructions that plain Python runs, of code in files with cases: the same if and only if the path is."""
    seen: list[Any] = []

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.append((frame.f_code.co_name, frame.f_code.co_firstlineno, frame.f_lasti))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        # Python 3.12 shows the instructions of a function from its second run on.
        function(x)
        seen.clear()
        function(x)
    finally:
        sys.settrace(before)
    return tuple(seen)


# ---- if, elif, else ---------------------------------------------------------------------------------------


@case()
def three_nested(x):
    if x[0] > 0.0:
        y = x[0] * x[1]
        if x[1] > x[2]:
            y = y + x[2] ** 2
            if x[0] + x[2] < 1.0:
                y = y * x[0]
            else:
                y = y - np.sin(x[1])
        else:
            y = np.exp(0.3 * y)
    elif x[2] < 0.5:
        y = x[1] ** 3
    else:
        y = x[0] - x[2] * x[1]
    return y * 2.0


@case()
def elif_ladder(x):
    total = np.sum(x)
    if total < -2.0:
        return total**2
    elif total < 0.0:  # noqa: RET505 - the ladder is what is tested
        return -3.0 * total
    elif total < 1.0:
        return np.sum(x**3)
    elif x[0] > 1.0:
        return x[0] * x[1] * x[2]
    else:
        return np.prod(np.cos(x))


@case()
def early_returns(x):
    for k in range(3):
        if x[k] < -1.0:
            return x[k] * (k + 1.0)
        if x[k] > 1.5:
            return x[k] ** 2 + x[0]
    return np.dot(x, x)


@case()
def the_same_question_twice(x):
    y = x[0] * 2.0 if x[1] > 0.0 else x[0] * 3.0
    return y + x[2] if x[1] > 0.0 else y - x[2]


@case()
def question_and_its_negation(x):
    y = x[0] if not x[1] > 0.3 else x[0] ** 2
    return y * x[1] if x[1] > 0.3 else y - x[1]


@case(number())
def absolute_by_hand(a):
    return a if a >= 0.0 else -a


@case(number())
def ternaries_in_one_expression(a):
    return (a**2 if a > 1.0 else a) + (3.0 * a if a < 2.0 else np.sin(a)) * (1.0 if a > -1.0 else a)


# ---- comparisons ------------------------------------------------------------------------------------------


@case(number())
def chained_comparison(a):
    return a**3 if -1.0 < a <= 1.0 else a


@case()
def long_chain(x):
    return x[0] * x[1] if -2.0 < x[0] < x[1] < x[2] < 3.0 else x[2] ** 2


@case()
def chain_that_is_negated(x):
    return np.sum(x) ** 2 if not (x[0] <= x[1] <= x[2]) else x[0]


@case()
def and_or_not(x):
    if (x[0] > 0.0 and x[1] > 0.0) or not (x[2] > 0.0 or x[0] < -1.0):
        return x[0] * x[1] * x[2]
    return np.sum(x**2)


@case()
def a_value_from_or(x):
    # `or` gives its first true operand, here a number, not a bool.
    y = np.maximum(x[0], 0.0) or x[1] * 2.0
    return y * x[2]


@case()
def a_value_from_and(x):
    return (np.maximum(x[0], 0.0) and x[1] ** 2) + x[2]


@case(asks=lambda x: None if max(x) > 2.0 else next((k for k in range(3) if x[k] <= -1.0), 3))
def any_and_all_of_python(x):
    if any(v > 2.0 for v in x):
        return np.sum(x)
    return x[0] * x[1] if all([v > -1.0 for v in x]) else x[2] ** 3


@case(vector(4))
def np_any_np_all(x):
    if np.any(x > 2.0):
        return np.max(x) * x[0]
    if np.all(x > -1.0):
        return np.sum(x**2)
    if (x[:2] < 0.0).any() and not (x[2:] < 0.0).all():
        return x[1] * x[2]
    return np.mean(x)


@case(number(0.0, 3.0))
def decisions_on_a_function_of_the_input(a):
    return np.sin(a) if np.cos(a) > np.exp(-a) else np.cos(a) * a


@case(vector(3))
def decisions_on_intermediate_results(x):
    y = x * 2.0 - 1.0
    if y[0] * y[1] > 0.0:
        y = y**2
    if y[0] > y[2]:
        y = y * x
    return np.sum(y)


# ---- what Python's functions ask --------------------------------------------------------------------------


@case(asks=lambda x: (x[1] > x[0], max(x[:2]) > 0.5, x[2] > 1.0, x[2] > max(x[:2]), x[1] > x[0] ** 2))
def min_and_max(x):
    return max(x[0], x[1], 0.5) * min(x[2], 1.0) + max(x) - min([x[0] ** 2, x[1]], key=lambda v: -v)


@case(vector(4), asks=lambda x: tuple(np.argsort(x)))
def sorted_values(x):
    a, b, *_, c = sorted(x)
    return a * 2.0 + b * c


@case(vector(4), asks=lambda x: tuple(np.argsort(np.abs(x))))
def sorted_by_a_key(x):
    rows = sorted(enumerate(x), key=lambda pair: -abs(pair[1]))
    return sum(v * (k + 1.0) for k, v in rows[:2])


@case(number(-4.0, 4.0), asks=int)
def integer_part(a):
    return a ** (abs(int(a)) + 1)


@case(number(0.0, 3.99), asks=int)
def truncation_as_an_index(a):
    return np.array([a, a**2, -a, 3.0])[int(a)] * a


@case(number(0.0, 4.0), asks=math.floor)
def floor_ceil_and_round(a):
    return a * math.floor(a) + a**2 * math.ceil(a) + a**3 * round(a)


@case(asks=np.argmax)
def index_of_a_traced_integer(x):
    weights = (1.0, 4.0, -2.0)
    return x[0] ** 2 * weights[operator.index(np.argmax(x))]


@case(vector(4), asks=np.argmax)
def position_asked_for(x):
    return x[int(np.argmax(x))] ** 2 * x[0]


@case(vector(4), asks=lambda x: tuple(np.argsort(x)[:2]))
def positions_of_a_sort(x):
    first, second = np.argsort(x)[:2]
    return x[int(first)] * 2.0 + x[int(second)] ** 2


@case(vector(4))
def position_that_stays_symbolic(x):
    return x[np.argmax(x)] ** 2 * x[np.argmin(x)] + x[0]


@case(vector(5), asks=lambda x: np.sum(x > 0.0))
def a_slice_of_traced_bounds(x):
    n = int(np.sum(x > 0.0))
    return np.sum(x[:n] ** 2) - np.sum(x[n:])


@case(vector(4), asks=lambda x: tuple(x > 0.5))
def a_mask(x):
    chosen = x[x > 0.5]
    return np.sum(chosen**2) + len(chosen) * x[0]


@case(number(0.0, 4.0), asks=math.floor)
def membership(a):
    return a**2 if math.floor(a) in (1, 3) else -a


@case(vector(4))
def zip_and_enumerate(x):
    return sum(u * v if u > v else k * u for k, (u, v) in enumerate(itertools.pairwise(x)))


@case()
def reduce_with_a_decision(x):
    return functools.reduce(lambda s, v: s * v if v > s else s + v, x, 0.5)
