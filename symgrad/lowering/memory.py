"""One workspace for all buffers: memory is used again once nobody reads it any more."""

from __future__ import annotations

from collections.abc import Sequence

from .program import ALIGNMENT, Buffer


def aligned(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def plan(buffers: Sequence[Buffer]) -> int:
    """Give each buffer an offset, so that those alive together do not overlap; return the bytes needed.

    Buffers are taken in the order in which they are first written, each into the lowest gap that is wide
    enough (first fit), so the result does not depend on anything but the program.
    """
    total = 0
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (b.born, -b.nbytes)):
        placed = [other for other in placed if other.dies >= buffer.born]
        size = aligned(buffer.nbytes)
        start = 0
        for other in sorted(placed, key=lambda b: b.offset):
            if other.offset - start >= size:
                break
            start = max(start, other.offset + aligned(other.nbytes))
        buffer.offset = start
        placed.append(buffer)
        total = max(total, start + size)
    return total
