"""Programs on tiny arrays become programs on numbers: a loop of three iterations costs more than its body."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..core.expr import CONST, Expr, InternTable
from ..core.graph import Graph
from ..core.op import Op
from ..ops.arithmetic import add, multiply
from ..ops.comparison import logical_and, logical_or
from ..ops.contraction import matmul
from ..ops.evaluate import evaluate
from ..ops.indexing import gather, scatter_add
from ..ops.reduction import all_, any_, cumsum, max_, min_, prod, sum_
from ..ops.selection import maximum, minimum
from ..ops.shaping import concatenate, put_slice, reshape, take_slice
from .identities import identity_of

#: Elements of the largest array.
TINY: Final = 9
#: Operations on numbers that the whole program may become.
MOST: Final = 20_000

Elements = list[Expr]
_STEPS: Final[dict[Op, Op]] = {
    sum_: add, prod: multiply, max_: maximum, min_: minimum, any_: logical_or, all_: logical_and,
}  # fmt: skip


def scalarised(graph: Graph) -> Graph | None:
    """The same function on the elements of its arrays; None if arrays are not tiny or something has no such form."""
    total = 0
    for node in graph.nodes:
        size = node.aval.size
        total += size * (node.args[0].shape[-1] if node.op is matmul else 1)
        if size > TINY or total > MOST:
            return None
    if not any([node.aval.shape and node.op.kind != "leaf" for node in graph.nodes]):
        return None
    table = graph.table
    elements: dict[int, Elements] = {}
    for node in graph.nodes:
        table.origin = node.origin
        made = _elements(node, [elements[a.id] for a in node.args], table)
        if made is None:
            table.origin = None
            return None
        elements[node.id] = made
        _label(node, made, table)
    table.origin = None
    outputs = [_joined(out, elements[out.id]) for out in graph.outputs]
    return Graph(graph.inputs, outputs, graph.name)


def _label(node: Expr, made: Elements, table: InternTable) -> None:
    name = table.labels.get(node.id)
    if name and node.op.kind != "leaf" and node.aval.shape:
        for k, element in enumerate(made):
            table.labels.setdefault(element.id, f"{name}_{k}")


def _joined(out: Expr, elements: Elements) -> Expr:
    """An output array from its elements; what is an input or has no elements stays what it is."""
    if not out.aval.shape:
        return elements[0]
    if out.op.kind == "leaf" or not elements:
        return out
    parts = [reshape(x, shape=(1,)) for x in elements]
    line = concatenate(*parts, axis=0) if len(parts) > 1 else parts[0]
    return line if line.shape == out.shape else reshape(line, shape=out.shape)


def _elements(node: Expr, args: Sequence[Elements], table: InternTable) -> Elements | None:
    op = node.op
    if op.lowering == "elementwise":
        return _elementwise(node, args, table)
    if op.kind == "leaf":
        return _leaf(node, table)
    if op.lowering == "reduce":
        return _reduced(node, args[0], table)
    if op.lowering == "view" or op in (put_slice, concatenate):
        return _moved(node, args, table)
    if op is gather or op is scatter_add:
        constant = all([a.op is CONST for a in node.args[1:]])
        return (_moved if op is gather else _scattered)(node, args, table) if constant else None
    if op is matmul:
        return _product(node, args, table)
    return _running(node, args[0]) if op is cumsum else None


def _leaf(node: Expr, table: InternTable) -> Elements:
    if not node.aval.shape:
        return [node]
    value = node.value
    if value is not None:
        return [table.constant(v, node.dtype) for v in value.reshape(-1)]
    found = []
    for where in np.ndindex(node.shape):
        part = take_slice(node, starts=where, sizes=(1,) * node.ndim, steps=(1,) * node.ndim)
        found.append(reshape(part if node.aval.size > 1 else node, shape=()))
    return found


def _elementwise(node: Expr, args: Sequence[Elements], table: InternTable) -> Elements:
    if not node.aval.shape:
        return [table.remake(node.op, tuple([a[0] for a in args]), node.params)]
    rows = [_spread(a.shape, node.shape) for a in node.args]
    return [
        table.remake(node.op, tuple([a[row[k]] for a, row in zip(args, rows, strict=True)]), node.params)
        for k in range(node.aval.size)
    ]


@lru_cache(maxsize=1024)
def _spread(shape: tuple[int, ...], wide: tuple[int, ...]) -> tuple[int, ...]:
    """Which element each element of a broadcast array is."""
    return tuple(np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), wide).reshape(-1).tolist())


def _moved(node: Expr, args: Sequence[Elements], table: InternTable) -> Elements:
    """Operations that only move elements: NumPy says where each goes."""
    moving = 1 if node.op is gather else len(args)
    arrays: list[Any] = []
    start = 1
    for a, elements in zip(node.args[:moving], args, strict=False):
        arrays.append(np.arange(start, start + len(elements)).reshape(a.shape))
        start += len(elements)
    arrays += [a.value for a in node.args[moving:]]
    where = evaluate(node.op, arrays, [a.aval for a in node.args], dict(node.params))
    everything = [x for elements in args[:moving] for x in elements]
    zero = table.constant(0, node.dtype)
    return [everything[k - 1] if k else zero for k in np.asarray(where).reshape(-1).tolist()]


def _scattered(node: Expr, args: Sequence[Elements], table: InternTable) -> Elements:
    shape = node.param("shape")
    positions = np.arange(math.prod(shape)).reshape(shape)
    indices = [a.value for a in node.args[1:]]
    index: list[Any] = [slice(None)] * len(shape)
    for axis, where in zip(node.param("axes"), indices, strict=True):
        index[axis] = where
    found: Elements = [table.constant(0, node.dtype)] * math.prod(shape)
    for k, value in zip(positions[tuple(index)].reshape(-1).tolist(), args[0], strict=True):
        found[k] = add(found[k], value)
    return found


def _folded(step: Op, parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = step(result, part)
    return result


def _reduced(node: Expr, elements: Elements, table: InternTable) -> Elements | None:
    step = _STEPS.get(node.op)
    if step is None:
        return None
    source = node.args[0]
    axes = node.param("axis")
    kept = [d for d in range(source.ndim) if d not in axes]
    order = np.arange(source.aval.size).reshape(source.shape).transpose([*kept, *axes])
    groups = order.reshape(node.aval.size, -1).tolist() if node.aval.size else []
    return [
        _folded(step, [elements[k] for k in group]) if group else table.constant(identity_of(node), node.dtype)
        for group in groups
    ]


def _product(node: Expr, args: Sequence[Elements], table: InternTable) -> Elements:
    a, b = (_grid(x, elements) for x, elements in zip(node.args, args, strict=True))
    a = a[None, :] if a.ndim == 1 else a
    b = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    found = []
    for where in np.ndindex(*batch, a.shape[-2], b.shape[-1]):
        row, column = a[where[:-1]], b[(*where[:-2], slice(None), where[-1])]
        parts = [multiply(x, y) for x, y in zip(row, column, strict=True)]
        found.append(_folded(add, parts) if parts else table.constant(0, node.dtype))
    return found


def _running(node: Expr, elements: Elements) -> Elements:
    lines = np.moveaxis(_grid(node.args[0], elements), node.param("axis"), -1)
    lines = lines[..., ::-1] if node.param("reverse") else lines
    sums = lines.copy()
    for where in np.ndindex(lines.shape):
        if where[-1]:
            sums[where] = add(sums[(*where[:-1], where[-1] - 1)], lines[where])
    sums = sums[..., ::-1] if node.param("reverse") else sums
    return list(np.moveaxis(sums, -1, node.param("axis")).reshape(-1))


def _grid(node: Expr, elements: Elements) -> np.ndarray[Any, Any]:
    grid = np.empty(len(elements), object)
    for k, element in enumerate(elements):
        grid[k] = element
    return grid.reshape(node.shape)
