"""The state of a trace in progress: decisions taken, and the data to take them on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.collector import paused_collector
from ..core.expr import CAPTURE, CONST, INPUT, Expr, InternTable
from ..core.origin import Origin
from ..core.paths import Guard, Outcome
from ..errors import SymgradError, TraceError
from ..ops.comparison import as_condition, equal, greater, isinf, isnan, less, logical_and
from ..ops.define import FUNCTIONS, cast
from ..ops.evaluate import evaluate
from ..ops.reduction import all_
from ..ops.shaping import reshape

TOO_LARGE = -(2**63)
"""The outcome of asking for the integer part of what int64 cannot hold: NaN, infinities, large numbers."""


class Trace:
    """One run of a function on tracers.

    Parameters
    ----------
    table
        Where its expressions are interned.
    values
        The data of the inputs, by node id; without them a decision that depends on data is refused.

    Attributes
    ----------
    guards
        The decisions taken so far.
    captured
        The arrays that were handed out by name, with their tracers, by id.
    space
        The names that the traced function sees.
    alias
        Inputs that stand for other expressions: the variables of an inner derivative.
    unseen
        Ids of inputs that no function of the user's has been given yet.
    live
        Tracers of captured numbers that are read at every call, by their place.
    refused
        Errors for what cannot be recorded; the user's code may have caught them.
    layouts
        What is known of the memory order of expressions, by their ids.
    notes
        What is to be warned about when the trace is over, with its line.
    """

    def __init__(self, table: InternTable, values: dict[int, Any] | None = None) -> None:
        self.table = table
        self.guards: list[Guard] = []
        self.alias: dict[int, Expr] = {}
        self.unseen: frozenset[int] = frozenset()
        self.captured: dict[int, tuple[Any, Any]] = {}
        self.space: Any = None
        self.live: dict[Any, Any] = {}
        self.refused: list[SymgradError] = []
        self.layouts: dict[int, int] = {}
        self.notes: dict[str, Origin | None] = {}
        self._has_data = values is not None
        self._values: dict[int, Any] = dict(values or {})
        self._resolved: dict[int, Expr] = {}
        self._varies: dict[int, bool] = {}
        self._decided: dict[int, Outcome] = {}

    def note(self, what: str, origin: Origin | None) -> None:
        """Warn about something when the trace is over; not if it ends with an exception."""
        self.notes.setdefault(f"{what}\n  at {origin}" if origin else what, origin)

    def is_known(self, expr: Expr) -> bool:
        """Whether there are data to evaluate an expression on."""
        return self._has_data or not self.varies(self.resolve(expr))

    def given(self, expr: Expr) -> Any:
        """The data of an input; None without them."""
        return self._values.get(expr.id)

    # ---------------------------------------------------------------- decisions

    def decide(self, expr: Expr, integer: bool, origin: Origin | None) -> Outcome:
        """The truth (or integer value) of a rank-0 expression; recorded as a guard if it depends on data.

        Raises
        ------
        TraceError
            If there are no data to decide on.
        """
        question = self.resolve(_question(expr, integer))
        if not self.varies(question):
            return int(np.asarray(self.concrete(expr)).item()) if integer else self._outcome(question, False)
        known = self._decided.get(question.id)
        if known is not None:
            return self._meant(expr, known, origin)
        if not self._has_data:
            raise TraceError(
                "the function takes a decision that depends on data, and there are none here.\n"
                "  Give example arrays and numbers instead of sg.Spec; the path they take is shown then."
            )
        outcome = self._outcome(question, integer)
        self._decided[question.id] = outcome
        self.guards.append(Guard(question, outcome, origin))
        return self._meant(expr, outcome, origin)

    def _meant(self, expr: Expr, outcome: Outcome, origin: Origin | None) -> Outcome:
        """What an outcome stands for: a large number has more digits than int64 holds, and is asked for itself.

        Raises
        ------
        ValueError, OverflowError
            For the integer part of NaN or an infinity, as in Python.
        """
        if outcome < 0 and expr.dtype == np.uint64:
            return outcome + 2**64
        if outcome != TOO_LARGE or expr.dtype.kind != "f":
            return outcome
        # Exceptions may be caught: what they tell apart are decisions, too.
        if self.decide(isnan(expr), False, origin) or self.decide(isinf(expr), False, origin):
            return int(float(self.concrete(expr)))
        return int(self.decide_mask(expr, origin))

    def decide_mask(self, expr: Expr, origin: Origin | None) -> np.ndarray[Any, Any]:
        """The elements of a bool array; recorded as guards that compare it with the values it has had."""
        mask = self.resolve(expr)
        if not self.varies(mask):
            return np.asarray(self.concrete(mask))
        known = self.table.patterns.setdefault(mask.id, [])
        for pattern in known:
            if self.decide(self._matches(mask, pattern), False, origin):
                return pattern
        if not self._has_data:
            raise TraceError(
                "indexing with a mask that depends on data gives an array whose size depends on them.\n"
                "  Use np.where(mask, x, 0) (and np.sum(mask) for the count), or give example arrays."
            )
        pattern = np.array(self.concrete(mask))
        self.decide(self._matches(mask, pattern), False, origin)
        known.append(pattern)
        return pattern

    @staticmethod
    def _matches(mask: Expr, pattern: np.ndarray[Any, Any]) -> Expr:
        same = equal(mask, mask.table.constant(pattern))
        return all_(same, axis=tuple(range(same.ndim))) if same.ndim else same

    def _outcome(self, question: Expr, integer: bool) -> Outcome:
        value = self.concrete(question)
        return int(value) if integer else bool(value)

    # ---------------------------------------------------------------- expressions over the true inputs

    def resolve(self, expr: Expr) -> Expr:
        """The expression with the variables of inner derivatives replaced by what they stand for."""
        done = self._resolved
        stack = [expr]
        while stack:
            node = stack[-1]
            if node.id in done:
                stack.pop()
                continue
            waiting = self._waiting(node, done)
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            target = self.alias.get(node.id)
            if target is not None:
                done[node.id] = done[target.id]
            elif not node.args:
                done[node.id] = node
            else:
                args = tuple([done[a.id] for a in node.args])
                done[node.id] = node if args == node.args else self.table.remake(node.op, args, node.params)
        return done[expr.id]

    def _waiting(self, node: Expr, done: dict[int, Any]) -> list[Expr]:
        target = self.alias.get(node.id)
        needed = (target,) if target is not None else node.args
        return [a for a in needed if a.id not in done]

    def varies(self, expr: Expr) -> bool:
        """Whether a value can differ between calls: it depends on an input or a captured array."""
        done = self._varies
        stack = [expr]
        while stack:
            node = stack[-1]
            waiting = [a for a in node.args if a.id not in done]
            if node.id not in done and waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done[node.id] = node.op in (INPUT, CAPTURE) or any([done[a.id] for a in node.args])
        return done[expr.id]

    def concrete(self, expr: Expr) -> Any:
        """The value of an expression on the data of this trace."""
        root = self.resolve(expr)
        values = self._values
        stack = [root]
        with np.errstate(all="ignore"):
            while stack:
                node = stack[-1]
                if node.id in values:
                    stack.pop()
                    continue
                waiting = [a for a in node.args if a.id not in values]
                if waiting:
                    stack.extend(waiting)
                    continue
                stack.pop()
                values[node.id] = self._evaluated(node)
        return values[root.id]

    def _evaluated(self, node: Expr) -> Any:
        if node.op is CONST:
            return node.value[()]  # type: ignore[index]
        if node.op is CAPTURE:
            return node.params[0][1].array
        if node.op is INPUT:
            raise TraceError(
                "the value of an argument is needed while tracing, and there are no data.\n"
                "  Give example arrays and numbers instead of sg.Spec."
            )
        return evaluate(
            node.op, [self._values[a.id] for a in node.args], [a.aval for a in node.args], dict(node.params)
        )


def _question(expr: Expr, integer: bool) -> Expr:
    """What a decision asks: a rank-0 bool, or a rank-0 int64."""
    if expr.shape:
        expr = reshape(expr, shape=())
    if not integer:
        return as_condition(expr)
    if expr.dtype.kind == "f":
        # What int64 cannot hold becomes a different number on each processor.
        number = cast(expr, np.float64)
        fits = logical_and(greater(number, float(TOO_LARGE)), less(number, -float(TOO_LARGE)))
        expr = FUNCTIONS[np.where](fits, number, float(TOO_LARGE))
    return cast(expr, np.int64)


class _State(threading.local):
    """The traces in progress on this thread, innermost last."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []


_state = _State()
_running: dict[int, Trace] = {}


def running(table: InternTable) -> Trace | None:
    """The trace into a table that is in progress on any thread."""
    trace = _running.get(id(table))
    return trace if trace is not None and trace.table is table else None


def active_trace() -> Trace | None:
    """The trace in progress on this thread, if any."""
    return _state.traces[-1] if _state.traces else None


def active_table() -> InternTable | None:
    """The intern table of the trace in progress on this thread, if any."""
    return _state.traces[-1].table if _state.traces else None


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Make a trace the one in progress."""
    _state.traces.append(trace)
    outer = _running.get(id(trace.table))
    _running[id(trace.table)] = trace
    try:
        with paused_collector():
            yield
    finally:
        _state.traces.pop()
        _running.pop(id(trace.table))
        if outer is not None:
            _running[id(trace.table)] = outer
