"""The names of a module as traced functions see them, and functions with a cache."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .mathematics import is_traced
from .namesakes import BUILTINS
from .watches import MISSING, Watched

if TYPE_CHECKING:
    from .namespace import Space

_MODULE_NAMES = ("__name__", "__package__", "__spec__", "__path__", "__file__", "__loader__")
_DELETED = object()


class Builtins(dict[str, Any]):
    """What stands behind the global names: names that the code of a class body does not find there, and builtins."""

    __slots__ = ("_globals",)

    def __init__(self, names: Globals) -> None:
        # These two the interpreter takes without asking whether they are missing.
        super().__init__(__import__=BUILTINS["__import__"], __build_class__=BUILTINS["__build_class__"])
        self._globals = names

    def __missing__(self, name: str) -> Any:
        if name in self._globals:
            return self._globals[name]
        value = BUILTINS[name]
        dict.__setitem__(self, name, value)
        return value


class Globals(dict[str, Any]):
    """The global names of one module as the traced functions of that module see them."""

    __slots__ = ("_builtins", "_handed", "_real", "_space")

    def __init__(self, real: dict[str, Any], space: Space) -> None:
        super().__init__({k: real[k] for k in _MODULE_NAMES if k in real})
        # Set, not missing: a function takes its builtins from here when it is made.
        dict.__setitem__(self, "__builtins__", Builtins(self))
        self._real = real
        self._space = space
        self._handed: dict[str, Any] = {}
        self._builtins: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        if name in self._handed:
            raise KeyError(name)  # deleted by traced code
        value = self._real.get(name, MISSING)
        watched = Watched.item(self._real, name, value)
        if value is MISSING:
            # The interpreter would go on to the builtins; a global name may hide them one day.
            self._space.watched.append(watched)
            value = BUILTINS[name]
            self._builtins[name] = value
            dict.__setitem__(self, name, value)
            return value
        stand_in = self._handed[name] = self._space.read(value, watched)
        dict.__setitem__(self, name, stand_in)
        return stand_in

    # What globals() and vars(module) are asked in Python.

    def __contains__(self, name: object) -> bool:
        try:
            value = self[str(name)]
        except KeyError:
            return False
        return self._builtins.get(str(name), MISSING) is not value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or the default."""
        return dict.__getitem__(self, name) if self.__contains__(name) else default

    def __iter__(self) -> Iterator[str]:
        return iter([k for k in dict.fromkeys([*self._real, *dict.keys(self)]) if k in self])

    def keys(self) -> Any:
        """All names."""
        return list(self)

    def values(self) -> Any:
        """All values."""
        return [self[k] for k in self]

    def items(self) -> Any:
        """All names with their values."""
        return [(k, self[k]) for k in self]

    def stored(self) -> dict[str, Any]:
        """Names that traced code assigned."""
        known = {**self._builtins, **self._handed}
        return {k: v for k, v in dict.items(self) if not k.startswith("__") and known.get(k, MISSING) is not v}

    def deleted(self) -> list[str]:
        """Names that traced code deleted."""
        return [k for k in self._handed if not dict.__contains__(self, k)]

    @property
    def real(self) -> dict[str, Any]:
        """The names outside."""
        return self._real


class UserModule:
    """Stands for a module of the user's: what is read from it is handed out like a global name."""

    def __init__(self, real: types.ModuleType, space: Space) -> None:
        object.__setattr__(self, "_parts", (real, space))

    def __getattribute__(self, name: str) -> Any:
        real, space = object.__getattribute__(self, "_parts")
        names = space.names(vars(real))
        if name == "__dict__":
            return names
        if name == "__class__":
            return types.ModuleType
        if name in names:
            return names[name]
        value = getattr(real, name)
        return space.read(value, Watched.answer(f"{real.__name__}.{name}", _attribute(real), name, value))

    def __setattr__(self, name: str, value: Any) -> None:
        real, space = object.__getattribute__(self, "_parts")
        space.names(vars(real))[name] = value

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_parts")[0])


def _attribute(module: types.ModuleType) -> Any:
    """A function that asks for an attribute which the module computes."""

    def ask(name: str) -> Any:
        return getattr(module, name, MISSING)

    return ask


class Cached:
    """Stands for a function with a cache (functools.lru_cache): results for traced values are not kept."""

    def __init__(self, real: Any, space: Space) -> None:
        self._real = real
        self._space = space
        self.__wrapped__ = space.out(real.__wrapped__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs) or not all(map(_is_plain, (*args, *kwargs.values()))):
            return self.__wrapped__(*args, **kwargs)
        return self._space.out(self._real(*args, **kwargs))

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in (tuple, frozenset):
        return all(map(_is_plain, value))
    return kind in (int, float, bool, str, bytes, complex, type(None))
