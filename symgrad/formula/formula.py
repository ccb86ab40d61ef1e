"""The formula of a graph: one object, all notations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.graph import Graph
from .build import Equation, Equations, build
from .latex import Latex
from .names import to_ascii
from .style import Style
from .terms import Term, Vector
from .text import Ascii, NumpySource, Unicode
from .to_sympy import to_sympy

LINE = 100
"""Columns from which on a vector is written with one element a line."""


class Formula:
    """What a graph computes, to be read.

    ``str()`` is Unicode text, one equation an output; subterms that occur more than once and are large enough
    are named first. Inputs carry the names of the arguments. Broadcasting is not written out.

    Attributes
    ----------
    graph
        What is written.
    names
        The left-hand sides.
    """

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self.graph = graph
        self.names = tuple(names)

    @cached_property
    def _equations(self) -> Equations:
        return build(self.graph, self.names)

    @property
    def inputs(self) -> list[str]:
        """Names of the arguments as they are spelled in ``ascii`` and in the NumPy source."""
        return [name.ascii for name in self._equations.inputs]

    @property
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Captured arrays and large constants that the formula refers to, by their names in ``ascii``."""
        return {name.ascii: node.params[0][1].array for name, node in self._equations.arrays}

    def __str__(self) -> str:
        return self._lines(Unicode(), self._signature)

    def __repr__(self) -> str:
        return f"<Formula {', '.join(self.names)}>"

    @cached_property
    def ascii(self) -> str:
        """ASCII text: assignments that Python evaluates, given NumPy's functions by their bare names."""
        return self._lines(Ascii(), lambda e: e.name.ascii)

    def _lines(self, style: Ascii, left: Any) -> str:
        equations = self._equations
        lines = [f"{style.name(e.name)} = {style.write(e.term)}" for e in equations.shared]
        lines += [_aligned(style, left(e), e.term) for e in equations.outputs]
        return "\n".join(lines)

    def _signature(self, equation: Equation) -> str:
        """The left-hand side: with arguments for the function itself."""
        if equation.label != self.graph.name:
            return equation.name.text
        listed = ", ".join([name.text for name in self._equations.inputs])
        return f"{equation.label}({listed if len(listed) <= LINE // 2 else '…'})"

    @cached_property
    def latex(self) -> str:
        """LaTeX of all equations, aligned at the equals signs where there are several."""
        style: Style = Latex()
        equations = self._equations
        arguments = ", ".join(n.latex for n in equations.inputs)
        rows = [(e.name.latex, style.write(e.term)) for e in equations.shared]
        for e in equations.outputs:
            called = e.label == self.graph.name and len(equations.inputs) <= 12
            left = rf"{e.name.latex}\left({arguments}\right)" if called else e.name.latex
            rows.append((left, style.write(e.term)))
        if len(rows) == 1:
            return f"{rows[0][0]} = {rows[0][1]}"
        body = " \\\\\n".join(f"{left} &= {right}" for left, right in rows)
        return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"

    def numpy(self) -> str:
        """NumPy source of a function of the arguments, followed by the arrays that the formula refers to."""
        style, equations = NumpySource(), self._equations
        body = [f"    {e.name.ascii} = {style.write(e.term)}" for e in equations.shared]
        results = ", ".join(style.write(e.term) for e in equations.outputs)
        text = "\n".join([*body, f"    return {results}"])
        arguments = ", ".join([*self.inputs, *self.arrays])
        head = ["import numpy as np"]
        head += ["import scipy.special as sc"] if "sc." in text else []
        head += ["from symgrad.ops import runtime as rt"] if "rt." in text else []
        return "\n".join([*head, "", f"def {_function_name(self.graph.name)}({arguments}):", text, ""])

    def sympy(self) -> Any:
        """SymPy expression of one output, or a tuple of those of all outputs.

        Arguments become symbols; elements of a vector argument ``b`` become ``b_0``, ``b_1``, … Vectors and
        matrices of results are SymPy matrices.

        Raises
        ------
        UnsupportedOperationError
            Naming the operation that SymPy has no counterpart for, or the argument that is too large.
        """
        results = to_sympy(self.graph, [name.ascii for name in self._equations.inputs])
        return results[0] if len(results) == 1 else tuple(results)


def make_formula(graph: Graph, names: Sequence[str]) -> Formula:
    """Make the formula of a graph.

    Parameters
    ----------
    graph
        Functions as expressions; inputs and captured arrays are called by their labels.
    names
        Left-hand sides, one an output: ``f`` or ``∂f/∂x``.

    Returns
    -------
    Formula
        Prints as text, LaTeX, SymPy and NumPy source.

    Examples
    --------
    >>> from symgrad.core.aval import FLOAT64, make_aval
    >>> from symgrad.core.expr import InternTable
    >>> from symgrad.ops.transcendental import exp
    >>> table = InternTable()
    >>> t, rate = (table.input(make_aval((), FLOAT64), name) for name in ("t", "rate"))
    >>> print(make_formula(Graph([t, rate], [exp(-rate * t)], "decay"), ["decay"]))
    decay(t, rate) = exp(-rate·t)
    """
    return Formula(graph, names)


def _aligned(style: Ascii, left: str, term: Term) -> str:
    """An equation; a long vector has its elements below each other."""
    text = f"{left} = {style.write(term)}"
    if len(text) <= LINE or not isinstance(term, Vector):
        return text
    opening = f"{left} = {style.vector_open}"
    rows = f",\n{' ' * len(opening)}".join(style.write(a) for a in term.args)
    return f"{opening}{rows}{style.vector_close}"


def _function_name(name: str) -> str:
    word = to_ascii(name)
    return word if word.isidentifier() else "f"
