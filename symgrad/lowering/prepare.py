"""Rewriting products of vectors, and small ones of matrices, as sums that fuse with what is around."""

from __future__ import annotations

import math
from typing import Final

from ..core.expr import Expr
from ..core.graph import Graph, rebuild
from ..ops.arithmetic import multiply
from ..ops.contraction import matmul
from ..ops.reduction import sum_
from ..ops.shaping import reshape, transpose

#: A matrix with fewer elements is multiplied with a vector in the loops of its users.
SMALL_MATRIX: Final = 1024


def prepared(graph: Graph) -> Graph:
    """The same graph with products rewritten where a loop of the program serves better than a library."""
    if any([_becomes_sum(node) for node in graph.nodes]):
        return rebuild(graph, make=_make)
    return graph


def _becomes_sum(node: Expr) -> bool:
    if node.op is not matmul:
        return False
    a, b = node.args
    if a.ndim == 1 and b.ndim == 1:
        return a.shape[0] > 0
    return 1 in (a.ndim, b.ndim) and 0 < max(a.aval.size, b.aval.size) <= SMALL_MATRIX


def _make(node: Expr, args: tuple[Expr, ...]) -> Expr:
    if not _becomes_sum(node):
        return node.table.make(node.op, args, dict(node.params))
    a, b = args
    if a.ndim == 1 and b.ndim == 1:
        return sum_(multiply(a, b), axis=(0,))
    matrix, vector = (a, b) if b.ndim == 1 else (b, a)
    summed = 1 if b.ndim == 1 else 0
    if matrix.op is transpose:
        # The loops follow the memory, so the transposed matrix is read as it lies.
        matrix, summed = matrix.args[0], 1 - summed
    line = tuple(n if k == summed else 1 for k, n in enumerate(matrix.shape))
    assert math.prod(line) == vector.shape[0]
    return sum_(multiply(matrix, reshape(vector, shape=line)), axis=(summed,))
