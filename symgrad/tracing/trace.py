"""Running a function on tracers, and the state of a trace in progress."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.aval import Aval
from ..core.expr import Expr, InternTable
from ..core.graph import Graph
from ..core.pytree import flatten
from ..errors import DtypeError, SymgradError, with_location
from ..ops.define import lift
from .tracer import Tracer, wrap


class _State(threading.local):
    """The traces in progress on this thread, innermost last."""

    def __init__(self) -> None:
        self.tables: list[InternTable] = []


_state = _State()


def active_table() -> InternTable | None:
    """The intern table of the trace in progress on this thread, if any."""
    return _state.tables[-1] if _state.tables else None


@contextmanager
def tracing(table: InternTable) -> Iterator[None]:
    """Make ``table`` the trace in progress; the cyclic collector pauses, it would cost half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    _state.tables.append(table)
    try:
        yield
    finally:
        _state.tables.pop()
        if was_enabled:
            gc.enable()


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
    try:
        return [to_expr(leaf, table) for leaf in leaves], structure
    except DtypeError as error:
        text = f"{name} returned something that is no number or array: {error}"
        raise DtypeError(
            with_location(text, "", "Return arrays, numbers, or tuples, lists and dicts of them.")
        ) from None


def trace_flat(
    function: Callable[..., Any], avals: Sequence[Aval], labels: Sequence[str], name: str
) -> tuple[Graph, Any]:
    """Trace a function of a flat list of values.

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

    Returns
    -------
    Graph
        Over one input for each aval.
    structure
        How the outputs are nested.
    """
    table = InternTable()
    inputs = [table.input(aval, label) for aval, label in zip(avals, labels, strict=True)]
    with tracing(table):
        try:
            result = function(*[wrap(x) for x in inputs])
        except SymgradError:
            raise
        except Exception as error:
            # NumPy chains our error behind one of its own; the user should see ours.
            cause = error.__cause__ or error.__context__
            if isinstance(cause, SymgradError):
                raise cause from None
            raise
        outputs, structure = outputs_of(result, table, name)
    return Graph(inputs, outputs, name), structure
