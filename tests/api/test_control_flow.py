"""Branches and loops that depend on data: compiled whole, traced again only for what was not seen before."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture(params=["numpy", "c"], autouse=True)
def backend(request):
    with sg.config(backend=request.param):
        yield request.param


def three_branches(x):
    if x[0] > 0:
        y = x[0] * x[1]
        if x[1] > 0:
            y = y + x[2] ** 2
    elif x[2] < 0.5:
        y = x[1] ** 3
    else:
        y = x[0] - x[2]
    return y * 2.0


def three_branches_gradient(x):
    a, b, c = x
    if a > 0:
        return 2.0 * np.array([b, a, 2 * c if b > 0 else 0.0])
    return 2.0 * (np.array([0.0, 3 * b**2, 0.0]) if c < 0.5 else np.array([1.0, 0.0, -1.0]))


def test_a_thousand_random_inputs_take_the_paths_of_python():
    g = sg.value_and_grad(three_branches)
    rng = np.random.default_rng(7)
    taken: dict[tuple[bool, ...], int] = {}
    for x in rng.normal(size=(1000, 3)):
        value, gradient = g(x)
        assert value == pytest.approx(three_branches(x), rel=1e-15)
        np.testing.assert_allclose(gradient, three_branches_gradient(x), rtol=1e-15)
        key = (x[0] > 0, x[1] > 0 if x[0] > 0 else x[2] < 0.5)
        taken[key] = taken.get(key, 0) + 1
    assert len(taken) == 4
    assert g.cache_info().traces == 4
    assert len(g.paths()) == 4
    assert sorted(row.hits for row in g.paths()) == sorted(taken.values())


def test_one_build_for_each_path(backend, has_compiler):
    g = sg.grad(three_branches)
    for x in ([1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [2.0, 3.0, 4.0]):
        g(np.array(x))
    (entry,) = g._entries.values()
    assert entry.kernels.upkeep.times == (4 if backend == "c" and has_compiler else 0)


def doubling(x):
    y = 2 * x
    while np.linalg.norm(y) < 1000:
        y = y * 2
    return np.sum(y)


def test_a_loop_that_runs_as_long_as_the_data_say():
    g = sg.value_and_grad(doubling)
    for repeat in range(2):
        for k in range(8):
            x = np.full(4, 0.9 * 2.0**k)
            factor = 2.0
            while np.linalg.norm(factor * x) < 1000:
                factor *= 2
            value, gradient = g(x)
            assert value == np.sum(factor * x)
            np.testing.assert_array_equal(gradient, np.full(4, factor))
        assert g.cache_info().traces == 8, repeat


PROGRAMS = {
    "early return": lambda a: _newton(a),
    "recursion": lambda a: _collatz_like(a, 6),
    "chained comparison": lambda a: a**2 if 0.5 < a < 2.0 and not a == 1.0 else -a,  # noqa: SIM201 - `not` is what is tested
    "or": lambda a: a**2 if a < 0.5 or a > 2.0 else np.sin(a),
    "minimum and maximum of Python": lambda a: max(a, 1.0, a**2) * min(2.0, a * 3.0),
    "sorted": lambda a: sorted([a, 1.0, a**2])[1] * 2.0,
    "abs and round": lambda a: abs(a - 1.0) * (2.0 if round(a * 0.9) > 1 else 3.0),
    "integer part as an index": lambda a: np.array([a, a**2, a**3])[int(a)],
    "integer part as a count": lambda a: sum((a * k for k in range(int(a) + 1)), a * 0.0),
    "any and all": lambda a: (
        a**3 if np.any(np.array([a, 2.0]) > 2.5) else (a if np.all(np.array([a, 1.0]) < 2) else a * 5)
    ),
    "in": lambda a: a * 2.0 if a in [1.5, 2.5] else a * 3.0,
    "conditional expression in a loop": lambda a: sum(a * k if a * k > 2.0 else -a for k in range(4)),
}


def _newton(a):
    x = a * 0.0 + 1.0
    for k in range(50):
        new = 0.5 * (x + a / x)
        if abs(new - x) < 1e-10:
            return new * (k + 1)
        x = new
    return x


def _collatz_like(y, depth):
    if depth == 0 or y > 100.0:
        return y
    return _collatz_like(y * y + 1.0 if y < 3.0 else y * 2.0, depth - 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_decisions_of_python(name):
    f = PROGRAMS[name]
    g = sg.value_and_grad(f)
    for a in (0.3, 0.7, 1.2, 1.5, 1.9, 2.2, 2.7, 0.3):
        value, slope = g(a)
        h = 1e-6
        assert value == pytest.approx(f(a), rel=1e-13)
        if name != "in":
            assert slope == pytest.approx((f(a + h) - f(a - h)) / (2 * h), rel=1e-5, abs=1e-7)


def test_position_of_the_largest_element_asked_for_or_symbolic():
    asked = sg.grad(lambda x: x[int(np.argmax(x))] ** 2)
    symbolic = sg.grad(lambda x: x[np.argmax(x)] ** 2)
    for x in ([1.0, 3.0, 2.0], [4.0, 3.0, 2.0], [1.0, 2.0, 5.0]):
        expected = np.where(np.arange(3) == np.argmax(x), 2 * np.max(x), 0.0)
        np.testing.assert_array_equal(asked(np.array(x)), expected)
        np.testing.assert_array_equal(symbolic(np.array(x)), expected)
    assert asked.cache_info().traces == 3
    assert symbolic.cache_info().traces == 1


def test_rows_unpacking_and_builtins():
    def f(x):
        first, *rest = x
        total = first
        for k, row in enumerate(rest):
            total = total + row * (k + 2)
        return np.sum(total) + sum(u * v for u, v in zip(first, rest[0], strict=True)) + len(x)

    x = np.arange(6.0).reshape(3, 2)
    expected = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    expected[0] += x[1]
    expected[1] += x[0]
    np.testing.assert_array_equal(sg.grad(f)(x), expected)


def test_elements_that_a_mask_selects():
    g = sg.grad(lambda x: np.sum(x[x > 0] ** 2) + np.sum(x[np.nonzero(x < -1)[0]]))
    for x in ([1.0, -2.0, 0.5], [-1.0, -2.0, -3.0], [1.0, -2.0, 0.25]):
        x = np.array(x)
        np.testing.assert_array_equal(g(x), np.where(x > 0, 2 * x, np.where(x < -1, 1.0, 0.0)))
    assert g.cache_info().traces == 2


def test_no_later_decision_is_taken_when_an_earlier_one_failed():
    def f(x):
        if x[0] > 0 and 1.0 / x[0] > 2.0:
            return x[1] * 3.0
        return x[1]

    g = sg.grad(f)
    for _ in range(2):
        for x0, slope in ((0.25, 3.0), (0.0, 1.0), (4.0, 1.0), (-1.0, 1.0)):
            np.testing.assert_array_equal(g(np.array([x0, 1.0])), [0.0, slope])


def test_exceptions_of_a_path_are_raised_on_that_path_only():
    def f(x):
        if x < 0:
            raise ValueError(f"negative: {type(x).__name__}")
        assert x != 5.0, "five"
        return x**2

    g = sg.grad(f)
    for _ in range(3):
        assert g(3.0) == 6.0
        with pytest.raises(ValueError, match="negative"):
            g(-1.0)
        with pytest.raises(AssertionError, match="five"):
            g(5.0)


def test_branches_of_inner_derivatives():
    def inner(y):
        return y**3 if y > 1 else -y

    outer = sg.grad(lambda x: x * sg.grad(inner)(x))
    for x, expected in ((2.0, 36.0), (0.5, -1.0), (3.0, 81.0)):
        assert outer(x) == expected


def test_higher_derivatives_and_forward_mode_through_branches():
    f = lambda x: x**4 if x > 0 else x**2
    second = sg.grad(sg.grad(f))
    assert [second(2.0), second(-3.0), second(1.0)] == [48.0, 2.0, 12.0]
    assert sg.jvp(f, (2.0,), (1.0,)) == (16.0, 32.0)
    assert sg.jvp(f, (-2.0,), (1.0,)) == (4.0, -4.0)


def test_paths_may_return_different_kinds_of_results():
    f = sg.compile(lambda x: 0.0 if x[0] < 0 else x[0] if x[0] < 1 else x)
    for _ in range(2):
        assert f(np.array([-1.0, 2.0])) == 0.0
        assert f(np.array([0.5, 2.0])) == 0.5
        np.testing.assert_array_equal(f(np.array([3.0, 2.0])), [3.0, 2.0])


def test_beyond_the_bound_answers_stay_right_and_one_warning_names_the_line():
    def f(x):
        k = 0
        while x > k:
            k += 1
        return x * k

    with sg.config(max_paths=3):
        g = sg.grad(f)
        with pytest.warns(sg.RetraceWarning, match=r"test_control_flow\.py"):
            assert [g(k + 0.5) for k in range(5)] == [1, 2, 3, 4, 5]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for k in range(8):
                assert g(k + 0.5) == k + 1


def test_thousands_of_rounds():
    def f(x):
        for _ in range(3000):
            x = x * 0.999 + 0.001
        return x

    assert sg.grad(f)(2.0) == pytest.approx(0.999**3000, rel=1e-12)


def test_threads_that_meet_unknown_paths_at_once():
    g = sg.grad(three_branches)
    inputs = np.random.default_rng(3).normal(size=(40, 3))
    wrong: list[np.ndarray] = []

    def work(rows):
        wrong.extend(x for x in rows if not np.allclose(g(x), three_branches_gradient(x), rtol=1e-14))

    threads = [threading.Thread(target=work, args=(inputs[k::4],)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_table_of_paths_and_the_reason_of_a_trace():
    g = sg.grad(lambda x: x**2 if x > 0 else -x)
    g(1.0)
    assert "first call" in g.explain()
    g(-1.0)
    g(-2.0)
    assert "new outcome: False" in g.explain()
    assert "test_control_flow.py" in g.explain()
    table = g.paths()
    assert [row.hits for row in table] == [1, 2]
    assert [row.decisions[0][1] for row in table] == [True, False]
    assert "→ False" in str(table)
