"""Graphs as SymPy expressions: scalars, and small arrays element by element."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..core.expr import CAPTURE, CONST, Expr
from ..core.graph import Graph
from ..core.lazy import lazy_import
from ..core.op import Op
from ..errors import UnsupportedOperationError, with_location
from ..ops import arithmetic as ar
from ..ops import comparison as co
from ..ops import selection as se
from ..ops import transcendental as tr
from ..ops.casting import astype
from ..ops.contraction import matmul
from ..ops.control import stop_gradient
from ..ops.evaluate import evaluate
from ..ops.indexing import gather, scatter_add
from ..ops.linalg import det, inv, logabsdet, solve
from ..ops.masking import keep
from ..ops.reduction import all_, any_, cumprod, cumsum, linear_scan, max_, min_, prod, sum_
from ..ops.shaping import broadcast_to, concatenate, put_slice, reshape, take_slice, transpose
from .numerals import closed_form
from .writing import SILENT

sp: Any = lazy_import("sympy")

LIMIT = 1000
"""Elements that an array may have: SymPy writes out every one of them."""

Array = np.ndarray[Any, Any]


_TRUNC = "sign({0})*floor(Abs({0}))"

ELEMENTWISE: dict[Op, str] = {
    ar.add: "x + y", ar.subtract: "x - y", ar.multiply: "x*y", ar.divide: "x/y", ar.negative: "-x",
    ar.reciprocal: "1/x", ar.square: "x**2", ar.sqrt: "sqrt(x)", ar.root: "sqrt(x)", ar.absolute: "Abs(x)",
    ar.sign: "sign(x)", ar.power: "x**y", ar.hypot: "sqrt(x**2 + y**2)", ar.floor_divide: "floor(x/y)",
    ar.remainder: "Mod(x, y)", ar.fmod: "x - y*" + _TRUNC.format("x/y"), ar.signbit: "Lt(x, 0)",
    ar.copysign: "Piecewise((Abs(x), Ge(y, 0)), (-Abs(x), True))",
    tr.exp: "exp(x)", tr.exp2: "2**x", tr.expm1: "exp(x) - 1", tr.log: "log(x)", tr.log2: "log(x)/log(2)",
    tr.log10: "log(x)/log(10)", tr.log1p: "log(1 + x)", tr.sin: "sin(x)", tr.cos: "cos(x)", tr.tan: "tan(x)",
    tr.arcsin: "asin(x)", tr.arccos: "acos(x)", tr.arctan: "atan(x)", tr.sinh: "sinh(x)", tr.cosh: "cosh(x)",
    tr.tanh: "tanh(x)", tr.sech2: "sech(x)**2", tr.arcsinh: "asinh(x)", tr.arccosh: "acosh(x)",
    tr.arctanh: "atanh(x)", tr.arctan2: "atan2(x, y)", tr.logaddexp: "log(exp(x) + exp(y))",
    tr.logaddexp2: "log(2**x + 2**y)/log(2)", tr.expit: "1/(1 + exp(-x))", tr.log_expit: "-log(1 + exp(-x))",
    tr.logit: "log(x/(1 - x))", tr.erf: "erf(x)", tr.erfc: "erfc(x)",
    tr.spherical_jn: "sinc(x) if n == 0 else jn(n, x)",
    keep: "Piecewise((y, x), (0, True))", se.where: "Piecewise((y, x), (z, True))", se.maximum: "Max(x, y)",
    se.minimum: "Min(x, y)", se.fmax: "Max(x, y)", se.fmin: "Min(x, y)", se.clip: "Min(Max(x, y), z)",
    se.floor: "floor(x)", se.ceil: "ceiling(x)", se.trunc: _TRUNC.format("x"),
    se.heaviside: "Heaviside(x, y)",
    # Halfway between two whole numbers the even one is nearest.
    se.rint: "Piecewise((floor(x), frac(x) < S(1)/2), (floor(x) + 1, frac(x) > S(1)/2), "
             "(2*floor((floor(x) + 1)/2), True))",
    stop_gradient: "x",
    co.less: "Lt(x, y)", co.less_equal: "Le(x, y)", co.greater: "Gt(x, y)", co.greater_equal: "Ge(x, y)",
    co.equal: "Eq(x, y)", co.not_equal: "Ne(x, y)", co.logical_and: "And(truth(x), truth(y))",
    co.logical_or: "Or(truth(x), truth(y))", co.logical_xor: "Xor(truth(x), truth(y))",
    co.logical_not: "Not(truth(x))",
    # Symbols stand for numbers: there is no NaN among them.
    co.isnan: "false", co.isfinite: "true", co.isinf: "false",
}
"""What an operation is on single SymPy expressions x, y, z, unless its own record says."""


def _truth(x: Any) -> Any:
    return x if isinstance(x, (sp.logic.boolalg.Boolean, bool)) else sp.Ne(x, 0)


@cache
def _elementwise(op: Op, params: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    arguments = ", ".join("xyz"[: max(len(op.partials), len(op.transposes))])
    code = compile(f"lambda {arguments}: {ELEMENTWISE.get(op) or op.sympy}", "<symgrad sympy>", "eval")
    names = {**vars(importlib.import_module("sympy")), "truth": _truth, **dict(params)}
    made: Callable[..., Any] = eval(code, names)
    return made


ALONG_AXES: dict[Op, str] = {max_: "Max", min_: "Min", any_: "Or", all_: "And"}
ON_OBJECTS: frozenset[Op] = frozenset({
    reshape, transpose, broadcast_to, take_slice, put_slice, concatenate, sum_, prod, cumsum, cumprod, matmul,
    linear_scan,
})
"""Operations whose NumPy code works on arrays of SymPy expressions as it is."""

MATRICES: dict[Op, Callable[..., Any]] = {
    det: lambda a: a.det(), inv: lambda a: a.inv(), solve: lambda a, b: a.LUsolve(b),
    logabsdet: lambda a: sp.log(sp.Abs(a.det())),
}


def to_sympy(graph: Graph, names: Sequence[str]) -> list[Any]:
    """SymPy expressions of the outputs; vectors and matrices become SymPy matrices.

    Parameters
    ----------
    graph
        What to convert.
    names
        Names of the inputs.

    Raises
    ------
    UnsupportedOperationError
        For an operation without counterpart in SymPy, or an array that is too large.
    """
    values: dict[int, Array] = {}
    for node, name in zip(graph.inputs, names, strict=True):
        _check_size(node, f"the argument {name}")
        values[node.id] = _symbols(name, node.shape)
    try:
        for node in graph.nodes:
            if node.id not in values:
                values[node.id] = boxed(_value(node, [values[a.id] for a in node.args]))
        return [_finished(values[out.id]) for out in graph.outputs]
    except RecursionError as error:
        raise UnsupportedOperationError(
            "this formula nests too deeply for SymPy, which walks expressions recursively.\n"
            "  Use str(formula), .latex or .numpy() instead."
        ) from error


def _check_size(node: Expr, what: str) -> None:
    if node.aval.size > LIMIT:
        raise UnsupportedOperationError(
            f"SymPy writes out every element, and {what} has {node.aval.size} of them (at most {LIMIT}).\n"
            "  Make the formula of a smaller case, or use str(formula) and .latex, which keep arrays whole."
        )


def _symbols(name: str, shape: tuple[int, ...]) -> Array:
    result = np.empty(shape, dtype=object)
    for where in np.ndindex(shape):
        result[where] = sp.Symbol("_".join([name, *map(str, where)]))
    return result


def boxed(value: Any) -> Array:
    """An object array of what may be a single expression."""
    if isinstance(value, np.ndarray):
        return value
    result = np.empty((), dtype=object)
    result[()] = value
    return result


def number(value: Any) -> Any:
    """The SymPy number of a constant: exact where it is short, otherwise with the bits of the double."""
    if isinstance(value, (bool, np.bool_)):
        return sp.true if value else sp.false
    if isinstance(value, (int, np.integer)):
        return sp.Integer(int(value))
    plain = float(value)
    if not np.isfinite(plain):
        return sp.nan if np.isnan(plain) else sp.oo if plain > 0 else -sp.oo
    if plain.is_integer() and abs(plain) < 1e15:
        return sp.Integer(int(plain))
    if (plain * 1024).is_integer():
        return sp.Rational(int(plain * 1024), 1024)
    closed = closed_form(abs(plain)) if isinstance(value, np.float64) else None
    if closed is None:
        return sp.Float(plain)
    function, *inner = closed.base.split() or ["1"]
    inside = sp.prod([sp.pi if word == "pi" else sp.Integer(word) for word in inner])
    base = {"1": sp.Integer(1), "pi": sp.pi}.get(function)
    base = getattr(sp, function)(inside) if base is None else base
    result = sp.Rational(closed.p, closed.q) * (1 / base if closed.below else base)
    return -result if plain < 0 else result


def _value(node: Expr, args: list[Array]) -> Any:
    op, params = node.op, dict(node.params)
    _check_size(node, f"{op.name} has a result that")
    if op in (CONST, CAPTURE):
        array = np.asarray(node.params[0][1].array)
        result = np.empty(array.shape, dtype=object)
        for where in np.ndindex(array.shape):
            result[where] = number(array[where])
        return result
    if op in ELEMENTWISE or op.sympy:
        return np.frompyfunc(_elementwise(op, node.params), len(args), 1)(*args)
    if op is astype:
        return np.frompyfunc(_conversion(node), 1, 1)(*args)
    if op.text == SILENT:
        return args[0]
    if op in ALONG_AXES:
        return _along(getattr(sp, ALONG_AXES[op]), args[0], params["axis"])
    if op in (gather, scatter_add) and all(a.value is not None for a in node.args[1:]):
        positions = [a.value for a in node.args[1:]]
        return evaluate(op, [args[0], *positions], [a.aval for a in node.args], params)
    if op in ON_OBJECTS:
        return evaluate(op, args, [a.aval for a in node.args], params)
    if op in MATRICES and all(a.ndim == 2 for a in args):
        return _plain(MATRICES[op](*[sp.Matrix(*a.shape, list(a.ravel())) for a in args]))
    line = str(node.origin) if node.origin else ""
    advice = "Use str(formula), .latex or .numpy(), which can write every operation."
    raise UnsupportedOperationError(with_location(f"{op.name} has no counterpart in SymPy.", line, advice))


def _conversion(node: Expr) -> Callable[[Any], Any]:
    source, target = node.args[0].dtype.kind, node.dtype.kind
    if target == "b":
        return _truth
    if source == "b":
        return lambda x: sp.Piecewise((1, x), (0, True))
    return _elementwise(se.trunc, ()) if source == "f" and target in "iu" else lambda x: x


def _along(function: Callable[..., Any], x: Array, axes: tuple[int, ...]) -> Array:
    kept = [k for k in range(x.ndim) if k not in axes]
    lines = np.transpose(x, (*kept, *axes)).reshape((*[x.shape[k] for k in kept], -1))
    result = np.empty(lines.shape[:-1], dtype=object)
    for where in np.ndindex(result.shape):
        result[where] = function(*lines[where])
    return result


def _plain(value: Any) -> Any:
    if not hasattr(value, "tolist"):
        return value
    result = np.empty(value.shape, dtype=object)
    for where in np.ndindex(value.shape):
        result[where] = value[where]
    return result


def _finished(value: Array) -> Any:
    if not value.ndim:
        return sp.sympify(value[()])
    if value.ndim <= 2:
        rows, columns = (*value.shape, 1)[:2]
        return sp.ImmutableMatrix(rows, columns, list(value.ravel()))
    return sp.ImmutableDenseNDimArray(list(value.ravel()), value.shape)
