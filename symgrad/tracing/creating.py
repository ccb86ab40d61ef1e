"""NumPy's creation functions inside a traced function: arrays that can hold traced values and be written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.expr import Expr, InternTable
from ..core.pytree import flatten
from ..ops.define import FUNCTIONS, cast, lift
from ..ops.shaping import broadcast_to
from .folding import known_array
from .looking_through import contiguous
from .state import Trace, active_trace
from .tracer import ArrayTracer, Tracer, record, with_memory, wrap

LARGE = 4096
"""Known arrays of more elements are read from memory instead of being written into the program."""


def constant(array: np.ndarray[Any, Any], trace: Trace, shared: bool = False) -> Any:
    """A traced array that holds known values and can be written to; a ``shared`` one may change outside."""
    table = trace.table
    if array.size <= LARGE:
        return ArrayTracer(table.constant(array, array.dtype))
    first = array.flat[0]
    if (array == first).all():
        return wrap(broadcast_to(table.constant(first, array.dtype), shape=array.shape))
    is_own = not shared and array.flags.owndata
    return wrap(known_array(array, table) if is_own else table.capture(array))


def is_numeric(array: Any) -> bool:
    """True for an array that can be traced."""
    # A tracer says that it is an array, too.
    return (
        issubclass(type(array), np.ndarray)
        and array.dtype.kind in "fiub"
        and array.dtype.itemsize <= 8
    )


def _dtype(dtype: Any) -> Any:
    return getattr(dtype, "real_type", dtype)


def _creator(name: str) -> Callable[..., Any]:
    """A creation function whose arguments are known while tracing."""
    plain = getattr(np, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        made = plain(*[_known(_dtype(a)) for a in args], **{k: _known(_dtype(v)) for k, v in kwargs.items()})
        return constant(made, trace) if trace is not None and is_numeric(made) else made

    call.__name__ = name
    return call


def _known(value: Any) -> Any:
    """Traced sizes and ends are asked for their value, as Python would."""
    if isinstance(value, Tracer) and not value.shape:
        return int(value) if value.dtype.kind in "iub" else _number(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_known(v) for v in value])
    return value


def joined(value: Any) -> Any:
    """A list or tuple that holds traced values as the array that NumPy would make of it."""
    return array(value) if isinstance(value, (list, tuple)) and _has_tracer(value) else value


def _number(value: Tracer) -> Any:
    plain = value.expr.value
    return plain.item() if plain is not None else value


def array(object: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """``np.array``: elements may be traced values."""
    trace = active_trace()
    dtype = _dtype(dtype)
    if trace is None or not _has_tracer(object):
        made = np.array(object, dtype=dtype, **kwargs)
        return constant(made, trace) if trace is not None and is_numeric(made) else made
    if isinstance(object, Tracer) and not kwargs.get("copy", True) and kwargs.get("ndmin", 0) <= object.ndim:
        return asarray(object, dtype)
    if dtype is not None and np.dtype(dtype) == _OBJECT:
        # The elements are traced one by one in any case.
        dtype = None
    return with_memory(record(_array, (object, dtype, kwargs.get("ndmin", 0))))


_OBJECT = np.dtype(object)


def _has_tracer(value: Any) -> bool:
    if isinstance(value, Tracer):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(isinstance(v, Tracer) for v in value.flat)
    return any(isinstance(leaf, Tracer) or _has_object_array(leaf) for leaf in flatten(value)[0])


def _has_object_array(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == object
        and any(isinstance(v, Tracer) for v in value.flat)
    )


def _array(value: Any, dtype: Any, ndmin: int) -> Expr:
    trace = active_trace()
    assert trace is not None
    made = _nested(value, trace.table)
    if made.aval.weak or dtype is not None:
        made = cast(made, made.dtype if dtype is None else dtype)
    missing = ndmin - made.ndim
    return FUNCTIONS[np.reshape](made, (1,) * missing + made.shape) if missing > 0 else made


def _nested(value: Any, table: InternTable) -> Expr:
    if isinstance(value, (list, tuple)):
        if not value:
            return table.constant(np.zeros(0))
        return FUNCTIONS[np.stack]([_nested(v, table) for v in value])  # type: ignore[no-any-return]  # registry
    return lift(value, table)


def asarray(a: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """``np.asarray``: a traced array of the dtype is returned as it is."""
    dtype = _dtype(dtype)
    if isinstance(a, ArrayTracer):
        return a if dtype is None or a.dtype == np.dtype(dtype) else a.astype(dtype)
    if isinstance(a, np.ndarray) and active_trace() is not None and is_numeric(a):
        return record(lambda x: x, (a,))
    return array(a, dtype)


def _contiguous(order: str) -> Callable[..., Any]:
    """``np.ascontiguousarray`` or ``np.asfortranarray``: the array itself where it is laid out so already."""

    def call(a: Any, dtype: Any = None, **kwargs: Any) -> Any:
        made = asarray(a, dtype)
        if isinstance(made, Tracer) and not made.shape:
            return np.reshape(made, (1,))
        return contiguous(made, order) if isinstance(made, ArrayTracer) else made

    return call


def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """``np.full`` with a value that may be traced."""
    fill_value = joined(fill_value)
    if not isinstance(fill_value, Tracer):
        return _FULL(shape, fill_value, dtype, **kwargs)
    value = fill_value.astype(_dtype(dtype)) if dtype is not None else fill_value
    return np.copy(np.broadcast_to(value, _known(shape)))


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``np.linspace`` between ends that may be traced."""
    start, stop, count = joined(_known(start)), joined(_known(stop)), _known(num)
    if not _has_tracer((start, stop)):
        return _LINSPACE(start, stop, count, endpoint, retstep, _dtype(dtype), axis)
    step = (stop - start) / max(count - 1 if endpoint else count, 1)
    ndim = max(np.ndim(start), np.ndim(stop))
    places = np.arange(count, dtype=float).reshape((count,) + (1,) * ndim)
    points = start + places * step
    if endpoint and count > 1:
        # The last point is the end itself, not a rounded sum.
        last = np.expand_dims(
            np.broadcast_to(stop, points.shape[1:]) if isinstance(stop, Tracer) else _filled(stop, points), 0
        )
        points = np.concatenate([points[:-1], last])
    points = np.moveaxis(points, 0, axis) if axis else points
    points = points if dtype is None else points.astype(_dtype(dtype))
    return (points, step) if retstep else points


