"""Tracers: what the user's function sees instead of numbers and arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self

import numpy as np

from ..core.aval import BOOL
from ..core.expr import Expr, InternTable
from ..core.origin import user_origin
from ..errors import SymgradError, UnsupportedOperationError, with_location
from ..ops.define import FUNCTIONS, METHODS, UFUNCS, cast, lift
from ..ops.shaping import transpose_all
from .deciding import decided, decided_mask
from .folding import folded
from .integers import check_range, is_growing
from .keys import as_parts, has_ellipsis, has_expr, static_key
from .layouts import refuse_foreign
from .protocol import function_for, in_order, ufunc_method
from .readable import Readable
from .refusing import found, located, over, refuse, where, wrong_arguments
from .replacing import chooses, is_mask, replaced
from .state import active_trace
from .storage import Memory
from .tables import GIVES_ARRAYS, IN_PLACE, IN_PLACE_METHODS, IN_PLACE_UFUNC, METHOD_ADVICE, VIEW_METHODS, VIEWS
from .truths import as_integers, is_truth
from .values import check_depth, written_value
from .views import VIEW_OPS, Steps, steps_between


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


def _computed(expr: Expr) -> Expr:
    """A constant in the place of what is known while tracing."""
    # A view stays the expression that tells how it was cut; it is computed where it is used.
    if expr.id in expr.table.known and (expr.op not in VIEW_OPS or not expr.aval.shape):
        return folded(expr)
    return expr


def wrap(value: Any, view: bool = False) -> Any:
    """Replace expressions by tracers in nested tuples and lists; a ``view`` is an array also without axes."""
    if isinstance(value, Expr):
        if view and value.op in VIEW_OPS:
            return ArrayTracer(value)
        value = _computed(value)
        return (ArrayTracer if value.aval.shape else Tracer)(value)
    if isinstance(value, list):
        return [wrap(v, view) for v in value]
    if isinstance(value, tuple):
        parts = [wrap(v, view) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def record(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None = None, name: str = "",
    view: bool = False,
) -> Any:
    """Call a function of expressions with tracers and give back tracers; errors get the user's line.

    ``name`` is how the user calls the function; ``view`` says that what it cuts out is an array.
    """
    exprs = unwrap(args)
    table = _table_of(args)
    if table is not None:
        _begin(table)
    try:
        return wrap(function(*exprs, **unwrap(kwargs)) if kwargs else function(*exprs), view)
    except SymgradError as error:
        raise located(error) from None
    except (TypeError, AttributeError) as error:
        # An argument that our function does not have, or a traced value where it needs a plain number.
        raise wrong_arguments(name or function.__name__) from error


def _begin(table: InternTable) -> None:
    """Note the user's line for the nodes that are made next."""
    if active_trace() is None:
        over(table)
    table.origin = user_origin(2)


def _table_of(args: Any) -> Any:
    for a in args:
        if isinstance(a, Tracer):
            return a._expr.table
        if isinstance(a, (tuple, list)):
            found = _table_of(a)
            if found is not None:
                return found
    return None


_CANNOT_MIX = (str, bytes)

_COMPUTING = frozenset(
    ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "left_shift", "right_shift",
     "negative", "absolute"]
)
"""The operators to which bools of Python are integers."""


