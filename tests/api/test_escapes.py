"""Every way in which a value could leave or enter a trace unseen: exact, guarded, live, warned about or refused.

The table in docs/escapes.md has one row for each case here.
"""

from __future__ import annotations

import functools
import math
import os
import pickle
import random
import re
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

PAGE = Path(__file__).parents[2] / "docs" / "escapes.md"
CASES: dict[str, tuple[str, object]] = {}
X = np.array([0.5, 2.0])
TABLE = np.array([1.0, 3.0])
NUMBER = 2.0
SETTINGS = {"power": 2}
KEPT: list[object] = []
rng = np.random.default_rng(0)


def case(name, kind, expected=None):
    """Enter a function of x as a row: ``expected`` is the gradient at X, or an error or warning and its text."""

    def enter(function):
        assert name not in CASES
        CASES[name] = (kind, (function, expected))
        return function

    return enter


# ---------------------------------------------------------------- exact: the value stays traced

case("float(x)", "exact", [1.0, 0.0])(lambda x: float(x[0]))
case("np.float64(x)", "exact", [1.0, 0.0])(lambda x: np.float64(x[0]))
case("abs(x), -x, +x", "exact", [-1.0, -1.0])(lambda x: np.sum(-abs(+x)))
case("sum, min, max, sorted of Python", "exact", [5.0, 3.0])(
    lambda x: sum(x) + min(x) * 2.0 + max(x) + sorted(x)[0] * 2.0 + sorted(x)[1]
)
case("math.sin and relatives", "exact", [math.cos(0.5), 0.5])(lambda x: math.sin(x[0]) + math.log(x[1]))
case("math.hypot, math.dist, math.fsum, math.prod", "exact", [5.0, 3.5])(
    lambda x: math.fsum(x) + math.prod(x) * 2.0 + math.dist([x[1]], [0.0]) + math.hypot(x[1] * 0.0 + 3.0, 4.0) * 0.0
    + (x[1] - x[0]) * 0.0 + x[1] * 0.5
)
case("np.array of traced values", "exact", [2.0, 3.0])(lambda x: np.sum(np.array([x[0], x[1]]) * np.array([2.0, 3.0])))
case("np.asarray(x)", "exact", [1.0, 4.0])(lambda x: np.sum(np.asarray(x, dtype=float) ** 2))
case("isinstance(x, np.ndarray)", "exact", [1.0, 4.0])(
    lambda x: np.sum(x**2) if isinstance(x, np.ndarray) and isinstance(x[0], float) else np.sum(x)
)
case("np.isscalar(x), x.shape, len(x), x.dtype.kind", "exact", [1.0, 1.0])(
    lambda x: np.sum(x) if np.isscalar(x[0]) and x.shape == (2,) and len(x) == 2 and x.dtype.kind == "f" else 0.0
)
case("np.zeros, then b[i] = x", "exact", [4.0, 5.0])(lambda x: _filled(x))
case("object arrays", "exact", [1.0, 1.0])(lambda x: np.sum(np.array([x[0], x[1]], dtype=object)))
case("functools.reduce", "exact", [2.0, 0.5])(lambda x: functools.reduce(lambda a, b: a * b, x))
case("functools.partial", "exact", [3.0, 3.0])(functools.partial(lambda k, x: np.sum(x) * k, 3.0))
case("comprehensions, generators, zip, enumerate", "exact", [1.0, 2.0])(
    lambda x: sum(v * (k + 1) for k, v in enumerate(x)) + 0.0 * sum(a * b for a, b in zip(x, x, strict=True))
)
case("copy.copy and x.copy()", "exact", [2.0, 2.0])(lambda x: np.sum(x.copy()) + np.sum(+x))
case("recursion", "exact", [3.0 * 0.25, 0.0])(lambda x: _power(x[0], 3))
case("import inside the function", "exact", [1.0, 1.0])(lambda x: _importing(x))
case("scipy.special ufuncs", "exact", [2 / math.sqrt(math.pi) * math.exp(-0.25), 0.0])(lambda x: _erf(x[0]))
case("scipy.linalg.solve_triangular, logsumexp", "exact", [1 / (1 + math.exp(1.5)), 1 / (1 + math.exp(-1.5))])(
    lambda x: _logsumexp(x)
)
case("try and except around NumPy", "exact", [1.0, 4.0])(lambda x: _trying(x))


