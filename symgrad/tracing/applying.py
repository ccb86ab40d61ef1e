"""NumPy functions that call back: vectorize, apply_along_axis, piecewise and the like; and walks over elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..ops.define import FUNCTIONS, UFUNCS, as_exprs
from .creating import array, asarray
from .mathematics import is_traced
from .number_types import real_type
from .refusing import refuse
from .tables import IN_PLACE
from .tracer import ArrayTracer, Tracer, record


def _stacked(values: list[Any], shape: tuple[int, ...]) -> Any:
    """Results for single elements as one array; of the dtype of the first, as np.vectorize has it."""
    first = array(values[0])
    made = array(values, first.dtype)
    return np.reshape(made, shape + tuple(first.shape))


def _scalars(values: tuple[Any, ...]) -> tuple[tuple[int, ...], list[tuple[Any, ...]]]:
    """The common shape of the arguments, and their elements as Python numbers."""
    arrays = [v if isinstance(v, Tracer) else asarray(v) for v in values]
    shape = np.broadcast_shapes(*[np.shape(a) for a in arrays])
    spread = [np.broadcast_to(a, shape) for a in arrays]
    return shape, [tuple([_element(a, i) for a in spread]) for i in np.ndindex(shape)]


def _element(a: Any, index: tuple[int, ...]) -> Any:
    found = a[index] if index else a
    return found.item() if hasattr(found, "item") else found


class Vectorized:
    """Stands for an object of ``np.vectorize``: the function is called for each element."""

    def __init__(
        self, pyfunc: Any = None, otypes: Any = None, doc: str | None = None, excluded: Any = None,
        cache: bool = False, signature: str | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.otypes = otypes
        self._plain = excluded is None and signature is None
        self._options = {"otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is None:  # used as a decorator with options
            return Vectorized(*args, **self._options)
        if not self._plain or kwargs:
            if is_traced(args, kwargs):
                refuse("np.vectorize with excluded=, signature= or keywords cannot be traced", "Write the loop.")
            return np.vectorize(self.pyfunc, **self._options)(*args, **kwargs)
        shape, elements = _scalars(args)
        if not elements:
            return np.vectorize(self.pyfunc, **self._options)(*args)
        results = [self.pyfunc(*e) for e in elements]
        if isinstance(results[0], tuple):
            return tuple([self._typed([r[k] for r in results], shape, k) for k in range(len(results[0]))])
        return self._typed(results, shape, 0)

    def _typed(self, results: list[Any], shape: tuple[int, ...], k: int) -> Any:
        made = _stacked(results, shape)
        return made if self.otypes is None else made.astype(list(self.otypes)[k])


def frompyfunc(func: Any, nin: int, nout: int, **kwargs: Any) -> Callable[..., Any]:
    """``np.frompyfunc``: the function is called for each element; results are numbers, not objects."""
    plain = np.frompyfunc(func, nin, nout, **kwargs)

    def call(*args: Any) -> Any:
        if not is_traced(*args):
            return plain(*args)
        shape, elements = _scalars(args)
        results = [func(*e) for e in elements]
        if nout == 1:
            return _stacked(results, shape)
        return tuple([_stacked([r[k] for r in results], shape) for k in range(nout)])

    return call


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """``np.apply_along_axis``: the function is called for each line."""
    lines = np.moveaxis(asarray(arr), axis, -1)
    lead = lines.shape[:-1]
    results = [array(func1d(lines[i], *args, **kwargs)) for i in np.ndindex(lead)]
    made = np.reshape(array(results), lead + tuple(np.shape(results[0])))
    for k in range(np.ndim(results[0])):
        made = np.moveaxis(made, len(lead) + k, axis % np.ndim(arr) + k)
    return made


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """``np.apply_over_axes``: the function is called for each axis."""
    for axis in (axes,) if np.ndim(axes) == 0 else axes:
        made = func(a, axis)
        a = made if np.ndim(made) == np.ndim(a) else np.expand_dims(made, axis)
    return a


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """``np.piecewise``: every function is called for all elements, the conditions choose."""
    values = asarray(x)
    listed = condlist if isinstance(condlist, (list, tuple)) and not np.isscalar(condlist[0]) else [condlist]
    conditions = [asarray(c) for c in listed]
    made = np.zeros_like(values)
    if len(funclist) == len(conditions) + 1:
        otherwise = funclist[-1]
        made = made + _piece(otherwise, values, args, kw)
    for condition, piece in zip(conditions, funclist, strict=False):
        made = np.where(condition, _piece(piece, values, args, kw), made)
    return made.astype(values.dtype)


def _piece(piece: Any, x: Any, args: Any, kw: Any) -> Any:
    return piece(x, *args, **kw) if callable(piece) else piece


def fromiter(iter: Any, dtype: Any = None, count: int = -1, **kwargs: Any) -> Any:
    """``np.fromiter``: elements may be traced values."""
    listed = [v for _, v in zip(range(count), iter, strict=False)] if count >= 0 else list(iter)
    return array(listed, dtype)


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """``np.fromfunction``: the function is called with arrays of indices."""
    grid = np.indices(shape, real_type(dtype))
    return function(*[array(g) for g in grid], **kwargs)


def ndenumerate(arr: Any) -> Iterator[Any]:
    """``np.ndenumerate``: positions and elements."""
    values = asarray(arr)
    return iter([(i, values[i]) for i in np.ndindex(np.shape(values))])


def nditer(op: Any, *args: Any, **kwargs: Any) -> Any:
    """``np.nditer`` of one traced array without options: its elements."""
    if not is_traced(op):
        return np.nditer(op, *args, **kwargs)
    if args or kwargs or not isinstance(op, ArrayTracer):
        refuse("np.nditer with options cannot be traced", "Write the loop with np.ndindex(x.shape).")
    return iter([op[i] for i in np.ndindex(op.shape)])


APPLY: dict[str, Any] = {
    "vectorize": Vectorized, "frompyfunc": frompyfunc, "apply_along_axis": apply_along_axis,
    "apply_over_axes": apply_over_axes, "piecewise": piecewise, "fromiter": fromiter, "ndenumerate": ndenumerate,
    "nditer": nditer, "fromfunction": fromfunction,
}  # fmt: skip
"""What becomes of them in traced functions, by NumPy's names."""

