"""The trace namespace: the user's function runs with its names looked up here.

Global and closure names are handed out as stand-ins: symgrad's namesake of a NumPy, math or builtin function, a
tracer for a captured array, the function itself bound to this namespace for a helper function. Nothing global is
patched, so threads do not meet; and the look-ups are what the conditions on captured values are made of.
"""

from __future__ import annotations

import functools
import random
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import aval_of
from ..errors import DtypeError, SideEffectWarning
from .instances import proxy_of
from .libraries import library_stand_in
from .namesakes import BUILTINS, FUNCTIONS_BY_OBJECT, RandomStandIn, UserModule, module_stand_in
from .state import Trace, active_trace
from .tracer import ArrayTracer, Tracer
from .watches import Watched

_PLAIN = (int, float, bool, str, bytes, complex, type(None), slice, range)
_STDLIB = frozenset(sys.stdlib_module_names) - {"__main__"}
_KNOWN = frozenset({"numpy", "scipy", "symgrad", "sympy", "mpmath", "jinja2", "optree"})


def is_user_module(name: str | None) -> bool:
    """True for modules whose functions are run with stand-ins."""
    top = (name or "").partition(".")[0]
    return top not in _STDLIB and top not in _KNOWN


class Globals(dict[str, Any]):
    """The global names of one module as the traced functions of that module see them."""

    __slots__ = ("_real", "_space")

    def __init__(self, real: dict[str, Any], space: Space) -> None:
        # Set, not missing: a function takes its builtins from here when it is made.
        super().__init__(__builtins__=BUILTINS, __name__=real.get("__name__"))
        self._real = real
        self._space = space

    def __missing__(self, name: str) -> Any:
        value = self._real[name]  # a KeyError sends the interpreter on to the builtins
        stand_in = self._space.read(value, Watched.item(self._real, name, value))
        dict.__setitem__(self, name, stand_in)
        return stand_in

    def stored(self) -> dict[str, Any]:
        """Names that traced code assigned with a global statement."""
        known = self._space.handed_globals.get(id(self._real), {})
        return {k: v for k, v in self.items() if not k.startswith("__") and known.get(k, _NOTHING) is not v}


_NOTHING = object()


