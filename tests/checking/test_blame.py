"""A wrong rule of an operation is found in the graph, with the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symgrad.checking.blame import find_blame
from symgrad.checking.check import check_derivatives
from symgrad.core.op import lookup
from symgrad.errors import GradientMismatch, ShapeError
from symgrad.ops.shaping import broadcast_to, reshape
from tests.checking.traced import planted, traced

RNG = np.random.default_rng(5)
W, X = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3))


def loss(w: Any, x: Any) -> Any:
    hidden = np.tanh(w @ x)
    total = np.sum(hidden, axis=0)
    return np.sum(np.exp(total) * hidden[0] / np.sqrt(1 + total**2))


def caught(function: Any, *args: Any) -> str:
    with pytest.raises(GradientMismatch) as error:
        check_derivatives(**traced(function, *args))
    return str(error.value)


def test_right_rules_are_not_blamed() -> None:
    case = traced(loss, W, X)
    assert find_blame(case["graph"], [W, X]) is None
    assert check_derivatives(**case).ok


def test_a_sign() -> None:
    (right,) = lookup("tanh").partials
    assert right is not None
    with planted("tanh", partials=(lambda out, x: -right(out, x),)):
        text = caught(loss, W, X)
    assert "the operation to blame is tanh" in text
    assert "hidden = np.tanh(w @ x)" in text
    assert "in loss" in text


def test_a_factor_of_two() -> None:
    (right,) = lookup("exp").partials
    assert right is not None
    with planted("exp", partials=(lambda out, x: right(out, x) * 2.0,)):
        text = caught(loss, W, X)
    assert "the operation to blame is exp" in text
    assert "return np.sum(np.exp(total)" in text


def test_a_wrong_axis() -> None:
    def along_the_other_axis(ct: Any, out: Any, x: Any, axis: tuple[int, ...]) -> Any:
        if x.ndim != 2:
            return broadcast_to(ct, shape=x.shape)
        return broadcast_to(reshape(ct, shape=(x.shape[0], 1)), shape=x.shape)

    with planted("sum", transposes=(along_the_other_axis,)):
        text = caught(loss, W, X)
    assert "the operation to blame is sum, operand 0: its reverse rule" in text
    assert "total = np.sum(hidden, axis=0)" in text


def test_a_dropped_term() -> None:
    first, _ = lookup("multiply").partials
    with planted("multiply", partials=(first, lambda out, x, y: x * 0.0)):
        text = caught(lambda x: np.sum(np.sin(x) * np.cos(2 * x)), np.array([0.4, 1.1]))
    assert "the operation to blame is multiply, operand 1" in text
    assert "test_blame.py" in text


def test_a_derivative_that_is_cut() -> None:
    stop = lookup("stop_gradient")

    def cut(x: Any) -> Any:
        return np.sum(type(x)(stop(x.expr)) * x) if hasattr(x, "expr") else np.sum(x * x)

    text = caught(cut, np.array([1.0, 2.0]))
    assert "the operation to blame is stop_gradient, operand 0: it lets no derivative through" in text


def test_a_wrong_gradient_of_right_operations_blames_none() -> None:
    case = traced(loss, W, X)
    right = case["reverse"]
    case["reverse"] = lambda w, x: [-g for g in right(w, x)]
    with pytest.raises(GradientMismatch) as error:
        check_derivatives(**case)
    assert "to blame" not in str(error.value)


def test_kinks_and_symmetric_matrices_are_no_faults() -> None:
    def kinked(a: Any) -> Any:
        return np.sum(np.abs(a - 1)) + 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky(a))))

    spd = np.array([[4.0, 1.0], [1.0, 3.0]])
    assert find_blame(traced(kinked, spd)["graph"], [spd]) is None


def test_integers_and_single_precision_pass_through() -> None:
    def mixed(x: Any) -> Any:
        picked = x[np.array([2, 0])].astype(np.float32)
        return np.sum(np.where(picked > 0, picked, picked**2)) * np.float32(2)

    x = np.array([1.0, 2.0, -3.0])
    assert find_blame(traced(mixed, x)["graph"], [x]) is None


def test_values_must_match_the_inputs() -> None:
    with pytest.raises(ShapeError, match="2 inputs, 1 values"):
        find_blame(traced(loss, W, X)["graph"], [W])
