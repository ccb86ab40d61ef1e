"""What is known of the paths of a function: tables, reasons, counts and bounds."""

from __future__ import annotations

import pathlib
import re
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS

LINES = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.fixture(params=BACKENDS)
def backend(request):
    with sg.config(backend=request.param):
        yield request.param


def line_of(marked: str) -> int:
    """The number of the line that ends with a comment."""
    (found,) = [k for k, line in enumerate(LINES, 1) if line.endswith(f"  # {marked}")]
    return found


def branching(x):
    if x[0] > 0.0:  # sign
        y = x[0] * x[1]
        if y > 1.0:  # large
            return y**2
        return y
    return -x[1]


def counting(x):
    n = 0
    while x > n:  # count
        n += 1
    return x * n


def index(x):
    return x[int(x[0])] ** 2  # position


ON_LARGE, ON_SMALL, ON_NEGATIVE = np.array([2.0, 3.0]), np.array([0.5, 1.0]), np.array([-1.0, 4.0])


# ---- the table --------------------------------------------------------------------------------------------


def test_rows_of_the_table(backend):
    gradient = sg.grad(branching)
    for x in (ON_LARGE, ON_NEGATIVE, ON_SMALL, ON_LARGE, ON_NEGATIVE, ON_LARGE):
        gradient(x)
    table = gradient.paths()
    sign = f"test_paths.py:{line_of('sign')}: if x[0] > 0.0:  # sign"
    large = f"test_paths.py:{line_of('large')}: if y > 1.0:  # large"
    assert [row.number for row in table] == [0, 1, 2]
    assert [row.decisions for row in table] == [
        ((sign, True), (large, True)), ((sign, False),), ((sign, True), (large, False)),
    ]
    assert [row.hits for row in table] == [3, 2, 1]
    assert len(table) == 3
    assert table[1] is list(table)[1]


def test_operations_of_each_path():
    def f(a, b):
        if a > 0.0:
            y = a * b
            return y**2 if y > 1.0 else y
        return -a

    compiled = sg.compile(f, backend="numpy")
    for a, b in ((2.0, 3.0), (-1.0, 1.0), (0.5, 1.0)):
        compiled(a, b)
    # Comparisons count, too: >, ·, >, ²; >, −; >, ·, >.
    assert [row.operations for row in compiled.paths()] == [4, 2, 3]


def test_the_table_as_text(backend):
    gradient = sg.grad(counting)
    for x in (2.5, 0.0, 2.5):
        gradient(x)
    head, *rows = str(gradient.paths()).splitlines()
    place = f"test_paths.py:{line_of('count')}: while x > n:  # count"
    operations = [row.operations for row in gradient.paths()]
    assert head.split() == ["path", "hits", "ops", "decisions"]
    assert rows[0].split(maxsplit=3) == ["0", "2", str(operations[0]), f"{place} → True (3 times)"]
    assert rows[1].strip() == f"{place} → False"
    assert rows[2].split(maxsplit=3) == ["1", "1", str(operations[1]), f"{place} → False"]
    assert len(rows) == 3
    assert repr(gradient.paths()) == str(gradient.paths())


def test_a_function_without_decisions(backend):
    compiled = sg.compile(lambda x: np.sum(x**2))
    for _ in range(5):
        assert compiled(np.ones(3)) == 3.0
    (row,) = compiled.paths()
    assert (row.number, row.decisions, row.hits) == (0, (), 5)
    assert str(compiled.paths()).splitlines()[1].endswith("  none")


def test_the_outcome_of_an_index_is_an_integer(backend):
    gradient = sg.grad(index)
    for x in ([1.0, 2.0, 3.0], [2.0, 2.0, 3.0], [1.0, 5.0, 6.0], [0.0, 1.0, 1.0]):
        gradient(np.array(x))
    place = f"test_paths.py:{line_of('position')}"
    assert [(row.decisions[0][0].split(": ")[0], row.decisions[0][1], row.hits) for row in gradient.paths()] == [
        (place, 1, 2), (place, 2, 1), (place, 0, 1),
    ]
    assert all(type(row.decisions[0][1]) is int for row in gradient.paths())


def test_tables_of_signatures(backend):
    gradient = sg.grad(branching)
    gradient(ON_LARGE)
    gradient(np.append(ON_LARGE, 1.0))
    gradient(np.append(ON_SMALL, 1.0))
    gradient(ON_LARGE)
    assert [row.hits for row in gradient.paths()] == [1, 1]
    assert [row.hits for row in gradient.paths(ON_LARGE)] == [2]
    assert [row.hits for row in gradient.paths(np.zeros(3))] == [1, 1]
    assert gradient.cache_info().traces == 3


