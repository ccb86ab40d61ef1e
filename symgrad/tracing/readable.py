"""What would take a traced value out of the recording: texts, keys, copies, plain numbers and arrays."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core.expr import Expr
from ..core.origin import user_origin
from ..errors import DtypeError
from .dtypes import seen_dtype
from .refusing import over, refuse, refuse_conversion
from .state import active_trace
from .tables import NUMBER_TYPES

_UNKNOWN = object()


class Readable:
    """The part of a tracer that is asked for its value."""

    __slots__ = ()
    _expr: Expr

    @property
    def expr(self) -> Expr:
        """What was recorded."""
        raise NotImplementedError

    #: Whether it is an array also where it has no axes.
    _is_array = False

    @property  # type: ignore[misc]  # read only, unlike that of object
    def __class__(self) -> Any:
        """What NumPy would have there, for ``isinstance`` and for functions that dispatch on the class."""
        aval = self.expr.aval
        if aval.shape or self._is_array:
            return np.ndarray
        real = {"f": float, "i": int}.get(aval.dtype.kind, aval.dtype.type) if aval.weak else aval.dtype.type
        return NUMBER_TYPES.get(real, real)

    # ---------------------------------------------------------------- what is known while tracing

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes: known while tracing."""
        return self._expr.aval.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._expr.aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._expr.aval.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype."""
        return seen_dtype(self._expr.aval.dtype)  # type: ignore[no-any-return]  # stands for one

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._expr.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    # ---------------------------------------------------------------- texts

    def _digits(self, what: str) -> Any:
        """The value on the data of this trace, for a text that shows it; warned about when the trace is over."""
        trace = active_trace()
        expr = self.expr
        if trace is None or trace.table is not expr.table or not trace.is_known(expr):
            return _UNKNOWN
        if trace.varies(trace.resolve(expr)):
            trace.note(f"{what} was called on a traced value", user_origin(2))
        value = np.asarray(trace.concrete(expr), expr.dtype)
        return value.item() if expr.aval.weak else value[()]

    def __repr__(self) -> str:
        value = self._digits("repr")
        return f"<traced {self.expr.aval}>" if value is _UNKNOWN else repr(value)

    def __str__(self) -> str:
        value = self._digits("str")
        return f"<traced {self.expr.aval}>" if value is _UNKNOWN else str(value)

    def __format__(self, spec: str) -> str:
        value = self._digits("format")
        if value is not _UNKNOWN:
            return format(value, spec)
        if spec:
            refuse(
                f"a traced value has no digits to format with {spec!r}",
                "Print it outside of the traced function.",
            )
        return f"<traced {self.expr.aval}>"

    # ---------------------------------------------------------------- keys

    def __hash__(self) -> int:
        expr = self.expr
        if expr.shape or self._is_array:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        if expr.value is not None:
            return hash(expr.value.item())
        if expr.dtype.kind not in "iub":
            self._no_key()
        return hash(int(self))  # type: ignore[call-overload]  # a tracer has __int__

    def _no_key(self) -> NoReturn:
        refuse(
            "unhashable: a traced value cannot be a key, entries would be found by the value of this trace",
            "Use int(x) as the key, or compare values.",
            DtypeError,
        )

    # ---------------------------------------------------------------- copies

    def __copy__(self) -> Any:
        return self.copy()  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        refuse("a traced value cannot be pickled", "It only lives while the function is traced.")

    # ---------------------------------------------------------------- plain numbers and arrays

    def _alive(self) -> None:
        if active_trace() is None:
            over(self.expr.table)

    def __float__(self) -> NoReturn:
        self._alive()
        refuse_conversion(
            "float() of a traced value would make it a constant",
            "Leave out float(): NumPy functions and operators take the value as it is (np.sin for math.sin). To "
            "write it into an array that NumPy's creation functions did not make, copy that first: b = np.array(b).",
        )

    def __complex__(self) -> NoReturn:
        self._alive()
        refuse_conversion(
            "complex() of a traced value would make it a constant",
            "Work with real and imaginary part separately.",
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._alive()
        refuse_conversion(
            "a traced value cannot become a plain NumPy array",
            "Do not write it into an existing array or give it to np.array or np.asarray; join values with "
            "np.stack([...]) or np.concatenate, or create arrays through symgrad.numpy.",
        )
