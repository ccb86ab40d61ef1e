"""Two decisions that need all users of a node: what is stored though it could be computed where it is
needed, and which zero-padded arrays are never written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from .kinds import BODY, EW, EXPENSIVE, GATHER, PAD, PUT, REDUCE, VIEW

if TYPE_CHECKING:
    from .structure import Structure

#: Loops are divided at the borders of at most so many padded operands.
MOST_PADS: Final = 4
#: An expensive value is stored if it is wanted at this many different places.
SEVERAL: Final = 2

Places = frozenset[int]
_HERE: Final[Places] = frozenset((-1,))


def settle(facts: Structure) -> None:
    """Set ``forced``, turn arrays written into zeros into padded operands, and fill ``pads``."""
    if any(facts.depth):
        _divide_bodies(facts)
        _store_what_moves(facts)
        _pad(facts)


def _divide_bodies(facts: Structure) -> None:
    """Number the element-wise nodes over each range in batches that loops can hold; store what crosses."""
    counts: dict[tuple[int, ...], int] = {}
    for k in facts.arrays:
        if facts.kind[k] in (EW, GATHER) and facts.depth[k]:
            path = facts.domain[k].path
            before = counts.get(path, 0)
            counts[path] = before + facts.nodes[k].aval.size // math.prod(path)
            facts.batch[k] = before // BODY
        elif facts.kind[k] == VIEW:
            facts.batch[k] = facts.batch[facts.args[k][0]]
    if max(counts.values(), default=0) <= BODY:
        return
    for k in facts.arrays:
        for a in facts.args[k]:
            apart = facts.batch[a] >= 0 and facts.batch[k] >= 0 and facts.batch[a] != facts.batch[k]
            if apart and facts.kind[a] != VIEW and facts.cost[a] >= EXPENSIVE and facts.may_store(a):
                facts.forced[a] = True


def _store_what_moves(facts: Structure) -> None:
    """Store an expensive value that users want shifted or transposed in different ways."""
    places: list[Places] = [frozenset()] * len(facts.nodes)
    for k in reversed(facts.arrays):
        kind = facts.kind[k]
        if not any([facts.depth[a] for a in facts.args[k]]):
            continue
        mine = places[k]
        dear = kind in (EW, VIEW) and facts.cost[k] >= EXPENSIVE and facts.depth[k]
        if dear and len(mine) >= SEVERAL and facts.may_store(k):
            facts.forced[k] = True
        if facts.forced[k] or kind == REDUCE:
            mine = _HERE
        for a in facts.args[k]:
            if facts.depth[a]:
                moved = kind == PUT or (kind == VIEW and not facts.aligned(a, k))
                found = places[a] | (frozenset((k,)) if moved else mine)
                places[a] = found if len(found) <= SEVERAL else places[a]


def _pad(facts: Structure) -> None:
    """Let the users of an array written into zeros read the array or a zero, if they store what they make."""
    stores = _feeds_stores(facts)
    outputs = {facts.written_for(facts.at[out.id]) for out in facts.graph.outputs}
    for k in facts.arrays:
        node = facts.nodes[k]
        if facts.kind[k] == PUT and stores[k] and all(step == 1 for step in node.param("steps")):
            facts.kind[k] = PAD
            facts.forced[k] = k in outputs
            facts.cost[k] = facts.cost[facts.args[k][0]]
    if PAD in facts.kind:
        _spread(facts)


def _feeds_stores(facts: Structure) -> list[bool]:
    """Whether a node is only used by element-wise operations at the same place that end in memory."""
    good = [True] * len(facts.nodes)
    for k in reversed(facts.arrays):
        passes = facts.kind[k] == EW and (facts.forced[k] or good[k])
        for a in facts.args[k]:
            good[a] = good[a] and passes and bool(facts.depth[k]) and facts.aligned(a, k)
    return good


def _spread(facts: Structure) -> None:
    """Tell each node which padded operands its loops see; too many are written to memory after all."""
    for k in facts.arrays:
        if facts.kind[k] == PAD:
            facts.pads[k] = (k,)
            continue
        if facts.kind[k] != EW or not facts.depth[k]:
            continue
        seen: dict[int, None] = {}
        for a in facts.args[k]:
            if not facts.forced[a] or facts.kind[a] == PAD:
                seen.update(dict.fromkeys(facts.pads[a]))
        if len(seen) > MOST_PADS:
            for p in seen:
                _write_after_all(facts, p)
            seen = {}
        facts.pads[k] = tuple(seen)
    # Those written after all may stand with nodes that came before.
    facts.pads = [tuple([p for p in pads if facts.kind[p] == PAD]) if pads else pads for pads in facts.pads]


def _write_after_all(facts: Structure, p: int) -> None:
    facts.kind[p] = PUT
    facts.forced[p] = True
