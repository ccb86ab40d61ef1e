"""Terms: what a formula is made of before it is written in one notation.

A term knows the shape that its text has when NumPy evaluates it. That may be smaller than the shape of the
expression it stands for, as long as it broadcasts to it: broadcasting is not written out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import broadcast_shapes
from ..core.op import Op
from ..ops.comparison import logical_not
from ..ops.contraction import matmul
from ..ops.masking import keep
from ..ops.reduction import sum_
from ..ops.selection import where
from .names import PI, Name
from .numerals import BASES, closed_form, exact_product

Shape = tuple[int, ...]

WIDE = 40
"""Operands that one sum or product may have."""


class Term:
    """A part of a formula.

    Attributes
    ----------
    args
        The terms it is made of.
    shape
        Shape of its value when evaluated as written.
    depth, cost
        How deeply it nests, and how many signs it takes to write.
    """

    __slots__ = ("args", "cost", "depth", "shape")

    own = 1
    args: tuple[Term, ...]
    shape: Shape
    depth: int
    cost: int

    def __init__(self, args: Sequence[Term], shape: Shape) -> None:
        self.args = tuple(args)
        self.shape = shape
        self.depth = 1 + max((a.depth for a in self.args), default=0)
        self.cost = self.own + sum(a.cost for a in self.args)


class Number(Term):
    """A constant; its dtype is that of NumPy's scalar."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        super().__init__((), ())
        self.value = value


class Symbol(Term):
    """An input, a captured array, a mathematical constant or a named subterm."""

    __slots__ = ("name", "temporary")

    def __init__(self, name: Name, shape: Shape = (), temporary: bool = False) -> None:
        super().__init__((), shape)
        self.name = name
        self.temporary = temporary


class Ones(Term):
    """An array of ones: carries the shape where broadcasting must be written out."""

    __slots__ = ()

    def __init__(self, shape: Shape) -> None:
        super().__init__((), shape)


class Sum(Term):
    """Operands added or, where ``minus`` says so, subtracted."""

    __slots__ = ("minus",)
    own = 0

    def __init__(self, args: Sequence[Term], minus: Sequence[bool]) -> None:
        super().__init__(args, broadcast_shapes(*[a.shape for a in args]))
        self.minus = tuple(minus)
        self.cost += len(args) - 1


class Product(Term):
    """Factors above and below a fraction line, with a sign."""

    __slots__ = ("above", "minus")
    own = 0

    def __init__(self, minus: bool, above: Sequence[Term], below: Sequence[Term]) -> None:
        args = (*above, *below)
        super().__init__(args, broadcast_shapes(*[a.shape for a in args]))
        self.minus = minus
        self.above = len(above)
        self.cost += len(args) - 1 + minus

    @property
    def numerator(self) -> tuple[Term, ...]:
        """Factors above the line."""
        return self.args[: self.above]

    @property
    def denominator(self) -> tuple[Term, ...]:
        """Factors below the line."""
        return self.args[self.above :]


class Power(Term):
    """A base and its exponent."""

    __slots__ = ()
    own = 0

    def __init__(self, base: Term, exponent: Term) -> None:
        super().__init__((base, exponent), broadcast_shapes(base.shape, exponent.shape))

    @property
    def whole(self) -> int | None:
        """The exponent where it is a whole number."""
        return whole_number(self.args[1])


class Apply(Term):
    """An operation written as its record says."""

    __slots__ = ("op", "params")

    def __init__(
        self, op: Op, args: Sequence[Term], shape: Shape, params: dict[str, Any] | None = None
    ) -> None:
        super().__init__(args, shape)
        self.op = op
        self.params = params or {}


class Reduce(Term):
    """A reduction over axes."""

    __slots__ = ("axes", "keepdims", "op")

    def __init__(self, op: Op, arg: Term, axes: tuple[int, ...], keepdims: bool = False) -> None:
        kept = [1 if k in axes else n for k, n in enumerate(arg.shape)]
        shape = kept if keepdims else [n for k, n in enumerate(arg.shape) if k not in axes]
        super().__init__((arg,), tuple(shape))
        self.op, self.axes, self.keepdims = op, axes, keepdims


