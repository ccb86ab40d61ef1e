"""Numbers that do not fit, sequences that are written, and arrays without axes: as NumPy takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.tracing.agreement import BACKENDS, agrees

SMALL = np.array([1, 2, 3], np.int8)
BYTES = np.array([1, 200], np.uint8)
LARGE = np.array([2**62, 5])
WIDE = np.array([2**63, 5], np.uint64)
POINT = np.array(2.5)
M = np.array([[1.0, -2.0, 3.0, 0.5], [4.0, 1.5, -1.0, 2.0]])


def function(lines: str) -> Any:
    *before, last = lines.split("; ")
    names: dict[str, Any] = {"np": np}
    exec("def f(x):\n" + "".join(f"    {line}\n" for line in before) + f"    return {last}", names)
    return names["f"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("line", "x"),
    [
        *[(line, SMALL) for line in (
            "x + 300", "300 - x", "x * -129", "x > 300", "x == 300", "x // 300", "np.maximum(x, 300)", "x + 127",
            "np.clip(x, -300, 300)", "x.clip(2, 300)", "np.clip(x, 2, None)", "x / 300", "np.full_like(x, 300)",
            "x[0] = 300; x", "x[[0, 1]] = [300, 1]; x", "x.fill(300); x", "np.put(x, 0, 300); x", "x += 300; x",
            "np.copyto(x, 300); x", "x[:] = [1.5, 2, 3]; x", "x[0] = 1.7; x", "x < 2**70", "x + 2**70",
        )],
        *[(line, BYTES) for line in ("x - 1", "x > -1", "x + (-1)", "x * -1", "x < -2**70", "x == 2**70", "x + 2**70")],
        *[(line, LARGE) for line in (
            "x + 2**63", "x * 2**70", "x < 2**63", "x > 2**64", "x == 2**63", "x != -2**63 - 1", "x / 2**70",
            "x * 1.5 + 2**70", "np.where(x < 2**63, x, 0)",
        )],
        *[(line, WIDE) for line in ("x + (2**63 - 5)", "x == 2**63", "x < 2**64", "x + 2**64", "x - 1")],
        *[(line, M) for line in ("x * 2**70", "x + 10**30", "x < 10**30")],
    ],
)  # fmt: skip
def test_python_integers_fit_or_raise(line: str, x: Any, backend: str) -> None:
    agrees(function(line), backend, (x,))


@pytest.mark.parametrize("key", ["x[0, 0]", "x[0]", "x[:, 0]", "x[0:1, 0:1]", "x[0, ...]", "x[...]", "x[[0], [0]]"])
@pytest.mark.parametrize(
    "value",
    ["[5.0]", "(5.0,)", "[[5.0]]", "range(4)", "range(2)", "range(3)", "np.ones(1)", "np.ones((1, 1))", "x[0, :1]",
     "'a'", "'1.5'", "None", "{1: 2}", "[1, 2]", "[[1, 2, 3, 4]]", "[[1], [2]]", "[x[0, 1]]", "[x[0, 1], 1, 2, 3]",
     "np.array(5.0)", "[]", "True", "(k for k in range(4))"],
)  # fmt: skip
def test_sequences_are_written_as_numpy_does(key: str, value: str) -> None:
    f = function(f"x = x * 1; {key} = {value}; np.nan_to_num(x)")
    agrees(f, "numpy", (M,), twice=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "line",
    ["np.take(x, 0, axis=0)", "np.take(x, [0, 0], axis=-1)", "x.take(0, axis=0)", "np.repeat(x, 3, axis=0)",
     "np.argsort(x, axis=0)", "np.argsort(x)", "x.argsort()", "np.nanmean(x, axis=0)", "np.nanvar(x, axis=-1)",
     "np.nanstd(x, axis=0)", "np.cumsum(x, axis=0)", "np.take(x, 0, axis=1)", "np.repeat(x, 2, axis=1)",
     "np.nanmean(x, axis=1)", "np.sort(x, axis=0)"],
)  # fmt: skip
def test_arrays_without_axes_have_one(line: str, backend: str) -> None:
    agrees(function(line), backend, (POINT,))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("line", ["n * m + 1", "n**3 - m", "n << m", "2 * n - m", "n + m", "n - m"])
def test_python_integers_do_not_wrap(line: str, backend: str) -> None:
    f = eval(f"lambda n, m: {line}")
    compiled = sg.compile(f, backend=backend)
    for n, m in ((3, 4), (7, 5), (2**40, 2**40), (-(2**62), 3), (2**62, 2**62), (2**62, -(2**62)), (5, 2), (-5, 9)):
        if "<<" in line and not 0 <= m < 64:
            continue
        wanted = f(n, m)
        if abs(wanted) < 2**63 and abs(n) ** 3 < 2**63:
            assert compiled(n, m) == wanted
        elif abs(wanted) >= 2**63:
            with pytest.raises(sg.TraceError, match=r"grew beyond 64 bits[\s\S]*<string>:1"):
                compiled(n, m)
    with pytest.raises(ValueError, match="negative shift"):
        sg.compile(lambda n, m: n << m, backend=backend)(3, -1)


def test_integers_of_numpy_wrap_as_they_do() -> None:
    assert sg.compile(lambda n, m: n * m)(np.int64(2**40), 2**40) == 0
    assert sg.compile(lambda n: n * 3)(2) == 6
    assert sg.compile(lambda n, x: n * 2 * x).graph(sg.Spec((), int), sg.Spec((2,), float)) is not None


def test_operators_take_ranges() -> None:
    agrees(lambda x: (x + range(4)) * np.add(range(4), x), "numpy", (M,))
    agrees(lambda x: True + x * False, "numpy", (2.5,), (3,))
