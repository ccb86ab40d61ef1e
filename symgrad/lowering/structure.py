"""What each node is for the purpose of making loops: its kind, the loops of its shape, and what it costs."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final, NamedTuple

from ..core.expr import CAPTURE, CONST, INPUT, Expr
from ..core.graph import Graph
from ..core.op import Op
from ..errors import UnsupportedOperationError
from ..ops.contraction import matmul
from ..ops.indexing import gather, scatter_add
from ..ops.shaping import broadcast_to, concatenate, put_slice, reshape, take_slice, transpose
from . import affine
from .kinds import (
    CALL,
    CONCAT,
    EMPTY,
    EW,
    EXPENSIVE,
    GATHER,
    LEAF,
    LITERAL,
    PUT,
    REDUCE,
    SCATTER,
    TABLE,
    VIEW,
)
from .storing import settle

_BY_OP: Final = {
    reshape: VIEW, transpose: VIEW, broadcast_to: VIEW, take_slice: VIEW, concatenate: CONCAT, gather: GATHER,
    scatter_add: SCATTER, put_slice: PUT, INPUT: LEAF, CAPTURE: LEAF,
}  # fmt: skip
_BY_LOWERING: Final = {"elementwise": EW, "reduce": REDUCE, "view": VIEW, "library": CALL}

#: Trailing axes up to this size, and up to this many elements together, are unrolled inside other loops.
UNROLL_AXIS: Final = 4
UNROLL_SIZE: Final = 9
#: There must be so many iterations of other loops.
UNROLL_INSIDE: Final = 16


class Domain(NamedTuple):
    """The loops of a shape.

    Attributes
    ----------
    path
        Sizes of the loops, from the outermost.
    axes
        For each axis its loop; -1 for an axis of size 1, -2 for an unrolled one.
    """

    path: tuple[int, ...]
    axes: tuple[int, ...]


SCALAR: Final = Domain((), ())


class Structure:
    """Facts on the nodes of a graph, in lists by their position in the order of the graph.

    Attributes
    ----------
    nodes, at
        The nodes in order, and the position of each by id.
    arrays
        Positions of all nodes but element-wise operations on scalars, which need no thought.
    args
        Positions of the operands.
    kind, domain, cost
        Of each node; ``cost`` is that of computing it from memory, as if nothing was shared.
    forced
        True where the value must be in memory.
    basis
        Elements of the largest array in memory that a node is computed from: a result that is much larger
        comes from broadcasting and is rather computed again than stored.
    flatable
        True where elements can be had by their position in C order.
    batch
        Which of several loops over the same range computes an element-wise node, where one would be too long;
        -1 for all else.
    pads
        Zero-padded operands that are read through the loops of a node: where these change between the operand
        and the zeros around it, the loops are divided.
    largest
        Elements of the largest array that the caller sees.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.at = {node.id: k for k, node in enumerate(self.nodes)}
        n = len(self.nodes)
        at = self.at
        self.args: list[tuple[int, ...]] = [tuple([at[a.id] for a in node.args]) for node in self.nodes]
        self.kind = [EW] * n
        self.domain: list[Domain] = [SCALAR] * n
        self.depth = [0] * n
        self.cost = [1] * n
        self.forced = [False] * n
        self.basis = [1] * n
        self.flatable = [True] * n
        self.largest = max(
            [1, *[x.aval.size for x in graph.inputs], *[x.aval.size for x in graph.outputs],
             *[x.aval.size for x in graph.captures]]
        )  # fmt: skip
        self.arrays = [
            k for k, node in enumerate(self.nodes) if node.aval.shape or node.op.lowering != "elementwise"
        ]
        self.unrolled_shapes = self._find_unrolled_shapes()
        self._classify()
        for out in graph.outputs:
            self.forced[self.written_for(at[out.id])] = True
        self.pads: list[tuple[int, ...]] = [()] * n
        self.batch: list[int] = [-1] * n
        settle(self)

    # -------------------------------------------------------------------------------- shapes

    def _find_unrolled_shapes(self) -> frozenset[tuple[int, ...]]:
        """Shapes with a short last axis along which something is broadcast or reduced.

        Where nothing is, the axes join into one long loop and unrolling would only hurt.
        """
        found = set()
        for k in self.arrays:
            node = self.nodes[k]
            shape = node.args[0].shape if node.op.lowering == "reduce" else node.shape
            if len(shape) < 2 or shape in found or not _has_short_tail(shape):
                continue
            if node.op.lowering == "reduce":
                if len(node.param("axis")) < len(shape):
                    found.add(shape)
            elif node.op.lowering == "elementwise" or node.op is broadcast_to:
                size = node.aval.size
                if any(a.aval.size not in (1, size) for a in node.args):
                    found.add(shape)
        return frozenset(found)

    def domain_of(self, shape: tuple[int, ...]) -> Domain:
        """The loops of a shape."""
        return _domain(shape, shape in self.unrolled_shapes)

    # -------------------------------------------------------------------------------- kinds

    def _classify(self) -> None:
        dtypes = {node.aval.dtype for node in self.nodes}
        if any(dtype.kind == "f" and dtype.itemsize == 2 for dtype in dtypes):
            raise UnsupportedOperationError("float16 is computed by the NumPy backend")
        for k in self.arrays:
            node = self.nodes[k]
            if node.op.lowering != "elementwise":
                self.kind[k] = _kind(node)
            if node.aval.size == 0:
                self.kind[k] = EMPTY
            elif node.aval.shape:
                self.domain[k] = self.domain_of(node.aval.shape)
                self.depth[k] = len(self.domain[k].path)
            self._weigh(k)

    def _weigh(self, k: int) -> None:
        """Cost, flatness, and which operands must be in memory."""
        node, kind = self.nodes[k], self.kind[k]
        below = max([self.basis[a] for a in self.args[k]], default=1)
        computed = kind in (EW, VIEW, GATHER, LITERAL) or (kind == REDUCE and below < node.aval.size)
        self.basis[k] = below if computed else node.aval.size
        if kind in (CALL, CONCAT, SCATTER, PUT):
            for a in self.args[k] if kind == CALL else ():
                self.forced[self.stored_operand(a, self.may_transpose(k))[0]] = True
            self.forced[k] = True
        elif kind == GATHER:
            self.forced[self.stored_operand(self.args[k][0], False)[0]] = True
            self.flatable[k] = False
            self.cost[k] = 4 + sum([self.cost[a] for a in self.args[k][1:]])
        elif kind == EW:
            self._weigh_elementwise(k)
        elif kind == VIEW:
            self._weigh_view(k, node)

    def _weigh_elementwise(self, k: int) -> None:
        node = self.nodes[k]
        size = node.aval.size
        cost = op_cost(node.op)
        flat = True
        for a in self.args[k]:
            cost += self.cost[a]
            other = self.nodes[a].aval.size
            if other != size:
                flat = flat and other == 1
                self._store_if_repeated(a, k)
            else:
                flat = flat and self.flatable[a]
        self.cost[k] = min(cost, 1 << 20)
        self.flatable[k] = flat

    def _weigh_view(self, k: int, node: Expr) -> None:
        (a,) = self.args[k]
        self.cost[k] = self.cost[a]
        if node.op is reshape:
            self.flatable[k] = self.flatable[a] or self.nodes[a].aval.size == 1
            if not self.flatable[a] and affine.reshape_plan(node.args[0].shape, node.shape) is None:
                self.forced[a] = True
        else:
            self.flatable[k] = node.aval.size == 1
            if node.op is broadcast_to:
                self._store_if_repeated(a, k)

    def _store_if_repeated(self, a: int, user: int) -> None:
        """An expensive value that a user would compute again in each iteration of an outer loop is stored."""
        if self.cost[a] >= EXPENSIVE and self.depth[a] and not self.aligned(a, user):
            self.forced[a] = True

    def may_store(self, k: int) -> bool:
        """Whether a node is no larger than what it is computed from, about."""
        return self.nodes[k].aval.size <= 2 * max(self.largest, self.basis[k])

    # -------------------------------------------------------------------------------- relations

    def written_for(self, k: int) -> int:
        """The node that is written into the memory of output ``k``: a reshape leaves the elements where they are."""
        stored = self.stored_operand(k, False)[0]
        return k if self.kind[stored] in (LEAF, TABLE, LITERAL) else stored

    def may_transpose(self, k: int) -> bool:
        """Whether the library routine of a node takes matrices that lie transposed in memory."""
        return self.nodes[k].op is matmul

    def stored_operand(self, a: int, may_transpose: bool) -> tuple[int, bool]:
        """Whose memory a library routine reads for operand ``a``; whether its last two axes are exchanged."""
        transposed = (
            may_transpose and self.nodes[a].op is transpose and _swaps_last(self.nodes[a].param("axes"))
        )
        if transposed:
            (a,) = self.args[a]
        while self.nodes[a].op is reshape:
            (a,) = self.args[a]
        return a, transposed

    def together(self, a: int, user: int) -> bool:
        """Whether ``a`` can be computed in the loops of ``user``: aligned, and in the same one of several."""
        apart = self.batch[a] >= 0 and self.batch[user] >= 0 and self.batch[a] != self.batch[user]
        return not apart and self.aligned(a, user)

    def aligned(self, a: int, user: int) -> bool:
        """Whether the loops of ``a`` are the outermost loops of ``user``, axis by axis."""
        node = self.nodes[user]
        if node.op is transpose and self.domain[a].path != self.domain[user].path:
            return False
        if node.op is put_slice:
            return False
        if node.op is transpose or node.op is take_slice:
            return _same_order(node)
        inner, outer = self.domain[a], self.domain[user]
        if inner.path != outer.path[: len(inner.path)]:
            return False
        if node.op is reshape:
            return (
                _loop_axes(inner) == _loop_axes(outer)
                and _significant(self.nodes[a].shape) == _significant(node.shape)
            )
        lead = len(outer.axes) - len(inner.axes)
        return all(axis == -1 or axis == outer.axes[k + lead] for k, axis in enumerate(inner.axes))


