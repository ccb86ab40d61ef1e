"""What traced arrays are made of: memory that can be written to, shared by an array and its views.

In-place code is turned into expressions as it runs. A base array holds its current expression, or, while it
is written element by element, one expression for each element: then n writes and reads in a loop cost O(n),
and the derivative sees plain scalar code. A view knows how it was cut from its base, so that a write through
it reaches the base and every other view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.expr import Expr
from ..core.op import Op
from ..errors import ShapeError
from ..ops.comparison import equal
from ..ops.define import FUNCTIONS, cast
from ..ops.indexing import getitem, wrapped
from ..ops.selection import where
from ..ops.shaping import broadcast_to, inverse_permutation, reshape, take_slice, transpose

ELEMENTWISE = 1 << 14
"""Arrays up to this size are kept element by element while single elements are written."""

FEW = 64
"""Writes of up to this many elements to an array kept element by element leave it so."""

Step = tuple[Op, dict[str, Any]]
VIEW_OPS = (reshape, transpose, take_slice)


class Memory:
    """The memory of a base array.

    Attributes
    ----------
    aval
        Shape and dtype, which writes do not change.
    version
        Counts writes; views compare it to know whether what they read is out of date.
    """

    __slots__ = ("_elements", "_expr", "aval", "version")

    def __init__(self, expr: Expr) -> None:
        self._expr: Expr | None = expr
        self._elements: np.ndarray[Any, Any] | None = None
        self.aval: Aval = expr.aval
        self.version = 0

    @property
    def expr(self) -> Expr:
        """The contents as one expression."""
        if self._expr is None:
            assert self._elements is not None
            self._expr = joined(self._elements, self.aval)
        return self._expr

    def elements(self) -> np.ndarray[Any, Any]:
        """The contents as an object array of scalar expressions."""
        if self._elements is None:
            self._elements = scattered(self.expr)
        return self._elements

    @property
    def is_elementwise(self) -> bool:
        """True while the array is kept element by element."""
        return self._elements is not None

    def write(self, expr: Expr) -> None:
        """Replace the contents."""
        self._expr, self._elements = expr, None
        self.version += 1

    def touched(self) -> None:
        """Elements were replaced."""
        self._expr = None
        self.version += 1


def scattered(expr: Expr) -> np.ndarray[Any, Any]:
    """One scalar expression for each element."""
    made = np.empty(expr.shape, dtype=object)
    value = expr.value
    source = expr
    while source.op is broadcast_to and source.args[0].aval.size == 1:
        source = source.args[0]
    if source.aval.size == 1:
        scalar = source if not source.shape else reshape(source, shape=())
        made.fill(scalar if value is None else expr.table.constant(value.flat[0], expr.dtype))
        return made
    for index in np.ndindex(expr.shape):
        if value is not None:
            made[index] = expr.table.constant(value[index], expr.dtype)
        else:
            made[index] = getitem(expr, index)
    return made


def joined(elements: np.ndarray[Any, Any], aval: Aval) -> Expr:
    """An array expression from one scalar expression for each element."""
    flat = elements.ravel().tolist()
    first: Expr | None = flat[0] if flat else None
    if first is not None and all(e is first for e in flat):
        return broadcast_to(first, shape=aval.shape)
    line = FUNCTIONS[np.concatenate](_runs(flat))
    return line if line.shape == aval.shape else reshape(line, shape=aval.shape)


def _runs(flat: list[Expr]) -> list[Expr]:
    """Pieces of a line: runs of equal elements are broadcast, consecutive ones of an array are sliced."""
    pieces: list[Expr] = []
    k = 0
    while k < len(flat):
        source = _element_of(flat[k])
        n = 1
        if source is not None:
            array, position = source
            while k + n < len(flat) and _element_of(flat[k + n]) == (array, position + n):
                n += 1
            piece = (
                array if n == array.shape[0]
                else take_slice(array, starts=(position,), sizes=(n,), steps=(1,))
            )
        else:
            while k + n < len(flat) and flat[k + n] is flat[k]:
                n += 1
            piece = reshape(flat[k], shape=(1,)) if n == 1 else broadcast_to(flat[k], shape=(n,))
        pieces.append(piece)
        k += n
    return pieces


def _element_of(x: Expr) -> tuple[Expr, int] | None:
    """The line and the position that a scalar was read from."""
    if x.op is reshape and x.args[0].op is take_slice and x.args[0].args[0].ndim == 1 and not x.shape:
        piece = x.args[0]
        return piece.args[0], piece.param("starts")[0]
    return None


# ------------------------------------------------------------------------------------------ views


def steps_between(source: Expr, result: Expr) -> tuple[Step, ...] | None:
    """How a view was cut: the reshapes, transposes and slices that lead from ``source`` to ``result``."""
    steps: list[Step] = []
    node = result
    while node is not source:
        if node.op not in VIEW_OPS:
            return None
        steps.append((node.op, dict(node.params)))
        node = node.args[0]
    return tuple(reversed(steps))


def follow(expr: Expr, steps: tuple[Step, ...]) -> Expr:
    """Cut a view from an expression."""
    for op, params in steps:
        expr = op(expr, **params)
    return expr


def follow_elements(elements: np.ndarray[Any, Any], steps: tuple[Step, ...]) -> np.ndarray[Any, Any] | None:
    """Cut a view from an array of elements; None where NumPy would have to copy."""
    for op, params in steps:
        if op is reshape:
            made = elements.reshape(params["shape"])
            if made.size and not np.shares_memory(made, elements):
                return None
            elements = made
        elif op is transpose:
            elements = elements.transpose(params["axes"])
        else:
            elements = elements[_slices(elements.shape, params)]
    return elements


def _slices(shape: tuple[int, ...], params: dict[str, Any]) -> tuple[slice, ...]:
    index = []
    for start, size, step in zip(params["starts"], params["sizes"], params["steps"], strict=True):
        stop = start + size * step
        index.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return tuple(index)


def is_view(shape: tuple[int, ...], steps: tuple[Step, ...]) -> bool:
    """Whether NumPy gives a view for these steps on a contiguous array, not a copy."""
    # Only a reshape can force a copy; an array of the same shape that takes no memory shows whether.
    if not any(op is reshape for op, _ in steps):
        return True
    probe = np.empty(shape, dtype=np.int8)
    return follow_elements(probe, steps) is not None


def put_back(base: Expr, steps: tuple[Step, ...], value: Expr) -> Expr:
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
            value = replaced(parent, _slices(parent.shape, params), value)
    return value


# ------------------------------------------------------------------------------------------ writing


def replaced(x: Expr, key: Any, value: Expr) -> Expr:
    """``x`` after ``x[key] = value``: NumPy's meaning for slices, integers, masks and integer arrays.

    Raises
    ------
    ShapeError
        If the value does not fit the selection.
    """
    value = cast(value, x.dtype)
    if _is_dynamic(key):
        return _replaced_dynamic(x, key, value)
    positions = np.full(x.shape, -1, dtype=np.int64)
    selection = positions[key]
    if value.ndim and np.broadcast_shapes(value.shape, np.shape(selection)) != np.shape(selection):
        raise ShapeError(
            f"an array of shape {value.shape} cannot be written to a selection of shape {np.shape(selection)}"
        )
    if value.ndim:
        # NumPy itself says which element of the value ends where; of duplicates the last one stays.
        positions[key] = np.broadcast_to(np.arange(value.aval.size).reshape(value.shape), np.shape(selection))
    else:
        positions[key] = 0
    return _merged(x, positions, value)


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
    return FUNCTIONS[np.concatenate](kept, axis)  # type: ignore[no-any-return]


def _is_dynamic(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(p, Expr) for p in parts)


def _replaced_dynamic(x: Expr, key: Any, value: Expr) -> Expr:
    """Writes at traced positions: one mask, or traced integers beside slices that take whole axes."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) == 1 and parts[0].dtype.kind == "b":
        return _masked(x, parts[0], value)
    mask: Expr | None = None
    for axis, part in enumerate(parts):
        if isinstance(part, slice) and part == slice(None):
            continue
        line = tuple(-1 if k == axis else 1 for k in range(x.ndim))
        places = x.table.constant(np.arange(x.shape[axis]).reshape(line))
        if isinstance(part, Expr) and not part.shape:
            here = equal(places, cast(wrapped(part, x.shape[axis]), np.int64))
        elif isinstance(part, int):
            here = x.table.constant(np.arange(x.shape[axis]).reshape(line) == part % x.shape[axis])
        else:
            raise ShapeError(
                "a write at traced positions takes one mask, or integers beside whole axes.\n"
                "  Use np.where(mask, new, old)."
            )
        mask = here if mask is None else mask & here
    assert mask is not None
    rest = tuple(
        n for n, p in zip(x.shape, [*parts, *[slice(None)] * x.ndim], strict=False) if isinstance(p, slice)
    )
    if value.ndim and value.shape != rest:
        value = broadcast_to(value, shape=rest)
    if value.ndim:
        value = reshape(value, shape=tuple(n if isinstance(p, slice) else 1 for n, p in zip(
            x.shape, [*parts, *[slice(None)] * x.ndim], strict=False)))
    return where(mask, value, x)


def _masked(x: Expr, mask: Expr, value: Expr) -> Expr:
    if mask.ndim < x.ndim:
        mask = reshape(mask, shape=mask.shape + (1,) * (x.ndim - mask.ndim))
    if not value.ndim:
        return where(mask, value, x)
    if mask.shape != x.shape or value.ndim != 1:
        raise ShapeError(
            "an array written through a traced mask must have one axis.\n  Use np.where(mask, new, old)."
        )
    # The k-th true element takes the k-th value.
    flat = reshape(mask, shape=(x.aval.size,))
    order = FUNCTIONS[np.cumsum](flat) - 1
    picked = getitem(value, FUNCTIONS[np.clip](order, 0, value.shape[0] - 1))
    return where(mask, reshape(picked, shape=x.shape), x)
