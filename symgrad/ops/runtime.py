"""NumPy code behind the operations that NumPy itself has no function for.

Generated NumPy source calls these as ``rt.name``. They keep the dtype of their operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.lazy import lazy_import

sl: Any = lazy_import("scipy.linalg")

Array = Any


def sech2(x: Array) -> Array:
    """sech(x)², from the decaying exponential so that nothing overflows or cancels."""
    e = np.exp(-2 * np.abs(x))
    return 4 * e / np.square(1 + e)


def in_domain(x: Array) -> Array:
    """The value, NaN where it is negative; -0.0 becomes 0.0, so that its reciprocal is +inf."""
    return np.where(x < 0, np.nan, x) + 0.0


def spherical_jn(n: int, z: Array) -> Array:
    """Spherical Bessel function j_n by its power series near 0 and upward recurrence elsewhere."""
    z = np.asarray(z)
    near = np.abs(z) < n + 1
    safe = np.where(near, z.dtype.type(n + 1), z)
    far, previous = np.sin(safe) / safe, np.cos(safe) / safe
    for k in range(n):
        far, previous = (2 * k + 1) / safe * far - previous, far
    return np.where(near, _bessel_series(n, np.where(near, z, 0)), far)[()]


def _bessel_series(n: int, z: Array) -> Array:
    """z^n/(2n+1)!! · Σ (-z²/2)^k / (k! (2n+3)(2n+5)…): DLMF 10.53.1."""
    quarter = -z * z / 2
    term = np.ones_like(z)
    for k in range(1, n + 1):
        term = term * z / (2 * k + 1)
    total = term
    for k in range(1, 14 + n):
        term = term * quarter / (k * (2 * (n + k) + 1))
        total = total + term
    return total


def cumprod(x: Array, axis: int, reverse: bool, exclusive: bool) -> Array:
    """Running product, optionally from the end, optionally without the element itself."""
    moved = np.moveaxis(x, axis, -1)
    if reverse:
        moved = moved[..., ::-1]
    if exclusive:
        ones = np.ones_like(moved[..., :1])
        moved = np.concatenate([ones, moved[..., :-1]], axis=-1) if moved.shape[-1] else moved
    result = np.cumprod(moved, axis=-1, dtype=x.dtype)
    if reverse:
        result = result[..., ::-1]
    return np.moveaxis(result, -1, axis)


def cumsum(x: Array, axis: int, reverse: bool) -> Array:
    """Running sum, optionally from the end."""
    if not reverse:
        return np.cumsum(x, axis=axis, dtype=x.dtype)
    return np.flip(np.cumsum(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)


def linear_scan(a: Array, b: Array, axis: int, reverse: bool) -> Array:
    """The recurrence y[k] = a[k] y[k-1] + b[k] along an axis."""
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    y = np.empty_like(b)
    state = np.zeros_like(b[0]) if len(b) else None
    for k in range(len(b) - 1, -1, -1) if reverse else range(len(b)):
        state = a[k] * state + b[k]
        y[k] = state
    return np.moveaxis(y, 0, axis)


def unslice(x: Array, shape: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Zeros of ``shape`` with ``x`` written at a basic slice."""
    result = np.zeros(shape, x.dtype)
    result[basic_index(np.shape(x), starts, steps)] = x
    return result


def basic_index(sizes: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...]) -> tuple[slice, ...]:
    """The slices that pick ``sizes[k]`` elements from ``starts[k]`` by ``steps[k]``."""
    index = []
    for n, start, step in zip(sizes, starts, steps, strict=True):
        stop = start + n * step
        index.append(slice(start, None if stop < 0 else stop, step) if n else slice(0, 0))
    return tuple(index)


def gather(x: Array, axes: tuple[int, ...], *indices: Array) -> Array:
    """Index the leading ``axes`` positions of ``x`` by integer arrays; see :mod:`symgrad.ops.indexing`."""
    return x[_full_index(np.ndim(x), axes, indices)]


def scatter_add(values: Array, shape: tuple[int, ...], axes: tuple[int, ...], *indices: Array) -> Array:
    """The adjoint of :func:`gather`: sum ``values`` into zeros of ``shape``."""
    values = np.asarray(values)
    result = np.zeros(shape, values.dtype)
    np.add.at(result, _full_index(len(shape), axes, indices), values)
    return result


def _full_index(ndim: int, axes: tuple[int, ...], indices: tuple[Array, ...]) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * ndim
    for axis, where in zip(axes, indices, strict=True):
        index[axis] = where
    return tuple(index)


def cofactor(a: Array) -> Array:
    """Matrix of cofactors, also of a singular matrix: LU with complete pivoting, adj(AB) = adj(B) adj(A)."""
    n = a.shape[-1]
    if a.ndim > 2:
        flat = a.reshape(-1, n, n)
        return np.stack([cofactor(m) for m in flat]).reshape(a.shape) if len(flat) else np.array(a)
    if n == 0:
        return np.array(a)
    lu, rows, cols, sign = _complete_pivoting(a)
    lower = np.tril(lu, -1) + np.eye(n, dtype=a.dtype)
    head, pivot, column = lu[:-1, :-1], lu[-1, -1], lu[:-1, -1]
    adjugate = np.zeros_like(lu)
    product = np.prod(np.diagonal(head))
    if product != 0:
        inner = sl.solve_triangular(np.triu(head), np.eye(n - 1, dtype=a.dtype)) if n > 1 else head
        adjugate[:-1, :-1] = product * pivot * inner
        adjugate[:-1, -1] = -product * (inner @ column)
        adjugate[-1, -1] = product
    adjugate = sl.solve_triangular(lower, adjugate.T, lower=True, trans="T", unit_diagonal=True).T
    result = np.empty_like(adjugate)
    result[np.ix_(cols, rows)] = sign * adjugate
    return result.T


def _complete_pivoting(a: Array) -> tuple[Array, Array, Array, float]:
    n = len(a)
    lu, rows, cols, sign = np.array(a), np.arange(n), np.arange(n), 1.0
    for k in range(n):
        largest = int(np.argmax(np.abs(lu[k:, k:])))
        i, j = largest // (n - k) + k, largest % (n - k) + k
        if i != k:
            lu[[k, i]], rows[[k, i]], sign = lu[[i, k]], rows[[i, k]], -sign
        if j != k:
            lu[:, [k, j]], cols[[k, j]], sign = lu[:, [j, k]], cols[[j, k]], -sign
        if lu[k, k] != 0:
            lu[k + 1:, k] /= lu[k, k]
            lu[k + 1:, k + 1:] -= np.outer(lu[k + 1:, k], lu[k, k + 1:])
    return lu, rows, cols, sign


def solve_triangular(a: Array, b: Array, lower: bool, trans: bool) -> Array:
    """Solve ``a x = b`` (``aᵀ x = b`` with ``trans``) for triangular ``a``; batches by broadcasting."""
    if a.ndim == 2 and b.ndim == 2:
        return sl.solve_triangular(a, b, lower=lower, trans=int(trans), check_finite=False)
    triangle = np.tril(a) if lower else np.triu(a)
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if trans else triangle, b)
