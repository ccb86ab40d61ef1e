"""Compositions of operations that carry NumPy's or SciPy's name: sinc, softplus, logsumexp and the like."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from .define import UFUNCS, as_exprs, implements, promoted, strengthen
from .transcendental import spherical_jn


@implements(np.sinc)
def _sinc(x: Any) -> Expr:
    value = promoted([strengthen(as_exprs(x)[0])], floating=True)[0]
    return spherical_jn(value * np.pi, n=0)


@implements(np.angle)
def _angle(z: Any, deg: bool = False) -> Expr:
    value = as_exprs(z)[0]
    result = UFUNCS["arctan2"](0.0, value)
    return UFUNCS["degrees"](result) if deg else result  # type: ignore[no-any-return]


@implements(np.real)
def _real(x: Any) -> Expr:
    return as_exprs(x)[0]
