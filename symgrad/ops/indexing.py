"""Indexing: basic slices, integer arrays, their adjoint, and what NumPy builds on them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import INT64, Aval, broadcast_shapes, make_aval, normalize_axis
from ..core.expr import Expr
from ..core.op import Op, Sample
from ..errors import DtypeError, ShapeError, TraceError, UnsupportedOperationError
from .define import (
    FUNCTIONS,
    METHODS,
    UFUNCS,
    as_exprs,
    constant_like,
    find_table,
    implements,
    lift,
    linear,
    strengthen,
)
from .shaping import (
    as_line,
    broadcast_to,
    concatenate,
    expand_dims,
    put_slice,
    ravel,
    reshape,
    slice_axis,
    take_slice,
    transpose,
)

Shape = tuple[int, ...]

# ------------------------------------------------------------------------------------- gather and its adjoint


def gathered_shape(shape: Shape, axes: tuple[int, ...], index_shape: Shape) -> Shape:
    """Shape of ``x[index]`` with broadcast integer arrays of ``index_shape`` on ``axes``: NumPy's rule."""
    kept = [n for k, n in enumerate(shape) if k not in axes]
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    position = axes[0] if adjacent else 0
    return (*kept[:position], *index_shape, *kept[position:])


def _infer_gather(avals: tuple[Aval, ...], axes: tuple[int, ...]) -> Aval:
    index_shape = broadcast_shapes(*[a.shape for a in avals[1:]])
    return make_aval(gathered_shape(avals[0].shape, axes, index_shape), avals[0].dtype)


def _infer_scatter(avals: tuple[Aval, ...], shape: Shape, axes: tuple[int, ...]) -> Aval:
    return make_aval(shape, avals[0].dtype)


def _gather_transpose(
    ct: Expr, out: Expr, args: tuple[Expr, ...], which: Sequence[int], axes: tuple[int, ...]
) -> list[Expr | None]:
    x, *index = args
    return [scatter_add(ct, *index, shape=x.shape, axes=axes) if k == 0 else None for k in which]


def _scatter_transpose(
    ct: Expr, out: Expr, args: tuple[Expr, ...], which: Sequence[int], shape: Shape, axes: tuple[int, ...]
) -> list[Expr | None]:
    return [gather(ct, *args[1:], axes=axes) if k == 0 else None for k in which]


gather: Op = linear(
    "gather", doc="Elements of the first argument at integer positions along some axes.", infer=_infer_gather,
    variadic=True, transposes=[_gather_transpose],
    numpy=lambda args, avals, params: _gather_source(args, avals, params["axes"]),
    samples=[Sample(((-3.0, 3.0), (0, 3, "int")), ((4,), (5,)), {"axes": (0,)}),
             Sample(((-3.0, 3.0), (0, 2, "int")), ((2, 3), (2, 2)), {"axes": (1,)}),
             Sample(((-3.0, 3.0), (0, 2, "int"), (0, 2, "int")), ((3, 4, 3), (2,), (2,)), {"axes": (0, 2)})],
)
scatter_add: Op = linear(
    "scatter_add", doc="Zeros into which values are added at integer positions: the adjoint of gather.",
    infer=_infer_scatter, variadic=True, transposes=[_scatter_transpose],
    numpy=lambda args, avals, params: (
        f"rt.scatter_add({args[0]}, {params['shape']}, {params['axes']}, {', '.join(args[1:])})"
    ),
    samples=[Sample(((-3.0, 3.0), (0, 3, "int")), ((5,), (5,)), {"axes": (0,), "shape": (4,)}),
             Sample(((-3.0, 3.0), (0, 2, "int")), ((2, 2, 2), (2, 2)), {"axes": (1,), "shape": (2, 3)})],
)


def _gather_source(args: Sequence[str], avals: Sequence[Aval], axes: tuple[int, ...]) -> str:
    parts = [":"] * avals[0].ndim
    for axis, where in zip(axes, args[1:], strict=True):
        parts[axis] = where
    while parts[-1] == ":":
        parts.pop()
    return f"{args[0]}[{', '.join(parts)}]"


def wrapped(index: Expr, n: int) -> Expr:
    """Negative positions counted from the end; constants are converted at once.

    What lies before the array must not be wrapped a second time: it becomes n, which is outside too.
    """
    value = index.value
    if value is not None:
        inside = np.where(value < -n, n, np.where(value < 0, value + n, value))
        return index.table.constant(inside.astype(np.int64))
    where = FUNCTIONS[np.where]
    before = where(index < -n, n, index + n)
    return where(index < 0, before, index)