class Space:
    """The stand-ins of one trace.

    Attributes
    ----------
    watched
        What was read of the world outside; the trace holds as long as it is the same.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.watched: list[Watched] = []
        self.handed_globals: dict[int, dict[str, Any]] = {}
        self._globals: dict[int, Globals] = {}
        self._functions: dict[int, tuple[Any, Any]] = {}
        self._cells: dict[int, tuple[Any, Any, Any]] = {}
        self._kept: dict[int, tuple[Any, Any]] = {}
        self._containers: list[tuple[Any, Any, Any]] = []
        self.attributes: dict[tuple[int, str], tuple[Any, Any]] = {}

    # ---------------------------------------------------------------- reading

    def read(self, value: Any, watched: Watched) -> Any:
        """Hand out a captured value and remember where it was read."""
        self.watched.append(watched)
        stand_in = self.out(value)
        if watched.kind == "item":
            self.handed_globals.setdefault(id(watched.container), {})[watched.key] = stand_in
        return stand_in

    def out(self, value: Any) -> Any:
        """The stand-in of a value; most values stand for themselves."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        kept = self._kept.get(id(value))
        if kept is not None and kept[0] is value:
            return kept[1]
        stand_in = self._made(value, kind)
        self._kept[id(value)] = (value, stand_in)
        return stand_in

    def _made(self, value: Any, kind: type) -> Any:
        if isinstance(value, np.ndarray):
            return self._array(value)
        namesake = _namesake(value)
        if namesake is not None:
            return namesake
        library = library_stand_in(value)
        if library is not None:
            return library
        if kind is types.FunctionType:
            return self.function(value)
        if kind is types.MethodType:
            return types.MethodType(self.out(value.__func__), self.out(value.__self__))
        if kind is types.ModuleType:
            return UserModule(value, self) if is_user_module(value.__name__) else value
        if kind is functools.partial:
            keywords = {k: self.out(v) for k, v in value.keywords.items()}
            return functools.partial(self.out(value.func), *map(self.out, value.args), **keywords)
        if kind in (list, dict, tuple):
            return self._container(value, kind)
        if _is_random(value):
            return RandomStandIn(value, type(value).__name__)
        if isinstance(value, (type, Tracer, np.generic, np.dtype, np.ufunc)) or not is_user_module(
            kind.__module__
        ):
            return value
        return proxy_of(value, self)

    def _array(self, value: np.ndarray[Any, Any]) -> Any:
        try:
            aval_of(value)
        except DtypeError:
            return value
        if not value.ndim:
            return Tracer(self.trace.table.capture(value))
        tracer = ArrayTracer(self.trace.table.capture(value))
        self.trace.captured[id(value)] = (value, tracer)
        return tracer

    def _container(self, value: Any, kind: type) -> Any:
        if kind is tuple:
            parts = [self.out(v) for v in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else tuple(parts)
        if kind is list:
            self.watched.append(Watched.sequence(value))
            made: Any = [self.out(v) for v in value]
            self._containers.append((value, made, list(made)))
            return made
        self.watched.append(Watched.mapping(value))
        made = {k: self.out(v) for k, v in value.items()}
        self._containers.append((value, made, dict(made)))
        return made

    # ---------------------------------------------------------------- functions

    def function(self, function: types.FunctionType) -> Any:
        """A Python function with its names looked up in this space."""
        if not is_user_module(function.__module__) and not _is_loose(function):
            return function
        known = self._functions.get(id(function))
        if known is not None:
            return known[1]
        cells = tuple([self._cell(c) for c in function.__closure__ or ()])
        real = function.__globals__
        names = self._globals.get(id(real))
        if names is None:
            names = self._globals[id(real)] = Globals(real, self)
        made = types.FunctionType(function.__code__, names, function.__name__, None, cells or None)
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__dict__.update(function.__dict__)
        self._functions[id(function)] = (function, made)
        made.__defaults__ = tuple(map(self.out, function.__defaults__)) if function.__defaults__ else None
        if function.__kwdefaults__:
            made.__kwdefaults__ = {k: self.out(v) for k, v in function.__kwdefaults__.items()}
        self._fill(function.__closure__ or ())
        return made

    def _cell(self, cell: Any) -> Any:
        known = self._cells.get(id(cell))
        if known is None:
            known = self._cells[id(cell)] = (cell, types.CellType(), _NOTHING)
        return known[1]

    def _fill(self, cells: tuple[Any, ...]) -> None:
        for cell in cells:
            real, made, handed = self._cells[id(cell)]
            if handed is not _NOTHING:
                continue
            try:
                value = real.cell_contents
            except ValueError:  # not assigned yet
                continue
            # Entered first: a recursive function finds itself in its own cell.
            self._cells[id(cell)] = (real, made, value)
            stand_in = self.read(value, Watched.cell(real, value))
            made.cell_contents = stand_in
            self._cells[id(cell)] = (real, made, stand_in)

    # ---------------------------------------------------------------- after the trace

    def close(self, name: str) -> None:
        """Perform, with values, what the function did to the world outside, and warn about it."""
        changed: list[str] = []
        for names in self._globals.values():
            for key, value in names.stored().items():
                names._real[key] = self.plain(value)
                changed.append(f"global {key}")
        for real, made, handed in self._cells.values():
            value = _contents(made)
            if handed is not _NOTHING and value is not handed and value is not _NOTHING:
                real.cell_contents = self.plain(value)
                changed.append("an outer variable")
        for real, made, before in self._containers:
            if _differs(made, before):
                _restore(real, self.plain(made), made, before)
                changed.append(f"a {type(real).__name__}")
        for (_, key), (instance, value) in self.attributes.items():
            object.__setattr__(instance, key, self.plain(value))
            changed.append(f"attribute {key}")
        if changed:
            warnings.warn(
                SideEffectWarning(
                    f"{name} changed {', '.join(dict.fromkeys(changed))} while it was traced\n"
                    "  That happens once for each trace, not at every call. Return the value instead."
                ),
                stacklevel=2,
            )

    def plain(self, value: Any) -> Any:
        """A value without tracers and stand-ins."""
        if isinstance(value, Tracer):
            concrete = np.asarray(self.trace.concrete(value.expr), value.dtype)
            return (
                concrete.item()
                if value.expr.aval.weak
                else concrete[()]
                if not concrete.ndim
                else concrete.copy()
            )
        if type(value) in (list, tuple):
            return type(value)([self.plain(v) for v in value])
        if type(value) is dict:
            return {k: self.plain(v) for k, v in value.items()}
        for real, stand_in in self._kept.values():
            if stand_in is value and real is not value:
                return real
        return value


def _is_random(value: Any) -> bool:
    """True for a generator of random numbers; asking for NumPy's would load its random module."""
    loaded = sys.modules.get("numpy.random")
    return isinstance(value, random.Random) or (
        loaded is not None and isinstance(value, (loaded.Generator, loaded.RandomState))
    )


def _is_loose(function: types.FunctionType) -> bool:
    """True for functions that code executed from a string defined: they say no module of their own."""
    return function.__module__ is None


def _namesake(value: Any) -> Any:
    try:
        return module_stand_in(value) or FUNCTIONS_BY_OBJECT.get(value)
    except TypeError:  # not hashable
        return None


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _NOTHING


def _differs(made: Any, before: Any) -> bool:
    if len(made) != len(before):
        return True
    if isinstance(made, dict):
        return any(k not in before or made[k] is not before[k] for k in made)
    return any(a is not b for a, b in zip(made, before, strict=True))


def _restore(real: Any, plain: Any, made: Any, before: Any) -> None:
    """Give the user's container what the traced code put into its stand-in."""
    if isinstance(real, dict):
        for key in before:
            if key not in made:
                real.pop(key, None)
        for key in made:
            if key not in before or made[key] is not before[key]:
                real[key] = plain[key]
        return
    unchanged = {id(b): r for b, r in zip(before, list(real), strict=False)}
    real[:] = [unchanged.get(id(m), p) for m, p in zip(made, plain, strict=True)]


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its names looked up in the space of the trace in progress."""
    trace = active_trace()
    if trace is None:
        return function
    if trace.space is None:
        trace.space = Space(trace)
    made: Callable[..., Any] = trace.space.out(function)
    if made is not function:
        trace.unseen = frozenset()
    return made
