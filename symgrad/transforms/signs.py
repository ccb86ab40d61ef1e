"""Signs that follow from how a value is computed, rounding included."""

from __future__ import annotations

from ..core.expr import Expr
from ..ops.arithmetic import absolute, add, hypot, multiply, root, sqrt, square
from ..ops.selection import maximum
from ..ops.transcendental import cosh, exp, exp2, expit, logaddexp, sech2

_NEVER_NEGATIVE = {absolute, cosh, exp, exp2, expit, hypot, root, sech2, sqrt, square}
DEPTH = 8
"""How many operations deep a sign is looked for."""


def is_nonnegative(x: Expr, depth: int = DEPTH) -> bool:
    """True only if every element is at least 0, or NaN."""
    number = _number(x)
    if number is not None:
        return number >= 0
    if x.op in _NEVER_NEGATIVE:
        return True
    if depth == 0:
        return False
    if x.op in (add, multiply):
        return all(is_nonnegative(a, depth - 1) for a in x.args)
    return x.op is maximum and any(is_nonnegative(a, depth - 1) for a in x.args)


def is_positive(x: Expr, depth: int = DEPTH) -> bool:
    """True only if every element is above 0, or NaN; a product may underflow, such a sum cannot."""
    number = _number(x)
    if number is not None:
        return number > 0
    if depth == 0:
        return False
    if x.op is add:
        a, b = x.args
        return (is_positive(a, depth - 1) and is_nonnegative(b, depth - 1)) or (
            is_positive(b, depth - 1) and is_nonnegative(a, depth - 1)
        )
    return x.op is maximum and any(is_positive(a, depth - 1) for a in x.args)


def is_above_minus_infinity(x: Expr) -> bool:
    """True only if no element is -inf."""
    number = _number(x)
    if number is not None:
        return number > -float("inf")
    if is_nonnegative(x):
        return True
    return x.op is logaddexp and any(is_above_minus_infinity(a) for a in x.args if not a.args)


def _number(x: Expr) -> float | None:
    value = x.value
    if value is None or value.size == 0 or value.dtype.kind == "b":
        return None
    return float(value.min())
