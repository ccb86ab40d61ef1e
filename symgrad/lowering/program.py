"""The Program: a tree of loops over scalar expressions, calls of library routines, and planned memory.

Everything is a `Scope`: the program itself is the one outside all loops. A scope holds values (scalar
expressions), effects (stores) and loops, each with a label. Labels are the order: whatever has a smaller
label runs first, values and effects have even labels, loops and calls odd ones, and what shares an odd label
is independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..core.expr import Expr
from ..core.op import Op

#: Offset and (loop depth, coefficient) pairs: the position ``offset + sum(coefficient * loop variable)``.
Index = tuple[int, tuple[tuple[int, int], ...]]

BufferKind = Literal["input", "capture", "constant", "output", "workspace"]
ALIGNMENT = 64


class Buffer:
    """Memory that holds one array in C order.

    Attributes
    ----------
    kind
        Who owns it. Arrays of kind ``"constant"`` that are small are written into the source.
    position
        Number among the kernel's inputs or outputs; -1 in the workspace and for constants in the source.
    array
        The value of a constant.
    offset
        Bytes from the start of the workspace.
    host
        The buffer whose memory this one takes over; both are the same memory then.
    """

    __slots__ = (
        "array", "born", "dies", "dtype", "host", "kind", "name", "nbytes", "node", "offset", "position",
        "shape",
        "size",
    )  # fmt: skip

    def __init__(self, kind: BufferKind, node: Expr, position: int = -1) -> None:
        self.kind: BufferKind = kind
        self.node = node
        self.shape = node.shape
        self.dtype: np.dtype[Any] = node.dtype
        self.size = node.aval.size
        self.nbytes = self.size * self.dtype.itemsize
        self.position = position
        self.array: np.ndarray[Any, Any] | None = None
        self.offset = -1
        self.born = 0
        self.dies = 0
        self.host: Buffer | None = None
        self.name = ""

    @property
    def storage(self) -> Buffer:
        """The buffer that owns the memory."""
        buffer = self
        while buffer.host is not None:
            buffer = buffer.host
        return buffer

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name or self.node!r}>"


class Value:
    """One scalar expression at one place of the loop tree.

    Attributes
    ----------
    kind
        ``"apply"`` (an element-wise op on ``args``), ``"load"`` (an element of ``buffer``), ``"gather"`` (a
        load at a position computed from ``args``), ``"fold"`` (``args`` combined by a reduction),
        ``"reduced"`` (what a loop of the same scope accumulates) or ``"literal"``.
    index
        Position of the element: in the buffer of a load, otherwise in the array that the node stands for.
    chain
        The loops around it.
    label
        When it runs within its scope.
    seq
        Position of its node in the graph: the order among equal labels.
    picks
        Of a gather: for each of ``args`` the stride and the number of valid positions.
    """

    __slots__ = (
        "args", "buffer", "chain", "index", "kind", "label", "name", "node", "picks", "reduction", "seq",
    )  # fmt: skip

    def __init__(self, node: Expr, chain: Chain, seq: int) -> None:
        self.node = node
        self.chain = chain
        self.seq = seq
        self.kind = ""
        self.args: list[Value] = []
        self.buffer: Buffer | None = None
        self.index: Index = (0, ())
        self.picks: tuple[tuple[int, int], ...] = ()
        self.reduction: Reduction | None = None
        self.label = 0
        self.name = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the value."""
        return self.node.dtype

    def __repr__(self) -> str:
        return f"<{self.kind} {self.node!r} in {self.chain}>"


#: A loop of a chain: its label and the half-open range it runs over.
Link = tuple[int, tuple[int, int]]
Chain = tuple[Link, ...]


class Effect:
    """Something written to memory.

    Attributes
    ----------
    kind
        ``"store"``, ``"accumulate"`` (combine with what is there by ``op``), ``"scatter"`` (add at a position
        computed from ``args``), ``"fill"`` (set the whole buffer to ``fill``), ``"pack"`` (copy ``source``,
        the elements of rows of length ``row`` becoming columns) or ``"unpack"`` (the reverse).
    """

    __slots__ = (
        "args", "buffer", "chain", "fill", "index", "kind", "label", "node", "op", "picks", "row", "seq",
        "source",
        "value",
    )  # fmt: skip

    def __init__(self, kind: str, node: Expr, chain: Chain, seq: int, buffer: Buffer) -> None:
        self.kind = kind
        self.node = node
        self.chain = chain
        self.seq = seq
        self.buffer = buffer
        self.value: Value | None = None
        self.index: Index = (0, ())
        self.op: Op | None = None
        self.args: list[Value] = []
        self.picks: tuple[tuple[int, int], ...] = ()
        self.fill: Any = 0
        self.label = 0
        self.source: Buffer | None = None
        self.row = 0


