"""How views are cut from the memory they share: reshapes, transposes and slices, followed on anything."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.op import Op
from ..ops.shaping import reshape, take_slice, transpose
from .layouts import Strides, blank

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


def reshapes(steps: Steps) -> bool:
    """Whether there is a reshape among the steps: nothing else can force NumPy to copy."""
    return any(op is reshape for op, _ in steps)


@lru_cache(maxsize=16)
def grid(shape: tuple[int, ...], strides: Strides = None) -> np.ndarray[Any, Any]:
    """The position in C order of each element, as an array of these strides."""
    made = blank(shape, strides, np.int64)
    made[...] = np.arange(made.size, dtype=np.int64).reshape(shape)
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
