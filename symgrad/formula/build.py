"""From a graph to the equations of a formula: which subterms get a name, and how every node is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.expr import CAPTURE, CONST, INPUT, Expr
from ..core.graph import Graph, label
from ..core.op import Op
from ..ops.arithmetic import divide, multiply, negative, reciprocal
from ..ops.casting import astype
from ..ops.shaping import broadcast_to, reshape, take_slice, transpose
from .names import INFINITY, NAN, Name, Namer, output_name
from .shapes import SMALL, strict
from .terms import Number, Symbol, Term, Vector, constant, product, split
from .writing import KNOWN, SILENT, Context, write

DEPTH = 28
"""Nesting from which on a subterm gets a name."""

LONG = 400
"""Signs from which on a subterm gets a name."""

TRANSPARENT: frozenset[Op] = frozenset({
    negative, reciprocal, reshape, broadcast_to, transpose, take_slice, astype,
})
"""Operations that are never worth a name: their operand is, if anything."""

SCALING: frozenset[Op] = frozenset({multiply, divide})
"""Operations that are not worth a name either when one operand is a constant."""


@dataclass(frozen=True)
class Equation:
    """A name and the term it stands for."""

    name: Name
    term: Term
    label: str = ""


@dataclass(frozen=True)
class Equations:
    """A whole formula before it is written in a notation.

    Attributes
    ----------
    inputs
        Names of the graph's inputs, in order.
    arrays
        Captured arrays and large constants, with their names.
    shared
        Named subterms, each before its first use.
    outputs
        One equation an output.
    """

    inputs: list[Name]
    arrays: list[tuple[Name, Expr]]
    shared: list[Equation]
    outputs: list[Equation]


def build(graph: Graph, names: Sequence[str]) -> Equations:
    """Write every output of a graph as an equation.

    Parameters
    ----------
    graph
        The functions, as expressions.
    names
        Left-hand sides, one an output.
    """
    return _Builder(graph).run(names)


class _Builder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.namer = Namer()
        self.terms: dict[int, Term] = {}
        self.inputs: list[Name] = []
        self.arrays: list[tuple[Name, Expr]] = []
        self.shared: list[Equation] = []
        self.numbered = 0
        self.uses = count_uses(graph)

    def run(self, names: Sequence[str]) -> Equations:
        self._name_leaves()
        letter = self.namer.free_letter("tsuvwzqrgh")
        context = Context(self.terms)
        for node in self.graph.nodes:
            if node.id in self.terms:
                continue
            term = write(context, node)
            if self._deserves_name(node, term):
                term = self._named(node, term, letter)
            self.terms[node.id] = term
        by_label = dict(zip([label(n) for n in self.graph.inputs], self.inputs, strict=True))
        outputs = [
            Equation(output_name(text, by_label, self.namer), self._output(out), text)
            for text, out in zip(names, self.graph.outputs, strict=True)
        ]
        return Equations(self.inputs, self.arrays, self.shared, outputs)

    def _output(self, node: Expr) -> Term:
        return strict(self.terms[node.id], node.shape, node.aval.is_float)

    def _name_leaves(self) -> None:
        for k, node in enumerate(self.graph.inputs):
            name = self.namer.take(label(node) or f"x{k}")
            self.inputs.append(name)
            self.terms[node.id] = Symbol(name, node.shape)
        unnamed: list[Expr] = []
        for node in self.graph.nodes:
            if node.op is INPUT and node.id not in self.terms:
                self.terms[node.id] = Symbol(self.namer.take(label(node) or "x"), node.shape)
            elif node.op is CONST and (written := written_out(node)) is not None:
                self.terms[node.id] = written
            elif node.op in (CONST, CAPTURE) and label(node):
                self._array(node, self.namer.take(label(node)))
            elif node.op in (CONST, CAPTURE):
                unnamed.append(node)
        letter = self.namer.free_letter("ACBDKM")
        for k, node in enumerate(unnamed, 1):
            self._array(node, self.namer.numbered(letter, k))

    def _array(self, node: Expr, name: Name) -> None:
        self.arrays.append((name, node))
        self.terms[node.id] = Symbol(name, node.shape)

    def _deserves_name(self, node: Expr, term: Term) -> bool:
        if isinstance(term, (Symbol, Number)):
            return False
        if term.depth >= DEPTH or (term.cost >= LONG and not isinstance(term, Vector)):
            return True
        uses = self.uses.get(node.id, 0)
        if is_transparent(node) or uses < 2:
            return False
        if label(node) and term.cost >= 3:
            return True
        core = split(term, False)[1]
        if node.dtype.kind == "b" and core.cost < 6:
            return False  # a short condition reads better where it stands
        return core.cost >= 4 and (uses - 1) * (core.cost - 1) >= 5

    def _named(self, node: Expr, term: Term, letter: str) -> Term:
        """Give a name; numbers in front stay outside and join others, unless the name is the user's."""
        wanted = label(node)
        outside, core = (None, term) if wanted else split(term, False)
        if isinstance(core, Symbol):
            return term
        if wanted:
            name = self.namer.take(wanted)
        else:
            self.numbered += 1
            name = self.namer.numbered(letter, self.numbered)
        self.shared.append(Equation(name, core))
        symbol = Symbol(name, core.shape, temporary=True)
        return product(False, [outside, symbol], []) if outside else symbol


def is_transparent(node: Expr) -> bool:
    """True where not the node but its operand is worth a name: moved, negated or scaled by a number."""
    if label(node):
        return False
    if node.op in TRANSPARENT or node.op.text == SILENT:
        return True
    return node.op in SCALING and any(a.value is not None for a in node.args)


def count_uses(graph: Graph) -> dict[int, int]:
    """How often each node is written; a transparent one hands its count to its operand."""
    uses: dict[int, int] = {}
    for out in graph.outputs:
        uses[out.id] = uses.get(out.id, 0) + 1
    for node in reversed(graph.nodes):
        weight = uses.get(node.id, 0) if is_transparent(node) else 1
        for a in node.args:
            uses[a.id] = uses.get(a.id, 0) + weight
    return uses


def written_out(node: Expr) -> Term | None:
    """A constant as numbers, or None where it is an array to be named."""
    value = node.value
    assert value is not None
    if value.size == 1 or (value.size and _uniform(value)):
        return scalar(value.reshape(-1)[0])
    if value.ndim == 1 and 0 < value.size <= SMALL and not label(node):
        return Vector([scalar(v) for v in value])
    return None


def _uniform(value: np.ndarray[Any, Any]) -> bool:
    flat = value.reshape(-1)
    return bool((flat.view(np.uint8).reshape(flat.size, -1) == flat[:1].view(np.uint8)).all())


def scalar(value: Any) -> Term:
    """One number."""
    if value.dtype.kind == "f" and not np.isfinite(value):
        symbol = Symbol(NAN if np.isnan(value) else INFINITY)
        return product(bool(value < 0), [symbol], [])
    return constant(value, KNOWN)
