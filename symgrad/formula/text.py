"""Formulas as text: Unicode for reading, ASCII that Python evaluates, and NumPy source."""

from __future__ import annotations

from typing import Any

from ..core.aval import FLOAT64, make_aval
from ..core.op import Op
from ..ops.arithmetic import absolute, root, sqrt
from ..ops.contraction import matmul
from ..ops.indexing import gather
from ..ops.linalg import inv, logabsdet
from ..ops.reduction import prod, sum_
from ..ops.selection import fmax, fmin, maximum, minimum
from ..ops.transcendental import expit
from .names import Name
from .numerals import number_text
from .style import (
    ATOM,
    MINUS,
    POSTFIX,
    POWER,
    PRODUCT,
    Part,
    Style,
    entries_text,
    shape_text,
)
from .terms import Apply, Call, Index, Number, Ones, Power, Product, Reduce, Symbol


class Ascii(Style):
    """Python expressions over bare function names; they evaluate to what the graph computes."""

    times, raise_to = "*", "**"
    vector_open, vector_close = "array([", "])"

    def name(self, name: Name) -> str:
        """A name in this notation."""
        return name.ascii

    def function(self, name: str) -> str:
        """A function in this notation."""
        return name.removeprefix("np.")

    def number(self, term: Number) -> Part:
        text = number_text(term.value)
        return text, MINUS if text.startswith("-") else ATOM

    def symbol(self, term: Symbol) -> Part:
        return self.name(term.name), ATOM

    def ones(self, term: Ones) -> Part:
        return f"{self.function('ones')}({shape_text(term.shape)})", ATOM

    def product(self, term: Product, parts: list[Part]) -> Part:
        above, below = parts[: term.above], parts[term.above :]
        text = self.times.join(self._factor(term, k, part) for k, part in enumerate(above))
        if len(below) == 1:
            text += f"/{self.wrap(below[0], PRODUCT + 1)}"
        elif below:
            text += f"/({self.times.join(self.wrap(part, PRODUCT + 1) for part in below)})"
        if term.minus:
            return f"-{text}", MINUS
        return text, PRODUCT if len(parts) > 1 else parts[0][1]

    def _factor(self, term: Product, k: int, part: Part) -> str:
        """A matrix product may stand bare at the end where only numbers are in front of it."""
        factor = term.args[k]
        last = k == term.above - 1 and not any(a.shape for a in term.numerator[:k])
        if last and isinstance(factor, Apply) and factor.op is matmul:
            return part[0]
        return self.wrap(part, PRODUCT + 1)

    def power(self, term: Power, parts: list[Part]) -> Part:
        base, exponent = parts
        return f"{self.wrap(base, POWER + 1)}{self.raise_to}{self.exponent(term, exponent)}", POWER

    def exponent(self, term: Power, part: Part) -> str:
        """An exponent: only a sign may stand before it without parentheses."""
        inner = term.args[1]
        negated = isinstance(inner, Product) and inner.minus and len(inner.args) == 1
        if (negated or isinstance(inner, Number)) and part[0].startswith("-") and " " not in part[0]:
            return part[0]
        return self.wrap(part, POWER + 1)

    def apply(self, term: Apply, parts: list[Part]) -> Part:
        op = term.op
        if op is gather:
            texts = [self.wrap(parts[0], POSTFIX), *[p[0] for p in parts[1:]]]
            return op.source(texts, [make_aval(a.shape, FLOAT64) for a in term.args], term.params), POSTFIX
        if op.text:
            least = op.precedence + 1 if op.precedence < ATOM else POSTFIX
            if op is matmul and isinstance(term.args[0], Apply) and term.args[0].op is matmul:
                parts = [(parts[0][0], ATOM), parts[1]]
            return self.template(self.pattern(op), parts, term.params, op.precedence, least)
        return self._listed(op.name, [p[0] for p in parts], term.params), ATOM

    def pattern(self, op: Op) -> str:
        """The template of an operation's text."""
        return op.text

    def _listed(self, function: str, inside: list[str], params: dict[str, Any]) -> str:
        given = [f"{k}={v!r}" for k, v in params.items() if v is not False]
        return f"{self.function(function)}({', '.join([*inside, *given])})"

    def reduce(self, term: Reduce, parts: list[Part]) -> Part:
        arg = term.args[0]
        extra = []
        if len(term.axes) < len(arg.shape) or (term.keepdims and len(arg.shape) > 1):
            extra.append(f"axis={term.axes[0] if len(term.axes) == 1 else term.axes}")
        if term.keepdims:
            extra.append("keepdims=True")
        return f"{self.reduction(term.op)}({', '.join([parts[0][0], *extra])})", ATOM

    def reduction(self, op: Op) -> str:
        """The function of a reduction."""
        return self.function(f"np.{op.name}")

    def call(self, term: Call, parts: list[Part]) -> Part:
        texts = [p[0] for p in parts]
        inside = [f"({', '.join(texts)})"] if term.packed else texts
        return f"{self.function(term.function)}({', '.join([*inside, *term.extra])})", ATOM

    def index(self, term: Index, parts: list[Part]) -> Part:
        return f"{self.wrap(parts[0], POSTFIX)}[{entries_text(term)}]", POSTFIX

    def transpose(self, parts: list[Part]) -> Part:
        return f"{self.wrap(parts[0], POSTFIX)}.T", POSTFIX

    def vector(self, parts: list[Part]) -> Part:
        return f"{self.vector_open}{', '.join(p[0] for p in parts)}{self.vector_close}", ATOM


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SIGNS = {
    " <= ": " ≤ ", " >= ": " ≥ ", " != ": " ≠ ", " == ": " = ", " & ": " ∧ ", " | ": " ∨ ", " ^ ": " ⊻ ",
    "~": "¬", "**2": "²", "**": "^", "*": "·",
}
_PATTERNS: dict[Op, str] = {
    expit: "σ({0})", maximum: "max({0}, {1})", minimum: "min({0}, {1})",
    fmax: "max({0}, {1})", fmin: "min({0}, {1})", inv: "{0}⁻¹", logabsdet: "log|det({0})|",
}
_LARGE: dict[Op, str] = {sum_: "Σ", prod: "Π"}


