"""Running a function on tracers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.aval import Aval
from ..core.expr import Expr, InternTable
from ..core.graph import Graph
from ..core.paths import Guard
from ..core.pytree import flatten
from ..errors import DtypeError, SymgradError, with_location
from ..ops.casting import python_number
from ..ops.define import lift
from . import compositions as _compositions  # noqa: F401 - enters the functions made of others
from . import looking_through as _looking  # noqa: F401 - enters the functions that give views
from . import reading as _reading  # noqa: F401 - enters the methods that read elements
from . import writing as _writing  # noqa: F401 - enters the functions that write
from .refusing import explained, tell
from .state import Trace, active_table, active_trace, tracing
from .tracer import ArrayTracer, Tracer, wrap

__all__ = ["Traced", "active_table", "active_trace", "outputs_of", "to_expr", "trace_flat", "trace_path"]


def to_expr(value: Any, table: InternTable) -> Expr:
    """The expression of a tracer, number or array of this trace.

    Raises
    ------
    TraceError
        If a tracer belongs to a trace that is over.
    DtypeError
        If the value is no number.
    """
    return lift(value.expr if isinstance(value, Tracer) else value, table)


def outputs_of(result: Any, table: InternTable, name: str) -> tuple[list[Expr], Any]:
    """Expressions and structure of what a traced function returned."""
    leaves, structure = flatten(result)
    outputs = []
    for leaf in leaves:
        try:
            outputs.append(to_expr(leaf, table))
        except DtypeError:
            text = f"{name} returned a {type(leaf).__name__}, which is no number or array"
            raise DtypeError(
                with_location(text, "", "Return arrays, numbers, or tuples, lists and dicts of them.")
            ) from None
    return outputs, structure


@dataclass
class Traced:
    """What one run recorded.

    Attributes
    ----------
    outputs
        What the function returned, flat.
    structure
        How that is nested.
    guards
        The decisions on the way.
    writes
        New contents of arguments (by position) and captured arrays that the function wrote to.
    trace
        The state at the end, which can evaluate expressions on the data.
    """

    outputs: list[Expr]
    structure: Any
    guards: list[Guard]
    writes: list[tuple[Any, Expr]]
    trace: Trace


def trace_path(
    function: Callable[..., Any], inputs: Sequence[Expr], name: str, values: Sequence[Any] | None = None,
    live: Mapping[Any, Any] | None = None, zero_dims: Collection[int] = (),
) -> Traced:
    """Run a function of a flat list of values on tracers of the given inputs.

    Parameters
    ----------
    function
        Called with one tracer for each input.
    inputs
        Input nodes of one table.
    name
        Name of the function, for messages.
    values
        Data to take decisions on.
    live
        Arrays with captured numbers that are read at every call, by the places they come from.
    zero_dims
        Positions of the inputs that are arrays without axes, which can be written to.
    """
    table = inputs[0].table if inputs else InternTable()
    data = None if values is None else {x.id: v for x, v in zip(inputs, values, strict=True)}
    trace = Trace(table, data)
    for place, array in (live or {}).items():
        trace.live[place] = wrap(python_number(table.capture(array)))
    with tracing(trace):
        try:
            tracers = [ArrayTracer(x) if k in zero_dims else wrap(x) for k, x in enumerate(inputs)]
            result = function(*tracers)
            if trace.refused:
                raise trace.refused[0]
            if trace.space is not None:
                result = trace.space.settled(result)
        except SymgradError:
            raise
        except Exception as error:
            understandable = explained(error, trace)
            if understandable is error:
                raise
            raise understandable from None
        outputs, structure = outputs_of(result, table, name)
        if trace.space is not None:
            trace.space.close(name)
    tell(trace.notes)
    written = [*enumerate(tracers), *trace.captured.values()]
    writes = [(target, t.expr) for target, t in written if isinstance(t, ArrayTracer) and t.was_written]
    if trace.alias:
        # What an inner derivative wrote, or let out, is over its own variables.
        outputs = [trace.resolve(e) for e in outputs]
        writes = [(target, trace.resolve(e)) for target, e in writes]
    return Traced(outputs, structure, trace.guards, writes, trace)


def trace_flat(
    function: Callable[..., Any], avals: Sequence[Aval], labels: Sequence[str], name: str,
    values: Sequence[Any] | None = None, zero_dims: Collection[int] = (),
) -> tuple[Graph, Any]:
    """Trace a function of a flat list of values in a table of its own.

    Parameters
    ----------
    function
        Called with one tracer for each aval.
    avals
        Types of the inputs.
    labels
        Their names, for printing.
    name
        Name of the function, for printing.
    values
        Data to take decisions on: the graph is then that of the path they take.
    zero_dims
        Positions of the inputs that are arrays without axes.

    Returns
    -------
    Graph
        Over one input for each aval.
    structure
        How the outputs are nested.
    """
    table = InternTable()
    inputs = [table.input(aval, label) for aval, label in zip(avals, labels, strict=True)]
    traced = trace_path(function, inputs, name, values, zero_dims=zero_dims)
    return Graph(inputs, traced.outputs, name), traced.structure
