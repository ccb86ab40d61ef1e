"""NumPy functions whose results look at the memory of their argument, beside those that only cut it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..core.expr import Expr
from ..ops.define import FUNCTIONS, METHODS, cast
from .layouts import axes_in_memory, has_order, refuse_foreign, strides_of
from .refusing import refuse
from .tables import IN_PLACE, IN_PLACE_METHODS
from .tracer import ArrayTracer, record, with_memory


class ReadOnly(ArrayTracer):
    """An array that follows the writes to another one and cannot be written to, such as a diagonal."""

    __slots__ = ("_again", "_at", "_source")
    __hash__ = None  # type: ignore[assignment]  # equality is elementwise

    def __init__(self, source: ArrayTracer, again: Callable[[Any], Any]) -> None:
        super().__init__(record(again, (source,)).expr)
        self._source = source
        self._again = again
        self._at = source.expr

    @property
    def expr(self) -> Expr:
        """What the other array holds by now."""
        now = self._source.expr
        if now is not self._at:
            self._expr, self._at = record(self._again, (self._source,)).expr, now
        return self._expr

    def shared(self, made: Any) -> Any:
        """A part of it, which follows too; functions of several parts give plain arrays."""
        return made

    def overwrite(self, value: Any, what: str = "the value") -> NoReturn:  # noqa: ARG002 - as that of its base
        """NumPy's error."""
        raise ValueError("assignment destination is read-only")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self.overwrite(value)


def _following(source: Any, again: Callable[[Any], Any]) -> Any:
    made = record(again, (source,))
    if not isinstance(source, ArrayTracer) or type(made) is not ArrayTracer:
        return made
    return ReadOnly(source, again)


def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return _following(a, lambda x: FUNCTIONS[np.diagonal](x, offset, axis1, axis2))


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return _following(array, lambda x: FUNCTIONS[np.broadcast_to](x, shape))


def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*[np.shape(a) for a in args])
    return tuple([a[...] if np.shape(a) == shape and shape else np.broadcast_to(a, shape) for a in args])


def _einsum(*operands: Any, **options: Any) -> Any:
    made = record(FUNCTIONS[np.einsum], operands, options)
    single = len(operands) == 2 and isinstance(operands[1], ArrayTracer)
    return operands[1].shared(made) if single else made


def _split_along(axis: int) -> Callable[..., Any]:
    def split(ary: Any, indices_or_sections: Any) -> Any:
        if np.ndim(ary) <= axis - (axis == 1):
            raise ValueError(f"an array of {np.ndim(ary)} axes cannot be split along axis {axis}")
        return np.split(ary, indices_or_sections, axis if np.ndim(ary) > 1 else 0)

    return split


def _unstack(x: Any, /, *, axis: int = 0) -> Any:
    moved = np.moveaxis(x, axis, 0)
    return tuple([moved[k] for k in range(len(moved))])


def _real(val: Any) -> Any:
    return val


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    made = record(FUNCTIONS[np.nan_to_num], (x,), {"nan": nan, "posinf": posinf, "neginf": neginf})
    if copy or not isinstance(x, ArrayTracer):
        return made
    x.overwrite(made)
    return x