class Unicode(Ascii):
    """Text as one writes mathematics."""

    times, raise_to = "·", "^"
    vector_open, vector_close = "[", "]"

    def name(self, name: Name) -> str:
        return name.text

    def power(self, term: Power, parts: list[Part]) -> Part:
        if term.whole is not None:
            return self.wrap(parts[0], POSTFIX) + parts[1][0].translate(_SUPERSCRIPTS), POWER
        return super().power(term, parts)

    def transpose(self, parts: list[Part]) -> Part:
        inverse = parts[0][0].removesuffix("⁻¹")
        if inverse != parts[0][0] and parts[0][1] == POWER:
            return f"{inverse}⁻ᵀ", POWER
        return f"{self.wrap(parts[0], POSTFIX)}ᵀ", POWER

    def reduction(self, op: Op) -> str:
        return _LARGE.get(op) or super().reduction(op)

    def pattern(self, op: Op) -> str:
        text = op.text
        for plain, sign in _SIGNS.items():
            text = text.replace(plain, sign)
        return text

    def apply(self, term: Apply, parts: list[Part]) -> Part:
        (text, binding), *_ = parts
        if term.op in (sqrt, root):
            plain = binding >= POSTFIX and " " not in text
            return f"√{text}" if plain else f"√({text})", POWER
        if term.op is absolute and "|" not in text:
            return f"|{text}|", ATOM
        pattern = _PATTERNS.get(term.op)
        if pattern is None:
            return super().apply(term, parts)
        called = pattern[-1] in ")|"
        return self.template(pattern, parts, term.params, ATOM if called else POWER, POSTFIX)


class NumpySource(Ascii):
    """Python source over NumPy (``np``), SciPy's functions (``sc``) and symgrad's helpers (``rt``)."""

    vector_open, vector_close = "np.array([", "])"

    def function(self, name: str) -> str:
        return name if name.startswith("np.") else f"rt.{name}" if name == "unslice" else f"np.{name}"

    def symbol(self, term: Symbol) -> Part:
        text = self.name(term.name)
        return (f"np.{text}" if text in ("pi", "inf", "nan") else text), ATOM

    def apply(self, term: Apply, parts: list[Part]) -> Part:
        op = term.op
        if op is gather or (op.text and op.precedence < ATOM and "(" not in op.text):
            return super().apply(term, parts)
        avals = [make_aval(a.shape, FLOAT64) for a in term.args]
        pattern = op.source([_mark(k) for k in range(len(parts))], avals, term.params)
        pattern = pattern.replace("{", "{{").replace("}", "}}")
        for k in range(len(parts)):
            pattern = pattern.replace(_mark(k), f"{{{k}}}")
        # A slice after the call, as in slogdet(a)[1], binds like any other postfix.
        binding = POSTFIX if pattern.endswith((")", "]")) else MINUS
        return self.template(pattern, parts, {}, binding, POSTFIX)


def _mark(k: int) -> str:
    """What stands for an operand while the source of a call is made."""
    return f"\N{NULL}{k}\N{NULL}"

