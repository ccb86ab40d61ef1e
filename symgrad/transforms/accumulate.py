"""Adding up the cotangents that reach one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.expr import Expr
from ..ops.arithmetic import add
from ..ops.indexing import scatter_add
from ..ops.shaping import concatenate, put_slice, reshape


def accumulate(parts: Sequence[Expr]) -> Expr:
    """Sum of cotangents of one node.

    Cotangents of single elements or rows are gathered into one array: n reads of an array in a loop cost
    O(n), not n arrays.
    """
    if len(parts) == 1:
        return parts[0]
    lines = [p for p in parts if _line_axis(p) is not None]
    if len(lines) > 1:
        axis = _line_axis(lines[0])
        same = [p for p in lines if _line_axis(p) == axis and p.shape == lines[0].shape]
        if len(same) > 1 and axis is not None:
            taken = {p.id for p in same}
            rest = [p for p in parts if p.id not in taken]
            return _total([*rest, _assemble(same, axis)])
    return _total(parts)


def _total(parts: Sequence[Expr]) -> Expr:
    """Sum in a balanced tree: shallow, and rounding errors stay small."""
    level = list(parts)
    while len(level) > 1:
        level = [add(*level[k : k + 2]) if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level[0]


def _line_axis(x: Expr) -> int | None:
    """The axis on which ``x`` writes one position and leaves all others zero; -1 for a single element."""
    if x.op is not put_slice:
        return None
    inner = x.args[0].shape
    partial = [k for k, (n, m) in enumerate(zip(x.shape, inner, strict=True)) if n != m]
    if any(x.param("starts")[k] for k in range(x.ndim) if k not in partial):
        return None  # whole along these axes, but backwards
    if all(inner[k] == 1 for k in partial) and len(partial) == 1:
        return partial[0]
    return -1 if x.args[0].aval.size == 1 and len(partial) > 1 else None


def _assemble(parts: Sequence[Expr], axis: int) -> Expr:
    shape = parts[0].shape
    if axis == -1:
        size = int(np.prod(shape))
        flat = [
            (int(np.ravel_multi_index(p.param("starts"), shape)), reshape(p.args[0], shape=(1,)))
            for p in parts
        ]
        return reshape(_from_lines(flat, (size,), 0), shape=shape)
    return _from_lines([(p.param("starts")[axis], p.args[0]) for p in parts], shape, axis)


def _from_lines(lines: list[tuple[int, Expr]], shape: tuple[int, ...], axis: int) -> Expr:
    by_position: dict[int, list[Expr]] = {}
    for position, value in lines:
        by_position.setdefault(position, []).append(value)
    positions = sorted(by_position)
    values = [_total(by_position[k]) for k in positions]
    joined = concatenate(*values, axis=axis) if len(values) > 1 else values[0]
    if len(positions) == shape[axis]:
        return joined
    if len(positions) == 1:
        starts = tuple(positions[0] if k == axis else 0 for k in range(len(shape)))
        return put_slice(joined, shape=shape, starts=starts, steps=(1,) * len(shape))
    where = joined.table.constant(np.asarray(positions, dtype=np.int64))
    return scatter_add(joined, where, shape=shape, axes=(axis,))
