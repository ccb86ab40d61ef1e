"""What reductions of nothing give."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..ops.reduction import all_, max_, min_, prod


def identity_of(node: Expr) -> Any:
    """What a reduction of nothing gives."""
    if node.op in (max_, min_):
        lowest = node.op is max_
        if node.dtype.kind == "f":
            return -np.inf if lowest else np.inf
        if node.dtype.kind == "b":
            return not lowest
        limits = np.iinfo(node.dtype)
        return limits.min if lowest else limits.max
    return 1 if node.op in (prod, all_) else 0

