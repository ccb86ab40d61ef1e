"""NumPy functions and methods that write to an array instead of returning one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.origin import user_origin
from ..ops.comparison import as_condition
from ..ops.define import FUNCTIONS, METHODS, cast, lift
from ..ops.indexing import scatter_add
from .keys import has_expr
from .refusing import refuse
from .tables import IN_PLACE, IN_PLACE_METHODS, IN_PLACE_UFUNC, VIEW_METHODS, VIEWS
from .tracer import ArrayTracer, Tracer, asked_key, decided_mask, record, unwrap, wrap

VIEWS.update({
    np.reshape, np.ravel, np.transpose, np.permute_dims, np.swapaxes, np.moveaxis, np.rollaxis, np.squeeze,
    np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip, np.fliplr, np.flipud, np.rot90,
    np.split,
    np.array_split, np.matrix_transpose,
})  # fmt: skip
VIEW_METHODS.update(f.__name__ for f in (np.reshape, np.ravel, np.transpose, np.swapaxes, np.squeeze))


def add_at(ufunc: np.ufunc, x: Any, indices: Any, *values: Any) -> None:
    """``np.add.at`` and ``np.subtract.at``: unbuffered, so that repeated positions add up."""
    if ufunc not in (np.add, np.subtract) or not isinstance(x, ArrayTracer):
        refuse(
            f"np.{ufunc.__name__}.at cannot be traced"
            f"{'' if isinstance(x, ArrayTracer) else ' on this array'}",
            "np.add.at and np.subtract.at on arrays created inside the function can.",
        )
    key = asked_key(indices)
    x.expr.table.origin = user_origin(2)
    (value,) = values
    new = lift(unwrap(value), x.expr.table)
    spot = METHODS["__getitem__"](x.expr, key)
    spread = FUNCTIONS[np.broadcast_to](cast(new, x.dtype), spot.shape)
    # The adjoint of reading there is adding there.
    added = adjoint_of_getitem(x.expr, key, spread)
    x.overwrite(wrap(x.expr + added if ufunc is np.add else x.expr - added))


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
    return FUNCTIONS[np.reshape](summed, x.shape)  # type: ignore[no-any-return]


def _target(x: Any, name: str) -> ArrayTracer:
    if not isinstance(x, ArrayTracer):
        refuse(
            f"{name} writes a traced value into an array that is not traced",
            "Create the array inside the function with symgrad.numpy (import symgrad.numpy as np).",
        )
    return x


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _target(dst, "np.copyto")
    if where is True:
        target.overwrite(src)
    else:
        target.overwrite(record(FUNCTIONS[np.where], (where, src, target)))


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = _target(a, "np.put")
    flat = target.reshape(-1)
    places = np.ravel(np.asarray(ind))
    values = (
        record(FUNCTIONS[np.broadcast_to], (v, places.shape))
        if np.ndim(v) == 0 else record(FUNCTIONS[np.ravel], (v,))
    )
    repeated = record(FUNCTIONS[np.take], (values, np.arange(len(places)) % values.shape[0], 0))
    flat[places] = repeated
    if flat._memory is not target._memory:
        target.overwrite(flat.reshape(target.shape))


def _putmask(a: Any, mask: Any, values: Any) -> None:
    target = _target(a, "np.putmask")
    target.overwrite(record(FUNCTIONS[np.where], (mask, values, target)))


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = _target(a, "np.fill_diagonal")
    n = min(target.shape)
    target[(np.arange(n),) * target.ndim] = val


def _fill(self: ArrayTracer, value: Any) -> None:
    self.overwrite(value)


def _sort(self: ArrayTracer, axis: int = -1, **kwargs: Any) -> None:
    self.overwrite(record(FUNCTIONS[np.sort], (self, axis), kwargs))


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
    np.copyto: _copyto, np.put: _put, np.putmask: _putmask, np.place: _putmask,
    np.fill_diagonal: _fill_diagonal,
})  # fmt: skip
IN_PLACE_METHODS.update({"fill": _fill, "sort": _sort, "put": _put})
IN_PLACE_UFUNC["at"] = add_at
