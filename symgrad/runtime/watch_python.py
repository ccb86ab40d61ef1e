"""Watches in Python: each becomes a function that tells whether it holds; dispatch_watch.c does it in C."""

from __future__ import annotations

import functools
import gc
import struct
import types
from collections.abc import Callable
from typing import Any, Final

from symgrad.runtime import specs
from symgrad.runtime.specs import Watch

# Not MISSING itself: somebody may have put that into the dict.
_ABSENT: Final = object()
_COMPARED: Final = (int, str, bytes)
_double: Final = struct.Struct("d").pack
_two_doubles: Final = struct.Struct("2d").pack


def condition(watch: Watch) -> Callable[[], bool]:
    """Return a function that tells whether a watch holds.

    Raises
    ------
    TypeError, ValueError
        If the watch makes no sense.

    Examples
    --------
    >>> scale = {"s": 2.0}
    >>> holds = condition(specs.Item(scale, "s", 2.0))
    >>> holds()
    True
    >>> scale["s"] = 3.0
    >>> holds()
    False
    """
    if type(watch) is specs.Item:
        return _item(*watch)
    if type(watch) is specs.Cell:
        return _cell(*watch)
    if type(watch) is specs.Sequence:
        return _sequence(*watch)
    if type(watch) is specs.Mapping:
        return _mapping(*watch)
    if type(watch) is specs.Slot:
        return _slot(*watch)
    raise TypeError(f"a watch is an Item, Cell, Sequence, Mapping or Slot, not {watch!r}")


def same(value: object, expected: object) -> bool:
    """Return whether two objects are identical, or equal numbers or texts of the same type.

    Examples
    --------
    >>> same(float("nan"), float("nan")), same(0.0, -0.0), same(1, True), same("ab", "".join("ab"))
    (True, False, False, True)
    """
    if value is expected:
        return True
    if type(value) is not type(expected):
        return False
    if type(value) is float:
        return _double(value) == _double(expected)
    if type(value) is complex and type(expected) is complex:
        return _two_doubles(value.real, value.imag) == _two_doubles(expected.real, expected.imag)
    return type(value) in _COMPARED and bool(value == expected)


# ---- checks at construction --------------------------------------------------------------------------------


def _item(mapping: Any, key: Any, expected: Any) -> Callable[[], bool]:
    found = _dict(mapping, "an Item watch needs a dict")
    hash(key)
    return functools.partial(_item_holds, found, key, _or_absent(expected))


def _cell(cell: Any, expected: Any) -> Callable[[], bool]:
    if type(cell) is not types.CellType:
        raise TypeError("a Cell watch needs a closure cell")
    return functools.partial(_cell_holds, cell, _or_absent(expected))


def _sequence(sequence: Any, items: Any) -> Callable[[], bool]:
    if not issubclass(type(sequence), (list, tuple)) or type(items) is not tuple:
        raise TypeError("a Sequence watch needs a list or tuple, and a tuple of items")
    kind = list if issubclass(type(sequence), list) else tuple
    return functools.partial(_sequence_holds, kind, sequence, items)


def _mapping(mapping: Any, keys: Any, values: Any) -> Callable[[], bool]:
    found = _dict(mapping, "a Mapping watch needs a dict")
    if type(keys) is not tuple or type(values) is not tuple or len(keys) != len(values):
        raise TypeError("a Mapping watch needs two tuples, keys and values, of the same length")
    if len(set(keys)) != len(keys):
        raise ValueError("a Mapping watch needs distinct keys")
    return functools.partial(_mapping_holds, found, keys, values)


def _slot(obj: Any, descriptor: Any, expected: Any) -> Callable[[], bool]:
    if type(descriptor) not in (types.MemberDescriptorType, types.GetSetDescriptorType):
        raise TypeError("a Slot watch needs a member or getset descriptor")
    if descriptor.__objclass__ not in type(obj).__mro__:
        raise TypeError("the descriptor of a Slot watch belongs to another type")
    return functools.partial(_slot_holds, obj, descriptor, _or_absent(expected))


def _dict(mapping: Any, message: str) -> dict[Any, Any]:
    # vars(cls) is a new proxy each time; the dict behind it is the class's own.
    found = gc.get_referents(mapping)[0] if type(mapping) is types.MappingProxyType else mapping
    if not issubclass(type(found), dict):
        raise TypeError(message)
    return found  # type: ignore[no-any-return]  # referents are Any


def _or_absent(expected: Any) -> Any:
    return _ABSENT if expected is specs.MISSING else expected


# ---- checks at each call -----------------------------------------------------------------------------------
# Methods are taken from the built-in types: what a subclass says, a kernel's watch does not ask.


def _item_holds(mapping: dict[Any, Any], key: Any, expected: Any) -> bool:
    return same(dict.get(mapping, key, _ABSENT), expected)


def _cell_holds(cell: types.CellType, expected: Any) -> bool:
    try:
        value = cell.cell_contents
    except ValueError:  # an empty cell says so in this way
        value = _ABSENT
    return same(value, expected)


def _sequence_holds(kind: Any, sequence: Any, items: tuple[Any, ...]) -> bool:
    if kind.__len__(sequence) != len(items):
        return False
    # A copy in one step, because other threads may shorten a list meanwhile.
    now = kind.__getitem__(sequence, slice(None))
    return len(now) == len(items) and all(map(same, now, items))


def _mapping_holds(mapping: dict[Any, Any], keys: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    if dict.__len__(mapping) != len(keys):
        return False
    return all(_item_holds(mapping, key, value) for key, value in zip(keys, values, strict=True))


def _slot_holds(obj: Any, descriptor: Any, expected: Any) -> bool:
    # Whoever assigns to __class__ may take the slot away.
    if descriptor.__objclass__ not in type(obj).__mro__:
        return False
    try:
        value = descriptor.__get__(obj, type(obj))
    except AttributeError:  # an empty slot says so in this way
        value = _ABSENT
    return same(value, expected)
