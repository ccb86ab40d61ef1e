"""Value and pullback of a function: run once, and the pullback is a function of what that run has computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.expr import CONST, Expr, InternTable
from ..core.graph import Graph, copy_node, substitute
from ..core.pytree import flatten, leaf_names, register_bare, unflatten
from ..tracing.trace import to_expr
from ..tracing.tracer import wrap
from ..transforms.reverse import pullback
from .compiled import Compiled
from .functional import (
    Function,
    Placeholders,
    active,
    as_argument,
    differentiable,
    match_cotangents,
    name_of,
)


@dataclass
class Linearised:
    """A function at some point, while tracing.

    Attributes
    ----------
    structure, outputs
        The value.
    seeds
        Variables that stand for its cotangents.
    cotangents
        Those of the arguments: linear in the seeds.
    arguments
        How the arguments are nested.
    """

    structure: Any
    outputs: list[Expr]
    seeds: list[Expr]
    cotangents: list[Expr]
    arguments: list[Any]

    @property
    def value(self) -> Any:
        """The value, as tracers."""
        return unflatten(self.structure, [wrap(e) for e in self.outputs])

    def pull(self, cotangent: Any) -> tuple[Any, ...]:
        """Cotangents of the arguments from one of the value, as tracers."""
        given = match_cotangents(cotangent, self.structure, self.outputs, active())
        replace = {s.id: ct for s, ct in zip(self.seeds, given, strict=True) if ct is not None}
        return nested(self.arguments, substitute(self.cotangents, replace))

    def split(self) -> tuple[list[Expr], Graph]:
        """What the cotangents need of the run, and the rest as a graph of its own.

        Returns
        -------
        residuals
            Values that do not depend on the seeds.
        graph
            The cotangents over residuals and seeds.
        """
        live = {s.id for s in self.seeds}
        nodes = Graph((), self.cotangents).nodes
        for node in nodes:
            if any(a.id in live for a in node.args):
                live.add(node.id)
        needed = [a for node in nodes if node.id in live for a in node.args] + self.cotangents
        residuals = list({e.id: e for e in needed if e.id not in live and e.op is not CONST}.values())
        table = InternTable()
        outside = [*residuals, *self.seeds]
        made = {e.id: table.input(e.aval) for e in outside}
        heads = [made[e.id] for e in outside]
        for node in nodes:
            if node.id not in made and (node.id in live or node.op is CONST):
                made[node.id] = copy_node(node, made, table)
        return residuals, Graph(heads, [made[e.id] for e in self.cotangents])


def linearised(function: Function, primals: Sequence[Any], names: list[str]) -> Linearised:
    """Run a function and differentiate it for any cotangent of its value."""
    table = active()
    flat = [flatten(p) for p in primals]
    given = [
        differentiable(to_expr(leaf, table), leaf_name, name_of(function))
        for (leaves, _), primal, name in zip(flat, primals, names, strict=True)
        for leaf, leaf_name in zip(leaves, leaf_names(primal, name), strict=True)
    ]
    places = Placeholders(given)
    outputs, structure = places.run(function, flat)
    seeds = [table.input(out.aval) for out in outputs]
    moving = [seed if out.aval.is_float else None for seed, out in zip(seeds, outputs, strict=True)]
    grads = pullback(outputs, moving, places.inputs) if outputs else [None] * len(places.inputs)
    full = [as_argument(g, p) for g, p in zip(grads, places.inputs, strict=True)]
    resolved = places.resolve([*outputs, *full])
    count = len(outputs)
    return Linearised(structure, resolved[:count], seeds, resolved[count:], [s for _, s in flat])


def nested(structures: Sequence[Any], values: Sequence[Expr]) -> tuple[Any, ...]:
    """Values as tracers in the nesting of the arguments."""
    rest = iter([wrap(e) for e in values])
    return tuple([unflatten(s, [next(rest) for _ in range(s.num_leaves)]) for s in structures])


class Pullback:
    """A pullback that is over with tracing: compiled when it is first called.

    It has no leaves: it comes out of a compiled function as it went in, one for each path.
    """

    def __init__(self, made: Linearised, graph: Graph) -> None:
        self._structure = made.structure
        self._arguments = made.arguments
        self._graph = graph
        self._outputs = graph.inputs[len(graph.inputs) - len(made.seeds) :]
        self._is_float = [out.aval.is_float for out in made.outputs]
        self._compiled = Compiled(self._pull)
        self._compiled.__name__ = "pullback"

    def __call__(self, residuals: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        moved: tuple[Any, ...] = self._compiled(tuple(residuals), cotangent)
        return moved

    def _pull(self, residuals: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        table = active()
        given = match_cotangents(cotangent, self._structure, self._outputs, table)
        values = [to_expr(r, table) for r in residuals]
        values += [x if x is not None else o for x, o in zip(given, self._outputs, strict=True)]
        done = {x.id: v for x, v in zip(self._graph.inputs, values, strict=True)}
        for node in self._graph.nodes:
            if node.id not in done:
                done[node.id] = copy_node(node, done, table)
        return nested(self._arguments, [done[e.id] for e in self._graph.outputs])


register_bare(Pullback)


def value_and_pullback_of(function: Function, names: Callable[[int], list[str]]) -> Function:
    """The function that returns the value, residuals, and a :class:`Pullback` of them, to be run while tracing."""

    def call(*primals: Any) -> Any:
        made = linearised(function, primals, names(len(primals)))
        residuals, graph = made.split()
        return made.value, [wrap(e) for e in residuals], Pullback(made, graph)

    return call
