"""What depends on constants only is computed at once: loop counters, sizes, tables built in the function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import CONST, Expr
from ..ops.evaluate import evaluate
from ..ops.shaping import broadcast_to

FOLD_LIMIT = 4096
"""Arrays of more elements stay expressions."""


def folded(expr: Expr) -> Expr:
    """The same value as a constant, if it depends on constants only and is not large."""
    table = expr.table
    if expr.id not in table.known or expr.op is CONST or expr.aval.size > FOLD_LIMIT:
        return expr
    if expr.op is broadcast_to and expr.aval.size > 1 and expr.args[0].op is CONST:
        return expr
    with np.errstate(all="ignore"):
        value = _value(expr)
    return table.constant(np.asarray(value, expr.dtype), expr.dtype, expr.aval.weak)


def _value(expr: Expr) -> Any:
    # Results are folded as they are recorded, so only the few nodes of one NumPy call are left to walk.
    if expr.op is CONST:
        return expr.value[()]  # type: ignore[index]  # a constant has a value
    operands = [_value(a) for a in expr.args]
    return evaluate(expr.op, operands, [a.aval for a in expr.args], dict(expr.params))