# ------------------------------------------------------------------------------------------ grids


def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``np.meshgrid``: coordinates of all points of a grid."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    axes = list(range(len(xi)))
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    lines = [np.reshape(asarray(x), _along(axis, len(xi))) for x, axis in zip(xi, axes, strict=True)]
    shape = np.broadcast_shapes(*[np.shape(line) for line in lines])
    # Copies: a grid can be written to without changing the coordinates.
    grids = [line if sparse else np.broadcast_to(line, shape) for line in lines]
    return tuple([g.copy() if copy else g for g in grids])


def _ix(*args: Any) -> Any:
    """``np.ix_``: indices that choose rows and columns at once; masks are asked for their elements."""
    made = []
    for k, arg in enumerate(args):
        index = asarray(arg)
        if index.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if index.dtype == np.dtype(bool):
            index = np.nonzero(index)[0]
        made.append(np.reshape(index if index.size else index.astype(np.intp), _along(k, len(args))))
    return tuple(made)


def _along(axis: int, count: int) -> tuple[int, ...]:
    return tuple([-1 if k == axis else 1 for k in range(count)])


IN_PLACE.update({np.meshgrid: _meshgrid, np.ix_: _ix})

# ------------------------------------------------------------------------------------------ comparing, sorting out


def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    x, y = as_exprs(a, b)
    near = _AND(_FINITE(y), _LESS(_ABS(x - y), atol + rtol * _ABS(y)))
    made = _OR(near, _EQUAL(x, y))
    return _OR(made, _AND(_NAN(x), _NAN(y))) if equal_nan else made


_AND, _OR, _LESS, _ABS, _EQUAL, _FINITE, _NAN = [UFUNCS[f.__name__] for f in (
    np.logical_and, np.logical_or, np.less_equal, np.absolute, np.equal, np.isfinite, np.isnan,
)]  # fmt: skip


def _close(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    return record(_isclose, (a, b, rtol, atol, equal_nan))


def _allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    return bool(record(FUNCTIONS[np.all], (record(_isclose, (a, b, rtol, atol, equal_nan)),)))


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    if np.shape(a1) != np.shape(a2):
        return False
    same = record(_isclose, (a1, a2, 0, 0, True)) if equal_nan else record(_EQUAL, (a1, a2))
    return bool(np.all(same))


def _array_equiv(a1: Any, a2: Any) -> bool:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return bool(np.all(record(_EQUAL, (a1, a2))))


def _unique(ar: Any, *args: Any, **kwargs: Any) -> Any:
    """Sorted values without repetitions: which are repeated is decided on the data."""
    if args or any(v is not False and v is not None for k, v in kwargs.items() if k not in ("equal_nan", "sorted")):
        refuse("np.unique with options cannot be traced", "Call it without, or outside of the traced function.")
    line = np.sort(np.ravel(ar))
    if line.shape[0] < 2:
        return line
    return line[np.concatenate([[True], line[1:] != line[:-1]])]


IN_PLACE.update({
    np.isclose: _close, np.allclose: _allclose, np.array_equal: _array_equal, np.array_equiv: _array_equiv,
    np.unique: _unique,
})  # fmt: skip
