"""Arithmetic: the four operations, powers, roots, absolute value and sign."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.expr import OPERATORS, Expr
from ..core.op import Op, Sample
from .c_types import by_kind, power_source, wrapping
from .casting import python_number
from .comparison import less, logical_and, logical_not, logical_or, not_equal
from .define import UFUNCS, as_exprs, cast, constant_like, elementwise, nondiff, resolve_for
from .masking import keep

_ANY = Sample(((-3.0, 3.0),))
_POSITIVE = Sample(((0.2, 3.0),))
_TWO = Sample(((-3.0, 3.0), (-3.0, 3.0)))

add = elementwise(
    "add", ufunc=np.add, doc="Sum of two values.", commutative=True,
    partials=[lambda out, x, y: 1, lambda out, x, y: 1],
    c=wrapping("+", "||"), text="{0} + {1}", latex="{0} + {1}", precedence=50, samples=[_TWO],
)
subtract = elementwise(
    "subtract", ufunc=np.subtract, doc="Difference of two values.",
    partials=[lambda out, x, y: 1, lambda out, x, y: -1],
    c=wrapping("-"), text="{0} - {1}", latex="{0} - {1}", precedence=50, samples=[_TWO],
)
multiply = elementwise(
    "multiply", ufunc=np.multiply, doc="Product of two values.", commutative=True,
    partials=[lambda out, x, y: y, lambda out, x, y: x],
    c=wrapping("*", "&&"), text="{0}*{1}", latex=r"{0} \cdot {1}", precedence=60, samples=[_TWO],
)
divide = elementwise(
    "divide", ufunc=np.divide, doc="Quotient of two values.",
    partials=[lambda out, x, y: 1, lambda out, x, y: negative(out)], factor=lambda out, x, y: reciprocal(y),
    c="{0} / {1}", text="{0}/{1}", latex=r"\frac{{{0}}}{{{1}}}", precedence=60,
    samples=[Sample(((-3.0, 3.0), (0.5, 3.0))), Sample(((-3.0, 3.0), (-3.0, -0.5)))],
)
negative: Op = elementwise(
    "negative", ufunc=np.negative, doc="The value with its sign changed.",
    partials=[lambda out, x: -1], c=by_kind("-{0}", "({T})(0 - ({U}){0})"), text="-{0}", latex="-{0}",
    precedence=55, samples=[_ANY],
)
reciprocal: Op = elementwise(
    "reciprocal", ufunc=np.reciprocal, doc="One divided by the value.",
    partials=[lambda out, x: negative(square(out))],
    c=by_kind("1 / {0}", "({T})sg_to_i64(1.0 / (double){0})"), text="1/{0}", latex=r"\frac{{1}}{{{0}}}",
    precedence=60, samples=[Sample(((0.5, 3.0),)), Sample(((-3.0, -0.5),))],
)
square: Op = elementwise(
    "square", ufunc=np.square, doc="The value times itself.",
    partials=[lambda out, x: x * 2.0], c=wrapping("*", "&&"), text="{0}**2", latex="{0}^{{2}}", precedence=80,
    samples=[_ANY],
)
sqrt = elementwise(
    "sqrt", ufunc=np.sqrt, doc="Square root; its slope at 0 is infinite.",
    partials=[lambda out, x: constant_like(x, 0.5) / out], c="sqrt{f}({0})", latex=r"\sqrt{{{0}}}",
    samples=[_POSITIVE],
)
root = elementwise(
    "root", numpy="np.sqrt({0})",
    doc="Square root inside norms and standard deviations: its slope at 0 is 0.",
    partials=[lambda out, x: keep(not_equal(out, 0.0), constant_like(x, 0.5) / out)],
    c="sqrt{f}({0})", text="sqrt({0})", latex=r"\sqrt{{{0}}}", samples=[_POSITIVE],
)
absolute = elementwise(
    "absolute", ufunc=np.absolute, doc="Absolute value; its slope at 0 is 0.",
    partials=[lambda out, x: sign(x)],
    c=by_kind("fabs{f}({0})", "({0} < 0 ? ({T})(0 - ({U}){0}) : {0})", "{0}"), text="abs({0})",
    latex=r"\left|{0}\right|",
    samples=[Sample(((0.2, 3.0),)), Sample(((-3.0, -0.2),))],
)
sign: Op = nondiff(
    "sign", ufunc=np.sign, doc="-1, 0 or 1 as the value is negative, zero or positive.",
    c=by_kind(
        "({0} > 0 ? 1 : ({0} < 0 ? -1 : ({0} == 0 ? 0 : {0})))", "(({0} > 0) - ({0} < 0))", "({0} != 0)"
    ),
    latex=r"\operatorname{{sign}}\left({0}\right)",
    samples=[Sample(((0.2, 3.0),)), Sample(((-3.0, -0.2),))],
)
hypot = elementwise(
    "hypot", ufunc=np.hypot,
    doc="Length of the vector (x, y), without overflow; its slope at the origin is 0.",
    commutative=True,
    partials=[
        lambda out, x, y: keep(not_equal(out, 0.0), x / out),
        lambda out, x, y: keep(not_equal(out, 0.0), y / out),
    ],
    c="hypot{f}({0}, {1})", latex=r"\operatorname{{hypot}}\left({0}, {1}\right)",
    samples=[Sample(((0.3, 3.0), (-3.0, -0.3))), Sample(((-3.0, 3.0), (0.5, 2.0)))],
)


# ------------------------------------------------------------------------------------------ power


def _exponent_value(y: Expr) -> float | None:
    value = y.value
    return float(value) if value is not None and value.ndim == 0 else None


def _power_base(out: Expr, x: Expr, y: Expr) -> Any:
    n = _exponent_value(y)
    if n == 0.0:
        return None
    if n == 1.0:
        return 1
    if n == 2.0:
        return x * 2.0
    if n is not None:
        return y * power(x, y - 1.0)
    # x**0 is constant, also at x = 0 where x**(y-1) is infinite.
    return keep(not_equal(y, 0.0), y * power(x, y - 1.0))


def _power_exponent(out: Expr, x: Expr, y: Expr) -> Expr:
    from_log = out * UFUNCS["log"](x)
    # 0**y does not change with y; log would say -inf.
    return keep(not_equal(x, 0.0), from_log)


power: Op = elementwise(
    "power", ufunc=np.power, doc="First value raised to the second.",
    partials=[_power_base, _power_exponent], c=power_source, text="{0}**{1}", latex="{0}^{{{1}}}",
    precedence=80,
    samples=[Sample(((0.3, 2.5), (-2.0, 3.0)))],
)


# ------------------------------------------------------------------------------------ division with remainder


floor_divide = nondiff(
    "floor_divide", ufunc=np.floor_divide, nargs=2, doc="Largest integer not above the quotient.",
    c=by_kind("sg_floordiv{f}({0}, {1})", "sg_ifloordiv_{s}({0}, {1})"), text="{0}//{1}",
    latex=r"\left\lfloor\frac{{{0}}}{{{1}}}\right\rfloor", precedence=60,
    samples=[Sample(((0.1, 0.9), (1.1, 2.0)))],
)
remainder = elementwise(
    "remainder", ufunc=np.remainder, doc="Remainder with the sign of the divisor.",
    partials=[lambda out, x, y: 1, lambda out, x, y: negative(floor_divide(x, y))],
    c=by_kind("sg_mod{f}({0}, {1})", "sg_imod_{s}({0}, {1})"), text="{0} % {1}", latex=r"{0} \bmod {1}",
    precedence=60,
    samples=[Sample(((2.2, 2.8), (0.95, 1.05)))],
)
fmod = elementwise(
    "fmod", ufunc=np.fmod, doc="Remainder with the sign of the dividend.",
    partials=[lambda out, x, y: 1, lambda out, x, y: negative(UFUNCS["rint"]((x - out) / y))],
    c=by_kind("fmod{f}({0}, {1})", "sg_ifmod_{s}({0}, {1})"), samples=[Sample(((2.2, 2.8), (0.95, 1.05)))],
)
copysign: Op = elementwise(
    "copysign", ufunc=np.copysign, doc="First value with the sign of the second.",
    partials=[lambda out, x, y: sign(x) * copysign(constant_like(x, 1.0), y), None],
    c="copysign{f}({0}, {1})",
    samples=[Sample(((0.2, 3.0), (-3.0, -0.2))), Sample(((-3.0, -0.2), (0.2, 3.0)))],
)
signbit = nondiff(
    "signbit", ufunc=np.signbit, result="bool", doc="True where the sign bit is set.",
    c="(signbit({0}) != 0)", samples=[Sample(((0.2, 3.0),)), Sample(((-3.0, -0.2),))],
)


def _through(name: str, ufunc: np.ufunc, then: Any) -> None:
    """A ufunc that is made of others, once its operand has the dtype in which NumPy runs it."""

    def call(x: Any, weak_ok: bool = False) -> Expr:
        value = as_exprs(x)[0]
        dtype = resolve_for(ufunc, [value])[0]
        return then(value if value.dtype == dtype else cast(value, dtype))

    UFUNCS[name] = call


def _scaling(number: float, by: float) -> Any:
    """Multiply by a quotient that is rounded in the dtype of the operand, as NumPy's is."""

    def scaled(x: Expr) -> Expr:
        if x.dtype == np.float16:
            return cast(scaled(cast(x, np.float32)), np.float16)
        kind = x.dtype.type
        return x * float(kind(number) / kind(by))

    return scaled


