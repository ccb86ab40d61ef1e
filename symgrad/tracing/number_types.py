"""Stand-ins for ``float``, ``int``, NumPy's number types, ``type`` and ``isinstance``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ops.casting import python_number
from ..ops.define import FUNCTIONS, cast
from .dtypes import real_dtype, seen_dtype
from .tables import NUMBER_TYPES
from .tracer import Tracer, record

STANDS_FOR = "_symgrad_stands_for"
"""Attribute of a class that stands for another one: that one."""


class NumberType(type):
    """The class of stand-ins for number types: calling one converts traced values without making them constant."""

    real_type: Any
    dtype: Any
    convert: Callable[[Tracer], Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if STANDS_FOR not in vars(cls):
            return super().__call__(*args, **kwargs)  # a class of the user's that is derived from it
        if len(args) == 1 and not kwargs and isinstance(args[0], Tracer):
            return vars(cls)["convert"](args[0])
        return cls.real_type(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real_type) if STANDS_FOR in vars(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, other: Any) -> bool:
        return issubclass(other, cls.real_type) if STANDS_FOR in vars(cls) else super().__subclasscheck__(other)

    def __eq__(cls, other: object) -> bool:
        if not isinstance(other, type):
            return NotImplemented  # a dtype is equal to its type
        return real_type(cls) is real_type(other)

    def __hash__(cls) -> int:
        return hash(cls.real_type) if STANDS_FOR in vars(cls) else super().__hash__()

    def __repr__(cls) -> str:
        return repr(cls.real_type) if STANDS_FOR in vars(cls) else super().__repr__()


def real_type(cls: Any) -> Any:
    """The class that a class stands for."""
    return vars(cls).get(STANDS_FOR, cls) if isinstance(cls, type) else cls


def _number_type(real: Any, dtype: Any, convert: Callable[[Tracer], Any]) -> Any:
    # bool and its like cannot be derived from; what stands for them only says which dtype they are.
    bases = (real,) if real is not np.bool_ else ()
    members = {
        STANDS_FOR: real, "real_type": real, "convert": convert, "dtype": np.dtype(dtype), "__slots__": (),
        "__module__": real.__module__, "__doc__": real.__doc__,
    }  # fmt: skip
    made = NUMBER_TYPES[real] = NumberType(real.__name__, bases, members)
    return made


def as_float(x: Tracer) -> Any:
    """``float(x)``: a Python float."""
    aval = x.expr.aval
    if aval.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    return x if aval.weak and aval.dtype == np.float64 else record(_python_float, (x,))


def _python_float(x: Any) -> Any:
    return python_number(cast(FUNCTIONS[np.reshape](x, ()) if x.shape else x, np.float64))


def _typed(dtype: Any) -> Callable[[Tracer], Any]:
    return lambda x: x.astype(dtype)


FLOAT = _number_type(float, np.float64, as_float)
INT = _number_type(int, np.int64, int)
NUMPY_TYPES: dict[str, Any] = {
    name: _number_type(getattr(np, name), getattr(np, name), _typed(getattr(np, name)))
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool_")
}
NUMPY_TYPES.update({
    "double": NUMPY_TYPES["float64"], "single": NUMPY_TYPES["float32"], "half": NUMPY_TYPES["float16"],
    "int_": NUMPY_TYPES["int64"], "intp": NUMPY_TYPES["int64"], "bool": NUMPY_TYPES["bool_"],
})  # fmt: skip
"""What stands for NumPy's number types, by their names."""


class _DtypeType(type):
    """The class of what stands for ``np.dtype``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return seen_dtype(np.dtype(*map(real_dtype, args), **kwargs))

    def __getitem__(cls, item: Any) -> Any:
        return np.dtype[item]


class Dtype(metaclass=_DtypeType):
    """Stands for ``np.dtype``."""

    _symgrad_stands_for = np.dtype


def isinstance_(instance: Any, classes: Any) -> bool:
    """``isinstance`` where stand-ins count as what they stand for."""
    return isinstance(instance, _real_types(classes))


def issubclass_(cls: Any, classes: Any) -> bool:
    """``issubclass`` where stand-ins count as what they stand for."""
    return issubclass(real_type(cls), _real_types(classes))


def _real_types(classes: Any) -> Any:
    return tuple(map(_real_types, classes)) if isinstance(classes, tuple) else real_type(classes)
