"""Stand-ins for the user's classes: subclasses whose methods run with stand-ins and whose attributes are watched.

One stand-in serves a class for the whole process; it asks the trace in progress for everything. Objects made from
it while tracing are given their own class when the trace is over.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .number_types import STANDS_FOR, real_type
from .state import active_trace
from .watches import MISSING, Watched

if TYPE_CHECKING:
    from .namespace import Space

_UNTOUCHED = frozenset({
    "__class__", "__dict__", "__weakref__", "__module__", "__doc__", "__slots__", "__qualname__", "__annotations__",
    "__orig_bases__", "__parameters__", "__abstractmethods__", "_abc_impl", "__init_subclass__", "__class_getitem__",
    "__set_name__", "__subclasshook__", "__del__", "__dataclass_fields__", "__dataclass_params__", "__match_args__",
    "__getattribute__", "__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "_fields",
    "_field_defaults", "__static_attributes__", "__firstlineno__",
})  # fmt: skip
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class _Quiet:
    """First base of stand-ins for classes that want to know of their subclasses."""

    __slots__ = ()

    def __init_subclass__(cls, **_: Any) -> None:
        """Say nothing to the other bases."""


class _LoudQuiet:
    """The same for classes whose objects have a dictionary."""

    def __init_subclass__(cls, **_: Any) -> None:
        """Say nothing to the other bases."""


_made: dict[type, type] = {}
_original: dict[type, dict[str, Any]] = {}
_shapes: dict[type, Any] = {}


def _shape(cls: type) -> Any:
    """Names and kinds of what a class and its bases hold: the stand-in is made for them."""
    return [(n, type(m)) for owner in cls.__mro__[:-1] for n, m in vars(owner).items()]


def class_stand_in(cls: type) -> Any:
    """The stand-in of a class of the user's; the class itself where there can be none."""
    if cls in _made and _shapes[cls] == _shape(cls):
        return _made[cls]
    if isinstance(cls, enum.EnumMeta) or issubclass(cls, BaseException) or STANDS_FOR in vars(cls):
        return cls
    members = _members(cls)
    made = _derived(cls, members)
    _made[cls], _shapes[cls] = made, _shape(cls)
    if made is not cls:
        _original[made] = {n: vars(made)[n] for n in members if n in vars(made)}
    return made


def _derived(cls: type, members: dict[str, Any]) -> Any:
    """A class derived from one of the user's; that one itself where there can be none."""
    meta: Any = type(cls)
    listening = [c for c in cls.__mro__[:-1] if "__init_subclass__" in vars(c) and c.__module__ != "typing"]
    quiet = (_LoudQuiet if cls.__dictoffset__ else _Quiet, cls)
    for bases in ([quiet] if listening else []) + [(cls,)]:
        try:
            made = meta(cls.__name__, bases, dict(members))
        except TypeError:  # a class that cannot be derived from
            continue
        if _can_settle(made, cls):
            return made
    return cls


def _can_settle(made: type, cls: type) -> bool:
    """Whether objects made while tracing can change to their own class."""
    try:
        instance: Any = object.__new__(made)
    except TypeError:  # containers and the like are made in another way
        return True
    try:
        object.__setattr__(instance, "__class__", cls)
    except TypeError:
        return False
    return True


def class_changes(made: type) -> dict[str, Any]:
    """Attributes that traced code has set on a stand-in; the stand-in forgets them."""
    original = _original.get(made)
    if original is None:
        return {}
    changed = {}
    for name, value in list(vars(made).items()):
        if name in original and value is not original[name]:
            changed[name] = value
            setattr(made, name, original[name])
        elif name not in original and not name.startswith("_"):
            changed[name] = value
            delattr(made, name)
    return changed


def settle(instance: Any) -> None:
    """Give an object that was made while tracing its own class."""
    real = vars(type(instance)).get(STANDS_FOR)
    if real is not None:
        object.__setattr__(instance, "__class__", real)


def _members(cls: type) -> dict[str, Any]:
    members: dict[str, Any] = {
        STANDS_FOR: cls, "__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__, "__new__": _allocation(cls),
    }  # fmt: skip
    for owner in cls.__mro__[:-1]:
        if owner.__module__ == "builtins":
            continue
        for name, member in vars(owner).items():
            if name not in members and name not in _UNTOUCHED:
                made = _member(cls, name, member)
                if made is not None:
                    members[name] = made
    return members


def _member(cls: type, name: str, member: Any) -> Any:
    if isinstance(member, types.FunctionType):
        special = name.startswith("__") and name.endswith("__")
        return _special(cls, name) if special else _Member(cls, name)
    if isinstance(member, property):
        return _property(cls, name, member)
    if isinstance(member, _SLOTS) or member is None:
        return None
    return _descriptor(cls, name) if hasattr(type(member), "__set__") else _Member(cls, name)


def current_space() -> Space | None:
    """The space of the trace in progress."""
    trace = active_trace()
    return None if trace is None else trace.space


class _Member:
    """A method or another attribute of a class, looked up in the trace in progress."""

    __slots__ = ("_name", "_of")

    def __init__(self, of: type, name: str) -> None:
        self._of = of
        self._name = name

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        return bind(self._of.__mro__, self._name, instance, type(instance) if cls is None else cls)


