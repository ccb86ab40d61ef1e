"""Changing shape without changing elements: reshape, transpose, broadcast, join, and what builds on them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..core.aval import Aval, broadcast_shapes, make_aval, normalize_axes, normalize_axis
from ..core.expr import Expr
from ..core.op import Op, Sample
from ..errors import DtypeError, ShapeError
from .define import FUNCTIONS, METHODS, as_exprs, cast, implements, linear, promoted, strengthen

Shape = tuple[int, ...]


def _infer_reshape(avals: tuple[Aval, ...], shape: Shape) -> Aval:
    if math.prod(shape) != avals[0].size:
        raise ShapeError(f"an array of shape {avals[0].shape} cannot be reshaped to {shape}")
    return make_aval(shape, avals[0].dtype)


reshape: Op = linear(
    "reshape", doc="The same elements in another shape, in C order.", infer=_infer_reshape,
    numpy="np.reshape({0}, {shape})", lowering="view",
    transposes=[lambda ct, out, x, shape: reshape(ct, shape=x.shape)],
    text="reshape({0}, {shape})", latex=r"\operatorname{{reshape}}\left({0}\right)",
    samples=[
        Sample(((-3.0, 3.0),), ((2, 3),), {"shape": (3, 2)}),
        Sample(((-3.0, 3.0),), ((),), {"shape": (1, 1)}),
    ],
)


def _infer_transpose(avals: tuple[Aval, ...], axes: tuple[int, ...]) -> Aval:
    return make_aval(tuple(avals[0].shape[a] for a in axes), avals[0].dtype)


def inverse_permutation(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


transpose: Op = linear(
    "transpose", doc="The same elements with the axes in another order.", infer=_infer_transpose,
    numpy=lambda args, avals, params: (
        f"{args[0]}.T" if params["axes"] == (1, 0) else f"np.transpose({args[0]}, {params['axes']})"
    ),
    lowering="view",
    transposes=[lambda ct, out, x, axes: transpose(ct, axes=inverse_permutation(axes))],
    text="{0}.T", latex="{0}^{{T}}", precedence=90,
    samples=[Sample(((-3.0, 3.0),), ((2, 3),), {"axes": (1, 0)}),
             Sample(((-3.0, 3.0),), ((2, 3, 4),), {"axes": (2, 0, 1)})],
)


def _infer_broadcast(avals: tuple[Aval, ...], shape: Shape) -> Aval:
    if broadcast_shapes(avals[0].shape, shape) != shape:
        raise ShapeError(f"shape {avals[0].shape} cannot be broadcast to {shape}")
    return make_aval(shape, avals[0].dtype)


broadcast_to: Op = linear(
    "broadcast_to", doc="The array repeated along new or length-one axes.", infer=_infer_broadcast,
    numpy="np.broadcast_to({0}, {shape})", lowering="view",
    transposes=[lambda ct, out, x, shape: unbroadcast(ct, x.shape)],
    text="broadcast({0}, {shape})", latex=r"\operatorname{{broadcast}}\left({0}\right)",
    samples=[
        Sample(((-3.0, 3.0),), ((3, 1),), {"shape": (2, 3, 4)}),
        Sample(((-3.0, 3.0),), ((),), {"shape": (3,)}),
    ],
)


def unbroadcast(x: Expr, shape: Shape) -> Expr:
    """Sum ``x`` over the axes along which ``shape`` was broadcast: the adjoint of broadcasting."""
    if x.shape == shape:
        return x
    lead = x.ndim - len(shape)
    axes = tuple(k for k in range(x.ndim) if k < lead or (shape[k - lead] == 1 and x.shape[k] != 1))
    summed = FUNCTIONS["sum_axes"](x, axes) if axes else x
    return summed if summed.shape == shape else reshape(summed, shape=shape)


# ------------------------------------------------------------------------------------------ slices


def _infer_slice(avals: tuple[Aval, ...], starts: Shape, sizes: Shape, steps: Shape) -> Aval:
    return make_aval(sizes, avals[0].dtype)


def _slice_source(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any]) -> str:
    starts, sizes, steps = params["starts"], params["sizes"], params["steps"]
    parts = [_slice_text(*quad) for quad in zip(starts, sizes, steps, avals[0].shape, strict=True)]
    while parts and parts[-1] == ":":
        parts.pop()
    return f"{args[0]}[{', '.join(parts)}]" if parts else args[0]


def _slice_text(start: int, size: int, step: int, n: int) -> str:
    if size == 0:
        return "0:0"
    stop = start + size * step
    if step == 1:
        return f"{start or ''}:{stop if stop != n else ''}"
    low = "" if (start == 0 and step > 0) or (start == n - 1 and step < 0) else start
    high = "" if stop < 0 or stop >= n else stop
    return f"{low}:{high}:{step}"


take_slice: Op = linear(
    "slice", doc="Elements at evenly spaced positions along each axis.", infer=_infer_slice,
    numpy=_slice_source,
    lowering="view",
    transposes=[
        lambda ct, out, x, starts, sizes, steps: put_slice(ct, shape=x.shape, starts=starts, steps=steps)
    ],
    samples=[Sample(((-3.0, 3.0),), ((5,),), {"starts": (1,), "sizes": (2,), "steps": (2,)}),
             Sample(((-3.0, 3.0),), ((4, 3),), {"starts": (3, 0), "sizes": (2, 3), "steps": (-2, 1)})],
)


def _infer_put_slice(avals: tuple[Aval, ...], shape: Shape, starts: Shape, steps: Shape) -> Aval:
    return make_aval(shape, avals[0].dtype)


put_slice: Op = linear(
    "put_slice", doc="Zeros with the value written at evenly spaced positions: the adjoint of slice.",
    infer=_infer_put_slice, numpy="rt.unslice({0}, {shape}, {starts}, {steps})",
    transposes=[
        lambda ct, out, x, shape, starts, steps: take_slice(ct, starts=starts, sizes=x.shape, steps=steps)
    ],
    samples=[Sample(((-3.0, 3.0),), ((2,),), {"shape": (5,), "starts": (1,), "steps": (2,)}),
             Sample(((-3.0, 3.0),), ((2, 3),), {"shape": (4, 3), "starts": (3, 0), "steps": (-2, 1)})],
)


def slice_axis(x: Expr, axis: int, start: int, size: int, step: int = 1) -> Expr:
    """Slice one axis and leave the others whole."""
    return take_slice(
        x, starts=tuple(start if k == axis else 0 for k in range(x.ndim)),
        sizes=tuple(size if k == axis else n for k, n in enumerate(x.shape)),
        steps=tuple(step if k == axis else 1 for k in range(x.ndim)),
    )


# ------------------------------------------------------------------------------------------ joining


def _infer_concatenate(avals: tuple[Aval, ...], axis: int) -> Aval:
    first = avals[0].shape
    for a in avals[1:]:
        if len(a.shape) != len(first) or any(
            k != axis and n != m for k, (n, m) in enumerate(zip(a.shape, first, strict=True))
        ):
            raise ShapeError(
                f"arrays of shapes {first} and {a.shape} cannot be concatenated along axis {axis}"
            )
    total = sum(a.shape[axis] for a in avals)
    return make_aval(tuple(total if k == axis else n for k, n in enumerate(first)), avals[0].dtype)


_starts: WeakKeyDictionary[Expr, list[int]] = WeakKeyDictionary()


def starts_of(joined: Expr) -> list[int]:
    """Where each operand of a concatenation begins; computed once, since each operand may ask."""
    known = _starts.get(joined)
    if known is None:
        axis = joined.param("axis")
        known = list(itertools.accumulate((a.shape[axis] for a in joined.args[:-1]), initial=0))
        _starts[joined] = known
    return known


def _concatenate_transpose(
    ct: Expr, out: Expr, args: tuple[Expr, ...], which: Sequence[int], axis: int
) -> list[Expr | None]:
    starts = starts_of(out)
    return [slice_axis(ct, axis, starts[k], args[k].shape[axis]) for k in which]


concatenate = linear(
    "concatenate", doc="Arrays joined along an axis.", infer=_infer_concatenate, variadic=True,
    numpy=lambda args, avals, params: f"np.concatenate(({', '.join(args)},), axis={params['axis']})",
    transposes=[_concatenate_transpose],
    samples=[Sample(((-3.0, 3.0), (-3.0, 3.0)), ((2, 3), (2, 1)), {"axis": 1}),
             Sample(((-3.0, 3.0), (-3.0, 3.0), (-3.0, 3.0)), ((2,), (1,), (3,)), {"axis": 0})],
)


def _join(arrays: Sequence[Expr], axis: int) -> Expr:
    values = promoted([strengthen(a) for a in arrays])
    if len(values) == 1:
        return values[0]
    return concatenate(*values, axis=axis)


@implements(np.concatenate)
def _concatenate(
    arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = ""
) -> Expr:
    values = as_exprs(*arrays) if isinstance(arrays, (tuple, list)) else unstack(arrays)
    if axis is None:
        values, axis = [ravel(v) for v in values], 0
    if not values[0].ndim:
        raise ShapeError("arrays without axes cannot be concatenated; use np.stack")
    joined = _join(values, normalize_axis(axis, values[0].ndim))
    return joined if dtype is None else cast(joined, dtype)


@implements(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "") -> Expr:
    values = as_exprs(*arrays) if isinstance(arrays, (tuple, list)) else unstack(arrays)
    shape = values[0].shape
    if any(v.shape != shape for v in values):
        raise ShapeError(
            f"all arrays given to stack must have the same shape, not {sorted({v.shape for v in values})}"
        )
    where = normalize_axis(axis, len(shape) + 1)
    joined = _join([expand_dims(v, where) for v in values], where)
    return joined if dtype is None else cast(joined, dtype)


@implements(np.vstack)
def _vstack(arrays: Any, **_: Any) -> Expr:
    return _concatenate([FUNCTIONS[np.atleast_2d](a) for a in as_exprs(*arrays)], 0)


@implements(np.hstack)
def _hstack(arrays: Any, **_: Any) -> Expr:
    values = [FUNCTIONS[np.atleast_1d](a) for a in as_exprs(*arrays)]
    return _concatenate(values, 0 if values[0].ndim == 1 else 1)


@implements(np.column_stack)
def _column_stack(arrays: Any) -> Expr:
    return _concatenate([reshape(a, shape=(a.shape[0] if a.ndim else 1, 1)) if a.ndim < 2 else a
                         for a in as_exprs(*arrays)], 1)


@implements(np.dstack)
def _dstack(arrays: Any) -> Expr:
    return _concatenate([FUNCTIONS[np.atleast_3d](a) for a in as_exprs(*arrays)], 2)


@implements(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Expr:
    return _concatenate(as_exprs(arr, values), axis)


def unstack(x: Any, axis: int = 0) -> list[Expr]:
    """The sub-arrays along an axis."""
    value = as_exprs(x)[0]
    shape = tuple(n for k, n in enumerate(value.shape) if k != axis)
    return [reshape(slice_axis(value, axis, k, 1), shape=shape) for k in range(value.shape[axis])]


@implements(np.split, np.array_split)
def _split(x: Any, sections: Any, axis: int = 0) -> list[Expr]:
    value = as_exprs(x)[0]
    where = normalize_axis(axis, value.ndim)
    edges = [int(part.start) for part in _split_edges(value.shape[where], sections)]
    ends = [*edges[1:], value.shape[where]]
    return [slice_axis(value, where, a, max(b - a, 0)) for a, b in zip(edges, ends, strict=True)]


def _split_edges(n: int, sections: Any) -> list[range]:
    # NumPy itself says where the pieces of an array that holds its own positions begin.
    pieces = np.array_split(np.arange(n), sections)
    edges, position = [], 0
    for piece in pieces:
        position = int(piece[0]) if piece.size else position
        edges.append(range(position, position + piece.size))
        position += piece.size
    return edges


# ------------------------------------------------------------------------------------------ NumPy's names


def as_shape(shape: Any) -> Shape:
    """A shape as a tuple of ints.

    Raises
    ------
    DtypeError
        If a size is no integer.
    """
    listed = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        return tuple(n.__index__() for n in listed)
    except AttributeError as error:
        raise DtypeError(f"a shape must consist of integers, not {shape!r}") from error


@implements(np.reshape)
def _reshape(x: Any, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Expr:
    value = strengthen(as_exprs(x)[0])
    wanted = as_shape(newshape if shape is None else shape)
    if -1 in wanted:
        rest = -math.prod(wanted)
        if rest == 0 or value.aval.size % rest:
            raise ShapeError(f"an array of shape {value.shape} cannot be reshaped to {wanted}")
        wanted = tuple(value.aval.size // rest if n == -1 else n for n in wanted)
    if order == "F":
        flipped = transpose_all(value)
        return transpose_all(reshape(flipped, shape=wanted[::-1]))
    return value if wanted == value.shape else reshape(value, shape=wanted)


def _reshape_method(x: Expr, *shape: Any, order: str = "C") -> Expr:
    return _reshape(x, shape[0] if len(shape) == 1 else shape, order)


METHODS["reshape"] = _reshape_method


def transpose_all(x: Expr) -> Expr:
    """Reverse the order of the axes."""
    return x if x.ndim < 2 else transpose(x, axes=tuple(reversed(range(x.ndim))))


@implements(np.ravel, method="ravel")
def ravel(x: Any, order: str = "C") -> Expr:
    """One axis that holds all elements."""
    value = as_exprs(x)[0]
    return _reshape(value, (value.aval.size,), order)


METHODS["flatten"] = ravel


def as_line(x: Expr, axis: Any) -> tuple[Expr, Any]:
    """The array and the axis to go along: all elements as one line for None, or where there are no axes."""
    return (ravel(x), 0) if axis is None or (not x.ndim and axis in (0, -1)) else (x, axis)


@implements(np.transpose, np.permute_dims)
def _transpose(x: Any, axes: Any = None) -> Expr:
    value = as_exprs(x)[0]
    if axes is None:
        return transpose_all(value)
    order = tuple(normalize_axis(a, value.ndim) for a in axes)
    if sorted(order) != list(range(value.ndim)):
        raise ShapeError(f"axes {axes} are no permutation of the {value.ndim} axes")
    return value if order == tuple(range(value.ndim)) else transpose(value, axes=order)


def _transpose_method(x: Expr, *axes: Any) -> Expr:
    if not axes or axes == (None,):
        return transpose_all(x)
    return _transpose(x, axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes)


METHODS["transpose"] = _transpose_method


@implements(np.matrix_transpose)
def matrix_transpose(x: Any) -> Expr:
    """Exchange the last two axes."""
    return _swapaxes(x, -1, -2)


@implements(np.swapaxes, method="swapaxes")
def _swapaxes(x: Any, axis1: int, axis2: int) -> Expr:
    value = as_exprs(x)[0]
    order = list(range(value.ndim))
    a, b = normalize_axis(axis1, value.ndim), normalize_axis(axis2, value.ndim)
    order[a], order[b] = order[b], order[a]
    return _transpose(value, order)


@implements(np.moveaxis)
def _moveaxis(x: Any, source: Any, destination: Any) -> Expr:
    value = as_exprs(x)[0]
    sources = [
        normalize_axis(a, value.ndim) for a in (source if isinstance(source, (tuple, list)) else [source])
    ]
    destinations = destination if isinstance(destination, (tuple, list)) else [destination]
    targets = [normalize_axis(a, value.ndim) for a in destinations]
    order = [k for k in range(value.ndim) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return _transpose(value, order)


@implements(np.rollaxis)
def _rollaxis(x: Any, axis: int, start: int = 0) -> Expr:
    value = as_exprs(x)[0]
    origin = normalize_axis(axis, value.ndim)
    target = start + value.ndim if start < 0 else start
    return _moveaxis(value, origin, target - 1 if origin < target else target)


@implements(np.squeeze, method="squeeze")
def _squeeze(x: Any, axis: Any = None) -> Expr:
    value = as_exprs(x)[0]
    if not value.ndim and not isinstance(axis, tuple) and axis in (0, -1):
        return value
    axes = (
        [k for k, n in enumerate(value.shape) if n == 1] if axis is None else normalize_axes(axis, value.ndim)
    )
    if any(value.shape[k] != 1 for k in axes):
        raise ShapeError(f"cannot squeeze axis {axis} of an array of shape {value.shape}: its size is not 1")
    return _reshape(value, tuple(n for k, n in enumerate(value.shape) if k not in axes))


@implements(np.expand_dims)
def expand_dims(x: Any, axis: Any) -> Expr:
    """Insert axes of length 1."""
    value = as_exprs(x)[0]
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normalize_axes(tuple(listed), value.ndim + len(listed))
    sizes = iter(value.shape)
    return _reshape(value, tuple(1 if k in axes else next(sizes) for k in range(value.ndim + len(axes))))


@implements(np.broadcast_to)
def _broadcast_to(x: Any, shape: Any, subok: bool = False) -> Expr:
    value = strengthen(as_exprs(x)[0])
    wanted = as_shape(shape)
    return value if wanted == value.shape else broadcast_to(value, shape=wanted)


@implements(np.broadcast_arrays)
def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Expr, ...]:
    values = as_exprs(*arrays)
    shape = broadcast_shapes(*[v.shape for v in values])
    return tuple(_broadcast_to(v, shape) for v in values)


def _atleast(ndim: int, function: Any) -> None:
    def call(*arrays: Any) -> Any:
        results = tuple(_pad_axes(strengthen(v), ndim) for v in as_exprs(*arrays))
        return results[0] if len(results) == 1 else results

    FUNCTIONS[function] = call


def _pad_axes(x: Expr, ndim: int) -> Expr:
    if x.ndim >= ndim:
        return x
    if ndim == 3 and x.ndim:
        return _reshape(x, (1, *x.shape, 1) if x.ndim == 1 else (*x.shape, 1))
    return _reshape(x, (1,) * (ndim - x.ndim) + x.shape)


_atleast(1, np.atleast_1d)
_atleast(2, np.atleast_2d)
_atleast(3, np.atleast_3d)


@implements(np.flip)
def flip(x: Any, axis: Any = None) -> Expr:
    """Reverse the elements along axes."""
    value = as_exprs(x)[0]
    axes = normalize_axes(axis, value.ndim)
    return take_slice(
        value, starts=tuple(max(n - 1, 0) if k in axes else 0 for k, n in enumerate(value.shape)),
        sizes=value.shape,
        steps=tuple(-1 if k in axes else 1 for k in range(value.ndim)),
    ) if axes else value


@implements(np.fliplr)
def _fliplr(x: Any) -> Expr:
    return flip(x, 1)


@implements(np.flipud)
def _flipud(x: Any) -> Expr:
    return flip(x, 0)


@implements(np.rot90)
def _rot90(x: Any, k: int = 1, axes: Any = (0, 1)) -> Expr:
    value = as_exprs(x)[0]
    turns = k % 4
    if turns == 0:
        return value
    if turns == 2:
        return flip(flip(value, axes[0]), axes[1])
    if turns == 1:
        return _swapaxes(flip(value, axes[1]), axes[0], axes[1])
    return flip(_swapaxes(value, axes[0], axes[1]), axes[1])


@implements(np.roll)
def _roll(x: Any, shift: Any, axis: Any = None) -> Expr:
    value = as_exprs(x)[0]
    if axis is None:
        return _reshape(_roll(ravel(value), shift, 0), value.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    for amount, a in zip(shifts, axes, strict=True):
        value = _roll_axis(value, int(amount), normalize_axis(a, value.ndim))
    return value


def _roll_axis(x: Expr, shift: int, axis: int) -> Expr:
    n = x.shape[axis]
    k = shift % n if n else 0
    if k == 0:
        return x
    return concatenate(slice_axis(x, axis, n - k, k), slice_axis(x, axis, 0, n - k), axis=axis)


@implements(np.tile)
def _tile(x: Any, reps: Any) -> Expr:
    value = strengthen(as_exprs(x)[0])
    counts = as_shape(reps)
    ndim = max(len(counts), value.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    sizes = (1,) * (ndim - value.ndim) + value.shape
    paired = _reshape(value, tuple(m for n in sizes for m in (1, n)))
    spread = _broadcast_to(paired, tuple(m for c, n in zip(counts, sizes, strict=True) for m in (c, n)))
    return _reshape(spread, tuple(c * n for c, n in zip(counts, sizes, strict=True)))


@implements(np.repeat, method="repeat")
def _repeat(x: Any, repeats: Any, axis: int | None = None) -> Expr:
    value, axis = as_line(strengthen(as_exprs(x)[0]), axis)
    where = normalize_axis(axis, value.ndim)
    counts = np.asarray(repeats)
    if counts.size == 1:
        k = int(counts.reshape(())) if counts.ndim == 0 else int(counts[0])
        wide = expand_dims(value, where + 1)
        spread = _broadcast_to(wide, tuple(k if d == where + 1 else n for d, n in enumerate(wide.shape)))
        return _reshape(spread, tuple(n * k if d == where else n for d, n in enumerate(value.shape)))
    return FUNCTIONS[np.take](
        value, np.repeat(np.arange(value.shape[where]), counts), where
    )


@implements(np.copy, method="copy")
def _copy(x: Any, order: str = "K", subok: bool = False) -> Expr:
    return as_exprs(x)[0]
