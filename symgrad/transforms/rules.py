"""The rewrite rules: each one line of data, in exactly one class."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.op import OPS
from ..ops.shaping import broadcast_to, inverse_permutation, reshape, starts_of, take_slice, transpose
from .patterns import Bindings
from .rewrite import Rewriter, Rule, RuleClass
from .signs import is_above_minus_infinity, is_positive

EXACT, MASKED = RuleClass.EXACT, RuleClass.MASKED


# ------------------------------------------------------------------------------------- results that need code


def _reshape_reshape(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    inner = x.args[0]
    return (
        inner if inner.shape == node.shape else rw.make(node.table, reshape, [inner], {"shape": node.shape})
    )


def _reshape_same(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    return x if x.shape == node.shape else None


def _transposes(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    outer, inner = node.param("axes"), x.param("axes")
    axes = tuple(inner[k] for k in outer)
    source = x.args[0]
    return (
        source
        if axes == tuple(range(len(axes)))
        else rw.make(node.table, transpose, [source], {"axes": axes})
    )


def _transpose_same(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    axes = node.param("axes")
    return x if inverse_permutation(axes) == axes == tuple(range(len(axes))) else None


def _broadcast_twice(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    return rw.make(node.table, broadcast_to, [x.args[0]], {"shape": node.shape})


def _broadcast_same(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    return x if x.shape == node.shape else None


def _slices(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    pairs = zip(
        x.param("starts"),
        x.param("steps"),
        node.param("starts"),
        node.param("steps"),
        node.param("sizes"),
        strict=True,
    )
    starts, steps = [], []
    for start, step, outer_start, outer_step, size in pairs:
        starts.append(start + step * outer_start if size else 0)
        steps.append(step * outer_step if size else 1)
    params = {"starts": tuple(starts), "sizes": node.param("sizes"), "steps": tuple(steps)}
    return rw.make(node.table, take_slice, [x.args[0]], params)


def _slice_whole(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    whole = (
        node.shape == x.shape and not any(node.param("starts")) and all(s == 1 for s in node.param("steps"))
    )
    return x if whole else None


def _slice_of_constant_rows(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    """A slice of a broadcast scalar is the scalar, broadcast less far."""
    source = x.args[0]
    return rw.make(node.table, broadcast_to, [source], {"shape": node.shape}) if not source.ndim else None


def _slice_of_joined(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    """A slice that lies within one operand of a concatenation."""
    axis = x.param("axis")
    start, size, step = node.param("starts")[axis], node.param("sizes")[axis], node.param("steps")[axis]
    if size == 0:
        return None
    low, high = sorted((start, start + (size - 1) * step))
    offsets = starts_of(x)
    # Operands of length 0 begin where the next one does; the last that begins there holds the element.
    k = bisect_right(offsets, low) - 1
    part, offset = x.args[k], offsets[k]
    if high >= offset + part.shape[axis]:
        return None
    starts = tuple(s - offset if d == axis else s for d, s in enumerate(node.param("starts")))
    params = {"starts": starts, "sizes": node.param("sizes"), "steps": node.param("steps")}
    return rw.make(node.table, take_slice, [part], params)


def _sum_of_ones(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    """Summing over axes of length one only drops them; a sum starts from 0.0, which turns -0.0 into 0.0."""
    if x.aval.size != node.aval.size:
        return None
    if x.aval.is_float:
        x = rw.make(node.table, OPS["add"], [x, node.table.constant(0.0, x.dtype)], {})
    return rw.make(node.table, reshape, [x], {"shape": node.shape})


def _cast_same(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    return x if x.aval == node.aval else None


def _broadcast_scalar(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    """A scalar with axes of length one in between is broadcast directly."""
    value = x.value
    if value is not None and value.ndim and value.size == 1:
        scalar = node.table.constant(value.reshape(()), x.dtype)
    elif x.op is reshape and not x.args[0].ndim:
        scalar = x.args[0]
    else:
        return None
    return rw.make(node.table, broadcast_to, [scalar], {"shape": node.shape})


def _unbroadcast_operands(rw: Rewriter, node: Expr, **operands: Expr) -> Expr | None:
    """An elementwise op broadcasts by itself; what is the same for all elements is computed once."""
    slim = [a.args[0] if a.op is broadcast_to else a for a in node.args]
    shape = node.op.infer(tuple(s.aval.strong() for s in slim), **dict(node.params)).shape
    small = rw.make(node.table, node.op, slim, dict(node.params))
    if shape == node.shape:
        return small
    return rw.make(node.table, broadcast_to, [small], {"shape": node.shape})


def _square_power(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    """NumPy squares where the exponent is one number; arrays go through pow, which rounds worse."""
    return None if node.args[1].ndim else rw.make(node.table, OPS["square"], [x], {})


def _half_power(rw: Rewriter, node: Expr, x: Expr, n: Expr) -> Expr | None:
    """sqrt(x)**n = x**(n/2): one rounding instead of two, and no infinite slope inside."""
    value = n.value
    if value is None or value.ndim or not np.isfinite(value):
        return None
    half = node.table.constant(value / 2, n.dtype, n.aval.weak)
    # A power may be defined for negative x too, where the square root is not.
    base = rw.make(node.table, OPS["in_domain"], [x], {})
    return rw.make(node.table, OPS["power"], [base, half], {})


def _not_bool(found: Bindings) -> bool:
    """NumPy multiplies bools, but squares them as int8."""
    return found["x"].dtype.kind != "b"


def _signed(found: Bindings) -> bool:
    """Unsigned integers wrap when negated."""
    return found["x"].dtype.kind in "fi"


# ------------------------------------------------------------------------------------------ the table


def _exact(pattern: str, result: Any, example: str, counterexample: str = "", **kw: Any) -> Rule:
    return Rule(EXACT, pattern, result, example=example, counterexample=counterexample, **kw)


def _masked(pattern: str, result: Any, example: str, counterexample: str = "", **kw: Any) -> Rule:
    return Rule(MASKED, pattern, result, example=example, counterexample=counterexample, **kw)


def _stable(pattern: str, result: Any, example: str, counterexample: str = "", **kw: Any) -> Rule:
    return Rule(RuleClass.STABLE, pattern, result, example=example, counterexample=counterexample, **kw)


EXACT_RULES: list[Rule] = [
    _exact("x * 1", "x", "x * 1", "x * 2"),
    _exact("x / 1", "x", "x / 1", "1 / x"),
    _exact("x - 0.0", "x", "x - 0.0", "0.0 - x"),
    _exact("x + -0.0", "x", "x + -0.0", "x + 0.0"),
    _exact("x * -1", "-x", "x * -1", "x * 1"),
    _exact("x / -1", "-x", "x / -1", "x / 2"),
    _exact("negative(negative(x))", "x", "-(-x)", "-x"),
    _exact("negative(x) * negative(y)", "x * y", "(-x) * (-y)", "x * y"),
    _exact("negative(x) * y", "-(x * y)", "(-x) * y", "x * y"),
    _exact("negative(x) / negative(y)", "x / y", "(-x) / (-y)", "x / y"),
    _exact("negative(x) / y", "-(x / y)", "(-x) / y", "x / y"),
    _exact("x / negative(y)", "-(x / y)", "x / (-y)", "x / y"),
    _exact("x - negative(y)", "x + y", "x - (-y)", "x - y"),
    _exact("negative(x) + y", "y - x", "(-x) + y", "x + y"),
    _exact("1 / x", "reciprocal(x)", "1 / x", "2 / x"),
    _exact("x * x", "square(x)", "x * x", "x * y", when=_not_bool),
    _exact("square(negative(x))", "square(x)", "square(-x)", "square(x)"),
    _exact("absolute(negative(x))", "absolute(x)", "absolute(-x)", "absolute(x)", when=_signed),
    _exact("absolute(absolute(x))", "absolute(x)", "absolute(absolute(x))", "absolute(x)"),
    _exact("cos(negative(x))", "cos(x)", "cos(-x)", "cos(x)"),
    _exact("power(x, 1)", "x", "power(x, 1)", "power(x, 3)"),
    _exact("power(x, 2)", _square_power, "power(x, 2)", "power(x, 3)"),
    _exact("in_domain(in_domain(x))", "in_domain(x)", "in_domain(in_domain(x))", "in_domain(x)"),
    _exact("in_domain(exp(x))", "exp(x)", "in_domain(exp(x))", "in_domain(x)"),
    _exact("in_domain(square(x))", "square(x)", "in_domain(square(x))", "in_domain(x)"),
    _exact("maximum(x, x)", "x", "maximum(x, x)", "maximum(x, y)"),
    _exact("minimum(x, x)", "x", "minimum(x, x)", "minimum(x, y)"),
    _exact("where(True, x, y)", "x", "where(True, x, y)", "where(c, x, y)"),
    _exact("where(False, x, y)", "y", "where(False, x, y)", "where(c, x, y)"),
    _exact("where(c, x, x)", "x", "where(c, x, x)", "where(c, x, y)"),
    _exact("logical_not(logical_not(c))", "c", "~(~c)", "~c"),
    _exact("c & c", "c", "c & c", "c & ~c"),
    _exact("c | c", "c", "c | c", "c | ~c"),
    _exact("c & True", "c", "c & True", "c & ~c"),
    _exact("c | False", "c", "c | False", "c | ~c"),
    _exact("c & False", "False", "c & False", "c & ~c"),
    _exact("c | True", "True", "c | True", "c | ~c"),
    _exact("reshape(x)", _reshape_same, ""),
    _exact("reshape(x)", _reshape_reshape, "", operand="reshape"),
    _exact("transpose(x)", _transpose_same, ""),
    _exact("transpose(x)", _transposes, "", operand="transpose"),
    _exact("broadcast_to(x)", _broadcast_same, ""),
    _exact("broadcast_to(x)", _broadcast_twice, "", operand="broadcast_to"),
    _exact("broadcast_to(x)", _broadcast_scalar, ""),
    _exact("slice(x)", _slice_whole, ""),
    _exact("slice(x)", _slices, "", operand="slice"),
    _exact("slice(x)", _slice_of_constant_rows, "", operand="broadcast_to"),
    _exact("slice(x)", _slice_of_joined, "", operand="concatenate"),
    _exact("sum(x)", _sum_of_ones, ""),
    _exact("astype(x)", _cast_same, ""),
    _exact("python_number(x)", _cast_same, ""),
]

MASKED_RULES: list[Rule] = [
    _masked("keep(True, x)", "x", "keep(True, x)", "keep(c, x)"),
    _masked("keep(c, keep(d, x))", "keep(c & d, x)", "keep(c, keep(d, x))", "keep(c, x)"),
    _masked("negative(keep(c, x))", "keep(c, -x)", "-keep(c, x)", "-x"),
    _masked("keep(c, x) * y", "keep(c, x * y)", "keep(c, x) * y", "x * y"),
    _masked("keep(c, x) / y", "keep(c, x / y)", "keep(c, x) / y", "y / keep(c, x)"),
    _masked("keep(c, x) + keep(c, y)", "keep(c, x + y)", "keep(c, x) + keep(c, y)", "keep(c, x) + y"),
    _masked("keep(c, x) - keep(c, y)", "keep(c, x - y)", "keep(c, x) - keep(c, y)", "keep(c, x) - y"),
]


def _reduced_scalar(rw: Rewriter, node: Expr, x: Expr) -> Expr | None:
    """The largest, smallest, any or all of one value repeated is that value."""
    scalar = x.args[0]
    if scalar.ndim or not x.aval.size or node.dtype != scalar.dtype:
        return None
    return rw.make(node.table, broadcast_to, [scalar], {"shape": node.shape}) if node.shape else scalar


def _surely_different(rw: Rewriter, node: Expr, x: Expr, y: Expr) -> Expr | None:
    """A value known to be positive differs from 0, one that cannot be -inf from -inf; NaN differs from both."""
    for value, other in ((x, y), (y, x)):
        number = other.value
        if number is None or number.size != 1 or not value.aval.is_float:
            continue
        sure = is_positive(value) if number == 0 else number == -np.inf and is_above_minus_infinity(value)
        if sure:
            return node.table.constant(True)
    return None


SIGN_RULES: list[Rule] = [
    *[_exact(f"{name}(x)", _reduced_scalar, "", operand="broadcast_to") for name in ("any", "all", "max", "min")],
    _exact(
        "not_equal(x, y)", _surely_different, "not_equal(exp(x) + 1, 0.0)", "not_equal(exp(x), 0.0)",
        operand="const",
    ),
]

STABLE_RULES: list[Rule] = [
    _stable("power(sqrt(x), n)", _half_power, "power(sqrt(x), 3)", "power(x, 3)"),
    # The operand of root is a sum of squares by construction, never negative.
    _stable("square(root(x))", "x", "square(root(x))", "square(x)"),
    _stable("square(sqrt(x))", "in_domain(x)", "square(sqrt(x))", "square(x)"),
]


def _operand_rules() -> list[Rule]:
    rules = []
    for op in OPS.values():
        if op.lowering == "elementwise" and op.samples[0].shapes is None:
            names = ", ".join("abcdef"[: len(op.partials) or len(op.transposes)])
            rules.append(_exact(f"{op.name}({names})", _unbroadcast_operands, "", operand="broadcast_to"))
    return rules


BROADCAST_RULES: list[Rule] = _operand_rules()
DEFAULT_RULES: list[Rule] = [*EXACT_RULES, *MASKED_RULES, *SIGN_RULES, *STABLE_RULES, *BROADCAST_RULES]