def _filled(value: Any, like: ArrayTracer) -> Any:
    return record(lambda x: broadcast_to(lift(value, x.table), shape=x.shape[1:]), (like,))


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``np.logspace`` between exponents that may be traced."""
    start, stop, base = joined(start), joined(stop), joined(base)
    if not _has_tracer((start, stop, base)):
        return _LOGSPACE(start, stop, num, endpoint, base, _dtype(dtype), axis)
    return np.power(base, linspace(start, stop, num, endpoint, axis=axis))


def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """``np.geomspace`` between ends that may be traced."""
    start, stop = joined(start), joined(stop)
    if not _has_tracer((start, stop)):
        return _GEOMSPACE(start, stop, num, endpoint, _dtype(dtype), axis)
    return np.exp(linspace(np.log(start), np.log(stop), num, endpoint, axis=axis))


def block(arrays: Any) -> Any:
    """``np.block`` of nested lists whose parts may be traced."""
    if not _has_tracer(arrays):
        return np.block(arrays)
    depth = _depth(arrays)
    ndim = max(depth, *[np.ndim(leaf) for leaf in flatten(arrays)[0]])
    return _blocks(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _blocks(arrays: Any, depth: int, ndim: int) -> Any:
    if isinstance(arrays, list):
        return np.concatenate([_blocks(a, depth - 1, ndim) for a in arrays], axis=-depth)
    value = array(arrays)
    return value.reshape((1,) * (ndim - np.ndim(value)) + np.shape(value))


def isscalar(element: Any) -> bool:
    """``np.isscalar``: a traced scalar is one."""
    return not isinstance(element, ArrayTracer) if isinstance(element, Tracer) else np.isscalar(element)


def _scalar(x: Expr) -> Expr:
    return FUNCTIONS[np.reshape](x, ())  # type: ignore[no-any-return]  # registry


_FULL, _LINSPACE, _LOGSPACE, _GEOMSPACE = map(_creator, ("full", "linspace", "logspace", "geomspace"))
CREATE: dict[str, Callable[..., Any]] = {
    **{name: _creator(name) for name in (
        "zeros", "ones", "empty", "arange", "eye", "identity", "tri", "fromiter", "indices", "vander", "bartlett",
        "blackman", "hamming", "hanning", "kaiser", "meshgrid", "ogrid", "mgrid", "frombuffer", "fromstring",
    ) if callable(getattr(np, name))},
    "array": array, "asarray": asarray, "asanyarray": asarray,
    "ascontiguousarray": _contiguous("C"), "asfortranarray": _contiguous("F"),
    "asarray_chkfinite": asarray, "full": full, "linspace": linspace, "logspace": logspace, "geomspace": geomspace,
    "block": block, "isscalar": isscalar, "scalar": _scalar,
}  # fmt: skip
"""The creation functions that traced functions see, by NumPy's names."""

__all__ = [
    "CREATE",
    "LARGE",
    "array",
    "asarray",
    "block",
    "constant",
    "full",
    "geomspace",
    "linspace",
    "logspace",
]
