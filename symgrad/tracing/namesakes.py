"""symgrad's namesakes of NumPy's creation functions, of the math module and of builtins."""

from __future__ import annotations

import builtins
import math
import random
import sys
import time
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.lazy import lazy_import
from ..core.origin import user_origin
from ..core.pytree import flatten
from ..errors import SideEffectWarning
from ..ops.define import UFUNCS
from ..ops.transcendental import erf, erfc
from .creating import CREATE
from .libraries import library_stand_in
from .tracer import Tracer, record
from .watches import Watched

if TYPE_CHECKING:
    from .namespace import Space


def is_traced(*values: Any) -> bool:
    """True where a traced value is among the values, also in nested containers."""
    return any(isinstance(leaf, Tracer) for leaf in flatten(values)[0])


def side_effect(what: str, why: str) -> None:
    """Warn about a look at the world outside, at the user's line."""
    origin = user_origin(2)
    where = f"\n  at {origin}" if origin else ""
    warnings.warn(SideEffectWarning(f"{what} while tracing{where}\n  {why}"), stacklevel=2)


# ------------------------------------------------------------------------------------------ number types


class NumberType:
    """Stands for ``float``, ``int`` or a NumPy number type: converts traced values without making them constant."""

    def __init__(self, real: Any, dtype: Any, convert: Callable[[Tracer], Any]) -> None:
        self.real_type = real
        self.dtype = np.dtype(dtype)
        self._convert = convert
        self.__name__ = real.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Tracer):
            return self._convert(args[0])
        return self.real_type(*args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance_(instance, self.real_type)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(real_type(cls), self.real_type)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """As a base class it is the type that it stands for."""
        return (self.real_type,)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.real_type

    def __hash__(self) -> int:
        return hash(self.real_type)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real_type, name)

    def __repr__(self) -> str:
        return repr(self.real_type)


def real_type(cls: Any) -> Any:
    """The type that a number type stands for."""
    return cls.real_type if isinstance(cls, NumberType) else cls


def _as_float(x: Tracer) -> Any:
    if x.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    scalar = x if not x.shape else record(_reshaped, (x,))
    return scalar.astype(np.float64)


def _reshaped(x: Any) -> Any:
    return CREATE["scalar"](x)


def _typed(dtype: Any) -> Callable[[Tracer], Any]:
    return lambda x: x.astype(dtype)


FLOAT = NumberType(float, np.float64, _as_float)
INT = NumberType(int, np.int64, int)


def isinstance_(instance: Any, classes: Any) -> bool:
    """``isinstance`` where a tracer counts as what NumPy would have there."""
    listed = classes if isinstance(classes, tuple) else (classes,)
    types_ = tuple([real_type(c) for c in listed])
    if not isinstance(instance, Tracer):
        return isinstance(instance, types_)
    aval = instance.expr.aval
    kind: Any = (
        np.ndarray
        if aval.shape
        else {"f": float, "i": int}[aval.dtype.kind]
        if aval.weak
        else aval.dtype.type
    )
    return issubclass(kind, types_) or isinstance(instance, types_)


def _print(*args: Any, **kwargs: Any) -> None:
    side_effect("print was called", "It prints once for each trace, and traced values have no digits yet.")
    print(*args, **kwargs)  # the user's own call


def _open(*args: Any, **kwargs: Any) -> Any:
    side_effect(
        "a file was opened", "What is read becomes a constant of this trace; read it outside and pass it in."
    )
    return open(*args, **kwargs)  # noqa: PTH123 - the user's own call


def _input(*args: Any) -> str:
    side_effect("input was asked for", "The answer becomes a constant of this trace.")
    return input(*args)


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    module = builtins.__import__(name, *args, **kwargs)
    return module_stand_in(module) or library_stand_in(module) or module


BUILTINS: dict[str, Any] = dict(
    vars(builtins), float=FLOAT, int=INT, isinstance=isinstance_, print=_print, open=_open, input=_input,
    __import__=_import,
)  # fmt: skip
"""The builtins that traced functions see."""


# ------------------------------------------------------------------------------------------ math


