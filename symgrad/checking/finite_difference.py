"""Accurate numerical derivatives along a line, with an error estimate and the slopes of both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .extrapolation import RESOLVED, Mask, Series, diverges, extrapolate, jumps, settle
from .line import Floats, Line, sample

Kind = Literal["smooth", "kink", "jump", "edge", "unknown"]

_ENOUGH = 6
_GOOD = 1e-4


@dataclass(frozen=True)
class Slope:
    """What finite differences say about a derivative.

    Attributes
    ----------
    value
        Central derivative; at an edge of the domain and at a jump the slope of the one side, or NaN.
    error
        Estimated error of ``value``.
    step
        Smallest step that ``value`` was computed from.
    left, right
        One-sided slopes where they were needed: infinite where they diverge, NaN where there is none.
    kind
        ``"smooth"``; ``"kink"`` where the sides differ; ``"jump"`` where the function is not continuous;
        ``"edge"`` where the function is finite on one side only; ``"unknown"`` where nothing can be said.
    scale
        Size of the quotients at large steps: what a slope of this function may be expected to be.
    """

    value: float
    error: float
    step: float
    left: float = math.nan
    right: float = math.nan
    kind: Kind = "smooth"
    scale: float = 0.0


def differentiate(f: Callable[[float], Any], x: float, *, unit: float = 1.0) -> Slope:
    """Numerical derivative of a function of one number.

    The step adapts to the function: to the size of x, to how fast the function changes, to the rounding
    errors it makes, and to the edges of its domain (where it gives NaN or infinity).

    Parameters
    ----------
    f
        Function of a number; it is called with ``np.float64``.
    x
        Where.
    unit
        Size of the surroundings that matter.

    Returns
    -------
    Slope

    Examples
    --------
    >>> import numpy as np
    >>> slope = differentiate(lambda x: np.sin(1e6 * x), 1.0)
    >>> bool(abs(slope.value - 1e6 * np.cos(1e6)) < 1e-5 * 1e6)
    True
    >>> kink = differentiate(abs, 0.0)
    >>> kink.kind, kink.left, kink.right
    ('kink', -1.0, 1.0)
    """

    def along(t: float) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(f(np.float64(x + t)), dtype=float).reshape(1)

    line = Line(along, abs(x), max(unit, abs(x)), float(np.finfo(float).eps))
    return slope_of(line)


def slope_of(line: Line, component: int = 0) -> Slope:
    """Slope at t = 0 of one of the functions on a line, by looking at all steps."""
    study = Study(line, component, 1.0)
    slope = study.slope()
    if slope.kind == "smooth" and not slope.error <= max(_GOOD * abs(slope.value), 1e-9 * slope.scale):
        # Nothing clear within the surroundings: the function may vary slowly or be large.
        wider = Study(line, component, 2.0**12).slope()
        consistent = abs(wider.value - slope.value) <= slope.error
        if wider.kind == "smooth" and wider.error < slope.error and consistent:
            return wider
    return slope


class Study:
    """One function on a line at all steps of the ladder."""

    def __init__(self, line: Line, component: int, reach: float) -> None:
        self.line = line
        self.component = component
        self.centre = float(line.at(0.0)[component])
        self.steps = line.steps(reach)
        ahead, behind = sample(line, self.steps)
        self.ahead, self.behind = ahead[:, component], behind[:, component]
        self.level = 0.0
        if math.isfinite(self.centre):
            self._drop_steps_without_information()

    def slope(self) -> Slope:
        """The verdict on this function."""
        if not math.isfinite(self.centre):
            return Slope(math.nan, math.inf, math.nan, kind="unknown")
        right, left = _tail_where(np.isfinite(self.ahead)), _tail_where(np.isfinite(self.behind))
        if right >= _ENOUGH and left >= _ENOUGH:
            return self._central(min(right, left))
        if right >= _ENOUGH or left >= _ENOUGH:
            return self._edge(right, left)
        return Slope(math.nan, math.inf, math.nan, kind="unknown")

    # ---------------------------------------------------------------- both sides

    def _central(self, count: int) -> Slope:
        steps, ahead, behind = self.steps[-count:], self.ahead[-count:], self.behind[-count:]
        quotients = (ahead / 2 - behind / 2) / steps
        limit = settle(extrapolate(steps, quotients, self._rounding(ahead, behind), (2, 4, 6)))
        left, right, kind = self._sides(count)
        if math.isinf(left) and left == right:
            return Slope(left, 0.0, float(steps[-1]), left, right, kind, self._scale())
        if kind == "jump":
            sides = [side for side in (left, right) if not math.isnan(side)]
            value = sides[0] if len(sides) == 1 else math.nan
            return Slope(value, math.nan, float(steps[-1]), left, right, kind, self._scale())
        return Slope(limit.value, limit.error, limit.step, left, right, kind, self._scale())

    def _sides(self, count: int) -> tuple[float, float, Kind]:
        """One-sided slopes, and whether they differ however small the step."""
        steps = self.steps[-count:]
        rises = [(self.ahead[-count:] - self.centre) / steps, (self.centre - self.behind[-count:]) / steps]
        roundings = [self._rounding(side[-count:]) for side in (self.ahead, self.behind)]
        jump = [jumps(steps, q, r) for q, r in zip(rises, roundings, strict=True)]
        # An error of the central value looks like a jump on both sides. It stays when the step vanishes.
        bend = np.abs(self.ahead[-8:] / 2 + self.behind[-8:] / 2 - self.centre)
        offset = float(np.median(bend))
        steep = [diverges(steps, q, r + offset) for q, r in zip(rises, roundings, strict=True)]
        series = [extrapolate(steps, q, r, (1, 2, 3)) for q, r in zip(rises, roundings, strict=True)]
        right, left = [
            math.copysign(math.inf, q[-1]) if s else settle(one).value
            for q, s, one in zip(rises, steep, series, strict=True)
        ]
        if any(jump):
            # The quotient across a jump says nothing about a derivative.
            return (math.nan if jump[1] else left), (math.nan if jump[0] else right), "jump"
        if any(steep):
            return left, right, "kink"
        found = _kink(series[1], series[0])
        return (*found, "kink") if found else (left, right, "smooth")

    # ---------------------------------------------------------------- one side

    def _edge(self, right: int, left: int) -> Slope:
        side, sign, count = (self.ahead, 1.0, right) if right >= left else (self.behind, -1.0, left)
        steps, values = self.steps[-count:], side[-count:]
        rises, rounding = sign * (values - self.centre) / steps, self._rounding(values)
        if diverges(steps, rises, rounding):
            infinite = math.copysign(math.inf, rises[-1])
            ends = (math.nan, infinite) if sign > 0 else (infinite, math.nan)
            return Slope(infinite, 0.0, float(steps[-1]), *ends, "edge", self._scale())
        limit = settle(extrapolate(steps, rises, rounding, (1, 2, 3)))
        ends = (math.nan, limit.value) if sign > 0 else (limit.value, math.nan)
        return Slope(*limit, *ends, "edge", self._scale())

    # ---------------------------------------------------------------- rounding

    def _rounding(self, *sides: Floats) -> Floats:
        largest = np.full(len(sides[0]), abs(self.centre))
        for side in sides:
            largest = np.maximum(largest, np.abs(side))
        return np.maximum(0.5 * self.line.eps * largest, self.level)

    def _scale(self) -> float:
        """Size of the quotients at steps comparable with the surroundings, on the tamer side of the point."""
        far = self.steps >= min(self.line.unit * 2.0**-10, self.steps[0])
        with np.errstate(invalid="ignore"):
            rises = [np.abs(side[far] - self.centre) / self.steps[far] for side in (self.ahead, self.behind)]
            tamer = np.fmin(*rises)
        tamer = tamer[np.isfinite(tamer)]
        return float(tamer.max()) if len(tamer) else 0.0

    def _drop_steps_without_information(self) -> None:
        """Forget the smallest steps if only rounding keeps the function from changing there."""
        runs = [_tail_where(side == self.centre) for side in (self.ahead, self.behind)]
        if min(runs) == 0 or min(runs) >= len(self.steps) - 3:
            return
        # A stair may end close to x on one side; the other side shows how wide it is.
        count = max(runs) if max(runs) < len(self.steps) - 3 else min(runs)
        flat = float(self.steps[-count])
        change = self._change_beyond(count)
        if change > 8 * self.line.eps * abs(self.centre):
            if flat > 1e-2 * self.line.unit or not self._is_staircase(flat):
                return
            self.level = change
        self.steps, self.ahead, self.behind = self.steps[:-count], self.ahead[:-count], self.behind[:-count]

    def _change_beyond(self, count: int) -> float:
        """How much the function changes over the first steps at which it does."""
        near = slice(max(len(self.steps) - count - 2, 0), len(self.steps) - count)
        changes = np.concatenate([self.ahead[near], self.behind[near]]) - self.centre
        changes = np.abs(changes[np.isfinite(changes)])
        return float(changes.max()) if len(changes) else 0.0

    def _is_staircase(self, flat: float) -> bool:
        """Whether the function is flat in other places too, at other heights: then it is rounded there."""
        heights, level = {self.centre}, 0
        for where in (3.3, 5.7, 9.1, 14.3, -3.3, -5.7, -9.1, -14.3):
            values = [float(self.line.at((where + d) * flat)[self.component]) for d in (-1e-3, 0.0, 1e-3)]
            level += values[0] == values[1] == values[2]
            heights.add(values[1])
        return level >= 6 and len(heights) >= 3


def _tail_where(holds: Mask) -> int:
    """For how many of the smallest steps, without a gap, something holds."""
    broken = np.flatnonzero(~holds)
    return len(holds) - (int(broken[-1]) + 1 if len(broken) else 0)


def _kink(left: Series, right: Series) -> tuple[float, float] | None:
    """One-sided slopes at the smallest step that resolves both, if they differ there."""
    size = np.maximum(np.abs(left.value), np.abs(right.value))
    clear = np.flatnonzero((left.error <= RESOLVED * size) & (right.error <= RESOLVED * size))
    if len(clear) < 2 or clear[-2] != clear[-1] - 1:
        return None
    for k in clear[-2:]:
        gap = abs(left.value[k] - right.value[k])
        if not gap > max(5 * (left.error[k] + right.error[k]), 1e-6 * size[k]):
            return None
    # Coarser steps that show the same are more accurate.
    last = int(clear[-1])
    total = left.error + right.error
    same = [
        k for k in clear.tolist()
        if max(abs(left.value[k] - left.value[last]), abs(right.value[k] - right.value[last])) <= total[last]
    ]
    best = min(same, key=lambda k: float(total[k]))
    return float(left.value[best]), float(right.value[best])


@dataclass(frozen=True)
class Glance:
    """Derivatives of all functions on a line from two steps only: four evaluations.

    Attributes
    ----------
    step
        The larger step.
    value, error
        One entry a function.
    rounding
        The part of the error that is unavoidable.
    smooth
        False where the sides disagree as they would at a kink, or where the function is not finite.
    flat
        Where the function does not change at all.
    scale
        Size of the one-sided quotients.
    """

    step: float
    value: Floats
    error: Floats
    rounding: Floats
    smooth: Mask
    flat: Mask
    scale: Floats


def glance(line: Line, step: float) -> Glance:
    """Look at a line with one step and its half."""
    big, small = step, line.exact(step / 2)
    centre, steps = line.at(0.0), np.array([[big], [small]])
    ahead, behind = sample(line, steps[:, 0])
    with np.errstate(all="ignore"):
        rough = (ahead / 2 - behind / 2) / steps
        value = rough[1] + (rough[1] - rough[0]) / ((big / small) ** 2 - 1)
        largest = np.maximum(np.maximum(np.abs(ahead), np.abs(behind)).max(axis=0), np.abs(centre))
        rounding = 2 * line.eps * largest / small
        error = np.abs(value - rough[1]) + rounding
        rises, falls = (ahead - centre) / steps, (centre - behind) / steps
        scale = np.minimum(np.abs(rises[0]), np.abs(falls[0]))
        bend = np.abs(rises - falls)
        smooth = bend[1] <= np.maximum(0.7 * bend[0], 1e-6 * np.abs(value)) + 4 * rounding
        smooth &= np.isfinite(value) & np.isfinite(centre)
        flat = ((ahead == centre) & (behind == centre)).all(axis=0)
    return Glance(step, value, error, rounding, smooth, flat, scale)