def test_examples_of_a_new_signature_are_traced_and_not_counted(backend):
    gradient = sg.grad(branching)
    with pytest.raises(ValueError, match="not called yet"):
        gradient.paths()
    assert [row.hits for row in gradient.paths(ON_SMALL)] == [0]
    assert gradient.cache_info() == (1, 0, 0)
    gradient(ON_SMALL)
    assert [row.hits for row in gradient.paths()] == [1]
    assert gradient.cache_info().traces == 1


def test_the_formula_is_of_the_path_that_the_arguments_take(backend):
    gradient = sg.grad(lambda x: x**3 if x > 0.0 else x**2 if x > -5.0 else x**4)
    gradient(1.0), gradient(-1.0)
    texts = [str(gradient.formula(x)) for x in (2.0, -2.0, -6.0)]
    assert texts == ["∂f/∂x = 3·x²", "∂f/∂x = 2·x", "∂f/∂x = 4·x³"]
    assert gradient.cache_info().traces == 2
    with pytest.raises(sg.TraceError, match="depends on data"):
        gradient.formula(sg.Spec(()))


def test_a_derivative_inside_has_no_tree_of_its_own_there(backend):
    inner = sg.grad(lambda y: y**3 if y > 1.0 else y**2)
    outer = sg.compile(lambda x: inner(x) * 2.0 if x > 0.0 else x)
    assert [outer(x) for x in (2.0, 0.5, -1.0, 3.0)] == [24.0, 2.0, -1.0, 54.0]
    assert [[o for _, o in row.decisions] for row in outer.paths()] == [[True, True], [True, False], [False]]
    assert [row.hits for row in outer.paths()] == [2, 1, 1]
    assert inner.cache_info() == (0, 0, 0)
    assert [inner(y) for y in (2.0, 0.5, 3.0)] == [12.0, 1.0, 27.0]
    assert [row.hits for row in inner.paths()] == [2, 1]
    assert inner.cache_info().traces == 2
    assert outer.cache_info().traces == 3


# ---- why ------------------------------------------------------------------------------------------------


def test_why_a_function_was_traced(backend):
    gradient = sg.grad(branching)
    with pytest.raises(ValueError, match="not called yet"):
        gradient.explain()
    gradient(ON_LARGE)
    assert gradient.explain() == (
        "traced 1 time: first call with arguments of this structure, these shapes and dtypes"
    )
    gradient(ON_SMALL)
    place = f"{__file__}:{line_of('large')} in branching: if y > 1.0:  # large"
    second = f"traced 2 times: a decision had a new outcome: False (known: True) at {place}"
    assert gradient.explain() == second
    gradient(ON_LARGE), gradient(ON_SMALL)
    assert gradient.explain() == second


def test_why_a_signature_was_traced_that_is_not_the_newest(backend):
    gradient = sg.grad(branching)
    gradient(ON_LARGE)
    gradient(np.append(ON_LARGE, 1.0))
    assert "first call" in gradient.explain()
    gradient(ON_NEGATIVE)
    assert gradient.explain().startswith("traced 3 times: a decision had a new outcome: False (known: True) at ")
    assert f":{line_of('sign')} in branching" in gradient.explain()
    assert len(gradient.paths()) == 2


def test_outcomes_that_were_known(backend):
    gradient = sg.grad(index)
    for x in ([1.0, 2.0, 3.0], [2.0, 2.0, 3.0], [0.0, 1.0, 1.0]):
        gradient(np.array(x))
    assert "a decision had a new outcome: 0 (known: 1, 2)" in gradient.explain()


def test_why_paths_are_traced_that_are_not_kept(backend):
    def checked(x):
        if x > 2.0:
            raise ValueError("too large")
        return x**2 if x > 0.0 else -x

    gradient = sg.grad(checked)
    gradient(1.0)
    with pytest.raises(ValueError, match="too large"):
        gradient(3.0)
    assert gradient.explain() == (
        "traced 2 times: a path ended in ValueError; such paths are traced again each time"
    )
    with sg.config(max_paths=1):
        bounded = sg.grad(checked)
        assert bounded(1.0) == 2.0
        with pytest.warns(sg.RetraceWarning):
            assert bounded(-1.0) == -1.0
        assert bounded(-2.0) == -1.0
    assert bounded.explain() == (
        "traced 3 times: a path was not known and, as a RetraceWarning has told, no more are kept"
    )


def test_long_paths_are_printed_shortened():
    def zigzag(x):
        for k in range(1, 41):
            x = x - 2.0 * k if x > 0.0 else x + 2.0 * k + 1.0
        return x

    compiled = sg.compile(zigzag, backend="numpy")
    compiled(0.5)
    (row,) = compiled.paths()
    assert len(row.decisions) == 40
    lines = str(compiled.paths()).splitlines()
    assert len(lines) == 1 + 13
    assert lines[7].strip() == "… 28 more, see .decisions of the row"


