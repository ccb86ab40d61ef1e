"""Less memory: rows instead of arrays inside outer loops, and results written over dead operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .accesses import Access, Uses, collect
from .program import Buffer, Index, Loop, Scope
from .recomputing import are_one_row


def shrink(root: Scope, buffers: Sequence[Buffer]) -> None:
    """Keep only a part of an array that is written and read within the same iteration of outer loops.

    Its position must name the loops around all accesses in the same way; these are then left out.
    """
    uses = collect(root)
    for buffer in buffers:
        found = uses(buffer)
        if buffer.kind == "workspace" and found.plain and not found.whole:
            _shrink(buffer, found.plain)


def _shrink(buffer: Buffer, accesses: list[Access]) -> None:
    depth = _common_depth([access.loops for access in accesses])
    outer = {_outer_terms(access.item.index, depth) for access in accesses}
    if depth == 0 or len(outer) != 1 or not any(next(iter(outer))):
        return
    size = 0
    for access in accesses:
        offset, terms = access.item.index
        inner = tuple([(axis, c) for axis, c in terms if axis >= depth])
        if offset < 0 or any(c < 0 for _, c in inner):
            return
        last = offset + sum(c * (access.loops[axis].range[1] - 1) for axis, c in inner)
        size = max(size, last + 1)
    for access in accesses:
        offset, terms = access.item.index
        access.item.index = (offset, tuple([(axis, c) for axis, c in terms if axis >= depth]))
    buffer.size = size
    buffer.nbytes = size * buffer.dtype.itemsize


def _common_depth(chains: list[tuple[Loop, ...]]) -> int:
    depth = 0
    for level in zip(*chains, strict=False):
        if any(loop is not level[0] for loop in level):
            break
        depth += 1
    return depth


def _outer_terms(index: Index, depth: int) -> tuple[tuple[int, int], ...]:
    return tuple([(axis, c) for axis, c in index[1] if axis < depth])


# ------------------------------------------------------------------------------------------ in place


def share(root: Scope, buffers: Sequence[Buffer], position: Callable[[Buffer], int]) -> None:
    """Let a buffer take over the memory of one that is read for the last time where it is written.

    Parameters
    ----------
    root
        The scope outside all loops.
    buffers
        Those of the workspace and the outputs, in order.
    position
        Of the node of a buffer in the graph.
    """
    uses = collect(root)
    ending: dict[int, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.kind == "workspace":
            ending.setdefault(buffer.dies, []).append(buffer)
    for new in buffers:
        for old in ending.get(new.born, []):
            before = position(old) < position(new)
            if before and _fits(new, old) and _in_step(uses(new), uses(old), new.born):
                _join(new, old)
                # What ends here can be taken over only once.
                ending[new.born].remove(old)
                break


def _fits(new: Buffer, old: Buffer) -> bool:
    owner = old.storage
    if owner.kind != "workspace" or owner.born >= new.born or owner is new:
        return False
    return owner.nbytes == new.nbytes and old.dtype == new.dtype and new.host is None


def _in_step(new: Uses, old: Uses, label: int) -> bool:
    """Whether within the loop of that label each element is read before it is written over."""
    writes = [a for a in new.plain if a.writes]
    reads = [a for a in old.plain if a.loops and a.loops[0].label == label]
    both = [*reads, *writes]
    if not reads or not writes or label in old.calls:
        return False
    if any(a.item.kind not in ("load", "store") or not a.loops for a in both):
        return False
    if any(a.loops[0] is not both[0].loops[0] for a in both) or not are_one_row(
        [a.item.index for a in both]
    ):
        return False
    # Every loop around an access must be named by its position: else it would be repeated.
    ranges = [loop.range for loop in both[0].loops]
    if any([loop.range for loop in a.loops] != ranges or len(a.item.index[1]) != len(ranges) for a in both):
        return False
    return max(a.when for a in reads) <= min(a.when for a in writes)


def _join(new: Buffer, old: Buffer) -> None:
    owner = old.storage
    if new.kind == "output":
        owner.host = new
        return
    new.host = owner
    owner.dies = max(owner.dies, new.dies)