class Call(Term):
    """A NumPy function that is no operation by itself: ``diag``, ``outer``, ``pad``."""

    __slots__ = ("extra", "function", "packed")

    def __init__(
        self, function: str, args: Sequence[Term], shape: Shape, extra: Sequence[str] = (),
        packed: bool = False,
    ) -> None:
        super().__init__(args, shape)
        self.function, self.extra, self.packed = function, tuple(extra), packed


Span = tuple[int, int, int, int]
"""Start, size, step of a slice, and the size of the axis."""


class Index(Term):
    """Basic indexing; an entry an axis of the base, an int or a span, and None for each new axis."""

    __slots__ = ("entries",)
    own = 0

    def __init__(self, base: Term, entries: Sequence[int | Span | None]) -> None:
        sizes = [1 if e is None else e[1] for e in entries if not isinstance(e, int)]
        super().__init__((base,), tuple(sizes))
        self.entries = tuple(entries)


class Transpose(Term):
    """The two axes exchanged."""

    __slots__ = ()
    own = 0

    def __init__(self, base: Term) -> None:
        super().__init__((base,), base.shape[::-1])


class Vector(Term):
    """One-dimensional array written element by element."""

    __slots__ = ()

    def __init__(self, args: Sequence[Term]) -> None:
        super().__init__(args, (len(args),))


# ---------------------------------------------------------------------- numbers


ZERO, ONE = Number(0), Number(1)
_PI = Symbol(PI)


def whole_number(term: Term) -> int | None:
    """The value of a term that is a whole number, otherwise None."""
    if not isinstance(term, Number) or isinstance(term.value, (bool, np.bool_)):
        return None
    value = float(term.value)
    return int(value) if value.is_integer() and abs(value) < 1e9 else None


def is_zero(term: Term) -> bool:
    """True for the number 0, of either sign."""
    return isinstance(term, Number) and bool(term.value == 0)


_FIXED: set[int] = set()
"""Terms of irrational constants: they live as long as the module, so that their ids stay theirs."""


class KnownConstants:
    """The irrational constants of closed forms, written with the operations given."""

    def __init__(self, sqrt: Op, log: Op, exp: Op) -> None:
        functions = {op.name: op for op in (sqrt, log, exp)}
        self.bases: dict[str, Term] = {"": ONE, "pi": _PI}
        for base in BASES.keys() - self.bases.keys():
            function, *inner = base.split()
            parts: list[Term] = [_PI if word == "pi" else Number(int(word)) for word in inner]
            self.bases[base] = Apply(functions[function], [product(False, parts, [])], ())
        _FIXED.update(id(term) for term in self.bases.values())


def constant(value: Any, known: KnownConstants) -> Term:
    """A scalar constant, in closed form where that gives the very same double."""
    if isinstance(value, np.integer):
        return Number(int(value))
    plain = float(value)
    if isinstance(value, np.float64) and math.isfinite(plain) and plain:
        closed = closed_form(abs(plain))
        if closed is not None:
            base = known.bases[closed.base]
            above: list[Term] = [Number(closed.p), *([] if closed.below else [base])]
            below: list[Term] = [Number(closed.q), *([base] if closed.below else [])]
            return product(plain < 0, above, below)
    return Number(value)


# ---------------------------------------------------------------------- sums


def signed(term: Term) -> tuple[bool, Term]:
    """Take a leading minus sign off a term."""
    if isinstance(term, Product) and term.minus:
        return True, product(False, term.numerator, term.denominator)
    if isinstance(term, Number) and not isinstance(term.value, (bool, np.bool_)) and term.value < 0:
        return True, Number(-term.value)
    return False, term


def total(items: Sequence[tuple[bool, Term]]) -> Term:
    """Sum of signed terms: nested sums are joined, a positive term comes first where there is one."""
    flat: list[tuple[bool, Term]] = []
    for minus, term in items:
        inner, bare = signed(term)
        if isinstance(bare, Sum) and not inner and not minus and len(flat) + len(bare.args) <= WIDE:
            flat.extend(zip(bare.minus, bare.args, strict=True))
        else:
            flat.append((minus != inner, bare))
    flat = [(minus, term) for minus, term in flat if not is_zero(term)] or flat[:1]
    flat = _cases(_collected(flat))
    if len(flat) == 1:
        return _negated(flat[0][1]) if flat[0][0] else flat[0][1]
    vectors = [term for _, term in flat if isinstance(term, Vector)]
    if len(vectors) == len(flat) and len({v.shape for v in vectors}) == 1:
        return Vector([_column(flat, k) for k in range(vectors[0].shape[0])])
    first = next((k for k, (minus, _) in enumerate(flat) if not minus), 0)
    flat.insert(0, flat.pop(first))
    return Sum([t for _, t in flat], [m for m, _ in flat])


