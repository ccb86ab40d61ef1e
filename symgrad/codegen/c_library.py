"""Library routines in C: matrix products, linear algebra, running sums and the like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..errors import UnsupportedOperationError
from ..lowering.memory import aligned
from ..lowering.program import Call
from ..ops.contraction import matmul
from ..ops.reduction import argmax, argmin, argsort, cumprod, cumsum, linear_scan
from . import c_linalg
from .blas import BlasTable, blas_table
from .c_batches import Lines, batched, names_of, suffix
from .c_values import Context

#: Multiplications from which on a BLAS routine is faster than a loop, for two matrices and for one.
GEMM_FROM: Final = 512
GEMV_FROM: Final = 1024


class Library:
    """How calls are written, and what they need beside their operands.

    Attributes
    ----------
    routines
        BLAS routines called so far.
    scratch
        Bytes of workspace behind the program's own that calls may use, one after the other.
    sizes_position, table_position
        Where among the inputs the sizes and the table of BLAS routines come, if they do.
    """

    def __init__(self, first_free: int, has_sizes: bool, scratch_offset: int) -> None:
        self.sizes_position = first_free
        self.table_position = first_free + has_sizes
        self.scratch_offset = scratch_offset
        self.routines: set[str] = set()
        self.scratch = 0

    def reserve(self, context: Context, *nbytes: int) -> list[str]:
        """Sources of addresses of scratch memory."""
        context.uses.add("workspace")
        parts: list[str] = []
        start = 0
        for size in nbytes:
            place = context.size(self.scratch_offset + start, "at", (id(self), len(parts)))
            parts.append(f"(ws + {place})")
            start += aligned(size)
        self.scratch = max(self.scratch, start)
        return parts

    def sizes_read(self, context: Context) -> list[str]:
        """Statements that read the sizes which a function needs."""
        context.uses.add("in")
        names = context.sizes.order(context.sized)
        read = f"const int64_t *const sizes = in[{self.sizes_position}];"
        return [read, *map(context.sizes.declaration, names)]

    def blas(self, routine: str) -> BlasTable | None:
        """The table of routines if it has this one."""
        table = blas_table()
        return table if table is not None and table.address(routine) else None

    def lines(self, call: Call, context: Context) -> Lines:
        """The C statements of a call."""
        writer = WRITERS.get(call.node.op)
        if writer is None:
            raise UnsupportedOperationError(
                f"{call.node.op.name} has no C form; the NumPy backend computes it"
            )
        return writer(self, call, context)


def prelude(libraries: Sequence[Library]) -> str:
    """C functions around the BLAS routines called."""
    routines = {routine for library in libraries for routine in library.routines}
    if not routines:
        return ""
    table = blas_table()
    assert table is not None
    return table.c_prelude(sorted(routines)) + "\n"


def _lines_of(call: Call, context: Context) -> str:
    """How many lines along the axis there are, how long and how far apart."""
    shape, axis = call.node.args[0].shape, call.node.param("axis")
    return ", ".join(map(context.size, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))))


# ------------------------------------------------------------------------------------------ lines


def _running(function: str, *flags: str) -> Callable[[Library, Call, Context], Lines]:
    def write(library: Library, call: Call, context: Context) -> Lines:
        memory = ", ".join(names_of(call, context))
        chosen = "".join(f", {int(call.node.param(flag))}" for flag in flags)
        return [f"{function}{suffix(call)}({memory}, {_lines_of(call, context)}{chosen});"]

    return write


def _extreme(largest: int) -> Callable[[Library, Call, Context], Lines]:
    def write(library: Library, call: Call, context: Context) -> Lines:
        memory = ", ".join(names_of(call, context))
        return [f"sg_arg_extreme{suffix(call)}({memory}, {_lines_of(call, context)}, {largest});"]

    return write


def _argsort(library: Library, call: Call, context: Context) -> Lines:
    n = call.node.args[0].shape[call.node.param("axis")]
    (scratch,) = library.reserve(context, 16 * n)
    memory = ", ".join(names_of(call, context))
    return [f"sg_argsort{suffix(call)}({memory}, {_lines_of(call, context)}, (int64_t *){scratch});"]


# ------------------------------------------------------------------------------------------ products


def _matmul(library: Library, call: Call, context: Context) -> Lines:
    node = call.node
    a, b = node.args[0].shape, node.args[1].shape
    if node.dtype.kind == "b":
        raise UnsupportedOperationError("a matrix product of bools is computed by the NumPy backend")
    if len(a) == 1 or len(b) == 1:
        m, k = (1, a[0]) if len(a) == 1 else a
        n = 1 if len(b) == 1 else b[1]
        return _product(library, call, context, names_of(call, context), m, k, n)
    m, k, n = a[-2], a[-1], b[-1]
    return batched(call, context, [2, 2, 2], lambda at: _product(library, call, context, at, m, k, n))


def _product(library: Library, call: Call, context: Context, at: list[str], m: int, k: int, n: int) -> Lines:
    """One product of two matrices; a vector is a matrix of one row or column."""
    a, b, c = at
    trans_a, trans_b = (int(t) for t in call.transposed)
    letter = {"float64": "d", "float32": "s"}.get(call.node.dtype.name)
    if letter and k and m > 1 and n > 1 and m * n * k >= GEMM_FROM and library.blas(f"{letter}gemm"):
        library.routines.add(f"{letter}gemm")
        context.uses.add("in")
        rows, columns, inner = context.size(m), context.size(n), context.size(k)
        lda, ldb = (rows if trans_a else inner), (inner if trans_b else columns)
        operands = f"{trans_a}, {trans_b}, {rows}, {columns}, {inner}, 1, {a}, {lda}, {b}, {ldb}"
        return [f"sg_{letter}gemm(in[{library.table_position}], {operands}, 0, {c}, {columns});"]
    if letter and k and (m == 1) != (n == 1) and m * n * k >= GEMV_FROM and library.blas(f"{letter}gemv"):
        library.routines.add(f"{letter}gemv")
        context.uses.add("in")
        return [_matrix_vector(library, context, letter, at, (m, k, n), (trans_a, trans_b))]
    shape = ", ".join(map(context.size, (m, k, n)))
    return [f"sg_matmul{suffix(call)}({a}, {trans_a}, {b}, {trans_b}, {c}, {shape});"]


def _matrix_vector(
    library: Library, context: Context, letter: str, at: list[str], sizes: tuple[int, int, int],
    transposed: tuple[int, int],
) -> str:
    a, b, c = at
    (m, k, n), (trans_a, trans_b) = sizes, transposed
    if n == 1:
        matrix, vector, trans, rows, columns = a, b, trans_a, m, k
    else:
        # x B is Bᵀ x.
        matrix, vector, trans, rows, columns = b, a, 1 - trans_b, n, k
    if trans:
        rows, columns = columns, rows
    width = context.size(columns)
    operands = f"{trans}, {context.size(rows)}, {width}, 1, {matrix}, {width}, {vector}"
    return f"sg_{letter}gemv(in[{library.table_position}], {operands}, 1, 0, {c}, 1);"


WRITERS: Final[dict[Any, Callable[[Library, Call, Context], Lines]]] = {
    cumsum: _running("sg_cumsum", "reverse"),
    cumprod: _running("sg_cumprod", "reverse", "exclusive"),
    linear_scan: _running("sg_linear_scan", "reverse"),
    argmax: _extreme(1),
    argmin: _extreme(0),
    argsort: _argsort,
    matmul: _matmul,
    **c_linalg.WRITERS,
}
