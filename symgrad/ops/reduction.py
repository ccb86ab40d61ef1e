"""Reductions and running reductions along axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import BOOL, INT64, Aval, make_aval, normalize_axes, normalize_axis, reduced_shape
from ..core.expr import Expr
from ..core.op import Op, Sample, register
from ..errors import ShapeError
from .arithmetic import root, square
from .comparison import as_condition, equal, isnan, logical_and, logical_not, logical_or
from .define import (
    ACCUMULATIONS,
    FUNCTIONS,
    METHODS,
    REDUCTIONS,
    UFUNCS,
    as_exprs,
    cast,
    constant_like,
    custom,
    implements,
    lift,
    linear,
    promoted,
    strengthen,
)
from .masking import keep
from .selection import where
from .shaping import as_line, broadcast_to, concatenate, ravel, reshape, slice_axis

Axes = tuple[int, ...]


def _infer_reduce(avals: tuple[Aval, ...], axis: Axes) -> Aval:
    return make_aval(reduced_shape(avals[0].shape, axis, False), avals[0].dtype)


def _infer_bool(avals: tuple[Aval, ...], axis: Axes) -> Aval:
    return make_aval(reduced_shape(avals[0].shape, axis, False), BOOL)


def _infer_position(avals: tuple[Aval, ...], axis: int) -> Aval:
    return make_aval(reduced_shape(avals[0].shape, (axis,), False), INT64)


def _infer_order(avals: tuple[Aval, ...], axis: int) -> Aval:
    return make_aval(avals[0].shape, INT64)


def restore(x: Expr, shape: tuple[int, ...], axis: Axes) -> Expr:
    """Broadcast a reduced value back along the axes it was reduced over."""
    if not x.ndim:
        return broadcast_to(x, shape=shape) if shape else x
    kept = reduced_shape(shape, axis, True)
    value = x if x.shape == kept else reshape(x, shape=kept)
    return value if kept == shape else broadcast_to(value, shape=shape)


def _axis_source(function: str) -> Any:
    def source(args: Any, avals: Any, params: dict[str, Any]) -> str:
        axes = params["axis"]
        if len(axes) == avals[0].ndim:
            return f"{function}({args[0]})"
        return f"{function}({args[0]}, axis={axes[0] if len(axes) == 1 else axes})"

    return source


_FLAT = [Sample(((-3.0, 3.0),), ((5,),), {"axis": (0,)}), Sample(((-3.0, 3.0),), ((3, 4),), {"axis": (1,)}),
         Sample(((-3.0, 3.0),), ((2, 3, 4),), {"axis": (0, 2)})]
_BOOLS = [Sample(("bool",), ((5,),), {"axis": (0,)}), Sample(("bool",), ((3, 4),), {"axis": (0,)})]


def _sum_source(args: Any, avals: Any, params: dict[str, Any]) -> str:
    plain: str = _axis_source("np.sum")(args, avals, params)
    # NumPy sums small integers in a wider type; the operand was widened already where that is wanted.
    dtype = avals[0].dtype
    return plain if dtype.itemsize == 8 or dtype.kind == "f" else f"{plain[:-1]}, dtype={args[0]}.dtype)"


sum_ = linear(
    "sum", doc="Sum over axes.", infer=_infer_reduce, lowering="reduce",
    numpy=_sum_source,
    transposes=[lambda ct, out, x, axis: restore(ct, x.shape, axis)],
    c="{acc} + {0}", latex=r"\sum {0}", samples=_FLAT,
)


def sum_axes(x: Expr, axes: Axes) -> Expr:
    """Sum over axes given in normal form."""
    return sum_(x, axis=axes) if axes else x


FUNCTIONS["sum_axes"] = sum_axes


# ------------------------------------------------------------------------------------------ products


def _infer_running(avals: tuple[Aval, ...], **_: Any) -> Aval:
    return avals[0]


def _prod_jvp(tangents: tuple[Expr | None, ...], out: Expr, x: Expr, axis: Axes) -> Expr | None:
    (t,) = tangents
    assert t is not None
    return sum_axes(t * exclusive_products(x, axis), axis)


def exclusive_products(x: Expr, axis: Axes) -> Expr:
    """For each element the product of all others over the axes: no division, so zeros do no harm."""
    kept = tuple(k for k in range(x.ndim) if k not in axis)
    order = (*kept, *axis)
    moved = FUNCTIONS[np.transpose](x, order)
    lines = FUNCTIONS[np.reshape](moved, (*(x.shape[k] for k in kept), math.prod(x.shape[k] for k in axis)))
    last = len(kept)
    before = cumprod(lines, axis=last, reverse=False, exclusive=True)
    after = cumprod(lines, axis=last, reverse=True, exclusive=True)
    back = FUNCTIONS[np.reshape](before * after, moved.shape)
    inverse = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return FUNCTIONS[np.transpose](back, inverse)


prod = custom(
    "prod", doc="Product over axes.", infer=_infer_reduce, numpy=_axis_source("np.prod"), jvp=_prod_jvp,
    lowering="reduce", c="{acc} * {0}", latex=r"\prod {0}", samples=[
        Sample(((0.3, 2.0),), ((5,),), {"axis": (0,)}), Sample(((-2.0, 2.0),), ((3, 4),), {"axis": (1,)}),
        Sample(((0.5, 2.0),), ((2, 3, 2),), {"axis": (0, 2)})],
)


def _cumprod_jvp(
    tangents: tuple[Expr | None, ...], out: Expr, x: Expr, axis: int, reverse: bool, exclusive: bool
) -> Expr | None:
    (t,) = tangents
    assert t is not None
    if exclusive:
        x, t = _shifted(x, axis, reverse, 1.0), _shifted(t, axis, reverse, 0.0)
    # y[k] = x[k] y[k-1], so dy[k] = x[k] dy[k-1] + dx[k] y[k-1].
    previous = cumprod(x, axis=axis, reverse=reverse, exclusive=True)
    return linear_scan(x, t * previous, axis=axis, reverse=reverse)


def _shifted(x: Expr, axis: int, reverse: bool, fill: float) -> Expr:
    """Move every element one step along the running direction; the first becomes ``fill``."""
    n = x.shape[axis]
    if n == 0:
        return x
    edge = broadcast_to(
        constant_like(x, fill), shape=tuple(1 if k == axis else m for k, m in enumerate(x.shape))
    )
    if n == 1:
        return edge
    rest = slice_axis(x, axis, 1 if reverse else 0, n - 1)
    return concatenate(*((rest, edge) if reverse else (edge, rest)), axis=axis)


cumprod: Op = custom(
    "cumprod",
    doc="Running product along an axis, optionally from the end, optionally without the element itself.",
    infer=_infer_running, numpy="rt.cumprod({0}, {axis}, {reverse}, {exclusive})", jvp=_cumprod_jvp,
    samples=[Sample(((-2.0, 2.0),), ((5,),), {"axis": 0, "reverse": False, "exclusive": False}),
             Sample(((-2.0, 2.0),), ((3, 4),), {"axis": 1, "reverse": True, "exclusive": True})],
)


def _scan_jvp(
    tangents: tuple[Expr | None, ...], out: Expr, a: Expr, b: Expr, axis: int, reverse: bool
) -> Expr | None:
    da, db = tangents
    total = db
    if da is not None:
        from_a = da * _shifted(out, axis, reverse, 0.0)
        total = from_a if total is None else total + from_a
    return None if total is None else linear_scan(a, total, axis=axis, reverse=reverse)


def _scan_transpose(ct: Expr, out: Expr, a: Expr, b: Expr, axis: int, reverse: bool) -> Expr:
    # The adjoint runs the other way, with the coefficient of the following element.
    return linear_scan(_shifted(a, axis, not reverse, 0.0), ct, axis=axis, reverse=not reverse)


linear_scan: Op = custom(
    "linear_scan", doc="The recurrence y[k] = a[k] y[k-1] + b[k] along an axis, starting from 0.",
    infer=_infer_running, numpy="rt.linear_scan({0}, {1}, {axis}, {reverse})", jvp=_scan_jvp,
    transposes=[None, _scan_transpose],
    samples=[Sample(((-1.5, 1.5), (-2.0, 2.0)), ((5,), (5,)), {"axis": 0, "reverse": False}),
             Sample(((-1.5, 1.5), (-2.0, 2.0)), ((3, 4), (3, 4)), {"axis": 1, "reverse": True})],
)
cumsum: Op = linear(
    "cumsum", doc="Running sum along an axis, optionally from the end.", infer=_infer_running,
    numpy="rt.cumsum({0}, {axis}, {reverse})",
    transposes=[lambda ct, out, x, axis, reverse: cumsum(ct, axis=axis, reverse=not reverse)],
    samples=[Sample(((-3.0, 3.0),), ((5,),), {"axis": 0, "reverse": False}),
             Sample(((-3.0, 3.0),), ((3, 4),), {"axis": 1, "reverse": True})],
)


# ------------------------------------------------------------------------------------------ extrema


def _extremum_jvp(tangents: tuple[Expr | None, ...], out: Expr, x: Expr, axis: Axes) -> Expr | None:
    (t,) = tangents
    assert t is not None
    attained = equal(x, restore(out, x.shape, axis))
    if x.aval.is_float:
        attained = logical_or(attained, isnan(x))
    count = sum_axes(cast(attained, x.dtype), axis)
    return sum_axes(keep(attained, t), axis) / count


max_ = custom(
    "max", doc="Largest element over axes; the derivative is split evenly over ties.", infer=_infer_reduce,
    numpy=_axis_source("np.max"), jvp=_extremum_jvp, lowering="reduce",
    c="{acc} >= {0} || {acc} != {acc} ? {acc} : {0}",
    latex=r"\max {0}", samples=_FLAT,
)
min_ = custom(
    "min", doc="Smallest element over axes; the derivative is split evenly over ties.", infer=_infer_reduce,
    numpy=_axis_source("np.min"), jvp=_extremum_jvp, lowering="reduce",
    c="{acc} <= {0} || {acc} != {acc} ? {acc} : {0}",
    latex=r"\min {0}", samples=_FLAT,
)


def _nondiff_reduction(
    name: str, doc: str, infer: Any, numpy: Any, samples: list[Sample], lowering: Any = "reduce", c: str = ""
) -> Op:
    return register(Op(name=name, kind="nondiff", doc=doc, infer=infer, numpy=numpy, samples=tuple(samples),
                       lowering=lowering, c=c))


any_ = _nondiff_reduction(
    "any", "True where any element over axes is.", _infer_bool, _axis_source("np.any"), _BOOLS,
    c="{acc} || {0}",
)
all_ = _nondiff_reduction(
    "all", "True where all elements over axes are.", _infer_bool, _axis_source("np.all"), _BOOLS,
    c="{acc} && {0}",
)
_POSITIONS = [Sample(((-3.0, 3.0),), ((5,),), {"axis": 0}), Sample(((-3.0, 3.0),), ((3, 4),), {"axis": 1})]
argmax = _nondiff_reduction(
    "argmax", "Position of the first largest element along an axis; NaN counts as largest.", _infer_position,
    "np.argmax({0}, axis={axis})", _POSITIONS, "library",
)
argmin = _nondiff_reduction(
    "argmin", "Position of the first smallest element along an axis; NaN counts as smallest.",
    _infer_position, "np.argmin({0}, axis={axis})", _POSITIONS, "library",
)
argsort = _nondiff_reduction(
    "argsort", "Positions that sort along an axis, equal elements in their order.", _infer_order,
    "np.argsort({0}, axis={axis}, kind='stable')", _POSITIONS, "library",
)


# ------------------------------------------------------------------------------------------ NumPy's names


def _reduction_operand(x: Any, where_: Any, neutral: Any) -> Expr:
    value = strengthen(as_exprs(x, where_)[0])
    if where_ is True or where_ is None:
        return value
    condition = as_condition(as_exprs(where_, value)[0])
    return where(condition, value, constant_like(value, neutral))


def _finish(value: Expr, shape: tuple[int, ...], axes: Axes, keepdims: Any) -> Expr:
    return reshape(value, shape=reduced_shape(shape, axes, True)) if keepdims is True else value


def _widened(x: Expr, dtype: Any) -> Expr:
    """NumPy sums and multiplies small integers and bools in the platform's integer."""
    if dtype is not None:
        return cast(x, dtype)
    if x.dtype.kind == "b" or (x.dtype.kind == "i" and x.dtype.itemsize < 8):
        return cast(x, INT64)
    return cast(x, np.uint64) if x.dtype.kind == "u" and x.dtype.itemsize < 8 else x


