"""Formulas as LaTeX."""

from __future__ import annotations

import re

from ..core.op import Op
from ..ops.contraction import matmul
from ..ops.indexing import gather
from ..ops.reduction import sum_
from .names import latex_name
from .numerals import number_text
from .style import ATOM, MINUS, POSTFIX, POWER, PRODUCT, SUM, Part, Style, entries_text
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
)

BIG = 59
"""Binding of sums over axes and of function names without parentheses: they extend to the right."""

_CALLS = {"trace": r"\operatorname{tr}", "diag": r"\operatorname{diag}"}


class Latex(Style):
    """LaTeX for display mathematics, without any package beyond amsmath."""

    left, right = r"\left(", r"\right)"

    def number(self, term: Number) -> Part:
        text = number_text(term.value)
        mantissa, e, exponent = text.partition("e")
        if e:
            if mantissa == "1":
                return f"10^{{{int(exponent)}}}", POWER
            return rf"{mantissa} \times 10^{{{int(exponent)}}}", PRODUCT
        if not text[-1].isdigit():
            text = rf"\mathrm{{{text}}}"
        return text, MINUS if text.startswith("-") else ATOM

    def symbol(self, term: Symbol) -> Part:
        return term.name.latex, ATOM

    def ones(self, term: Ones) -> Part:
        sizes = r" \times ".join(map(str, term.shape))
        return rf"\mathbf{{1}}_{{{sizes}}}", ATOM

    def product(self, term: Product, parts: list[Part]) -> Part:
        above, below = parts[: term.above], parts[term.above :]
        sign = "-" if term.minus else ""
        if below:
            top, bottom = self._factors(term.numerator, above), self._factors(term.denominator, below)
            text = rf"\frac{{{top}}}{{{bottom}}}"
        elif len(above) == 1:
            text = self.wrap(above[0], SUM + 1)
        else:
            text = self._factors(term.numerator, above)
        return sign + text, MINUS if term.minus else PRODUCT

    def _factors(self, terms: tuple[Term, ...], parts: list[Part]) -> str:
        if len(parts) == 1:
            return parts[0][0]
        texts = []
        for k, (term, part) in enumerate(zip(terms, parts, strict=True)):
            last = k == len(parts) - 1 and not any(t.shape for t in terms[:k])
            bare = last and (part[1] == BIG or _is_matrix_product(term))
            bare |= k == 0 and isinstance(term, Number)
            texts.append(part[0] if bare else self.wrap(part, PRODUCT + 1))
        result = texts[0]
        for before, text, term in zip(terms, texts[1:], terms[1:], strict=False):
            # A number or a parenthesis after a name would read as part of it or as its argument.
            plain = not text[0].isdigit() and (isinstance(before, Number) or not text.startswith(self.left))
            if plain and not isinstance(term, Number):
                result = _side_by_side(result, text)
            else:
                result += rf" \cdot {text}"
        return result

    def power(self, _term: Power, parts: list[Part]) -> Part:
        return f"{self.wrap(parts[0], POWER + 1)}^{{{parts[1][0]}}}", POWER

    def apply(self, term: Apply, parts: list[Part]) -> Part:
        op = term.op
        if op is gather:
            below = ", ".join(p[0] for p in parts[1:])
            return rf"{self.wrap(parts[0], POSTFIX)}\left[{below}\right]", POSTFIX
        if not op.latex:
            return self._called(latex_name(op.name), [p[0] for p in parts]), ATOM
        binding, least = latex_binding(op)
        if op is matmul:
            chain = isinstance(term.args[0], Apply) and term.args[0].op is matmul
            left = parts[0][0] if chain else self.wrap(parts[0], least)
            return _side_by_side(left, self.wrap(parts[1], least)), binding
        return self.template(op.latex, parts, term.params, binding, least)

    def _called(self, function: str, inside: list[str]) -> str:
        function = function.replace(r"\mathrm", r"\operatorname", 1)
        return rf"{function}\left({', '.join(inside)}\right)"

    def reduce(self, term: Reduce, parts: list[Part]) -> Part:
        axes = "" if len(term.axes) == len(term.args[0].shape) else rf"_{{{','.join(map(str, term.axes))}}}"
        pattern = term.op.latex or rf"\operatorname{{{{{term.op.name}}}}} {{0}}"
        head = pattern.partition("{0}")[0].format().strip() + axes
        if term.op is sum_:
            simple = not isinstance(term.args[0], Sum) and parts[0][1] >= BIG
            return f"{head} {parts[0][0] if simple else self.wrap((parts[0][0], 0), ATOM)}", BIG
        return f"{head} {self.wrap((parts[0][0], 0), ATOM)}", BIG

    def call(self, term: Call, parts: list[Part]) -> Part:
        if term.function == "eye":
            return f"I_{{{term.extra[0]}}}", ATOM
        if term.function == "outer":
            left, right = self.wrap(parts[0], POWER), self.wrap(parts[1], POSTFIX)
            return _side_by_side(left, f"{right}^{{T}}"), PRODUCT
        function = term.function.removeprefix("np.")
        name = _CALLS.get(function, latex_name(function))
        below = re.sub("[() ]", "", ",".join(term.extra))
        return self._called(f"{name}_{{{below}}}" if below else name, [p[0] for p in parts]), ATOM

    def index(self, term: Index, parts: list[Part]) -> Part:
        plain = isinstance(term.args[0], Symbol) and "_" not in parts[0][0] and None not in term.entries
        if plain:
            return f"{parts[0][0]}_{{{entries_text(term).replace(' ', '')}}}", POSTFIX
        inside = entries_text(term).replace("None", r"\ast")
        return rf"{self.wrap(parts[0], POSTFIX)}\left[{inside}\right]", POSTFIX

    def transpose(self, parts: list[Part]) -> Part:
        inverse = parts[0][0].removesuffix("^{-1}")
        if inverse != parts[0][0] and parts[0][1] == POWER:
            return f"{inverse}^{{-T}}", POWER
        return f"{self.wrap(parts[0], POSTFIX)}^{{T}}", POWER

    def vector(self, parts: list[Part]) -> Part:
        rows = r" \\ ".join(p[0] for p in parts)
        return rf"\begin{{pmatrix}} {rows} \end{{pmatrix}}", ATOM