def _binary(name: str, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    computes = name in _COMPUTING

    def method(self: Tracer, other: Any) -> Any:
        expr = self.expr
        kind = type(other)
        if kind is float or kind is int:
            second: Any = other
        elif kind is bool and expr.aval.weak:
            second = int(other)  # in Python a bool is an integer
        elif isinstance(other, Tracer):
            second = other.expr
        elif isinstance(other, _CANNOT_MIX) or other is None:
            return NotImplemented
        else:
            second = unwrap(other)
        _begin(expr.table)
        if computes and (kind is bool or expr.aval.dtype == BOOL or (kind is Tracer and other.dtype == BOOL)):
            expr, second = as_integers(expr, second)
        call = UFUNCS[name]
        try:
            made = call(second, expr, weak_ok=True) if swapped else call(expr, second, weak_ok=True)
        except SymgradError as error:
            raise located(error) from None
        if made.aval.weak and made.aval.dtype.kind == "i" and is_growing(name) and made.id not in made.table.known:
            check_range(name, *((second, expr) if swapped else (expr, second)))
        return (
            wrap(made) if made.id in made.table.known else (ArrayTracer if made.aval.shape else Tracer)(made)
        )

    return method


def _unary(name: str) -> Callable[[Tracer], Any]:
    def method(self: Tracer) -> Any:
        _begin(self.expr.table)
        (expr,) = as_integers(self.expr) if name in _COMPUTING else (self.expr,)
        try:
            return wrap(UFUNCS[name](expr, weak_ok=True))
        except SymgradError as error:
            raise located(error) from None

    return method


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    """The method of an operator that writes to its first operand."""

    def method(self: Any, other: Any) -> Any:
        made = record(_weak(UFUNCS[name]), (self, other))
        self.overwrite(made, f"the result of {name}")
        return self

    return method


def _weak(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(function, weak_ok=True)


def _ufunc(name: str, tracer: Tracer) -> Any:
    return record(UFUNCS[name], (tracer,))


class Tracer(Readable):
    """A traced scalar: records what is done to it.

    It has no sequence protocol, so that NumPy does not try to read its elements.
    """

    # The type and table of `_expr` never change; whether it is up to date only `expr` knows.
    __slots__ = ("_expr",)
    __array_priority__ = 1000.0

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    @property
    def expr(self) -> Expr:
        """What was recorded."""
        return self._expr

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.shared(record(transpose_all, (self,)))

    @property
    def mT(self) -> Any:
        """The transpose of the last two axes."""
        return self.shared(record(METHODS["swapaxes"], (self, -1, -2)))

    def shared(self, made: Any) -> Any:
        """Scalars have no views."""
        return made

    @property
    def real(self) -> Any:
        """The array itself: only real numbers are traced."""
        return self

    @property
    def imag(self) -> Any:
        """Zero."""
        return self * 0

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
    __hash__ = Readable.__hash__
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
        return record(METHODS["__round__"], (self, digits))

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse(
            "a traced scalar cannot be written to",
            "Make an array of it first: y = np.array(y), or give the value a new name.",
        )

    # ---------------------------------------------------------------- what would make a value concrete

    def __bool__(self) -> bool:
        return bool(decided(self.expr, False))

    def __int__(self) -> int:
        return int(decided(self.expr, True))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" and not is_truth(self._expr):
            raise TypeError(f"a traced {self.dtype} cannot be used as an index")
        return int(decided(self.expr, True))

    def __trunc__(self) -> int:
        return int(decided(self.expr, True))

    def __floor__(self) -> int:
        return int(decided(_ufunc("floor", self).expr, True))

    def __ceil__(self) -> int:
        return int(decided(_ufunc("ceil", self).expr, True))

    # ---------------------------------------------------------------- NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method in IN_PLACE_UFUNC:
            return IN_PLACE_UFUNC[method](ufunc, *inputs)
        # With out= the elements that where= leaves alone are those that are there.
        mask = kwargs.pop("where", True) if out is not None and method == "__call__" else True
        made = record(found(ufunc_method, ufunc, method, kwargs), inputs, kwargs, f"np.{ufunc.__name__}")
        if out is None:
            return made
        if len(out) > 1:
            return tuple([m if o is None else write_out(o, m, mask) for o, m in zip(out, made, strict=True)])
        return write_out(out[0], made, mask)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        in_place = IN_PLACE.get(func)
        if in_place is not None:
            made = in_place(*args, **kwargs)
            return with_memory(made) if func in GIVES_ARRAYS else made
        out = kwargs.pop("out", None)
        if kwargs:
            args = in_order(func, args, kwargs)
        of = args[0] if func in VIEWS and args and isinstance(args[0], ArrayTracer) else None
        made = record(found(function_for, func), args, kwargs, f"np.{func.__name__}", of is not None)
        if of is not None:
            made = of.shared(made)
        elif func in GIVES_ARRAYS:
            made = with_memory(made)
        return made if out is None else write_out(out, made)

    def __getattr__(self, name: str) -> Any:
        in_place = IN_PLACE_METHODS.get(name)
        if in_place is not None and isinstance(self, ArrayTracer):
            return functools.partial(in_place, self)
        function = METHODS.get(name)
        if function is not None:
            return functools.partial(_call_method, name, function, self)
        if hasattr(np.ndarray, name) and not name.startswith("_"):
            # Asking whether there is such a method is no use of it.
            if callable(getattr(np.ndarray, name)):
                return functools.partial(_unknown_method, name)
            _unknown_method(name)
        if not self.shape and hasattr(float, name) and not name.startswith("_"):
            return functools.partial(_unknown_method, name)
        raise AttributeError(with_location(f"a traced value has no attribute {name!r}", where(), ""), name=name)

    def conj(self) -> Any:
        """The array itself: only real numbers are traced."""
        return self

    conjugate = conj


def _unknown_method(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    refuse(
        f"ndarray.{name} cannot be traced",
        METHOD_ADVICE.get(name, "Use a NumPy function that returns a new array."),
        UnsupportedOperationError,
    )


def _call_method(name: str, function: Callable[..., Any], self: Tracer, *args: Any, **kwargs: Any) -> Any:
    out = kwargs.pop("out", None)
    view = name in VIEW_METHODS and isinstance(self, ArrayTracer)
    made = record(function, (self, *args), kwargs, f"ndarray.{name}", view)
    if view:
        made = self.shared(made)
    return made if out is None else write_out(out, made)


class ArrayTracer(Tracer):
    """A traced array: a tracer with memory, which it may share, and with length, iteration and indexing.

    Without axes it is what ``np.array(1.0)`` is, not a scalar: it can be written to.
    """

    # `_memory` is shared with views; until there is a view or a write there is none.
    __slots__ = ("_memory", "_seen", "_steps")
    _is_array = True

    def __init__(self, expr: Expr) -> None:
        self._expr = expr
        self._memory: Memory | None = None
        self._steps: Steps = ()
        self._seen = 0

    @property
    def expr(self) -> Expr:
        """What was recorded, with all writes up to now, also those through views."""
        memory = self._memory
        if memory is not None and self._seen != memory.version:
            # Computed as the results of functions are: a function that returns its argument gives this very node.
            self._expr = _computed(memory.part(self._steps, self._expr))
            self._seen = memory.version
        return self._expr

    @property
    def was_written(self) -> bool:
        """Whether the array, or memory it shares, was written to."""
        return self._memory is not None and self._memory.version > 0

    def memory(self) -> Memory:
        """The memory, from now on shared with views."""
        if self._memory is None:
            self._memory = Memory(self._expr)
        return self._memory

    def shared(self, made: Any) -> Any:
        """Let the result of a function that gives views share this array's memory, where NumPy's does."""
        if isinstance(made, (tuple, list)):
            return type(made)([self.shared(m) for m in made])
        made = with_memory(made)
        if type(made) is not ArrayTracer or made is self:
            return made
        steps = steps_between(self.expr, made._expr)
        memory = self.memory()
        if steps is None or not memory.is_view(self._steps + steps):
            made.memory().in_doubt = steps is not None and memory.in_doubt
            return made
        made._memory, made._steps, made._seen = memory, self._steps + steps, memory.version
        return made

    def laid_out(self) -> np.ndarray[Any, Any]:
        """A plain array that is laid out in memory as NumPy's array here is."""
        found = self.memory().seen_through(self._steps)
        assert found is not None  # a copy has memory of its own
        return found

    def overwrite(self, value: Any, what: str = "the value") -> None:
        """Replace all elements in place; other views of the memory see it."""
        new = lift(unwrap(value), self.expr.table)
        if not np.can_cast(new.dtype, self.dtype, "same_kind") and not new.aval.weak:
            raise TypeError(
                f"{what} has dtype {new.dtype}, which does not fit into an array of dtype {self.dtype}"
            )
        if new.shape != self.shape:
            if np.broadcast_shapes(new.shape, self.shape) != self.shape:
                raise ValueError(
                    f"{what} has shape {new.shape}, which does not fit into an array of shape {self.shape}"
                )
            new = FUNCTIONS[np.broadcast_to](new, self.shape)
        self._write(cast(new, self.dtype))

    def _write(self, new: Expr) -> None:
        memory = self._writable()
        memory.write(self._steps, new)
        self._expr, self._seen = new, memory.version

    @property
    def flat(self) -> Any:
        """The elements as one line, through which the array can be written to."""
        return IN_PLACE_METHODS["flat"](self)

    @flat.setter
    def flat(self, value: Any) -> None:
        IN_PLACE_METHODS["set flat"](self, value)

    def __len__(self) -> int:
        shape = self._expr.aval.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._expr.aval.shape:
            raise TypeError("iteration over a 0-d array")
        return iter([self[k] for k in range(len(self))])

    def __pos__(self) -> Any:
        return self if self._expr.aval.shape else Tracer(self.expr)

    def __contains__(self, value: Any) -> bool:
        return bool(record(FUNCTIONS[np.any], (self == value,)))

    def __getitem__(self, key: Any) -> Any:
        plain = asked_key(key, masks=True)
        if self._memory is not None and self._memory.divided and not has_expr(plain):
            found = self._read(self._memory, plain)
            if found is not None:
                return found
        # An item is a scalar; with an ellipsis it is an array without axes that shares memory.
        made = record(METHODS["__getitem__"], (self, plain), view=has_ellipsis(plain))
        return made if type(made) is Tracer and not has_ellipsis(plain) else self.shared(made)

    def _read(self, memory: Memory, key: Any) -> Any:
        """Part of an array that is kept in pieces, without joining them; None if they have to be."""
        positions = self._positions(memory, key)
        if positions is None:
            return None
        self._expr.table.origin = user_origin(2)
        if isinstance(positions, np.integer):
            return Tracer(memory.element(int(positions)))
        view = memory.view(self._steps, key)
        if view is None:
            found = memory.gathered(positions)
            return None if found is None else wrap(found)
        made = ArrayTracer(view[0])
        made._memory, made._steps, made._seen = memory, view[1], -1
        return made

    def _positions(self, memory: Memory, key: Any) -> Any:
        """Where in memory an item lies; None where that is not known, or an error is to be raised."""
        own = memory.positions(self._steps)
        try:
            return None if own is None else own[key]
        except IndexError:
            return None

    def __setitem__(self, key: Any, value: Any) -> None:
        # `expr` would join an array that is kept in pieces: O(n) for each write.
        table = self._expr.table
        table.origin = user_origin(1)
        try:
            plain = asked_key(key)
            new = lift(unwrap(written_value(value, self.dtype)), table)
            if any([is_mask(p) for p in as_parts(plain)]) and not chooses(plain, self.ndim, new):
                plain = asked_key(key, masks=True)
            self._set(plain, cast(new, self.dtype), value)
        except SymgradError as error:
            raise located(error) from None

    def _writable(self) -> Memory:
        memory = self.memory()
        if memory.in_doubt:
            refuse_foreign("whether this write is seen through a reshaped array")
        return memory

    def _set(self, key: Any, new: Expr, value: Any) -> None:
        memory = self._writable()
        positions = None if has_expr(key) else self._positions(memory, key)
        if positions is not None:
            check_depth(as_parts(key), value, new.ndim, np.ndim(positions), isinstance(positions, np.int64))
        if positions is None:
            self._write(replaced(self.expr, key, new))
        elif self._is_own_view(positions, value):
            pass  # x[k] += v ends with writing back what the view has written already
        elif not memory.assign(np.asarray(positions), new):
            self._write(replaced(self.expr, key, new))

    def _is_own_view(self, positions: Any, value: Any) -> bool:
        if not isinstance(value, ArrayTracer) or value._memory is None or value._memory is not self._memory:
            return False
        own = value._memory.positions(value._steps)
        return own is not None and np.array_equal(positions, own)

    def __bool__(self) -> bool:
        if self.size != 1:
            # NumPy's own error: it is the user's fault, traced or not.
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(decided(self.expr, False))

    def __int__(self) -> int:
        if self.size != 1:
            raise TypeError("only length-1 arrays can be converted to Python scalars")
        return int(decided(self.expr, True))

    __iadd__, __isub__, __imul__ = _in_place("add"), _in_place("subtract"), _in_place("multiply")
    __itruediv__, __ipow__ = _in_place("divide"), _in_place("power")
    __ifloordiv__, __imod__ = _in_place("floor_divide"), _in_place("remainder")
    __iand__, __ior__, __ixor__ = _in_place("bitwise_and"), _in_place("bitwise_or"), _in_place("bitwise_xor")

    def __imatmul__(self, other: Any) -> Self:
        self.overwrite(record(UFUNCS["matmul"], (self, other)), "the matrix product")
        return self


def with_memory(made: Any) -> Any:
    """A result of a function that gives arrays, never scalars."""
    return ArrayTracer(made.expr) if type(made) is Tracer else made


def write_out(out: Any, value: Any, mask: Any = True) -> Any:
    """What ``out=`` means: write to an existing array, where ``mask`` is true, and return it."""
    if not hasattr(type(out), "overwrite"):
        refuse(
            "out= names an array that is not traced",
            "Create it inside the function with symgrad.numpy (import symgrad.numpy as np), or use the "
            "result of the call.",
        )
    out.expr.table.origin = user_origin(2)
    if mask is not True:
        value = record(FUNCTIONS[np.where], (mask, record(cast, (value, out.dtype)), out))
    out.overwrite(value, "the result")
    return out


def asked_key(key: Any, masks: bool = False) -> Any:
    """A key of tracers as a key of expressions, integers and slices of integers.

    With ``masks`` the elements of traced masks are asked for too: the size of what they select must be known.
    """
    return static_key(unwrap(key), lambda e: Tracer(e).__index__(), decided_mask if masks else None)
