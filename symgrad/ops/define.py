"""Constructors of operation records, and the registry from NumPy's names to operations.

An operation is one record. How it is differentiated decides which constructor makes it:

``elementwise``
    partial derivatives, one an argument, give jvp and vjp.
``linear``
    linear in all differentiable arguments jointly: transposes give the vjp, the op itself the jvp.
``bilinear``
    linear in each argument separately.
``custom``
    a jvp in terms of other operations; the vjp is the transpose of that.
``nondiff``
    piecewise constant or without tangent space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ..core.aval import BOOL, FLOAT64, Aval, broadcast_shapes, make_aval, promote, require_supported
from ..core.expr import CONST, Expr, InternTable
from ..core.lazy import lazy_import
from ..core.op import Lowering, Op, Sample, register
from ..errors import DtypeError, TraceError

Rule = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

_special = lazy_import("scipy.special")
_SCIPY_NAMES: dict[Op, str] = {}

UFUNCS: dict[str, Callable[..., Any]] = {}
"""What a NumPy or SciPy ufunc of that name becomes; called with expressions, numbers and arrays."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""What a NumPy function becomes, by the function object or its dotted name."""

METHODS: dict[str, Callable[..., Any]] = {}
"""What an ndarray method or attribute of that name becomes."""

REDUCTIONS: dict[str, Callable[..., Any]] = {}
"""What ``ufunc.reduce`` of that name becomes."""

ACCUMULATIONS: dict[str, Callable[..., Any]] = {}
"""What ``ufunc.accumulate`` of that name becomes."""


def implements(*names: Any, method: str = "") -> Callable[[F], F]:
    """Say that the decorated function of expressions is what NumPy means by these functions."""

    def enter(function: F) -> F:
        for name in names:
            FUNCTIONS[name] = function
        if method:
            METHODS[method] = function
        return function

    return enter


# ------------------------------------------------------------------------------------------ lifting


def find_table(values: Any) -> InternTable | None:
    """The intern table of the first expression in nested tuples, lists and dicts."""
    stack = [values]
    while stack:
        value = stack.pop()
        if isinstance(value, Expr):
            return value.table
        if isinstance(value, (tuple, list)):
            stack.extend(reversed(value))
        elif isinstance(value, dict):
            stack.extend(value.values())
    return None


def lift(value: Any, table: InternTable) -> Expr:
    """Turn a number or array into an expression.

    Numbers and rank-0 values become constants, arrays are captured by reference. Nested lists that hold
    expressions are stacked.

    Raises
    ------
    DtypeError
        For anything that is no number.
    """
    if type(value) is float:
        return table.constant(value)
    if isinstance(value, Expr):
        if value.table is not table:
            raise TraceError(
                "a value from another trace was used.\n"
                "  Do not keep traced values in globals, attributes or caches between calls; return them "
                "from the function instead."
            )
        return value
    if isinstance(value, (bool, float, np.generic)):
        return table.constant(value)
    if isinstance(value, int):
        # An integer beyond 64 bits can only meet floats (or fail there).
        return table.constant(value) if value.bit_length() < 64 else table.constant(float(value))
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return table.capture(value) if value.ndim else table.constant(value)
    if isinstance(value, range):
        return table.constant(np.asarray(value))
    if isinstance(value, (list, tuple)):
        if find_table(value) is None:
            return table.constant(np.asarray(value))
        return FUNCTIONS[np.stack]([lift(v, table) for v in value])
    if hasattr(value, "__array__"):
        return lift(np.asarray(value), table)
    raise DtypeError(f"{type(value).__name__} cannot take part in a traced computation")


def as_exprs(*values: Any) -> list[Expr]:
    """Lift values into the table that any of them belongs to."""
    first = values[0]
    table = first.table if type(first) is Expr else find_table(values)
    if table is None:
        raise TraceError("none of the operands is traced")
    return [v if type(v) is Expr and v.table is table else lift(v, table) for v in values]


class IntegerOverflow(DtypeError, OverflowError):
    """A Python integer does not fit the dtype of the array it meets."""


