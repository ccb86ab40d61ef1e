"""What the notations share: strings with binding strength, templates, and the walk from terms to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any

from ..core.op import literal
from .terms import (
    Apply,
    Call,
    Index,
    Number,
    Ones,
    Power,
    Product,
    Reduce,
    Sum,
    Symbol,
    Term,
    Transpose,
    Vector,
)

Part = tuple[str, int]
"""A text and how strongly it binds."""

COMPARE, SUM, MINUS, PRODUCT, UNARY, POWER, POSTFIX, ATOM = 30, 50, 55, 60, 65, 80, 90, 100

_OPENING = ("(", "[", "{", ",", "|", "lfloor", "lceil", "{cases}", "&", r"\\", r"\text{if }")
_CLOSING = (")", "]", "}", ",", "|", r"\right", "&", r"\\", r"\end")


class Style:
    """One notation; subclasses say how each kind of term is written."""

    left, right = "(", ")"

    def __init__(self) -> None:
        self.writers: dict[type[Term], Callable[[Any, list[Part]], Part]] = {
            Number: lambda term, _: self.number(term), Symbol: lambda term, _: self.symbol(term),
            Ones: lambda term, _: self.ones(term), Sum: self.sum, Product: self.product, Power: self.power,
            Apply: self.apply, Reduce: self.reduce, Call: self.call, Index: self.index,
            Transpose: lambda _, parts: self.transpose(parts), Vector: lambda _, parts: self.vector(parts),
        }

    def write(self, term: Term) -> str:
        """Text of a term; the walk keeps its own stack."""
        done: dict[int, Part] = {}
        stack = [term]
        while stack:
            top = stack[-1]
            if id(top) in done:
                stack.pop()
                continue
            waiting = [a for a in top.args if id(a) not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done[id(top)] = self.writers[type(top)](top, [done[id(a)] for a in top.args])
        return done[id(term)][0]

    def wrap(self, part: Part, least: int) -> str:
        """The text, in parentheses if it binds less than ``least``."""
        return part[0] if part[1] >= least else f"{self.left}{part[0]}{self.right}"

    def template(
        self, pattern: str, parts: Sequence[Part], params: dict[str, Any], binding: int, least: int
    ) -> Part:
        """Fill a record's template; operands between brackets or commas need no parentheses."""
        pieces = list(Formatter().parse(pattern))
        text = ""
        for k, (before, field, _, _) in enumerate(pieces):
            text += before
            if field is None:
                continue
            if not field.isdigit():
                text += literal(params[field])
                continue
            following = pieces[k + 1][0] if k + 1 < len(pieces) else ""
            enclosed = text.rstrip().endswith(_OPENING) and following.lstrip().startswith(_CLOSING)
            text += parts[int(field)][0] if enclosed else self.wrap(parts[int(field)], least)
        return text, binding

    def number(self, term: Number) -> Part:
        """A constant."""
        raise NotImplementedError

    def symbol(self, term: Symbol) -> Part:
        """A name."""
        raise NotImplementedError

    def ones(self, term: Ones) -> Part:
        """An array of ones."""
        raise NotImplementedError

    def sum(self, term: Sum, parts: list[Part]) -> Part:
        """Signed operands; those after the first bind more than a sum."""
        text = ""
        for k, (part, minus) in enumerate(zip(parts, term.minus, strict=True)):
            if k == 0 and minus:
                text = f"-{self.wrap(part, PRODUCT if isinstance(term.args[0], Product) else UNARY)}"
            elif k == 0:
                text = self.wrap(part, SUM)
            else:
                text += f" {'-' if minus else '+'} {self.wrap(part, SUM + 1)}"
        return text, SUM

    def product(self, term: Product, parts: list[Part]) -> Part:
        """Factors over a fraction line."""
        raise NotImplementedError

    def power(self, term: Power, parts: list[Part]) -> Part:
        """Base and exponent."""
        raise NotImplementedError

    def apply(self, term: Apply, parts: list[Part]) -> Part:
        """An operation."""
        raise NotImplementedError

    def reduce(self, term: Reduce, parts: list[Part]) -> Part:
        """A reduction."""
        raise NotImplementedError

    def call(self, term: Call, parts: list[Part]) -> Part:
        """A function."""
        raise NotImplementedError

    def index(self, term: Index, parts: list[Part]) -> Part:
        """Basic indexing."""
        raise NotImplementedError

    def transpose(self, parts: list[Part]) -> Part:
        """A matrix transposed."""
        raise NotImplementedError

    def vector(self, parts: list[Part]) -> Part:
        """Elements."""
        raise NotImplementedError


def entry_text(entry: tuple[int, int, int, int] | int | None) -> str:
    """One entry between the brackets of an index, as Python writes it."""
    if entry is None:
        return "None"
    if isinstance(entry, int):
        return str(entry)
    start, size, step, n = entry
    if size == 0:
        return ":0"
    if size == 1 and step == 1 and n > 1:
        return f"{start}:{start + 1}"
    stop = start + size * step
    if step > 0:
        low = str(start) if start else ""
        high = "" if stop >= n else "-1" if stop == n - 1 and step == 1 and not start else str(stop)
    else:
        low = "" if start == n - 1 else str(start)
        high = "" if stop < 0 else str(stop)
    return f"{low}:{high}" if step == 1 else f"{low}:{high}:{step}"


def entries_text(term: Index) -> str:
    """What stands between the brackets of an index; whole axes at the end are left out."""
    texts = [entry_text(e) for e in term.entries]
    while len(texts) > 1 and texts[-1] == ":":
        texts.pop()
    return ", ".join(texts)


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as an argument: a number for one axis."""
    return str(shape[0]) if len(shape) == 1 else str(shape)
