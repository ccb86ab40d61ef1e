"""Jacobians of functions, as functions on traced values: one pullback a row, or one pushforward a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.expr import Expr
from ..core.pytree import flatten, leaf_names, unflatten
from ..errors import DtypeError
from ..ops.define import FUNCTIONS
from ..ops.indexing import getitem
from ..ops.shaping import reshape
from ..tracing.namespace import bound
from ..tracing.trace import outputs_of, to_expr
from ..tracing.tracer import wrap
from ..transforms.forward import pushforward
from ..transforms.reverse import pullback
from .functional import Placeholders, active, differentiable, name_of, simplified, split_argnums

Function = Callable[..., Any]


def jacobian_of(
    function: Function, argnums: int | Sequence[int], mode: str, names: Callable[[int], list[str]]
) -> Function:
    """The function that returns the Jacobian, to be run while tracing.

    For every output leaf it holds the structure of the argument, with arrays of shape
    ``output.shape + argument.shape``.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        table = active()
        chosen = split_argnums(argnums, len(args), name_of(function))
        parameters = names(len(args))
        flat = [flatten(args[k]) for k in chosen]
        given = [
            differentiable(to_expr(leaf, table), leaf_name, name_of(function))
            for (leaves, _), k in zip(flat, chosen, strict=True)
            for leaf, leaf_name in zip(leaves, leaf_names(args[k], parameters[k]), strict=True)
        ]
        places = Places(given)
        inner = iter(places.tracers([leaf for leaves, _ in flat for leaf in leaves]))
        replaced = list(args)
        for (leaves, structure), k in zip(flat, chosen, strict=True):
            replaced[k] = unflatten(structure, [next(inner) for _ in leaves])
        result = bound(function)(*replaced, **kwargs)
        places.write_through()
        outputs, out_structure = outputs_of(result, table, name_of(function))
        if not all(x.aval.is_float for x in outputs):
            raise DtypeError(
                f"{name_of(function)} returned {next(x.dtype for x in outputs if not x.aval.is_float)}, "
                "which has no derivative\n  Return floating-point arrays."
            )
        outputs = simplified(outputs)
        blocks = places.blocks(outputs, mode)
        resolved = iter([wrap(e) for e in places.resolve(blocks)])
        made = [
            tuple(unflatten(structure, [next(resolved) for _ in leaves]) for leaves, structure in flat)
            for _ in outputs
        ]
        picked = [m[0] if isinstance(argnums, int) else m for m in made]
        return unflatten(out_structure, picked)

    return call


class Places(Placeholders):
    """Placeholders that are differentiated element by element: an array is joined from scalar inputs.

    Then a column of the Jacobian is the derivative by one scalar, and zeros between elements are structural.
    """

    def __init__(self, values: Sequence[Expr]) -> None:
        elements = [getitem(v, index) for v in values for index in np.ndindex(v.shape)]
        self._empty = [v for v in values if not v.aval.size]
        super().__init__([*elements, *self._empty])
        scalars = iter(self.inputs)
        empty = iter(self.inputs[len(elements) :])
        self.groups: list[list[Expr]] = []
        self._arrays: list[Expr] = []
        for v in values:
            group = [next(scalars) for _ in range(v.aval.size)]
            self.groups.append(group)
            self._arrays.append(_joined(group, v.shape) if group else next(empty))

    @property
    def arrays(self) -> Sequence[Expr]:
        """The arguments, joined from their elements."""
        return self._arrays

    def blocks(self, outputs: Sequence[Expr], mode: str) -> list[Expr]:
        """One block for each pair of output and argument, in that order."""
        columns = sum(map(len, self.groups))
        rows = sum(x.aval.size for x in outputs)
        forward = mode == "forward" or (mode == "auto" and columns < rows)
        entries = self._by_columns(outputs) if forward else self._by_rows(outputs)
        made = []
        for k, out in enumerate(outputs):
            for array, group in zip(self.arrays, self.groups, strict=True):
                shape = (*out.shape, *array.shape)
                flat = [entries[k][row][column.id] for row in range(out.aval.size) for column in group]
                made.append(
                    _joined([e if e is not None else zeros_like(out) for e in flat], shape)
                    if flat
                    else zeros_of(out, shape)
                )
        return made

    def _by_rows(self, outputs: Sequence[Expr]) -> list[list[dict[int, Expr | None]]]:
        wanted = [x for group in self.groups for x in group]
        made = []
        for out in outputs:
            lines: list[dict[int, Expr | None]] = []
            for index in np.ndindex(out.shape):
                element = getitem(out, index)
                one = out.table.constant(np.ones((), out.dtype), out.dtype, element.aval.weak)
                slopes = pullback([element], [one], wanted)
                lines.append(dict(zip([x.id for x in wanted], slopes, strict=True)))
            made.append(lines)
        return made

    def _by_columns(self, outputs: Sequence[Expr]) -> list[list[dict[int, Expr | None]]]:
        made: list[list[dict[int, Expr | None]]] = [[{} for _ in range(x.aval.size)] for x in outputs]
        for column in [x for group in self.groups for x in group]:
            one = column.table.constant(np.ones((), column.dtype), column.dtype, column.aval.weak)
            tangents = pushforward(outputs, [column], [one])
            for lines, out, tangent in zip(made, outputs, tangents, strict=True):
                for line, index in zip(lines, np.ndindex(out.shape), strict=True):
                    line[column.id] = None if tangent is None else getitem(tangent, index)
        return made


def zeros_like(out: Expr) -> Expr:
    """A scalar zero of the dtype of an output."""
    return out.table.constant(np.zeros((), out.dtype), out.dtype)


def zeros_of(out: Expr, shape: tuple[int, ...]) -> Expr:
    """An empty block."""
    return FUNCTIONS[np.broadcast_to](zeros_like(out), shape)  # type: ignore[no-any-return]  # registry


def _joined(scalars: Sequence[Expr], shape: tuple[int, ...]) -> Expr:
    if not shape:
        return scalars[0]
    line = FUNCTIONS[np.stack](list(scalars))
    return line if line.shape == shape else reshape(line, shape=shape)
