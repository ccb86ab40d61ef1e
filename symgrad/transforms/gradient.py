"""The gradient of one scalar, in the mode that suits the arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.expr import Expr
from .forward import pushforward
from .reverse import pullback


def gradient(out: Expr, wrt: Sequence[Expr]) -> list[Expr | None]:
    """Derivatives of a scalar with respect to each of ``wrt``.

    A single scalar argument is differentiated forward: derivatives of rising order then share what they have in
    common and grow polynomially, where repeated reverse mode doubles. Everything else is differentiated in reverse.

    Returns
    -------
    list
        One expression each, None where the derivative is structurally zero.
    """
    if len(wrt) == 1 and not wrt[0].shape:
        return pushforward([out], wrt, [_one(wrt[0])])
    return pullback([out], [_one(out)], wrt)


def _one(like: Expr) -> Expr:
    return like.table.constant(np.ones((), like.dtype), like.dtype, like.aval.weak)
