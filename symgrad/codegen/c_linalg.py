"""Linear algebra in C: by LAPACK for matrices of some size where it is found, by functions of our own elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..core.op import Op
from ..lowering.program import Call
from ..ops.linalg import cholesky, cofactor, det, det_sign, inv, logabsdet, solve, solve_triangular
from . import c_text
from .c_batches import Lines, batched, suffix
from .c_values import Context

if TYPE_CHECKING:
    from .c_library import Library

#: Rows of a matrix from which on LAPACK is faster.
LAPACK_FROM: Final = 48

Writer = Callable[["Library", Call, Context], Lines]


def _scratch(library: Library, call: Call, context: Context, sizes: list[int], pivots: int) -> list[str]:
    """Scratch for copies of matrices of so many elements, and for permutations."""
    a = call.node.args[0]
    kind = c_text.storage_type(a.dtype)
    parts = library.reserve(context, *[n * a.dtype.itemsize for n in sizes], *[8 * a.shape[-1]] * pivots)
    return [f"({kind if k < len(sizes) else 'int64_t'} *){part}" for k, part in enumerate(parts)]


def _has_lapack(library: Library, call: Call, context: Context, *routines: str) -> bool:
    """Whether to call these routines; if so, they are noted."""
    a = call.node.args[0]
    fits = a.shape[-1] >= LAPACK_FROM and a.dtype.name == "float64"
    if not fits or not all(library.blas(routine) for routine in routines):
        return False
    library.routines.update(routines)
    context.uses.add("in")
    return True


def _solve(library: Library, call: Call, context: Context) -> Lines:
    """Solutions, or inverses where there is no right-hand side."""
    context.uses.add("fail")
    n, m = call.node.shape[-2:]
    shape = f"{context.size(n)}, {context.size(m)}"
    inverts = call.node.op is inv
    core = [2, 2] if inverts else [2, 2, 2]
    if _has_lapack(library, call, context, "dgetrf", "dgetrs"):
        lu, columns, pivot = _scratch(library, call, context, [n * n, 0 if inverts else n * m], 1)
        columns = "NULL" if inverts else columns
        first = f"sg_lapack_solve(in[{library.table_position}], "
        last = f"{columns}, (sg_blasint *){pivot}, {shape});"
    else:
        lu, row = _scratch(library, call, context, [n * n], 1)
        first, last = f"sg_solve{suffix(call)}(", f"{row}, {shape});"

    def body(at: list[str]) -> Lines:
        return [f"sg_fail |= {first}{at[0]}, {'NULL' if inverts else at[1]}, {at[-1]}, {lu}, {last}"]

    return batched(call, context, core, body)


def _solve_triangular(library: Library, call: Call, context: Context) -> Lines:
    node = call.node
    n, m = node.shape[-2:]
    context.uses.add("fail")
    first, columns = f"sg_solve_triangular{suffix(call)}(", ""
    if _has_lapack(library, call, context, "dtrtrs"):
        first = f"sg_lapack_solve_triangular(in[{library.table_position}], "
        columns = f"{_scratch(library, call, context, [n * m], 0)[0]}, "
    shape = f"{context.size(n)}, {context.size(m)}"
    last = f"{columns}{shape}, {int(node.param('lower'))}, {int(node.param('trans'))});"
    return batched(
        call, context, [2, 2, 2], lambda at: [f"sg_fail |= {first}{at[0]}, {at[1]}, {at[2]}, {last}"]
    )


def _determinant(what: Op) -> Writer:
    def write(library: Library, call: Call, context: Context) -> Lines:
        n = call.node.args[0].shape[-1]
        lu, row = _scratch(library, call, context, [n * n], 1)
        first = f"sg_determinant{suffix(call)}("
        if _has_lapack(library, call, context, "dgetrf"):
            first, row = f"sg_lapack_determinant(in[{library.table_position}], ", f"(sg_blasint *){row}"

        def body(at: list[str]) -> Lines:
            target = at[1] if " + " not in at[1] else f"({at[1]})"
            called = f"{first}{at[0]}, {lu}, {row}, {context.size(n)}, {at[1]}, {int(what is logabsdet)})"
            if what is not det_sign:
                return [f"{called};"]
            # The value lands where the sign belongs and is overwritten; NaN has no sign and stays.
            return [f"{{ const int sign = {called}; if (*{target} == *{target}) *{target} = sign; }}"]

        return batched(call, context, [2, 0], body)

    return write


def _cholesky(library: Library, call: Call, context: Context) -> Lines:
    n = call.node.shape[-1]
    context.uses.add("fail")
    first = f"sg_cholesky{suffix(call)}("
    if _has_lapack(library, call, context, "dpotrf"):
        first = f"sg_lapack_cholesky(in[{library.table_position}], "
    return batched(call, context, [2, 2], lambda at: [f"sg_fail |= {first}{at[0]}, {at[1]}, {context.size(n)});"])


def _cofactor(library: Library, call: Call, context: Context) -> Lines:
    n = call.node.shape[-1]
    lu, adjugate, row, column = _scratch(library, call, context, [n * n, n * n], 2)
    f = suffix(call)
    return batched(
        call, context, [2, 2],
        lambda at: [f"sg_cofactor{f}({at[0]}, {at[1]}, {lu}, {adjugate}, {row}, {column}, {context.size(n)});"],
    )  # fmt: skip


WRITERS: Final[dict[Any, Writer]] = {
    solve: _solve,
    inv: _solve,
    solve_triangular: _solve_triangular,
    det: _determinant(det),
    logabsdet: _determinant(logabsdet),
    det_sign: _determinant(det_sign),
    cholesky: _cholesky,
    cofactor: _cofactor,
}
