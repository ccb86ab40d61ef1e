"""Derivatives of functions, as functions on traced values: what the compiled transforms run while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import FLOAT64
from ..core.expr import Expr, InternTable
from ..core.graph import Graph, substitute
from ..core.pytree import flatten, leaf_names, unflatten
from ..errors import DtypeError, ShapeError, TraceError
from ..ops.casting import python_number
from ..ops.define import cast
from ..ops.shaping import broadcast_to
from ..tracing.namespace import bound
from ..tracing.naming import label_variables
from ..tracing.trace import active_table, active_trace, outputs_of, to_expr
from ..tracing.tracer import ArrayTracer, wrap
from ..transforms.forward import pushforward
from ..transforms.gradient import gradient
from ..transforms.simplify import simplify_outputs

Function = Callable[..., Any]


def active() -> InternTable:
    """The table of the trace in progress."""
    table = active_table()
    if table is None:
        raise TraceError("derivatives of functions are taken while a function is traced")
    return table


def zeros(like: Expr) -> Expr:
    """A constant zero of the type of an expression, for results that nothing reaches."""
    zero = like.table.constant(np.zeros((), like.dtype), like.dtype, like.aval.weak)
    return broadcast_to(zero, shape=like.shape) if like.shape else zero


class Placeholders:
    """Fresh inputs in the place of arguments, so that a derivative sees only its own variables.

    An argument may be a value that the function also reaches some other way (a closure); that way is held
    constant. Expressions over placeholders are turned back by :meth:`resolve`. Inputs of the whole trace that
    the function cannot have seen before stand for themselves.
    """

    def __init__(self, values: Sequence[Expr]) -> None:
        trace = active_trace()
        ids = {v.id for v in values}
        if trace is not None and len(ids) == len(values) and ids <= trace.unseen:
            self.inputs, self._back = list(values), {}
        else:
            table = values[0].table
            self.inputs = [table.input(v.aval, table.labels.get(v.id, "")) for v in values]
            self._back = {p.id: v for p, v in zip(self.inputs, values, strict=True)}
        if trace is not None:
            trace.unseen = frozenset()
            # Decisions on a placeholder are decisions on the value it stands for.
            trace.alias.update(self._back)

    @property
    def arrays(self) -> Sequence[Expr]:
        """What the function is given in place of its arguments."""
        return self.inputs

    def tracers(self, originals: Sequence[Any]) -> list[Any]:
        """A tracer for each of the first arguments; remembers which array each stands for."""
        self._pairs = [
            (ArrayTracer(p) if isinstance(o, ArrayTracer) else wrap(p), o)
            for p, o in zip(self.arrays, originals, strict=False)
        ]
        return [t for t, _ in self._pairs]

    def run(self, function: Function, flat: Sequence[tuple[Sequence[Any], Any]]) -> tuple[list[Expr], Any]:
        """Call a function of flattened arguments; its simplified outputs, and how they are nested."""
        inner = iter(self.tracers([leaf for leaves, _ in flat for leaf in leaves]))
        replaced = [unflatten(structure, [next(inner) for _ in leaves]) for leaves, structure in flat]
        result = bound(function)(*replaced)
        self.write_through()
        outputs, structure = outputs_of(result, active(), name_of(function))
        return simplified(outputs), structure

    def write_through(self) -> None:
        """Arguments that the function wrote to are written to outside as well, as NumPy would have."""
        for tracer, original in self._pairs:
            if isinstance(tracer, ArrayTracer) and tracer.was_written and isinstance(original, ArrayTracer):
                original.overwrite(wrap(self.resolve([tracer.expr])[0]))

    def resolve(self, outputs: Sequence[Expr]) -> list[Expr]:
        """The same expressions over the original values, simplified."""
        simple = simplify_outputs(outputs)
        return substitute(simple, self._back) if self._back else simple


def differentiable(leaf: Expr, name: str, function: str, allow_int: bool = False) -> Expr:
    """A leaf as something with a tangent space: Python integers become float64.

    Raises
    ------
    DtypeError
        For integer and bool arrays.
    """
    if leaf.aval.is_float:
        return leaf
    if leaf.aval.weak:
        return cast(leaf, FLOAT64)
    if allow_int:
        return leaf
    raise DtypeError(
        f"argument {name} of {function} has dtype {leaf.dtype}, which has no derivative\n"
        f"  Convert it with {name.split('[', maxsplit=1)[0]}.astype(float), differentiate another argument "
        "with argnums=…, or pass allow_int=True to get zeros."
    )


def split_argnums(argnums: int | Sequence[int], count: int, function: str) -> tuple[int, ...]:
    """Argument numbers as a tuple of non-negative ones.

    Raises
    ------
    ValueError
        If the function was called with fewer arguments.
    """
    listed = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not -count <= k < count for k in listed):
        arguments = "argument" if count == 1 else "arguments"
        raise ValueError(f"argnums={argnums} but {function} was called with {count} positional {arguments}")
    return tuple(k % count for k in listed)


def simplified(outputs: Sequence[Expr]) -> list[Expr]:
    """Name the user's variables and simplify before a derivative is taken: what cancels has no slope."""
    if not outputs:
        return []
    label_variables(Graph((), outputs))
    return simplify_outputs(outputs)


def name_of(function: Function) -> str:
    """How a function is called in messages."""
    return getattr(function, "__name__", type(function).__name__)


