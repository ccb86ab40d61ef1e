"""SciPy functions that are no ufuncs, as compositions: triangular and Cholesky solves, logsumexp, softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..errors import UnsupportedOperationError
from .arithmetic import subtract
from .comparison import equal, isfinite
from .control import stop_gradient
from .define import FUNCTIONS, as_exprs, constant_like, implements, promoted, strengthen
from .linalg import cholesky, solve_triangular
from .selection import where
from .shaping import matrix_transpose, reshape
from .transcendental import exp, log


def _floating(*values: Any) -> list[Expr]:
    return promoted([strengthen(v) for v in as_exprs(*values)], floating=True)


def _columns(b: Expr) -> Expr:
    return reshape(b, shape=(b.shape[0], 1)) if b.ndim == 1 else b


@implements("scipy.linalg.solve_triangular")
def _solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, **_: Any
) -> Expr:
    matrix, right = _floating(a, b)
    if unit_diagonal:
        eye = matrix.table.constant(np.eye(matrix.shape[-1]), matrix.dtype)
        below = FUNCTIONS[np.tril](matrix, -1) if lower else FUNCTIONS[np.triu](matrix, 1)
        matrix = below + eye
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise UnsupportedOperationError(
            f"solve_triangular with trans={trans!r} is not known; use 0, 1 or 'N', 'T'"
        )
    found = solve_triangular(matrix, _columns(right), lower=bool(lower), trans=trans in (1, 2, "T", "C"))
    return reshape(found, shape=right.shape) if right.ndim == 1 else found


@implements("scipy.linalg.cholesky")
def _cholesky(a: Any, lower: bool = False, **_: Any) -> Expr:
    (matrix,) = _floating(a)
    # SciPy reads the triangle that it returns.
    return cholesky(matrix) if lower else matrix_transpose(cholesky(matrix_transpose(matrix)))


@implements("scipy.linalg.cho_factor")
def _cho_factor(a: Any, lower: bool = False, **_: Any) -> tuple[Expr, bool]:
    return _cholesky(a, lower), bool(lower)


@implements("scipy.linalg.cho_solve")
def _cho_solve(c_and_lower: Any, b: Any, **_: Any) -> Expr:
    factor, lower = c_and_lower
    inner = _solve_triangular(factor, b, 0 if lower else 1, lower)
    return _solve_triangular(factor, inner, 1 if lower else 0, lower)


@implements("scipy.linalg.solve")
def _solve(a: Any, b: Any, **_: Any) -> Expr:
    return FUNCTIONS[np.linalg.solve](a, b)


@implements("scipy.linalg.inv")
def _inv(a: Any, **_: Any) -> Expr:
    return FUNCTIONS[np.linalg.inv](a)


@implements("scipy.linalg.det")
def _det(a: Any, **_: Any) -> Expr:
    return FUNCTIONS[np.linalg.det](a)


@implements("scipy.linalg.norm")
def _norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, **_: Any) -> Expr:
    return FUNCTIONS[np.linalg.norm](a, ord, axis, keepdims)


# ------------------------------------------------------------------------------------------ exponentials


def _shifted(x: Expr, axis: Any) -> tuple[Expr, Expr]:
    """The values minus their (finite) largest, and that, held constant: it cancels in every derivative."""
    largest = stop_gradient(FUNCTIONS[np.max](x, axis=axis, keepdims=True))
    finite = where(isfinite(largest), largest, constant_like(x, 0.0))
    return subtract(x, finite), finite


@implements("scipy.special.logsumexp")
def _logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Expr:
    """log Σ b exp(a), without overflow; the gradient of a line of -inf is zero."""
    if return_sign:
        raise UnsupportedOperationError("logsumexp with return_sign=True is not known; use it without")
    if b is None:
        (x,) = _floating(a)
        weights = None
    else:
        x, weights = _floating(a, b)
    moved, largest = _shifted(x, axis)
    terms = exp(moved) if weights is None else exp(moved) * weights
    total = FUNCTIONS[np.sum](terms, axis=axis, keepdims=True)
    nothing = equal(total, 0.0)
    logarithm = log(where(nothing, constant_like(x, 1.0), total)) + largest
    result = where(nothing, constant_like(x, -np.inf), logarithm)
    return result if keepdims else FUNCTIONS[np.squeeze](result, axis=axis)


@implements("scipy.special.softmax")
def _softmax(x: Any, axis: Any = None) -> Expr:
    (value,) = _floating(x)
    moved, _ = _shifted(value, axis)
    weights = exp(moved)
    return weights / FUNCTIONS[np.sum](weights, axis=axis, keepdims=True)


@implements("scipy.special.log_softmax")
def _log_softmax(x: Any, axis: Any = None) -> Expr:
    (value,) = _floating(x)
    moved, _ = _shifted(value, axis)
    return moved - log(FUNCTIONS[np.sum](exp(moved), axis=axis, keepdims=True))
