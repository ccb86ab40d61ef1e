"""Conditions on captured Python state: what a trace read of the world outside, and whether it is still so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

_NUMBERS = (int, float, bool, str, bytes, complex, type(None))


@dataclass(frozen=True, eq=False)
class Watched:
    """One read.

    Attributes
    ----------
    kind
        ``"item"`` of a dictionary (globals, attributes), contents of a closure ``"cell"``, all of a ``"sequence"``
        or a ``"mapping"``.
    container
        What was read from.
    key
        Which item.
    value
        What was there: for containers a tuple of items, or of keys and values.
    """

    kind: Literal["item", "cell", "sequence", "mapping"]
    container: Any
    key: Any
    value: Any

    @classmethod
    def item(cls, mapping: dict[Any, Any], key: Any, value: Any) -> Watched:
        """An item of a dictionary."""
        return cls("item", mapping, key, value)

    @classmethod
    def cell(cls, cell: Any, value: Any) -> Watched:
        """The contents of a closure cell."""
        return cls("cell", cell, None, value)

    @classmethod
    def sequence(cls, items: list[Any]) -> Watched:
        """All items of a list."""
        return cls("sequence", items, None, tuple(items))

    @classmethod
    def mapping(cls, items: dict[Any, Any]) -> Watched:
        """All items of a dictionary."""
        return cls("mapping", items, None, (tuple(items), tuple(items.values())))

    def holds(self) -> bool:
        """Whether it is still so."""
        if self.kind == "item":
            return self.key in self.container and same(self.container[self.key], self.value)
        if self.kind == "cell":
            return same(_contents(self.container), self.value)
        if self.kind == "sequence":
            return len(self.container) == len(self.value) and all(map(same, self.container, self.value))
        keys, values = self.value
        return len(self.container) == len(keys) and all(
            k in self.container and same(self.container[k], v) for k, v in zip(keys, values, strict=True)
        )

    def __str__(self) -> str:
        if self.kind == "item":
            return f"{self.key}"
        return (
            "a variable of an outer function" if self.kind == "cell" else f"a {type(self.container).__name__}"
        )


def same(a: Any, b: Any) -> bool:
    """The same object, or equal numbers or strings of one type, bit for bit."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, _NUMBERS):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


_EMPTY = object()
