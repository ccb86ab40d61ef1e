"""Library routines in C: matrix products, linear algebra, running sums and the like."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from ..errors import UnsupportedOperationError
from ..lowering.program import Call
from ..ops.reduction import cumsum
from ..ops.c_types import short
from .blas import blas_table
from .c_values import Context

Lines = list[str]


class Library:
    """How calls are written, and what they need beside their operands.

    Attributes
    ----------
    routines
        BLAS routines called so far.
    scratch
        Bytes of workspace behind the program's own that calls may use, one after the other.
    """

    def __init__(self, table_position: int, scratch_offset: int) -> None:
        self.table_position = table_position
        self.scratch_offset = scratch_offset
        self.routines: set[str] = set()
        self.scratch = 0

    def reserve(self, nbytes: int) -> str:
        """Source of the address of scratch memory."""
        self.scratch = max(self.scratch, nbytes)
        return f"ws + {self.scratch_offset}"

    def prelude(self) -> str:
        """C functions around the BLAS routines called."""
        if not self.routines:
            return ""
        table = blas_table()
        assert table is not None
        return table.c_prelude(sorted(self.routines)) + "\n"

    def lines(self, call: Call, context: Context) -> Lines:
        """The C statements of a call."""
        writer = WRITERS.get(call.node.op)
        if writer is None:
            raise UnsupportedOperationError(f"{call.node.op.name} has no C form; the NumPy backend computes it")
        return writer(self, call, context)


def _suffix(call: Call) -> str:
    dtype = call.node.dtype
    if dtype.kind == "f":
        return "f" if dtype.itemsize == 4 else ""
    return f"_{short(dtype)}"


def _lines_of(shape: tuple[int, ...], axis: int) -> str:
    return f"{math.prod(shape[:axis])}, {shape[axis]}, {math.prod(shape[axis + 1 :])}"


def _cumsum(library: Library, call: Call, context: Context) -> Lines:
    node = call.node
    x, y = context.memory(call.operands[0]), context.memory(call.out)
    reverse = int(node.param("reverse"))
    return [f"sg_cumsum{_suffix(call)}({x}, {y}, {_lines_of(node.shape, node.param('axis'))}, {reverse});"]


WRITERS: Final[dict[Any, Callable[[Library, Call, Context], Lines]]] = {cumsum: _cumsum}
