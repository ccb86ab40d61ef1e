"""Choosing between values: where, select, clip, maximum and minimum, rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.op import Op, Sample
from ..errors import DtypeError
from .c_types import by_kind
from .casting import python_number
from .comparison import (
    as_condition,
    equal,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
)
from .define import (
    FUNCTIONS,
    INFER,
    METHODS,
    UFUNCS,
    as_exprs,
    cast,
    constant_like,
    elementwise,
    implements,
    linear,
    nondiff,
    promoted,
    strengthen,
)
from .masking import keep

where = linear(
    "where", doc="First value where the condition holds, second value elsewhere.", infer=INFER["select"],
    numpy="np.where({0}, {1}, {2})", lowering="elementwise", c="({0} ? {1} : {2})",
    text="where({0}, {1}, {2})",
    latex=r"\begin{{cases}} {1} & \text{{if }} {0} \\ {2} & \text{{otherwise}} \end{{cases}}",
    transposes=[
        None,
        lambda ct, out, c, a, b: keep(c, ct),
        lambda ct, out, c, a, b: keep(logical_not(c), ct),
    ],
    samples=[Sample(("bool", (-3.0, 3.0), (-3.0, 3.0)))],
)


@implements(np.where)
def _where(condition: Any, x: Any = None, y: Any = None) -> Expr:
    if x is None or y is None:
        return FUNCTIONS[np.nonzero](condition)
    c, a, b = as_exprs(condition, x, y)
    # np.where is a function, so Python numbers stay weak against arrays but the result is strong.
    a, b = promoted([a, b])
    if a.aval.weak and b.aval.weak:
        a, b = strengthen(a), strengthen(b)
    return where(as_condition(c), a, b)


@implements(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Expr:
    values = as_exprs(*condlist, *choicelist, default)
    n = len(condlist)
    branches = promoted([strengthen(v) if k < len(choicelist) else v for k, v in enumerate(values[n:])])
    result = branches[-1]
    for condition, choice in reversed(list(zip(values[:n], branches[:-1], strict=True))):
        result = _where(condition, choice, result)
    return result


# ---------------------------------------------------------------------------------------- maximum and minimum


def _share(attains: Op, loses: Op, x: Expr, y: Expr, nan_wins: bool) -> Expr:
    """Weight of ``x`` in maximum or minimum: 1 where it wins, one half at a tie, an exact zero otherwise."""
    if y.value is not None and not np.isnan(y.value).any():
        reaches = logical_not(loses(x, y)) if nan_wins else attains(x, y)
    else:
        reaches = logical_or(attains(x, y), isnan(x if nan_wins else y))
    return keep(reaches, where(equal(x, y), constant_like(x, 0.5), constant_like(x, 1.0)))


def _extremum(ufunc: np.ufunc, attains: Op, loses: Op, symbol: str, nan_wins: bool, doc: str) -> Op:
    name = ufunc.__name__
    nan_test = "{0} != {0}" if nan_wins else "{1} != {1}"
    return elementwise(
        name, ufunc=ufunc, doc=doc, commutative=True,
        partials=[
            lambda out, x, y: _share(attains, loses, x, y, nan_wins),
            lambda out, x, y: _share(attains, loses, y, x, nan_wins),
        ],
        c=by_kind(
            f"(({{0}} {symbol}= {{1}} || {nan_test}) ? {{0}} : {{1}})",
            f"({{0}} {symbol}= {{1}} ? {{0}} : {{1}})",
        ),
        latex=rf"\{name[-3:] if name[0] == 'f' else name[:3]}\left({{0}}, {{1}}\right)",
        samples=[Sample(((0.0, 1.0), (1.2, 2.0))), Sample(((1.2, 2.0), (0.0, 1.0)))],
    )


maximum = _extremum(
    np.maximum, greater_equal, less, ">", True, "Larger of two values; NaN wins; half and half at a tie."
)
minimum = _extremum(
    np.minimum, less_equal, greater, "<", True, "Smaller of two values; NaN wins; half and half at a tie."
)
fmax = _extremum(np.fmax, greater_equal, less, ">", False, "Larger of two values; NaN loses; half and half at a tie.")
fmin = _extremum(np.fmin, less_equal, greater, "<", False, "Smaller of two values; NaN loses; half and half at a tie.")

clip = elementwise(
    "clip", numpy="np.clip({0}, {1}, {2})",
    doc="The value limited to an interval; its slope is 1 on the closed interval.",
    partials=[
        lambda out, x, lo, hi: keep(
            logical_and(greater_equal(x, lo), less_equal(x, hi)), constant_like(x, 1.0)
        ),
        lambda out, x, lo, hi: keep(logical_and(less(x, lo), less_equal(lo, hi)), constant_like(x, 1.0)),
        lambda out, x, lo, hi: keep(logical_or(greater(x, hi), greater(lo, hi)), constant_like(x, 1.0)),
    ],
    c=by_kind("sg_clip{f}({0}, {1}, {2})", "sg_iclip_{s}({0}, {1}, {2})"),
    latex=r"\operatorname{{clip}}\left({0}, {1}, {2}\right)",
    samples=[Sample(((0.2, 0.8), (-1.0, 0.0), (1.0, 2.0))), Sample(((-2.0, -1.2), (-1.0, 0.0), (1.0, 2.0))),
             Sample(((2.2, 3.0), (-1.0, 0.0), (1.0, 2.0)))],
)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Expr:
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    if low is None and high is None:
        return as_exprs(x)[0]
    if low is None or high is None:
        value, bound = promoted(as_exprs(x, high if low is None else low))
        # One-sided: the missing bound is infinite, which leaves every value (and NaN) as it is.
        if value.dtype.kind == "f":
            far = constant_like(value, np.inf if high is None else -np.inf)
            return clip(value, bound, far) if high is None else clip(value, far, bound)
        return UFUNCS["minimum" if low is None else "maximum"](value, bound)
    if isinstance(x, Expr) and x.dtype.kind in "iu" and not x.aval.weak:
        low, high = _within(low, x.dtype), _within(high, x.dtype)
    return clip(*promoted(as_exprs(x, low, high)))


def _within(bound: Any, dtype: np.dtype[Any]) -> Any:
    """A Python integer beyond a dtype limits no more than the end of the dtype does."""
    ends = np.iinfo(dtype)
    return sorted((ends.min, bound, ends.max))[1] if type(bound) is int else bound


implements(np.clip, method="clip")(_clip)


def _ufunc_clip(x: Any, low: Any, high: Any, weak_ok: bool = False) -> Expr:
    return _clip(x, low, high)


UFUNCS["clip"] = _ufunc_clip

# ------------------------------------------------------------------------------------------ rounding


def _rounding(ufunc: np.ufunc, doc: str, latex: str, name: str = "") -> Op:
    return nondiff(
        name or ufunc.__name__, ufunc=ufunc, doc=doc, latex=latex,
        c=by_kind(f"{ufunc.__name__}{{f}}({{0}})", "{0}"),
        samples=[Sample(((0.1, 0.4),)), Sample(((-1.4, -1.1),))],
    )


floor = _rounding(np.floor, "Largest integer not above the value.", r"\left\lfloor {0} \right\rfloor")
ceil = _rounding(np.ceil, "Smallest integer not below the value.", r"\left\lceil {0} \right\rceil")
trunc = _rounding(np.trunc, "The value without its fraction.", r"\operatorname{{trunc}}\left({0}\right)")
rint = _rounding(np.rint, "Nearest integer, ties to even.", r"\operatorname{{round}}\left({0}\right)")

heaviside = elementwise(
    "heaviside", ufunc=np.heaviside, doc="0 for negative values, 1 for positive ones, the second value at 0.",
    partials=[None, lambda out, x, h: keep(equal(x, 0.0), constant_like(x, 1.0))],
    c="({0} != {0} ? {0} : ({0} == 0 ? {1} : ({0} < 0 ? 0 : 1)))", latex=r"\theta\left({0}\right)",
    samples=[Sample(((0.2, 3.0), (0.1, 0.9))), Sample(((-3.0, -0.2), (0.1, 0.9)))],
)


@implements(np.round, np.around, method="round")
def _round(x: Any, decimals: int = 0) -> Expr:
    value = strengthen(as_exprs(x)[0])
    if value.dtype.kind == "b":
        value = cast(value, np.float16)
    if value.dtype.kind != "f" and decimals >= 0:
        return value
    if decimals == 0:
        return rint(value)
    if value.dtype.kind != "f":
        return cast(_round(cast(value, np.float64), decimals), value.dtype)
    scale = constant_like(value, 10.0 ** abs(decimals))
    if decimals > 0:
        return rint(value * scale) / scale
    return rint(value / scale) * scale


def _python_round(x: Any, digits: int | None = None) -> Expr:
    """What Python's ``round`` makes of numbers: an int without ``digits``, else a number of the same kind."""
    value = as_exprs(x)[0]
    if value.shape:
        raise DtypeError("round() takes a number, not an array.\n  Use np.round.")
    made = _round(value, digits or 0)
    if digits is None:
        return python_number(cast(made, np.int64))
    return python_number(made) if value.aval.weak else made


METHODS["__round__"] = _python_round


@implements(np.fix)
def _fix(x: Any) -> Expr:
    return UFUNCS["trunc"](x)


@implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Expr:
    value = strengthen(as_exprs(x)[0])
    if value.dtype.kind != "f":
        return value
    limits = np.finfo(value.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    result = where(isnan(value), constant_like(value, nan), value)
    result = where(equal(value, np.inf), constant_like(value, float(high)), result)
    return where(equal(value, -np.inf), constant_like(value, float(low)), result)
