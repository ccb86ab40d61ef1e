"""Arrays after a write, as expressions of the whole array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..errors import ShapeError
from ..ops.comparison import equal
from ..ops.define import FUNCTIONS, METHODS, cast
from ..ops.indexing import getitem, scatter_add
from ..ops.selection import maximum, where
from ..ops.shaping import broadcast_to, inverse_permutation, reshape, transpose
from .keys import as_parts, has_expr
from .views import Steps, grid, slices_of


def put_back(base: Expr, steps: Steps, value: Expr) -> Expr:
    """The base array after its view was replaced by ``value``."""
    if not steps:
        return value
    parents = [base]
    for op, params in steps[:-1]:
        parents.append(op(parents[-1], **params))
    for (op, params), parent in zip(reversed(steps), reversed(parents), strict=True):
        if op is reshape:
            value = reshape(value, shape=parent.shape)
        elif op is transpose:
            value = transpose(value, axes=inverse_permutation(params["axes"]))
        else:
            value = replaced(parent, slices_of(params), value)
    return value


def replaced(x: Expr, key: Any, value: Expr) -> Expr:
    """``x`` after ``x[key] = value``: NumPy's meaning for slices, integers, masks and integer arrays.

    Raises
    ------
    ShapeError
        If the value does not fit the selection.
    """
    value = cast(value, x.dtype)
    if has_expr(key):
        return _replaced_dynamic(x, key, value)
    positions = np.full(x.shape, -1, dtype=np.int64)
    shape = np.shape(positions[key])
    if value.ndim:
        value = fitted(value, shape)
        # NumPy itself says which element of the value ends where; of duplicates the last one stays.
        positions[key] = np.broadcast_to(np.arange(value.aval.size).reshape(value.shape), shape)
    else:
        positions[key] = 0
    return _merged(x, positions, value)


def fitted(value: Expr, shape: tuple[int, ...]) -> Expr:
    """A value that is written to a selection of a shape, without leading axes of size 1 too many.

    Raises
    ------
    ShapeError
        If it does not fit.
    """
    given = value.shape
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    try:
        fits = np.broadcast_shapes(given, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"an array of shape {value.shape} cannot be written to a selection of shape {shape}"
        )
    return value if given == value.shape else reshape(value, shape=given)


def _merged(x: Expr, positions: np.ndarray[Any, Any], value: Expr) -> Expr:
    """Elements of ``value`` (by flat position) where ``positions`` is not negative, of ``x`` elsewhere."""
    taken = positions >= 0
    if not taken.any():
        return x
    if not value.ndim:
        return broadcast_to(value, shape=x.shape) if taken.all() else where(x.table.constant(taken), value, x)
    flat = reshape(value, shape=(value.aval.size,))
    region = _line_region(positions, x.shape)
    if region is not None:
        axis, start, size = region
        if x.aval.size * size == value.aval.size * x.shape[axis]:
            return _inserted(x, axis, start, size, value)
    spread = getitem(flat, np.maximum(positions, 0))
    return spread if taken.all() else where(x.table.constant(taken), spread, x)


def _line_region(positions: np.ndarray[Any, Any], shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Axis, start and size of a selection of whole, consecutive lines in order; None otherwise."""
    taken = positions >= 0
    for axis in range(len(shape)):
        along = taken.any(axis=tuple(k for k in range(len(shape)) if k != axis))
        if along.all() and len(shape) > 1 and not taken.all():
            continue
        where_ = np.flatnonzero(along)
        start, size = int(where_[0]), len(where_)
        if where_[-1] - start + 1 != size:
            continue
        block = positions[(slice(None),) * axis + (slice(start, start + size),)]
        if np.array_equal(block.ravel(), np.arange(block.size)):
            return axis, start, size
    return None


def _inserted(x: Expr, axis: int, start: int, size: int, value: Expr) -> Expr:
    """Lines of ``x`` replaced by others: joined from what is before, the new ones, and what is after."""
    shape = tuple(size if k == axis else n for k, n in enumerate(x.shape))
    middle = value if value.shape == shape else reshape(value, shape=shape)
    n = x.shape[axis]
    lead = (slice(None),) * axis
    parts = [getitem(x, (*lead, slice(0, start))), middle, getitem(x, (*lead, slice(start + size, n)))]
    kept = [p for p in parts if p.shape[axis]]
    return FUNCTIONS[np.concatenate](kept, axis)  # type: ignore[no-any-return]  # registry


