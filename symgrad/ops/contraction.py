"""Products that sum over axes: matmul and everything NumPy builds on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import Aval, broadcast_shapes, make_aval, normalize_axis, promote
from ..core.expr import OPERATORS, Expr
from ..core.op import Op, Sample
from ..errors import ShapeError
from .define import FUNCTIONS, METHODS, UFUNCS, as_exprs, bilinear, implements, promoted, strengthen
from .indexing import diagonal
from .reduction import sum_axes
from .shaping import (
    expand_dims,
    matrix_transpose,
    ravel,
    reshape,
    slice_axis,
    transpose,
    transpose_all,
    unbroadcast,
)


def _infer_matmul(avals: tuple[Aval, ...]) -> Aval:
    a, b = avals[0].shape, avals[1].shape
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ShapeError(f"matmul: shapes {a} and {b} do not fit: {a[-1]} columns meet {inner} rows")
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    batch = broadcast_shapes(a[:-2], b[:-2])
    return make_aval((*batch, *rows, *columns), promote(*avals)[0])


def _left(ct: Expr, out: Expr, a: Expr, b: Expr) -> Expr:
    if b.ndim == 1:
        return ct * b if a.ndim == 1 else outer(ct, b)
    if a.ndim == 1:
        return matmul(b, ct)
    return unbroadcast(matmul(ct, matrix_transpose(b)), a.shape)


def _right(ct: Expr, out: Expr, a: Expr, b: Expr) -> Expr:
    if a.ndim == 1:
        return ct * a if b.ndim == 1 else outer(a, ct)
    if b.ndim == 1:
        return matmul(transpose_all(a), ct)
    return unbroadcast(matmul(matrix_transpose(a), ct), b.shape)


matmul: Op = bilinear(
    "matmul", infer=_infer_matmul, numpy="np.matmul({0}, {1})", transposes=[_left, _right], out=True,
    doc="Matrix product; vectors are rows or columns as needed (beside at most two axes then).",
    text="{0} @ {1}", latex="{0} {1}", precedence=60,
    samples=[Sample(((-2.0, 2.0), (-2.0, 2.0)), shapes) for shapes in (
        ((3, 4), (4, 2)), ((4,), (4,)), ((3, 4), (4,)), ((3,), (3, 2)), ((2, 3, 4), (4, 2)),
        ((2, 3, 4), (2, 4, 3)))],
)


def outer(x: Expr, y: Expr) -> Expr:
    """Products of all pairs of two vectors."""
    return reshape(x, shape=(x.shape[0], 1)) * reshape(y, shape=(1, y.shape[0]))


def _matmul(x: Any, y: Any, weak_ok: bool = False) -> Expr:
    a, b = promoted([strengthen(v) for v in as_exprs(x, y)])
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul needs arrays with at least one axis\n  Write * for scalars.")
    if max(a.ndim, b.ndim) <= 2:
        return matmul(a, b)
    if a.ndim == 1:
        product = matmul(reshape(a, shape=(1, a.shape[0])), b)
        return reshape(product, shape=product.shape[:-2] + product.shape[-1:])
    if b.ndim == 1:
        product = matmul(a, reshape(b, shape=(b.shape[0], 1)))
        return reshape(product, shape=product.shape[:-1])
    return matmul(a, b)


UFUNCS["matmul"] = OPERATORS["matmul"] = _matmul


@implements(np.dot, method="dot")
def dot(a: Any, b: Any, out: Any = None) -> Expr:
    """NumPy's dot: products of scalars, vectors, matrices; tensordot over the last and last-but-one axis."""
    x, y = as_exprs(a, b)
    if not x.ndim or not y.ndim:
        return UFUNCS["multiply"](x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return _matmul(x, y)
    return tensordot(x, y, ([x.ndim - 1], [max(y.ndim - 2, 0)]))


@implements(np.vdot)
def _vdot(a: Any, b: Any) -> Expr:
    x, y = as_exprs(a, b)
    return _matmul(ravel(x), ravel(y))


@implements(np.inner)
def _inner(a: Any, b: Any) -> Expr:
    x, y = as_exprs(a, b)
    if not x.ndim or not y.ndim:
        return UFUNCS["multiply"](x, y)
    return tensordot(x, y, ([x.ndim - 1], [y.ndim - 1]))


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Expr:
    x, y = promoted([strengthen(v) for v in as_exprs(a, b)])
    return outer(ravel(x), ravel(y))


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Expr:
    """Sum of products over pairs of axes."""
    x, y = promoted([strengthen(v) for v in as_exprs(a, b)])
    if isinstance(axes, int):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        left, right = [[n] if isinstance(n, int) else list(n) for n in axes]
    left = [normalize_axis(k, x.ndim) for k in left]
    right = [normalize_axis(k, y.ndim) for k in right]
    if len(left) != len(right) or any(x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=False)):
        raise ShapeError(f"tensordot: axes {axes} of shapes {x.shape} and {y.shape} do not match")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    first = list(letters[: x.ndim])
    second = list(letters[x.ndim : x.ndim + y.ndim])
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    out = (
        [c for k, c in enumerate(first) if k not in left]
        + [c for k, c in enumerate(second) if k not in right]
    )
    return _pair(x, first, y, second, out)


