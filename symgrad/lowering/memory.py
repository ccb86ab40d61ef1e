"""One workspace for all buffers: memory is used again once nobody reads it any more."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence

from .program import ALIGNMENT, Buffer


def aligned(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def plan(buffers: Sequence[Buffer]) -> int:
    """Give each buffer an offset, so that those alive together do not overlap; return the bytes needed.

    Buffers are taken in the order in which they are first written, each into the lowest gap that is wide enough
    (first fit), so the result does not depend on anything but the program.
    """
    gaps = _Gaps()
    ending: list[tuple[int, int, int]] = []  # last use, start, bytes
    for buffer in sorted(buffers, key=lambda b: (b.born, -b.nbytes)):
        while ending and ending[0][0] < buffer.born:
            _, start, size = heapq.heappop(ending)
            gaps.give_back(start, size)
        size = aligned(buffer.nbytes)
        buffer.offset = gaps.take(size)
        if size:
            heapq.heappush(ending, (buffer.dies, buffer.offset, size))
    return gaps.end


class _Gaps:
    """Free memory below the highest address in use, in order, neighbours joined."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.sizes: list[int] = []
        self.end = 0

    def take(self, size: int) -> int:
        """The lowest place for so many bytes."""
        for k, room in enumerate(self.sizes):
            if room >= size:
                start = self.starts[k]
                if room == size:
                    del self.starts[k], self.sizes[k]
                else:
                    self.starts[k] += size
                    self.sizes[k] -= size
                return start
        if self.starts and self.starts[-1] + self.sizes[-1] == self.end:
            start = self.starts.pop()
            self.sizes.pop()
        else:
            start = self.end
        self.end = start + size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Memory that is free again."""
        k = bisect_left(self.starts, start)
        if k < len(self.starts) and start + size == self.starts[k]:
            size += self.sizes.pop(k)
            del self.starts[k]
        if k and self.starts[k - 1] + self.sizes[k - 1] == start:
            self.sizes[k - 1] += size
        else:
            self.starts.insert(k, start)
            self.sizes.insert(k, size)
