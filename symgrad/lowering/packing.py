"""Copies in another order for loops that read or update short rows many times.

Where a loop over j takes x[3*j], x[3*j + 1], x[3*j + 2] and an outer loop repeats that, the three columns are
laid one behind the other first: vector instructions want neighbours. The same goes for sums that are kept in
memory.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Final

from .program import Buffer, Effect, Index, Loop, Scope, Value

#: A loop must run so often over the same elements to repay the copy.
REPEATED: Final = 8
#: Rows are at most so long.
LONGEST_ROW: Final = 9


def pack(root: Scope, known: list[Buffer]) -> list[Buffer]:
    """Rewrite the loops of a program where that pays; return the buffers added.

    Parameters
    ----------
    root
        The scope outside all loops.
    known
        Buffers of the program, in order.
    """
    added: list[Buffer] = []
    order = {id(buffer): (k, buffer) for k, buffer in enumerate(known)}
    for loop in root.loops:
        if not loop.scope.loops:
            continue  # nothing is repeated
        uses = _uses(loop)
        for _, buffer in sorted([order[key] for key in uses if key in order], key=itemgetter(0)):
            packed = _pack_buffer(root, loop, buffer, uses[id(buffer)])
            if packed is not None:
                added.append(packed)
    return added


class _Use:
    """An access, and the loops around it."""

    def __init__(self, item: Value | Effect, extents: tuple[int, ...]) -> None:
        self.item = item
        self.extents = extents

    def repeats(self) -> int:
        """How often the same element is used, judged by the loops that the position does not name."""
        named = {axis for axis, _ in self.item.index[1]}
        return math.prod(n for axis, n in enumerate(self.extents) if axis not in named)

    def stride(self) -> int:
        """Elements from one iteration of the innermost loop to the next."""
        return abs(dict(self.item.index[1]).get(len(self.extents) - 1, 0))


def _uses(loop: Loop) -> dict[int, list[_Use]]:
    found: dict[int, list[_Use]] = {}
    pending: list[tuple[Loop, tuple[int, ...]]] = [(loop, (loop.extent,))]
    while pending:
        inner, extents = pending.pop()
        items: list[Value | Effect] = [*inner.scope.values, *inner.scope.effects]
        for item in items:
            if item.buffer is not None:
                found.setdefault(id(item.buffer), []).append(_Use(item, extents))
        pending.extend((deeper, (*extents, deeper.extent)) for deeper in inner.scope.loops)
    return found


def _pack_buffer(root: Scope, loop: Loop, buffer: Buffer, uses: list[_Use]) -> Buffer | None:
    row = _row_length(uses)
    if not 2 <= row <= LONGEST_ROW or buffer.size % row:
        return None
    if not any(use.stride() == row and use.repeats() >= REPEATED for use in uses):
        return None
    kinds = {use.item.kind for use in uses}
    reads, adds = kinds == {"load"}, kinds == {"accumulate"}
    if not (reads or adds) or any(use.item.index[0] < 0 for use in uses):
        return None
    packed = Buffer("workspace", buffer.node)
    for use in uses:
        use.item.index = _moved(use.item.index, row, buffer.size // row)
        use.item.buffer = packed
    if adds:
        _unpack_after(root, loop, buffer, packed, row)
    else:
        _copy(root, "pack", loop.label - 1, packed, buffer, row)
        packed.born, packed.dies = loop.label - 1, loop.label
    return packed


def _row_length(uses: list[_Use]) -> int:
    return math.gcd(*[c for use in uses for _, c in use.item.index[1]])


def _moved(index: Index, row: int, column: int) -> Index:
    offset, terms = index
    place, which = divmod(offset, row)
    return which * column + place, tuple([(axis, c // row) for axis, c in terms])


def _unpack_after(root: Scope, loop: Loop, buffer: Buffer, packed: Buffer, row: int) -> None:
    """Sums start and stay in the packed memory; the array that others read is written at the end."""
    for effect in root.effects:
        if effect.kind == "fill" and effect.buffer is buffer:
            effect.buffer = packed
    _copy(root, "unpack", loop.label + 1, buffer, packed, row)
    packed.born, packed.dies = loop.label - 1, loop.label + 1
    buffer.born = loop.label + 1


def _copy(root: Scope, kind: str, label: int, target: Buffer, source: Buffer, row: int) -> None:
    effect = Effect(kind, target.node, (), -1 if kind == "unpack" else 1 << 62, target)
    effect.source = source
    effect.row = row
    effect.label = label
    root.effects.append(effect)
