"""NumPy functions and methods that write to an array instead of returning one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.origin import user_origin
from ..ops.comparison import as_condition
from ..ops.define import FUNCTIONS, METHODS, UFUNCS, cast, lift
from ..ops.indexing import scatter_add
from ..ops.shaping import reshape
from .deciding import decided_mask
from .keys import has_expr
from .refusing import refuse
from .tables import IN_PLACE, IN_PLACE_METHODS, IN_PLACE_UFUNC, VIEW_METHODS, VIEWS
from .tracer import ArrayTracer, Tracer, asked_key, record, unwrap, wrap
from .values import tracer_free
from .views import grid

VIEWS.update({
    np.reshape, np.transpose, np.permute_dims, np.swapaxes, np.moveaxis, np.rollaxis, np.squeeze,
    np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip, np.fliplr, np.flipud, np.rot90,
    np.split,
    np.array_split, np.matrix_transpose,
})  # fmt: skip
VIEW_METHODS.update(f.__name__ for f in (np.reshape, np.transpose, np.swapaxes, np.squeeze))


ROUNDS = 32
"""So many times the same position may occur in ``ufunc.at`` for the writes to be done one after the other."""


def at(ufunc: np.ufunc, x: Any, indices: Any, *values: Any) -> None:
    """``np.add.at`` and relatives: unbuffered, so that each occurrence of a position counts."""
    name = f"np.{ufunc.__name__}.at"
    target = _target(x, name)
    key = asked_key(indices, masks=True)
    table = target.expr.table
    table.origin = user_origin(2)
    given = [lift(unwrap(v), table) for v in values]
    if not has_expr(key):
        places = np.asarray(grid(target.shape)[key])
        rounds = _occurrences(places.ravel())
        if rounds.max(initial=0) < ROUNDS:
            spread = [wrap(FUNCTIONS[np.ravel](FUNCTIONS[np.broadcast_to](v, places.shape))) for v in given]
            _at_in_turn(ufunc, target, places.ravel(), rounds, spread)
            return
    if ufunc not in (np.add, np.subtract):
        refuse(
            f"{name} cannot be traced at positions that depend on data, or repeat many times",
            "np.add.at and np.subtract.at can; or sort the positions and use np.where.",
        )
    spot = METHODS["__getitem__"](target.expr, key)
    # The adjoint of reading there is adding there.
    added = adjoint_of_getitem(
        target.expr, key, FUNCTIONS[np.broadcast_to](cast(given[0], target.dtype), spot.shape)
    )
    target.overwrite(wrap(target.expr + added if ufunc is np.add else target.expr - added))


def _occurrences(places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For each position how often it has occurred before."""
    seen: dict[int, int] = {}
    found = np.zeros(len(places), np.int64)
    for k, place in enumerate(places.tolist()):
        found[k] = seen.get(place, 0)
        seen[place] = found[k] + 1
    return found


def _at_in_turn(
    ufunc: np.ufunc, x: ArrayTracer, places: np.ndarray[Any, Any], rounds: np.ndarray[Any, Any], values: list[Any]
) -> None:
    for turn in range(int(rounds.max(initial=-1)) + 1):
        chosen = np.flatnonzero(rounds == turn)
        key = np.unravel_index(places[chosen], x.shape)
        old = x[key]
        new = record(UFUNCS[ufunc.__name__], (old, *[v[chosen] for v in values]))
        if not np.can_cast(new.dtype, x.dtype, "same_kind"):
            raise TypeError(f"np.{ufunc.__name__}.at gives {new.dtype}, which does not fit into {x.dtype}")
        x[key] = new


def adjoint_of_getitem(x: Expr, key: Any, value: Expr) -> Expr:
    """Zeros with ``value`` added where ``x[key]`` reads."""
    flat = np.arange(x.aval.size).reshape(x.shape)
    if has_expr(key):
        positions = METHODS["__getitem__"](x.table.constant(flat), key)
    else:
        positions = x.table.constant(np.asarray(flat[key]))
    line = FUNCTIONS[np.reshape](value, (value.aval.size,))
    where_ = FUNCTIONS[np.reshape](positions, (value.aval.size,))
    summed = scatter_add(line, where_, shape=(x.aval.size,), axes=(0,))
    return FUNCTIONS[np.reshape](summed, x.shape)  # type: ignore[no-any-return]  # registry


def _target(x: Any, name: str) -> Any:
    if not hasattr(type(x), "overwrite"):
        refuse(
            f"{name} writes a traced value into an array that is not traced",
            "Create the array inside the function with symgrad.numpy (import symgrad.numpy as np).",
        )
    return x


def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    target = _target(dst, "np.copyto")
    new = record(lift, (src, target.expr.table))
    if not np.can_cast(new.dtype, target.dtype, casting) and not new.expr.aval.weak:
        raise TypeError(f"cannot cast array data from {new.dtype} to {target.dtype} by the rule {casting!r}")
    new = record(cast, (new, target.dtype))
    target.overwrite(new if where is True else record(FUNCTIONS[np.where], (where, new, target)))