def cast(x: Expr, dtype: Any) -> Expr:
    """Convert to a strong dtype; a constant is converted at once.

    Raises
    ------
    DtypeError
        If the dtype is not supported, or a Python integer does not fit.
    """
    wanted = np.dtype(dtype)
    if x.dtype == wanted and not x.aval.weak:
        return x
    require_supported(wanted)
    value = x.value
    if value is None:
        return FUNCTIONS["astype"](x, wanted)
    if x.aval.weak and wanted.kind in "iu" and not np.iinfo(wanted).min <= value <= np.iinfo(wanted).max:
        raise IntegerOverflow(f"Python integer {int(value)} out of bounds for {wanted}")
    return x.table.constant(value, wanted)


def strengthen(x: Expr) -> Expr:
    """Drop weakness, as NumPy's functions (other than Python's operators) do."""
    if not x.aval.weak:
        return x
    return x.table.strong(x) if x.op is CONST else cast(x, x.dtype)


def promoted(operands: Sequence[Expr], floating: bool = False) -> list[Expr]:
    """Cast operands to their common dtype; ``floating`` makes integers float64."""
    dtype, weak = promote(*[x.aval for x in operands])
    if floating and dtype.kind != "f":
        return [cast(x, FLOAT64) for x in operands]
    if weak:
        return [_weak_cast(x, dtype) for x in operands]
    return [cast(x, dtype) for x in operands]