@implements(np.kron)
def _kron(a: Any, b: Any) -> Expr:
    x, y = promoted([strengthen(v) for v in as_exprs(a, b)])
    ndim = max(x.ndim, y.ndim)
    x = reshape(x, shape=(1,) * (ndim - x.ndim) + x.shape)
    y = reshape(y, shape=(1,) * (ndim - y.ndim) + y.shape)
    wide = reshape(x, shape=tuple(m for n in x.shape for m in (n, 1)))
    tight = reshape(y, shape=tuple(m for n in y.shape for m in (1, n)))
    return reshape(wide * tight, shape=tuple(n * m for n, m in zip(x.shape, y.shape, strict=True)))


@implements(np.cross)
def _cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Expr:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted([strengthen(v) for v in as_exprs(a, b)])
    x, y = FUNCTIONS[np.moveaxis](x, axisa, -1), FUNCTIONS[np.moveaxis](y, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(f"np.cross needs vectors of length 3, not {x.shape[-1]} and {y.shape[-1]}")
    (x0, x1, x2), (y0, y1, y2) = ([_component(v, k) for k in range(3)] for v in (x, y))
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    return FUNCTIONS[np.stack](parts, axisc)


def _component(x: Expr, k: int) -> Expr:
    return reshape(slice_axis(x, x.ndim - 1, k, 1), shape=x.shape[:-1])


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Expr:
    x, y = promoted([FUNCTIONS[np.atleast_1d](strengthen(e)) for e in as_exprs(a, v)])
    if not (x.ndim == y.ndim == 1 and x.aval.size and y.aval.size):
        raise ShapeError(f"np.convolve takes two lines that are not empty, not shapes {x.shape} and {y.shape}")
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    n, m = x.shape[0], y.shape[0]
    padded = FUNCTIONS[np.pad](x, (m - 1, m - 1))
    windows = np.arange(n + m - 1)[:, None] + np.arange(m)[None, :]
    full = _matmul(FUNCTIONS[np.take](padded, windows, 0), FUNCTIONS[np.flip](y))
    if mode == "full":
        return full
    size, start = (n, (m - 1) // 2) if mode == "same" else (n - m + 1, m - 1)
    return slice_axis(full, 0, start, size)


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Expr:
    x, y = [FUNCTIONS[np.atleast_1d](e) for e in as_exprs(a, v)]
    if x.aval.size < y.aval.size:
        # As NumPy has it, which decides where the middle of an even number is.
        return FUNCTIONS[np.flip](_correlate(y, x, mode))
    return _convolve(x, FUNCTIONS[np.flip](y), mode)


# ------------------------------------------------------------------------------------------ einsum


@implements(np.einsum)
def einsum(subscripts: Any, *operands: Any, optimize: Any = False, **_: Any) -> Expr:
    """Einstein summation, as pairwise products in the order that NumPy's greedy path finds."""
    if not isinstance(subscripts, str):
        subscripts, operands = _written_out((subscripts, *operands))
    values = promoted([strengthen(v) for v in as_exprs(*operands)])
    terms, result = _parse(subscripts, values)
    sizes = _sizes(values, terms, result)
    prepared = [_diagonals(*_unrepeated(v, t, sizes)) for v, t in zip(values, terms, strict=True)]
    while len(prepared) > 1:
        i, j = _cheapest(prepared, result)
        (b, tb), (a, ta) = prepared.pop(j), prepared.pop(i)
        others = set(result).union(*[t for _, t in prepared])
        kept = [c for c in dict.fromkeys(ta + tb) if c in others]
        prepared.append((_pair(a, ta, b, tb, kept), kept))
    return _reorder(*prepared[0], result)


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _written_out(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The form ``einsum(x, [0, 1], y, [1, 2], [0, 2])`` as subscripts and operands."""

    def text(indices: Any) -> str:
        return "".join("..." if k is Ellipsis else _LETTERS[k] for k in indices)

    pairs = len(given) // 2
    subscripts = ",".join(text(given[2 * k + 1]) for k in range(pairs))
    if len(given) % 2:
        subscripts += f"->{text(given[-1])}"
    return subscripts, given[0 : 2 * pairs : 2]


def _sizes(values: list[Expr], terms: list[list[str]], result: list[str]) -> dict[str, int]:
    """Size of each index; an operand in which it is 1 is repeated along it."""
    sizes: dict[str, int] = {}
    for v, term in zip(values, terms, strict=True):
        for letter, n in zip(term, v.shape, strict=True):
            known = sizes.get(letter, 1)
            if known not in (1, n) and n != 1:
                raise ShapeError(f"einsum: the operands disagree on the size of an index: {known} and {n}")
            sizes[letter] = n if known == 1 else known
    if len(set(result)) < len(result) or not sizes.keys() >= set(result):
        raise ShapeError(
            f"einsum: the result {''.join(result)!r} must name each index once, and only those of operands"
        )
    return sizes


def _unrepeated(x: Expr, term: list[str], sizes: dict[str, int]) -> tuple[Expr, list[str]]:
    """Leave out the axes of length 1 along which an operand is repeated."""
    kept = [k for k, (c, n) in enumerate(zip(term, x.shape, strict=True)) if n == sizes[c]]
    if len(kept) == x.ndim:
        return x, term
    dropped = {term[k] for k in range(x.ndim) if k not in kept}
    if any(term[k] in dropped for k in kept):
        raise ShapeError(f"einsum: {''.join(term)!r} needs equal sizes in an operand of shape {x.shape}")
    return reshape(x, shape=tuple(x.shape[k] for k in kept)), [term[k] for k in kept]


def _parse(subscripts: str, values: list[Expr]) -> tuple[list[list[str]], list[str]]:
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise ShapeError(f"einsum: {subscripts!r} names {len(terms)} operands, {len(values)} were given")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in text]
    widest = max(
        (v.ndim - len(t.replace("...", "")) for v, t in zip(values, terms, strict=True) if "..." in t),
        default=0,
    )
    dots = free[:widest]
    full = []
    for v, t in zip(values, terms, strict=True):
        own = v.ndim - len(t.replace("...", ""))
        letters = list(t.replace("...", "".join(dots[widest - own:] if own else [])))
        if len(letters) != v.ndim:
            raise ShapeError(f"einsum: {t!r} does not fit an operand of shape {v.shape}")
        full.append(letters)
    if arrow:
        result = list(right.replace("...", "".join(dots)))
    else:
        counts = [c for t in full for c in t]
        result = dots + sorted(c for c in set(counts) if counts.count(c) == 1 and c not in dots)
    return full, result


def _diagonals(x: Expr, term: list[str]) -> tuple[Expr, list[str]]:
    """Replace an index that an operand names twice by the diagonal."""
    while len(set(term)) < len(term):
        letter = next(c for c in term if term.count(c) > 1)
        i = term.index(letter)
        j = term.index(letter, i + 1)
        x = diagonal(x, 0, i, j)
        term = [c for k, c in enumerate(term) if k not in (i, j)] + [letter]
    return x, term


def _cheapest(prepared: list[tuple[Expr, list[str]]], result: list[str]) -> tuple[int, int]:
    if len(prepared) == 2:
        return 0, 1
    terms = ",".join("".join(t) for _, t in prepared)
    shapes = [np.broadcast_to(np.float64(0), v.shape) for v, _ in prepared]
    path = np.einsum_path(f"{terms}->{''.join(result)}", *shapes, optimize="greedy")[0]
    pair = sorted(path[1])
    return (pair[0], pair[1]) if len(pair) > 1 else (0, 1)


def _sum_missing(x: Expr, term: list[str], wanted: set[str]) -> tuple[Expr, list[str]]:
    axes = tuple(k for k, c in enumerate(term) if c not in wanted)
    return sum_axes(x, axes), [c for c in term if c in wanted]


def _pair(a: Expr, ta: list[str], b: Expr, tb: list[str], out: list[str]) -> Expr:
    """Contract two operands: a matmul where something is summed, a broadcast product otherwise."""
    a, ta = _sum_missing(a, ta, {*tb, *out})
    b, tb = _sum_missing(b, tb, {*ta, *out})
    summed = [c for c in ta if c in tb and c not in out]
    if not summed:
        letters = list(dict.fromkeys(ta + tb))
        return _reorder(_spread(a, ta, letters) * _spread(b, tb, letters), letters, out)
    batch = [c for c in ta if c in tb and c in out]
    rows = [c for c in ta if c not in tb]
    columns = [c for c in tb if c not in ta]
    sizes = {**dict(zip(tb, b.shape, strict=True)), **dict(zip(ta, a.shape, strict=True))}

    def packed(x: Expr, term: list[str], groups: list[list[str]]) -> Expr:
        moved = _reorder(x, term, [c for g in groups for c in g])
        shape = tuple(math.prod(sizes[c] for c in g) for g in groups if g)
        return moved if moved.shape == shape else reshape(moved, shape=shape)

    left = packed(a, ta, [*[[c] for c in batch], rows, summed])
    right = packed(b, tb, [*[[c] for c in batch], summed, columns])
    if batch and not rows:
        left = expand_dims(left, -2)
    if batch and not columns:
        right = expand_dims(right, -1)
    product = matmul(left, right)
    full = [*batch, *rows, *columns]
    shape = tuple(sizes[c] for c in full)
    return _reorder(product if product.shape == shape else reshape(product, shape=shape), full, out)


def _spread(x: Expr, term: list[str], letters: list[str]) -> Expr:
    x = _reorder(x, term, [c for c in letters if c in term])
    sizes = dict(zip([c for c in letters if c in term], x.shape, strict=True))
    shape = tuple(sizes.get(c, 1) for c in letters)
    return x if x.shape == shape else reshape(x, shape=shape)


def _reorder(x: Expr, term: list[str], out: list[str]) -> Expr:
    x, term = _sum_missing(x, term, set(out))
    order = tuple(term.index(c) for c in out)
    return x if order == tuple(range(x.ndim)) else transpose(x, axes=order)


METHODS["__matmul__"] = _matmul
