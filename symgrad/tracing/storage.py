"""What traced arrays are made of: memory that can be written to, shared by an array and its views.

In-place code is turned into expressions as it runs. Memory is a row of pieces: stretches of expressions that
were written there, single elements among them. Then n writes and reads in a loop cost O(n), and derivatives
see plain code. A view knows how it was cut from its base, so that a write through it reaches the base and
every other view.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

import numpy as np

from ..core.aval import Aval
from ..core.expr import Expr
from ..ops.define import FUNCTIONS
from ..ops.indexing import getitem
from ..ops.shaping import broadcast_to, reshape, take_slice
from .layouts import Strides, blank, layout
from .replacing import fitted, put_back
from .views import GRID_LIMIT, Steps, cut, follow, grid, reshapes, run_start, steps_between

FEW = 8
"""So many elements that do not lie side by side are written one by one."""


class Piece(NamedTuple):
    """A stretch of memory: ``size`` elements of ``source`` from its element ``offset`` on, in C order.

    A single element that was written is a source without axes.
    """

    source: Expr
    offset: int
    size: int


class Memory:
    """The memory of a base array.

    Attributes
    ----------
    aval
        Shape and dtype, which writes do not change.
    version
        Counts writes; views compare it to know whether what they read is out of date.
    in_doubt
        Set where it is not known whether NumPy would have given a view of it or a copy: a write would tell.
    """

    __slots__ = (
        "_expr", "_first", "_known", "_layout", "_pieces", "_starts", "_template", "aval", "in_doubt", "version",
    )  # fmt: skip

    def __init__(self, expr: Expr) -> None:
        self.aval: Aval = expr.aval
        self.version = 0
        self.in_doubt = False
        self._first = expr
        self._layout: tuple[Strides, bool] | None = None
        self._template: Expr | None = None
        self._begin(expr)

    def _begin(self, expr: Expr) -> None:
        self._expr: Expr | None = expr
        self._starts = [0]
        self._pieces = [Piece(expr, 0, self.aval.size)]
        self._known: dict[int, Expr] = {}

    @property
    def divided(self) -> bool:
        """Whether parts can be read without looking at the whole."""
        return bool(self._known) or len(self._pieces) > 1

    @property
    def expr(self) -> Expr:
        """The contents as one expression."""
        if self._expr is None:
            made = _joined(self._pieces, self.aval)
            # Single elements stay known: reading one does not go through the array it was put into.
            known = self._known
            for start, piece in zip(self._starts, self._pieces, strict=True):
                if piece.size == 1 and not piece.source.shape:
                    known[start] = piece.source
            self._begin(made)
            self._known = known
        return self._expr  # type: ignore[return-value]  # joined above

    # ---------------------------------------------------------------- places

    def positions(self, steps: Steps) -> np.ndarray[Any, Any] | None:
        """Where in memory the elements of a view lie; None for arrays too large for that."""
        if self.aval.size > GRID_LIMIT:
            return None
        return cut(grid(self.aval.shape, self.layout[0] if reshapes(steps) else None), steps)

    @property
    def layout(self) -> tuple[Strides, bool]:
        """Strides that NumPy's array has, and whether they are a matter of the caller's."""
        if self._layout is None:
            self._layout = layout(self._first)
        return self._layout

    def settle(self, strides: Strides) -> None:
        """Say in which order new memory is laid out."""
        self._layout = strides, False

    def seen_through(self, steps: Steps) -> np.ndarray[Any, Any] | None:
        """An array laid out like a view; None where NumPy copies."""
        return cut(blank(self.aval.shape, self.layout[0]), steps)

    def is_view(self, steps: Steps) -> bool:
        """Whether NumPy gives a view for these steps, not a copy."""
        if not reshapes(steps):
            return True
        found = self.seen_through(steps) is not None
        if self.layout[1]:
            # A memory order of the other kind decides the other way, unless only axes of length 1 come or go.
            other = cut(np.empty(self.aval.shape[::-1], np.int8).T, steps) is not None
            self.in_doubt = self.in_doubt or not (found and other)
        return found

    def view(self, steps: Steps, key: Any) -> tuple[Expr, Steps] | None:
        """A stand-in for the view ``key`` of a view, and how it is cut; None if it would be a copy."""
        if self._template is None:
            table = self._pieces[0].source.table
            self._template = table.input(self.aval)
        made = getitem(follow(self._template, steps), key)
        found = steps_between(self._template, made)
        return None if found is None else (made, found)

    # ---------------------------------------------------------------- reading

    def element(self, position: int) -> Expr:
        """One element as a scalar expression."""
        found = self._known.get(position)
        if found is None:
            k = bisect_right(self._starts, position) - 1
            piece = self._pieces[k]
            found = _element(piece.source, piece.offset + position - self._starts[k])
            self._known[position] = found
        return found

    def part(self, steps: Steps, like: Expr) -> Expr:
        """The contents of a view."""
        if self.divided and like.aval.size:
            positions = self.positions(steps)
            found = None if positions is None else self.gathered(positions)
            if found is not None:
                return found
        return follow(self.expr, steps)

    def gathered(self, positions: np.ndarray[Any, Any]) -> Expr | None:
        """Elements that lie side by side, or few elements; None if the whole array is needed for them."""
        start = run_start(positions)
        if start is not None:
            if self._expr is not None and positions.size == self.aval.size:
                return _shaped(self._expr, positions.shape)
            return _shaped(self._stretch(start, positions.size), positions.shape)
        if 0 < positions.size <= FEW:
            return _shaped(_line(self._singles(positions)), positions.shape)
        return None

    def _singles(self, positions: np.ndarray[Any, Any]) -> list[Piece]:
        return [Piece(self.element(p), 0, 1) for p in positions.ravel().tolist()]

    def _stretch(self, start: int, size: int) -> Expr:
        end = start + size
        pieces = []
        for k in range(bisect_right(self._starts, start) - 1, bisect_left(self._starts, end)):
            piece, first = self._pieces[k], self._starts[k]
            left, right = max(start, first), min(end, first + piece.size)
            if right - left == 1:
                pieces.append(Piece(self.element(left), 0, 1))
            else:
                pieces.append(Piece(piece.source, piece.offset + left - first, right - left))
        return _line(pieces)

    # ---------------------------------------------------------------- writing

    def write(self, steps: Steps, new: Expr) -> None:
        """Replace the contents of a view."""
        if steps:
            positions = self.positions(steps)
            if positions is not None and self.assign(positions, new):
                return
            new = put_back(self.expr, steps, new)
        self._begin(new)
        self.version += 1

    def assign(self, positions: np.ndarray[Any, Any], new: Expr) -> bool:
        """Write elements that lie side by side, or few; False if the whole array is to be replaced.

        Raises
        ------
        ShapeError
            If the new value does not fit the selection.
        """
        size = positions.size
        new = fitted(new, positions.shape)
        start = run_start(positions)
        if start is not None:
            if size == 1:
                self._put(start, _element(new, 0) if new.shape else new, 0, 1)
            else:
                self._put(start, broadcast_to(new, shape=positions.shape), 0, size)
            return True
        if size > FEW:
            return False
        source = broadcast_to(new, shape=positions.shape) if new.shape else new
        for k, p in enumerate(positions.ravel().tolist()):
            self._put(p, _element(source, k), 0, 1)
        if not size:
            self.version += 1
        return True

    def _put(self, start: int, source: Expr, offset: int, size: int) -> None:
        starts, pieces = self._starts, self._pieces
        end = start + size
        i = bisect_right(starts, start) - 1
        j = bisect_left(starts, end)
        first, last = pieces[i], pieces[j - 1]
        first_start, last_start = starts[i], starts[j - 1]
        new_starts, new_pieces = [start], [Piece(source, offset, size)]
        if first_start < start:
            new_starts.insert(0, first_start)
            new_pieces.insert(0, Piece(first.source, first.offset, start - first_start))
        rest = last_start + last.size - end
        if rest > 0:
            new_starts.append(end)
            new_pieces.append(Piece(last.source, last.offset + end - last_start, rest))
        starts[i:j] = new_starts
        pieces[i:j] = new_pieces
        if size == 1:
            self._known[start] = source
        elif len(self._known) <= size:
            self._known = {p: e for p, e in self._known.items() if not start <= p < end}
        else:
            for p in range(start, end):
                self._known.pop(p, None)
        self._expr = None
        self.version += 1


# ------------------------------------------------------------------------------------------ pieces


def _shaped(expr: Expr, shape: tuple[int, ...]) -> Expr:
    return expr if expr.shape == shape else reshape(expr, shape=shape)


def _element(source: Expr, k: int) -> Expr:
    """Element ``k`` of an expression, in C order."""
    while source.op is broadcast_to and source.args[0].aval.size == 1:
        source, k = source.args[0], 0
    value = source.value
    if value is not None:
        return source.table.constant(value.flat[k], source.dtype) if source.shape else source
    if source.aval.size == 1:
        return _shaped(source, ())
    if source.op is reshape and source.args[0].ndim == 1:
        source = source.args[0]
    index = k if source.ndim == 1 else tuple(map(int, np.unravel_index(k, source.shape)))
    return getitem(source, index)


def _joined(pieces: list[Piece], aval: Aval) -> Expr:
    """The whole array; along its first axis where pieces end at its lines."""
    lines = [aval.size // aval.shape[0]] if aval.ndim > 1 else [1]
    inner = lines[0]
    if inner > 1 and all([p.size % inner == 0 for p in pieces]):
        blocks = [_block(p, inner, aval.shape[1:]) for p in pieces]
        return blocks[0] if len(blocks) == 1 else _concatenated(blocks)
    line = _line(pieces)
    if line.op is broadcast_to and line.args[0].aval.size == 1:
        return broadcast_to(line.args[0], shape=aval.shape)
    return _shaped(line, aval.shape)


def _block(piece: Piece, inner: int, shape: tuple[int, ...]) -> Expr:
    """A piece as whole lines of an array."""
    source, offset, size = piece
    count = size // inner
    if source.shape[1:] == shape and offset % inner == 0:
        return _rows(source, offset // inner, count)
    return _shaped(_cut(source, offset, size), (count, *shape))


def _rows(source: Expr, start: int, count: int) -> Expr:
    if count == source.shape[0]:
        return source
    rest = source.ndim - 1
    return take_slice(
        source, starts=(start, *(0,) * rest), sizes=(count, *source.shape[1:]), steps=(1,) * source.ndim
    )


def _cut(source: Expr, offset: int, size: int) -> Expr:
    """Some elements of an expression as a line."""
    while source.op is broadcast_to and source.args[0].aval.size == 1:
        source = _shaped(source.args[0], ())
    if not source.shape:
        # The derivative of a reshape is a reshape, that of a broadcast is a sum.
        return broadcast_to(source, shape=(size,)) if size > 1 else reshape(source, shape=(1,))
    inner = source.aval.size // source.shape[0]
    if source.ndim > 1 and offset % inner == 0 and size % inner == 0:
        # Whole lines: the slice stays as the user would have written it.
        return reshape(_rows(source, offset // inner, size // inner), shape=(size,))
    return _rows(_shaped(source, (source.aval.size,)), offset, size)


def _line(pieces: list[Piece]) -> Expr:
    """Pieces as one line: equal elements are broadcast, consecutive ones of an array are sliced."""
    made: list[Expr] = []
    k = 0
    while k < len(pieces):
        piece = pieces[k]
        if piece.size > 1 or piece.source.shape:
            made.append(_cut(*piece))
            k += 1
            continue
        n = _equal_run(pieces, k)
        if n == 1:
            array, position, n = _consecutive_run(pieces, k)
            made.append(_cut(array, position, n))
        else:
            made.append(broadcast_to(piece.source, shape=(n,)))
        k += n
    return made[0] if len(made) == 1 else _concatenated(made)


def _equal_run(pieces: list[Piece], k: int) -> int:
    n = 1
    while k + n < len(pieces) and pieces[k + n].size == 1 and pieces[k + n].source is pieces[k].source:
        n += 1
    return n


def _consecutive_run(pieces: list[Piece], k: int) -> tuple[Expr, int, int]:
    """Elements that were read from neighbouring places of a line: the line, the first place, how many."""
    found = _read_from(pieces[k])
    if found is None:
        return pieces[k].source, 0, 1
    array, position = found
    n = 1
    while k + n < len(pieces) and _read_from(pieces[k + n]) == (array, position + n):
        n += 1
    return array, position, n


def _read_from(piece: Piece) -> tuple[Expr, int] | None:
    x = piece.source
    if piece.size == 1 and x.op is reshape and not x.shape:
        inner = x.args[0]
        if inner.op is take_slice and inner.args[0].ndim == 1:
            return inner.args[0], inner.param("starts")[0]
    return None


def _concatenated(parts: list[Expr]) -> Expr:
    made: Expr = FUNCTIONS[np.concatenate](parts, 0)
    return made
