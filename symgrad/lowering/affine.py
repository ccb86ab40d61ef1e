"""Index maps: where the elements of a node lie, as affine functions of the loop variables around it.

A map has one `Index` for each axis of the node. Where only the position in C order is known (behind a reshape
that joins axes) it is a `Flat`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from .program import Index

Shape = tuple[int, ...]
ZERO: Index = (0, ())


@dataclass(frozen=True)
class Flat:
    """The position in C order, where positions along the single axes are not known."""

    index: Index


Map = tuple[Index, ...] | Flat


def scaled(index: Index, factor: int, offset: int = 0) -> Index:
    """``factor * index + offset``."""
    if factor == 0:
        return (offset, ())
    return (index[0] * factor + offset, tuple([(axis, c * factor) for axis, c in index[1]]))


def total(parts: list[Index]) -> Index:
    """The sum of indices."""
    if len(parts) == 1:
        return parts[0]
    offset = 0
    terms: dict[int, int] = {}
    for more, pairs in parts:
        offset += more
        for axis, c in pairs:
            terms[axis] = terms.get(axis, 0) + c
    return (offset, tuple(sorted([(a, c) for a, c in terms.items() if c])))


@lru_cache(maxsize=4096)
def strides(shape: Shape) -> Shape:
    """Elements from one position to the next along each axis, in C order."""
    result = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        result[k] = result[k + 1] * shape[k + 1]
    return tuple(result)


def position(where: Map, shape: Shape) -> Index:
    """The position in C order that a map means."""
    if isinstance(where, Flat):
        return where.index
    if not where:
        return ZERO
    return total([scaled(index, step) for index, step in zip(where, strides(shape), strict=True)])


def depth_of(where: Map) -> int:
    """How many loops must be around a value at this map: one more than the deepest variable it names."""
    indices = (where.index,) if isinstance(where, Flat) else where
    return max([pairs[-1][0] + 1 for _, pairs in indices if pairs], default=0)


def broadcast_map(where: Map, shape: Shape, wide: Shape) -> Map:
    """The map of an operand of ``shape`` whose user has ``wide`` and is wanted at ``where``."""
    if shape == wide:
        return where
    if isinstance(where, Flat):
        # Only shapes of one size or of one element come here: see `flatable` in `structure`.
        return where if math.prod(shape) != 1 else (ZERO,) * len(shape)
    lead = len(wide) - len(shape)
    return tuple([ZERO if n == 1 else where[k + lead] for k, n in enumerate(shape)])


@lru_cache(maxsize=4096)
def reshape_plan(old: Shape, new: Shape) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """For each old axis the new axes that make it up, with strides; None where there are none."""
    plan: list[tuple[tuple[int, int], ...]] = []
    wide = [(k, n) for k, n in enumerate(new) if n != 1]
    at = 0
    for n in old:
        if n == 1:
            plan.append(())
            continue
        taken: list[tuple[int, int]] = []
        size = 1
        while size < n and at < len(wide):
            taken.append(wide[at])
            size *= wide[at][1]
            at += 1
        if size != n:
            return None
        steps = strides(tuple(m for _, m in taken))
        plan.append(tuple((k, step) for (k, _), step in zip(taken, steps, strict=True)))
    return tuple(plan)


def reshape_map(where: Map, old: Shape, new: Shape) -> Map:
    """The map of the operand of a reshape to ``new`` that is wanted at ``where``."""
    if isinstance(where, Flat):
        return where
    plan = reshape_plan(old, new)
    if plan is None:
        return Flat(position(where, new))
    return tuple([total([scaled(where[k], step) for k, step in made]) if made else ZERO for made in plan])


def transpose_map(where: Map, axes: tuple[int, ...]) -> Map:
    """The map of the operand of a transpose."""
    assert not isinstance(where, Flat)
    result: list[Index] = [ZERO] * len(axes)
    for k, axis in enumerate(axes):
        result[axis] = where[k]
    return tuple(result)


def slice_map(where: Map, starts: Shape, steps: Shape) -> Map:
    """The map of the operand of a slice."""
    assert not isinstance(where, Flat)
    return tuple(
        [scaled(index, step, start) for index, start, step in zip(where, starts, steps, strict=True)]
    )
