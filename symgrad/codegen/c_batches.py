"""Calls in loops over leading axes, and what all kinds of calls share."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..lowering import affine
from ..lowering.program import Call, Index
from ..ops.c_types import short
from . import c_text
from .c_values import Context

Lines = list[str]


def suffix(call: Call) -> str:
    """The suffix of helpers for the dtype of the first operand."""
    dtype = call.node.args[0].dtype
    if dtype.kind == "f":
        return "f" if dtype.itemsize == 4 else ""
    return "_u8" if dtype.kind == "b" else f"_{short(dtype)}"


def names_of(call: Call, context: Context) -> list[str]:
    """Pointers to the operands and the result."""
    return [context.memory(b) for b in (*call.operands, call.out)]



def batched(call: Call, context: Context, core: list[int], body: Callable[[list[str]], Lines]) -> Lines:
    """Loops over the leading axes, broadcast; ``core`` is how many last axes operands and result keep."""
    shapes = [a.shape for a in call.node.args]
    names = names_of(call, context)
    rank = call.node.ndim - core[-1]
    batch = call.node.shape[:rank]
    loops: list[Index] = [(0, ((d, 1),)) if n > 1 else affine.ZERO for d, n in enumerate(batch)]
    addresses = []
    for name, shape, kept in zip(names, [*shapes, call.node.shape], core, strict=True):
        lead = shape[: len(shape) - kept]
        where = affine.broadcast_map(tuple(loops), lead, batch)
        step = math.prod(shape[len(shape) - kept :])
        at = affine.scaled(affine.position(where, lead), step)
        addresses.append(name if at == affine.ZERO else f"{name} + {context.position(at)}")
    lines: Lines = []
    depth = 0
    for d, n in enumerate(batch):
        if n > 1:
            i = c_text.loop_name(d)
            lines.append(f"{'    ' * depth}for (long {i} = 0; {i} < {context.size(n)}; ++{i}) {{")
            depth += 1
    lines += ["    " * depth + text for text in body(addresses)]
    return [*lines, *["    " * k + "}" for k in range(depth - 1, -1, -1)]]
