"""The record of one operation: everything symgrad knows about it, in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .aval import Aval

if TYPE_CHECKING:
    from .expr import Expr

Kind = Literal["elementwise", "linear", "bilinear", "custom", "nondiff", "leaf"]
Lowering = Literal["elementwise", "reduce", "view", "library"]


@dataclass(frozen=True)
class Sample:
    """One way to call an op in the table test: argument samplers and static parameters.

    Attributes
    ----------
    args
        One entry an argument: ``(low, high)`` for floats, ``(low, high, "int")`` for integers, ``"bool"``,
        or a callable ``rng -> array``.
    shapes
        Shapes of the arguments; None lets the test choose scalar, vector, matrix and broadcast shapes.
    params
        Static parameters, by name.
    tangents
        How to project a random tangent of each argument onto the tangent space (for example symmetrise); None
        leaves it free.
    """

    args: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...] | None = None
    params: dict[str, Any] = field(default_factory=dict)
    tangents: tuple[Callable[[Any], Any] | None, ...] | None = None


@dataclass(frozen=True, eq=False)
class Op:
    """One primitive operation.

    Attributes
    ----------
    name
        Unique name; also its name in printed graphs.
    kind
        Which constructor of :mod:`symgrad.ops.define` made it: how it is differentiated.
    doc
        One sentence on what it computes.
    infer
        Type rule: ``infer(avals, **params) -> Aval``.
    numpy
        NumPy source of one call: a format string over ``{0} {1} …`` and parameter names, or a callable
        ``(arg_sources, avals, params) -> str``. Names available there: ``np``, ``sc`` (scipy.special),
        ``sl`` (scipy.linalg), ``rt`` (:mod:`symgrad.ops.runtime`).
    out
        True where the NumPy call takes ``out=``.
    c
        C source of one element: a format string over ``{0} {1} …`` and ``{f}`` (the suffix of math functions:
        empty for double, ``f`` for float), or a callable ``(arg_sources, avals, params, out_aval) -> str``.
    partials
        Elementwise: one function an argument, ``(out, *args, **params) -> Expr | None``.
    factor
        Elementwise: what all partial derivatives are multiplied by, ``(out, *args, **params) -> Expr``; written
        apart so that it is applied once.
    transposes
        Linear, bilinear, and arguments in which a custom op is linear: one function an argument,
        ``(ct, out, *args, **params) -> Expr``; None for arguments without one.
    jvp
        Custom: ``(tangents, out, *args, **params) -> Expr | None`` where a tangent is None if structurally
        zero.
    commutative
        Two arguments may be exchanged bit for bit.
    lowering
        How it becomes loops: an element expression, a reduction, a change of strides, or a call.
    text, latex
        Format strings over ``{0} {1} …`` for formulas; empty means ``name(…)``.
    sympy
        SymPy expression of one element over ``x``, ``y`` and ``z``, where :mod:`symgrad.formula` has none.
    precedence
        Binding strength of ``text``: 100 for a call or an atom, less for operators.
    samples
        Where the op is smooth and how the table test calls it.
    variadic
        It takes any number of operands, all treated alike.
    uniform
        Operands of one type give a result of that type; ``infer`` need not be asked then.
    """

    name: str
    kind: Kind
    doc: str
    infer: Callable[..., Aval]
    numpy: str | Callable[..., str] = ""
    out: bool = False
    c: str | Callable[..., str] = ""
    partials: tuple[Callable[..., Any] | None, ...] = ()
    factor: Callable[..., Any] | None = None
    transposes: tuple[Callable[..., Any] | None, ...] = ()
    jvp: Callable[..., Any] | None = None
    commutative: bool = False
    lowering: Lowering = "library"
    text: str = ""
    latex: str = ""
    sympy: str = ""
    precedence: int = 100
    samples: tuple[Sample, ...] = ()
    variadic: bool = False
    uniform: bool = False

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return lookup, (self.name,)

    def __call__(self, *args: Any, **params: Any) -> Expr:
        """Apply to expressions of one intern table.

        Python numbers take the dtype of the last operand that is an expression; nothing else is promoted.
        """
        known = [a for a in args if hasattr(a, "table")]
        like = known[-1]
        table = like.table
        if len(known) < len(args):
            args = tuple([a if hasattr(a, "table") else table.constant(a, like.aval.dtype) for a in args])
        made: Expr = table.remake(self, args, tuple(sorted(params.items())) if params else ())
        return made

    def source(self, args: Sequence[str], avals: Sequence[Aval], params: dict[str, Any]) -> str:
        """NumPy source of one call on the named arguments."""
        if callable(self.numpy):
            return self.numpy(args, avals, params)
        return self.numpy.format(*args, **{k: literal(v) for k, v in params.items()})


def literal(value: Any) -> str:
    """Python source of a static parameter; ``inf`` and ``nan`` are written out so that they evaluate."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)


OPS: dict[str, Op] = {}
"""The table of operations, by name; filled by the families in :mod:`symgrad.ops`."""


def register(op: Op) -> Op:
    """Enter an op into the table."""
    if op.name in OPS:
        raise ValueError(f"an op named {op.name} exists already")
    if not op.doc:
        raise ValueError(f"op {op.name} has no doc")
    if op.kind != "leaf" and not op.samples:
        raise ValueError(f"op {op.name} has no samples: say where it is smooth")
    OPS[op.name] = op
    return op


def lookup(name: str) -> Op:
    """The op of that name."""
    return OPS[name]
