"""Finding elements that are computed more than once.

The vector form of a mathematical function may differ from the scalar one in the last bits, and which one an
element gets depends on where in its loop it stands. Where ``x == max(x)`` compares two copies of one element,
they must be the same; then the scalar functions are used throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from .program import Chain, Index, Value
from .structure import op_cost

#: Operations from this cost on call a function of the C library; the others are rounded correctly everywhere.
FUNCTION: Final = 20


def recomputes(values: Iterable[Value]) -> bool:
    """Whether the same element of a mathematical function may be computed in two places."""
    seen: dict[int, list[Value]] = {}
    for value in values:
        if value.kind == "apply" and value.chain and op_cost(value.node.op) >= FUNCTION:
            before = seen.setdefault(value.node.id, [])
            if any([_may_meet(value, other) for other in before]):
                return True
            before.append(value)
    return False


def _may_meet(a: Value, b: Value) -> bool:
    if a.chain != b.chain:
        return _overlap(a.chain, b.chain)
    return not are_one_row([a.index, b.index])


def _overlap(a: Chain, b: Chain) -> bool:
    """Whether two loop nests may reach the same element: parts of one divided loop do not."""
    for (label, (first, last)), (other, (start, stop)) in zip(a, b, strict=False):
        if label != other:
            return True
        if (first, last) != (start, stop):
            return first < stop and start < last
    return True


def are_one_row(indices: list[Index]) -> bool:
    """Whether all positions are one, or lie in rows that do not overlap from iteration to iteration."""
    offsets = {offset for offset, _ in indices}
    if len({terms for _, terms in indices}) != 1:
        return False
    return len(offsets) == 1 or max(offsets) - min(offsets) < math.gcd(*[c for _, c in indices[0][1]])
