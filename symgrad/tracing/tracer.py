"""Tracers: what the user's function sees instead of numbers and arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from ..core.expr import Expr
from ..core.origin import user_origin
from ..errors import SymgradError, TraceError, UnsupportedOperationError, with_location
from ..ops.define import FUNCTIONS, METHODS, UFUNCS
from ..ops.shaping import transpose_all
from .protocol import function_for, ufunc_method
from .state import active_trace


def where() -> str:
    """The user's line, for messages."""
    origin = user_origin(2)
    return str(origin) if origin else ""


def refuse(what: str, advice: str, error: type[SymgradError] = TraceError) -> NoReturn:
    """Raise an error that shows the user's line and the fix."""
    raise error(with_location(what, where(), advice)) from None


def located(error: SymgradError) -> SymgradError:
    """The same error with the user's line, if it does not say it yet."""
    text = str(error)
    if "\n  at " in text:
        return error
    head, _, advice = text.partition("\n  ")
    made = type(error)(with_location(head, where(), advice))
    return made


def unwrap(value: Any) -> Any:
    """Replace tracers by their expressions in nested tuples, lists and dicts."""
    if isinstance(value, Tracer):
        return value.expr
    if type(value) is tuple or type(value) is list:
        return type(value)([unwrap(v) for v in value])
    if type(value) is dict:
        return {k: unwrap(v) for k, v in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return unwrap(value.tolist())
    if isinstance(value, slice):
        return slice(unwrap(value.start), unwrap(value.stop), unwrap(value.step))
    return value


def wrap(value: Any) -> Any:
    """Replace expressions by tracers in nested tuples and lists."""
    if isinstance(value, Expr):
        return (ArrayTracer if value.aval.shape else Tracer)(value)
    if isinstance(value, list):
        return [wrap(v) for v in value]
    if isinstance(value, tuple):
        parts = [wrap(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def record(function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None = None) -> Any:
    """Call a function of expressions with tracers and give back tracers; errors get the user's line."""
    exprs = unwrap(args)
    table = _table_of(args)
    if table is not None:
        table.origin = user_origin(2)
    try:
        return wrap(function(*exprs, **unwrap(kwargs)) if kwargs else function(*exprs))
    except SymgradError as error:
        raise located(error) from None


def _table_of(args: Any) -> Any:
    for a in args:
        if isinstance(a, Tracer):
            return a.expr.table
        if isinstance(a, (tuple, list)):
            found = _table_of(a)
            if found is not None:
                return found
    return None


_CANNOT_MIX = (str, bytes)


def _binary(name: str, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        expr = self.expr
        if isinstance(other, Tracer):
            second: Any = other.expr
        elif isinstance(other, _CANNOT_MIX) or other is None:
            return NotImplemented
        else:
            second = unwrap(other)
        expr.table.origin = user_origin(2)
        call = UFUNCS[name]
        try:
            made = call(second, expr, weak_ok=True) if swapped else call(expr, second, weak_ok=True)
        except SymgradError as error:
            raise located(error) from None
        return ArrayTracer(made) if made.aval.shape else Tracer(made)

    return method


def _unary(name: str) -> Callable[[Tracer], Any]:
    def method(self: Tracer) -> Any:
        self.expr.table.origin = user_origin(2)
        return wrap(UFUNCS[name](self.expr, weak_ok=True))

    return method


def _in_place(symbol: str) -> Callable[[Tracer, Any], Any]:
    def method(self: Tracer, other: Any) -> Any:
        refuse(
            f"an array cannot be changed in place with {symbol}= while it is traced",
            f"Write x = x {symbol} … instead of x {symbol}= ….",
        )

    return method


def _decide(tracer: Tracer, integer: bool) -> bool | int:
    """Ask for the truth or the integer value of a tracer: a guard of the trace in progress."""
    trace = active_trace()
    if trace is None or trace.table is not tracer.expr.table:
        refuse(
            "a traced value was used after its trace was over",
            "Do not keep traced values in globals, attributes or caches; return them from the function instead.",
        )
    try:
        return trace.decide(tracer.expr, integer, user_origin(3))
    except SymgradError as error:
        raise located(error) from None


def _ufunc(name: str, tracer: Tracer) -> Any:
    return record(UFUNCS[name], (tracer,))


class Tracer:
    """A traced scalar: records what is done to it.

    It has no sequence protocol, so that NumPy does not try to read its elements.
    """

    __slots__ = ("expr",)
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]  # equality is elementwise

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    # ---------------------------------------------------------------- what is known while tracing

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes: known while tracing."""
        return self.expr.aval.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.expr.aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.expr.aval.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype."""
        return self.expr.aval.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.expr.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        """The transpose."""
        return record(transpose_all, (self,))

    @property
    def mT(self) -> Any:
        """The transpose of the last two axes."""
        return record(METHODS["swapaxes"], (self, -1, -2))

    @property
    def real(self) -> Any:
        """The array itself: only real numbers are traced."""
        return self

    @property
    def imag(self) -> Any:
        """Zero."""
        return self * 0

    def __repr__(self) -> str:
        return f"<traced {self.expr.aval}>"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        refuse(
            f"a traced value has no digits to format with {spec!r}",
            "Print it outside of the traced function.",
        )

    def __reduce__(self) -> NoReturn:
        refuse("a traced value cannot be pickled or copied", "It only lives while the function is traced.")

    # ---------------------------------------------------------------- arithmetic

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", True)
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", True)
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", True)
    __mod__, __rmod__ = _binary("remainder"), _binary("remainder", True)
    __pow__, __rpow__ = _binary("power"), _binary("power", True)
    __and__, __rand__ = _binary("bitwise_and"), _binary("bitwise_and", True)
    __or__, __ror__ = _binary("bitwise_or"), _binary("bitwise_or", True)
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", True)
    __lshift__, __rlshift__ = _binary("left_shift"), _binary("left_shift", True)
    __rshift__, __rrshift__ = _binary("right_shift"), _binary("right_shift", True)
    __lt__, __le__, __gt__, __ge__ = (
        _binary("less"),
        _binary("less_equal"),
        _binary("greater"),
        _binary("greater_equal"),
    )
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("absolute"), _unary("invert")

    def __pos__(self) -> Any:
        return self

    def __matmul__(self, other: Any) -> Any:
        return record(UFUNCS["matmul"], (self, other))

    def __rmatmul__(self, other: Any) -> Any:
        return record(UFUNCS["matmul"], (other, self))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Any:
        return record(METHODS["round"], (self, digits or 0))

    # ---------------------------------------------------------------- what would make a value concrete

    def __bool__(self) -> bool:
        return bool(_decide(self, False))

    def __float__(self) -> NoReturn:
        refuse(
            "float() of a traced value would make it a constant",
            "Leave out float(): NumPy functions and operators take the value as it is (np.sin for math.sin).",
        )

    def __int__(self) -> int:
        return int(_decide(self, True))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"a traced {self.dtype} cannot be used as an index")
        return int(_decide(self, True))

    def __trunc__(self) -> int:
        return int(_decide(self, True))

    def __floor__(self) -> int:
        return int(_decide(_ufunc("floor", self), True))

    def __ceil__(self) -> int:
        return int(_decide(_ufunc("ceil", self), True))

    def __complex__(self) -> NoReturn:
        refuse(
            "complex() of a traced value would make it a constant",
            "Work with real and imaginary part separately.",
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(
            "a traced value cannot become a plain NumPy array",
            "Do not write it into an existing array or give it to np.array or np.asarray; join values with "
            "np.stack([...]) or np.concatenate, or create arrays through symgrad.numpy.",
        )

    # ---------------------------------------------------------------- NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return record(ufunc_method(ufunc, method, kwargs), inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return record(function_for(func, kwargs), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        function = METHODS.get(name)
        if function is not None:
            return functools.partial(_call_method, function, self)
        if hasattr(np.ndarray, name) and not name.startswith("_"):
            refuse(
                f"ndarray.{name} cannot be traced",
                _METHOD_ADVICE.get(name, "Use a NumPy function that returns a new array."),
                UnsupportedOperationError,
            )
        raise AttributeError(f"a traced value has no attribute {name!r}")

    def conj(self) -> Any:
        """The array itself: only real numbers are traced."""
        return self

    conjugate = conj


def _call_method(function: Callable[..., Any], self: Tracer, *args: Any, **kwargs: Any) -> Any:
    return record(function, (self, *args), kwargs)


_METHOD_ADVICE = {
    "item": "Leave out .item(): NumPy functions take the value as it is.",
    "tolist": "Keep the array; iterate over it directly.",
    "fill": "Write x = np.full_like(x, value).",
    "sort": "Write x = np.sort(x).",
    "put": "Use np.where or np.concatenate to build the new array.",
}


class ArrayTracer(Tracer):
    """A traced array: a tracer with length, iteration and indexing."""

    __slots__ = ()
    __hash__ = None

    def __len__(self) -> int:
        return self.expr.aval.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for k in range(len(self)):
            yield self[k]

    def __contains__(self, value: Any) -> bool:
        return bool(record(FUNCTIONS[np.any], (self == value,)))

    def __getitem__(self, key: Any) -> Any:
        return record(METHODS["__getitem__"], (self, unwrap(key)))

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        refuse(
            "a traced array cannot be written to",
            "Build the new array with np.where(mask, new, old) or np.concatenate.",
        )

    def __bool__(self) -> bool:
        if self.size != 1:
            # NumPy's own error: it is the user's fault, traced or not.
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(_decide(self, False))

    def __int__(self) -> int:
        if self.size != 1:
            raise TypeError("only length-1 arrays can be converted to Python scalars")
        return int(_decide(self, True))

    __iadd__, __isub__, __imul__ = _in_place("+"), _in_place("-"), _in_place("*")
    __itruediv__, __ipow__, __ifloordiv__ = _in_place("/"), _in_place("**"), _in_place("//")
    __imod__, __imatmul__ = _in_place("%"), _in_place("@")
