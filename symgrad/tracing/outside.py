"""Stand-ins for what reaches outside: random numbers, clocks, files, texts, the environment. Each use warns."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.lazy import lazy_import
from ..core.origin import user_origin
from .number_types import STANDS_FOR
from .refusing import warn_at
from .state import active_trace
from .tracer import ArrayTracer
from .watches import MISSING, Watched

datetime: Any = lazy_import("datetime")
logging: Any = lazy_import("logging")
pathlib: Any = lazy_import("pathlib")

_CONSTANT = "Its result becomes a constant of this trace, the same at every call. Get it outside and pass it in."
_ONCE = "It happens once for each trace, not at every call. Do it outside of the traced function."


def side_effect(what: str, why: str) -> None:
    """Warn about a look at the world outside, at the user's line."""
    origin = user_origin(2)
    warn_at(f"{what} while tracing{f'{chr(10)}  at {origin}' if origin else ''}\n  {why}", origin)


def plain(value: Any) -> Any:
    """A value without tracers, as the world outside gets it; what cannot be known yet stays as it is."""
    trace = active_trace()
    return value if trace is None or trace.space is None else trace.space.plain(value, strict=False)


def _handed_out(value: Any) -> Any:
    trace = active_trace()
    return value if trace is None or trace.space is None else trace.space.fresh(value)


def warning_call(function: Callable[..., Any], name: str, why: str = _CONSTANT, keeps: bool = True) -> Any:
    """The function, warning at each call; ``keeps`` says that traced arguments are handed on as they are."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        side_effect(f"{name} was called", why)
        if args and isinstance(args[0], ArrayTracer) and _reorders(function):
            return _reordered(function, args[0], *args[1:], **kwargs)
        if keeps:
            return _handed_out(function(*args, **kwargs))
        return _handed_out(function(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()}))

    return call


_REORDERING = ("shuffle", "permutation", "permuted", "choice")


def _reorders(function: Any) -> bool:
    """Whether a method of a random source of NumPy puts the elements of an array into another order."""
    source = type(getattr(function, "__self__", None)).__module__
    return source.startswith("numpy.random") and function.__name__ in _REORDERING


def _reordered(function: Any, x: ArrayTracer, *args: Any, **kwargs: Any) -> Any:
    """What NumPy does to the positions of the elements is done to the elements."""
    places = np.arange(x.size).reshape(x.shape)
    drawn = function(places, *args, **kwargs)
    if drawn is None:  # in place
        x.overwrite(x.reshape(-1)[places])
        return None
    return x.reshape(-1)[drawn]


class Outside:
    """Stands for an object whose methods reach outside: a file, a logger, a source of random numbers, an iterator."""

    def __init__(self, real: Any, name: str, why: str = _ONCE, keeps: bool = False) -> None:
        object.__setattr__(self, "_parts", (real, name, why, keeps))

    @property  # type: ignore[misc]  # read only, unlike that of object
    def __class__(self) -> Any:
        return type(object.__getattribute__(self, "_parts")[0])

    def __getattr__(self, name: str) -> Any:
        real, title, why, keeps = object.__getattribute__(self, "_parts")
        value = getattr(real, name)
        if not callable(value) or isinstance(value, type):
            return value
        return warning_call(value, f"{title}.{name}", why, keeps)

    def __setattr__(self, name: str, value: Any) -> None:
        real, title, why, _ = object.__getattribute__(self, "_parts")
        side_effect(f"{title}.{name} was set", why)
        setattr(real, name, plain(value))

    def __iter__(self) -> Iterator[Any]:
        real, title, why, _ = object.__getattribute__(self, "_parts")
        side_effect(f"{title} was read", why)
        return iter(real)

    def __next__(self) -> Any:
        real, title, why, _ = object.__getattribute__(self, "_parts")
        side_effect(f"{title} was read", why)
        return _handed_out(next(real))

    def __enter__(self) -> Any:
        real = object.__getattribute__(self, "_parts")[0]
        entered = real.__enter__()
        return self if entered is real else entered

    def __exit__(self, *error: object) -> Any:
        return object.__getattribute__(self, "_parts")[0].__exit__(*error)

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_parts")[0])


def random_source(real: Any, name: str) -> Outside:
    """Stands for a generator of random numbers."""
    return Outside(real, name, _CONSTANT, keeps=True)


# ------------------------------------------------------------------------------------------ modules


class OutsideModule:
    """Stands for a module whose functions reach outside; its classes and constants are its own."""

    def __init__(self, real: Any, name: str, names: dict[str, Any] | None = None, why: str = _CONSTANT) -> None:
        self._real = real
        self._why = why
        self._names = names or {}
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        value = getattr(self._real, name)
        if not callable(value) or isinstance(value, type):
            return self._others(name, value)
        keeps = self._why is _CONSTANT
        made = warning_call(value, f"{self.__name__}.{name}", self._why, keeps)
        return _source_of(made, name) if name in ("default_rng", "RandomState") else made

    def _others(self, name: str, value: Any) -> Any:
        if name in ("Random", "SystemRandom", "RandomState"):
            return _source_of(value, name)
        return value

    def __repr__(self) -> str:
        return repr(self._real)


def _source_of(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that makes a source of random numbers: that source warns too."""

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        return made if isinstance(made, Outside) else random_source(made, f"{name}()")

    return call


