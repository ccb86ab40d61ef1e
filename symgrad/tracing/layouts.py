"""How the elements of arrays lie in memory: it decides where a reshape is a view, and what ``order="K"`` means.

Programs compute in C order. What NumPy would have had is found out only where it matters: for arrays with several
axes that come from a transpose, from indexing with arrays, or from an argument that is not in C order.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core.expr import CAPTURE, CONST, INPUT, Expr
from ..ops.indexing import gather
from ..ops.shaping import broadcast_to, transpose
from .refusing import refuse
from .state import Trace, active_trace

Strides = tuple[int, ...] | None
"""Steps between neighbours along each axis, in elements; None for C order."""

PLAIN, TURNED, FOREIGN = range(3)
"""In C order; to be looked up; as the caller's array, whose order is not part of the signature."""


def has_order(shape: tuple[int, ...]) -> bool:
    """Whether there are several axes to be ordered."""
    return sum([n > 1 for n in shape]) > 1 and 0 not in shape


def layout(expr: Expr) -> tuple[Strides, bool]:
    """Strides of the array that NumPy would have made, and whether they are a matter of the caller's."""
    trace = active_trace()
    if trace is None or not (has_order(expr.shape) or (expr.shape and expr.op in (INPUT, CAPTURE))):
        return None, False
    kind = _kind(expr, trace)
    if kind != TURNED or not trace.is_known(expr):
        return None, kind == FOREIGN
    found = np.asarray(trace.concrete(expr))
    if expr.op is CAPTURE:
        return strides_of(found), False
    return _packed(found), False


def strides_of(array: np.ndarray[Any, Any]) -> Strides:
    """Strides in elements."""
    return None if array.flags.c_contiguous else tuple([s // array.itemsize for s in array.strides])


def _packed(array: np.ndarray[Any, Any]) -> Strides:
    """Strides of a new array with axes in the same order."""
    return strides_of(np.empty_like(array, order="K", subok=False))


def blank(shape: tuple[int, ...], strides: Strides, dtype: Any = np.int8) -> np.ndarray[Any, Any]:
    """An array of these strides."""
    if strides is None:
        return np.empty(shape, dtype)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    first = -sum([r for r in reach if r < 0])
    size = np.dtype(dtype).itemsize
    room = np.empty(first + sum([r for r in reach if r > 0]) + 1, dtype)
    return np.ndarray(shape, dtype, room.data, first * size, tuple([s * size for s in strides]))


# ------------------------------------------------------------------------------------------ looking up


def _kind(root: Expr, trace: Trace) -> int:
    kinds = trace.layouts
    stack = [root]
    while stack:
        node = stack[-1]
        if node.id in kinds or (node is not root and not has_order(node.shape)) or _is_new(node):
            kinds.setdefault(node.id, PLAIN)
            stack.pop()
            continue
        target = trace.alias.get(node.id)
        args = node.args if target is None else (target,)
        waiting = [a for a in args if a.id not in kinds]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        kinds[node.id] = max([_own(node, trace), *[kinds[a.id] for a in args]])
    return kinds[root.id]


def _own(node: Expr, trace: Trace) -> int:
    """What an operation does to the order."""
    if node.op is INPUT:
        given = trace.given(node)
        return FOREIGN if isinstance(given, np.ndarray) and not given.flags.c_contiguous else PLAIN
    if node.op is CAPTURE:
        return PLAIN if node.params[0][1].array.flags.c_contiguous else TURNED
    if node.op is CONST or node.op is broadcast_to:
        return PLAIN
    return TURNED if node.op is gather or node.op is transpose else PLAIN


def _is_new(node: Expr) -> bool:
    """Whether the result is in C order whatever the operands are: products of matrices, decompositions."""
    return node.op.lowering == "library" and node.op.kind in ("bilinear", "custom")


# ------------------------------------------------------------------------------------------ order=


def refuse_foreign(what: str) -> NoReturn:
    """Refuse what depends on the memory order of an argument."""
    refuse(
        f"{what} depends on the memory order of an argument that is not in C order",
        "Use np.ascontiguousarray(x) for the argument before the call, or order='C' or 'F' in it.",
    )


def axes_in_memory(strides: tuple[int, ...]) -> tuple[int, ...]:
    """The axes from the slowest to the fastest."""
    return tuple(sorted(range(len(strides)), key=lambda k: -abs(strides[k])))
