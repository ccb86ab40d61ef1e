"""Looking at what is computed: specs, traces, formulas, configuration."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.aval import Aval, aval_of
from ..core.graph import Graph
from ..core.lazy import lazy_import
from ..core.pytree import flatten, leaf_names, unflatten
from ..core.spec import Spec
from ..runtime import functional
from ..runtime.compiled import Compiled, parameter_names
from ..runtime.titles import argument_leaves, numbered, plain_name
from ..tracing.namespace import bound
from ..tracing.naming import label_variables
from ..tracing.trace import trace_flat
from ..transforms.simplify import simplify

if TYPE_CHECKING:
    from ..formula.formula import Formula

formula_room: Any = lazy_import("symgrad.formula.formula")
pictures: Any = lazy_import("symgrad.formula.dot")
toolchain: Any = lazy_import("symgrad.codegen.toolchain")
cache: Any = lazy_import("symgrad.codegen.cache")
blas: Any = lazy_import("symgrad.codegen.blas")


def _aval(leaf: Any) -> Aval:
    return leaf.aval if isinstance(leaf, Spec) else aval_of(leaf)


def _names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    names: list[str] = []
    for a, name in zip(args, parameter_names(getattr(f, "__wrapped__", f), len(args)), strict=True):
        leaves, _ = flatten(a)
        for leaf, written in zip(leaves, leaf_names(a, name), strict=True):
            own = leaf.name if isinstance(leaf, Spec) else None
            names.append(own or written)
    return names


def _trace(f: Callable[..., Any], run: Callable[..., Any], args: tuple[Any, ...]) -> Graph:
    leaves, structure = flatten(args)
    graph, _ = trace_flat(
        lambda *tracers: bound(run)(*unflatten(structure, tracers)),
        [_aval(leaf) for leaf in leaves],
        _names(f, args),
        plain_name(f),
        None if any(isinstance(leaf, Spec) for leaf in leaves) else [np.asarray(leaf)[()] for leaf in leaves],
    )
    label_variables(graph)
    return simplify(graph)


class TracedGraph(Graph):
    """A graph that can be drawn.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.trace(lambda x: x**2, sg.Spec()).to_dot().startswith("digraph")
    True
    """

    __slots__ = ()

    def to_dot(self) -> str:
        """Text for Graphviz."""
        text: str = pictures.to_dot(self)
        return text

    def to_svg(self) -> str:
        """A picture that needs no other program."""
        text: str = pictures.to_svg(self)
        return text

    _repr_svg_ = to_svg


def trace(f: Callable[..., Any], *specs_or_examples: Any) -> TracedGraph:
    """The graph of a function, simplified.

    Parameters
    ----------
    f
        A function over NumPy arrays, compiled or not.
    *specs_or_examples
        One for each argument: a :class:`Spec`, an example, or a pytree of them.

    Returns
    -------
    TracedGraph
        Prints one line an operation with shapes and the lines of your source; ``node_count``, ``to_dot()``,
        ``to_svg()``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> graph = sg.trace(lambda x, y: np.sum(x * y), sg.Spec((3,)), sg.Spec((3,)))
    >>> graph.node_count
    2
    """
    run = f._function if isinstance(f, Compiled) else f
    graph = _trace(f, run, specs_or_examples)
    return TracedGraph(graph.inputs, graph.outputs, graph.name)


def formula(f: Callable[..., Any], *specs_or_examples: Any, wrt: int | str | None = None) -> Formula:
    """The formula of a function, or of a derivative of it.

    Parameters
    ----------
    f
        A function over NumPy arrays. With ``wrt`` it must return a scalar.
    *specs_or_examples
        One for each argument: a :class:`Spec`, an example, or a pytree of them.
    wrt
        Name or position of the argument to differentiate by.

    Returns
    -------
    Formula
        ``str()`` gives text, ``.latex`` LaTeX, ``.sympy()`` a SymPy expression of scalar functions.

    Raises
    ------
    ValueError
        If ``wrt`` names no argument.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> print(sg.formula(lambda x: np.sin(x) ** 2, sg.Spec(), wrt="x"))
    ∂f/∂x = 2·cos(x)·sin(x)
    """
    run = f._function if isinstance(f, Compiled) else f
    name = plain_name(f)
    if wrt is None:
        graph = _trace(f, run, specs_or_examples)
        count = len(graph.outputs)
        own = f.titles(specs_or_examples, count) if isinstance(f, Compiled) else numbered(name, count)
        made: Formula = formula_room.make_formula(graph, own)
        return made
    parameters = parameter_names(getattr(f, "__wrapped__", f), len(specs_or_examples))
    position = _position(wrt, parameters, name)
    derivative = functional.value_and_grad_of(
        run, position, False, functools.partial(parameter_names, getattr(f, "__wrapped__", f))
    )
    graph = _trace(f, lambda *args: derivative(*args)[1], specs_or_examples)
    leaves = argument_leaves(specs_or_examples[position], parameters[position])
    derived: Formula = formula_room.make_formula(graph, [f"∂{name}/∂{leaf}" for leaf in leaves])
    return derived


def _position(wrt: int | str, parameters: list[str], name: str) -> int:
    if isinstance(wrt, str):
        if wrt not in parameters:
            raise ValueError(f"{name} has no argument {wrt!r}; its arguments are {', '.join(parameters)}")
        return parameters.index(wrt)
    if not -len(parameters) <= wrt < len(parameters):
        raise ValueError(f"wrt={wrt}, but {name} has {len(parameters)} arguments")
    return wrt % len(parameters)


def show_config() -> str:
    """Versions, compiler, BLAS and cache folder, as text.

    Examples
    --------
    >>> import symgrad as sg
    >>> "numpy" in sg.show_config()
    True
    """
    found = toolchain.find_toolchain()
    table = blas.blas_table()
    rows = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "compiler": found.identity if found else f"none ({toolchain.why_no_toolchain()})",
        "flags": " ".join(found.flags("vector")) if found else "",
        "BLAS": table.origin if table is not None else "none: own loops",
        "cache": str(cache.default_cache().root),
    }
    return "\n".join(f"{key:9} {value}" for key, value in rows.items())