def bind(order: Sequence[type], name: str, instance: Any, cls: Any) -> Any:
    """What ``instance.name`` gives, looked for in classes in order; for a class ``instance`` is None."""
    space = current_space()
    owner = _owner(order, name, space)
    member = vars(owner)[name]
    if space is None:
        return member.__get__(instance, cls) if hasattr(type(member), "__get__") else member
    if isinstance(member, (staticmethod, classmethod)):
        function = _watched(space, owner, name, member)
        return types.MethodType(function, cls) if isinstance(member, classmethod) else function
    if isinstance(member, (property, functools.cached_property)):
        return member if instance is None else _watched(space, owner, name, member)(instance)
    if isinstance(member, (functools.partialmethod, functools.singledispatchmethod)):
        space.watched.append(Watched.item(vars(owner), name, member))
        return _indirect(space, member, instance, cls)
    value = space.read(member, Watched.item(vars(owner), name, member))
    return value.__get__(instance, cls) if hasattr(type(value), "__get__") else value


def _indirect(space: Space, member: Any, instance: Any, cls: Any) -> Any:
    """A method that is chosen or completed when it is called."""
    if isinstance(member, functools.partialmethod):
        function = space.out(member.func).__get__(instance, cls)
        return functools.partial(function, *map(space.out, member.args), **space.out(dict(member.keywords)))

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = member.dispatcher.dispatch(real_type(args[0].__class__))
        return space.out(chosen).__get__(instance, cls)(*args, **kwargs)

    return call


def _owner(order: Sequence[type], name: str, space: Space | None = None) -> type:
    """The first class that holds a name; that those before do not is watched."""
    for owner in order:
        if name in vars(owner):
            return owner
        if space is not None:
            space.watched.append(Watched.item(vars(owner), name, MISSING))
    raise AttributeError(f"type object {order[0].__name__!r} has no attribute {name!r}")


def _watched(space: Space, owner: type, name: str, member: Any) -> Any:
    """The function inside a wrapper that a class holds under a name."""
    space.watched.append(Watched.item(vars(owner), name, member))
    inner = member.fget if isinstance(member, property) else getattr(member, "func", None)
    return space.out(inner if inner is not None else member.__func__)


def _special(of: type, name: str) -> Any:
    """A method that Python itself calls: it must be a function."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return bind(of.__mro__, name, self, type(self))(*args, **kwargs)

    method.__name__ = name
    return method


def _descriptor(of: type, name: str) -> property:
    """A descriptor of the user's own that can be assigned to."""

    def read(self: Any) -> Any:
        return bind(of.__mro__, name, self, type(self))

    def write(self: Any, value: Any) -> None:
        space = current_space()
        member = vars(_owner(of.__mro__, name, space))[name]
        (member if space is None else space.out(member)).__set__(self, value)

    return property(read, write)


def _property(of: type, name: str, member: property) -> property:
    def part(which: str) -> Any:
        def call(self: Any, *value: Any) -> Any:
            space = current_space()
            owner = _owner(of.__mro__, name, space)
            found = vars(owner)[name]
            function = getattr(found, which)
            if space is not None:
                space.watched.append(Watched.item(vars(owner), name, found))
                function = space.out(function)
            return function(self, *value)

        return None if getattr(member, which) is None else call

    return property(part("fget"), part("fset"), part("fdel"), member.__doc__)


def _allocation(cls: type) -> Any:
    """``__new__``: what it makes is noted, to be given its own class later."""

    def allocate(made_from: Any, *args: Any, **kwargs: Any) -> Any:
        space = current_space()
        owner = _owner(cls.__mro__, "__new__")
        if owner is object:
            if (args or kwargs) and _owner(cls.__mro__, "__init__") is object:
                raise TypeError(f"{cls.__name__}() takes no arguments")
            made = object.__new__(made_from)
        elif space is not None and isinstance(vars(owner)["__new__"], staticmethod):
            made = space.out(vars(owner)["__new__"].__func__)(made_from, *args, **kwargs)
        else:
            made = cls.__new__(made_from, *args, **kwargs)
        if space is not None and STANDS_FOR in vars(type(made)):
            space.made[id(made)] = made
        return made

    return allocate


# ------------------------------------------------------------------------------------------ super


class Super:
    """Stands for ``super()``: what it finds runs with stand-ins."""

    def __init__(self, *given: Any) -> None:
        if given:
            cls, instance = given
        else:
            frame = sys._getframe(1)
            if "__class__" not in frame.f_locals:
                raise RuntimeError("super(): __class__ cell not found")
            cls, instance = frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]
        object.__setattr__(self, "_parts", (real_type(cls), instance))

    def __getattribute__(self, name: str) -> Any:
        cls, instance = object.__getattribute__(self, "_parts")
        of_class = isinstance(instance, type)
        order = (instance if of_class else type(instance)).__mro__
        rest = order[order.index(cls) + 1 :]
        owner = _owner(rest, name)
        if owner is object:
            return _of_object(name, instance)
        if owner.__module__ == "builtins" or name == "__new__":
            return getattr(super(cls, instance), name)
        return bind(rest, name, None if of_class else instance, instance if of_class else type(instance))


def _of_object(name: str, instance: Any) -> Any:
    member = vars(object)[name]
    return member.__get__(instance, type(instance)) if hasattr(type(member), "__get__") else member