def _collected(flat: Sequence[tuple[bool, Term]]) -> list[tuple[bool, Term]]:
    """Equal operands of one sign as a multiple."""
    counts: dict[tuple[bool, int], int] = {}
    for minus, term in flat:
        counts[minus, id(term)] = counts.get((minus, id(term)), 0) + 1
    result = []
    for minus, term in flat:
        count = counts.pop((minus, id(term)), 0)
        if count:
            result.append((minus, term if count == 1 else product(False, [Number(count), term], [])))
    return result


def _cases(flat: list[tuple[bool, Term]]) -> list[tuple[bool, Term]]:
    """Two operands, one zero where the other is not, are the cases of one."""
    open_ones: dict[int, int] = {}
    result: list[tuple[bool, Term]] = []
    for minus, term in flat:
        outside, core = split(term, False)
        if not (isinstance(core, Apply) and core.op is keep):
            result.append((minus, term))
            continue
        condition, value = core.args
        scaled = product(minus, [*([outside] if outside else []), value], [])
        negated = isinstance(condition, Apply) and condition.op is logical_not
        key = id(condition.args[0]) if negated else id(condition)
        partner = open_ones.pop(key if negated else -key, None)
        if partner is None:
            open_ones[-key if negated else key] = len(result)
            result.append((minus, term))
            continue
        other, taken = signed(result[partner][1])
        more, first = split(taken, False)
        before = product(result[partner][0] != other, [*([more] if more else []), first.args[1]], [])
        parts = [condition.args[0], before, scaled] if negated else [condition, scaled, before]
        result[partner] = (False, Apply(where, parts, broadcast_shapes(*[p.shape for p in parts])))
    return result


def _column(flat: Sequence[tuple[bool, Term]], k: int) -> Term:
    parts = [(minus, v.args[k]) for minus, v in flat if not is_zero(v.args[k])]
    if not parts:
        return ZERO
    return total(parts) if len(parts) > 1 else product(parts[0][0], [parts[0][1]], [])


# ---------------------------------------------------------------------- products and powers


def product(minus: bool, above: Sequence[Term], below: Sequence[Term]) -> Term:
    """Product in tidy form: one sign, one coefficient in front, equal factors as powers, one fraction."""
    shape = broadcast_shapes((), *[t.shape for t in (*above, *below)])
    top, bottom = _Factors(), _Factors()
    for term in above:
        minus ^= top.take(term, bottom)
    for term in below:
        minus ^= bottom.take(term, top)
    top.ones += bottom.ones
    _reduce(top, bottom)
    numerator, denominator = top.finished(shape, bottom), bottom.finished((), top)
    if not numerator and not denominator:
        return Number(-1) if minus else ONE
    if not denominator and len(numerator) == 1:
        return _negated(numerator[0]) if minus else numerator[0]
    if not numerator:
        numerator = [ONE]
    return Product(minus, numerator, denominator)


def _negated(term: Term) -> Term:
    if isinstance(term, Number) and not isinstance(term.value, (bool, np.bool_)):
        return Number(-term.value)
    if isinstance(term, Sum) and len(term.args) == 2 and term.minus == (False, True):
        return Sum(term.args[::-1], term.minus)
    return Product(True, [term], [])