# ------------------------------------------------------------------------------------------ x[key]


def getitem(x: Expr, key: Any) -> Expr:
    """``x[key]`` with NumPy's meaning.

    Raises
    ------
    ShapeError
        If there are too many indices or a constant one is out of bounds. It is an IndexError too.
    """
    parts = expand_key(x, key)
    x = strengthen(x)
    x, remaining = _basic(x, parts)
    advanced = [(k, p) for k, p in enumerate(remaining) if p is not None]
    return _advanced(x, advanced) if advanced else x


class OutOfBounds(ShapeError, IndexError):
    """A constant index lies outside the array."""


def expand_key(x: Expr, key: Any) -> list[Any]:
    """Normalise a key: tuple, no Ellipsis, one entry per axis beside the Nones, bool arrays as positions."""
    raw = list(key) if isinstance(key, tuple) else [key]
    entries: list[Any] = []
    for part in raw:
        entries.extend(_as_entries(part))
    used = sum(1 for p in entries if p is not None and p is not Ellipsis)
    if used > x.ndim:
        raise OutOfBounds(f"too many indices: an array of shape {x.shape} was indexed with {used}")
    missing = [slice(None)] * (x.ndim - used)
    spots = [k for k, p in enumerate(entries) if p is Ellipsis]
    if len(spots) > 1:
        raise ShapeError("an index can only have one Ellipsis")
    where = spots[0] if spots else len(entries)
    return entries[:where] + missing + entries[where + len(spots):]


def _as_entries(part: Any) -> list[Any]:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return [part]
    if isinstance(part, Expr):
        if part.dtype.kind == "b":
            raise TraceError(
                "indexing with a traced boolean mask gives an array whose size depends on the data.\n"
                "  Use np.where(mask, x, 0) (and np.sum(mask) for the count) instead of x[mask]."
            )
        if part.dtype.kind not in "iu":
            raise DtypeError(f"an index must be an integer, not {part.dtype}")
        return [part]
    if isinstance(part, (list, tuple, range)) and find_table(part) is not None:
        return _as_entries(lift(list(part), find_table(part)))  # type: ignore[arg-type]  # an expression is among them
    if isinstance(part, (bool, np.bool_)):
        raise UnsupportedOperationError("an array cannot be indexed with a single bool here")
    array = np.asarray(part)
    if array.dtype.kind == "b":
        return list(np.nonzero(array))
    if array.size == 0:
        return [array.astype(np.int64)]
    if array.dtype.kind not in "iu":
        raise DtypeError(f"an index must be an integer, a slice or an array of integers, not {part!r}")
    return [operator.index(array[()]) if array.ndim == 0 else array.astype(np.int64)]


