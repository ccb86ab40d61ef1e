"""Functions that create arrays, also from traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.pytree import flatten
from ..ops.define import FUNCTIONS, as_exprs, cast, lift
from ..tracing.tracer import Tracer, record


def _is_traced(*values: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in flatten(values)[0])


def array(object: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """Create an array; elements may be traced values.

    Parameters
    ----------
    object
        Nested lists and tuples of numbers, arrays and traced values.
    dtype
        Dtype of the result; by default the common dtype of the elements.
    **kwargs
        As for :func:`numpy.array`, where nothing is traced.

    Raises
    ------
    ShapeError
        If the nested parts have different shapes.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda x: np.sum(np.array([x, x**2])))(3.0)
    7.0
    """
    if not _is_traced(object):
        return np.array(object, dtype=dtype, **kwargs)
    ndmin = kwargs.get("ndmin", 0)
    return record(_array, (object, dtype, ndmin))


def _array(value: Any, dtype: Any, ndmin: int) -> Expr:
    table = as_exprs(*flatten(value)[0])[0].table
    made = FUNCTIONS[np.copy](_nested(value, table))
    if made.aval.weak or dtype is not None:
        made = cast(made, made.dtype if dtype is None else dtype)
    missing = ndmin - made.ndim
    return (  # type: ignore[no-any-return]
        FUNCTIONS[np.reshape](made, (1,) * missing + made.shape) if missing > 0 else made
    )


def _nested(value: Any, table: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return FUNCTIONS[np.stack]([_nested(v, table) for v in value])
    return lift(value, table)


def asarray(a: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """Turn something into an array; traced arrays are returned as they are.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda x: np.sum(np.asarray(x) ** 2))(3.0)
    6.0
    """
    return array(a, dtype) if _is_traced(a) else np.asarray(a, dtype=dtype, **kwargs)


asanyarray = asarray
ascontiguousarray = asarray


def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """Create an array filled with a value, which may be traced.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda x: np.sum(np.full((2, 2), x)))(3.0)
    4.0
    """
    if not _is_traced(fill_value):
        return np.full(shape, fill_value, dtype=dtype, **kwargs)
    return np.broadcast_to(array(fill_value, dtype), shape)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, **kwargs: Any
) -> Any:
    """Create evenly spaced numbers between two ends, which may be traced.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda b: np.sum(np.linspace(0.0, b, 5)))(1.0)
    2.5
    """
    if not _is_traced(start, stop):
        plain: Any = np.linspace
        return plain(start, stop, num, endpoint, retstep, **kwargs)
    axis, dtype = kwargs.get("axis", 0), kwargs.get("dtype")
    first, last = array(start), array(stop)
    step = (last - first) / max(num - 1 if endpoint else num, 1)
    places = np.arange(num, dtype=float).reshape((num,) + (1,) * max(first.ndim, last.ndim))
    points = first + places * step
    if endpoint and num > 1:
        # The last point is the end itself, not a rounded sum.
        points = np.concatenate([points[:-1], np.expand_dims(np.broadcast_to(last, points.shape[1:]), 0)])
    points = np.moveaxis(points, 0, axis)
    points = points if dtype is None else points.astype(dtype)
    return (points, step) if retstep else points


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, **kwargs: Any
) -> Any:
    """Create powers of ``base`` with evenly spaced exponents, whose ends may be traced.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda b: np.logspace(0.0, b, 3)[0])(1.0)
    0.0
    """
    if not _is_traced(start, stop, base):
        return np.logspace(start, stop, num, endpoint, base, **kwargs)
    return np.power(base, linspace(start, stop, num, endpoint, **kwargs))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, **kwargs: Any) -> Any:
    """Create numbers in geometric progression between two positive ends, which may be traced.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda b: np.geomspace(1.0, b, 3)[1])(4.0)
    0.25
    """
    if not _is_traced(start, stop):
        return np.geomspace(start, stop, num, endpoint, **kwargs)
    return np.exp(linspace(np.log(start), np.log(stop), num, endpoint, **kwargs))


def block(arrays: Any) -> Any:
    """Assemble an array from nested lists of blocks, which may be traced.

    Examples
    --------
    >>> import symgrad as sg, symgrad.numpy as np
    >>> sg.grad(lambda x: np.sum(np.block([[x, 1.0], [2.0, x]]) ** 2))(3.0)
    12.0
    """
    if not _is_traced(arrays):
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
