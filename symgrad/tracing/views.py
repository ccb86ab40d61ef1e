"""How views are cut from the memory they share: reshapes, transposes and slices, followed on anything."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.op import Op
from ..ops.shaping import reshape, take_slice, transpose

Step = tuple[Op, dict[str, Any]]
Steps = tuple[Step, ...]
VIEW_OPS = (reshape, transpose, take_slice)

GRID_LIMIT = 1 << 22
"""Arrays of more elements are not looked at element by element."""


def steps_between(source: Expr, result: Expr) -> Steps | None:
    """How a view was cut: the reshapes, transposes and slices that lead from ``source`` to ``result``."""
    steps: list[Step] = []
    node = result
    while node is not source:
        if node.op not in VIEW_OPS:
            return None
        steps.append((node.op, dict(node.params)))
        node = node.args[0]
    return tuple(reversed(steps))


def follow(expr: Expr, steps: Steps) -> Expr:
    """Cut a view from an expression."""
    for op, params in steps:
        expr = op(expr, **params)
    return expr


def cut(elements: np.ndarray[Any, Any], steps: Steps) -> np.ndarray[Any, Any] | None:
    """Cut a view from an array; None where NumPy would have to copy."""
    for op, params in steps:
        if op is reshape:
            made = elements.reshape(params["shape"])
            if made.size and not np.shares_memory(made, elements):
                return None
            elements = made
        elif op is transpose:
            elements = elements.transpose(params["axes"])
        else:
            elements = elements[slices_of(params)]
    return elements


def slices_of(params: dict[str, Any]) -> tuple[slice, ...]:
    """The key of a slice that is given by starts, sizes and steps."""
    index = []
    for start, size, step in zip(params["starts"], params["sizes"], params["steps"], strict=True):
        stop = start + size * step
        index.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return tuple(index)


def is_view(shape: tuple[int, ...], steps: Steps) -> bool:
    """Whether NumPy gives a view for these steps on a contiguous array, not a copy."""
    # Only a reshape can force a copy; an array of the same shape that takes no memory shows whether.
    if not any(op is reshape for op, _ in steps):
        return True
    return cut(np.empty(shape, dtype=np.int8), steps) is not None


def is_contiguous(shape: tuple[int, ...], steps: Steps, order: str) -> bool:
    """Whether a view of a contiguous array is contiguous itself, with the last axis fastest or, for "F", the first."""
    made = cut(np.empty(shape, dtype=np.int8), steps)
    return made is not None and bool(made.flags.f_contiguous if order == "F" else made.flags.c_contiguous)


@lru_cache(maxsize=16)
def grid(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The position in memory of each element."""
    made = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)
    made.flags.writeable = False
    return made


def run_start(positions: np.ndarray[Any, Any]) -> int | None:
    """Where consecutive positions start; None if they are not consecutive."""
    if not positions.size:
        return None
    first, last = int(positions.flat[0]), int(positions.flat[-1])
    if last - first + 1 != positions.size:
        return None
    line = positions.ravel()
    return first if bool((line[1:] - line[:-1] == 1).all()) else None
