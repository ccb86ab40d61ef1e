"""Exponentials, logarithms, trigonometric and hyperbolic functions.

Partial derivatives are written so that they do not cancel: sech² and not 1 - tanh², products of logistic
functions and not s(1 - s).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.expr import Expr
from ..core.op import Op, Sample
from .arithmetic import divide, hypot, multiply, negative, reciprocal, sqrt, square, subtract
from .comparison import isfinite, logical_or, not_equal
from .define import elementwise
from .masking import keep

LN2 = math.log(2.0)
LN10 = math.log(10.0)


def _unary(
    ufunc: np.ufunc, doc: str, partial: Any, low: float, high: float, latex: str = "", text: str = "",
    c: str = ""
) -> Op:
    """An op of one argument whose C function is named in NumPy's way, shortened."""
    name = ufunc.__name__
    c = c or f"{name.replace('arc', 'a')}{{f}}({{0}})"
    latex = latex or rf"\{name}\left({{0}}\right)"
    return elementwise(
        name, ufunc=ufunc, doc=doc, partials=[partial], c=c, latex=latex, text=text,
        samples=[Sample(((low, high),))],
    )


exp = _unary(np.exp, "e raised to the value.", lambda out, x: out, -2.0, 2.0, latex="e^{{{0}}}")
exp2 = _unary(np.exp2, "2 raised to the value.", lambda out, x: out * LN2, -2.0, 2.0, latex="2^{{{0}}}")
expm1 = _unary(
    np.expm1, "exp(x) - 1, accurate near 0.", lambda out, x: exp(x), -2.0, 2.0,
    latex=r"\operatorname{{expm1}}\left({0}\right)",
)
in_domain = elementwise(
    "in_domain", numpy="rt.in_domain({0})", c="({0} < 0 ? NAN : {0} + 0)", text="{0}", latex="{0}",
    doc="The value, NaN where it is negative: slopes of logarithms must not outlive their domain.",
    partials=[lambda out, x: 1], samples=[Sample(((0.2, 3.0),))],
)
log = _unary(np.log, "Natural logarithm.", lambda out, x: reciprocal(in_domain(x)), 0.2, 3.0)
log2 = _unary(
    np.log2, "Logarithm to base 2.", lambda out, x: reciprocal(in_domain(x) * LN2), 0.2, 3.0,
    latex=r"\log_{{2}}\left({0}\right)",
)
log10 = _unary(
    np.log10, "Logarithm to base 10.", lambda out, x: reciprocal(in_domain(x) * LN10), 0.2, 3.0,
    latex=r"\log_{{10}}\left({0}\right)",
)
log1p = _unary(
    np.log1p, "log(1 + x), accurate near 0.", lambda out, x: reciprocal(in_domain(x + 1.0)), -0.7, 3.0,
    latex=r"\operatorname{{log1p}}\left({0}\right)",
)
cbrt = elementwise(
    "cbrt", ufunc=np.cbrt, doc="Cube root.", partials=[lambda out, x: divide(1 / 3, square(out))],
    c="cbrt{f}({0})", latex=r"\sqrt[3]{{{0}}}", sympy="sign(x)*cbrt(Abs(x))", samples=[Sample(((0.2, 3.0),))],
)
sin = _unary(np.sin, "Sine.", lambda out, x: cos(x), -3.0, 3.0)
cos: Op = _unary(np.cos, "Cosine.", lambda out, x: negative(sin(x)), -3.0, 3.0)
tan = _unary(np.tan, "Tangent.", lambda out, x: square(out) + 1.0, -1.2, 1.2)
arcsin = _unary(
    np.arcsin, "Inverse sine.", lambda out, x: reciprocal(sqrt((1.0 - x) * (1.0 + x))), -0.9, 0.9,
)
arccos = _unary(
    np.arccos, "Inverse cosine.", lambda out, x: negative(reciprocal(sqrt((1.0 - x) * (1.0 + x)))), -0.9, 0.9,
)
arctan = _unary(np.arctan, "Inverse tangent.", lambda out, x: reciprocal(square(x) + 1.0), -3.0, 3.0)
sinh = _unary(np.sinh, "Hyperbolic sine.", lambda out, x: cosh(x), -2.0, 2.0)
cosh: Op = _unary(np.cosh, "Hyperbolic cosine.", lambda out, x: sinh(x), -2.0, 2.0)
tanh: Op = _unary(np.tanh, "Hyperbolic tangent.", lambda out, x: sech2(x), -2.0, 2.0)
sech2: Op = elementwise(
    "sech2", numpy="rt.sech2({0})", doc="Square of the hyperbolic secant, the derivative of tanh.",
    partials=[lambda out, x: tanh(x) * out * -2.0], c="sg_sech2{f}({0})",
    text="sech({0})**2", latex=r"\operatorname{{sech}}^{{2}}\left({0}\right)", precedence=80,
    samples=[Sample(((-2.0, 2.0),))],
)
arcsinh = _unary(
    np.arcsinh, "Inverse hyperbolic sine.", lambda out, x: reciprocal(hypot(x, 1.0)), -3.0, 3.0,
    latex=r"\operatorname{{arsinh}}\left({0}\right)",
)
arccosh = _unary(
    np.arccosh, "Inverse hyperbolic cosine.", lambda out, x: reciprocal(sqrt(x - 1.0) * sqrt(x + 1.0)),
    1.2, 3.0,
    latex=r"\operatorname{{arcosh}}\left({0}\right)",
)
arctanh = _unary(
    np.arctanh, "Inverse hyperbolic tangent.",
    lambda out, x: reciprocal(in_domain((1.0 - x) * (1.0 + x))), -0.8, 0.8,
    latex=r"\operatorname{{artanh}}\left({0}\right)",
)