def _repeated(values: Any, count: int, target: ArrayTracer) -> Any:
    """A line of ``count`` values that are taken again from the start where there are not enough."""
    if tracer_free(values):
        values = np.asarray(values, target.dtype)
    line = record(lambda v: reshape(v, shape=(v.aval.size,)), (record(lift, (values, target.expr.table)),))
    if line.size == count:
        return line
    if not line.size and count:
        raise ValueError("there are no values to write")
    return line[np.arange(count) % max(line.size, 1)]


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = _target(a, "np.put")
    if isinstance(ind, Tracer):
        places = record(FUNCTIONS[np.ravel], (ind,))
        if mode != "raise":
            n = target.size
            places = np.clip(places, 0, n - 1) if mode == "clip" else places % n
    else:
        places = np.ravel(np.asarray(ind))
        if mode != "raise":
            places = np.clip(places, 0, target.size - 1) if mode == "clip" else places % target.size
    Flat(target)[places] = _repeated(v, places.size, target)


def _putmask(a: Any, mask: Any, values: Any) -> None:
    target = _target(a, "np.putmask")
    new = record(FUNCTIONS[np.reshape], (_repeated(values, target.size, target), target.shape))
    target.overwrite(record(FUNCTIONS[np.where], (mask, record(cast, (new, target.dtype)), target)))


def _place(arr: Any, mask: Any, vals: Any) -> None:
    target = _target(arr, "np.place")
    places = np.flatnonzero(_as_mask(mask))
    if len(places):
        Flat(target)[places] = _repeated(vals, len(places), target)


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    target = _target(arr, "np.put_along_axis")
    if axis is None:
        Flat(target)[indices] = values
        return
    axis %= target.ndim
    lines = [np.arange(n).reshape(tuple(-1 if k == d else 1 for k in range(target.ndim)))
             for d, n in enumerate(target.shape)]
    target[tuple(indices if d == axis else line for d, line in enumerate(lines))] = values


class Flat(ArrayTracer):
    """``x.flat``: the elements in order as one line, also where that is no view."""

    __slots__ = ("_of",)

    def __init__(self, of: ArrayTracer) -> None:
        made = record(FUNCTIONS[np.reshape], (of, -1))
        super().__init__(made.expr)
        self._of = of
        if not of.memory().layout[1]:
            made = of.shared(made)
            self._memory, self._steps, self._seen = made._memory, made._steps, made._seen

    def __setitem__(self, key: Any, value: Any) -> None:
        size = np.size(np.empty(self.size, np.int8)[key]) if not has_expr(unwrap(key)) else None
        if size is not None and np.ndim(value):
            value = _repeated(value, size, self._of)
        super().__setitem__(key, value)
        if self._memory is not self._of._memory:
            self._of.overwrite(record(FUNCTIONS[np.reshape], (self, self._of.shape)))


def _set_flat(of: ArrayTracer, value: Any) -> None:
    Flat(of)[:] = _repeated(value, of.size, of)


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = _target(a, "np.fill_diagonal")
    if target.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if target.ndim > 2 and len(set(target.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    places = np.arange(target.size).reshape(target.shape)
    # NumPy itself says which elements: tall matrices may be filled again below.
    marked = np.zeros(target.shape, bool)
    np.fill_diagonal(marked, True, wrap)
    chosen = places[marked]
    Flat(target)[chosen] = _repeated(val, len(chosen), target)


def _fill(self: ArrayTracer, value: Any) -> None:
    if np.ndim(value):
        raise ValueError("an array is filled with a single value")
    self[...] = value


def _sort(self: ArrayTracer, axis: int = -1, **kwargs: Any) -> None:
    self.overwrite(record(FUNCTIONS[np.sort], (self, axis), kwargs))


def _method_put(self: ArrayTracer, indices: Any, values: Any, mode: str = "raise") -> None:
    _put(self, indices, values, mode)


def _as_mask(x: Any) -> Any:
    """The truth of the elements, known from here on."""
    if not isinstance(x, Tracer):
        return np.asarray(x).astype(bool)
    return decided_mask(record(as_condition, (x,)).expr)


def _nonzero(a: Any) -> tuple[Any, ...]:
    return np.nonzero(_as_mask(a))


def _flatnonzero(a: Any) -> Any:
    return np.flatnonzero(_as_mask(a))


def _argwhere(a: Any) -> Any:
    return np.argwhere(_as_mask(a))


def _where(condition: Any, *branches: Any, **named: Any) -> Any:
    if not branches and not named:
        return _nonzero(condition)
    return record(FUNCTIONS[np.where], (condition, *branches), named)


def _compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    return np.take(np.ravel(a) if axis is None else a, np.flatnonzero(_as_mask(condition)), axis=axis or 0)


def _extract(condition: Any, arr: Any) -> Any:
    return np.take(np.ravel(arr), np.flatnonzero(_as_mask(condition)))


IN_PLACE.update({
    np.nonzero: _nonzero, np.flatnonzero: _flatnonzero, np.argwhere: _argwhere, np.where: _where,
    np.compress: _compress, np.extract: _extract,
})  # fmt: skip
IN_PLACE_METHODS["nonzero"] = _nonzero
IN_PLACE.update({
    np.copyto: _copyto, np.put: _put, np.putmask: _putmask, np.place: _place,
    np.fill_diagonal: _fill_diagonal, np.put_along_axis: _put_along_axis,
})  # fmt: skip
IN_PLACE_METHODS.update({
    "fill": _fill, "sort": _sort, "put": _method_put, "flat": Flat, "set flat": _set_flat,
})  # fmt: skip
IN_PLACE_UFUNC["at"] = at
