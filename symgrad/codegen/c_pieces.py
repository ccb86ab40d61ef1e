"""Functions that several pieces of straight code share, and the calls of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

#: A function with more pointers is not worth it.
MOST_POINTERS: Final = 24
#: So many calls in a row whose arguments advance regularly are written as a loop.
LOOPED: Final = 4
_INDENT: Final = "    "


def slot(base: str, number: int, dtype: np.dtype[np.generic], constant: str = "") -> str:
    """Source of an element of the memory that values pass through: eight bytes for each."""
    return f"{base}[{number}]" if dtype.kind == "f" else f"(({constant}int64_t *){base})[{number}]"


def regular_runs(imports: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """All pieces, given by the slots they read, if few pointers do for them; else runs that advance regularly."""
    if _pointers(imports) <= MOST_POINTERS:
        return [(0, len(imports))]
    rows = np.asarray(imports)
    steps = np.diff(rows, axis=0)
    turns = np.flatnonzero((steps[1:] != steps[:-1]).any(axis=1)) + 1
    runs: list[tuple[int, int]] = []
    first = 0
    # From one run to the next the step is one of neither: a piece between them belongs to the later one.
    for turn in [*turns.tolist(), len(imports) - 1]:
        stop = turn + 1
        if stop > first:
            runs.append((first, stop))
            first = stop
    return runs


def _pointers(imports: Sequence[Sequence[int]]) -> int:
    rows = np.asarray(imports)
    return len(np.unique(rows - rows[:1], axis=1).T) if rows.size else 0


@dataclass
class SharedPiece:
    """A function for pieces that are the same but for where their values come from.

    Attributes
    ----------
    name
        Its name.
    places
        For each value from outside the pointer that leads to it, and how far it is from there.
    bases
        For each piece in order where its pointers point, and then where its own values begin.
    body
        Its statements.
    may_fail
        Whether a statement may set ``sg_fail``.
    """

    name: str
    places: list[tuple[int, int]]
    bases: list[tuple[int, ...]]
    body: list[str] = field(default_factory=list)
    may_fail: bool = False

    @classmethod
    def of(cls, name: str, imports: Sequence[Sequence[int]], exports: Sequence[int]) -> SharedPiece | None:
        """The function for pieces given by the slots they read and by the first one they write."""
        columns = list(zip(*imports, strict=True))
        groups: dict[tuple[int, ...], int] = {}
        firsts: list[int] = []
        places = []
        for column in columns:
            # Values that move together from piece to piece are reached through one pointer.
            moves = tuple([number - column[0] for number in column])
            if moves not in groups:
                groups[moves] = len(groups)
                firsts.append(column[0])
            group = groups[moves]
            places.append((group, column[0] - firsts[group]))
        if len(groups) > MOST_POINTERS:
            return None
        bases = [
            (*[first + moves[k] for moves, first in zip(groups, firsts, strict=True)], exports[k])
            for k in range(len(exports))
        ]
        return cls(name, places, bases)

    @property
    def head(self) -> str:
        """Its declaration."""
        pointers = [f"const double *g{k}" for k in range(len(self.bases[0]) - 1)]
        return f"int {self.name}(const void *const *in, {', '.join([*pointers, 'double *restrict e'])})"

    @property
    def whole_body(self) -> list[str]:
        """Its statements, with what is returned."""
        unused = ["(void)in;", "(void)e;"]
        if self.may_fail:
            return [*unused, "int sg_fail = 0;", *self.body, "return sg_fail;"]
        return [*unused, *self.body, "return 0;"]


class Runs:
    """Calls of shared pieces in the order of the code; regular ones become loops."""

    def __init__(self, shared: Mapping[Hashable, SharedPiece]) -> None:
        self._shared = shared
        self._next = dict.fromkeys(shared, 0)
        self._key: Hashable = None
        self._waiting: list[tuple[int, ...]] = []
        self._lines: list[str] = []

    def add(self, key: Hashable) -> None:
        """The next piece with this key."""
        bases = self._shared[key].bases[self._next[key]]
        self._next[key] += 1
        if key != self._key or not self._goes_on(bases):
            self._write()
            self._key = key
        self._waiting.append(bases)

    def _goes_on(self, bases: tuple[int, ...]) -> bool:
        waiting = self._waiting
        if len(waiting) < 2:
            return True
        return all([c - b == b - a for a, b, c in zip(waiting[-2], waiting[-1], bases, strict=True)])

    def flushed(self) -> list[str]:
        """All calls since the last time."""
        self._write()
        lines, self._lines = self._lines, []
        return lines

    def _write(self) -> None:
        if not self._waiting:
            return
        name = self._shared[self._key].name
        waiting, self._waiting = self._waiting, []
        if len(waiting) < LOOPED:
            self._lines += [f"if (code == 0) code = {name}({_arguments(bases, bases)});" for bases in waiting]
            return
        self._lines += [
            f"for (long n = 0; code == 0 && n < {len(waiting)}; ++n)",
            f"{_INDENT}code = {name}({_arguments(waiting[0], waiting[1])});",
        ]


def _arguments(first: tuple[int, ...], second: tuple[int, ...]) -> str:
    pointers = ["in"]
    for a, b in zip(first, second, strict=True):
        moved = "" if a == b else f" + {b - a} * n" if b > a else f" - {a - b} * n"
        pointers.append(f"s + {a}{moved}")
    return ", ".join(pointers)
