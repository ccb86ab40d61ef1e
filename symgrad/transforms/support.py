"""Where a cotangent or tangent can differ from zero, and scaling that never turns an exact zero into NaN.

A value that does not reach the output contributes an exact zero, whatever slopes it meets on the way. The
derivative rules mark such zeros with ``keep``; this module carries the mark through everything linear and
puts it back outside each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import broadcast_shapes
from ..core.expr import CONST, Expr
from ..ops.arithmetic import add, divide, multiply, negative, reciprocal
from ..ops.casting import astype
from ..ops.comparison import logical_and, logical_or, not_equal
from ..ops.indexing import gather, scatter_add
from ..ops.masking import keep
from ..ops.reduction import any_, sum_
from ..ops.shaping import broadcast_to, concatenate, put_slice, reshape, take_slice, transpose

_SAME_SHAPE = {negative, astype}
_MOVES = {reshape, transpose, take_slice, broadcast_to, put_slice}
_FOLLOWED = {*_SAME_SHAPE, *_MOVES, sum_, divide, gather, scatter_add}
_FOLLOWED_ON_ALL = {multiply, add, concatenate}
_MAKERS = {keep, put_slice, scatter_add}
"""Where exact zeros come from: without these operations there are none."""


class Supports:
    """Supports of the tangents and cotangents that one differentiation creates.

    What carries a derivative is told to :meth:`carry`; primal values are never looked into, their zeros are
    the user's own. Creation order could not tell the two apart: a node may exist already, from another
    derivative.
    """

    def __init__(self) -> None:
        self._known: dict[int, Expr | None] = {}
        self._linear: dict[int, bool] = {}
        self._seeds: set[int] = set()

    def seed(self, x: Expr) -> None:
        """Take note of a tangent or cotangent that comes from outside: zeros in it are the user's own."""
        self.carry(x)
        self._seeds.add(x.id)
        if x.op is not keep:
            self._known[x.id] = None

    def carry(self, x: Expr) -> None:
        """Take note of a tangent or cotangent."""
        self._linear[x.id] = True

    def of(self, x: Expr) -> Expr | None:
        """A bool expression that holds wherever ``x`` may differ from zero; None if it may everywhere."""
        known = self._known
        if x.id in known:
            return known[x.id]
        if _MAKERS.isdisjoint(x.table.ops):
            return None
        stack = [x]
        while stack:
            node = stack[-1]
            if node.id in known:
                stack.pop()
                continue
            sources = self._sources(node)
            waiting = [a for a in sources if a.id not in known]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            known[node.id] = self._find(node, [known[a.id] for a in sources])
        return known[x.id]

    def _is_linear(self, x: Expr) -> bool:
        """Whether ``x`` is a tangent or cotangent, or follows from one by moving and scaling."""
        linear = self._linear
        found = linear.get(x.id)
        if found is not None:
            return found
        stack = [x]
        while stack:
            node = stack[-1]
            followed = _followed(node) if node.id not in linear else ()
            waiting = [a for a in followed if a.id not in linear]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if node.id not in linear:
                linear[node.id] = any([linear[a.id] for a in followed])
        return linear[x.id]

    def _sources(self, x: Expr) -> Sequence[Expr]:
        """The operands whose supports decide that of ``x``."""
        if x.op is keep:
            return x.args[1:]
        return [a for a in _followed(x) if self._is_linear(a)] if self._is_linear(x) else ()

    def _find(self, x: Expr, sources: Sequence[Expr | None]) -> Expr | None:
        """The support of ``x``, given those of its sources."""
        op, args = x.op, x.args
        if op is keep:
            return both(args[0], sources[0])
        if not sources:
            return None
        if op in _SAME_SHAPE or op is divide:
            return sources[0]
        if op in _MOVES:
            return self._moved(x)
        if op is multiply:
            return both(sources[0], sources[-1])
        if op is sum_:
            return _any_over(sources[0], args[0].shape, x.param("axis"))
        if op is add:
            return either(sources[0], sources[1]) if len(sources) == 2 else None
        if op is gather:
            if sources[0] is None or not sources[0].ndim:
                return sources[0]
            return gather(_spread(sources[0], args[0].shape), *args[1:], axes=x.param("axes"))
        if op is scatter_add:
            return self._scattered(x)
        return self._joined(x)

    def _moved(self, x: Expr) -> Expr | None:
        inner = self._known[x.args[0].id]
        if inner is None:
            if x.op is not put_slice:
                return None
            inner = x.table.constant(np.ones(x.args[0].shape, bool))
        if not inner.ndim and x.op is not put_slice:
            return inner
        inner = _spread(inner, x.args[0].shape)
        moved = x.op(inner, **dict(x.params))
        return _folded(moved)

    def _scattered(self, x: Expr) -> Expr | None:
        inner = self._known[x.args[0].id]
        if inner is None:
            inner = x.table.constant(np.ones(x.args[0].shape, bool))
        counts = scatter_add(
            astype(_spread(inner, x.args[0].shape), dtype="int64"), *x.args[1:], **dict(x.params)
        )
        return not_equal(counts, 0)

    def _joined(self, x: Expr) -> Expr | None:
        inner = [self._known.get(a.id) for a in x.args]
        if all(s is None for s in inner):
            return None
        table = x.table
        parts = [
            table.constant(np.ones(a.shape, bool)) if s is None else _spread(s, a.shape)
            for s, a in zip(inner, x.args, strict=True)
        ]
        return concatenate(*parts, axis=x.param("axis"))

    def scale(self, x: Expr, factor: Any) -> Expr:
        """``x * factor`` for a tangent or cotangent ``x``: exact zeros of ``x`` stay exact zeros.

        ``factor`` is a number or an expression; where it is a ``keep`` it brings zeros of its own.
        """
        if not isinstance(factor, Expr):
            return _by_number(x, factor)
        condition: Expr | None = None
        if factor.op is keep:
            condition, factor = factor.args
        if _is_one(factor) and x.shape == _joint(x, factor):
            product, own = x, self.of(x)
            if condition is None:
                return x
            product = x.args[1] if x.op is keep and x.args[1].shape == x.shape else x
            return keep(both(condition, own), product)
        if (
            x.op in (put_slice, scatter_add)
            and x.id not in self._seeds
            and condition is None
            and x.shape == _joint(x, factor)
        ):
            return self._inside(x, factor)
        own = self.of(x)
        inner = x.args[1] if x.op is keep and x.args[1].shape == x.shape else x
        product = _product(inner, factor)
        condition = both(condition, own)
        return product if condition is None else keep(condition, product)

    def _inside(self, x: Expr, factor: Expr) -> Expr:
        """Scale the elements before they are spread among zeros: cheaper, and the zeros stay exact."""
        spread = _spread(factor, x.shape)
        params = dict(x.params)
        values = x.args[0]
        if x.op is put_slice:
            picked = take_slice(spread, starts=params["starts"], sizes=values.shape, steps=params["steps"])
        else:
            picked = gather(spread, *x.args[1:], axes=params["axes"])
        return x.op(self.scale(values, picked), *x.args[1:], **params)