# ------------------------------------------------------------------------------------------ traced positions


def is_mask(part: Any) -> bool:
    """True for a traced mask."""
    return isinstance(part, Expr) and part.dtype.kind == "b" and part.ndim > 0


def chooses(key: Any, ndim: int, value: Expr) -> bool:
    """Whether a traced mask only chooses between old and new elements, so that it need not be known.

    Otherwise how many elements there are, and which is which, decides what a value means or whether it fits.
    """
    return is_mask(key) and value.ndim <= ndim - key.ndim


def _replaced_dynamic(x: Expr, key: Any, value: Expr) -> Expr:
    parts = as_parts(key)
    if len(parts) == 1 and is_mask(parts[0]):
        mask = reshape(parts[0], shape=parts[0].shape + (1,) * (x.ndim - parts[0].ndim))
        return where(mask, fitted(value, x.shape[parts[0].ndim :]), x)
    if len(parts) <= x.ndim and all([_is_whole(p) or _is_position(p) for p in parts]):
        return _replaced_lines(x, parts, value)
    return _replaced_anywhere(x, key, value)


def _is_whole(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)


def _is_position(part: Any) -> bool:
    if isinstance(part, Expr):
        return not part.shape and part.dtype.kind in "iu"
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _replaced_lines(x: Expr, parts: tuple[Any, ...], value: Expr) -> Expr:
    """Writes at traced integers beside slices that take whole axes."""
    mask: Expr | None = None
    shape: list[int] = []
    spread: list[int] = []
    for axis, n in enumerate(x.shape):
        part = parts[axis] if axis < len(parts) else slice(None)
        if isinstance(part, slice):
            shape.append(n)
            spread.append(n)
            continue
        spread.append(1)
        line = np.arange(n).reshape(tuple(-1 if k == axis else 1 for k in range(x.ndim)))
        if isinstance(part, Expr):
            # A position outside of the array raises as NumPy does: it is read there.
            inside = getitem(x.table.constant(np.arange(n)), cast(part, np.int64))
            here = equal(x.table.constant(line), inside)
        else:
            here = x.table.constant(line == _bounded(int(part), n))
        mask = here if mask is None else mask & here
    assert mask is not None
    value = fitted(value, tuple(shape))
    if value.ndim:
        value = reshape(broadcast_to(value, shape=tuple(shape)), shape=tuple(spread))
    return where(mask, value, x)


def _bounded(index: int, n: int) -> int:
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for an axis of size {n}")
    return index % n


def _replaced_anywhere(x: Expr, key: Any, value: Expr) -> Expr:
    """Writes at any traced positions: each element of the result looks up which new one it takes, if any."""
    positions: Expr = METHODS["__getitem__"](x.table.constant(grid(x.shape)), key)
    count = positions.aval.size
    value = broadcast_to(fitted(value, positions.shape), shape=positions.shape)
    if not count:
        return x
    line = reshape(value, shape=(count,))
    places = reshape(positions, shape=(count,))
    numbers = x.table.constant(np.arange(1, count + 1))
    if not _distinct(key, count):
        numbers = numbers * _last_of_equals(places)
    which = scatter_add(numbers, places, shape=(x.aval.size,), axes=(0,))
    picked = getitem(line, maximum(which - 1, x.table.constant(0)))
    return where(reshape(which > 0, shape=x.shape), reshape(picked, shape=x.shape), x)


def _distinct(key: Any, count: int) -> bool:
    """Whether it is known that no position occurs twice."""
    parts = as_parts(key)
    if all([not p.shape for p in parts if isinstance(p, Expr)]):
        return not any(isinstance(p, (list, np.ndarray)) for p in parts)
    return any(
        np.size(p) == count and len(np.unique(np.asarray(p))) == count
        for p in parts if isinstance(p, (list, np.ndarray))
    )


def _last_of_equals(places: Expr) -> Expr:
    """1 where a position occurs for the last time, 0 elsewhere: the value written last stays."""
    count = places.shape[0]
    order: Expr = FUNCTIONS[np.argsort](places, kind="stable")
    ordered = getitem(places, order)
    differs = cast(getitem(ordered, slice(1, None)) - getitem(ordered, slice(0, count - 1)), np.bool_)
    last = FUNCTIONS[np.concatenate]([differs, places.table.constant(np.ones(1, bool))], 0)
    return scatter_add(cast(last, np.int64), order, shape=(count,), axes=(0,))
