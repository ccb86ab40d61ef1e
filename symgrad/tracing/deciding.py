"""Asking for the value of a traced expression: a guard of the trace in progress."""

from __future__ import annotations

from typing import Any

from ..core.expr import Expr
from ..core.origin import user_origin
from ..errors import SymgradError
from .refusing import located, over
from .state import active_trace


def decided(expr: Expr, integer: bool) -> bool | int:
    """The truth or the integer value of a scalar."""
    trace = active_trace()
    if trace is None or trace.table is not expr.table:
        over(expr.table)
    try:
        return trace.decide(expr, integer, user_origin(3))
    except SymgradError as error:
        raise located(error) from None


def decided_mask(mask: Expr) -> Any:
    """The elements of a mask."""
    trace = active_trace()
    if trace is None or trace.table is not mask.table:
        over(mask.table)
    try:
        return trace.decide_mask(mask, user_origin(2))
    except SymgradError as error:
        raise located(error) from None
