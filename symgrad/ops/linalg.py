"""Linear algebra: solve, inverse, determinants, Cholesky, norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import Aval, broadcast_shapes, make_aval, promote
from ..core.expr import Expr
from ..core.op import Op, Sample, register
from ..errors import ShapeError, UnsupportedOperationError
from .arithmetic import absolute, power, root, square
from .comparison import not_equal
from .contraction import matmul
from .define import FUNCTIONS, as_exprs, cast, constant_like, custom, implements, promoted, strengthen
from .indexing import diagonal
from .reduction import sum_axes
from .selection import where
from .shaping import matrix_transpose, reshape, unbroadcast

Tangents = tuple[Expr | None, ...]


def _check_square(aval: Aval, name: str) -> None:
    if aval.ndim < 2 or aval.shape[-1] != aval.shape[-2]:
        raise ShapeError(f"{name} needs square matrices, not shape {aval.shape}")


def _infer_square(avals: tuple[Aval, ...], **_: Any) -> Aval:
    _check_square(avals[0], "this operation")
    return avals[0]


def _infer_scalar(avals: tuple[Aval, ...], **_: Any) -> Aval:
    _check_square(avals[0], "a determinant")
    return make_aval(avals[0].shape[:-2], avals[0].dtype)


def _infer_solve(avals: tuple[Aval, ...], **_: Any) -> Aval:
    a, b = avals
    _check_square(a, "solve")
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"solve: a right-hand side of shape {b.shape} does not fit a matrix of shape {a.shape}"
        )
    return make_aval((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), promote(a, b)[0])


def _well(rng: Any) -> Any:
    return rng.uniform(-1.0, 1.0, (3, 3)) + 3.0 * np.eye(3)


def _definite(rng: Any) -> Any:
    a = rng.uniform(-1.0, 1.0, (3, 3))
    return a @ a.T + 2.0 * np.eye(3)


def _symmetrise(t: Any) -> Any:
    return (t + np.swapaxes(t, -1, -2)) / 2


def _lower_triangular(rng: Any) -> Any:
    return np.tril(rng.uniform(0.2, 1.0, (3, 3))) + 2.0 * np.eye(3)


# ------------------------------------------------------------------------------------------ solve and inverse


def _solve_jvp(tangents: Tangents, out: Expr, a: Expr, b: Expr) -> Expr | None:
    da, db = tangents
    residual = db
    if da is not None:
        moved = matmul(da, out)
        residual = -moved if residual is None else residual - moved
    return None if residual is None else solve(a, residual)


solve: Op = custom(
    "solve", doc="Solution x of a x = b for square matrices a and columns b.", infer=_infer_solve,
    numpy="np.linalg.solve({0}, {1})", jvp=_solve_jvp,
    transposes=[None, lambda ct, out, a, b: unbroadcast(solve(matrix_transpose(a), ct), b.shape)],
    latex="{0}^{{-1}} {1}", samples=[Sample((_well, (-2.0, 2.0)), ((3, 3), (3, 2)))],
)


def _triangular_jvp(tangents: Tangents, out: Expr, a: Expr, b: Expr, lower: bool, trans: bool) -> Expr | None:
    da, db = tangents
    residual = db
    if da is not None:
        triangle = FUNCTIONS[np.tril if lower else np.triu](da)
        moved = matmul(matrix_transpose(triangle) if trans else triangle, out)
        residual = -moved if residual is None else residual - moved
    return None if residual is None else solve_triangular(a, residual, lower=lower, trans=trans)


def _triangular_transpose(ct: Expr, out: Expr, a: Expr, b: Expr, lower: bool, trans: bool) -> Expr:
    return unbroadcast(solve_triangular(a, ct, lower=lower, trans=not trans), b.shape)


solve_triangular: Op = custom(
    "solve_triangular", doc="Solution x of a x = b (aᵀ x = b with trans) that reads one triangle of a.",
    infer=_infer_solve, numpy="rt.solve_triangular({0}, {1}, {lower}, {trans})", jvp=_triangular_jvp,
    transposes=[None, _triangular_transpose], latex="{0}^{{-1}} {1}",
    samples=[Sample((_lower_triangular, (-2.0, 2.0)), ((3, 3), (3, 2)), {"lower": True, "trans": False}),
             Sample((_lower_triangular, (-2.0, 2.0)), ((3, 3), (3, 2)), {"lower": True, "trans": True})],
)


def _inv_jvp(tangents: Tangents, out: Expr, a: Expr) -> Expr | None:
    (da,) = tangents
    assert da is not None
    return -matmul(matmul(out, da), out)


inv: Op = custom(
    "inv", doc="Inverse of square matrices.", infer=_infer_square, numpy="np.linalg.inv({0})", jvp=_inv_jvp,
    latex="{0}^{{-1}}", samples=[Sample((_well,), ((3, 3),))],
)


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Expr:
    x, y = promoted([strengthen(v) for v in as_exprs(a, b)], floating=True)
    if y.ndim == 1:
        return reshape(solve(x, reshape(y, shape=(y.shape[0], 1))), shape=(*x.shape[:-2], y.shape[0]))
    return solve(x, y)


def _floating(a: Any) -> Expr:
    return promoted([strengthen(as_exprs(a)[0])], floating=True)[0]


@implements(np.linalg.inv)
def _inv(a: Any) -> Expr:
    return inv(_floating(a))


# ------------------------------------------------------------------------------------------ determinants


def _trace_product(a: Expr, b: Expr) -> Expr:
    """Sum of elementwise products over the last two axes: trace(aᵀ b)."""
    product = a * b
    return sum_axes(product, (product.ndim - 2, product.ndim - 1))


def _det_jvp(tangents: Tangents, out: Expr, a: Expr) -> Expr | None:
    (da,) = tangents
    assert da is not None
    return _trace_product(cofactor(a), da)


def _cofactor_jvp(tangents: Tangents, out: Expr, a: Expr) -> Expr | None:
    """Derivative of det(a) a⁻ᵀ, by the product rule; needs a regular matrix."""
    (da,) = tangents
    assert da is not None
    inverse = matrix_transpose(inv(a))
    along = _trace_product(inverse, da)
    spread = reshape(along, shape=(*along.shape, 1, 1))
    return out * spread - matmul(matmul(inverse, matrix_transpose(da)), out)


det = custom(
    "det", doc="Determinant of square matrices.", infer=_infer_scalar, numpy="np.linalg.det({0})",
    jvp=_det_jvp,
    latex=r"\det {0}", samples=[Sample((_well,), ((3, 3),))],
)
cofactor: Op = custom(
    "cofactor",
    doc="Matrix of cofactors, the gradient of the determinant, also where the matrix is singular.",
    infer=_infer_square, numpy="rt.cofactor({0})", jvp=_cofactor_jvp, latex=r"\operatorname{{cof}} {0}",
    samples=[Sample((_well,), ((3, 3),))],
)


def _logabsdet_jvp(tangents: Tangents, out: Expr, a: Expr) -> Expr | None:
    (da,) = tangents
    assert da is not None
    return _trace_product(matrix_transpose(inv(a)), da)


logabsdet = custom(
    "logabsdet", doc="Logarithm of the absolute determinant, without overflow.", infer=_infer_scalar,
    numpy="np.linalg.slogdet({0})[1]", jvp=_logabsdet_jvp, latex=r"\log\left|\det {0}\right|",
    text="log(abs(det({0})))",
    samples=[Sample((_well,), ((3, 3),))],
)
det_sign: Op = register(
    Op("det_sign", "nondiff", "Sign of the determinant.", _infer_scalar, "np.linalg.slogdet({0})[0]",
       samples=(Sample((_well,), ((3, 3),)),), text="sign(det({0}))", latex=r"\operatorname{{sign}}\det {0}")
)


@implements(np.linalg.det)
def _det(a: Any) -> Expr:
    return det(_floating(a))


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    x = _floating(a)
    made = type(np.linalg.slogdet(np.eye(1)))
    return made(det_sign(x), logabsdet(x))


# ------------------------------------------------------------------------------------------ Cholesky


def _cholesky_jvp(tangents: Tangents, out: Expr, a: Expr) -> Expr | None:
    """dL = L Φ(L⁻¹ dA L⁻ᵀ), Φ the lower triangle with half the diagonal (Murray 2016, arXiv:1602.07527)."""
    (da,) = tangents
    assert da is not None
    symmetric = (da + matrix_transpose(da)) * 0.5
    half = solve_triangular(out, symmetric, lower=True, trans=False)
    inner = solve_triangular(out, matrix_transpose(half), lower=True, trans=False)
    n = a.shape[-1]
    weights = a.table.constant(np.tri(n) - 0.5 * np.eye(n), a.dtype)
    return matmul(out, matrix_transpose(inner) * weights)


cholesky = custom(
    "cholesky", infer=_infer_square, numpy="np.linalg.cholesky({0})", jvp=_cholesky_jvp,
    doc="Lower triangular L with L Lᵀ = a; reads the lower triangle; the gradient is that of symmetric a.",
    latex=r"\operatorname{{chol}} {0}", samples=[Sample((_definite,), ((3, 3),), tangents=(_symmetrise,))],
)


@implements(np.linalg.cholesky)
def _cholesky(a: Any, *, upper: bool = False) -> Expr:
    x = _floating(a)
    return matrix_transpose(cholesky(matrix_transpose(x))) if upper else cholesky(x)


# ------------------------------------------------------------------------------------------ norms


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Expr:
    value = _floating(x)
    shape = value.shape
    if axis is None and (ord is None or (ord == 2 and value.ndim == 1) or (ord == "fro" and value.ndim == 2)):
        result = root(FUNCTIONS[np.sum](square(value)))
        return reshape(result, shape=(1,) * len(shape)) if keepdims else result
    axes = tuple(range(value.ndim)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(axes) == 1:
        return _vector_norm(value, ord, axes[0], keepdims)
    return _matrix_norm(value, ord, tuple(axes), keepdims)


def _vector_norm(x: Expr, order: Any, axis: int, keepdims: bool) -> Expr:
    total, size = FUNCTIONS[np.sum], absolute(x)
    if order is None or order == 2:
        return root(total(square(x), axis=axis, keepdims=keepdims))
    if order == math.inf:
        return FUNCTIONS[np.max](size, axis=axis, keepdims=keepdims)
    if order == -math.inf:
        return FUNCTIONS[np.min](size, axis=axis, keepdims=keepdims)
    if order == 0:
        return total(
            cast(not_equal(x, 0.0), x.dtype), axis=axis, keepdims=keepdims
        )
    if order == 1:
        return total(size, axis=axis, keepdims=keepdims)
    if isinstance(order, str):
        raise ShapeError(f"norm {order!r} is not defined for vectors")
    summed = total(power(size, constant_like(x, float(order))), axis=axis, keepdims=keepdims)
    if order < 0:
        return power(summed, constant_like(x, 1.0 / order))
    # As for the 2-norm, the slope at the zero vector is 0, not the infinite one of the root.
    positive = not_equal(summed, 0.0)
    length = power(where(positive, summed, 1.0), constant_like(x, 1.0 / order))
    return where(positive, length, 0.0)


def _matrix_norm(x: Expr, order: Any, axes: tuple[int, ...], keepdims: bool) -> Expr:
    if len(axes) != 2:
        raise ShapeError(f"a norm takes one or two axes, not {len(axes)}")
    if order is None or order == "fro":
        return root(FUNCTIONS[np.sum](square(x), axis=axes, keepdims=keepdims))
    sums = {1: (0, np.max), -1: (0, np.min), math.inf: (1, np.max), -math.inf: (1, np.min)}
    if order not in sums:
        raise UnsupportedOperationError(
            f"the matrix norm of order {order!r} is not known\n  Use 'fro', 1, -1, inf or -inf."
        )
    inner, reduce = sums[order]
    columns = FUNCTIONS[np.sum](absolute(x), axis=axes[inner], keepdims=True)
    result = FUNCTIONS[reduce](columns, axis=axes[1 - inner], keepdims=True)
    return result if keepdims else FUNCTIONS[np.squeeze](result, axis=axes)


@implements(np.linalg.trace)
def _matrix_trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Expr:
    return FUNCTIONS[np.sum](diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Expr:
    x = as_exprs(a)[0]
    _check_square(x.aval, "matrix_power")
    if n < 0:
        x, n = inv(_floating(x)), -n
    if n == 0:
        return FUNCTIONS[np.broadcast_to](
            x.table.constant(np.eye(x.shape[-1]), x.dtype), x.shape
        )
    result: Expr | None = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    assert result is not None
    return result


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Expr:
    result, *rest = as_exprs(*arrays)
    for factor in rest:
        result = FUNCTIONS[np.dot](result, factor)
    return result


