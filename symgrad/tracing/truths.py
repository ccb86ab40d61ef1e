"""Bools of Python, which are integers to its operators where NumPy's are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..ops import comparison
from ..ops.casting import python_number
from ..ops.define import cast

_COMPARISONS = frozenset(
    [comparison.less, comparison.less_equal, comparison.greater, comparison.greater_equal, comparison.equal,
     comparison.not_equal]
)
_LOGIC = frozenset([comparison.logical_and, comparison.logical_or, comparison.logical_xor])


def is_truth(x: Any) -> bool:
    """Whether a value is what Python has as a bool: what comes of comparing Python numbers."""
    if not isinstance(x, Expr):
        return type(x) is bool
    if x.op in _COMPARISONS:
        return all([a.aval.weak for a in x.args])
    return x.op in _LOGIC and all([is_truth(a) for a in x.args])


def as_integers(*operands: Any) -> tuple[Any, ...]:
    """The operands, bools as Python integers if all operands are Python's."""
    if all([_is_python(x) for x in operands]):
        return tuple([_integer(x) if is_truth(x) else x for x in operands])
    return operands


def _is_python(x: Any) -> bool:
    if isinstance(x, Expr):
        return x.aval.weak or is_truth(x)
    return type(x) in (bool, int, float)


def _integer(x: Any) -> Any:
    return python_number(cast(x, np.int64)) if isinstance(x, Expr) else int(x)