def _filled(x):
    b = np.zeros(2)
    for i in range(2):
        b[i] = x[i] * (i + 2) * 2.0 - x[i] * i
    return np.sum(b)


def _power(x, n):
    return x if n == 1 else x * _power(x, n - 1)


def _importing(x):
    import numpy as other  # noqa: ICN001 - that is what is tested

    b = other.zeros(2)
    b[:] = x
    return other.sum(b)


def _erf(x):
    from scipy import special

    return special.erf(x)


def _logsumexp(x):
    from scipy.special import logsumexp

    return logsumexp(x)


def _trying(x):
    try:
        return np.sum(x**2)
    except FloatingPointError:
        return 0.0


# ---------------------------------------------------------------- guarded: the decision is checked at each call

case("if, while, and, or, not", "guarded", [1.0, 0.0])(lambda x: x[0] if x[0] < 1 and not x[1] < 1 else x[1])
case("int(x)", "guarded", [1.0, 0.0])(lambda x: x[int(x[0])])
case("x as an index or a range", "guarded", [2.0, 0.0])(lambda x: sum((x[0] for _ in range(int(x[1]))), 0.0))
case("x in a list", "guarded", [1.0, 1.0])(lambda x: np.sum(x) if x[0] in [0.5, 0.7] else x[0])
case("assert", "guarded", [1.0, 1.0])(lambda x: _asserting(x))
case("x[mask] with a traced mask", "guarded", [0.0, 4.0])(lambda x: np.sum(x[x > 1] ** 2))
case("np.nonzero, np.flatnonzero, np.argwhere", "guarded", [0.0, 1.0])(lambda x: np.sum(x[np.nonzero(x > 1)[0]]))
case("math.floor, math.isnan", "guarded", [1.0, 1.0])(
    lambda x: np.sum(x) * (1.0 if math.floor(x[0]) == 0 and not math.isnan(x[0]) else 3.0)
)


def _asserting(x):
    assert x[0] < 1.0, "too large"
    return np.sum(x)


# ---------------------------------------------------------------- live: looked up at each call

case("a captured array", "live", [1.0, 3.0])(lambda x: np.sum(TABLE * x))
case("a captured array's methods, A @ x, A[i]", "live", [2.0, 6.0])(
    lambda x: TABLE.dot(x) + TABLE[0] * x[0] + TABLE[1] * x[1]
)
case("a captured number", "live", [2.0, 2.0])(lambda x: np.sum(x) * NUMBER)
case("an entry of a captured dict", "live", [1.0, 4.0])(lambda x: np.sum(x ** SETTINGS["power"]))
case("a default argument", "live", [1.0, 3.0])(lambda x, table=TABLE: np.sum(table * x))
case("a helper function", "live", [1.0, 1.0])(lambda x: _helper(x))


def _helper(x):
    return np.sum(x)


# ---------------------------------------------------------------- warned about, at the line

case("np.random.*", "warned", "np.random.rand was called")(lambda x: np.sum(x) + 0.0 * np.random.rand())
case("methods of a random generator", "warned", "Generator.normal was called")(lambda x: np.sum(x) + 0.0 * rng.normal())
case("random.*", "warned", "random.random was called")(lambda x: np.sum(x) + 0.0 * random.random())
case("time.*", "warned", "time.time was called")(lambda x: np.sum(x) + 0.0 * time.time())
case("print", "warned", "print was called")(lambda x: _printing(x))
case("open", "warned", "a file was opened")(lambda x: _reading(x))
case("list.append outside", "warned", "changed a list")(lambda x: _keeping(x))


def _printing(x):
    print("", end="")
    return np.sum(x)