def _any_over(support: Expr | None, shape: tuple[int, ...], axis: tuple[int, ...]) -> Expr | None:
    """Where a sum may differ from zero; a support may be smaller than what it broadcasts to."""
    if support is None or not support.ndim:
        return support
    return any_(_spread(support, shape), axis=axis)


def _followed(x: Expr) -> Sequence[Expr]:
    """The operands in which an op is linear, for the ops that supports are carried through."""
    if x.op in _FOLLOWED:
        return x.args[:1]
    if x.op is keep:
        return x.args[1:]
    return x.args if x.op in _FOLLOWED_ON_ALL else ()


def _is_one(x: Expr) -> bool:
    return x.op is CONST and not x.aval.shape and x.params[0][1].number == 1


def _joint(x: Expr, y: Expr) -> tuple[int, ...]:
    return broadcast_shapes(x.aval.shape, y.aval.shape)


def _by_number(x: Expr, factor: float) -> Expr:
    if factor == 1:
        return x
    condition, inner = (x.args[0], x.args[1]) if x.op is keep and x.args[1].shape == x.shape else (None, x)
    product = negative(inner) if factor == -1 else inner * float(factor)
    return product if condition is None else keep(condition, product)


def _product(x: Expr, factor: Expr) -> Expr:
    # A quotient is rounded once where the product with a reciprocal is rounded twice.
    if factor.op is reciprocal:
        return divide(x, factor.args[0])
    if factor.op is negative and factor.args[0].op is reciprocal:
        return negative(divide(x, factor.args[0].args[0]))
    if factor.op is negative:
        return (
            negative(_product(x, factor.args[0]))
            if factor.args[0].op is not negative
            else _product(x, factor.args[0].args[0])
        )
    if (
        _is_one(x)
        and factor.shape == _joint(x, factor)
        and factor.dtype == x.dtype
        and factor.aval.weak == x.aval.weak
    ):
        return factor
    return multiply(x, factor)


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """Conjunction of two supports."""
    if a is None or a is b:
        return b
    if b is None:
        return a
    if a.value is not None and b.value is not None:
        return _all_or(a.table.constant(np.logical_and(a.value, b.value)))
    return logical_and(a, b)


def either(a: Expr | None, b: Expr | None) -> Expr | None:
    """Disjunction of two supports."""
    if a is None or b is None:
        return None
    if a is b:
        return a
    if a.value is not None and b.value is not None:
        return _all_or(a.table.constant(np.logical_or(a.value, b.value)))
    return logical_or(a, b)


def _all_or(x: Expr) -> Expr | None:
    return None if x.value is not None and bool(x.value.all()) else x


def _spread(x: Expr, shape: tuple[int, ...]) -> Expr:
    if x.shape == shape:
        return x
    if x.value is not None and x.value.size > 1:
        return x.table.constant(np.broadcast_to(x.value, shape))
    return broadcast_to(x, shape=shape)


def _folded(x: Expr) -> Expr | None:
    """Evaluate the movement of a constant mask at once."""
    value = x.args[0].value
    if value is None:
        return x
    params = dict(x.params)
    if x.op is put_slice:
        moved = np.zeros(params["shape"], bool)
        index = tuple(
            slice(s, None if s + n * d < 0 else s + n * d, d)
            for s, n, d in zip(params["starts"], value.shape, params["steps"], strict=True)
        )
        moved[index] = value
        return _all_or(x.table.constant(moved))
    return x
