"""Exceptions of the user's own come out as they are, also those raised while handling one of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedOperationError

X = np.array([1.0, 2.0])


class Mine(Exception):
    """Not derived from anything that symgrad raises."""


def deeper(x: Any) -> Any:
    raise Mine("deeper") from None


def attempts(x: Any, kind: str) -> Any:
    try:
        {
            "index": lambda: x[5],
            "shape": lambda: x + np.ones(3),
            "axis": lambda: np.sum(x, axis=4),
            "reshape": lambda: x.reshape(3),
            "matrix": lambda: np.linalg.inv(x),
            "attribute": lambda: x.foo,
            "overflow": lambda: np.array([1], np.int8) * x.astype(np.int8) + 300,
        }[kind]()
    except (IndexError, ValueError, AttributeError, OverflowError) as error:
        if kind == "shape":
            raise KeyError("k") from error
        if kind == "axis":
            deeper(x)
        raise Mine(kind)  # noqa: B904 - chained without saying so
    return x


@pytest.mark.parametrize("kind", ["index", "shape", "axis", "reshape", "matrix", "attribute", "overflow"])
def test_the_users_exception_stands(kind: str) -> None:
    error = KeyError if kind == "shape" else Mine
    for transform in (sg.compile, sg.grad):
        with pytest.raises(error) as caught:
            transform(lambda x: np.sum(attempts(x, kind)))(X)
        assert not isinstance(caught.value, sg.SymgradError)


def test_what_numpy_would_have_done_is_refused_all_the_same() -> None:
    def f(x: Any) -> Any:
        try:
            return np.histogram(x)
        except Exception:  # noqa: BLE001 - what is tested
            raise Mine("mine") from None

    with pytest.raises(UnsupportedOperationError, match=r"np\.histogram"):
        sg.compile(f)(X)


def test_a_missing_attribute_says_where() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'foo'\n  at .*test_exceptions\.py"):
        sg.compile(lambda x: x.foo)(X)
    assert sg.compile(lambda x: x * 2 if hasattr(x, "foo") else x)(X)[0] == 1.0


def test_a_text_as_a_result_is_named_once() -> None:
    with pytest.raises(sg.DtypeError) as caught:
        sg.compile(lambda x: {"a": "text", "b": x})(X)
    assert str(caught.value).count("str") == 1


def test_a_text_as_an_argument_is_named_once() -> None:
    with pytest.raises(sg.DtypeError) as caught:
        sg.compile(lambda x, y: y)("text", 1.0)
    assert str(caught.value).count("cannot be traced") == 1
    assert "dtype" not in str(caught.value)
