"""Compositions of operations that carry NumPy's or SciPy's name: sinc, softplus, logsumexp and the like."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..errors import UnsupportedOperationError
from .comparison import equal, less, less_equal
from .define import FUNCTIONS, UFUNCS, as_exprs, implements, promoted, strengthen
from .shaping import reshape
from .transcendental import spherical_jn


@implements(np.sinc)
def _sinc(x: Any) -> Expr:
    value = promoted([strengthen(as_exprs(x)[0])], floating=True)[0]
    return spherical_jn(value * np.pi, n=0)


@implements(np.angle)
def _angle(z: Any, deg: bool = False) -> Expr:
    value = as_exprs(z)[0]
    result = UFUNCS["arctan2"](0.0, value)
    return UFUNCS["degrees"](result) if deg else result


@implements(np.real)
def _real(x: Any) -> Expr:
    return as_exprs(x)[0]


@implements(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Expr:
    """Positions that keep a line sorted, by counting: exact, and O(len(a)) for each value."""
    line, value = promoted([strengthen(x) for x in as_exprs(a, v)])
    if sorter is not None:
        line = FUNCTIONS[np.take](line, sorter)
    spread = reshape(value, shape=(*value.shape, 1))
    before = less(line, spread) if side == "left" else less_equal(line, spread)
    return FUNCTIONS[np.count_nonzero](before, axis=-1)


@implements(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Expr:
    """Piecewise linear interpolation; constant outside, unless told otherwise."""
    if period is not None:
        raise UnsupportedOperationError(
            "np.interp with period= is not known.\n  Reduce x and xp with np.mod and repeat the end points."
        )
    q, places, values = promoted([strengthen(v) for v in as_exprs(x, xp, fp)], floating=True)
    n = places.shape[0]
    if n == 1:
        inside = FUNCTIONS[np.broadcast_to](reshape(values, shape=()), q.shape)
    else:
        # The interval of each query: the last place that is not after it, at most the last but one.
        spot = FUNCTIONS[np.clip](_searchsorted(places, q, "right") - 1, 0, n - 2)
        low, high = FUNCTIONS[np.take](places, spot), FUNCTIONS[np.take](places, spot + 1)
        start, end = FUNCTIONS[np.take](values, spot), FUNCTIONS[np.take](values, spot + 1)
        inside = start + (end - start) / (high - low) * (q - low)
    first, last = FUNCTIONS[np.take](places, 0), FUNCTIONS[np.take](places, n - 1)
    below = FUNCTIONS[np.take](values, 0) if left is None else as_exprs(left, q)[0]
    above = FUNCTIONS[np.take](values, n - 1) if right is None else as_exprs(right, q)[0]
    where = FUNCTIONS[np.where]
    at_end = where(equal(q, last), FUNCTIONS[np.take](values, n - 1), inside)
    return where(less(q, first), below, where(less(last, q), above, at_end))