def _reading(x):
    with open(os.devnull) as file:
        file.read()
    return np.sum(x)


def _keeping(x):
    KEPT.append(float(np.sum(x)))
    return np.sum(x)


# ---------------------------------------------------------------- refused, with the line and the fix

case("x.item()", "refused", (sg.UnsupportedOperationError, "item"))(lambda x: x[0].item())
case("x.tolist()", "refused", (sg.UnsupportedOperationError, "tolist"))(lambda x: sum(x.tolist()))
case("complex(x)", "refused", (sg.TraceError, "complex"))(lambda x: complex(x[0]).real)
case("a format with digits", "refused", (sg.TraceError, "no digits"))(lambda x: _formatting(x))
case("pickling", "refused", (sg.TraceError, "pickled"))(lambda x: pickle.loads(pickle.dumps(x)).sum())
case("hash(x), x as a key", "refused", (TypeError, "unhashable"))(lambda x: {x[0]: 1.0}[x[0]])
case("np.vectorize of a Python function", "refused", (sg.TraceError, "cannot become a plain NumPy array"))(
    lambda x: np.sum(np.vectorize(math.erfc)(x))
)
case("np.polyfit, np.histogram, np.unique", "refused", (sg.UnsupportedOperationError, "histogram"))(
    lambda x: np.sum(np.histogram(x)[0])
)
case("statistics.*", "refused", (TypeError, "can't convert type"))(lambda x: statistics.harmonic_mean(list(x)))


def _formatting(x):
    return np.sum(x) * len(f"{x[0]:.3f}")


def rows():
    """Construct and kind of each row of the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {c[0].replace("`", ""): c[1] for c in cells}


def test_the_page_has_a_row_for_each_case():
    assert rows() == {name: kind for name, (kind, _) in CASES.items()}
    assert len(CASES) >= 45


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", [n for n, (kind, _) in CASES.items() if kind in ("exact", "guarded", "live")])
def test_exact_guarded_and_live(name, backend):
    _, (function, expected) = CASES[name]
    with sg.config(backend=backend), warnings.catch_warnings():
        warnings.simplefilter("error")
        g = sg.grad(function)
        for _ in range(3):
            np.testing.assert_allclose(g(X), expected, rtol=1e-14)


@pytest.mark.parametrize("name", [n for n, (kind, _) in CASES.items() if kind == "warned"])
def test_warned(name):
    _, (function, text) = CASES[name]
    with pytest.warns(sg.SideEffectWarning, match=re.escape(text)):
        np.testing.assert_allclose(sg.grad(function)(X), [1.0, 1.0])


@pytest.mark.parametrize("name", [n for n, (kind, _) in CASES.items() if kind == "refused"])
def test_refused(name):
    _, (function, (error, text)) = CASES[name]
    with pytest.raises(error, match=re.escape(text)):
        sg.grad(function)(X)


def test_what_is_kept_outside_holds_values():
    KEPT.clear()
    with pytest.warns(sg.SideEffectWarning):
        sg.grad(_keeping)(X)
    assert KEPT == [2.5]
    assert isinstance(KEPT[0], float)


def test_guards_follow_the_data():
    g = sg.grad(lambda x: x[int(x[0])] * 3.0)
    np.testing.assert_array_equal(g(X), [3.0, 0.0])
    np.testing.assert_array_equal(g(np.array([1.5, 2.0])), [0.0, 3.0])


def test_live_values_follow_their_names():
    global NUMBER
    g = sg.grad(lambda x: np.sum(x * TABLE) * NUMBER + np.sum(x ** SETTINGS["power"]))
    np.testing.assert_allclose(g(X), [3.0, 10.0])
    try:
        NUMBER = 3.0
        TABLE[0] = 2.0
        SETTINGS["power"] = 3
        np.testing.assert_allclose(g(X), [6.0 + 0.75, 9.0 + 12.0])
    finally:
        NUMBER = 2.0
        TABLE[0] = 1.0
        SETTINGS["power"] = 2
    np.testing.assert_allclose(g(X), [3.0, 10.0])