def _swaps_last(axes: tuple[int, ...]) -> bool:
    n = len(axes)
    return axes == (*range(n - 2), n - 1, n - 2)


def _loop_axes(domain: Domain) -> list[int]:
    return [axis for axis in domain.axes if axis != -1]


def _significant(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n != 1]


def _same_order(node: Expr) -> bool:
    """Whether a transpose or slice leaves every element that matters where it is."""
    if node.op is transpose:
        shape = node.args[0].shape
        order = [a for a in node.param("axes") if shape[a] != 1]
        return order == sorted(order)
    return node.shape == node.args[0].shape and all(
        step == 1 or n == 1 for step, n in zip(node.param("steps"), node.shape, strict=True)
    )


def _kind(node: Expr) -> int:
    if node.op is CONST:
        return LITERAL if is_uniform(node) else TABLE
    known = _BY_OP.get(node.op)
    return _BY_LOWERING[node.op.lowering] if known is None else known


def is_uniform(node: Expr) -> bool:
    """Whether all elements of a constant are the same, bit for bit."""
    array = node.value
    assert array is not None
    return array.size > 0 and array.tobytes() == array.ravel()[:1].tobytes() * array.size


def _has_short_tail(shape: tuple[int, ...]) -> bool:
    return 1 < shape[-1] <= UNROLL_AXIS and math.prod(shape[:-1]) >= UNROLL_INSIDE