_NoValue: Any = getattr(np, "_NoValue", None)


def _given(value: Any) -> bool:
    return value is not None and value is not _NoValue


def _reduced_axes(axis: Any, ndim: int) -> Axes:
    """The axes to reduce; a value without axes takes 0 and -1 for all of its axes, as in NumPy."""
    return () if not ndim and _is_line(axis) else normalize_axes(axis, ndim)


def _all_of_none(x: Expr, axis: Any) -> Any:
    return None if not x.ndim and _is_line(axis) else axis


def _is_line(axis: Any) -> bool:
    return not isinstance(axis, (tuple, list)) and axis in (0, -1)


def _accumulating(op: Op, neutral: int) -> Any:
    def call(
        x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Expr:
        value = _widened(_reduction_operand(x, where if where is not _NoValue else True, neutral), dtype)
        axes = _reduced_axes(axis, value.ndim)
        result = op(value, axis=axes) if axes else value
        if _given(initial):
            result = (
                result + lift(initial, result.table) if neutral == 0 else result * lift(initial, result.table)
            )
        return _finish(result, value.shape, axes, keepdims)

    return call


def _extreme(op: Op, name: str) -> Any:
    def call(
        x: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
        where: Any = True,
    ) -> Expr:
        masked = where is not True and where is not _NoValue
        value = _reduction_operand(x, where if masked else True, initial if masked else 0)
        axes = _reduced_axes(axis, value.ndim)
        if any(value.shape[k] == 0 for k in axes) and not _given(initial):
            raise ShapeError(f"np.{name} of an empty array has no value\n  Give initial=.")
        result = op(value, axis=axes) if axes else value
        if _given(initial):
            result = UFUNCS[f"{name}imum"](result, initial)
        return _finish(result, value.shape, axes, keepdims)

    return call


def _truth(op: Op) -> Any:
    def call(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Expr:
        value = as_condition(strengthen(as_exprs(x, where)[0]))
        if where is not True and where is not _NoValue:
            selected = as_condition(as_exprs(where, value)[0])
            value = logical_and(value, selected) if op is any_ else logical_or(value, logical_not(selected))
        axes = _reduced_axes(axis, value.ndim)
        return _finish(op(value, axis=axes) if axes else value, value.shape, axes, keepdims)

    return call


def _enter(functions: list[Any], method: str, ufunc: str, call: Any) -> None:
    for function in functions:
        FUNCTIONS[function] = call
    METHODS[method] = call
    REDUCTIONS[ufunc] = call


_enter([np.sum], "sum", "add", _accumulating(sum_, 0))
_enter([np.prod], "prod", "multiply", _accumulating(prod, 1))
_enter([np.max, np.amax], "max", "maximum", _extreme(max_, "max"))
_enter([np.min, np.amin], "min", "minimum", _extreme(min_, "min"))
_enter([np.any], "any", "logical_or", _truth(any_))
_enter([np.all], "all", "logical_and", _truth(all_))


def _positional(op: Op) -> Any:
    def call(x: Any, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Expr:
        value = strengthen(as_exprs(x)[0])
        whole = axis is None or not value.ndim
        flat = ravel(value) if whole else value
        where_ = normalize_axis(axis or 0, flat.ndim)
        if flat.shape[where_] == 0:
            raise ShapeError(f"np.{op.name} of an empty array has no value")
        result = op(flat, axis=where_)
        if keepdims is True:
            return reshape(result, shape=reduced_shape(value.shape, _reduced_axes(axis, value.ndim), True))
        return result

    return call


for _function, _op in ((np.argmax, argmax), (np.argmin, argmin)):
    FUNCTIONS[_function] = METHODS[_op.name] = _positional(_op)


@implements(np.argsort, method="argsort")
def _argsort(
    x: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Expr:
    value, axis = as_line(strengthen(as_exprs(x)[0]), axis)
    return argsort(value, axis=normalize_axis(axis, value.ndim))


@implements(np.sort)
def sort(x: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Expr:
    """Sorted along an axis; the derivative follows the stable permutation."""
    value = strengthen(as_exprs(x)[0])
    if axis is None:
        value, axis = ravel(value), 0
    where_ = normalize_axis(axis, value.ndim)
    return FUNCTIONS[np.take_along_axis](
        value, argsort(value, axis=where_), where_
    )


def _running(op: Op, **fixed: Any) -> Any:
    def call(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Expr:
        value, axis = as_line(_widened(strengthen(as_exprs(x)[0]), dtype), axis)
        return op(value, axis=normalize_axis(axis, value.ndim), reverse=False, **fixed)

    return call


FUNCTIONS[np.cumsum] = METHODS["cumsum"] = _running(cumsum)
FUNCTIONS[np.cumprod] = METHODS["cumprod"] = _running(cumprod, exclusive=False)


def _accumulate(running: Any) -> Any:
    def call(x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Expr:
        return running(x, axis, dtype)

    return call


ACCUMULATIONS["add"] = _accumulate(FUNCTIONS[np.cumsum])
ACCUMULATIONS["multiply"] = _accumulate(FUNCTIONS[np.cumprod])


# ------------------------------------------------------------------------------------------ compositions


def _count(shape: tuple[int, ...], axes: Axes) -> int:
    return math.prod(shape[k] for k in axes)


@implements(np.mean, method="mean")
def mean(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Expr:
    """Arithmetic mean over axes."""
    value = strengthen(as_exprs(x)[0])
    if dtype is not None:
        value = cast(value, dtype)
    elif value.dtype.kind != "f":
        value = cast(value, np.float64)
    axes = normalize_axes(axis, value.ndim)
    total = FUNCTIONS[np.sum](value, axis=axes, keepdims=keepdims, where=where)
    if where is True or where is _NoValue:
        return total / float(_count(value.shape, axes))
    return total / _selected(where, value, axes, keepdims)


def _selected(where_: Any, value: Expr, axes: Axes, keepdims: Any) -> Expr:
    """How many elements a mask selects over the axes."""
    condition = as_condition(as_exprs(where_, value)[0])
    ones = cast(FUNCTIONS[np.broadcast_to](condition, value.shape), value.dtype)
    return FUNCTIONS[np.sum](ones, axis=axes, keepdims=keepdims)


@implements(np.var, method="var")
def var(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Expr:
    """Variance over axes, from deviations: the mean is subtracted first."""
    value = strengthen(as_exprs(x)[0])
    value = (
        cast(value, dtype) if dtype is not None
        else value if value.dtype.kind == "f" else cast(value, np.float64)
    )
    ddof = correction if _given(correction) else ddof
    axes = normalize_axes(axis, value.ndim)
    centre = (
        FUNCTIONS[np.mean](value, axis=axes, keepdims=True, where=where)
        if not _given(mean) else as_exprs(mean, value)[0]
    )
    squares = FUNCTIONS[np.sum](square(value - centre), axis=axes, keepdims=keepdims, where=where)
    if where is True or where is _NoValue:
        return squares / float(max(_count(value.shape, axes) - ddof, 0))
    return squares / (_selected(where, value, axes, keepdims) - float(ddof))


@implements(np.std, method="std")
def std(x: Any, *args: Any, **kw: Any) -> Expr:
    """Standard deviation over axes; its slope at 0 is 0."""
    return root(var(x, *args, **kw))


@implements(np.ptp)
def _ptp(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Expr:
    return (
        FUNCTIONS[np.max](x, axis=axis, keepdims=keepdims)
        - FUNCTIONS[np.min](x, axis=axis, keepdims=keepdims)
    )


@implements(np.average)
def _average(
    x: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    if weights is None:
        result, total = mean(x, axis, keepdims=keepdims), None
    else:
        value, w = promoted(as_exprs(x, weights), floating=True)
        if w.shape != value.shape and w.ndim == 1 and isinstance(axis, int):
            w = reshape(
                w, shape=tuple(w.shape[0] if k == axis % value.ndim else 1 for k in range(value.ndim))
            )
        w = FUNCTIONS[np.broadcast_to](w, value.shape)
        total = FUNCTIONS[np.sum](w, axis=axis, keepdims=keepdims)
        result = FUNCTIONS[np.sum](value * w, axis=axis, keepdims=keepdims) / total
    if not returned:
        return result
    if total is None:
        shape = as_exprs(x)[0].shape
        total = constant_like(result, float(_count(shape, normalize_axes(axis, len(shape)))))
    return result, FUNCTIONS[np.broadcast_to](total, result.shape)


@implements(np.count_nonzero)
def _count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Expr:
    return FUNCTIONS[np.sum](
        cast(as_condition(as_exprs(x)[0]), INT64), axis=axis, keepdims=keepdims
    )


def _ignoring_nan(function: Any, neutral: float) -> None:
    plain = FUNCTIONS[function]

    def call(x: Any, axis: Any = None, **kw: Any) -> Expr:
        value = strengthen(as_exprs(x)[0])
        clean = where(isnan(value), constant_like(value, neutral), value)
        return plain(clean, axis=axis, **kw)

    FUNCTIONS[getattr(np, f"nan{function.__name__}")] = call


_ignoring_nan(np.sum, 0.0)
_ignoring_nan(np.prod, 1.0)
_ignoring_nan(np.cumsum, 0.0)
_ignoring_nan(np.cumprod, 1.0)


def _where_finite(function: Any) -> None:
    plain = FUNCTIONS[function]

    def call(
        x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kw: Any
    ) -> Expr:
        value = strengthen(as_exprs(x)[0])
        valid = isnan(value).__invert__()
        return plain(
            where(valid, value, constant_like(value, 0.0)), axis=_all_of_none(value, axis), dtype=dtype,
            keepdims=keepdims, where=valid, **kw,
        )

    FUNCTIONS[getattr(np, f"nan{function.__name__}")] = call


_where_finite(np.mean)


@implements(np.nanvar)
def _nanvar(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False,
    **_: Any,
) -> Expr:
    value = strengthen(as_exprs(x)[0])
    valid, axis = isnan(value).__invert__(), _all_of_none(value, axis)
    return var(where(valid, value, constant_like(value, 0.0)), axis, dtype, None, ddof, keepdims, where=valid)


@implements(np.nanstd)
def _nanstd(x: Any, *args: Any, **kw: Any) -> Expr:
    return root(_nanvar(x, *args, **kw))


@implements(np.median)
def _median(
    x: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Expr:
    value = strengthen(as_exprs(x)[0])
    value = value if value.dtype.kind == "f" else cast(value, np.float64)
    axes = normalize_axes(axis, value.ndim)
    kept = tuple(k for k in range(value.ndim) if k not in axes)
    n = _count(value.shape, axes)
    lines = FUNCTIONS[np.reshape](
        FUNCTIONS[np.transpose](value, (*kept, *axes)), (*(value.shape[k] for k in kept), n)
    )
    if not n:
        return mean(value, axes, keepdims=keepdims)  # NaN, as in NumPy
    ordered = sort(lines, -1)
    middle = slice_axis(ordered, lines.ndim - 1, (n - 1) // 2, 1 if n % 2 else 2)
    result = mean(middle, -1)
    # NumPy answers NaN where any element is NaN; sorting moved NaN to the end.
    last = reshape(slice_axis(ordered, lines.ndim - 1, n - 1, 1), shape=result.shape)
    result = where(isnan(last), last, result)
    return reshape(result, shape=reduced_shape(value.shape, axes, True)) if keepdims else result