class StandIn:
    """Stands for a module: some names are symgrad's, the others are the module's own."""

    def __init__(self, real: Any, names: dict[str, Any], name: str = "") -> None:
        self._real = real
        self._names = names
        self.__name__ = name or real.__name__

    def __getattr__(self, name: str) -> Any:
        found = self._names.get(name)
        return getattr(self._real, name) if found is None else found

    def __repr__(self) -> str:
        return repr(self._real)


class SystemModule:
    """Stands for ``sys``: its streams warn."""

    __name__ = "sys"

    def __getattr__(self, name: str) -> Any:
        value = getattr(sys, name)
        if name in ("stdout", "stderr", "stdin"):
            return Outside(value, f"sys.{name}")
        trace = active_trace()
        if trace is None or trace.space is None:
            return value
        if name == "modules":
            return _Modules()
        return trace.space.out(value) if type(value) in (list, dict) else value


class _Modules:
    """Stands for ``sys.modules``."""

    def __getitem__(self, name: str) -> Any:
        trace = active_trace()
        return sys.modules[name] if trace is None or trace.space is None else trace.space.out(sys.modules[name])

    def get(self, name: str, default: Any = None) -> Any:
        """The module, or the default."""
        return self[name] if name in sys.modules else default

    def __contains__(self, name: str) -> bool:
        return name in sys.modules

    def __iter__(self) -> Iterator[str]:
        return iter(sys.modules)


class Environment:
    """Stands for ``os.environ``: what is read is watched."""

    def _read(self, key: str) -> Any:
        value = os.environ.get(key, MISSING)
        trace = active_trace()
        if trace is not None and trace.space is not None:
            trace.space.watched.append(Watched.answer(f"os.environ[{key!r}]", _variable, key, value))
        return value

    def __getitem__(self, key: str) -> str:
        value = self._read(key)
        if value is MISSING:
            raise KeyError(key)
        return value  # type: ignore[no-any-return]

    def get(self, key: str, default: Any = None) -> Any:
        """The variable, or the default."""
        value = self._read(key)
        return default if value is MISSING else value

    def __contains__(self, key: str) -> bool:
        return self._read(key) is not MISSING

    def __getattr__(self, name: str) -> Any:
        return getattr(Outside(os.environ, "os.environ"), name)

    def __setitem__(self, key: str, value: Any) -> None:
        side_effect(f"os.environ[{key!r}] was set", _ONCE)
        os.environ[key] = plain(value)

    def __repr__(self) -> str:
        return repr(os.environ)


def _variable(key: str) -> Any:
    return os.environ.get(key, MISSING)


ENVIRONMENT = Environment()


# ------------------------------------------------------------------------------------------ builtins


def print_(*args: Any, **kwargs: Any) -> None:
    """``print``: shows the values of this trace."""
    side_effect("print was called", "It prints once for each trace, not at every call. Print outside.")
    print(*map(plain, args), **kwargs)  # the user's own call


