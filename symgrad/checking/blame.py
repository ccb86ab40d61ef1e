"""The first operation of a graph whose own derivative rule disagrees with finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.expr import CAPTURE, CONST, Expr, InternTable
from ..core.graph import Graph, label
from ..core.origin import Origin
from ..errors import NotDifferentiableError, ShapeError
from ..ops.evaluate import evaluate
from ..transforms.forward import pushforward
from ..transforms.reverse import pullback
from .finite_difference import glance, slope_of
from .line import Floats, Line, random_weights
from .verdict import Tolerance, accepts, judge

_ENOUGH = 3000
_SEED = 7


@dataclass(frozen=True)
class Blame:
    """An operation whose derivative rule is wrong at the values it met.

    Attributes
    ----------
    op
        Name of the operation.
    mode
        ``"reverse"`` or ``"forward"``; ``"none"`` where it has no derivative although its value changes.
    argument
        Position of the operand.
    analytic, numeric
        Derivative along a random perturbation of that operand.
    origin
        The user's line, where it is known.
    label
        What the user calls the result, where that is known.
    """

    op: str
    mode: str
    argument: int
    analytic: float
    numeric: float
    origin: Origin | None
    label: str = ""

    def __str__(self) -> str:
        where = f"\n    {self.origin}" if self.origin else ""
        result = f" ({self.label})" if self.label else ""
        rule = "it lets no derivative through" if self.mode == "none" else f"its {self.mode} rule"
        return (
            f"the operation to blame is {self.op}{result}, operand {self.argument}: {rule} gives "
            f"{self.analytic:.8g}, finite differences {self.numeric:.8g}{where}"
        )


def find_blame(graph: Graph, values: Sequence[Any]) -> Blame | None:
    """Check every operation by itself, at the values it has in this graph, operands first.

    Parameters
    ----------
    graph
        The traced function.
    values
        One for each input.

    Returns
    -------
    Blame or None
        None if every rule agrees with finite differences.
    """
    if len(values) != len(graph.inputs):
        raise ShapeError(f"the graph has {len(graph.inputs)} inputs, {len(values)} values were given")
    known = {x.id: np.asarray(v, x.dtype)[()] for x, v in zip(graph.inputs, values, strict=True)}
    moving = {x.id for x in graph.inputs if x.aval.is_float}
    checked = 0
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node.id in known:
                continue
            if node.op in (CONST, CAPTURE):
                known[node.id] = node.params[0][1].array[()]
                continue
            operands = [known[a.id] for a in node.args]
            known[node.id] = evaluate(node.op, operands, [a.aval for a in node.args], dict(node.params))
            active = [k for k, a in enumerate(node.args) if a.id in moving]
            if not (active and node.aval.is_float):
                continue
            moving.add(node.id)
            checked += 1
            found = _check_node(node, operands, active) if checked <= _ENOUGH else None
            if found is not None:
                return found
    return None


def _check_node(node: Expr, operands: list[Any], active: list[int]) -> Blame | None:
    local = _Local(node, operands)
    for k in active:
        found = local.check(k)
        if found is not None:
            return found
    return None


class _Local:
    """One operation alone, in float64 where it is floating point."""

    def __init__(self, node: Expr, operands: list[Any]) -> None:
        self.node = node
        self.rng = np.random.default_rng(_SEED)
        floating = [a.aval.is_float for a in node.args]
        self.operands = [
            np.asarray(x, np.float64 if wide else None)[()]
            for x, wide in zip(operands, floating, strict=True)
        ]
        avals = [a.aval.with_dtype(np.float64) if a.aval.is_float else a.aval for a in node.args]
        self.table = InternTable()
        self.inputs = [self.table.input(aval) for aval in avals]
        self.out = self.table.remake(node.op, tuple(self.inputs), node.params)
        self.weights = random_weights(self.rng, self.out.shape)

    def check(self, k: int) -> Blame | None:
        """Compare both rules for one operand with finite differences."""
        x = np.asarray(self.operands[k])
        sizes = np.where(x != 0, np.abs(x), 1.0)
        direction = random_weights(self.rng, x.shape) * sizes
        direction = self._project(k, np.where(np.isfinite(direction), direction, 0.0))

        def along(t: float) -> Floats:
            moved = [*self.operands]
            moved[k] = (x + t * direction)[()]
            try:
                out = self._evaluate(moved)
            except (ArithmeticError, ValueError):
                return np.full(1, np.nan)  # off the domain, as in the check of the whole function
            return np.asarray([np.sum(self.weights * out)], dtype=np.float64)

        eps = float(np.finfo(self.out.dtype).eps)
        line = Line(along, 1.0, 1.0, eps)
        rules = self._rules(k, direction)
        analytic = np.array([value for _, value in rules])
        tolerance = Tolerance.of(float(np.max(np.abs(analytic))), self.out.dtype)
        if accepts(glance(line, line.guesses()[0]), analytic, [tolerance] * len(rules)).all():
            return None
        slope = slope_of(line)
        for mode, value in rules:
            if judge(slope, value, tolerance)[0] == "mismatch":
                node = self.node
                return Blame(node.op.name, mode, k, value, slope.value, node.origin, label(node))
        return None

    def _project(self, k: int, direction: Floats) -> Floats:
        """A perturbation that the operation admits: its samples say what must stay symmetric."""
        for sample in self.node.op.samples:
            project = sample.tangents[k] if sample.tangents else None
            if project is not None:
                return np.asarray(project(direction), dtype=np.float64)
        return direction

    def _evaluate(self, operands: list[Any]) -> Any:
        return evaluate(self.out.op, operands, [x.aval for x in self.inputs], dict(self.out.params))

    def _rules(self, k: int, direction: Floats) -> list[tuple[str, float]]:
        """Derivative along the direction by either rule."""
        if self.node.op.kind == "nondiff":
            return [("none", 0.0)]
        wrt, seed = self.inputs[k], self.table.input(self.out.aval)
        tangent = self.table.input(wrt.aval)
        try:
            (ahead,) = pushforward([self.out], [wrt], [tangent])
            (back,) = pullback([self.out], [seed], [wrt])
        except NotDifferentiableError:
            return [("none", 0.0)]
        known = {x.id: v for x, v in zip(self.inputs, self.operands, strict=True)}
        known[seed.id], known[tangent.id] = self.weights, direction
        forward = 0.0 if ahead is None else float(np.sum(self.weights * self._value(ahead, known)))
        reverse = 0.0 if back is None else float(np.sum(self._value(back, known) * direction))
        return [("reverse", reverse), ("forward", forward)]

    def _value(self, expr: Expr, known: dict[int, Any]) -> Any:
        graph = Graph([], [expr])
        for node in graph.nodes:
            if node.id in known:
                continue
            if node.op in (CONST, CAPTURE):
                known[node.id] = node.params[0][1].array[()]
            else:
                operands = [known[a.id] for a in node.args]
                known[node.id] = evaluate(node.op, operands, [a.aval for a in node.args], dict(node.params))
        return known[expr.id]
