"""Functions with loops, recursion, exceptions and writes that depend on data."""

from __future__ import annotations

import math

import numpy as np

from tests.tracing.branches import case, matrix, number, vector

# ---- loops ------------------------------------------------------------------------------------------------


@case(vector(3, 30.0))
def doubling(x):
    y = x * 1.0
    while np.linalg.norm(y) < 1000.0:
        y = y * 2.0
    return np.sum(y)


@case(number(1.0, 50.0))
def newton_until_close(a):
    x = a
    while abs(x * x - a) > 1e-6 * a:
        x = 0.5 * (x + a / x)
    return x


@case(number(0.5, 3.0))
def loop_with_break_and_else(a):
    y = a
    for k in range(5):
        y = y * a
        if y > 10.0:
            y = y + k
            break
    else:
        y = -y
    return y


@case(number(0.2, 4.0))
def while_with_else(a):
    n, y = 0, a
    while y < 8.0:
        y, n = y * 1.9, n + 1
        if n == 4:
            break
    else:
        return y + a**2
    return y * n


@case(vector(5))
def loop_with_continue(x):
    total = 0.0
    for k, v in enumerate(x[:4]):
        if v < 0.0:
            continue
        total = total + v * x[k + 1]
    return total + x[0]


@case(matrix(3, 2))
def rows(X):
    total = 0.0
    for row in X:
        if row[0] > row[1]:
            total = total + row[0] ** 2 * len(row)
        elif np.dot(row, row) < X.shape[0]:
            total = total - row[1]
    return total + X[0, 0]


@case(vector(4))
def nested_loops(x):
    total = x[0]
    for i in range(len(x)):
        for j in range(i):
            if x[i] * x[j] > 1.0:
                total = total + x[i] - x[j] ** 2
                break
    return total


@case(vector(4))
def comprehension_with_a_filter(x):
    return sum([v**2 for v in x if v > 0.0]) + sum(-v for v in x if not v > 0.0)


@case(vector(3))
def dict_and_length(x):
    kept = {k: v for k, v in enumerate(x) if abs(v) < 1.5}
    return sum(kept.values()) * len(kept) + x[0]


@case(number(0.1, 3.0))
def pop_until_empty(a):
    left, total = [1.0, 0.5, 0.25, 2.0], a
    while left and total < 6.0:
        total = total + left.pop() * a if total > 1.0 else total * 2.0
    return total * (1.0 + len(left))


@case(number(0.0, 2.0))
def bisection(a):
    low, high = a * 0.0, a * 0.0 + 2.0
    for _ in range(4):
        middle = (low + high) * 0.5
        if middle * middle < a:
            low = middle + a * 0.01
        else:
            high = middle
    return low * high


# ---- functions --------------------------------------------------------------------------------------------


@case(number(0.5, 3.0))
def recursion(a):
    return _power(a, 5)


def _power(y, depth):
    if depth == 0 or y > 40.0:
        return y
    return _power(y * y if y < 2.0 else y + 7.0, depth - 1)


@case(vector(2))
def mutual_recursion(x):
    return _even(x[0], x[1], 4)


def _even(a, b, n):
    return a if n == 0 else _odd(b, a - b, n - 1) if a > b else _odd(a * b, b, n - 2)


def _odd(a, b, n):
    return b if n <= 0 else _even(a + 1.0, b, n - 1) if a < 0.0 else _even(b, a, n - 1)


@case(vector(3))
def a_function_chosen_by_data(x):
    step = np.sin if x[0] > 0.0 else np.square if x[1] > 0.0 else _cube
    return np.sum(step(x))


def _cube(x):
    return x * x * x if x[2] > 0.0 else -x


@case(vector(3))
def a_generator(x):
    def positive():
        for v in x:
            if v > 0.0:
                yield v * v
            if v > 2.0:
                return

    return sum(positive(), x[0])


# ---- match ------------------------------------------------------------------------------------------------


@case(number(0.0, 4.0))
def match_with_values(a):
    match math.floor(a):
        case 0:
            return a
        case 1 | 2:
            return a**2
        case _:
            return -a


@case(vector(2))
def match_with_guards(x):
    match (x[0], x[1]):
        case (a, b) if a > b > 0.0:
            return a * b
        case (a, b) if a < 0.0:
            return a - b**2
        case (a, _):
            return a**3


@case(vector(3))
def match_on_a_sequence(x):
    match [v for v in x if v > 0.0]:
        case []:
            return np.sum(x)
        case [a]:
            return a**2
        case [a, *others]:
            return a * len(others) + others[0] ** 2


# ---- exceptions that the function handles itself ----------------------------------------------------------


@case(number())
def raised_and_caught(a):
    try:
        if a < 0.0:
            raise ValueError(a)
        y = a**2
    except ValueError as error:
        y = -error.args[0] * 3.0
    else:
        y = y + a
    return y


@case(number())
def finally_runs_always(a):
    y = a
    for k in range(3):
        try:
            if y > 2.0:
                break
            if y < -1.0:
                continue
            y = y * 2.0
        finally:
            y = y + a * k
    return y


@case(number())
def assertion_that_is_caught(a):
    try:
        assert -1.0 < a < 1.0
        return a**3
    except AssertionError:
        return a * 2.0


@case(number(0.0, 5.0), asks=int)
def missing_key(a):
    try:
        return a * {0: 2.0, 2: 5.0}[int(a)]
    except KeyError:
        return a**2


@case(number(0.0, 5.0), asks=int)
def index_out_of_range(a):
    try:
        return a * [1.0, 2.0, 3.0][int(a)]
    except IndexError:
        return -a


# ---- writing ----------------------------------------------------------------------------------------------


@case(vector(3))
def condition_on_what_was_written(x):
    y = np.zeros(3)
    y[0] = x[0] * 2.0
    y[1:] = x[:2]
    if y[0] > y[2]:
        y[1] = y[1] ** 2
    y += x
    return np.sum(y) if y[1] > 0.0 else y[0] * y[2]


@case(vector(4))
def bubble_sort(x):
    y = x.copy()
    for i in range(4):
        for j in range(3 - i):
            if y[j] > y[j + 1]:
                y[j], y[j + 1] = y[j + 1], y[j]
    return y[0] * y[1] + y[3] ** 2


@case(vector(3))
def clipped_in_place(x):
    y = x * 1.0
    for k in range(3):
        if y[k] > 1.0:
            y[k] = 1.0
        elif y[k] < -1.0:
            y[k] = -1.0 + y[k - 1] * 0.5
    return np.dot(y, x)


# ---- no later question after an earlier answer ------------------------------------------------------------


@case(vector(3), asks=lambda x: np.sum(x > 0.0))
def count_before_index(x):
    n = np.sum(x > 0.0)
    if n > 0 and x[int(n) - 1] > 0.0:
        return x[int(n) - 1] ** 2
    return np.sum(x)


@case(vector(3))
def emptiness_before_the_first(x):
    positive = [v for v in x if v > 0.0]
    return positive[0] ** 2 if positive and positive[0] > 0.5 else x[0]


# ---- not a number -----------------------------------------------------------------------------------------


@case(vector(2))
def nan_fails_every_comparison(x):
    y = np.sqrt(x[0])  # of a negative number: NaN
    if y > 1.0:
        return y
    if y <= 1.0:
        return y * x[1]
    return x[1] ** 2 if y != y else x[1]


@case(vector(2))
def nan_asked_for(x):
    y = np.log(x[0])
    return x[1] if np.isnan(y) else y * x[1] if math.isfinite(y) else 0.0 * x[1]
