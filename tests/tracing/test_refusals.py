"""What cannot be traced: the error names the user's file, line and source, and says what to write instead."""

from __future__ import annotations

import importlib.util
import pickle
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symgrad.core.aval import aval_of
from symgrad.errors import (
    DtypeError,
    ShapeError,
    SymgradError,
    TraceError,
    UnsupportedOperationError,
)
from symgrad.tracing.trace import trace_flat
from symgrad.tracing.tracer import Tracer

# A line of the user's, the class of the error, words of the message, words of the advice.
Case = tuple[str, type[SymgradError], str, str]

CONCRETE: list[Case] = [
    ("float(x[0])", TraceError, "float() of a traced value", "Leave out float()"),
    ("complex(x[0])", TraceError, "complex() of a traced value", "real and imaginary part"),
    ("math.sin(x[0])", TraceError, "float() of a traced value", "np.sin for math.sin"),
    ("np.asarray(x)", TraceError, "cannot become a plain NumPy array", "np.stack"),
    ("np.array([x[0], 1.0])", TraceError, "cannot become a plain NumPy array", "symgrad.numpy"),
    ("np.array([x, x])", TraceError, "cannot become a plain NumPy array", "np.concatenate"),
    ("np.array([x[0], 1.0], dtype=object)", TraceError, "cannot become a plain NumPy array", "np.stack"),
    ("np.sum([x[0], x[1]])", TraceError, "cannot become a plain NumPy array", "np.stack"),
    ("np.full(3, x[0])", TraceError, "cannot become a plain NumPy array", "symgrad.numpy"),
    ("np.vectorize(lambda v: v + 1)(x)", TraceError, "cannot become a plain NumPy array", "np.stack"),
    ("w.dot(x)", TraceError, "cannot become a plain NumPy array", "np.stack"),
    ("w.__setitem__(slice(None), x)", TraceError, "cannot become a plain NumPy array", "symgrad.numpy"),
    ("w.__setitem__(0, x[0])", TraceError, "float() of a traced value", "Leave out float()"),
    ("x.byteswap()", UnsupportedOperationError, "ndarray.byteswap cannot be traced", "returns a new array"),
    ('f"{x[0]:.3f}"', TraceError, "no digits to format with '.3f'", "Print it outside"),
    ("pickle.dumps(x)", TraceError, "cannot be pickled", "lives while the function is traced"),
]

DECISIONS: list[Case] = [
    ("1 if x[0] > 0 else 2", TraceError, "a decision that depends on data", "Give example arrays"),
    ("bool(x[0])", TraceError, "a decision that depends on data", "Give example arrays"),
    ("int(x[0])", TraceError, "a decision that depends on data", "Give example arrays"),
    ("range(i)", TraceError, "a decision that depends on data", "Give example arrays"),
    ("[1, 2, 3][i]", TraceError, "a decision that depends on data", "Give example arrays"),
    ("max(x)", TraceError, "a decision that depends on data", "Give example arrays"),
    ("1.0 in x", TraceError, "a decision that depends on data", "Give example arrays"),
    ("x[x > 0]", TraceError, "a mask that depends on data", "np.where(mask, x, 0)"),
    ("np.nonzero(x)", TraceError, "a mask that depends on data", "np.where(mask, x, 0)"),
]

