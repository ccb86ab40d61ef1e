"""NumPy's functions, methods and indexing as users write them: traced against NumPy itself, with derivatives.

Each line of the table is an expression over the arrays of ``OPERANDS``. What it names is traced; the result must
have NumPy's dtype, shape and value, and forward and reverse derivatives must agree with finite differences.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from symgrad.ops.define import ACCUMULATIONS, FUNCTIONS, METHODS, REDUCTIONS, UFUNCS
from tests.core.graphs import central, jvp_graph, run, run_all, trace, vjp_graph

_rng = np.random.default_rng(7)


def _well(n: int) -> Any:
    return _rng.uniform(-1, 1, (n, n)) + 3 * np.eye(n)


_half = _rng.uniform(-1, 1, (3, 3))
OPERANDS: dict[str, Any] = {
    "s": 0.7,
    "q": np.float64(-1.3),
    "z": np.array(0.4),
    "v": np.array([0.3, -1.2, 2.5, 0.9]),
    "w": np.array([1.1, 0.4, -0.6]),
    "x": _rng.uniform(-2, 2, (3, 4)),
    "y": _rng.uniform(-2, 2, (3, 4)),
    "p": _rng.uniform(0.3, 0.9, (3, 4)),
    "t": _rng.uniform(-2, 2, (2, 3, 4)),
    "A": _well(3),
    "S": _half @ _half.T + 2 * np.eye(3),
    "B": np.stack([_well(3), _well(3)]),
    "r": np.array([[1.5], [-0.5], [2.0]]),
    "e": np.zeros((0, 3)),
    "one": np.array([0.8]),
    "f": _rng.uniform(0.5, 2, (2, 3)).astype(np.float32),
    "n": np.array([[0.5, np.nan, 2.0], [np.nan, 1.5, -0.3]]),
    "i": np.array([[3, -1, 4], [1, 5, -9]]),
    "k": np.array([2, 0, 1]),
    "u": np.array([200, 10, 7], np.uint8),
    "m": np.array([[True, False, True, True], [False, False, True, False], [True, True, True, False]]),
}

CALLS = """
x + y
x - r
s * x
x / (s + 3)
-x
+x
abs(x)
x ** 2
x ** 3
p ** 1.5
p ** y
2 ** x
2.5 ** v
x // 0.3
x % 0.7
divmod(x, 0.7)[1]
x @ x.T
v @ v
x @ v
w @ x
[1.0, 2.0, 3.0] @ x
x @ np.ones(4)
t @ v
w @ t
B @ A
A @ B
np.matmul(t, x.T)
(x > y) * x
(x > 0) & (y > 0)
(x > 0) | (y > 0)
(x > 0) ^ (y > 0)
~(x > 0)
x == y
x != y
(i & 3) + (i | 4) + (i ^ 5) + ~i
(i << 2) + (i >> 1)
i // 2 + i % 3
i / 2
i ** 2
1 / p
1 - x
3 // p
2 % p
x + i[:, :1].sum()
f * 2.5
f + 1
f * s
f / np.float32(3)
f.sum() * np.float64(2)
u + 100
u * 2.5
x + [1.0, 2.0, 3.0, 4.0]
round(q, 1) + q
np.add(x, y)
np.subtract(x, r)
np.multiply(x, y)
np.divide(x, p)
np.true_divide(x, p)
np.floor_divide(x, p)
np.remainder(x, 0.9)
np.mod(x, p)
np.fmod(x, 0.7)
np.power(p, y)
np.power(p, -2)
np.float_power(p, 2)
np.negative(x)
np.positive(x)
np.absolute(x)
np.abs(x)
np.fabs(x)
np.sign(x)
np.square(x)
np.sqrt(p)
np.reciprocal(p)
np.conjugate(x)
np.exp(x)
np.exp2(x)
np.expm1(x)
np.log(p)
np.log2(p)
np.log10(p)
np.log1p(p)
np.sin(x)
np.cos(x)
np.tan(p)
np.arcsin(p)
np.arccos(p)
np.arctan(x)
np.arctan2(x, y)
np.sinh(x)
np.cosh(x)
np.tanh(x)
np.arcsinh(x)
np.arccosh(p + 1)
np.arctanh(p)
np.hypot(x, y)
np.logaddexp(x, y)
np.logaddexp2(x, y)
np.deg2rad(x)
np.radians(x)
np.rad2deg(x)
np.degrees(x)
np.maximum(x, y)
np.minimum(x, y)
np.fmax(x, y)
np.fmin(x, y)
np.copysign(x, y)
np.signbit(x)
np.heaviside(x, p)
np.floor(x)
np.ceil(x)
np.trunc(x)
np.rint(x)
np.fix(x)
np.isnan(n)
np.isfinite(n)
np.isinf(n)
np.less(x, y)
np.less_equal(x, y)
np.greater(x, y)
np.greater_equal(x, y)
np.equal(x, y)
np.not_equal(x, y)
np.logical_and(x > 0, y > 0)
np.logical_or(x, y)
np.logical_xor(x > 0, y > 0)
np.logical_not(x)
np.bitwise_and(i, 3)
np.bitwise_or(i, 3)
np.bitwise_xor(i, 3)
np.invert(i)
np.left_shift(i, 2)
np.right_shift(i, 1)
sc.expit(x)
sc.log_expit(x)
sc.logit(p)
sc.erf(x)
sc.erfc(x)
np.add(x, y, dtype=np.float32)
np.sin(i)
np.add.outer(v, w)
np.multiply.outer(w, x)
np.add.reduce(x)
np.add.reduce(x, axis=1)
np.add.reduce(x, axis=(0, 1))
np.add.reduce(x, axis=None)
np.add.reduce(x, axis=1, keepdims=True)
np.multiply.reduce(x, axis=1)
np.maximum.reduce(x, axis=0)
np.minimum.reduce(x)
np.logical_and.reduce(m, axis=1)
np.logical_or.reduce(x > 0)
np.add.accumulate(x)
np.add.accumulate(x, axis=1)
np.multiply.accumulate(x, axis=1)
np.sum(x)
np.sum(x, axis=0)
np.sum(x, axis=-1)
np.sum(x, axis=(0, 1))
np.sum(x, axis=())
np.sum(t, axis=(0, -1), keepdims=True)
np.sum(x, keepdims=True)
np.sum(x, 1)
np.sum(x, where=m)
np.sum(x, axis=1, where=x > 0)
np.sum(x, initial=2.0)
np.sum(x, axis=0, initial=s)
np.sum(i)
np.sum(u)
np.sum(m)
np.sum(m, axis=0)
np.sum(f)
np.sum(f, dtype=np.float64)
np.sum(e)
np.sum(e, axis=0)
np.sum(e, axis=1)
np.sum(z)
x.sum()
x.sum(0)
x.sum(axis=-1, keepdims=True)
np.prod(x)
np.prod(x, axis=0)
np.prod(t, axis=(0, 2))
np.prod(x, axis=1, keepdims=True)
np.prod(x, where=m)
np.prod(x, initial=0.5)
np.prod(e, axis=0)
np.prod(i)
np.prod(u)
np.prod(z)
x.prod(axis=1)
np.mean(x)
np.mean(x, axis=0)
np.mean(t, axis=(0, -1))
np.mean(x, axis=1, keepdims=True)
np.mean(x, where=m)
np.mean(x, axis=0, where=m)
np.mean(i)
np.mean(u)
np.mean(m)
np.mean(f)
np.mean(f, dtype=np.float64)
x.mean()
x.mean(1)
np.var(x)
np.var(x, axis=0)
np.var(x, axis=1, ddof=1)
np.var(x, axis=(0, 1), keepdims=True)
np.var(x, correction=1)
np.var(x, where=m)
np.var(i)
np.var(f)
x.var(axis=1)
np.std(x)
np.std(x, axis=0)
np.std(x, axis=-1, ddof=1, keepdims=True)
np.std(t, axis=(1, 2))
np.std(i)
np.std(f)
x.std(0)
np.max(x)
np.max(x, axis=0)
np.max(t, axis=(0, 2))
np.max(x, axis=1, keepdims=True)
np.max(x, initial=1.5)
np.max(x, axis=1, where=m, initial=-5.0)
np.max(i, axis=1)
np.max(e, axis=1)
np.max(n)
np.max(z)
np.amax(x, 1)
x.max(0)
np.min(x)
np.min(x, axis=1)
np.min(x, axis=0, initial=-1.0)
np.amin(x)
x.min(axis=-1)
np.any(x > 1)
np.any(x > 1, axis=0)
np.any(x, axis=1, keepdims=True)
np.any(m, where=x > 0)
np.any(m, axis=0, where=[[True], [False], [True]])
x.any()
np.all(x > -5)
np.all(m, axis=1)
np.all(m, axis=1, where=x > 0)
np.all(x, axis=(0, 1))
x.all(axis=0)
np.argmax(x)
np.argmax(x, axis=0)
np.argmax(x, axis=1, keepdims=True)
np.argmax(x, keepdims=True)
np.argmax(n)
x.argmax(1)
np.argmin(x)
np.argmin(x, axis=-1)
x.argmin()
np.argsort(x)
np.argsort(x, axis=0)
np.argsort(x, axis=None)
np.argsort(n)
x.argsort()
np.sort(x)
np.sort(x, axis=0)
np.sort(x, axis=None)
np.sort(i)
np.cumsum(x)
np.cumsum(x, axis=0)
np.cumsum(x, axis=-1)
np.cumsum(i)
np.cumsum(u)
np.cumsum(z)
np.cumsum(f, dtype=np.float64)
np.cumsum(e, axis=0)
x.cumsum(1)
np.cumprod(x)
np.cumprod(x, axis=0)
np.cumprod(x, axis=1)
np.cumprod(i, axis=1)
x.cumprod(axis=1)
np.ptp(x)
np.ptp(x, axis=1)
np.average(x)
np.average(x, axis=0)
np.average(x, axis=1, weights=v + 3)
np.average(x, weights=p)
np.average(x, axis=0, weights=p)
np.average(x, axis=1, weights=np.array([1.0, 2.0, 3.0, 4.0]), keepdims=True)
np.average(x, axis=0, weights=p, returned=True)[1]
np.average(x, axis=0, returned=True)[1]
np.median(x)
np.median(x, axis=0)
np.median(x, axis=1, keepdims=True)
np.median(w)
np.median(t, axis=(0, 2))
np.median(n, axis=0)
np.median(i)
np.count_nonzero(x > 0)
np.count_nonzero(x, axis=1)
np.nansum(n)
np.nansum(n, axis=0)
np.nanprod(n, axis=1)
np.nancumsum(n)
np.nancumprod(n, axis=1)
np.nanmean(n)
np.nanmean(n, axis=1)
np.nanmean(n, axis=0, keepdims=True)
np.nanvar(n)
np.nanvar(n, axis=1, ddof=0)
np.nanstd(n)
np.nanstd(n, axis=1)
np.where(x > 0, x, y)
np.where(m, x, 0)
np.where(m, 1.5, x)
np.where(x > 0, x, np.nan) * 0 + x
np.where(x > y, s, 2.0)
np.where(i, 1.5, i)
np.where(m, x, r)
np.select([x > 1, x > 0], [x ** 2, y])
np.select([x > 1, x > 0], [x, 2.0], default=s)
np.select([m, ~m], [x, y], -1.0)
np.clip(x, -0.5, 0.7)
np.clip(x, None, 0.7)
np.clip(x, -0.5, None)
np.clip(x, r - 1, r + 1)
np.clip(x, a_min=-0.5, a_max=s)
np.clip(x, min=-0.5, max=1.0)
np.clip(i, 0, 3)
np.clip(i, 0, 2.5)
np.clip(u, 5, 100)
np.clip(f, 0.6, 1.4)
np.clip(n, 0.0, 1.0)
x.clip(-0.5, 0.5)
x.clip(max=0.5)
np.nan_to_num(n)
np.nan_to_num(x / np.array([0.0, 1.0, 1.0, 1.0]))
np.nan_to_num(n, nan=2.0, posinf=1.0, neginf=-1.0)
np.nan_to_num(i)
np.round(x)
np.round(x, 2)
np.around(x, 1)
x.round(1)
np.real(x)
x.real
x.imag
x.conj()
np.angle(x)
np.angle(x, deg=True)
np.sinc(x)
np.sinc(i)
np.reshape(x, (4, 3))
np.reshape(x, -1)
np.reshape(x, (2, -1))
np.reshape(x, (2, 6), order="F")
np.reshape(z, (1, 1))
np.reshape(e, (3, 0))
x.reshape(2, 6)
x.reshape((6, 2))
x.reshape(-1)
x.reshape(4, 3, order="F")
np.ravel(x)
np.ravel(x, order="F")
x.ravel()
x.flatten()
np.transpose(x)
np.transpose(t)
np.transpose(t, (2, 0, 1))
np.transpose(t, (-1, 0, 1))
np.permute_dims(t, (1, 0, 2))
x.T
t.T
t.mT
v.T
t.transpose(1, 0, 2)
t.transpose((2, 1, 0))
t.transpose()
np.matrix_transpose(t)
np.swapaxes(t, 0, -1)
t.swapaxes(1, 2)
np.moveaxis(t, 0, -1)
np.moveaxis(t, (0, 1), (-1, 0))
np.rollaxis(t, 2)
np.rollaxis(t, 0, 3)
np.rollaxis(t, 1, -1)
np.squeeze(r)
np.squeeze(r, axis=1)
np.squeeze(x[None, :, :, None], axis=(0, -1))
r.squeeze()
np.expand_dims(x, 0)
np.expand_dims(x, -1)
np.expand_dims(x, (0, 3))
np.broadcast_to(w, (2, 3))
np.broadcast_to(s, (2,))
np.broadcast_to(r, (2, 3, 4))
np.broadcast_arrays(x, r)[1]
np.broadcast_arrays(s, w)[0]
np.atleast_1d(s)
np.atleast_1d(s, w)[1]
np.atleast_2d(w)
np.atleast_2d(s)
np.atleast_3d(w)
np.atleast_3d(x)
np.atleast_3d(z)
np.flip(x)
np.flip(x, 0)
np.flip(x, (0, 1))
np.flip(x, -1)
np.flip(e, 0)
np.fliplr(x)
np.flipud(x)
np.rot90(x)
np.rot90(x, 2)
np.rot90(x, 3)
np.rot90(x, -1)
np.rot90(t, 1, (1, 2))
np.rot90(x, 4)
np.roll(x, 2)
np.roll(x, 1, axis=1)
np.roll(x, -1, axis=0)
np.roll(x, (1, 2), axis=(0, 1))
np.roll(x, 2, axis=(0, 1))
np.roll(x, 7)
np.tile(w, 2)
np.tile(w, (2, 3))
np.tile(x, (2, 1))
np.tile(x, (2, 1, 2))
np.tile(z, 3)
np.repeat(w, 2)
np.repeat(x, 2, axis=1)
np.repeat(x, 3, axis=0)
np.repeat(w, [1, 0, 2])
np.repeat(x, np.array([2, 1, 0]), axis=0)
np.repeat(s, 3)
w.repeat(2)
np.copy(x)
x.copy()
np.concatenate([x, y])
np.concatenate((x, y), axis=1)
np.concatenate([x, r], axis=1)
np.concatenate([x, y], axis=None)
np.concatenate([x, np.ones((1, 4))])
np.concatenate([f, f * 2], axis=-1)
np.concatenate([w, i[0]])
np.concatenate([w, [1.0, 2.0]])
np.concatenate([e, A])
np.concatenate(t, axis=1)
np.concatenate([f, f], dtype=np.float64)
np.stack([x, y])
np.stack([x, y], axis=-1)
np.stack([s, q, z])
np.stack((v, np.arange(4.0)))
np.vstack([x, v])
np.vstack([w, w])
np.hstack([x, y])
np.hstack([w, s])
np.dstack([x, y])
np.dstack([w, w])
np.column_stack([w, x])
np.column_stack([w, w * 2])
np.append(w, s)
np.append(x, y)
np.append(x, y, axis=1)
np.append(w, [1.0, 2.0])
np.split(v, 2)[1]
np.split(x, [1, 3], axis=1)[1]
np.split(x, 3)[0]
np.array_split(v, 3)[0]
np.array_split(x, 3, axis=1)[1]
np.take(x, [0, 2])
np.take(x, [0, 2], axis=1)
np.take(x, 1, axis=0)
np.take(x, k, axis=0)
np.take(x, [[0, 1], [2, 0]], axis=1)
np.take(x, [-1, 5], mode="wrap")
np.take(x, [0, 25], mode="clip")
np.take(w, k)
np.take(x, k + 11, mode="wrap")
np.take(x, k * 9 - 1, mode="clip")
x.take([0, 1])
np.take_along_axis(x, np.argsort(x, axis=1), axis=1)
np.take_along_axis(x, np.array([[0], [1], [2]]), axis=1)
np.take_along_axis(x, np.array([[0, 2]]), axis=1)
np.take_along_axis(v, np.argsort(v), axis=None)
np.diagonal(x)
np.diagonal(x, 1)
np.diagonal(x, -1)
np.diagonal(t, 0, 1, 2)
np.diagonal(t, 1, 0, 2)
A.diagonal()
np.diag(w)
np.diag(w, 1)
np.diag(w, -2)
np.diag(A)
np.diag(A, -1)
np.diagflat(x, 1)
np.trace(A)
np.trace(x, 1)
np.trace(t, 0, 1, 2)
np.trace(i[:, :2])
A.trace()
np.tril(A)
np.tril(A) * np.array([[1.0, np.inf, np.inf]] * 3)
np.nancumsum(n) / np.array([0.0, 1.0] * 3)
np.sum(x, axis=0, where=[[True], [False], [True]]) / (x[0] * 0)
np.triu(A)
np.tril(x, 1)
np.triu(x, -1)
np.triu(t)
np.tril(i)
np.tril(w)
np.diff(v)
np.diff(x)
np.diff(x, axis=0)
np.diff(x, 2)
np.diff(v, prepend=0.0)
np.diff(v, append=s)
np.diff(x, prepend=r, axis=1)
np.diff(v, n=5)
np.diff(i)
np.pad(w, 1)
np.pad(w, (1, 2))
np.pad(x, ((1, 0), (0, 2)))
np.pad(x, 1, constant_values=2.5)
np.pad(x, ((1, 2), (2, 1)), constant_values=((1.0, 2.0), (3.0, 4.0)))
np.pad(w, 2, mode="edge")
np.pad(v, 2, mode="reflect")
np.pad(v, 3, mode="symmetric")
np.pad(v, 3, mode="wrap")
np.pad(x, ((0, 1), (2, 0)), mode="edge")
np.pad(w, 0)
np.pad(i, 1)
np.pad(x, {1: (1, 2)})
np.delete(w, 1)
np.delete(x, [0, 2], axis=1)
np.delete(x, 1, axis=0)
np.insert(w, 1, s)
np.insert(w, [0, 2], [1.0, 2.0])
np.insert(x, 1, v, axis=0)
np.insert(x, [1, 3], r, axis=1)
np.compress([True, False, True], w)
np.compress([False, True, True], x, axis=0)
np.extract(np.array([True, False, True]), w)
x.compress([True, False, True], axis=0)
np.dot(x, v)
np.dot(v, v)
np.dot(x, x.T)
np.dot(s, x)
np.dot(t, v)
np.dot(w, t)
np.dot(t, x.T)
np.dot(x, np.ones(4))
x.dot(v)
v.dot(x.T)
np.vdot(x, y)
np.inner(v, v)
np.inner(x, y)
np.inner(t, x)
np.inner(s, w)
np.outer(v, w)
np.outer(x, w)
np.outer(s, w)
np.tensordot(x, y)
np.tensordot(x, y, axes=([0], [0]))
np.tensordot(t, x, axes=([1, 2], [0, 1]))
np.tensordot(t, x, axes=(-1, 1))
np.tensordot(v, w, axes=0)
np.kron(w, v)
np.kron(A, x)
np.kron(w, A)
np.cross(w, A[0])
np.cross(A, w)
np.cross(A, S, axis=0)
np.cross(A, S, axisa=0, axisb=1, axisc=0)
np.convolve(v, w)
np.convolve(v, w, "same")
np.convolve(v, w, "valid")
np.convolve(w, v, "same")
np.correlate(v, w)
np.correlate(v, w, "full")
np.correlate(w, v, "full")
np.correlate(v, w, "same")
np.einsum("ij,jk->ik", x, x.T)
np.einsum("ij->ji", x)
np.einsum("ij->", x)
np.einsum("ij->j", x)
np.einsum("ii", A)
np.einsum("ii->i", A)
np.einsum("ii->", A)
np.einsum("ij,ij->", x, y)
np.einsum("ij,ij->ij", x, y)
np.einsum("ij,j", x, v)
np.einsum("ji,j", x, w)
np.einsum("i,j->ij", v, w)
np.einsum("i,j,k->ijk", v, w, w)
np.einsum("ij,jk,kl->il", A, S, A)
np.einsum("ij,jk,kl,l->i", A, S, A, w)
np.einsum("...j,jk->...k", t, x.T)
np.einsum("...ij,...jk", B, A)
np.einsum("...ij->...ji", t)
np.einsum("i...,i...->...", x, y)
np.einsum("bij,bjk->bik", B, B)
np.einsum("bij,bij->b", B, B)
np.einsum("ij,k->i", x, v)
np.einsum("iij->j", A[:, :, None] * v)
np.einsum("iji->j", A[:, None, :] * v[None, :3, None])
np.einsum("ij,ji->", A, S)
np.einsum("ii,ij->j", A, A)
np.einsum("ij , jk -> ik", A, S)
np.einsum("ij,ij->ij", x, r)
np.einsum("ij,ij->i", x, r)
np.einsum("ij,jk->ik", r, x[:1])
np.einsum(x, [0, 1], y, [0, 1], [0])
np.einsum(x, [0, 1], v, [1])
np.einsum(t, [Ellipsis, 0], [0, Ellipsis])
np.einsum("i,i->", i[0], w)
np.einsum("ij->i", i)
np.einsum(",ij->ij", s, x)
np.linalg.norm(x)
np.linalg.norm(v)
np.linalg.norm(v, 1)
np.linalg.norm(v, 2)
np.linalg.norm(v, 3)
np.linalg.norm(v, 1.5)
np.linalg.norm(v, 0)
np.linalg.norm(v, np.inf)
np.linalg.norm(v, -np.inf)
np.linalg.norm(v, -1)
np.linalg.norm(x, "fro")
np.linalg.norm(x, 1)
np.linalg.norm(x, -1)
np.linalg.norm(x, np.inf)
np.linalg.norm(x, -np.inf)
np.linalg.norm(x, axis=1)
np.linalg.norm(x, 1, axis=0)
np.linalg.norm(x, axis=(0, 1))
np.linalg.norm(t, axis=(1, 2), keepdims=True)
np.linalg.norm(t, 1, axis=(2, 0))
np.linalg.norm(t, np.inf, axis=(-1, 0))
np.linalg.norm(x, keepdims=True)
np.linalg.norm(t)
np.linalg.norm(i)
np.linalg.norm(f)
np.linalg.norm(z)
np.linalg.solve(A, w)
np.linalg.solve(A, x)
np.linalg.solve(B, A)
np.linalg.solve(A, B)
np.linalg.solve(B, w)
np.linalg.inv(A)
np.linalg.inv(B)
np.linalg.det(A)
np.linalg.det(B)
np.linalg.slogdet(A)[0]
np.linalg.slogdet(A)[1]
np.linalg.slogdet(B).logabsdet
np.linalg.cholesky((S + S.T) / 2)
np.linalg.cholesky((S + S.T) / 2, upper=True)
np.linalg.matrix_power(A, 0)
np.linalg.matrix_power(A, 1)
np.linalg.matrix_power(A, 3)
np.linalg.matrix_power(A, -2)
np.linalg.multi_dot([A, S, w])
np.linalg.multi_dot([w, A, S])
np.linalg.trace(B)
np.linalg.trace(A, offset=1)
np.zeros_like(x) + x
np.ones_like(x) * x
np.full_like(x, 2.5) * x
np.full_like(x, s)
np.full_like(i, 2.7)
np.zeros_like(x, dtype=int)
np.zeros_like(i) + x[:2, :3]
np.ones_like(f)
np.empty_like(x) * 0 + x if False else x
np.shape(x)[0] * x
np.ndim(x) * x
np.size(x) * x
np.size(x, 1) * x
x.shape[1] * x
x.ndim * x
x.size * x
len(x) * x
x.itemsize * x
x.nbytes * x
np.astype(x, np.float32)
x.astype(np.float32)
(x * 3).astype(int)
i.astype(float) * 0.5
m.astype(float) * x
x.astype(bool)
np.result_type(f, x) == np.float64
np.iscomplexobj(x)
np.isrealobj(x)
x[0]
x[-1]
x[1, 2]
x[1][2]
x[-1, -2]
x[:, 1]
x[1:]
x[::-1]
x[:, ::-2]
x[::2, 1:3]
x[5:]
x[2:0]
x[-2:]
x[...]
x[..., 0]
x[0, ...]
t[..., 1, :]
t[0, ..., 1]
x[None]
x[:, None]
x[..., None]
x[None, :, None, 1]
x[[0, 2]]
x[[0, 2], [1, 3]]
x[:, [0, 0, 1]]
x[[0, -1]]
x[np.array([[0, 1], [2, 0]])]
x[[[0], [2]], [1, 3]]
x[1, [0, 2]]
x[[0, 2], 1]
x[[0, 1], None]
x[None, [0, 1]]
t[0, :, [0, 1]]
t[:, [0, 1], [2, 3]]
t[[0, 1], :, [2, 3]]
t[[0, 1], 0]
t[..., [0, 2]]
t[[0, 1], ..., 1]
t[0, [0, 1], None]
t[:, None, [0, 1]]
t[[0, 1], None, [0, 1]]
t[1:, [0, 2], ::2]
x[np.array([True, False, True])]
x[np.array([[True, False, True, False]] * 3)]
x[np.array([True, False, True]), 1:]
x[:, np.array([True, False, True, True])]
x[np.array([True, False, True]), [0, 3]]
x[[]]
x[np.zeros(0, int)]
x[k]
x[k, 0]
x[:, k]
x[k, k]
x[k[0]]
x[k[0], 1:]
x[:, k[1]]
x[-k - 1]
x[np.argmax(x, axis=0), [0, 1, 2, 3]]
x[np.arange(3), np.argmax(x, axis=1)]
w[np.argsort(w)]
x[slice(1, 3)]
x[(0, 1)]
x[np.int64(1)]
x[np.array(1)]
x[range(2)]
e[:, 0]
e[:, [0, 2]]
sum(w)
sum(x)
[row.sum() for row in x][1]
a[0] * b for a, b in [(x, y)]
max([1.0, 2.0]) * w
np.array([2.0, -1.0, 0.5]) @ w
np.ones((2, 3)) * w
np.float64(2.0) * w
np.float32(2.0) * f
np.array(2.0) * f
np.ones(3, np.float32) * w
1.0 + w
np.pi * w
(lambda a: a * a)(w)
"""


def _lines() -> list[str]:
    kept = []
    for line in CALLS.strip().splitlines():
        if line.startswith("a[0] * b for"):
            line = "[a[0] * b for a, b in [(x, y)]][0]"
        kept.append(line)
    return kept


LINES = _lines()
_SPACE = {"np": np, "sc": sc, "divmod": divmod, "max": max, "sum": sum, "abs": abs, "len": len, "round": round, "slice": slice,
          "range": range, "int": int, "float": float, "bool": bool}


def _operands(line: str) -> list[str]:
    used = {n.id for n in ast.walk(ast.parse(line, mode="eval")) if isinstance(n, ast.Name)}
    bound = {n.arg for n in ast.walk(ast.parse(line, mode="eval")) if isinstance(n, ast.arg)}
    return [name for name in OPERANDS if name in used - bound]


def _function(line: str, names: list[str]) -> Any:
    return eval(compile(f"lambda {', '.join(names)}: {line}", "<calls>", "eval"), dict(_SPACE))


@pytest.mark.parametrize("line", LINES)
def test_call(line: str) -> None:
    names = _operands(line)
    function = _function(line, names)
    args = [OPERANDS[name] for name in names]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = np.asarray(function(*args))
    graph = trace(function, *args)
    found = np.asarray(run(graph, *args))
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    exact = expected.dtype.kind != "f"
    bound = 0 if exact else 1e-13 if expected.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found, expected, rtol=bound, atol=0 if exact else bound * 4)
    wrt = [j for j, a in enumerate(args) if np.asarray(a).dtype == np.float64 and not np.isnan(a).any()]
    if not exact and wrt and np.isfinite(expected).all() and expected.dtype == np.float64:
        _check_derivatives(graph, args, wrt)


def _check_derivatives(graph: Any, args: list[Any], wrt: list[int]) -> None:
    rng = np.random.default_rng(3)
    tangents = [rng.uniform(-1, 1, np.shape(args[j])) for j in wrt]

    def moved(h: float) -> Any:
        shifted = list(args)
        for j, t in zip(wrt, tangents, strict=True):
            shifted[j] = args[j] + h * t
        return run(graph, *shifted)

    pushed = run(jvp_graph(graph, wrt), *args, *tangents)
    np.testing.assert_allclose(pushed, central(moved), rtol=1e-8, atol=1e-9)
    ct = rng.uniform(-1, 1, np.shape(pushed))
    pulled = run_all(vjp_graph(graph, wrt), *args, ct)
    for g, j in zip(pulled, wrt, strict=True):
        assert np.shape(g) == np.shape(args[j])
    left = float(np.sum(ct * pushed))
    products = [np.sum(g * t) for g, t in zip(pulled, tangents, strict=True)]
    scale = np.sum(np.abs(ct * pushed)) + sum(float(np.sum(np.abs(g * t))) for g, t in zip(pulled, tangents, strict=True))
    assert abs(left - sum(products)) <= 1e-12 * max(scale, 1e-30)


# ------------------------------------------------------------------------------------------ completeness


def _attributes() -> set[str]:
    names: set[str] = set()
    for line in LINES:
        for node in ast.walk(ast.parse(line, mode="eval")):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
    return names


def test_every_known_name_is_called() -> None:
    called = _attributes()
    functions = {f.__name__ for f in FUNCTIONS if not isinstance(f, str)}
    missing = functions - called
    assert not missing, sorted(missing)
    assert not set(UFUNCS) - called, sorted(set(UFUNCS) - called)
    assert not {m for m in METHODS if not m.startswith("_")} - called
    assert not (set(REDUCTIONS) | set(ACCUMULATIONS)) - called
