"""Terms for the operations that move elements around: indexing, reshaping, transposing, joining, reducing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.op import Op
from ..ops.contraction import matmul
from ..ops.linalg import solve
from ..ops.reduction import prod, sum_
from ..ops.shaping import concatenate
from .terms import (
    ZERO,
    Apply,
    Call,
    Index,
    Number,
    Ones,
    Product,
    Reduce,
    Shape,
    Span,
    Term,
    Transpose,
    Vector,
    product,
    split,
)

SMALL = 24
"""Elements up to which a vector is written element by element."""

Entry = int | Span | None


def strict(term: Term, shape: Shape, floating: bool = True) -> Term:
    """The term with exactly this shape when it is evaluated: what broadcasting left out is put back."""
    if term.shape == shape:
        return term
    missing = len(shape) - len(term.shape)
    if shape == (1,) * missing + term.shape:
        return index(term, [*[None] * missing, *whole(term.shape)])
    if floating:
        return product(False, [term, Ones(shape)], [])
    return Call("np.broadcast_to", [term], shape, [str(shape)])


def whole(shape: Shape) -> list[Entry]:
    """Entries that take every axis as it is."""
    return [(0, n, 1, n) for n in shape]


def is_whole(entry: Entry) -> bool:
    """True for an entry that takes all of an axis in order."""
    return isinstance(entry, tuple) and entry[0] == 0 and entry[2] == 1 and entry[1] == entry[3]


# ---------------------------------------------------------------------- indexing


def index(base: Term, entries: Sequence[Entry]) -> Term:
    """Index a term, one entry an axis beside new ones (None); an index of an index becomes one."""
    entries = list(entries)
    if isinstance(base, Index):
        return index(base.args[0], _composed(base.entries, entries))
    if all(is_whole(e) for e in entries):
        return base
    if isinstance(base, Vector) and len(entries) == 1:
        (entry,) = entries
        if isinstance(entry, int):
            return base.args[entry]
        if entry is not None:
            start, size, step, _ = entry
            return Vector([base.args[start + k * step] for k in range(size)])
    vector = _vector_solve(base) if entries[-1:] == [0] else None
    if vector is not None:
        return index(vector, entries[:-1])
    if isinstance(base, Ones):
        return Ones(Index(base, entries).shape)
    return Index(base, entries)


def _vector_solve(term: Term) -> Term | None:
    """The solution for one column, as that for the vector which the column is made of."""
    if not (isinstance(term, Apply) and term.op is solve and term.shape[-1:] == (1,)):
        return None
    matrix, column = term.args
    if not (isinstance(column, Index) and column.entries[-1] is None and len(column.shape) == 2):
        return None
    return Apply(solve, [matrix, index(column.args[0], column.entries[:-1])], term.shape[:-1])


def _composed(inner: Sequence[Entry], outer: Sequence[Entry]) -> list[Entry]:
    pending = list(outer)
    result: list[Entry] = []
    for entry in inner:
        if isinstance(entry, int):
            result.append(entry)
            continue
        while pending and pending[0] is None:
            result.append(pending.pop(0))
        result.extend(_restricted(entry, pending.pop(0)))
    return [*result, *pending]


def _restricted(entry: Span | None, chosen: Entry) -> list[Entry]:
    """An axis of an index, indexed again."""
    if entry is None:
        return [] if isinstance(chosen, int) else [None]
    start, _, step, n = entry
    if isinstance(chosen, int):
        return [start + chosen * step]
    assert chosen is not None
    return [(start + chosen[0] * step, chosen[1], step * chosen[2], n)]


def without_leading_ones(term: Term) -> Term:
    """Drop new axes in front: broadcasting supplies them."""
    if not isinstance(term, Index):
        return term
    first = next((k for k, e in enumerate(term.entries) if isinstance(e, tuple)), len(term.entries))
    entries = [e for k, e in enumerate(term.entries) if e is not None or k > first]
    return index(term.args[0], entries) if len(entries) < len(term.entries) else term


def taken(term: Term, shape: Shape, starts: Shape, sizes: Shape, steps: Shape) -> Term:
    """A slice of what stands for an array of ``shape``."""
    if not term.shape:
        return term
    if 0 in sizes:
        term = strict(term, shape)
    lead = len(shape) - len(term.shape)
    entries: list[Entry] = []
    for k, n in enumerate(term.shape, lead):
        entries.append((0, 1, 1, 1) if n == 1 and sizes[k] else (starts[k], sizes[k], steps[k], n))
    return index(term, entries)


# ---------------------------------------------------------------------- reshaping


def reshaped(term: Term, old: Shape, new: Shape) -> Term:
    """A term of another shape; inserting and dropping axes of length one is indexing."""
    if not term.shape:
        return term
    if [n for n in old if n != 1] != [n for n in new if n != 1]:
        exact = strict(term, old)
        return Call("ravel", [exact], new) if len(new) == 1 else _reshape_call(exact, new)
    kept = _keepdims(term, old, new)
    if kept is not None:
        return kept
    if isinstance(term, Product):
        long = [f for f in term.args if f.shape]
        if all(f.shape == term.shape and (len(long) == 1 or isinstance(f, Reduce)) for f in long):
            sides = [[reshaped(f, old, new) for f in side] for side in (term.numerator, term.denominator)]
            return product(term.minus, *sides)
    lead = len(old) - len(term.shape)
    entries: list[Entry] = []
    position = 0

    def pass_axis(dropped: bool) -> None:
        nonlocal position
        if position >= lead:
            n = term.shape[position - lead]
            entries.append(0 if dropped else (0, n, 1, n))
        elif not dropped:
            entries.append(None)
        position += 1

    for n in new:
        while position < len(old) and old[position] == 1 != n:
            pass_axis(True)
        if position < len(old) and old[position] == n:
            pass_axis(False)
        else:
            entries.append(None)
    while position < len(old):
        pass_axis(True)
    return without_leading_ones(index(term, entries))


def matrix_transposed(term: Term) -> Term:
    """A matrix transposed: of a product the factors, in the other order; numbers stay outside."""
    if isinstance(term, Transpose):
        return term.args[0]
    outside, core = split(term, True)
    if isinstance(core, Apply) and core.op is matmul and all(len(a.shape) == 2 for a in core.args):
        a, b = core.args
        core = Apply(matmul, [_flipped(b), _flipped(a)], core.shape[::-1])
    else:
        core = _flipped(core)
    return core if outside is None else product(False, [outside, core], [])


def _flipped(term: Term) -> Term:
    return term.args[0] if isinstance(term, Transpose) else Transpose(term)


def _reshape_call(term: Term, shape: Shape) -> Term:
    return Call("np.reshape", [term], shape, [str(shape)])


def _keepdims(term: Term, old: Shape, new: Shape) -> Term | None:
    """A reduction that keeps its axes, if that is what the reshaping amounts to."""
    if not isinstance(term, Reduce) or term.keepdims or term.shape != old:
        return None
    kept = Reduce(term.op, term.args[0], term.axes, True)
    leading = all(a == k for k, a in enumerate(term.axes))
    return kept if kept.shape == new and not leading else None


def transposed(term: Term, axes: tuple[int, ...]) -> Term:
    """A term with its axes permuted."""
    if not term.shape:
        return term
    missing = len(axes) - len(term.shape)
    if missing:
        term = index(term, [*[None] * missing, *whole(term.shape)])
    long = [k for k, n in enumerate(term.shape) if n != 1]
    if len(long) <= 1:
        bare = index(term, [(0, n, 1, n) if k in long else 0 for k, n in enumerate(term.shape)])
        where = axes.index(long[0]) if long else -1
        entries = [whole(term.shape)[a] if k == where else None for k, a in enumerate(axes)]
        return without_leading_ones(index(bare, entries))
    if axes == (1, 0):
        return matrix_transposed(term)
    shape = tuple(term.shape[a] for a in axes)
    n = len(axes)
    if axes == (*range(n - 2), n - 1, n - 2):
        return Call("swapaxes", [term], shape, ["-1", "-2"])
    return Call("np.transpose", [term], shape, [str(axes)])


# ---------------------------------------------------------------------- joining


def joined(terms: Sequence[Term], shapes: Sequence[Shape], axis: int, op: Op = concatenate) -> Term:
    """Arrays joined along an axis: a short vector element by element, a stack of rows, or the call."""
    total = sum(s[axis] for s in shapes)
    if len(shapes[0]) == 1 and total <= SMALL:
        elements: list[Term] = []
        for term, (n,) in zip(terms, shapes, strict=True):
            elements.extend(_elements(term, n) or ())
        if len(elements) == total:
            return Vector(elements)
    shape = tuple(total if k == axis else n for k, n in enumerate(shapes[0]))
    rows = all(s[0] == 1 for s in shapes) and axis == 0 and len(shape) > 1
    if rows and all(t.shape == s[1:] for t, s in zip(terms, shapes, strict=True)):
        return Call("stack", terms, shape, packed=True)
    exact = [strict(t, s) for t, s in zip(terms, shapes, strict=True)]
    return Call(f"np.{op.name}", exact, shape, [f"axis={axis}"] if axis else [], packed=True)


def _elements(term: Term, n: int) -> list[Term] | None:
    if isinstance(term, Vector):
        return list(term.args)
    if not term.shape:
        return [term] * n
    return [index(term, [0])] if n == 1 else None


def placed(term: Term, inner: Shape, shape: Shape, starts: Shape, steps: Shape, op: Op) -> Term:
    """Zeros with a term written at a slice: a short vector, padding, or the call."""
    if len(shape) == 1 and shape[0] <= SMALL:
        elements = _elements(term, inner[0])
        if elements is not None:
            return scattered(elements, [starts[0] + k * steps[0] for k in range(inner[0])], shape[0])
    exact = strict(term, inner)
    if all(s == 1 for s in steps):
        widths = [(a, n - a - m) for a, n, m in zip(starts, shape, inner, strict=True)]
        return Call("pad", [exact], shape, [str(widths[0] if len(widths) == 1 else tuple(widths))])
    return Apply(op, [exact], shape, {"shape": shape, "starts": starts, "steps": steps})


def scattered(elements: Sequence[Term], positions: Sequence[int], size: int) -> Term:
    """A vector that is zero except at some positions."""
    by_position = dict(zip(positions, elements, strict=True))
    return Vector([by_position.get(k, ZERO) for k in range(size)])


# ---------------------------------------------------------------------- reducing


def reduced(op: Op, term: Term, shape: Shape, axes: tuple[int, ...]) -> Term:
    """A reduction of what stands for an array of ``shape``."""
    lead = len(shape) - len(term.shape)
    spread = [k for k in axes if (k < lead or term.shape[k - lead] == 1) and shape[k] != 1]
    if spread and op is prod:
        return Reduce(op, strict(term, shape), axes)
    own = tuple(k - lead for k in axes if k >= lead)
    outside, inner = split(term, True) if op is sum_ and own else (None, term)
    term = inner
    if own and all(term.shape[k] == 1 for k in own):
        # Nothing to add up: the axes are only dropped.
        inner = index(term, [0 if k in own else (0, n, 1, n) for k, n in enumerate(term.shape)])
    elif own:
        inner = Reduce(op, term, own)
    count = math.prod(shape[k] for k in spread)
    factors: list[Term] = [Number(count)] if op is sum_ and spread else []
    return product(False, [*factors, *([outside] if outside else []), inner], [])