@lru_cache(maxsize=4096)
def _domain(shape: tuple[int, ...], unroll: bool) -> Domain:
    axes = [0] * len(shape)
    first_unrolled = len(shape)
    if unroll:
        size = 1
        while first_unrolled > 1:
            n = shape[first_unrolled - 1]
            size *= n
            rest = math.prod(shape[: first_unrolled - 1])
            if n > UNROLL_AXIS or size > UNROLL_SIZE or rest < UNROLL_INSIDE:
                break
            first_unrolled -= 1
    path: list[int] = []
    for k, n in enumerate(shape):
        if n == 1:
            axes[k] = -1
        elif k >= first_unrolled:
            axes[k] = -2
        else:
            axes[k] = len(path)
            path.append(n)
    return Domain(tuple(path), tuple(axes))


_CALLS = re.compile(r"[a-z_0-9]+(?=\{f\}\()")
_CHEAP_CALLS = {"fabs", "floor", "ceil", "trunc", "rint", "copysign", "sg_clip"}


@lru_cache(maxsize=1024)
def op_cost(op: Op) -> int:
    """Operations an element takes, judged by its C source: 20 for a transcendental function."""
    text = op.c if isinstance(op.c, str) else getattr(op.c, "sketch", "unknown{f}(")
    called = _CALLS.findall(text)
    if not called:
        return 6 if "/" in text else 1
    if called[0] in _CHEAP_CALLS:
        return 1
    return 6 if called[0] == "sqrt" else 20
