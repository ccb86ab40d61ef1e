"""Stand-ins for SciPy's modules and for functions that NumPy's protocols do not reach."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..core.pytree import flatten
from ..ops.define import FUNCTIONS
from .array_likes import function_stand_in
from .tracer import Tracer, record

_LIBRARY = "scipy"


class LibraryModule:
    """Stands for a module of SciPy: its functions are handed out like names bound to them."""

    def __init__(self, real: types.ModuleType) -> None:
        self._real = real
        self.__name__ = real.__name__

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        stand_in = library_stand_in(value)
        return value if stand_in is None else stand_in

    def __repr__(self) -> str:
        return repr(self._real)


def library_stand_in(value: Any) -> Any:
    """The stand-in of a module or function of SciPy, or of a ufunc; None for everything else."""
    if isinstance(value, types.ModuleType):
        return LibraryModule(value) if value.__name__.partition(".")[0] == _LIBRARY else None
    if getattr(value, "__module__", None) is None:
        return function_stand_in(value)  # a ufunc
    module = value.__module__
    if not isinstance(module, str) or not module.startswith(f"{_LIBRARY}."):
        return None
    room = ".".join(module.split(".")[:2])
    function = FUNCTIONS.get(f"{room}.{getattr(value, '__name__', '')}")
    return None if function is None else _namesake(value, function)


def _namesake(plain: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(leaf, Tracer) for leaf in flatten((args, kwargs))[0]):
            return plain(*args, **kwargs)
        return record(function, args, kwargs)

    call.__name__ = plain.__name__
    return call