def _math(plain: Callable[..., Any], namesake: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the math module that hands traced values to NumPy's function of that meaning."""

    def call(*args: Any) -> Any:
        if not is_traced(*args):
            return plain(*args)
        return record(namesake, args)

    call.__name__ = plain.__name__
    return call


def _log(x: Any, base: Any = None) -> Any:
    if not is_traced(x, base):
        return math.log(x) if base is None else math.log(x, base)
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _integer(plain: Callable[..., Any], namesake: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        return int(namesake(x)) if isinstance(x, Tracer) else plain(x)

    return call


def _truth(plain: Callable[..., Any], namesake: Callable[..., Any]) -> Callable[..., bool]:
    def call(x: Any) -> bool:
        return bool(namesake(x)) if isinstance(x, Tracer) else plain(x)

    return call


def _sum(values: Any) -> Any:
    listed = list(values)
    return sum(listed) if is_traced(listed) else math.fsum(listed)


def _prod(values: Any, *, start: Any = 1) -> Any:
    listed = list(values)
    if not is_traced(listed, start):
        return math.prod(listed, start=start)
    for v in listed:
        start = start * v
    return start


def _distance(p: Any, q: Any) -> Any:
    if not is_traced(p, q):
        return math.dist(p, q)
    return np.sqrt(_sum([(a - b) ** 2 for a, b in zip(p, q, strict=True)]))


def _length(*coordinates: Any) -> Any:
    if not is_traced(*coordinates):
        return math.hypot(*coordinates)
    return np.hypot(*coordinates) if len(coordinates) == 2 else np.sqrt(_sum([c * c for c in coordinates]))


_UFUNCS_OF_MATH: dict[Any, np.ufunc] = {
    math.sin: np.sin, math.cos: np.cos, math.tan: np.tan, math.asin: np.arcsin, math.acos: np.arccos,
    math.atan: np.arctan, math.atan2: np.arctan2, math.sinh: np.sinh, math.cosh: np.cosh, math.tanh: np.tanh,
    math.asinh: np.arcsinh, math.acosh: np.arccosh, math.atanh: np.arctanh, math.exp: np.exp, math.exp2: np.exp2,
    math.expm1: np.expm1, math.log2: np.log2, math.log10: np.log10, math.log1p: np.log1p, math.sqrt: np.sqrt,
    math.pow: np.power, math.fabs: np.absolute, math.fmod: np.fmod, math.copysign: np.copysign,
    math.radians: np.radians, math.degrees: np.degrees, math.cbrt: np.cbrt,
}  # fmt: skip
_SPECIAL: dict[Any, Any] = {math.erf: erf, math.erfc: erfc}
_BY_FUNCTION: dict[Any, Callable[..., Any]] = {
    **{
        plain: _math(plain, UFUNCS[ufunc.__name__])
        for plain, ufunc in _UFUNCS_OF_MATH.items() if ufunc.__name__ in UFUNCS
    },
    **{plain: _math(plain, op) for plain, op in _SPECIAL.items()},
    **{p: _integer(p, n) for p, n in ((math.floor, np.floor), (math.ceil, np.ceil), (math.trunc, np.trunc))},
    **{p: _truth(p, n) for p, n in ((math.isnan, np.isnan), (math.isinf, np.isinf), (math.isfinite, np.isfinite))},
    math.log: _log, math.fsum: _sum, math.prod: _prod, math.dist: _distance, math.hypot: _length,
}  # fmt: skip
MATH: dict[str, Callable[..., Any]] = {plain.__name__: function for plain, function in _BY_FUNCTION.items()}
"""What the math module's functions become, by their names."""


# ------------------------------------------------------------------------------------------ modules


class StandIn:
    """Stands for a module: some names are symgrad's, the others are the module's own."""

    def __init__(self, real: types.ModuleType, names: dict[str, Any]) -> None:
        self._real = real
        self._names = names
        self.__name__ = real.__name__

    def __getattr__(self, name: str) -> Any:
        found = self._names.get(name)
        return getattr(self._real, name) if found is None else found

    def __repr__(self) -> str:
        return repr(self._real)


class RandomStandIn:
    """Stands for a source of random numbers or of the time: every call warns at its line."""

    def __init__(self, real: Any, name: str) -> None:
        self._real = real
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            side_effect(
                f"{self._name}.{name} was called",
                "Its result becomes a constant of this trace, the same at every call. Draw it outside and pass it in.",
            )
            made = value(*args, **kwargs)
            return (
                RandomStandIn(made, f"{self._name}.{name}()")
                if isinstance(made, np.random.Generator)
                else made
            )

        return call


class UserModule:
    """Stands for a module of the user's: what is read from it is handed out like a global name."""

    def __init__(self, real: types.ModuleType, space: Space) -> None:
        object.__setattr__(self, "_parts", (real, space))

    def __getattr__(self, name: str) -> Any:
        real, space = object.__getattribute__(self, "_parts")
        value = getattr(real, name)
        return (
            space.read(value, Watched.item(vars(real), name, value))
            if name in vars(real)
            else space.out(value)
        )


_NUMBER_TYPES = {
    name: NumberType(getattr(np, name), getattr(np, name), _typed(getattr(np, name)))
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "intp", "bool_")
}
# NumPy loads its random module when it is first used; it takes a tenth of the time that NumPy takes.
_NUMPY_RANDOM = RandomStandIn(lazy_import("numpy.random"), "np.random")
_NUMPY_NAMES: dict[str, Any] = {
    **{name: function for name, function in CREATE.items() if hasattr(np, name)},
    **_NUMBER_TYPES,
    "double": _NUMBER_TYPES["float64"], "single": _NUMBER_TYPES["float32"], "int_": _NUMBER_TYPES["int64"],
    "random": _NUMPY_RANDOM,
}  # fmt: skip
MODULES: dict[Any, Any] = {
    np: StandIn(np, _NUMPY_NAMES),
    math: StandIn(math, MATH),
    random: RandomStandIn(random, "random"),
    time: RandomStandIn(time, "time"),
}
"""Modules that have a stand-in, except NumPy's random module."""


def module_stand_in(value: Any) -> Any:
    """What stands for a module; None for a module, or anything else, that stands for itself."""
    if value is not None and value is sys.modules.get("numpy.random"):
        return _NUMPY_RANDOM
    return MODULES.get(value)


FUNCTIONS_BY_OBJECT: dict[Any, Any] = {
    **{getattr(math, name): function for name, function in MATH.items()},
    **{getattr(np, name): function for name, function in _NUMPY_NAMES.items() if name != "random"},
    float: FLOAT, int: INT, isinstance: isinstance_, print: _print, open: _open, input: _input,
}  # fmt: skip
"""Functions that have a namesake, for names bound to the functions themselves."""
