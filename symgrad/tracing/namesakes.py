"""What the names of modules, NumPy functions and builtins become in a traced function."""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from typing import Any

import numpy as np

from .applying import APPLY
from .array_likes import function_stand_in, real_function
from .classes import Super, current_space
from .creating import CREATE
from .dtypes import SeenDtype
from .libraries import library_stand_in
from .mathematics import MATH, STATISTICS
from .number_types import FLOAT, INT, NUMPY_TYPES, STANDS_FOR, Dtype, isinstance_, issubclass_, real_type
from .outside import NUMPY_FILES, StandIn, clocks, input_, open_, outside_modules, paths, print_, warn_
from .tables import NUMBER_TYPES
from .tracer import Tracer

_OUTSIDE = outside_modules()

# ------------------------------------------------------------------------------------------ builtins


class _TypeType(type):
    """The class of what stands for ``type``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if STANDS_FOR not in vars(cls):
            return super().__call__(*args, **kwargs)  # a metaclass of the user's
        return type_of(args[0]) if len(args) == 1 and not kwargs else type(*args, **kwargs)


class Type(type, metaclass=_TypeType):
    """Stands for ``type``: a tracer has the type that NumPy would give there."""

    __name__ = "type"


setattr(Type, STANDS_FOR, type)


def type_of(value: Any) -> Any:
    """``type(value)``, as the names of types are seen by traced functions."""
    says_its_own = isinstance(value, Tracer) or real_function(value) is not None or type(value) is SeenDtype
    cls = real_type(value.__class__ if says_its_own else type(value))
    known = NUMBER_TYPES.get(cls)
    space = current_space()
    return known if known is not None else cls if space is None else space.out(cls)


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    module = builtins.__import__(name, *args, **kwargs)
    space = current_space()
    return module if space is None else space.out(module)


def _import_module(name: str, package: str | None = None) -> Any:
    module = importlib.import_module(name, package)
    space = current_space()
    return module if space is None else space.out(module)


BUILTINS: dict[str, Any] = dict(
    vars(builtins), float=FLOAT, int=INT, isinstance=isinstance_, issubclass=issubclass_, type=Type, super=Super,
    print=print_, open=open_, input=input_, __import__=_import,
)  # fmt: skip
"""The builtins that traced functions see."""

# ------------------------------------------------------------------------------------------ modules

_NUMPY_NAMES: dict[str, Any] = {
    **{name: function for name, function in CREATE.items() if hasattr(np, name)},
    **APPLY, **NUMPY_TYPES, **NUMPY_FILES,
    "random": _OUTSIDE["numpy.random"], "dtype": Dtype,
}  # fmt: skip
_NAMES: dict[str, dict[str, Any]] = {
    "numpy": _NUMPY_NAMES,
    "math": MATH,
    "statistics": STATISTICS,
    "builtins": {name: made for name, made in BUILTINS.items() if made is not vars(builtins)[name]},
    "warnings": {"warn": warn_},
    "importlib": {"import_module": _import_module},
}
"""Names that are symgrad's, by module."""

_OF_ARRAYS = ("numpy", "numpy.linalg", "numpy.fft", "symgrad.numpy")
"""Modules whose functions take arrays."""

_LATER = {"datetime": clocks, "pathlib": paths}
"""Modules whose classes get stand-ins when they are first met."""


def module_stand_in(module: types.ModuleType) -> Any:
    """What stands for a module that is not the user's; the module itself where there is nothing to say."""
    name = module.__name__
    if sys.modules.get(name) is not module:
        return module
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    if module is _OUTSIDE["os.path"]._real:
        return _OUTSIDE["os.path"]
    known = _module_stand_ins.get(name)
    if known is None:
        names = _names_of(name)
        known = _stand_in(module, names) if names or name in _OF_ARRAYS else library_stand_in(module)
        _module_stand_ins[name] = module if known is None else known
    return _module_stand_ins[name]


_module_stand_ins: dict[str, Any] = {}


def _stand_in(module: types.ModuleType, names: dict[str, Any]) -> Any:
    if module.__name__ == "symgrad.numpy":
        return module_stand_in(np)
    return NumpyModule(module, names) if module.__name__ in _OF_ARRAYS else StandIn(module, names)


class NumpyModule(StandIn):
    """Stands for a module of NumPy: its functions take lists of traced values."""

    def __getattr__(self, name: str) -> Any:
        found = self._names.get(name)
        if found is not None:
            return found
        value = getattr(self._real, name)
        if isinstance(value, types.ModuleType):
            return module_stand_in(value)
        made = function_stand_in(value)
        return value if made is None else made


def _names_of(module: str) -> dict[str, Any]:
    if module in _LATER:
        return {cls.__name__: made for cls, made in _LATER[module]().items()}
    return _NAMES.get(module, {})


def namesake(value: Any) -> Any:
    """What stands for a function or class that is not the user's; None where it stands for itself."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__name__", None)
    if module is None or (module in _OF_ARRAYS and name not in _NAMES.get(module, {})):
        return function_stand_in(value)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if module in _LATER:
        return _LATER[module]().get(value)
    if module in ("posix", "nt"):
        module = "os"
    if module in _OUTSIDE:
        found = getattr(_OUTSIDE[module], name, None)
        return found if getattr(sys.modules.get(module), name, None) is value else None
    names = _NAMES.get(module)
    if names is not None and name in names and getattr(sys.modules[module], name, None) is value:
        return names[name]
    return NUMBER_TYPES.get(value) if isinstance(value, type) else library_stand_in(value)
