"""Conditions on captured Python state: what a trace read of the world outside, and whether it is still so."""

from __future__ import annotations

import gc
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

_NUMBERS = (int, float, bool, str, bytes, complex, type(None))
MISSING = object()
"""Read where there was nothing: no such key, an empty cell, a slot without value."""


@dataclass(frozen=True, eq=False)
class Watched:
    """One read.

    Attributes
    ----------
    kind
        ``"item"`` of a dictionary (globals, attributes), contents of a closure ``"cell"``, all of a ``"sequence"``
        or a ``"mapping"``, a ``"slot"`` of an object; or, which takes Python to check, an ``"entry"`` of a list, the
        ``"members"`` of a set or the keys of a dictionary, the ``"contents"`` of an array that is not traced, the
        ``"answer"`` of a function.
    container
        What was read from.
    key
        Which item; for a slot its descriptor, for an answer the question.
    value
        What was there: for containers a tuple of items, or of keys and values.
    """

    kind: Literal["item", "cell", "sequence", "mapping", "slot", "entry", "members", "contents", "answer"]
    container: Any
    key: Any
    value: Any
    name: str = ""

    @classmethod
    def item(cls, mapping: Any, key: Any, value: Any) -> Watched:
        """An item of a dictionary, or MISSING."""
        return cls("item", mapping, key, value)

    @classmethod
    def cell(cls, cell: Any, value: Any, name: str = "a variable of an outer function") -> Watched:
        """The contents of a closure cell."""
        return cls("cell", cell, None, value, name)

    @classmethod
    def sequence(cls, items: Any) -> Watched:
        """All items of a list."""
        return cls("sequence", items, None, tuple(list.__iter__(items)))

    @classmethod
    def mapping(cls, items: Any) -> Watched:
        """All items of a dictionary."""
        return cls("mapping", items, None, (tuple(dict.keys(items)), tuple(dict.values(items))))

    @classmethod
    def slot(cls, instance: Any, descriptor: Any, value: Any) -> Watched:
        """What a descriptor written in C reads from an object, or MISSING."""
        return cls("slot", instance, descriptor, value, descriptor.__name__)

    @classmethod
    def entry(cls, items: Any, index: int, value: Any) -> Watched:
        """An item of a list."""
        return cls("entry", items, index, value, f"an item of a {type(items).__name__}")

    @classmethod
    def members(cls, items: Any) -> Watched:
        """All members of a set, or items of another container of the standard library, in their order."""
        return cls("members", items, None, tuple(items), f"a {type(items).__name__}")

    @classmethod
    def contents(cls, buffer: Any) -> Watched:
        """All elements of an array that is not traced."""
        return cls("contents", buffer, None, _snapshot(buffer), f"a {type(buffer).__name__}")

    @classmethod
    def answer(cls, name: str, function: Callable[..., Any], question: Any, value: Any) -> Watched:
        """What a function answers to a question."""
        return cls("answer", function, question, value, name)

    @property
    def native(self) -> bool:
        """Whether the dispatcher can check it."""
        return self.kind in ("item", "cell", "sequence", "mapping", "slot")

    @property
    def place(self) -> Any:
        """What was read, as a key of a dictionary: one place has one state."""
        container = self.container
        if type(container) is types.MappingProxyType:
            # vars(cls) is another object each time; what it shows is the same.
            (container,) = gc.get_referents(container)
        return self.kind, id(container), self.key

    def parts(self) -> list[Watched]:
        """One watch for each item of a list or dictionary."""
        if self.kind == "sequence":
            return [Watched.entry(self.container, k, v) for k, v in enumerate(self.value)]
        if self.kind == "mapping":
            return [Watched.item(self.container, k, v) for k, v in zip(*self.value, strict=True)]
        return []

    def holds(self) -> bool:
        """Whether it is still so."""
        return same(self.now(), self.value) if self.kind in _SINGLE else self._all_hold()

    def now(self) -> Any:
        """What is read there now, for a single place."""
        if self.kind == "item":
            return self.container.get(self.key, MISSING)
        if self.kind == "cell":
            return _contents(self.container)
        if self.kind == "slot":
            return slot_value(self.container, self.key)
        if self.kind == "entry":
            return self.container[self.key] if self.key < len(self.container) else MISSING
        return self.container(self.key)

    def _all_hold(self) -> bool:
        if self.kind in ("sequence", "members"):
            now = tuple(self.container) if self.kind == "members" else tuple(list.__iter__(self.container))
            return len(now) == len(self.value) and all(map(same, now, self.value))
        if self.kind == "contents":
            now = _snapshot(self.container)
            return len(now) == len(self.value) and all(map(same, now, self.value))
        keys, values = self.value
        return len(self.container) == len(keys) and all(
            k in self.container and same(dict.__getitem__(self.container, k), v)
            for k, v in zip(keys, values, strict=True)
        )

    def __str__(self) -> str:
        if self.name:
            return self.name
        return f"{self.key}" if self.kind == "item" else f"a {type(self.container).__name__}"


_SINGLE = ("item", "cell", "slot", "entry", "answer")


def same(a: Any, b: Any) -> bool:
    """The same object, or equal numbers, strings or tuples of them of one type, bit for bit."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype) and a.tobytes() == b.tobytes()
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) in _NUMBERS and bool(a == b)


def slot_value(instance: Any, descriptor: Any) -> Any:
    """What a slot holds, or MISSING."""
    try:
        return descriptor.__get__(instance, type(instance))
    except AttributeError:  # an empty slot says so in this way
        return MISSING


def _snapshot(buffer: Any) -> tuple[Any, ...]:
    if isinstance(buffer, np.ndarray) and buffer.dtype.hasobject:
        return (buffer.shape, *buffer.ravel().tolist())
    if isinstance(buffer, np.ndarray):
        return buffer.dtype.str, buffer.shape, buffer.tobytes()
    return (bytes(buffer),)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
