"""Where traced code changes the world outside: the lines, found in the code of the functions that ran."""

from __future__ import annotations

import collections
import dis
import types
from collections.abc import Iterable, Iterator

from ..core.origin import Origin

_STORES = {
    "global": ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR"),
    "variable": ("STORE_DEREF",),
    "attribute": ("STORE_ATTR",),
}
_SUBSCRIPTS = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_CHANGING = {method.__name__ for kind in (list, dict, set, collections.deque, collections.Counter) for method in (
    getattr(kind, name) for name in dir(kind) if not name.startswith("_")
) if method.__name__ not in ("copy", "count", "index", "get", "keys", "values", "items", "elements", "most_common")}
_CHANGING |= {"__setitem__", "__delitem__", "heappush", "heappop"}


def line_of_store(codes: Iterable[types.CodeType], kind: str, name: str) -> Origin | None:
    """The first line that assigns to a name: a ``"global"``, a ``"variable"`` of an outer function, an attribute."""
    mentioned = None
    for code in _with_inner(codes):
        for line, instructions in _lines(code):
            origin = Origin(code.co_filename, line, code.co_name)
            if any(i.opname in _STORES[kind] and i.argval == name for i in instructions):
                return origin
            # setattr(object, "name", value)
            if any(i.argval == name for i in instructions):
                mentioned = mentioned or origin
    return mentioned


def line_of_change(codes: Iterable[types.CodeType], name: str) -> Origin | None:
    """The first line that changes the container with a name, as far as can be told from the code."""
    found = mentioned = None
    for code in _with_inner(codes):
        for line, instructions in _lines(code):
            names = {i.argval for i in instructions if isinstance(i.argval, str)}
            changes = any(i.opname in _SUBSCRIPTS for i in instructions) or names & _CHANGING
            origin = Origin(code.co_filename, line, code.co_name)
            if changes and name in names:
                return origin
            if changes:
                found = found or origin
            if name in names:
                mentioned = mentioned or origin
    return found or mentioned


def _with_inner(codes: Iterable[types.CodeType]) -> Iterator[types.CodeType]:
    waiting = list(codes)
    while waiting:
        code = waiting.pop(0)
        yield code
        waiting.extend([c for c in code.co_consts if isinstance(c, types.CodeType)])


def _lines(code: types.CodeType) -> Iterator[tuple[int, list[dis.Instruction]]]:
    """The instructions of each line of a function."""
    found: dict[int, list[dis.Instruction]] = {}
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions is not None else None
        if line is not None:
            found.setdefault(line, []).append(instruction)
    yield from found.items()
