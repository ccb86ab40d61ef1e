"""What depends on constants only is computed at once: loop counters, sizes, tables built in the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.expr import CAPTURE, CONST, Expr, InternTable
from ..ops.evaluate import evaluate
from ..ops.shaping import broadcast_to

FOLD_LIMIT = 4096
"""Arrays of more elements stay expressions."""


def folded(expr: Expr) -> Expr:
    """The same value as a constant, if it depends on constants only and is not large."""
    table = expr.table
    if expr.id not in table.known or expr.op is CONST or expr.aval.size > FOLD_LIMIT:
        return expr
    if expr.op is broadcast_to and expr.aval.size > 1 and expr.args[0].op is CONST:
        return expr
    with np.errstate(all="ignore"):
        value = _value(expr)
    return table.constant(np.asarray(value, expr.dtype), expr.dtype, expr.aval.weak)


def _value(expr: Expr) -> Any:
    """The value of a known expression; those of arrays too large to be folded are worked out each time."""
    values: dict[int, Any] = {}
    stack = [expr]
    while stack:
        node = stack[-1]
        waiting = [a for a in node.args if a.id not in values]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if node.id not in values:
            values[node.id] = _from_operands(node, values)
    return values[expr.id]


def _from_operands(node: Expr, values: dict[int, Any]) -> Any:
    if node.op is CONST:
        return node.value[()]  # type: ignore[index]  # a constant has a value
    if node.op is CAPTURE:
        return node.params[0][1].array
    return evaluate(node.op, [values[a.id] for a in node.args], [a.aval for a in node.args], dict(node.params))


def known_array(array: np.ndarray[Any, Any], table: InternTable) -> Expr:
    """A large array that nobody else has, and whose elements are known: it is read from memory."""
    array.flags.writeable = False
    node = table.capture(array)
    table.known.add(node.id)
    return node


def on_constants(function: Callable[..., Any], refusal: Callable[[], Exception]) -> Callable[..., Any]:
    """A NumPy function that has no rule, on expressions whose values are known while tracing.

    Parameters
    ----------
    function
        Is called with these values, which it cannot write to.
    refusal
        Makes the error for other expressions, and where the result is a view or no numbers.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        given: list[tuple[Expr, np.ndarray[Any, Any]]] = []
        plain, options = _values(args, given), _values(kwargs, given)
        if plain is None or options is None or not given:
            raise refusal()
        made = function(*plain, **options)
        numbers = _as_constants(made, given[0][0].table, [array for _, array in given])
        if numbers is None:
            raise refusal()
        return numbers

    return call


def _values(value: Any, given: list[tuple[Expr, np.ndarray[Any, Any]]]) -> Any:
    """A nested value with expressions replaced by what they are; None if one is not known."""
    if isinstance(value, Expr):
        if value.id not in value.table.known:
            return None
        array = np.asarray(_value(value), value.dtype).view()
        array.flags.writeable = False
        given.append((value, array))
        if value.aval.weak:
            return array.item()
        return array if array.shape else array[()]
    if type(value) is dict:
        made = {k: _values(v, given) for k, v in value.items()}
        return None if any(made[k] is None and value[k] is not None for k in made) else made
    if type(value) in (tuple, list):
        parts = [_values(v, given) for v in value]
        unknown = any(p is None and v is not None for p, v in zip(parts, value, strict=True))
        return None if unknown else type(value)(parts)
    return value


def _as_constants(made: Any, table: InternTable, arguments: list[Any]) -> Any:
    """Arrays as constants; None if one is a view of an argument, or holds no numbers."""
    if isinstance(made, (np.ndarray, np.generic)):
        array = np.asarray(made)
        if array.dtype.kind not in "fiub" or any(np.may_share_memory(array, a) for a in arguments):
            return None
        return table.constant(array, array.dtype) if array.size <= FOLD_LIMIT else known_array(array, table)
    if isinstance(made, (tuple, list)):
        parts = [_as_constants(m, table, arguments) for m in made]
        if any(p is None for p in parts):
            return None
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    return made