_through("positive", np.positive, lambda x: x)
_through("conjugate", np.conjugate, lambda x: x)
_through("fabs", np.fabs, absolute)
_through("deg2rad", np.deg2rad, _scaling(np.pi, 180.0))
_through("radians", np.radians, _scaling(np.pi, 180.0))
_through("rad2deg", np.rad2deg, _scaling(180.0, np.pi))
_through("degrees", np.degrees, _scaling(180.0, np.pi))


def _power_operator(within: Any) -> Any:
    """On arrays, Python's ``**`` is NumPy's sqrt and square where the exponent is the number ½ or 2."""

    def call(x: Any, y: Any, weak_ok: bool = False) -> Expr:
        base, exponent = as_exprs(x, y)
        n = _exponent_value(exponent) if weak_ok and base.ndim else None
        if n == 0.5:
            return sqrt(cast(base, resolve_for(np.power, [base, exponent])[0]))
        if n == 2.0 and base.dtype.kind == "b" and exponent.aval.weak and exponent.dtype.kind == "i":
            return square(cast(base, np.int8))
        if weak_ok and base.aval.weak and exponent.aval.weak and base.dtype.kind == "i":
            power_of = _exponent_value(exponent)
            if power_of is not None and power_of < 0:
                base = python_number(cast(base, np.float64))  # 2**-1 is 0.5 in Python
        return within(base, exponent, weak_ok=weak_ok)

    return call


UFUNCS["power"] = _power_operator(UFUNCS["power"])


def _float_power(x: Any, y: Any, weak_ok: bool = False) -> Expr:
    """NumPy's float_power computes in double precision whatever it is given."""
    return power(*[cast(v, np.float64) for v in as_exprs(x, y)])


UFUNCS["float_power"] = _float_power

OPERATORS.update(
    add=add, subtract=subtract, multiply=multiply, divide=divide, power=power, negative=negative,
    logical_and=logical_and, logical_or=logical_or, logical_not=logical_not, less=less,
)