class Reduction:
    """An accumulation over the loops of depths ``first`` to ``last``.

    Attributes
    ----------
    op
        The reducing operation.
    operand
        What is accumulated, in the innermost loop.
    target
        The value that the scope around the loops sees.
    """

    __slots__ = ("chain", "first", "last", "name", "op", "operand", "target")

    def __init__(self, op: Op, operand: Value, target: Value, chain: Chain) -> None:
        self.op = op
        self.operand = operand
        self.target = target
        self.chain = chain
        self.first = len(target.chain)
        self.last = len(chain) - 1
        self.name = ""


class Call:
    """A library routine on whole arrays.

    Attributes
    ----------
    node
        The operation.
    operands
        Buffers it reads.
    transposed
        For each operand whether the last two axes are exchanged in memory.
    """

    __slots__ = ("label", "node", "operands", "out", "seq", "transposed")

    def __init__(self, node: Expr, label: int, seq: int, out: Buffer) -> None:
        self.node = node
        self.label = label
        self.seq = seq
        self.out = out
        self.operands: list[Buffer] = []
        self.transposed: list[bool] = []


class Loop:
    """A loop over a range; its variable is named by its depth."""

    __slots__ = ("label", "range", "reductions", "scope")

    def __init__(self, label: int, bounds: tuple[int, int], scope: Scope) -> None:
        self.label = label
        self.range = bounds
        self.scope = scope
        self.reductions: list[Reduction] = []

    @property
    def extent(self) -> int:
        """How often it runs."""
        return self.range[1] - self.range[0]


class Scope:
    """What runs inside the same loops."""

    __slots__ = ("calls", "depth", "effects", "loops", "values")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.values: list[Value] = []
        self.effects: list[Effect] = []
        self.loops: list[Loop] = []
        self.calls: list[Call] = []

    def in_order(self) -> Iterator[list[Value | Effect | Loop | Call]]:
        """Everything by label, and by position in the graph where the label is the same."""
        buckets: dict[int, list[Value | Effect | Loop | Call]] = {}
        for group in (self.values, self.effects, self.loops, self.calls):
            for item in group:
                buckets.setdefault(item.label, []).append(item)
        for label in sorted(buckets):
            items = buckets[label]
            if label % 2 == 0 and self.effects:
                items.sort(key=_seq)
            yield items


def _seq(item: Any) -> tuple[int, int]:
    """The order among what has one label; on behalf of one node memory is added to, read, then copied."""
    if isinstance(item, Effect):
        return item.seq, 3 if item.kind == "store" else 1
    return item.seq, 2 if item.kind == "load" else 0


@dataclass
class Work:
    """How much a run costs, roughly.

    Attributes
    ----------
    flops
        Operations, with a transcendental function counted as 20.
    bytes
        Memory moved.
    """

    flops: int = 0
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """A guess at the time on one core: 4 operations or 8 bytes a nanosecond."""
        return max(self.flops / 4e9, self.bytes / 8e9)


@dataclass
class Program:
    """A function as loops, calls and memory.

    Attributes
    ----------
    name
        Name of the traced function.
    inputs, captures, constants, outputs
        Buffers of the caller: in this order they are the kernel's arguments. Constants written into the
        source are in ``tables``.
    root
        The scope outside all loops.
    workspace
        Buffers in the workspace.
    workspace_bytes
        How much workspace they need together.
    work
        Estimated cost.
    recomputes
        Whether the same element of an expensive operation is computed in more than one loop. Comparisons then
        rely on its coming out the same, so it must not depend on where in a vector the element stands.
    """

    name: str
    inputs: list[Buffer]
    captures: list[Buffer]
    constants: list[Buffer]
    tables: list[Buffer]
    outputs: list[Buffer]
    root: Scope
    workspace: list[Buffer]
    workspace_bytes: int = 0
    work: Work = field(default_factory=Work)
    recomputes: bool = False

    @property
    def nests(self) -> list[Loop]:
        """The outermost loops."""
        return self.root.loops

    @property
    def materialised(self) -> list[Buffer]:
        """Buffers in the workspace that have memory of their own."""
        return [b for b in self.workspace if b.host is None]