def open_(*args: Any, **kwargs: Any) -> Any:
    """``open``."""
    side_effect(
        "a file was opened", "What is read becomes a constant of this trace; read it outside and pass it in."
    )
    return open(*args, **kwargs)  # noqa: PTH123 - the user's own call


def input_(*args: Any) -> str:
    """``input``."""
    side_effect("input was asked for", "The answer becomes a constant of this trace.")
    return input(*args)


def warn_(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **kwargs: Any) -> None:
    """``warnings.warn``, which happens once for each trace."""
    side_effect("warnings.warn was called", _ONCE)
    warnings.warn(message, category, stacklevel + 1, source, **kwargs)


# ------------------------------------------------------------------------------------------ clocks and paths


@functools.cache
def clocks() -> dict[Any, Any]:
    """Stand-ins for the classes of datetime that read the clock."""

    class Moment(datetime.datetime):  # type: ignore[misc]
        now = staticmethod(warning_call(datetime.datetime.now, "datetime.now"))
        _symgrad_stands_for = datetime.datetime
        utcnow = staticmethod(warning_call(datetime.datetime.utcnow, "datetime.utcnow"))
        today = staticmethod(warning_call(datetime.datetime.today, "datetime.today"))

    class Day(datetime.date):  # type: ignore[misc]
        _symgrad_stands_for = datetime.date
        today = staticmethod(warning_call(datetime.date.today, "date.today"))

    return {datetime.datetime: Moment, datetime.date: Day}


_TOUCHING = (
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir", "stat", "iterdir",
    "glob", "rglob", "mkdir", "unlink", "touch", "rename", "resolve", "cwd", "home",
)  # fmt: skip


@functools.cache
def paths() -> dict[Any, Any]:
    """Stand-ins for the classes of pathlib that touch files."""
    concrete = type(pathlib.Path())
    members = {name: _touching(getattr(concrete, name), name) for name in _TOUCHING}
    for name in ("cwd", "home"):
        members[name] = staticmethod(warning_call(getattr(concrete, name), f"Path.{name}"))
    made = type("Path", (concrete,), {**members, "__slots__": (), STANDS_FOR: pathlib.Path})
    return {pathlib.Path: made, concrete: made}


def _touching(method: Any, name: str) -> Any:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        side_effect(f"Path.{name} was called", _CONSTANT)
        return method(self, *args, **kwargs)

    return call


# ------------------------------------------------------------------------------------------ which

_MODULES = ("random", "time", "secrets", "uuid", "subprocess", "socket", "tempfile", "shutil", "glob", "getpass")
_PATH_QUERIES = ("exists", "isfile", "isdir", "getsize", "getmtime", "realpath", "abspath", "expanduser")
_LOADING = ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")
_SAVING = ("save", "savez", "savez_compressed", "savetxt")
NUMPY_FILES: dict[str, Any] = {
    **{name: warning_call(getattr(np, name), f"np.{name}") for name in _LOADING if callable(getattr(np, name))},
    **{name: warning_call(getattr(np, name), f"np.{name}", _ONCE, keeps=False) for name in _SAVING},
}
"""NumPy's functions that touch files."""


def _logger(*name: Any) -> Any:
    return _handed_out(logging.getLogger(*name))


def outside_modules() -> dict[str, Any]:
    """Stand-ins for modules that reach outside, by their names."""
    made: dict[str, Any] = {name: OutsideModule(lazy_import(name), name) for name in _MODULES}
    made["pprint"] = OutsideModule(lazy_import("pprint"), "pprint", why=_ONCE)
    made["logging"] = OutsideModule(logging, "logging", {"getLogger": _logger}, _ONCE)
    path = StandIn(os.path, {f: warning_call(getattr(os.path, f), f"os.path.{f}") for f in _PATH_QUERIES})
    made["os"] = OutsideModule(
        os, "os", {"environ": ENVIRONMENT, "getenv": ENVIRONMENT.get, "fspath": os.fspath, "path": path}
    )
    made["os.path"] = path
    made["sys"] = SystemModule()
    made["numpy.random"] = OutsideModule(lazy_import("numpy.random"), "np.random")
    return made
