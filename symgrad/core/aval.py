"""Abstract values: the shape and dtype of what an expression will hold, and the algebra of both.

This is the only place that knows how shapes broadcast and how dtypes promote (NumPy's NEP 50).
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import DtypeError, ShapeError

Shape = tuple[int, ...]

FLOAT64 = np.dtype(np.float64)
FLOAT32 = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)


class Aval:
    """Shape, dtype and weakness of a value.

    Attributes
    ----------
    shape
        Sizes of the axes.
    dtype
        NumPy dtype, always in native byte order.
    weak
        True for what was a Python number: it adapts to the dtype of its partner as NumPy does (NEP 50).
    """

    __slots__ = ("_hash", "dtype", "shape", "weak")

    shape: Shape
    dtype: np.dtype[Any]
    weak: bool

    def __init__(self, shape: Shape, dtype: Any, weak: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        self.weak = weak
        self._hash = hash((shape, self.dtype.char, weak))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Aval):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.weak == other.weak

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        """True where derivatives live: real floating point."""
        return self.dtype.kind == "f"

    def strong(self) -> Aval:
        """The same value without weakness."""
        return make_aval(self.shape, self.dtype) if self.weak else self

    def with_shape(self, shape: Shape) -> Aval:
        """The same dtype with another shape; only a rank-0 value stays weak."""
        return make_aval(shape, self.dtype, self.weak and not shape)

    def with_dtype(self, dtype: Any) -> Aval:
        """The same shape with another (strong) dtype."""
        return make_aval(self.shape, np.dtype(dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        # The hash of another process is not ours; and equal avals are shared.
        return make_aval, (self.shape, self.dtype, self.weak)

    def __repr__(self) -> str:
        return f"Aval({self.shape}, {self.dtype}{', weak' if self.weak else ''})"

    def __str__(self) -> str:
        return f"{short_dtype(self.dtype)}[{','.join(map(str, self.shape))}]{'*' if self.weak else ''}"


def make_aval(shape: Shape, dtype: np.dtype[Any], weak: bool = False) -> Aval:
    """The shared Aval of a shape and a dtype."""
    return _shared(shape, dtype, weak)


@lru_cache(maxsize=4096)
def _shared(shape: Shape, dtype: np.dtype[Any], weak: bool) -> Aval:
    # NumPy's own dtype object, not an equal one from a pickle or a platform's second name.
    return Aval(shape, np.dtype(dtype.str), weak)


_SHORT = {"float64": "f64", "float32": "f32", "float16": "f16", "bool": "bool"}


def short_dtype(dtype: np.dtype[Any]) -> str:
    """Abbreviate a dtype: ``f64``, ``i32``, ``u8``, ``bool``."""
    name = dtype.name
    return _SHORT.get(name) or name.replace("uint", "u").replace("int", "i").replace("complex", "c")


_SUPPORTED_KINDS = "fiub"


def aval_of(value: Any) -> Aval:
    """Abstract value of a concrete number or array.

    Raises
    ------
    DtypeError
        If the dtype is neither real floating point, integer nor bool, or an integer does not fit; for arrays
        of a kind that computes by rules of its own.
    """
    if type(value) is bool:
        return make_aval((), BOOL)
    if type(value) is float:
        return make_aval((), FLOAT64, True)
    if type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise DtypeError(f"an int of {value.bit_length()} bits does not fit int64.\n  Give a float.")
        return make_aval((), INT64, True)
    if isinstance(value, (str, bytes)):
        raise DtypeError("a text is no number.\n  Convert it first, for example with float(x).")
    if type(value) is not np.ndarray and isinstance(value, np.ndarray):
        _require_plain(value)
    array = value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value)
    dtype = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    require_supported(dtype)
    return make_aval(tuple(array.shape), dtype)


_RULES = ("__mul__", "__array_ufunc__", "__array_function__")


def _require_plain(array: np.ndarray[Any, Any]) -> None:
    """Refuse masked arrays, matrices, quantities with units: generated code would ignore what they mean."""
    kind = type(array)
    if any(getattr(kind, name) is not getattr(np.ndarray, name) for name in _RULES):
        raise DtypeError(
            f"a {kind.__name__} cannot be traced: it computes by rules of its own, which would be lost.\n"
            "  Give np.asarray(x) if the plain numbers are meant."
        )


def require_supported(dtype: np.dtype[Any]) -> None:
    """Refuse what symgrad does not compute with: complex numbers, text, objects, extended precision.

    Raises
    ------
    DtypeError
        If the dtype is neither real floating point, integer nor bool.
    """
    if dtype.kind not in _SUPPORTED_KINDS or dtype.itemsize > 8:
        raise DtypeError(
            f"a value of dtype {dtype} cannot be traced: symgrad works on real floating point "
            "(up to float64), integer and bool arrays.\n  Convert it first, for example with .astype(float)."
        )


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Broadcast shapes by NumPy's rules.

    Raises
    ------
    ShapeError
        If two sizes differ and neither is 1.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for k, n in enumerate(shape, ndim - len(shape)):
            if n == 1 or n == result[k]:
                continue
            if result[k] != 1:
                listed = " and ".join(map(str, dict.fromkeys(shapes)))
                raise ShapeError(f"shapes {listed} cannot be broadcast together")
            result[k] = n
    return tuple(result)


def promote(*avals: Aval) -> tuple[np.dtype[Any], bool]:
    """Common dtype of operands and whether it is weak (all operands are Python numbers)."""
    first = avals[0]
    if all(a.dtype == first.dtype and a.weak == first.weak for a in avals):
        return first.dtype, first.weak
    return _promote(tuple((a.dtype, a.weak) for a in avals))


_WEAK_STAND_IN: dict[str, Any] = {"f": 0.0, "i": 0}


@lru_cache(maxsize=4096)
def _promote(pairs: tuple[tuple[np.dtype[Any], bool], ...]) -> tuple[np.dtype[Any], bool]:
    if all(weak for _, weak in pairs):
        return np.result_type(*(dtype for dtype, _ in pairs)), True
    operands = [_WEAK_STAND_IN[dtype.kind] if weak else dtype for dtype, weak in pairs]
    return np.result_type(*operands), False


def normalize_axis(axis: Any, ndim: int) -> int:
    """Turn an axis into its non-negative form.

    Raises
    ------
    ShapeError
        If the axis is out of range.
    """
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise ShapeError(f"axis {axis} is out of bounds for an array with {ndim} axes")
    return index % ndim


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Turn None, an int or a sequence of ints into a sorted tuple of axes.

    Raises
    ------
    ShapeError
        If an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(normalize_axis(a, ndim) for a in listed))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"an axis is named twice in {axis}")
    return axes


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Shape after reducing ``axes``.

    Raises
    ------
    ShapeError
        If an axis is not one of the array.
    """
    if axes and max(axes) >= len(shape):
        raise ShapeError(f"axis {max(axes)} is out of bounds for an array with {len(shape)} axes")
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)
