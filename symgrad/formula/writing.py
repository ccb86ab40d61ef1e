"""What each operation is written as; whatever is not listed here is written as its record says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import broadcast_shapes
from ..core.expr import Expr
from ..core.op import Op
from ..ops.arithmetic import add, divide, multiply, negative, power, reciprocal, sqrt, square, subtract
from ..ops.casting import astype
from ..ops.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from ..ops.contraction import matmul
from ..ops.indexing import gather, scatter_add
from ..ops.masking import keep
from ..ops.reduction import all_, any_, max_, min_, prod, sum_
from ..ops.selection import trunc, where
from ..ops.shaping import broadcast_to, concatenate, put_slice, reshape, take_slice, transpose
from ..ops.transcendental import exp, log
from . import terms as t
from .shapes import (
    SMALL,
    index,
    joined,
    placed,
    reduced,
    reshaped,
    scattered,
    strict,
    taken,
    transposed,
    whole,
)
from .terms import (
    ONE,
    ZERO,
    Apply,
    Call,
    Index,
    KnownConstants,
    Number,
    Shape,
    Term,
    is_zero,
    product,
    split,
    total,
)

KNOWN = KnownConstants(sqrt, log, exp)


SILENT = "{0}"
"""The text of operations that only change how a value is held: they are not written."""


class Context:
    """The terms of the nodes written so far."""

    def __init__(self, terms: dict[int, Term]) -> None:
        self.terms = terms

    def loose(self, node: Expr) -> Term:
        """The term of a node, whose shape may be smaller by broadcasting."""
        return self.terms[node.id]

    def exact(self, node: Expr) -> Term:
        """The term of a node in its full shape."""
        return strict(self.terms[node.id], node.shape, node.aval.is_float)

    def each(self, node: Expr) -> list[Term]:
        """The terms of the operands."""
        return [self.terms[a.id] for a in node.args]


Writer = Callable[[Context, Expr], Term]
WRITERS: dict[Op, Writer] = {}


def writes(*ops: Op) -> Callable[[Writer], Writer]:
    """Say that a function writes these operations."""

    def enter(function: Writer) -> Writer:
        for op in ops:
            WRITERS[op] = function
        return function

    return enter


def write(context: Context, node: Expr) -> Term:
    """The term of a node."""
    writer = WRITERS.get(node.op)
    if writer is not None:
        return writer(context, node)
    if node.op.text == SILENT:
        return context.loose(node.args[0])
    if node.op.lowering == "elementwise":
        return _elementwise(node.op, context.each(node), dict(node.params))
    return Apply(node.op, [context.exact(a) for a in node.args], node.shape, dict(node.params))


def _elementwise(op: Op, args: list[Term], params: dict[str, Any] | None = None) -> Term:
    return Apply(op, args, broadcast_shapes((), *[a.shape for a in args]), params)


# ---------------------------------------------------------------------- arithmetic


@writes(add, subtract, negative, multiply)
def _ring(context: Context, node: Expr) -> Term:
    args = context.each(node)
    if node.dtype.kind == "b":
        return _elementwise(node.op, args)
    if node.op is add:
        return total([(False, a) for a in args])
    if node.op is subtract:
        return total([(False, args[0]), (True, args[1])])
    if node.op is negative:
        return product(True, args, [])
    return _outer(*args) or product(False, args, [])


def _outer(x: Term, y: Term) -> Term | None:
    """A column times a row, which is an outer product."""
    (first, x), (second, y) = split(x, True), split(y, True)
    for left, right in ((x, y), (y, x)):
        column = isinstance(left, Index) and left.entries[-1] is None and len(left.shape) == 2
        if not isinstance(left, Index) or not column or len(right.shape) != 1:
            continue
        outside, a = split(index(left.args[0], left.entries[:-1]), True)
        if len(a.shape) == 1:
            made = Call("outer", [a, right], (left.shape[0], right.shape[0]))
            return product(False, [*[o for o in (first, second, outside) if o is not None], made], [])
    return None


@writes(matmul)
def _matmul(context: Context, node: Expr) -> Term:
    """A matrix product, with what only scales it in front."""
    outside, factors = zip(*[split(context.exact(a), True) for a in node.args], strict=True)
    a, b = factors
    core: Term = Apply(matmul, factors, node.shape)
    if len(node.shape) == 2 and a.shape[-1] == 1:
        column, row = index(a, [*whole(a.shape[:1]), 0]), index(b, [0, *whole(b.shape[1:])])
        core = Call("outer", [column, row], node.shape)
    elif len(node.shape) <= 2 and any(_is_identity(f) for f in factors):
        core = b if _is_identity(a) else a
    return product(False, [*[o for o in outside if o is not None], core], [])


def _is_identity(term: Term) -> bool:
    return isinstance(term, Call) and term.function == "eye"


@writes(divide)
def _divide(context: Context, node: Expr) -> Term:
    x, y = context.each(node)
    return product(False, [x], [y])


@writes(reciprocal)
def _reciprocal(context: Context, node: Expr) -> Term:
    (x,) = context.each(node)
    return product(False, [], [x]) if node.aval.is_float else _elementwise(node.op, [x])


@writes(square)
def _square(context: Context, node: Expr) -> Term:
    return t.power(context.each(node)[0], Number(2))


@writes(power)
def _power(context: Context, node: Expr) -> Term:
    base, exponent = context.each(node)
    if not node.aval.is_float:
        return t.Power(base, exponent)
    if all(a.op is astype and a.args[0].dtype.kind in "iu" for a in node.args):
        # NumPy refuses a negative power of an integer array.
        base = Call(f"np.{node.dtype.name}", [base], base.shape)
    return t.power(base, exponent)


@writes(astype)
def _astype(context: Context, node: Expr) -> Term:
    """Conversions that keep the number are not written; the others are what they do to it."""
    x = context.each(node)[0]
    source, target = node.args[0].dtype, node.dtype
    if target.kind == "b":
        return _elementwise(not_equal, [x, ZERO]) if source.kind != "b" else x
    if source.kind == "b":
        return _elementwise(where, [x, ONE, ZERO])
    if source.kind == "f" and target.kind in "iu":
        return _elementwise(trunc, [x])
    if target.kind in "iu" and not np.can_cast(source, target):
        return Call(f"np.{target.name}", [x], x.shape)
    return x


# ---------------------------------------------------------------------- conditions


@writes(logical_and, logical_or, logical_xor, logical_not)
def _logic(context: Context, node: Expr) -> Term:
    args = [
        x if a.dtype.kind == "b" else _elementwise(not_equal, [x, ZERO])
        for x, a in zip(context.each(node), node.args, strict=True)
    ]
    return _or_equal(node.op, args) or _elementwise(node.op, args)


_WITH_EQUALITY = {greater: greater_equal, less: less_equal}


def _or_equal(op: Op, args: list[Term]) -> Term | None:
    """``x > y or x == y`` is ``x >= y``."""
    if op is not logical_or:
        return None
    for first, second in (args, args[::-1]):
        if not (isinstance(first, Apply) and isinstance(second, Apply) and second.op is equal):
            continue
        wider = _WITH_EQUALITY.get(first.op)
        if wider is not None and {id(a) for a in first.args} == {id(a) for a in second.args}:
            return _elementwise(wider, list(first.args))
    return None


@writes(keep)
def _keep(context: Context, node: Expr) -> Term:
    triangle = _triangular(context, node)
    if triangle is not None:
        return triangle
    condition, value = context.each(node)
    outside, core = split(value, False)
    tested = condition.args if isinstance(condition, Apply) and condition.op is not_equal else ()
    if tested and tested[0] is core and is_zero(tested[1]):
        return value  # where it is 0 it is 0 anyway
    kept = _elementwise(keep, [condition, core])
    return kept if outside is None else product(False, [outside, kept], [])


@writes(where)
def _where(context: Context, node: Expr) -> Term:
    args = context.each(node)
    triangle = _triangular(context, node) if is_zero(args[2]) else None
    return triangle or _elementwise(where, args)


def _triangular(context: Context, node: Expr) -> Term | None:
    """A matrix kept below or above a diagonal."""
    mask = node.args[0].value
    triangle = _triangle(mask) if mask is not None and mask.ndim == 2 and mask.shape == node.shape else None
    if triangle is None:
        return None
    name, k = triangle
    return Call(name, [context.exact(node.args[1])], node.shape, [f"k={k}"] if k else [])


@writes(equal, not_equal)
def _equality(context: Context, node: Expr) -> Term:
    """Signs and numbers do not matter when a product is compared with 0."""
    x, y = context.each(node)
    if is_zero(x):
        x, y = y, x
    if is_zero(y):
        x = split(x, False)[1]
    return _elementwise(node.op, [x, y])


def _triangle(mask: np.ndarray[Any, Any]) -> tuple[str, int] | None:
    n, m = mask.shape
    for k in (0, -1, 1):
        lower = np.tri(n, m, k, dtype=bool)
        if (mask == lower).all():
            return "tril", k
        if (mask != lower).all():
            return "triu", k + 1
    return None


# ---------------------------------------------------------------------- moving elements


@writes(broadcast_to)
def _broadcast(context: Context, node: Expr) -> Term:
    return context.loose(node.args[0])


@writes(reshape)
def _reshape(context: Context, node: Expr) -> Term:
    (x,) = node.args
    return reshaped(context.loose(x), x.shape, node.shape)


@writes(transpose)
def _transpose(context: Context, node: Expr) -> Term:
    return transposed(context.loose(node.args[0]), node.param("axes"))


@writes(take_slice)
def _slice(context: Context, node: Expr) -> Term:
    (x,) = node.args
    return taken(context.loose(x), x.shape, node.param("starts"), node.param("sizes"), node.param("steps"))


@writes(put_slice)
def _put(context: Context, node: Expr) -> Term:
    (x,) = node.args
    return placed(context.loose(x), x.shape, node.shape, node.param("starts"), node.param("steps"), put_slice)


@writes(concatenate)
def _concatenate(context: Context, node: Expr) -> Term:
    return joined(context.each(node), [a.shape for a in node.args], node.param("axis"))


@writes(gather)
def _gather(context: Context, node: Expr) -> Term:
    x, *where_ = node.args
    if _is_diagonal(x.shape, where_):
        return Call("diag", [context.exact(x)], node.shape)
    return Apply(gather, [context.exact(a) for a in node.args], node.shape, dict(node.params))


@writes(scatter_add)
def _scatter(context: Context, node: Expr) -> Term:
    x, *where_ = node.args
    positions = where_[0].value if len(where_) == 1 else None
    term = context.loose(x)
    short = node.ndim == 1 and node.shape[0] <= SMALL and isinstance(term, t.Vector)
    if short and positions is not None and len(set(positions.tolist())) == len(positions) == len(term.args):
        return scattered(term.args, positions.tolist(), node.shape[0])
    if x.ndim == 1 and _is_diagonal(node.shape, where_):
        if not term.shape and node.shape[0] == node.shape[1]:
            return product(False, [term, Call("eye", [], node.shape, [str(node.shape[0])])], [])
        return Call("diag", [context.exact(x)], node.shape)
    return Apply(scatter_add, [context.exact(a) for a in node.args], node.shape, dict(node.params))


def _is_diagonal(shape: Shape, where_: list[Expr]) -> bool:
    if len(shape) != 2 or len(where_) != 2:
        return False
    values = [a.value for a in where_]
    return all(v is not None and v.ndim == 1 and v.tolist() == list(range(min(shape))) for v in values)


# ---------------------------------------------------------------------- reductions


@writes(sum_, prod, max_, min_, any_, all_)
def _reduction(context: Context, node: Expr) -> Term:
    (x,) = node.args
    term = context.loose(x)
    diagonal = isinstance(term, Call) and term.function == "diag" and len(term.args[0].shape) == 2
    if node.op is sum_ and diagonal:
        return Call("trace", term.args, ())
    return reduced(node.op, term, x.shape, node.param("axis"))
