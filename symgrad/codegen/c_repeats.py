"""Straight code that repeats itself, as unrolled loops do: each repeated piece becomes one C function.

A piece is a stretch of consecutive statements that are the same as those of another piece but for the values
they are computed from. Such pieces lie one behind the other, so they are found as stretches in which the
statements repeat with some period.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..core.expr import CONST
from ..lowering.identities import identity_of
from ..lowering.program import Value

#: So many statements in a row have to agree before a period is looked into.
PROBE: Final = 8
#: Fewer repetitions are not worth a function.
LEAST_TIMES: Final = 4
#: Short periods are taken several at a time, until a piece has so many statements.
PIECE: Final = 64
#: Shorter pieces are not worth a function.
SHORTEST: Final = 24
#: Longer periods would be functions that are too long.
LONGEST: Final = 2_000
#: How many recurrences of some statements are looked into as the start of the next period.
TRIES: Final = 12


@dataclass(frozen=True)
class Piece:
    """Items ``start`` to ``stop`` (exclusive), which repeat with a period; equal keys are the same function."""

    start: int
    stop: int
    period: int
    key: Hashable


def find_pieces(items: Sequence[Any]) -> list[Piece]:
    """The pieces that occur several times, in order.

    Parameters
    ----------
    items
        Statements in order. Anything but element-wise operations and folds on scalars ends a piece.
    """
    numbers: dict[Hashable, int] = {}
    kinds = np.array([numbers.setdefault(_kind(item, k), len(numbers)) for k, item in enumerate(items)])
    if len(numbers) > 0.9 * len(items):
        return []
    found: list[Piece] = []
    where = {id(item): k for k, item in enumerate(items)}
    for start, period, several, times in _regions(kinds):
        length = period * several
        for s in range(start, start + length * times, length):
            # Values of another stretch lie elsewhere: one function would need more pointers.
            key = (start, tuple(kinds[s : s + length].tolist()), _references(items, s, s + length, where))
            found.append(Piece(s, s + length, period, key))
    counts: dict[Hashable, int] = {}
    for piece in found:
        counts[piece.key] = counts.get(piece.key, 0) + 1
    return [piece for piece in found if counts[piece.key] >= LEAST_TIMES]


def _kind(item: Any, position: int) -> Hashable:
    """What an item computes, apart from its operands; different for each item that no piece may have."""
    if not isinstance(item, Value) or item.kind not in ("apply", "fold"):
        return position
    node = item.node
    types = tuple([(a.dtype.str, a.aval.weak) for a in node.args])
    return (item.kind, node.op.name, node.params, node.dtype.str, node.aval.weak, types, *map(_operand, item.args))


def _operand(value: Value) -> Hashable:
    if value.kind != "literal":
        return value.dtype.str
    node = value.node
    array = node.value if node.op is CONST else np.asarray(identity_of(node), node.dtype)
    assert array is not None
    return (array.dtype.str, array.reshape(-1)[0].tobytes(), node.aval.weak)


def _references(items: Sequence[Any], start: int, stop: int, where: dict[int, int]) -> Hashable:
    """Where the operands of a piece come from: a place in the piece, or the how-manieth value from outside."""
    outside: dict[int, int] = {}
    found: list[int] = []
    for item in items[start:stop]:
        for value in item.args:
            if value.kind == "literal":
                continue
            place = where.get(id(value), -1)
            if start <= place < stop:
                found.append(place - start)
            else:
                found.append(-1 - outside.setdefault(id(value), len(outside)))
    return tuple(found)


def _regions(kinds: np.ndarray[Any, Any]) -> list[tuple[int, int, int, int]]:
    """Stretches that repeat: start, period, how many periods make a piece, and how many pieces."""
    n = len(kinds)
    later = _recurrences(kinds)
    regions = []
    i = 0
    while i < n - PROBE:
        best = _best_period(kinds, later, i)
        if best is None:
            i += 1
            continue
        period, several, times = best
        regions.append((i, period, several, times))
        i += period * several * times
    return regions


def _recurrences(kinds: np.ndarray[Any, Any]) -> list[int]:
    """For each position the next one from which the same statements follow; -1 where there is none."""
    n = len(kinds)
    later = [-1] * n
    last: dict[bytes, int] = {}
    flat = np.ascontiguousarray(kinds, np.int64)
    for i in range(n - PROBE, -1, -1):
        gram = flat[i : i + PROBE].tobytes()
        later[i] = last.get(gram, -1)
        last[gram] = i
    return later


def _best_period(kinds: np.ndarray[Any, Any], later: list[int], i: int) -> tuple[int, int, int] | None:
    """The period that explains most of what follows a position, and how it is made use of."""
    best: tuple[int, int] | None = None
    j = later[i]
    for _ in range(TRIES):
        if j < 0 or j - i > LONGEST:
            break
        period = j - i
        if best is None or period > best[0]:
            times = 1 + _agreement(kinds, i, period) // period
            if times >= LEAST_TIMES and (best is None or period * times > 1.5 * best[0] * best[1]):
                best = period, times
        j = later[j]
    if best is None:
        return None
    period, times = best
    several = max(min(-(-PIECE // period), times // LEAST_TIMES), 1)
    return (period, several, times // several) if period * several >= SHORTEST else None


def _agreement(kinds: np.ndarray[Any, Any], i: int, period: int) -> int:
    """How many statements from a position on are the same as those one period later."""
    n = len(kinds) - period
    length = 4 * period
    while True:
        end = min(i + length, n)
        differ = np.flatnonzero(kinds[i:end] != kinds[i + period : end + period])
        if len(differ):
            return int(differ[0])
        if end == n:
            return n - i
        length *= 4
