"""Evaluating one operation with NumPy: the same source text that the NumPy backend runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.lazy import lazy_import
from ..core.op import Op
from . import runtime

NAMESPACE: dict[str, Any] = {
    "np": np,
    "rt": runtime,
    "sc": lazy_import("scipy.special"),
    "sl": lazy_import("scipy.linalg"),
}
"""The modules that NumPy sources of operations may use."""

_LETTERS = tuple(f"a{k}" for k in range(64))


def evaluate(op: Op, arrays: Sequence[Any], avals: Sequence[Aval], params: dict[str, Any]) -> Any:
    """Value of one operation on concrete operands.

    Parameters
    ----------
    op
        What to compute.
    arrays
        Operands: arrays or NumPy scalars.
    avals
        Their abstract values.
    params
        Static parameters.
    """
    names = _LETTERS[: len(arrays)] if len(arrays) <= 64 else tuple(f"a{k}" for k in range(len(arrays)))
    return _function(op.source(names, avals, params), names)(*arrays)


@lru_cache(maxsize=2048)
def _function(source: str, names: tuple[str, ...]) -> Callable[..., Any]:
    code = compile(f"lambda {', '.join(names)}: {source}", "<symgrad op>", "eval")
    made: Callable[..., Any] = eval(code, dict(NAMESPACE))
    return made
