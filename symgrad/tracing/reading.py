"""Methods of arrays that give their elements one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..ops.casting import python_number
from ..ops.define import FUNCTIONS, METHODS, cast


def _item(x: Expr, *position: Any) -> Any:
    """``x.item()``: the only element, or the one at a position, as a Python number."""
    if not position:
        if x.aval.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return _number(FUNCTIONS[np.reshape](x, ()))
    key = position[0] if len(position) == 1 else position
    if isinstance(key, tuple):
        return _number(METHODS["__getitem__"](x, key))
    return _number(METHODS["__getitem__"](FUNCTIONS[np.reshape](x, (x.aval.size,)), key))


def _tolist(x: Expr) -> Any:
    """``x.tolist()``: nested lists of Python numbers."""
    return _listed(x, ())


def _listed(x: Expr, index: tuple[int, ...]) -> Any:
    if len(index) == x.ndim:
        return _number(METHODS["__getitem__"](x, index))
    return [_listed(x, (*index, k)) for k in range(x.shape[len(index)])]


def _number(x: Expr) -> Any:
    if x.aval.weak or x.dtype.kind == "b":
        return x
    return python_number(cast(x, np.float64 if x.dtype.kind == "f" else np.int64))


METHODS["item"] = _item
METHODS["tolist"] = _tolist