def _view(self: ArrayTracer, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs:
        refuse("ndarray.view with another dtype cannot be traced", "Use astype to change the dtype.")
    return self[...]


def _ravel(a: Any, order: str = "C") -> Any:
    if not isinstance(a, ArrayTracer):
        return record(METHODS["ravel"], (a, "F" if order == "F" else "C"))
    turned, order = _turned(a, order, "ravel")
    made = record(METHODS["ravel"], (turned, order), view=True)
    # Unlike a reshape, which follows strides where it can, ravel copies all that is not contiguous.
    if a.memory().layout[1]:
        a.memory().in_doubt = made.memory().in_doubt = made.size > 1
        return made
    flags = turned.laid_out().flags
    return turned.shared(made) if (flags.f_contiguous if order == "F" else flags.c_contiguous) else made


def _turned(a: ArrayTracer, order: str, name: str) -> tuple[ArrayTracer, str]:
    """An array and the order in which its elements are what NumPy reads in ``order``."""
    if order not in ("K", "A") or not has_order(a.shape):
        return a, "F" if order == "F" else "C"
    memory = a.memory()
    if memory.layout[1]:
        refuse_foreign(f"{name} with order={order!r}")
    here = a.laid_out()
    if order == "A" or here.flags.c_contiguous:
        return a, "F" if here.flags.fnc else "C"
    return a.transpose(axes_in_memory(here.strides)), "C"


def _flatten(self: ArrayTracer, order: str = "C") -> Any:
    turned, order = _turned(self, order, "flatten")
    return record(METHODS["flatten"], (turned, order))


def _reshape(a: Any, *args: Any, order: str = "C", **kwargs: Any) -> Any:
    if isinstance(a, ArrayTracer) and order in ("K", "A"):
        if order == "K":
            raise ValueError("order 'K' is not permitted for reshaping")
        order = _turned(a, order, np.reshape.__name__)[1]
    view = isinstance(a, ArrayTracer)
    made = record(FUNCTIONS[np.reshape], (a, *args), {"order": order, **kwargs}, "np.reshape", view)
    return a.shared(made) if isinstance(a, ArrayTracer) and not kwargs.get("copy") else made


def _reshape_method(self: ArrayTracer, *shape: Any, order: str = "C", **kwargs: Any) -> Any:
    return _reshape(self, shape[0] if len(shape) == 1 else shape, order=order, **kwargs)


def _reshape_function(a: Any, shape: Any = None, order: str = "C", **kwargs: Any) -> Any:
    return _reshape(a, shape, order=order, **kwargs)


def _copied(a: Any, order: str) -> Any:
    made = record(FUNCTIONS[np.copy], (a,))
    if isinstance(a, ArrayTracer):
        made = with_memory(made)
    if isinstance(a, ArrayTracer) and has_order(a.shape):
        if order == "C":
            made.memory().settle(None)
        elif order == "F" or not a.memory().layout[1]:
            made.memory().settle(strides_of(np.empty_like(a.laid_out(), order=order)))  # type: ignore[call-overload]
    return made


def contiguous(a: ArrayTracer, order: str) -> ArrayTracer:
    """The array itself, or a copy where it is not laid out in this order."""
    if not has_order(a.shape):
        return a
    flags = a.laid_out().flags
    foreign = a.memory().layout[1]
    if not foreign and (flags.c_contiguous if order == "C" else flags.f_contiguous):
        return a
    made: ArrayTracer = _copied(a, order)
    if foreign:
        made.memory().in_doubt = a.memory().in_doubt = True
    return made


def _copy_function(a: Any, order: str = "K", subok: bool = False) -> Any:
    return _copied(a, order)


def _copy_method(self: ArrayTracer, order: str = "C") -> Any:
    return _copied(self, order)


def _astype(self: Any, dtype: Any, *args: Any, copy: bool = True, **kwargs: Any) -> Any:
    if not copy and np.dtype(dtype) == self.dtype:
        return self
    made = record(cast, (self, dtype))
    return with_memory(made) if isinstance(self, ArrayTracer) else made


IN_PLACE.update({
    np.diagonal: _diagonal, np.broadcast_to: _broadcast_to, np.broadcast_arrays: _broadcast_arrays,
    np.einsum: _einsum, np.hsplit: _split_along(1), np.vsplit: _split_along(0), np.dsplit: _split_along(2),
    np.real: _real, np.nan_to_num: _nan_to_num, np.astype: _astype,
    np.ravel: _ravel, np.reshape: _reshape_function, np.copy: _copy_function,
})  # fmt: skip
IN_PLACE_METHODS[np.reshape.__name__] = _reshape_method
if hasattr(np, "unstack"):
    IN_PLACE[np.unstack] = _unstack
IN_PLACE_METHODS.update(
    view=_view, diagonal=_diagonal, astype=_astype, ravel=_ravel, flatten=_flatten, copy=_copy_method,
)
