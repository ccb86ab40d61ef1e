"""Stand-ins for the user's objects: their arrays are handed out traced, their methods run with stand-ins.

A stand-in holds what traced code writes to it; everything else is read from the object and watched.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from ..errors import TraceError, with_location
from .classes import class_stand_in
from .number_types import STANDS_FOR
from .refusing import refuse
from .watches import MISSING, Watched, slot_value

if TYPE_CHECKING:
    from .namespace import Space

_PARTS = "_symgrad_parts"
_CONTAINERS = (dict, list, set, types.SimpleNamespace)
_made: dict[type, tuple[type, Any]] = {}


def proxy_of(instance: Any, space: Space) -> Any:
    """A stand-in that is an instance of a subclass; the object itself where that cannot be."""
    cls = type(instance)
    if any(isinstance(vars(c).get("__getattribute__"), types.FunctionType) for c in cls.__mro__):
        raise TraceError(
            with_location(
                f"{cls.__name__} decides itself what its attributes are (__getattribute__), which cannot be watched",
                "", "Take the values out of the object before the traced function uses them.",
            )
        )  # fmt: skip
    if isinstance(instance, tuple):
        return _rebuilt(instance, cls, space)
    proxy_class = _proxy_class(cls)
    if proxy_class is None:
        return instance
    made = _allocator(cls).__new__(proxy_class)
    vars(proxy_class)[_PARTS].__set__(made, (instance, space))
    return made


def _allocator(cls: type) -> Any:
    """The builtin class that objects of a class are containers of."""
    return next((c for c in _CONTAINERS if issubclass(cls, c)), object)


def is_proxy(value: Any) -> bool:
    """True for a stand-in of an object."""
    return _PARTS in vars(type(value))


def _rebuilt(instance: Any, cls: type, space: Space) -> Any:
    """A tuple with names, made anew from stand-ins."""
    made = tuple.__new__(class_stand_in(cls), [space.out(v) for v in tuple.__iter__(instance)])
    space.made[id(made)] = made
    return made


def _proxy_class(cls: type) -> Any:
    base = class_stand_in(cls)
    if cls in _made and _made[cls][0] is base:
        return _made[cls][1]
    made: Any = None
    if base is not cls:
        members: dict[str, Any] = {
            STANDS_FOR: cls, "__slots__": (_PARTS,), "__module__": cls.__module__, "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__, "__getattribute__": _getattribute, "__delattr__": _delattr,
            "__reduce_ex__": _reduce,
        }  # fmt: skip
        if not hasattr(cls, "__copy__"):
            members["__copy__"] = _copied
        if not hasattr(cls, "__deepcopy__"):
            members["__deepcopy__"] = _deeply_copied
        try:
            made = type(base)(cls.__name__, (base,), members)
            _allocator(cls).__new__(made)
        except TypeError:
            # Classes with C-level state or that forbid subclasses stand for themselves.
            made = None
    _made[cls] = base, made
    return made


# ------------------------------------------------------------------------------------------ attributes


def _getattribute(self: Any, name: str) -> Any:
    proxy_class = type(self)
    cls = vars(proxy_class)[STANDS_FOR]
    if name == "__class__":
        return class_stand_in(cls)
    instance, space = vars(proxy_class)[_PARTS].__get__(self)
    if name == "__dict__":
        return Attributes(self, instance, space)
    if name.startswith("__") and name.endswith("__"):
        return object.__getattribute__(self, name)
    static = inspect.getattr_static(cls, name, None)
    if isinstance(static, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return _slot(self, instance, static, space)
    if hasattr(type(static), "__set__"):
        return object.__getattribute__(self, name)
    return _plain(self, name, instance, space)


def _slot(self: Any, instance: Any, static: Any, space: Space) -> Any:
    own = slot_value(self, static)
    if own is not MISSING:
        return own
    value = slot_value(instance, static)
    watched = Watched.slot(instance, static, value)
    if value is MISSING:
        space.watched.append(watched)
        raise AttributeError(f"{type(instance).__name__!r} object has no attribute {static.__name__!r}")
    return space.read(value, watched)


def _plain(self: Any, name: str, instance: Any, space: Space) -> Any:
    own = own_attributes(self)
    if own is not None and name in own:
        return own[name]
    real = own_attributes(instance)
    if real is not None:
        value = real.get(name, MISSING)
        if value is not MISSING:
            return space.read(value, Watched.item(real, name, value))
        space.watched.append(Watched.item(real, name, MISSING))
    return object.__getattribute__(self, name)


def own_attributes(instance: Any) -> Any:
    """The dictionary of an object's attributes; None where it has none."""
    try:
        return object.__getattribute__(instance, "__dict__")
    except AttributeError:
        return None


def _delattr(self: Any, name: str) -> None:
    refuse(
        f"the attribute {name} of an object from outside is deleted",
        "Do it outside of the traced function.",
    )


def _reduce(self: Any, protocol: Any) -> Any:
    refuse("an object that holds traced values cannot be pickled", "Pickle it outside of the traced function.")


class Attributes(MutableMapping[str, Any]):
    """Stands for the ``__dict__`` of an object."""

    def __init__(self, proxy: Any, instance: Any, space: Space) -> None:
        self._proxy = proxy
        self._real = own_attributes(instance) or {}
        space.watched.append(Watched.mapping(self._real))

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self._real, *(own_attributes(self._proxy) or {})]))

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return getattr(self._proxy, name)

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self._proxy, name, value)

    def __delitem__(self, name: str) -> None:
        _delattr(self._proxy, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


def slots_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Names and descriptors of the slots of a class."""
    for owner in cls.__mro__[:-1]:
        for name, member in vars(owner).items():
            if isinstance(member, types.MemberDescriptorType) and name not in (_PARTS, "__dict__"):
                yield name, member


# ------------------------------------------------------------------------------------------ copies


def _copied(self: Any) -> Any:
    return copy_of(self, lambda v: v)


def _deeply_copied(self: Any, memo: Any) -> Any:
    return copy_of(self, copy.deepcopy, memo)


def copy_of(self: Any, convert: Callable[..., Any], *more: Any) -> Any:
    """A new object with the attributes of the one that a stand-in stands for."""
    cls = vars(type(self))[STANDS_FOR]
    space = vars(type(self))[_PARTS].__get__(self)[1]
    kind = _allocator(cls)
    made = kind.__new__(class_stand_in(cls))
    space.made[id(made)] = made
    if kind in (dict, list, set):
        kind.__init__(made, self)
    if own_attributes(self) is not None:
        for name in list(self.__dict__):
            object.__setattr__(made, name, convert(getattr(self, name), *more))
    for name, _ in slots_of(cls):
        value = getattr(self, name, MISSING)
        if value is not MISSING:
            object.__setattr__(made, name, convert(value, *more))
    return made


# ------------------------------------------------------------------------------------------ after the trace


def written(proxy: Any) -> dict[str, Any]:
    """The attributes that traced code has set on a stand-in."""
    cls = vars(type(proxy))[STANDS_FOR]
    found = dict(own_attributes(proxy) or {})
    for name, slot in slots_of(cls):
        value = slot_value(proxy, slot)
        if value is not MISSING:
            found[name] = value
    return found