@lru_cache(maxsize=4096)
def resolve(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """Dtypes in which NumPy runs a ufunc; ``kinds`` holds dtypes, and int or float for Python numbers."""
    try:
        resolved = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    except TypeError as error:
        listed = ", ".join(k.__name__ if isinstance(k, type) else str(k) for k in kinds)
        raise DtypeError(f"np.{ufunc.__name__} is not defined for {listed}") from error
    return tuple(resolved)


_PYTHON = {"f": float, "i": int}


def resolve_for(ufunc: np.ufunc, operands: Sequence[Expr]) -> tuple[np.dtype[Any], ...]:
    """Dtypes in which NumPy runs a ufunc on these operands (NEP 50)."""
    all_weak = all(x.aval.weak for x in operands)
    kinds = tuple([_PYTHON[x.dtype.kind] if x.aval.weak and not all_weak else x.dtype for x in operands])
    return resolve(ufunc, kinds)


def apply_ufunc(
    op: Op, ufunc: np.ufunc | None, operands: Sequence[Expr], weak_ok: bool = False, doubles: bool = True
) -> Expr:
    """Cast operands as NumPy's ufunc would and apply the op.

    ``weak_ok`` is for Python's operators, which keep Python numbers weak; ``doubles`` says that the ufunc is defined
    for float64.
    """
    first = operands[0]
    # The common case by far: everything is float64.
    weak = 0
    for x in operands:
        if x.aval.dtype is not FLOAT64 or not doubles:
            break
        weak += x.aval.weak
    else:
        if weak and not (weak_ok and weak == len(operands)):
            operands = [strengthen(x) if x.aval.weak else x for x in operands]
        return first.table.remake(op, tuple(operands), ())
    if ufunc is None and all([x.dtype.kind == "f" for x in operands]):
        return first.table.make(op, promoted([strengthen(x) for x in operands], floating=True))
    if ufunc is None:
        # What SciPy makes of integers and bools has changed between its versions.
        ufunc = getattr(_special, _SCIPY_NAMES[op])
    if weak_ok and all([x.aval.weak for x in operands]):
        dtypes = resolve_for(ufunc, operands)
        return first.table.make(op, [_weak_cast(x, d) for x, d in zip(operands, dtypes, strict=False)])
    dtypes = resolve_for(ufunc, operands)
    return first.table.make(op, [cast(x, d) for x, d in zip(operands, dtypes, strict=False)])


def _without_huge(ufunc: np.ufunc | None, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands with Python integers beyond 64 bits as what NumPy computes with.

    Raises
    ------
    DtypeError
        If that is an integer.
    """
    table = find_table(operands)
    huge = [type(v) is int and v.bit_length() > 63 for v in operands]
    others = [lift(v, table) for v, h in zip(operands, huge, strict=True) if not h and table is not None]
    if ufunc is None or table is None or any([x.dtype.kind == "f" for x in others]):
        return operands
    filled = iter(others)
    kinds = tuple([int if h else next(filled).dtype for h in huge])
    dtypes = resolve(ufunc, kinds)
    return tuple([_fitting(v, d, dtypes[-1]) if h else v for v, h, d in zip(operands, huge, dtypes, strict=False)])


def _fitting(value: int, dtype: np.dtype[Any], result: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return float(value)
    if dtype == np.uint64 and 0 <= value < 2**64:
        return np.uint64(value)
    if result == BOOL:
        return np.inf if value > 0 else -np.inf  # in a comparison it only matters on which side it is
    raise IntegerOverflow(f"Python integer {value} out of bounds for {dtype}")


def _weak_cast(x: Expr, dtype: np.dtype[Any]) -> Expr:
    if x.dtype == dtype:
        return x
    if x.value is not None:
        return x.table.constant(x.value, dtype, True)
    return FUNCTIONS["python_number"](cast(x, dtype))


# ------------------------------------------------------------------------------------------ type rules


def same_dtype(avals: tuple[Aval, ...], **_: Any) -> Aval:
    """Broadcast shapes, dtype of the operands."""
    first = avals[0]
    if len(avals) == 1 or all([a is first for a in avals]):
        return first
    dtype, weak = promote(*avals)
    return make_aval(broadcast_shapes(*[a.shape for a in avals]), dtype, weak)


def bool_dtype(avals: tuple[Aval, ...], **_: Any) -> Aval:
    """Broadcast shapes, dtype bool."""
    return make_aval(broadcast_shapes(*[a.shape for a in avals]), BOOL)


def _last_dtype(avals: tuple[Aval, ...], **_: Any) -> Aval:
    """Broadcast shapes, dtype of the last operand: a condition comes first."""
    dtype, weak = promote(*avals[1:])
    shape = broadcast_shapes(*[a.shape for a in avals])
    return make_aval(shape, dtype, weak and not shape)


INFER: dict[str, Rule] = {"same": same_dtype, "bool": bool_dtype, "select": _last_dtype}


# ------------------------------------------------------------------------------------------ constructors


def elementwise(
    name: str,
    *,
    doc: str,
    partials: Sequence[Rule | None],
    c: str | Rule,
    samples: Sequence[Sample],
    ufunc: np.ufunc | None = None,
    special: str = "",
    numpy: str | Rule = "",
    result: str = "same",
    commutative: bool = False,
    text: str = "",
    latex: str = "",
    sympy: str = "",
    precedence: int = 100,
    kind: str = "elementwise",
    factor: Rule | None = None,
) -> Op:
    """Define an operation that acts on each element by itself, given its partial derivatives.

    Parameters
    ----------
    name
        Unique name.
    doc
        One sentence.
    partials
        One function an argument, ``(out, *args, **params)``, giving the partial derivative as an expression
        or a number; None where there is none.
    factor
        What all partial derivatives are multiplied by besides: written apart so that it is applied once.
    c
        C source of one element over ``{0}``, ``{1}``, …; every operand is an atom there, so it may be
        repeated.
    samples
        Where it is smooth.
    ufunc
        The NumPy ufunc that it is; its name is dispatched here.
    special
        Name of the SciPy ufunc in :mod:`scipy.special` that it is.
    numpy
        NumPy source, where it is not the call of ``ufunc`` or ``special``.
    result
        Type rule: ``"same"``, ``"bool"`` or ``"select"``.
    text, latex, sympy
        One element in formulas; ``text`` and ``latex`` over ``{0}``, ``{1}``, …, ``sympy`` over ``x``, ``y``, ``z``.
    """
    takes_out = bool(ufunc is not None and not numpy)
    if not numpy:
        prefix = f"np.{ufunc.__name__}" if ufunc is not None else f"sc.{special}"
        numpy = f"{prefix}({', '.join(f'{{{k}}}' for k in range(len(partials)))})"
    op = register(
        Op(
            name=name, kind=kind, doc=doc, infer=INFER[result], numpy=numpy, out=takes_out,  # type: ignore[arg-type]  # one of the two
            c=c, partials=tuple(partials), factor=factor, commutative=commutative, lowering="elementwise",
            text=text, latex=latex, sympy=sympy, precedence=precedence, samples=tuple(samples),
            uniform=result == "same",
        )
    )
    if ufunc is not None:
        dispatch_ufunc(ufunc.__name__, op, ufunc)
    elif special:
        dispatch_ufunc(special, op, None)
    return op


def dispatch_ufunc(name: str, op: Op, ufunc: np.ufunc | None) -> None:
    """Say that the NumPy or SciPy ufunc of that name is this op."""

    if ufunc is None:
        _SCIPY_NAMES[op] = name
    doubles = ufunc is None or any(signature.startswith("d" * ufunc.nin + "->") for signature in ufunc.types)

    def call(*operands: Any, weak_ok: bool = False) -> Expr:
        for v in operands:
            if type(v) is int and v.bit_length() > 63:
                operands = _without_huge(ufunc, operands)
        return apply_ufunc(op, ufunc, as_exprs(*operands), weak_ok, doubles)

    UFUNCS[name] = call


def nondiff(
    name: str, *, doc: str, c: str | Rule, samples: Sequence[Sample], nargs: int = 1, result: str = "same",
    ufunc: np.ufunc | None = None, numpy: str | Rule = "", commutative: bool = False, text: str = "",
    latex: str = "", precedence: int = 100,
) -> Op:
    """Define an elementwise operation whose derivative is zero or does not exist: comparisons, rounding."""
    return elementwise(
        name, doc=doc, partials=[None] * nargs, c=c, samples=samples, ufunc=ufunc, numpy=numpy, result=result,
        commutative=commutative, text=text, latex=latex, precedence=precedence, kind="nondiff",
    )


def linear(
    name: str, *, doc: str, infer: Rule, numpy: str | Rule, transposes: Sequence[Rule | None],
    samples: Sequence[Sample], lowering: Lowering = "library", c: str | Rule = "", text: str = "",
    latex: str = "", variadic: bool = False, precedence: int = 100, out: bool = False,
) -> Op:
    """Define an operation that is linear in all its differentiable arguments jointly.

    ``transposes`` has one function an argument, ``(ct, out, *args, **params)``, None for arguments that carry
    no tangent (conditions, indices). A variadic operation has one function for all of them,
    ``(ct, out, args, which, **params)``, that gives one expression for each position in ``which``.
    """
    return register(
        Op(
            name=name, kind="linear", doc=doc, infer=infer, numpy=numpy, transposes=tuple(transposes),
            samples=tuple(samples), lowering=lowering, c=c, text=text, latex=latex, variadic=variadic,
            precedence=precedence, out=out,
        )
    )


def bilinear(
    name: str, *, doc: str, infer: Rule, numpy: str | Rule, transposes: Sequence[Rule],
    samples: Sequence[Sample], lowering: Lowering = "library", c: str | Rule = "", text: str = "",
    latex: str = "", precedence: int = 100, out: bool = False,
) -> Op:
    """Define an operation that is linear in each of its two arguments."""
    return register(
        Op(
            name=name, kind="bilinear", doc=doc, infer=infer, numpy=numpy, transposes=tuple(transposes),
            samples=tuple(samples), lowering=lowering, c=c, text=text, latex=latex, precedence=precedence,
            out=out,
        )
    )


def custom(
    name: str, *, doc: str, infer: Rule, numpy: str | Rule, jvp: Rule, samples: Sequence[Sample],
    transposes: Sequence[Rule | None] = (), lowering: Lowering = "library", c: str | Rule = "",
    text: str = "",
    latex: str = "", precedence: int = 100,
) -> Op:
    """Define an operation by its jvp, ``(tangents, out, *args, **params)``, in terms of other operations.

    A tangent is None where it is structurally zero. ``transposes`` are needed for the arguments in which the
    operation is linear, if its own jvp uses it on their tangents.
    """
    return register(
        Op(
            name=name, kind="custom", doc=doc, infer=infer, numpy=numpy, jvp=jvp,
            transposes=tuple(transposes),
            samples=tuple(samples), lowering=lowering, c=c, text=text, latex=latex, precedence=precedence,
        )
    )


def constant_like(x: Expr, value: float) -> Expr:
    """A constant of the dtype of ``x``."""
    return x.table.constant(value, x.dtype)