def _side_by_side(left: str, right: str) -> str:
    """A product without a sign; words of several letters need a space that LaTeX keeps."""
    after = re.search(r"\\mathrm\{[^{}]*\}(_\{[^{}]*\})?$", left)
    before = right.startswith(r"\mathrm") and not left[-1].isdigit()
    return rf"{left} \, {right}" if after or before else f"{left} {right}"


def _is_matrix_product(term: Term) -> bool:
    if isinstance(term, Call):
        return term.function == "outer"
    return isinstance(term, Apply) and term.op is matmul


def latex_binding(op: Op) -> tuple[int, int]:
    """How strongly the LaTeX of an operation binds, and what its bare operands must bind at least."""
    if op.precedence < ATOM and not op.latex.startswith((r"\frac", r"\left")):
        return op.precedence, op.precedence + 1
    bare = _without_groups(op.latex)
    if "{cases}" in op.latex:
        return BIG, SUM
    if " \x00" in bare and "^" in bare:
        return PRODUCT, POWER + 1
    if "^" in bare and "(" not in bare:
        return POWER, POWER + 1
    if re.search(r"[A-Za-z] *\x00", bare):
        return BIG, POWER
    return ATOM, SUM


def _without_groups(template: str) -> str:
    r"""The template with ``\left…\right`` and braces cut out and operands that stand bare marked by NUL."""
    text = template.replace("{{", "\x01").replace("}}", "\x02")
    text = re.sub(r"\\left.*?\\right(\\\w+|.)", "()", text)
    text = re.sub(r"\{\w+\}", "\x00", text)
    while True:
        shorter = re.sub("\x01[^\x01\x02]*\x02", "", text)
        if shorter == text:
            return text
        text = shorter