UNKNOWN: list[Case] = [
    ("np.fft.fft(x)", UnsupportedOperationError, "np.fft.fft cannot be traced", "functions that are known"),
    ("np.modf(x)", UnsupportedOperationError, "np.modf cannot be traced", "functions that are known"),
    ("np.frexp(x)", UnsupportedOperationError, "np.frexp cannot be traced", "functions that are known"),
    ("np.add.reduceat(x, [0, 2])", UnsupportedOperationError, "np.add.reduceat cannot be traced", ""),
    ("np.subtract.reduce(x)", UnsupportedOperationError, "np.subtract.reduce cannot be traced", ""),
    ("np.frompyfunc(abs, 1, 1)(x)", UnsupportedOperationError, "cannot be traced: symgrad has no rule", ""),
    (
        "np.pad(x, 1, mode='linear_ramp')",
        UnsupportedOperationError,
        "linear_ramp",
        "Use constant, edge, reflect",
    ),
    ("np.linalg.norm(np.outer(x, x), 'nuc')", UnsupportedOperationError, "'nuc' is not known", "Use 'fro'"),
    (
        "np.sin(x, where=w > 2)",
        TraceError,
        "where= leaves the other elements undefined",
        "np.where(mask, f(x), other)",
    ),
    ("np.sin(x, out=w)", TraceError, "out= names an array that is not traced", "symgrad.numpy"),
    ("w.__iadd__(x)", TraceError, "out= names an array that is not traced", "symgrad.numpy"),
    ("np.multiply.at(w, [0], x[0])", TraceError, "writes a traced value into an array", "symgrad.numpy"),
    ("np.sin.at(x, np.argsort(x))", TraceError, "positions that depend on data", "np.add.at"),
    ("np.roll(x, i)", DtypeError, "np.roll cannot be traced with these arguments", "int(n)"),
    ("np.repeat(x, x)", DtypeError, "np.repeat cannot be traced with these arguments", "int(n)"),
    ("np.round(x, x[0])", DtypeError, "np.round cannot be traced with these arguments", "int(n)"),
    (
        "x.sum(nosuch=1)",
        DtypeError,
        "ndarray.sum cannot be traced with these arguments",
        "leave out arguments",
    ),
    ("np.tile(x, x[0])", DtypeError, "a shape must consist of integers", ""),
]

WRONG: list[Case] = [
    ("x + 1j", DtypeError, "complex cannot take part", ""),
    ("x + object()", DtypeError, "object cannot take part", ""),
    ("x * np.array(['a'])", DtypeError, "dtype <U1 cannot be traced", ".astype(float)"),
    ("x.astype(complex)", DtypeError, "dtype complex128 cannot be traced", ".astype(float)"),
    ("np.bitwise_and(x, 1)", DtypeError, "np.bitwise_and is not defined for float64, int", ""),
    ("x << x", DtypeError, "np.left_shift is not defined for float64, float64", ""),
    ("~x", DtypeError, "np.invert is not defined for float64", ""),
    ("x[0].astype(np.uint8) + 300", DtypeError, "300 out of bounds for uint8", ""),
    ("x[1.5]", DtypeError, "an index must be an integer", ""),
    ("x['a']", DtypeError, "an index must be an integer", ""),
    ("x[x]", DtypeError, "an index must be an integer, not float64", ""),
    ("x[7]", ShapeError, "index 7 is out of bounds for an axis of size 3", ""),
    ("x[[0, 9]]", ShapeError, "out of bounds for an axis of size 3", ""),
    ("x[0, 0]", ShapeError, "too many indices", ""),
    ("x[..., ...]", ShapeError, "only have one Ellipsis", ""),
    ("x + np.ones(4)", ShapeError, "shapes (3,) and (4,) cannot be broadcast together", ""),
    ("x @ 2.0", ShapeError, "matmul needs arrays with at least one axis", "Write * for scalars"),
    ("x @ np.ones(4)", ShapeError, "3 columns meet 4 rows", ""),
    ("np.concatenate([x, np.outer(x, x)])", ShapeError, "cannot be concatenated along axis 0", ""),
    ("np.stack([x, x[:2]])", ShapeError, "must have the same shape", ""),
    ("np.max(x[:0])", ShapeError, "np.max of an empty array", "Give initial="),
    ("np.argmin(x[:0])", ShapeError, "np.argmin of an empty array", ""),
    ("x.reshape(5)", ShapeError, "shape (3,) cannot be reshaped to (5,)", ""),
    ("np.reshape(x, (2, -1))", ShapeError, "shape (3,) cannot be reshaped to (2, -1)", ""),
    ("np.sum(x, axis=1)", ShapeError, "axis 1 is out of bounds for an array with 1 axes", ""),
    ("np.sum(x, axis=(0, 0))", ShapeError, "named twice", ""),
    ("np.squeeze(x, axis=0)", ShapeError, "its size is not 1", ""),
    ("np.broadcast_to(x, (2, 2))", ShapeError, "cannot be broadcast", ""),
    ("np.transpose(x, (0, 0))", ShapeError, "no permutation", ""),
    ("np.cross(x[:2], x[:2])", ShapeError, "vectors of length 3", ""),
    ("np.einsum('ij->i', x)", ShapeError, "'ij' does not fit an operand of shape (3,)", ""),
    ("np.einsum('i->ii', x)", ShapeError, "must name each index once", ""),
    ("np.einsum('i,j->k', x, x)", ShapeError, "only those of operands", ""),
    ("np.einsum('i,i', x, x[:2])", ShapeError, "disagree on the size of an index: 3 and 2", ""),
    ("np.einsum('i,j', x)", ShapeError, "names 2 operands, 1 were given", ""),
    ("np.linalg.solve(np.outer(x, x)[:2], x)", ShapeError, "solve needs square matrices", ""),
    ("np.linalg.det(np.outer(x, x)[:2])", ShapeError, "needs square matrices, not shape (2, 3)", ""),
    ("np.diag(np.ones((2, 2, 2)) * x[0])", ShapeError, "one or two axes, not 3", ""),
]