def value_and_grad_of(
    function: Function,
    argnums: int | Sequence[int],
    has_aux: bool,
    names: Callable[[int], list[str]],
    allow_int: bool = False,
) -> Function:
    """The function that returns value and gradient, to be run while tracing.

    It returns ``((value, aux), gradients)`` with ``has_aux``, ``(value, gradients)`` otherwise.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        table = active()
        chosen = split_argnums(argnums, len(args), name_of(function))
        parameters = names(len(args))
        flat = [flatten(args[k]) for k in chosen]
        given: list[Expr] = []
        originals = [leaf for leaves, _ in flat for leaf in leaves]
        for (leaves, _), k in zip(flat, chosen, strict=True):
            for leaf, leaf_name in zip(leaves, leaf_names(args[k], parameters[k]), strict=True):
                given.append(differentiable(to_expr(leaf, table), leaf_name, name_of(function), allow_int))
        if not given:
            raise DtypeError(
                f"argument {parameters[chosen[0]]} of {name_of(function)} holds no numbers to differentiate"
            )
        places = Placeholders(given)
        inner = iter(places.tracers(originals))
        replaced = list(args)
        for (leaves, structure), k in zip(flat, chosen, strict=True):
            replaced[k] = unflatten(structure, [next(inner) for _ in leaves])
        result = bound(function)(*replaced, **kwargs)
        places.write_through()
        value, aux = _value_and_aux(result, has_aux, name_of(function))
        out = _scalar(value, table, name_of(function))
        aux_exprs, aux_structure = outputs_of(aux, table, name_of(function))
        out, *aux_exprs = simplified([out, *aux_exprs])
        grads = gradient(out, places.inputs)
        full = [as_argument(g, p) for g, p in zip(grads, places.inputs, strict=True)]
        resolved = places.resolve([out, *aux_exprs, *full])
        tracers = [wrap(e) for e in resolved]
        head: Any = tracers[0]
        if has_aux:
            head = (head, unflatten(aux_structure, tracers[1 : 1 + len(aux_exprs)]))
        rest = iter(tracers[1 + len(aux_exprs) :])
        gradients = tuple(unflatten(structure, [next(rest) for _ in leaves]) for leaves, structure in flat)
        return head, gradients[0] if isinstance(argnums, int) else gradients

    return call


def _value_and_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, ()
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(f"with has_aux=True, {name} must return (value, aux), not {type(result).__name__}")
    return result[0], result[1]


def _scalar(value: Any, table: InternTable, name: str) -> Expr:
    leaves, structure = flatten(value)
    if len(leaves) != 1 or not structure.is_leaf():
        raise ShapeError(
            f"the gradient needs a scalar, but {name} returned {type(value).__name__}\n"
            "  Return one number; use has_aux=True for more, or sg.vjp for several outputs."
        )
    out = to_expr(leaves[0], table)
    if out.shape:
        raise ShapeError(
            f"the gradient needs a scalar, but {name} returned an array of shape {out.shape}\n"
            "  Reduce it, for example with np.sum, or use sg.vjp or sg.jacobian."
        )
    if not out.aval.is_float:
        if out.aval.weak or out.op.kind == "leaf":
            return cast(out, FLOAT64)
        raise DtypeError(
            f"the gradient needs a floating-point result, but {name} returned {out.dtype}\n"
            "  An integer or bool result does not change smoothly; leave out the comparison or the cast."
        )
    return out


def as_argument(gradient: Expr | None, argument: Expr) -> Expr:
    """A gradient in the shape and dtype of its argument."""
    if gradient is None:
        return zeros(argument)
    if argument.aval.weak:
        return gradient if gradient.aval.weak else python_number(gradient)
    return cast(gradient, argument.dtype)


def match_cotangents(
    given: Any, structure: Any, outputs: Sequence[Expr], table: InternTable
) -> list[Expr | None]:
    """Cotangents as expressions of the types of the outputs.

    Raises
    ------
    ShapeError
        If structure or shapes differ.
    """
    leaves, own = flatten(given)
    if own != structure:
        raise ShapeError(f"the cotangent has structure {own}, the value {structure}")
    seeds: list[Expr | None] = []
    for leaf, out in zip(leaves, outputs, strict=True):
        seed = to_expr(leaf, table)
        if seed.shape != out.shape:
            raise ShapeError(f"a cotangent has shape {seed.shape}, the output it belongs to {out.shape}")
        seeds.append(cast(seed, out.dtype) if out.aval.is_float else None)
    return seeds


def jvp_of(
    function: Function, primals: Sequence[Any], tangents: Sequence[Any], names: list[str]
) -> tuple[Any, Any]:
    """Value and tangent, while tracing.

    Raises
    ------
    ShapeError
        If primals and tangents differ in number, structure or shapes.
    """
    table = active()
    if len(primals) != len(tangents):
        raise ShapeError(f"{len(primals)} primals but {len(tangents)} tangents were given")
    flat = [flatten(p) for p in primals]
    given, moving = [], []
    for (leaves, structure), primal, tangent, name in zip(flat, primals, tangents, names, strict=True):
        tangent_leaves, own = flatten(tangent)
        if own != structure:
            raise ShapeError(f"the tangent of {name} has structure {own}, the argument {structure}")
        for leaf, t, leaf_name in zip(leaves, tangent_leaves, leaf_names(primal, name), strict=True):
            x = differentiable(to_expr(leaf, table), leaf_name, name_of(function))
            dx = to_expr(t, table)
            if dx.shape != x.shape:
                raise ShapeError(f"the tangent of {leaf_name} has shape {dx.shape}, the argument {x.shape}")
            given.append(x)
            moving.append(cast(dx, x.dtype))
    places = Placeholders([*given, *moving])
    n = len(given)
    outputs, structure = places.run(function, flat)
    results = pushforward(outputs, places.inputs[:n], list(places.inputs[n:]))
    full = [zeros(o) if t is None else cast(t, o.dtype) for t, o in zip(results, outputs, strict=True)]
    resolved = [wrap(e) for e in places.resolve([*outputs, *full])]
    return unflatten(structure, resolved[: len(outputs)]), unflatten(structure, resolved[len(outputs) :])