def _basic(x: Expr, parts: list[Any]) -> tuple[Expr, list[Any]]:
    """Apply the slices, ints and Nones; what is left is None (whole axis) or an integer array per axis."""
    starts: list[int] = []
    sizes: list[int] = []
    steps: list[int] = []
    shape: list[int] = []
    remaining: list[Any] = []
    axis = 0
    has_arrays = any(isinstance(p, (np.ndarray, Expr)) for p in parts)
    for part in parts:
        if part is None:
            shape.append(1)
            remaining.append(None)
            continue
        n = x.shape[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(n)
            size = len(range(start, stop, step))
            start, step = (start, step) if size else (0, 1)
            shape.append(size)
            remaining.append(None)
        elif isinstance(part, int) and not has_arrays:
            start, size, step = _bounded(part, n), 1, 1
        elif isinstance(part, int):
            # Beside integer arrays an int takes part in their broadcasting, as in NumPy.
            start, size, step = 0, n, 1
            shape.append(n)
            remaining.append(np.asarray(_bounded(part, n)))
        else:
            start, size, step = 0, n, 1
            shape.append(n)
            remaining.append(part)
        starts.append(start)
        sizes.append(size)
        steps.append(step)
        axis += 1
    if tuple(sizes) != x.shape or any(starts) or any(s != 1 for s in steps):
        x = take_slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    return (x if x.shape == tuple(shape) else reshape(x, shape=tuple(shape))), remaining


def _bounded(index: int, n: int) -> int:
    if not -n <= index < n:
        raise OutOfBounds(f"index {index} is out of bounds for an axis of size {n}")
    return index % n


def _advanced(x: Expr, entries: list[tuple[int, Any]]) -> Expr:
    axes = tuple(k for k, _ in entries)
    indices = []
    for axis, part in entries:
        n = x.shape[axis]
        if isinstance(part, np.ndarray):
            if part.size and not (-n <= part.min() and part.max() < n):
                raise OutOfBounds(f"an index is out of bounds for an axis of size {n}")
            indices.append(x.table.constant(np.where(part < 0, part + n, part).astype(np.int64)))
        else:
            indices.append(wrapped(FUNCTIONS["astype"](part, INT64), n))
    return gather(x, *indices, axes=axes)


METHODS["__getitem__"] = getitem


# -------------------------------------------------------------------------------------- functions built on it


@implements(np.take, method="take")
def take(x: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Expr:
    """Elements at integer positions along an axis."""
    value, axis = as_line(as_exprs(x, *([indices] if isinstance(indices, Expr) else []))[0], axis)
    where = normalize_axis(axis, value.ndim)
    n = value.shape[where]
    if mode != "raise":
        indices = _within(indices, n, mode)
    return getitem(value, (slice(None),) * where + (indices,))


def _within(indices: Any, n: int, mode: str) -> Any:
    if isinstance(indices, Expr):
        return FUNCTIONS[np.clip](indices, 0, n - 1) if mode == "clip" else UFUNCS["remainder"](indices, n)
    positions = np.asarray(indices)
    return np.clip(positions, 0, n - 1) if mode == "clip" else positions % n


@implements(np.take_along_axis)
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Expr:
    """Elements at positions given along one axis, matched along the others."""
    value, where = as_exprs(x, indices)
    if axis is None:
        return take(ravel(value), ravel(where), 0)
    position = normalize_axis(axis, value.ndim)
    table = value.table
    full: list[Any] = []
    for k in range(value.ndim):
        line = tuple(-1 if d == k else 1 for d in range(value.ndim))
        if k == position:
            full.append(wrapped(FUNCTIONS["astype"](where, INT64), value.shape[k]))
        else:
            full.append(table.constant(np.arange(value.shape[k]).reshape(line)))
    return gather(value, *full, axes=tuple(range(value.ndim)))


@implements(np.diagonal, method="diagonal")
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Expr:
    """The elements whose positions on two axes differ by ``offset``; they become the last axis."""
    value = as_exprs(x)[0]
    a, b = normalize_axis(axis1, value.ndim), normalize_axis(axis2, value.ndim)
    order = (*[k for k in range(value.ndim) if k not in (a, b)], a, b)
    moved = value if order == tuple(range(value.ndim)) else transpose(value, axes=order)
    rows, columns = _diagonal_positions(moved.shape[-2], moved.shape[-1], offset)
    table = value.table
    return gather(moved, table.constant(rows), table.constant(columns), axes=(value.ndim - 2, value.ndim - 1))


def _diagonal_positions(n: int, m: int, offset: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rows = np.arange(max(0, -offset), max(0, -offset) + max(0, min(n + min(offset, 0), m - max(offset, 0))))
    return rows, rows + offset


@implements(np.diag)
def _diag(v: Any, k: int = 0) -> Expr:
    value = strengthen(as_exprs(v)[0])
    if value.ndim == 2:
        return diagonal(value, k)
    if value.ndim != 1:
        raise ShapeError(f"np.diag takes an array with one or two axes, not {value.ndim}")
    n = value.shape[0] + abs(k)
    rows, columns = _diagonal_positions(n, n, k)
    table = value.table
    return scatter_add(value, table.constant(rows), table.constant(columns), shape=(n, n), axes=(0, 1))


@implements(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Expr:
    return _diag(ravel(v), k)


@implements(np.trace, method="trace")
def _trace(
    x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Expr:
    return FUNCTIONS[np.sum](
        diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype
    )


def _triangle(x: Any, k: int, lower: bool) -> Expr:
    value = strengthen(as_exprs(x)[0])
    if value.ndim == 1:
        value = broadcast_to(value, shape=(value.shape[0], value.shape[0]))
    n, m = value.shape[-2:]
    mask = value.table.constant(np.tri(n, m, k if lower else k - 1, dtype=bool) == lower)
    return FUNCTIONS[np.where](mask, value, constant_like(value, 0))


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Expr:
    """The lower triangle; zeros above."""
    return _triangle(m, k, True)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Expr:
    """The upper triangle; zeros below."""
    return _triangle(m, k, False)


@implements(np.diff)
def _diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Expr:
    value = as_exprs(x)[0]
    where = normalize_axis(axis, value.ndim)
    ends = [_edge(value, where, prepend), value, _edge(value, where, append)]
    joined = [e for e in ends if e is not None]
    value = FUNCTIONS[np.concatenate](joined, where) if len(joined) > 1 else value
    for _ in range(n):
        size = value.shape[where]
        count = max(size - 1, 0)
        high, low = slice_axis(value, where, 1, count), slice_axis(value, where, 0, count)
        value = high - low
    return value


def _edge(x: Expr, axis: int, value: Any) -> Expr | None:
    if value is None:
        return None
    edge = lift(value, x.table)
    if edge.ndim:
        return edge
    shape = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    return broadcast_to(strengthen(edge), shape=shape)


# ------------------------------------------------------------------------------------------ padding


@implements(np.pad)
def _pad(x: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Expr:
    value = strengthen(as_exprs(x)[0])
    widths = _pad_widths(pad_width, value.ndim)
    if mode == "constant":
        return _pad_constant(value, widths, options.get("constant_values", 0))
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise UnsupportedOperationError(
            f"np.pad with mode={mode!r} is not known\n  Use constant, edge, reflect, symmetric or wrap."
        )
    for axis, width in enumerate(widths):
        # NumPy itself says which element each padded position repeats.
        positions = np.pad(  # type: ignore[call-overload]  # options by mode
            np.arange(value.shape[axis]), width, mode=mode, **options
        )
        value = take(value, positions, axis)
    return value


def _pad_widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        chosen = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            pair = np.broadcast_to(np.asarray(width), (2,))
            chosen[normalize_axis(axis, ndim)] = (int(pair[0]), int(pair[1]))
        return chosen
    pairs = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    return [(int(a), int(b)) for a, b in pairs]


def _pad_constant(x: Expr, widths: list[tuple[int, int]], fill: Any) -> Expr:
    fills = np.broadcast_to(np.asarray(fill), (x.ndim, 2)) if not isinstance(fill, Expr) else None
    if fills is not None and not fills.any():
        shape = tuple(a + n + b for n, (a, b) in zip(x.shape, widths, strict=True))
        starts = tuple(a for a, _ in widths)
        return x if shape == x.shape else put_slice(x, shape=shape, starts=starts, steps=(1,) * x.ndim)
    for axis, width in enumerate(widths):
        sides = [fill, fill] if fills is None else list(fills[axis])
        pieces = [_block(x, axis, width[0], sides[0]), x, _block(x, axis, width[1], sides[1])]
        present = [p for p in pieces if p.shape[axis]]
        x = concatenate(*present, axis=axis) if len(present) > 1 else x
    return x


def _block(x: Expr, axis: int, size: int, fill: Any) -> Expr:
    shape = tuple(size if k == axis else n for k, n in enumerate(x.shape))
    value = FUNCTIONS["astype"](lift(fill, x.table), x.dtype)
    return broadcast_to(value, shape=shape)


@implements(np.delete)
def _delete(x: Any, obj: Any, axis: int | None = None) -> Expr:
    value = as_exprs(x)[0]
    if axis is None:
        value, axis = ravel(value), 0
    where = normalize_axis(axis, value.ndim)
    return take(value, np.delete(np.arange(value.shape[where]), obj), where)


@implements(np.insert)
def _insert(x: Any, obj: Any, values: Any, axis: int | None = None) -> Expr:
    value, new = as_exprs(x, values)
    if axis is None:
        value, axis = ravel(value), 0
    where = normalize_axis(axis, value.ndim)
    n = value.shape[where]
    if np.ndim(obj) == 0 and new.ndim == value.ndim - 1:
        new = expand_dims(new, where)
    elif new.ndim < value.ndim:
        new = broadcast_to(
            new, shape=tuple(np.size(obj) if k == where else m for k, m in enumerate(value.shape))
        )
    positions = np.insert(np.arange(n), obj, n + np.arange(new.shape[where]))
    return take(FUNCTIONS[np.concatenate]([value, new], where), positions, where)


@implements(np.compress)
def _compress(condition: Any, x: Any, axis: int | None = None) -> Expr:
    if isinstance(condition, Expr):
        return getitem(x, condition)
    return take(x, np.flatnonzero(condition), axis)


def _compress_method(x: Expr, condition: Any, axis: int | None = None) -> Expr:
    return _compress(condition, x, axis)


METHODS["compress"] = _compress_method


@implements(np.extract)
def _extract(condition: Any, x: Any) -> Expr:
    return _compress(np.ravel(condition) if not isinstance(condition, Expr) else condition, ravel(x), 0)
