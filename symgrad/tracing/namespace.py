"""The trace namespace: the user's function runs with its names looked up here.

Global and closure names are handed out as stand-ins: symgrad's namesake of a NumPy, math or builtin function, a
tracer for a captured array, the function itself bound to this namespace for a helper function. Nothing global is
patched, so threads do not meet; and the look-ups are what the conditions on captured values are made of.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import io
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.aval import aval_of
from ..core.lazy import lazy_import
from ..errors import DtypeError
from .applying import Vectorized
from .classes import class_stand_in, settle
from .closing import close, plain, released
from .containers import Copies, is_container
from .creating import constant, is_numeric
from .instances import is_proxy, proxy_of
from .mathematics import is_traced
from .namesakes import module_stand_in, namesake
from .number_types import NumberType, real_type
from .outside import ENVIRONMENT, Outside, random_source
from .refusing import refuse
from .spaces import Cached, Globals, UserModule
from .state import Trace, active_trace
from .tracer import ArrayTracer, Tracer
from .watches import MISSING, Watched

_PLAIN = (int, float, bool, str, bytes, complex, type(None), slice, range)
_STDLIB = frozenset(sys.stdlib_module_names) - {"__main__"}
_KNOWN = frozenset({"numpy", "scipy", "symgrad", "sympy", "mpmath", "jinja2", "optree"})
_CONTAINING = frozenset({"types", "argparse", "collections", "queue"})
_VIEWS: dict[type, str] = {type(getattr({}, name)()): name for name in ("keys", "values", "items")}
_MAKING_CLASSES = ("__new__", "__init__", "__prepare__")
_SYNCHRONIZING = frozenset({"threading", "asyncio", "multiprocessing"})
random: Any = lazy_import("random")


def is_user_module(name: str | None) -> bool:
    """True for modules whose functions are run with stand-ins."""
    top = (name or "").partition(".")[0]
    return top not in _STDLIB and top not in _KNOWN


class Space:
    """The stand-ins of one trace.

    Attributes
    ----------
    watched
        What was read of the world outside; the trace holds as long as it is the same.
    made
        Objects of the user's classes that were made while tracing, by id.
    proxies
        Objects from outside with what stands for them.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.watched: list[Watched] = []
        self.made: dict[int, Any] = {}
        self.proxies: list[tuple[Any, Any]] = []
        self.classes: list[Any] = []
        self.states: list[tuple[Any, dict[str, Any]]] = []
        self.functions: dict[int, tuple[Any, Any, dict[str, Any]]] = {}
        self.cells: dict[int, tuple[Any, Any, Any, str]] = {}
        self.modules: dict[int, Globals] = {}
        self.containers = Copies(self.out, self.watched.append, trace.live)
        self.called: dict[int, str] = {}
        self.real: dict[int, tuple[Any, Any]] = {}
        self._kept: dict[int, tuple[Any, Any]] = {}

    # ---------------------------------------------------------------- reading

    def read(self, value: Any, watched: Watched) -> Any:
        """Hand out a captured value and remember where it was read."""
        live = self.trace.live.get(watched.place)
        if live is not None:
            return live
        self.watched.append(watched)
        self.called.setdefault(id(value), str(watched))
        return self.out(value)

    def out(self, value: Any) -> Any:
        """The stand-in of a value; most values stand for themselves."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, Tracer):
            return value
        kept = self._kept.get(id(value))
        if kept is not None and kept[0] is value:
            return kept[1]
        return self._keep(value, self._made(value, kind))

    def _keep(self, value: Any, stand_in: Any) -> Any:
        self._kept[id(value)] = (value, stand_in)
        if stand_in is not value:
            # What stands for something is handed back to the namespace by code that is not traced.
            self._kept[id(stand_in)] = (stand_in, stand_in)
            self.real[id(stand_in)] = (stand_in, value)
        return stand_in

    def fresh(self, value: Any) -> Any:
        """Hand out what a call outside returned."""
        if is_numeric(value):
            return constant(value, self.trace, shared=True)
        if _is_random(value):
            return random_source(value, type(value).__name__)
        return Outside(value, f"a {type(value).__name__}") if _reaches_out(value) else value

    def _made(self, value: Any, kind: type) -> Any:
        if kind is np.ndarray or isinstance(value, np.ndarray):
            return self._array(value)
        if kind is types.FunctionType:
            return self.function(value)
        if kind is types.MethodType:
            return types.MethodType(self.out(value.__func__), self.out(value.__self__))
        if kind is types.ModuleType:
            return UserModule(value, self) if is_user_module(value.__name__) else module_stand_in(value)
        if kind in (types.BuiltinFunctionType, types.MethodWrapperType):
            return self._of_object(value)
        if kind is functools.partial:
            return self._partial(value)
        if isinstance(value, type):
            return self._class(value)
        if kind is tuple:
            parts = [self.out(v) for v in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else tuple(parts)
        if is_container(value):
            return self.containers.fill(value, self._keep(value, self.containers.empty(value)))
        if isinstance(value, (np.generic, np.dtype, np.ufunc)):
            known = namesake(value)
            return value if known is None else known
        return self._object(value, kind)

    def _array(self, value: np.ndarray[Any, Any]) -> Any:
        try:
            aval_of(value)
        except DtypeError:
            self.watched.append(Watched.contents(value))
            return self._objects(value) if value.dtype == object else value
        tracer = ArrayTracer(self.trace.table.capture(value))
        self.trace.captured[id(value)] = (value, tracer)
        return tracer

    def _objects(self, value: np.ndarray[Any, Any]) -> Any:
        made = np.empty(value.shape, object)
        for index in np.ndindex(value.shape):
            made[index] = self.out(value[index])
        self.containers.note(value, made)
        return made

    def _of_object(self, value: Any) -> Any:
        """A bound method written in C, such as the append of a list."""
        owner = value.__self__
        if isinstance(owner, types.ModuleType) or owner is None:
            known = namesake(value)
            return value if known is None else known
        self.called.setdefault(id(owner), self.called.get(id(value), ""))
        stand_in = self.out(owner)
        return value if stand_in is owner else getattr(stand_in, value.__name__)

    def _partial(self, value: Any) -> Any:
        if self._is_traced_world(value.func):
            return value
        keywords = {k: self.out(v) for k, v in value.keywords.items()}
        return functools.partial(self.out(value.func), *map(self.out, value.args), **keywords)

    def _class(self, value: Any) -> Any:
        if not is_user_module(value.__module__):
            known = namesake(value)
            return value if known is None else known
        if isinstance(value, NumberType) or real_type(value) is not value or self._is_traced_world(value):
            return value
        self._check_metaclass(value)
        made = class_stand_in(value)
        if made is not value:
            self.classes.append(made)
        return made

    @staticmethod
    def _check_metaclass(value: type) -> None:
        meta = type(value)
        own = [n for n, m in vars(meta).items() if isinstance(m, types.FunctionType) and n not in _MAKING_CLASSES]
        if is_user_module(meta.__module__) and own:
            refuse(
                f"the class {value.__name__} has a metaclass with methods ({', '.join(own)}), which cannot be traced",
                "Make objects of that class outside of the traced function.",
            )

    def _object(self, value: Any, kind: type) -> Any:
        if kind is functools._lru_cache_wrapper:
            return Cached(value, self)
        if kind is np.vectorize:
            function = self.out(value.pyfunc)
            return Vectorized(function, value.otypes, None, value.excluded or None, value.cache, value.signature)
        if value is os.environ:
            return ENVIRONMENT
        if _is_random(value):
            return random_source(value, kind.__name__)
        if _reaches_out(value):
            return Outside(value, f"a {kind.__name__}")
        if isinstance(value, contextvars.ContextVar):
            return _Variable(value, self)
        if kind in _VIEWS:
            (behind,) = gc.get_referents(value.mapping)
            return getattr(self.out(behind), _VIEWS[kind])()
        if isinstance(value, weakref.ReferenceType):
            return lambda: self.out(value())
        if isinstance(value, types.MappingProxyType):
            (behind,) = gc.get_referents(value)
            return types.MappingProxyType(self.out(behind))
        if _is_buffer(value):
            self.watched.append(Watched.contents(value))
            return value
        is_users = is_user_module(kind.__module__) and not self._is_traced_world(value)
        if is_users or (kind.__module__ in _CONTAINING and hasattr(value, "__dict__")):
            made = proxy_of(value, self)
            if made is not value and is_proxy(made):
                self._keep(value, made)
                self.proxies.append((value, made))
                self._fill(value, made)
                return made
            if made is not value:
                return made
        if hasattr(value, "__dict__") and (is_users or not callable(value)) and kind.__module__ not in _SYNCHRONIZING:
            self._watch_state(value)
        known = namesake(value)
        return value if known is None else known

    def _fill(self, value: Any, made: Any) -> None:
        """Give the stand-in of an object that is a container its items."""
        if isinstance(value, (dict, list, set)):
            self.containers.fill(value, made)

    def _watch_state(self, value: Any) -> None:
        """An object of a library computes with its own attributes, one level of which is watched."""
        state = vars(value)
        if type(state) is dict:
            self.watched.append(Watched.mapping(state))
            self.watched.extend([Watched.contents(v) for v in state.values() if isinstance(v, np.ndarray)])
            self.states.append((value, dict(state)))

    # ---------------------------------------------------------------- functions

    def names(self, real: dict[str, Any]) -> Globals:
        """The names of a module."""
        if isinstance(real, Globals):
            return real
        found = self.modules.get(id(real))
        if found is None:
            found = self.modules[id(real)] = Globals(real, self)
        return found

    def function(self, function: types.FunctionType) -> Any:
        """A Python function with its names looked up in this space."""
        if self._is_traced_world(function):
            return function
        known = namesake(function)
        if known is not None:
            return known
        # Functions that code executed from a string defined say no module of their own.
        if function.__module__ and not is_user_module(function.__module__):
            return function
        names = function.__code__.co_freevars
        cells = tuple([self._cell(c, n) for c, n in zip(function.__closure__ or (), names, strict=True)])
        made = types.FunctionType(
            function.__code__, self.names(function.__globals__), function.__name__, None, cells or None
        )
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        self._keep(function, made)
        self._watch_function(function)
        made.__defaults__ = tuple(map(self.out, function.__defaults__)) if function.__defaults__ else None
        if function.__kwdefaults__:
            made.__kwdefaults__ = self.out(function.__kwdefaults__)
        own = vars(function)
        if own:
            self.watched.append(Watched.mapping(own))
            made.__dict__.update({k: self.out(v) for k, v in own.items()})
        self.functions[id(function)] = (function, made, dict(made.__dict__))
        self._fill_cells(function.__closure__ or ())
        return made

    def _watch_function(self, function: types.FunctionType) -> None:
        for name in ("__code__", "__defaults__"):
            descriptor: Any = vars(types.FunctionType)[name]
            self.watched.append(Watched.slot(function, descriptor, getattr(function, name)))

    def _cell(self, cell: Any, name: str) -> Any:
        known = self.cells.get(id(cell))
        if known is None:
            known = self.cells[id(cell)] = (cell, types.CellType(), MISSING, name)
        return known[1]

    def _fill_cells(self, cells: tuple[Any, ...]) -> None:
        for cell in cells:
            real, made, handed, name = self.cells[id(cell)]
            if handed is not MISSING:
                continue
            try:
                value = real.cell_contents
            except ValueError:  # not assigned yet
                self.watched.append(Watched.cell(real, MISSING, name))
                continue
            # Entered first: a recursive function finds itself in its own cell.
            self.cells[id(cell)] = (real, made, value, name)
            # super() looks for the class itself.
            stand_in = value if name == "__class__" else self.read(value, Watched.cell(real, value, name))
            made.cell_contents = stand_in
            self.cells[id(cell)] = (real, made, stand_in, name)

    @staticmethod
    def _is_traced_world(value: Any) -> bool:
        """True for a function, class or object that traced code has made."""
        if isinstance(value, types.FunctionType):
            return isinstance(value.__globals__, Globals)
        cls = value if isinstance(value, type) else type(value)
        if real_type(cls) is not cls:
            return True
        return any(
            isinstance(m, types.FunctionType) and isinstance(m.__globals__, Globals) for m in vars(cls).values()
        )

    # ---------------------------------------------------------------- arguments and results

    def entered(self, value: Any) -> Any:
        """An argument of the traced function: objects with traced fields run their methods with stand-ins."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, Tracer):
            return value
        if kind in (list, tuple):
            parts = [self.entered(v) for v in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else kind(parts)
        if kind is dict:
            return {k: self.entered(v) for k, v in value.items()}
        if not is_user_module(kind.__module__) or isinstance(value, type) or not is_traced(value):
            return self.out(value)
        cls = self.out(kind)
        if cls is not kind and real_type(cls) is kind:
            object.__setattr__(value, "__class__", cls)
            self.made[id(value)] = value
            for name in vars(value) if hasattr(value, "__dict__") else ():
                object.__setattr__(value, name, self.entered(vars(value)[name]))
        return value

    def settled(self, result: Any) -> Any:
        """What the traced function returned, with all objects of their own classes."""
        result = released(self, result)
        for instance in self.made.values():
            settle(instance)
        return result

    def plain(self, value: Any, strict: bool = True) -> Any:
        """A value without tracers and stand-ins."""
        return plain(self, value, strict)

    def close(self, name: str) -> None:
        """Perform, with values, what the function did to the world outside, and warn about it."""
        close(self, name)


class _Variable:
    """Stands for a context variable."""

    def __init__(self, real: contextvars.ContextVar[Any], space: Space) -> None:
        self._real = real
        self._space = space

    def get(self, *default: Any) -> Any:
        """The value in the context; it is watched."""
        value = self._real.get(*default)
        ask: Callable[..., Any] = _asker(self._real, default)
        return self._space.read(value, Watched.answer(self._real.name, ask, None, value))

    def __getattr__(self, name: str) -> Any:
        return getattr(Outside(self._real, self._real.name), name)


def _asker(variable: contextvars.ContextVar[Any], default: tuple[Any, ...]) -> Callable[..., Any]:
    def ask(_: Any) -> Any:
        try:
            return variable.get(*default)
        except LookupError:
            return MISSING

    return ask


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


def _reaches_out(value: Any) -> bool:
    """True for files, loggers and iterators that somebody else may hold."""
    loggers = {("logging", "Logger"), ("logging", "LoggerAdapter")}
    return isinstance(value, (io.IOBase, Iterator)) or any(
        (c.__module__, c.__name__) in loggers for c in type(value).__mro__
    )


def _is_random(value: Any) -> bool:
    """True for a generator of random numbers; asking for NumPy's would load its random module."""
    loaded = sys.modules.get("numpy.random")
    return ("random" in sys.modules and isinstance(value, random.Random)) or (
        loaded is not None and isinstance(value, (loaded.Generator, loaded.RandomState))
    )


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its names looked up in the space of the trace in progress."""
    trace = active_trace()
    if trace is None:
        return function
    if trace.space is None:
        trace.space = Space(trace)
    space: Space = trace.space
    made: Callable[..., Any] = space.out(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        return made(*[space.entered(a) for a in args], **{k: space.entered(v) for k, v in kwargs.items()})

    return call
