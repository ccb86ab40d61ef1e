"""Comparisons, logic and tests for special values: results are bool, derivatives do not exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import BOOL, FLOAT64
from ..core.expr import OPERATORS, Expr
from ..core.op import Op, Sample
from .c_types import by_kind, comparison
from .define import UFUNCS, as_exprs, cast, nondiff

_TWO = [Sample(((-3.0, 3.0), (-3.0, 3.0))), Sample(((-3, 3, "int"), (-3, 3, "int")))]
_BOOLS = [Sample(("bool", "bool"))]


def _comparison(name: str, symbol: str, latex: str, doc: str, commutative: bool = False) -> Op:
    return nondiff(
        name, ufunc=getattr(np, name), nargs=2, result="bool", doc=doc, c=comparison(symbol),
        text=f"{{0}} {symbol} {{1}}", latex=f"{{0}} {latex} {{1}}", precedence=30, samples=_TWO,
        commutative=commutative,
    )


less = _comparison("less", "<", "<", "True where the first value is smaller.")
less_equal = _comparison("less_equal", "<=", r"\le", "True where the first value is not larger.")
greater = _comparison("greater", ">", ">", "True where the first value is larger.")
greater_equal = _comparison("greater_equal", ">=", r"\ge", "True where the first value is not smaller.")
equal = _comparison("equal", "==", "=", "True where the values are equal.", commutative=True)
not_equal = _comparison("not_equal", "!=", r"\ne", "True where the values differ.", commutative=True)

logical_and = nondiff(
    "logical_and", ufunc=np.logical_and, nargs=2, result="bool", doc="True where both values are true.",
    c="({0} && {1})", text="{0} & {1}", latex=r"{0} \wedge {1}", precedence=40, samples=_BOOLS,
    commutative=True,
)
logical_or = nondiff(
    "logical_or", ufunc=np.logical_or, nargs=2, result="bool", doc="True where a value is true.",
    c="({0} || {1})", text="{0} | {1}", latex=r"{0} \vee {1}", precedence=35, samples=_BOOLS,
    commutative=True,
)
logical_xor = nondiff(
    "logical_xor", ufunc=np.logical_xor, nargs=2, result="bool", doc="True where exactly one value is true.",
    c="(({0} != 0) != ({1} != 0))", text="{0} ^ {1}", latex=r"{0} \oplus {1}", precedence=38, samples=_BOOLS,
    commutative=True,
)
logical_not = nondiff(
    "logical_not", ufunc=np.logical_not, result="bool", doc="True where the value is false.",
    c="(!{0})", text="~{0}", latex=r"\neg {0}", precedence=65, samples=[Sample(("bool",))],
)
isnan = nondiff(
    "isnan", ufunc=np.isnan, result="bool", doc="True where the value is not a number.",
    c=by_kind("({0} != {0})", "((void){0}, 0)"),
    samples=[Sample(((-3.0, 3.0),))],
)
isfinite = nondiff(
    "isfinite", ufunc=np.isfinite, result="bool", doc="True where the value is neither infinite nor NaN.",

    c=by_kind("(isfinite({0}) != 0)", "((void){0}, 1)"), samples=[Sample(((-3.0, 3.0),))],
)
isinf = nondiff(
    "isinf", ufunc=np.isinf, result="bool", doc="True where the value is infinite.",
    c=by_kind("(isinf({0}) != 0)", "((void){0}, 0)"),
    samples=[Sample(((-3.0, 3.0),))],
)


def _bitwise(name: str, symbol: str, nargs: int, latex: str, c: Any = "") -> Op:
    ints: list[Any] = [Sample(tuple([(0, 9, "int")] * nargs))]
    return nondiff(
        name, ufunc=getattr(np, name), nargs=nargs, doc=f"{name.replace('_', ' ').capitalize()} of integers.",
        c=c or (f"({{0}} {symbol} {{1}})" if nargs == 2 else f"({symbol}{{0}})"), latex=latex, samples=ints,
        commutative=nargs == 2 and "shift" not in name,
    )


bitwise_and = _bitwise("bitwise_and", "&", 2, r"{0} \mathbin{{\&}} {1}")
bitwise_or = _bitwise("bitwise_or", "|", 2, r"{0} \mathbin{{|}} {1}")
bitwise_xor = _bitwise("bitwise_xor", "^", 2, r"{0} \oplus {1}")
invert = _bitwise("invert", "~", 1, r"\sim {0}")
left_shift = _bitwise("left_shift", "<<", 2, r"{0} \ll {1}", by_kind("", "sg_shl_{s}({0}, {1})"))
right_shift = _bitwise("right_shift", ">>", 2, r"{0} \gg {1}", by_kind("", "sg_shr_{s}({0}, {1})"))


def _on_bools(bitwise: str, logical: str) -> None:
    """NumPy's ``&``, ``|``, ``^`` and ``~`` are logical on bool arrays."""
    on_ints = UFUNCS[bitwise]

    def call(*operands: Any, weak_ok: bool = False) -> Expr:
        exprs = as_exprs(*operands)
        if all(x.dtype.kind == "b" for x in exprs):
            return UFUNCS[logical](*exprs)
        return on_ints(*exprs, weak_ok=weak_ok)

    UFUNCS[bitwise] = call


_on_bools("bitwise_and", "logical_and")
_on_bools("bitwise_or", "logical_or")
_on_bools("bitwise_xor", "logical_xor")
_on_bools("invert", "logical_not")


def as_condition(c: Expr) -> Expr:
    """A bool expression of the truth of ``c``."""
    return c if c.dtype == BOOL else not_equal(c, 0)


def _of_conditions(op: Op) -> None:
    """The logical ops work on bools alone; numbers are turned into their truth before."""

    def call(*operands: Any, weak_ok: bool = False) -> Expr:
        return op(*[as_condition(x) for x in as_exprs(*operands)])

    UFUNCS[op.name] = call


for _op in (logical_and, logical_or, logical_xor, logical_not):
    _of_conditions(_op)


def _unfit(x: Expr, partner: Expr) -> bool:
    """Whether ``x`` is a Python integer that the integer dtype of its partner cannot hold."""
    if not (x.aval.weak and x.value is not None and partner.dtype.kind in "iu" and not partner.aval.weak):
        return False
    limits = np.iinfo(partner.dtype)
    return not limits.min <= x.value <= limits.max


def _exact_for_integers(op: Op) -> None:
    """NumPy compares integers with any Python integer as it is, even one that their dtype cannot hold."""
    within = UFUNCS[op.name]

    def call(*operands: Any, weak_ok: bool = False) -> Expr:
        x, y = as_exprs(*operands)
        if _unfit(x, y) or _unfit(y, x):
            return op(cast(x, FLOAT64), cast(y, FLOAT64))
        return within(x, y, weak_ok=weak_ok)

    UFUNCS[op.name] = call


for _op in (less, less_equal, greater, greater_equal, equal, not_equal):
    _exact_for_integers(_op)

OPERATORS.update(less=less, less_equal=less_equal, greater=greater, greater_equal=greater_equal)
