"""Stand-ins for the user's objects: their arrays are handed out traced, their methods run with stand-ins."""

from __future__ import annotations

import abc
import inspect
import types
from typing import TYPE_CHECKING, Any

from .watches import Watched

if TYPE_CHECKING:
    from .namespace import Space

_UNTOUCHED = frozenset({
    "__class__", "__dict__", "__getattribute__", "__setattr__", "__delattr__", "__init__", "__new__",
    "__init_subclass__", "__subclasshook__", "__del__", "__reduce__", "__reduce_ex__", "__getstate__",
    "__setstate__", "__dir__", "__sizeof__", "__repr__", "__str__", "__hash__", "__class_getitem__", "__getattr__",
})  # fmt: skip


def proxy_of(instance: Any, space: Space) -> Any:
    """A stand-in that is an instance of a subclass; the object itself where that cannot be."""
    cls = type(instance)
    if type(cls) not in (type, abc.ABCMeta):
        # Enumerations and the like make something of their classes.
        return instance
    try:
        sub = type(cls.__name__, (cls,), _members(cls, instance, space))
        return object.__new__(sub)
    except TypeError:
        # Classes with C-level state or that forbid subclasses stand for themselves.
        return instance


def _members(cls: type, instance: Any, space: Space) -> dict[str, Any]:
    def getattribute(self: Any, name: str) -> Any:
        return _attribute(self, name, cls, instance, space)

    def setattribute(self: Any, name: str, value: Any) -> None:
        space.attributes[id(instance), name] = (instance, value)

    members: dict[str, Any] = {
        "__getattribute__": getattribute,
        "__setattr__": setattribute,
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    for owner in cls.__mro__[:-1]:
        for name, member in vars(owner).items():
            special = name.startswith("__") and name.endswith("__") and name not in _UNTOUCHED
            if special and isinstance(member, types.FunctionType) and name not in members:
                members[name] = _special(member, space)
    return members


def _special(function: types.FunctionType, space: Space) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return space.out(function)(self, *args, **kwargs)

    return method


def _attribute(self: Any, name: str, cls: type, instance: Any, space: Space) -> Any:
    if name == "__class__":
        return cls
    written = space.attributes.get((id(instance), name))
    if written is not None:
        return written[1]
    if name.startswith("__"):
        return getattr(instance, name)
    static = inspect.getattr_static(cls, name, None)
    if isinstance(static, property) and static.fget is not None:
        return space.out(static.fget)(self)
    if isinstance(static, types.FunctionType) and name not in getattr(instance, "__dict__", {}):
        return types.MethodType(space.out(static), self)
    value = getattr(instance, name)
    own = getattr(instance, "__dict__", None)
    if own is not None and name in own:
        return space.read(value, Watched.item(own, name, value))
    return space.out(value)
