"""Python integers have no bounds, those that are computed with here have 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.origin import user_origin
from ..ops.define import UFUNCS, as_exprs, cast
from .refusing import refuse
from .state import active_trace

LIMIT = 9.2e18
"""A bit less than 2**63: what is asked for is computed with rounding."""

_GROWING = {f.__name__ for f in (np.add, np.subtract, np.multiply, np.power, np.left_shift)}


def is_growing(name: str) -> bool:
    """Whether an operation of Python's integers can leave 64 bits."""
    return name in _GROWING


def check_range(name: str, first: Any, second: Any) -> None:
    """Take the decision that the result of an operation fits; where it does not, Python would have gone on."""
    trace = active_trace()
    a, b = [cast(x, np.float64) for x in as_exprs(first, second)]
    if trace is None or trace.table is not a.table:
        return
    if name == np.left_shift.__name__ and trace.is_known(b) and trace.decide(b < 0, False, user_origin(3)):
        raise ValueError("negative shift count")
    made: Expr = a * UFUNCS[np.exp2.__name__](b) if name == np.left_shift.__name__ else UFUNCS[name](a, b)
    fits = UFUNCS[np.less_equal.__name__](UFUNCS[np.absolute.__name__](made), LIMIT)
    if trace.is_known(fits) and not trace.decide(fits, False, user_origin(3)):
        refuse(
            "a Python integer grew beyond 64 bits, where Python goes on and compiled code cannot",
            "Give a float, or compute it outside of the traced function.",
        )