# ---- counts -----------------------------------------------------------------------------------------------


def test_known_paths_are_not_traced_again(backend):
    gradient = sg.grad(branching)
    for x in (ON_LARGE, ON_NEGATIVE, ON_SMALL):
        gradient(x)
    known = gradient.cache_info().traces
    assert known == 3
    for x in np.random.default_rng(0).normal(size=(300, 2)) * 2.0:
        gradient(x)
    assert gradient.cache_info().traces == known
    assert sum(row.hits for row in gradient.paths()) == 303


@pytest.mark.c_backend
def test_calls_that_a_kernel_answers_are_counted_on_their_path():
    gradient = sg.compile(sg.grad(branching), backend="c")
    for x in (ON_LARGE, ON_NEGATIVE, ON_SMALL):
        gradient(x)
    before = gradient.cache_info()
    assert before == (3, 1, 3)
    calls: Counter[int] = Counter({0: 1, 1: 1, 2: 1})
    for x in np.random.default_rng(0).normal(size=(500, 2)) * 2.0:
        a, b = x
        calls[1 if a <= 0 else 0 if a * b > 1 else 2] += 1
        np.testing.assert_array_equal(gradient(x), slope_of(a, b))
    # None of them went through Python.
    assert gradient.cache_info() == before
    assert {row.number: row.hits for row in gradient.paths()} == calls


def slope_of(a, b):
    if a <= 0.0:
        return np.array([0.0, -1.0])
    return np.array([b, a]) * (2.0 * (a * b) if a * b > 1.0 else 1.0)


@pytest.mark.c_backend
def test_hits_of_both_backends_and_of_older_kernels_add_up():
    gradient = sg.grad(branching)
    for backend in ("numpy", "c", "numpy", "c"):
        with sg.config(backend=backend):
            for x in (ON_LARGE, ON_LARGE, ON_SMALL):
                gradient(x)
    with sg.config(backend="c"):
        gradient(ON_NEGATIVE)
        gradient(ON_LARGE)
    assert [row.hits for row in gradient.paths()] == [9, 4, 1]


@pytest.mark.c_backend
def test_hits_before_there_was_a_branch():
    gradient = sg.compile(sg.grad(branching), backend="c")
    for _ in range(7):
        gradient(ON_LARGE)
    gradient(ON_SMALL)
    gradient(ON_LARGE)
    assert [row.hits for row in gradient.paths()] == [8, 1]


def test_numbers_that_vary_are_no_reason_to_trace(backend):
    def f(x, scale, n):
        return np.sum(x**2) * scale * n if scale > 0.0 else np.sum(x) * n

    gradient = sg.grad(f)
    x = np.array([1.0, 2.0])
    for k in range(40):
        scale, n = k - 19.5, k * k
        np.testing.assert_array_equal(gradient(x, scale, n), 2 * x * scale * n if scale > 0 else np.full(2, n))
    assert gradient.cache_info().traces == 2
    assert [row.hits for row in gradient.paths()] == [20, 20]


def test_numbers_given_by_name_or_in_containers_do_not_trace_again(backend):
    gradient = sg.grad(lambda x, *, options: x**2 * options["a"] if options["b"][0] else x)
    for k in range(10):
        assert gradient(3.0, options={"a": float(k), "b": [k % 2]}) == (6.0 * k if k % 2 else 1.0)
    assert gradient.cache_info().traces == 2
    assert [row.hits for row in gradient.paths()] == [5, 5]


def test_integers_and_floats_are_two_signatures(backend):
    compiled = sg.compile(lambda a: a * 2 if a > 1 else a)
    assert [compiled(a) for a in (2, 2.0, 1, 1.0, 5, 5.0)] == [4, 4.0, 1, 1.0, 10, 10.0]
    assert compiled.cache_info().traces == 4
    assert [row.hits for row in compiled.paths(3)] == [2, 1]
    assert [row.hits for row in compiled.paths(3.0)] == [2, 1]


# ---- bounds -----------------------------------------------------------------------------------------------


def warned(call: Any) -> list[str]:
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(w.category is sg.RetraceWarning for w in caught)
    return [str(w.message) for w in caught]


def test_more_paths_than_allowed(backend):
    with sg.config(max_paths=3):
        gradient = sg.grad(counting)
        for k in range(3):
            assert gradient(k + 0.5) == k + 1
        (text,) = warned(lambda: gradient(3.5))
        assert re.match(r"counting has 3 paths and \d+ operations, as many as allowed", text)
        assert f"{__file__}:{line_of('count')} in counting: while x > n:  # count" in text
        assert "max_paths" in text
    # Right, and no second warning: warnings are errors here.
    for k in (*range(8), *range(8)):
        assert gradient(k + 0.5) == k + 1
    assert len(gradient.paths()) == 3
    assert [row.hits for row in gradient.paths()] == [3, 3, 3]
    assert gradient.cache_info().traces == 3 + 1 + 10