def _angle_partial(numerator: Expr, y: Expr, x: Expr) -> Expr:
    """numerator / (x² + y²) without overflow or underflow; 0 at the origin."""
    r = hypot(y, x)
    return keep(not_equal(r, 0.0), divide(divide(numerator, r), r))


arctan2 = elementwise(
    "arctan2", ufunc=np.arctan2, doc="Angle of the point (x, y), given as (y, x).",
    partials=[lambda out, y, x: _angle_partial(x, y, x), lambda out, y, x: negative(_angle_partial(y, y, x))],
    c="atan2{f}({0}, {1})", latex=r"\operatorname{{atan2}}\left({0}, {1}\right)",
    samples=[Sample(((0.3, 3.0), (-3.0, 3.0))), Sample(((-3.0, -0.3), (-3.0, 3.0)))],
)


def _softmax_weight(x: Expr, y: Expr) -> Expr:
    """exp(x) / (exp(x) + exp(y)): one half at equal infinities, 0 where both are -inf."""
    if _above_bottom(x) or _above_bottom(y):
        # With a constant in it, as in log(1 + exp(x)), none of the special cases can arise.
        return expit(subtract(x, y))
    # Only equal infinities have no difference; equal finite values have one, and its slope counts.
    apart = logical_or(not_equal(x, y), isfinite(x))
    weight = expit(keep(apart, subtract(x, y)))
    return keep(not_equal(logaddexp(x, y), -math.inf), weight)


def _above_bottom(x: Expr) -> bool:
    value = x.value
    return value is not None and bool(np.isfinite(value).all())


logaddexp = elementwise(
    "logaddexp", ufunc=np.logaddexp, doc="log(exp(x) + exp(y)) without overflow.", commutative=True,
    partials=[lambda out, x, y: _softmax_weight(x, y), lambda out, x, y: _softmax_weight(y, x)],
    c="sg_logaddexp{f}({0}, {1})", latex=r"\operatorname{{logaddexp}}\left({0}, {1}\right)",
    samples=[Sample(((-3.0, 3.0), (-3.0, 3.0)))],
)
logaddexp2 = elementwise(
    "logaddexp2", ufunc=np.logaddexp2, doc="log2(2**x + 2**y) without overflow.", commutative=True,
    partials=[
        lambda out, x, y: _softmax_weight(x * LN2, y * LN2),
        lambda out, x, y: _softmax_weight(y * LN2, x * LN2),
    ],
    c="sg_logaddexp2{f}({0}, {1})", latex=r"\operatorname{{logaddexp2}}\left({0}, {1}\right)",
    samples=[Sample(((-3.0, 3.0), (-3.0, 3.0)))],
)
expit: Op = elementwise(
    "expit", special="expit", doc="Logistic function 1 / (1 + exp(-x)).",
    partials=[lambda out, x: multiply(out, expit(negative(x)))], c="sg_expit{f}({0})",
    latex=r"\sigma\left({0}\right)", samples=[Sample(((-4.0, 4.0),))],
)
log_expit = elementwise(
    "log_expit", special="log_expit", doc="Logarithm of the logistic function.",
    partials=[lambda out, x: expit(negative(x))], c="sg_log_expit{f}({0})",
    latex=r"\log\sigma\left({0}\right)", samples=[Sample(((-4.0, 4.0),))],
)
logit = elementwise(
    "logit", special="logit", doc="Inverse of the logistic function, log(p / (1 - p)).",
    partials=[lambda out, p: reciprocal(in_domain(p * (1.0 - p)))], c="sg_logit{f}({0})",
    latex=r"\operatorname{{logit}}\left({0}\right)", samples=[Sample(((0.1, 0.9),))],
)
TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
erf = elementwise(
    "erf", special="erf", doc="Error function.",
    partials=[lambda out, x: exp(negative(square(x))) * TWO_OVER_SQRT_PI], c="erf{f}({0})",
    latex=r"\operatorname{{erf}}\left({0}\right)", samples=[Sample(((-2.0, 2.0),))],
)
erfc = elementwise(
    "erfc", special="erfc", doc="Complementary error function 1 - erf(x), accurate in the tail.",
    partials=[lambda out, x: exp(negative(square(x))) * -TWO_OVER_SQRT_PI], c="erfc{f}({0})",
    latex=r"\operatorname{{erfc}}\left({0}\right)", samples=[Sample(((-2.0, 2.0),))],
)


def _bessel_partial(out: Expr, z: Expr, n: int) -> Expr:
    """j_n' = (n j_{n-1} - (n+1) j_{n+1}) / (2n + 1): no division by z (DLMF 10.51.2)."""
    above = spherical_jn(z, n=n + 1) * float(-(n + 1) / (2 * n + 1))
    return above if n == 0 else above + spherical_jn(z, n=n - 1) * float(n / (2 * n + 1))


def _c_bessel(args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any], out: Aval) -> str:
    return f"sg_spherical_jn{{f}}({params['n']}, {args[0]})"


spherical_jn: Op = elementwise(
    "spherical_jn", numpy="rt.spherical_jn({n}, {0})",
    doc="Spherical Bessel function of order n; order 0 is sin(z)/z, with value 1 at 0.",
    partials=[_bessel_partial], c=_c_bessel, latex=r"j_{{{n}}}\left({0}\right)", text="j{n}({0})",
    samples=[Sample(((-3.0, 3.0),), params={"n": 0}), Sample(((-3.0, 3.0),), params={"n": 1})],
)
