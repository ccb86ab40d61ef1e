"""What each operation of the table should compute, said independently of its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from symgrad.core.op import Op

Array = Any


def _picks(sizes: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...]) -> tuple[Array, ...]:
    return np.ix_(*[s + d * np.arange(n) for n, s, d in zip(sizes, starts, steps, strict=True)])


def _slice(x: Array, starts: Any, sizes: Any, steps: Any) -> Array:
    return np.asarray(x)[_picks(sizes, starts, steps)]


def _put_slice(x: Array, shape: Any, starts: Any, steps: Any) -> Array:
    result = np.zeros(shape, x.dtype)
    result[_picks(x.shape, starts, steps)] = x
    return result


def _running(
    step: Callable[[float, float], float], x: Array, axis: int, reverse: bool, start: float, exclusive: bool
) -> Array:
    moved = np.moveaxis(np.array(x), axis, 0)
    result = np.empty_like(moved)
    state = np.full(moved.shape[1:], start, x.dtype)
    order = range(len(moved) - 1, -1, -1) if reverse else range(len(moved))
    for k in order:
        after = step(state, moved[k])
        result[k] = state if exclusive else after
        state = after
    return np.moveaxis(result, 0, axis)


def _cumsum(x: Array, axis: int, reverse: bool) -> Array:
    return _running(lambda s, v: s + v, x, axis, reverse, 0.0, False)


def _cumprod(x: Array, axis: int, reverse: bool, exclusive: bool) -> Array:
    return _running(lambda s, v: s * v, x, axis, reverse, 1.0, exclusive)


def _linear_scan(a: Array, b: Array, axis: int, reverse: bool) -> Array:
    pairs = np.stack([a, b], axis=-1)
    moved = np.moveaxis(pairs, axis, 0)
    result = np.empty(moved.shape[:-1], b.dtype)
    state = np.zeros(moved.shape[1:-1], b.dtype)
    for k in range(len(moved) - 1, -1, -1) if reverse else range(len(moved)):
        state = moved[k][..., 0] * state + moved[k][..., 1]
        result[k] = state
    return np.moveaxis(result, 0, axis)


def _gather(x: Array, *index: Array, axes: tuple[int, ...]) -> Array:
    key: list[Any] = [slice(None)] * x.ndim
    for axis, where in zip(axes, index, strict=True):
        key[axis] = where
    return x[tuple(key)]


def _scatter_add(values: Array, *index: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    result = np.zeros(shape, values.dtype)
    # Each element of the array tells where it would be read from.
    source = _gather(np.arange(result.size).reshape(shape), *index, axes=axes)
    for place, value in zip(np.ravel(source), np.ravel(values), strict=True):
        result.flat[place] += value
    return result


def _solve_triangular(a: Array, b: Array, lower: bool, trans: bool) -> Array:
    triangle = np.tril(a) if lower else np.triu(a)
    return np.linalg.inv(triangle.T if trans else triangle) @ b


def _cofactor(a: Array) -> Array:
    n = len(a)
    result = np.empty_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            result[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return result


REFERENCES: dict[str, Callable[..., Any]] = {
    "in_domain": lambda x: np.where(x < 0, np.nan, x) + 0.0,
    "keep": lambda c, x: np.where(c, x, np.zeros_like(x)),
    "root": np.sqrt,
    "sech2": lambda x: 1 / np.cosh(x) ** 2,
    "spherical_jn": lambda z, n: scipy.special.spherical_jn(n, z).astype(z.dtype),
    "stop_gradient": lambda x: x,
    "where": np.where,
    "clip": np.clip,
    "astype": lambda x, dtype: np.asarray(x).astype(dtype),
    "reshape": lambda x, shape: np.reshape(x, shape),
    "transpose": lambda x, axes: np.transpose(x, axes),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "slice": _slice,
    "put_slice": _put_slice,
    "concatenate": lambda *xs, axis: np.concatenate(xs, axis=axis),
    "sum": lambda x, axis: np.sum(x, axis=axis, dtype=x.dtype),
    "prod": lambda x, axis: np.prod(x, axis=axis),
    "max": lambda x, axis: np.max(x, axis=axis),
    "min": lambda x, axis: np.min(x, axis=axis),
    "any": lambda x, axis: np.any(x, axis=axis),
    "all": lambda x, axis: np.all(x, axis=axis),
    "argmax": lambda x, axis: np.argmax(x, axis=axis),
    "argmin": lambda x, axis: np.argmin(x, axis=axis),
    "argsort": lambda x, axis: np.argsort(x, axis=axis, kind="stable"),
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "linear_scan": _linear_scan,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "solve": lambda a, b: np.linalg.inv(a) @ b,
    "solve_triangular": _solve_triangular,
    "inv": lambda a: np.linalg.solve(a, np.eye(len(a), dtype=a.dtype)),
    "det": lambda a: np.prod(np.linalg.eigvals(a)).real.astype(a.dtype),
    "cofactor": _cofactor,
    "logabsdet": lambda a: np.log(np.abs(np.linalg.det(a))),
    "det_sign": lambda a: np.sign(np.linalg.det(a)),
    "cholesky": np.linalg.cholesky,
}


def ufunc_of(op: Op) -> Callable[..., Any] | None:
    """NumPy's or SciPy's ufunc of the name of an op."""
    found = getattr(np, op.name, None) or getattr(scipy.special, op.name, None)
    return found if isinstance(found, np.ufunc) else None


def reference(op: Op) -> Callable[..., Any] | None:
    """An independent statement of an op; None for one that has neither a ufunc nor an entry here."""
    return REFERENCES.get(op.name) or ufunc_of(op)