def test_more_operations_than_allowed(backend):
    def chain(x):
        y = x
        for k in range(4):
            y = np.sin(y) if x > k else np.cos(y)
        return y

    def slope(x):
        y, dy = x, 1.0
        for k in range(4):
            y, dy = (np.sin(y), dy * np.cos(y)) if x > k else (np.cos(y), -dy * np.sin(y))
        return dy

    with sg.config(max_operations=20):
        gradient = sg.grad(chain)
        texts = []
        for x in (0.5, 1.5, 2.5, 3.5, -0.5):
            texts += warned(lambda x=x: gradient(x))
    assert len(texts) == 1
    assert re.match(r"chain has \d paths and \d+ operations, as many as allowed", texts[0])
    assert re.search(r"test_paths\.py:\d+ in chain: y = np\.sin\(y\) if x > k else", texts[0])
    assert 1 <= len(gradient.paths()) < 5
    for x in (0.25, 1.25, 2.25, 3.25, -0.25):
        assert gradient(x) == pytest.approx(slope(x), rel=1e-13)


def test_one_function_at_its_bound_leaves_others_alone(backend):
    with sg.config(max_paths=2):
        small = sg.grad(counting)
        assert len(warned(lambda: [small(k + 0.5) for k in range(4)])) == 1
    large = sg.grad(counting)
    for k in range(6):
        assert large(k + 0.5) == k + 1
    assert (len(small.paths()), len(large.paths())) == (2, 6)


def test_each_signature_has_a_bound_of_its_own(backend):
    with sg.config(max_paths=2):
        gradient = sg.grad(branching)
        for size in (2, 3):
            for x in (ON_LARGE, ON_SMALL):
                gradient(np.resize(x, size))
        assert len(warned(lambda: gradient(ON_NEGATIVE))) == 1
        assert len(warned(lambda: gradient(np.resize(ON_NEGATIVE, 3)))) == 1
    assert len(gradient.paths(ON_LARGE)) == len(gradient.paths(np.ones(3))) == 2


# ---- threads ----------------------------------------------------------------------------------------------


def signs(x):
    total = 0.0
    for k in range(4):
        total = total + (x[k] ** 2 if x[k] > 0.0 else -3.0 * x[k] * (k + 1))
    return total


@pytest.mark.parametrize("whole", [False, True], ids=["gradient", "value and gradient"])
def test_threads_that_take_different_paths_at_once(whole, backend):
    compiled = sg.compile(sg.value_and_grad(signs) if whole else sg.grad(signs), backend=backend)
    inputs = np.random.default_rng(0).normal(size=(640, 4))
    start = threading.Barrier(8)

    def work(rows: np.ndarray) -> int:
        start.wait()
        wrong = 0
        for x in rows:
            found = compiled(x)
            slope = np.where(x > 0, 2 * x, -3.0 * np.arange(1, 5))
            wrong += not np.array_equal(found[1] if whole else found, slope)
            wrong += whole and abs(found[0] - signs(x)) > 1e-12
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, [inputs[k::8] for k in range(8)])) == 0
    calls = Counter(tuple(bool(v > 0) for v in x) for x in inputs)
    assert {tuple(o for _, o in row.decisions): row.hits for row in compiled.paths()} == calls
    assert len(calls) == 16
    traces = compiled.cache_info().traces
    for x in inputs[:50]:
        compiled(x)
    assert compiled.cache_info().traces == traces


def test_threads_at_the_bound_of_paths(backend):
    with sg.config(max_paths=2):
        gradient = sg.compile(sg.grad(counting), backend=backend)
        gradient(0.5)
    gradient(1.5)
    assert len(warned(lambda: gradient(2.5))) == 1
    inputs = [k + 0.5 for k in range(6)] * 4

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(gradient, inputs)) == [int(x + 0.5) for x in inputs]
    assert [row.hits for row in gradient.paths()] == [5, 5]
    assert gradient.cache_info().traces == 3 + 16


def test_exceptions_on_one_thread_leave_the_others_alone(backend):
    def f(x):
        if x < 0.0:
            raise ValueError("negative")
        return x**2 if x > 1.0 else x

    gradient = sg.compile(sg.grad(f), backend=backend)

    def work(x: float) -> float:
        try:
            return gradient(x)
        except ValueError as error:
            return -1.0 if str(error) == "negative" else np.nan

    inputs = [(k % 7 - 2) * 0.75 for k in range(140)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, inputs))
    assert found == [-1.0 if x < 0 else 2 * x if x > 1 else 1.0 for x in inputs]
    assert sum(row.hits for row in gradient.paths()) == sum(x >= 0 for x in inputs)
    assert len(gradient.paths()) == 2