class _Factors:
    """The factors on one side of a fraction line while a product is put together."""

    def __init__(self) -> None:
        self.numbers: list[Any] = []
        self.order: list[Term] = []
        self.exponents: dict[int, int] = {}
        self.ones: list[Ones] = []

    def take(self, term: Term, other: _Factors) -> bool:
        """Add a factor; True if it carries a minus sign."""
        minus, term = signed(term)
        if isinstance(term, Product) and len(self.order) + len(term.args) <= WIDE:
            flips = [self.take(t, other) for t in term.numerator]
            flips += [other.take(t, self) for t in term.denominator]
            return bool((sum(flips) + minus) % 2)
        if isinstance(term, Number) and not isinstance(term.value, (bool, np.bool_)):
            self._number(term.value)
        elif isinstance(term, Ones):
            self.ones.append(term)
        else:
            self._factor(term, other)
        return minus

    def _number(self, value: Any) -> None:
        for k, held in enumerate(self.numbers):
            joined = exact_product(held, value)
            if joined is not None:
                self.numbers[k] = joined
                return
        self.numbers.append(value)

    def _factor(self, term: Term, other: _Factors) -> None:
        base, exponent = term, 1
        if isinstance(term, Power):
            whole = term.whole
            if whole is not None and whole < 0:
                other.add(term.args[0], -whole)
                return
            if whole is not None:
                base, exponent = term.args[0], whole
        self.add(base, exponent)

    def add(self, base: Term, exponent: int) -> None:
        """Multiply by a power of a factor."""
        if id(base) not in self.exponents:
            self.order.append(base)
        self.exponents[id(base)] = self.exponents.get(id(base), 0) + exponent

    def finished(self, shape: Shape, other: _Factors) -> list[Term]:
        """The factors in the order in which they are written."""
        factors = [raised(t, self.exponents[id(t)]) for t in self.order]
        numbers: list[Term] = [Number(v) for v in self.numbers if v != 1]
        factors.sort(key=_rank)
        present = broadcast_shapes((), *[t.shape for t in (*self.order, *other.order)])
        if self.ones and present != shape:
            factors.insert(0, Ones(shape))
        return [*numbers, *factors]


def _reduce(top: _Factors, bottom: _Factors) -> None:
    """Cancel common factors of whole coefficients, and irrational constants that stand on both sides."""
    for key in top.exponents.keys() & bottom.exponents.keys() & _FIXED:
        common = min(top.exponents[key], bottom.exponents[key])
        for side in (top, bottom):
            side.exponents[key] -= common
            side.order = [t for t in side.order if id(t) != key or side.exponents[key]]
    if len(top.numbers) != 1 or len(bottom.numbers) != 1:
        return
    a, b = float(top.numbers[0]), float(bottom.numbers[0])
    if a.is_integer() and b.is_integer() and 0 < a < 1e9 and 0 < b < 1e9:
        common = math.gcd(int(a), int(b))
        top.numbers, bottom.numbers = [int(a) // common], [int(b) // common]


def split(term: Term, scalars: bool) -> tuple[Product | None, Term]:
    """Take the sign and the numbers off a product, or with ``scalars`` all factors without axes.

    The first part is None where there is nothing to take off.
    """
    if not isinstance(term, Product):
        return None, term

    def goes(factor: Term) -> bool:
        return not factor.shape if scalars else isinstance(factor, Number)

    above = [f for f in term.numerator if goes(f) and f is not ONE]
    below = [f for f in term.denominator if goes(f)]
    if not (above or below or term.minus):
        return None, term
    kept = [f for f in term.numerator if not goes(f)]
    rest = product(False, kept, [f for f in term.denominator if not goes(f)])
    if rest is ONE or rest.shape != term.shape:
        return None, term
    return Product(term.minus, above or [ONE], below), rest


def raised(base: Term, exponent: int) -> Term:
    """A whole power."""
    return base if exponent == 1 else Power(base, Number(exponent))


def power(base: Term, exponent: Term) -> Term:
    """A power; whole negative exponents go below a fraction line."""
    n = whole_number(exponent)
    if n == 1:
        return base
    inner = base.whole if isinstance(base, Power) else None
    if n is not None and n > 0 and inner is not None and inner > 0:
        return Power(base.args[0], Number(n * inner))
    if n is not None and n < 0:
        return product(False, [], [raised(base, -n)])
    return Power(base, exponent)


def _rank(term: Term) -> int:
    """Where a factor stands: constants, variables, functions, sums, and at last what extends to the right."""
    core = term.args[0] if isinstance(term, (Power, Index, Transpose)) else term
    if isinstance(term, Symbol) and term.name is PI:
        return 0
    if isinstance(core, Symbol) and core.temporary:
        return 2
    if isinstance(core, Symbol) or (isinstance(core, Index) and isinstance(core.args[0], Symbol)):
        return 1
    if isinstance(core, Sum):
        return 3
    if isinstance(core, Reduce) and core.op is sum_:
        return 4
    return 5 if isinstance(core, Apply) and core.op is matmul else 2