HEAD = """import copy
import math
import pickle
import numpy as np


def f(x, i, w=np.array([1.0, 2.0, 3.0])):
    y = x * 2
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], types.ModuleType]:
    def load(text: str) -> types.ModuleType:
        path = tmp_path / "users_script.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("users_script", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def traced(function: Callable[..., Any]) -> Any:
    avals = [aval_of(np.ones(3)), aval_of(np.int64(1))]
    return trace_flat(function, avals, ["x", "i"], function.__name__)


@pytest.mark.parametrize("case", [*CONCRETE, *DECISIONS, *UNKNOWN, *WRONG], ids=lambda c: c[0])
def test_the_line_and_the_advice_are_shown(case: Case, script: Any) -> None:
    line, kind, what, advice = case
    module = script(f"{HEAD}    return {line}\n")
    with pytest.raises(kind) as caught:
        traced(module.f)
    message = str(caught.value)
    first, *rest = message.splitlines()
    assert what in first
    number = HEAD.count("\n") + 1
    assert f"{module.__file__}:{number} in f: return {line}" in rest[0]
    assert advice in "\n".join(rest[1:])


def test_classes_of_errors_are_the_builtin_ones_too(script: Any) -> None:
    for line, builtin in (
        ("x + np.ones(4)", ValueError),
        ("x[7]", IndexError),
        ("x + 1j", TypeError),
        ("x[0].astype(np.uint8) + 300", OverflowError),
        ("np.fft.fft(x)", NotImplementedError),
    ):
        module = script(f"{HEAD}    return {line}\n")
        with pytest.raises(builtin):
            traced(module.f)


def test_the_line_is_that_of_the_innermost_function_of_the_user(script: Any) -> None:
    module = script(
        "import numpy as np\n\n\ndef helper(a):\n    b = a + 1\n    return np.fft.fft(b)\n\n\n"
        "def f(x, i):\n    return helper(x * 2)\n"
    )
    with pytest.raises(
        UnsupportedOperationError, match=r"users_script.py:6 in helper: return np.fft.fft\(b\)"
    ):
        traced(module.f)


def test_the_standard_library_is_not_blamed(script: Any) -> None:
    module = script(
        "import functools\nimport numpy as np\n\n\ndef f(x, i):\n"
        "    return functools.reduce(lambda a, b: np.fft.fft(a), [x, x])\n"
    )
    with pytest.raises(UnsupportedOperationError, match=r"users_script\.py:6 in <lambda>"):
        traced(module.f)


@pytest.mark.parametrize("result", ["'text'", "object()", "[x, 'a']", "{'k': 1j}", "str(x[0])"])
def test_results_that_are_no_numbers(result: str, script: Any) -> None:
    module = script(f"{HEAD}    return {result}\n")
    with pytest.raises(DtypeError, match=r"f returned a [a-z]+, which is no number or array") as caught:
        traced(module.f)
    assert "Return arrays, numbers, or tuples" in str(caught.value)


def test_what_python_itself_refuses(script: Any) -> None:
    for line, message in (
        ("x + 'a'", "unsupported operand"),
        ("x + None", "unsupported operand"),
        ("{x[0]: 1}", "unhashable"),
        ("len(x[0])", "no len"),
        ("list(x[0])", "not iterable"),
        ("x[0][0]", "not subscriptable"),
    ):
        module = script(f"{HEAD}    return {line}\n")
        with pytest.raises(TypeError, match=message):
            traced(module.f)
    module = script(f"{HEAD}    return x.nosuch\n")
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        traced(module.f)
    module = script(f"{HEAD}    return 1 if x else 2\n")
    with pytest.raises(ValueError, match="ambiguous"):
        traced(module.f)


# ------------------------------------------------------------ values that escape


def test_a_value_that_outlived_its_trace() -> None:
    kept: list[Any] = []

    def keep(x: Any, i: Any) -> Any:
        kept.append(x * 2)
        return x

    traced(keep)
    with pytest.raises(TraceError, match="after its trace was over") as caught:
        kept[0] + 1
    assert "test_refusals.py:" in str(caught.value)
    assert "kept[0] + 1" in str(caught.value)
    assert "return them from the function" in str(caught.value)
    for use in (lambda: np.sin(kept[0]), lambda: kept[0].sum(), lambda: kept[0][0], lambda: -kept[0]):
        with pytest.raises(TraceError):
            use()


def test_a_value_of_another_trace() -> None:
    kept: list[Any] = []

    def keep(x: Any, i: Any) -> Any:
        kept.append(x)
        return x

    traced(keep)
    with pytest.raises(TraceError, match=r"another trace|after its trace was over"):
        traced(lambda x, i: x + kept[0])
    with pytest.raises(TraceError, match=r"another trace|after its trace was over"):
        traced(lambda x, i: kept[0])
    with pytest.raises(TraceError, match=r"another trace|after its trace was over"):
        traced(lambda x, i: np.concatenate([x, kept[0]]))


def test_an_escaped_value_can_still_be_looked_at() -> None:
    kept: list[Any] = []
    traced(lambda x, i: kept.append(x) or x)
    assert kept[0].shape == (3,)
    assert kept[0].dtype == np.float64
    assert repr(kept[0]).startswith("<traced f64[3]")
    with pytest.raises(TraceError):
        pickle.dumps(kept[0])


# ------------------------------------------------------------ failures of the function itself


def test_errors_of_the_function_pass_through_untouched() -> None:
    class Own(Exception):
        pass

    def fails(x: Any, i: Any) -> Any:
        raise Own("mine")

    with pytest.raises(Own, match="mine"):
        traced(fails)
    with pytest.raises(ZeroDivisionError):
        traced(lambda x, i: x * (1 / 0))


def test_a_trace_that_failed_leaves_nothing_behind() -> None:
    with pytest.raises(SymgradError):
        traced(lambda x, i: x[9])
    graph, _ = traced(lambda x, i: x * 2)
    assert graph.node_count == 1


def test_a_scalar_is_no_sequence() -> None:
    """NumPy would read its elements, and hide the message, if it were one."""
    seen: list[Any] = []
    traced(lambda x, i: seen.append(x[0]) or x)
    assert type(seen[0]) is Tracer
    for name in ("__len__", "__getitem__", "__iter__"):
        assert not hasattr(Tracer, name)
