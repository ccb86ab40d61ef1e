"""C source of a Program: translation units, and what the kernel has to be given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.graph import label
from ..lowering.program import Buffer, Program
from . import c_text
from .blas import blas_table
from .c_chunks import Chunks
from .c_helpers import helpers_for
from .c_library import Library, prelude
from .c_sizes import Sizes
from .render import render
from .toolchain import Objects, Tier
from .vector_math import vector_prototypes

#: Straight-line statements from which on compile time is all that matters.
HUGE = 20_000
#: Beside so many straight-line statements loops are not worth the time that vectorising takes.
MOSTLY_SCALAR = 5_000
#: Loops shorter than this do not ask for vector code.
WORTH_VECTORS = 16

_INCLUDES = ("math.h", "stdbool.h", "stddef.h", "stdint.h", "string.h")


@dataclass(frozen=True)
class CSource:
    """A kernel as C source.

    Attributes
    ----------
    units
        Translation units, to be compiled separately and linked.
    tier
        Which compiler flags suit it.
    symbol
        Name of the kernel ``int symbol(const void *const *in, void *const *out, void *workspace)``; beside it
        there is ``size_t symbol_workspace(const int64_t *sizes)``.
    captures
        Captured arrays that follow the explicit inputs in ``in``, in this order.
    constants
        Read-only arrays that follow them: constants too large for the source, sizes, and the table of BLAS
        routines.
    workspace_bytes
        What ``symbol_workspace`` returns.
    work
        Estimated operations of a run.
    sizes
        Of the constants, the one with the sizes; None where all are written into the source.
    libs
        Flags for linking.
    tiers
        Flags for each unit, if they differ.
    objects
        Where object code of units is kept, if others will share units with this.
    """

    units: list[str]
    tier: Tier
    symbol: str
    captures: list[np.ndarray[Any, Any]]
    constants: list[np.ndarray[Any, Any]]
    workspace_bytes: int
    work: float
    sizes: np.ndarray[Any, Any] | None = None
    libs: tuple[str, ...] = field(default=("-lm",))
    tiers: list[Tier] = field(default_factory=list)
    objects: Objects | None = None

    @property
    def hidden(self) -> list[np.ndarray[Any, Any]]:
        """What follows the explicit inputs in ``in``."""
        return [*self.captures, *self.constants]

    @property
    def text(self) -> str:
        """All units, for reading."""
        return "\n".join(self.units)


def generate(program: Program, symbol: str = "kernel", vector_math: bool = True) -> CSource:
    """Write a program as C.

    Parameters
    ----------
    program
        From `symgrad.lowering.lower`.
    symbol
        Name of the C function.
    vector_math
        Use the C library's vector functions where this machine has them: they are within 4 ulp, the others
        within 1, and several times faster in loops. They are not used where an element is computed twice and
        the copies might differ.

    Raises
    ------
    UnsupportedOperationError
        If an operation has no C form; the NumPy backend has to answer then.

    Examples
    --------
    >>> from symgrad.core.aval import Aval
    >>> from symgrad.core.expr import InternTable
    >>> from symgrad.core.graph import Graph
    >>> from symgrad.lowering import lower
    >>> x = InternTable().input(Aval((), "float64"), "x")
    >>> print(generate(lower(Graph([x], [x * x + 1.0])), "f").units[0])  # doctest: +ELLIPSIS
    /* f...
    int f(const void *const *in, void *const *out, void *workspace) {
    ...
    """
    kernel = write(program, symbol)
    chunks = kernel.chunks
    last = len(chunks.units) - 1
    workspace = kernel.sizes.stored(kernel.sizes.integer(chunks.workspace_bytes, "at", "workspace"))
    units = [
        unit_text(
            [kernel], functions, kernel.tier, program.name, _notes(kernel) if number == last else [],
            chunks.prototypes if last else [], chunks.kernel if number == last else "", symbol,
            workspace, vector_math,
        )
        for number, functions in enumerate(chunks.units)
    ]
    return CSource(
        units, kernel.tier, symbol, kernel.captures, kernel.constants, chunks.workspace_bytes, kernel.work,
        kernel.sizes.array if kernel.sizes.known else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Written:
    """A program written as C functions, which are not in translation units yet.

    Attributes
    ----------
    program
        What was written.
    chunks
        The functions.
    library
        The routines they call.
    sizes
        The sizes they are given.
    tier
        Which compiler flags suit them.
    captures, constants
        As of a `CSource`.
    """

    program: Program
    chunks: Chunks
    library: Library
    sizes: Sizes
    tier: Tier
    captures: list[np.ndarray[Any, Any]]
    constants: list[np.ndarray[Any, Any]]

    @property
    def work(self) -> float:
        """Estimated operations of a run."""
        return _operations(self.program)


def write(
    program: Program, symbol: str, names: c_text.Names | None = None, sizes: Sizes | None = None
) -> Written:
    """Write a program as C functions; ``names`` and ``sizes`` are shared by what becomes one kernel."""
    names = names or new_names()
    for own in (symbol, f"{symbol}_workspace"):
        names.fresh(own)
    for group in (program.inputs, program.captures, program.constants, program.tables, program.outputs,
                  program.workspace):  # fmt: skip
        for number, buffer in enumerate(group):
            if buffer.host is None:
                buffer.name = names.fresh(c_text.buffer_label(buffer, number))
    first_free = len(program.inputs) + len(program.captures) + len(program.constants)
    sizes = sizes if sizes is not None else Sizes(names)
    sizes.know(program)
    # A block of small arrays may use what another block of the same kernel has made a parameter.
    has_sizes = sizes.known
    library = Library(first_free, has_sizes, program.workspace_bytes)
    chunks = Chunks(program, symbol, names, library, sizes)
    constants = [_frozen(b.array) for b in program.constants]
    if has_sizes:
        constants.append(sizes.array)
    if library.routines:
        table = blas_table()
        assert table is not None
        constants.append(table.pointers)
    captures = [b.node.params[0][1].array for b in program.captures]
    return Written(program, chunks, library, sizes, _tier(program, chunks), captures, constants)


def new_names() -> c_text.Names:
    """Names for a translation unit, with those taken that statements use by themselves."""
    return c_text.Names(["lane", "lanes", "sg_fail", "sizes", "workspace"])


def unit_text(
    written: Sequence[Written], functions: Sequence[str], tier: Tier, title: str, notes: Sequence[str] = (),
    prototypes: Sequence[str] = (), kernel: str = "", symbol: str = "", workspace_bytes: str = "0",
    vector_math: bool = True,
) -> str:
    """A translation unit: functions, and all that they need around them."""
    texts = [*functions, kernel]
    helpers = helpers_for(texts)
    vectors = vector_math and tier == "vector" and not any(w.program.recomputes for w in written)
    fast = vector_prototypes([*texts, helpers]) if vectors else ""
    return render(
        "c_kernel.c.j2", title=c_text.comment_text(title), notes=notes, includes=_INCLUDES,
        helpers=fast + prelude([w.library for w in written]) + helpers,
        loops=any("SG_INDEPENDENT" in text or "SG_APART" in text for text in (*texts, helpers)),
        tables=[
            _table(b) for w in written for b in w.program.tables if any(b.name in text for text in texts)
        ],
        prototypes=prototypes, functions=functions, kernel=kernel, symbol=symbol,
        workspace_bytes=workspace_bytes,
    )  # fmt: skip


def _operations(program: Program) -> float:
    # A byte moved costs about half an operation.
    return max(float(program.work.flops), program.work.bytes / 2)


def _tier(program: Program, chunks: Chunks) -> Tier:
    long_loops = any(c.extent >= WORTH_VECTORS for c in chunks.loops) or bool(program.root.calls)
    if chunks.scalar_statements > HUGE:
        return "huge"
    return "vector" if long_loops and chunks.scalar_statements <= MOSTLY_SCALAR else "scalar"


def _frozen(array: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    assert array is not None
    return array


def _notes(written: Written) -> list[str]:
    """What the arguments are, for the head of the source."""
    program, sizes = written.program, written.sizes
    lines = []
    position = 0
    for role, buffers in (
        ("", program.inputs), (" (captured)", program.captures), (" (constant)", program.constants)
    ):
        for buffer in buffers:
            lines.append(f"in[{position}]: {_described(buffer, sizes)}{role}")
            position += 1
    lines += [f"out[{k}]: {_described(buffer, sizes)}" for k, buffer in enumerate(program.outputs)]
    return [c_text.comment_text(line) for line in lines] if len(lines) <= 64 else []


def _described(buffer: Buffer, sizes: Sizes) -> str:
    shape = f"[{', '.join(map(sizes.named, buffer.shape))}]" if buffer.shape else ""
    return f"{label(buffer.node) or buffer.name}: {c_text.storage_type(buffer.dtype)}{shape}"


def _table(buffer: Buffer) -> str:
    assert buffer.array is not None
    values = ", ".join(c_text.literal(v, buffer.dtype) for v in buffer.array.reshape(-1))
    return f"static const {c_text.storage_type(buffer.dtype)} {buffer.name}[{buffer.size}] = {{{values}}};"
