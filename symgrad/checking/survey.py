"""Which derivatives to compare, and comparing each with as few evaluations as it allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .finite_difference import Glance, Slope, glance, slope_of
from .line import Floats, Line, random_weights, sample
from .problem import Problem, Tangent, is_python, quietly, symmetric
from .report import Row
from .verdict import Tolerance, Verdict, accepts, judge, sizes_among

_SEED = 5
_SAMPLE = 256
_DIRECTIONS = 4
_CLOSE_LOOKS_AT_MISMATCHES = 30
_FULL_HESSIAN = 20


class Outcome(NamedTuple):
    """One analytic value against the numerical one."""

    numeric: float
    error: float
    step: float
    verdict: Verdict
    remark: str
    smooth: bool = True

    @classmethod
    def closely(cls, slope: Slope, analytic: float, tolerance: Tolerance) -> Outcome:
        """After a close look."""
        verdict, remark = judge(slope, analytic, tolerance)
        return cls(slope.value, slope.error, slope.step, verdict, remark, slope.kind == "smooth")

    @classmethod
    def at_a_glance(cls, look: Glance, component: int = 0) -> Outcome:
        """Where four evaluations sufficed."""
        return cls(float(look.value[component]), float(look.error[component]), look.step, "ok", "")


class Survey:
    """Compares the derivatives of one problem.

    Parameters
    ----------
    problem
        The function.
    reverse, forward, modes, method, limit
        As in :func:`symgrad.checking.check.check_derivatives`.
    """

    def __init__(
        self,
        problem: Problem,
        reverse: Callable[..., Any] | None,
        forward: Callable[..., Any] | None,
        modes: Sequence[str],
        method: str,
        limit: int,
    ) -> None:
        self.problem = problem
        self.forward = forward
        self.modes = tuple(modes)
        self.method = method
        self.limit = limit
        self.gradient = None
        if reverse is not None and "reverse" in modes:
            self.gradient = problem.vector(problem.call(reverse, problem.given))
        self._sizes = None if self.gradient is None else sizes_among(self.gradient, problem.scales())
        self._patience = _CLOSE_LOOKS_AT_MISMATCHES
        self._hint = 0.0
        self._kinks: set[int] = set()
        self._located: set[int] = set()
        self._dtype = max(problem.dtypes, key=lambda dtype: np.finfo(dtype).eps)

    # ---------------------------------------------------------------- first order

    def first_order(self) -> list[Row]:
        """Rows for coordinates and random directions."""
        complete = self.problem.size <= self.limit
        rows = []
        for coordinate in self._coordinates().tolist():
            rows += self.coordinate_rows(coordinate)
        # One direction shows whether the modes add up; only where coordinates are left out it shows more.
        count = _DIRECTIONS if not complete else min(self.problem.size - 1, 1)
        for k in range(count):
            direction = self._direction(k)
            direction[list(self._located)] = 0.0  # one row about them is enough
            if np.any(direction):
                rows += self._direction_rows(direction, f"direction {k + 1}", complete)
        return rows

    def _coordinates(self) -> Any:
        """All coordinates; of many a sample that holds the largest entries of the gradient."""
        n = self.problem.size
        if n <= self.limit:
            return np.arange(n)
        chosen = np.random.default_rng(_SEED).choice(n, min(_SAMPLE, n), replace=False)
        if self.gradient is not None:
            top = np.argpartition(np.nan_to_num(np.abs(self.gradient)), n - 8)[-8:]
            chosen = np.concatenate([chosen, top])
        return np.unique(chosen)

    def coordinate_rows(self, coordinate: int) -> list[Row]:
        """One row a mode for one coordinate."""
        problem = self.problem
        axis = np.zeros(problem.size)
        axis[coordinate] = 1.0
        axis = problem.project(axis) if problem.perturbation(coordinate) is not None else axis

        def line() -> Line:
            return problem.coordinate_line(coordinate, problem.value, problem.eps)

        leaf, _ = problem.place(coordinate)
        analytic = self._analytic(axis)
        largest = float(np.max(np.abs(analytic))) if self._sizes is None else float(self._sizes[coordinate])
        tolerance = Tolerance.of(largest, problem.dtypes[leaf])
        outcomes = self._compare(line(), analytic, tolerance, axis)
        if not all(o.smooth for o in outcomes):
            self._kinks.add(coordinate)
        return self._rows(problem.name(coordinate), analytic, outcomes, line)

    def _analytic(self, direction: Floats) -> Floats:
        """Derivative along a direction, one value a mode."""
        found = []
        for mode in self.modes:
            if mode == "reverse":
                assert self.gradient is not None
                # A zero component ignores what the gradient says there, be it infinite or NaN.
                moving = direction != 0
                found.append(float(np.dot(self.gradient[moving], direction[moving])))
            else:
                assert self.forward is not None
                found.append(float(self.forward(self.problem.as_tangents(direction))))
        return np.array(found)

    def _rows(
        self, name: str, analytic: Floats, outcomes: list[Outcome], line: Callable[[], Line]
    ) -> list[Row]:
        return [
            Row(name, mode, float(a), *outcome[:5], _curve(line, 0))
            for mode, a, outcome in zip(self.modes, analytic, outcomes, strict=True)
        ]

    # ---------------------------------------------------------------- one comparison

    def _compare(
        self, line: Line, analytic: Floats, tolerance: Tolerance, direction: Floats
    ) -> list[Outcome]:
        if self.method == "complex":
            exact = self.problem.complex_step(direction)
            slack = tolerance.relative * np.maximum(abs(exact), np.abs(analytic)) + tolerance.absolute
            if (np.abs(analytic - exact) <= slack).all():
                error = 4 * self.problem.eps * abs(exact)
                return [Outcome(exact, error, 2.0**-200, "ok", "")] * len(analytic)
        look, flat = None, True
        if self.method == "auto":
            for step in self._steps(line):
                look = glance(line, step)
                flat &= bool(look.flat[0])
                if accepts(look, analytic, [tolerance] * len(analytic)).all():
                    return [Outcome.at_a_glance(look)] * len(analytic)
            # A function may be flat at small steps because of rounding; flat at all of them, it is constant.
            if look is not None and flat and not np.any(analytic):
                return [Outcome.at_a_glance(look)] * len(analytic)
        if look is not None and self._patience <= 0 and look.smooth[0]:
            slope = Slope(float(look.value[0]), float(look.error[0]), look.step, scale=float(look.scale[0]))
        else:
            slope = slope_of(line)
            self._hint = slope.step if slope.kind == "smooth" else self._hint
        outcomes = [Outcome.closely(slope, float(a), tolerance) for a in analytic]
        self._patience -= any(o.verdict == "mismatch" for o in outcomes)
        return outcomes

    def _steps(self, line: Line) -> list[float]:
        """Steps to try: first the one that settled a similar derivative."""
        hint = [line.exact(self._hint)] if self._hint > 0 else []
        return hint + line.guesses()

    # ---------------------------------------------------------------- directions

    def _direction(self, seed: int) -> Floats:
        """A random direction in units of the coordinates; not through kinks, where slopes do not add up."""
        rng = np.random.default_rng(_SEED + seed)
        direction = random_weights(rng, (self.problem.size,)) * self.problem.scales()
        direction[list(self._kinks)] = 0.0
        if self.gradient is not None:
            direction[~np.isfinite(self.gradient)] = 0.0
        return self._representable(self.problem.project(np.where(np.isfinite(direction), direction, 0.0)))

    def _representable(self, direction: Floats) -> Floats:
        """The direction that the tangents in the original dtypes stand for."""
        parts = zip(self.problem.split(direction), self.problem.dtypes, strict=True)
        return np.concatenate([part.astype(dtype).astype(np.float64).ravel() for part, dtype in parts])

    def _direction_rows(self, direction: Floats, name: str, complete: bool) -> list[Row]:
        analytic, outcomes, line = self._along(direction)
        rows = self._rows(name, analytic, outcomes, line)
        if complete or not any(row.verdict == "mismatch" for row in rows):
            return rows
        coordinate = self._locate(direction)
        if coordinate is None:
            return rows
        self._located.add(coordinate)
        return self._settle(rows, self.coordinate_rows(coordinate))

    def _along(self, direction: Floats) -> tuple[Floats, list[Outcome], Callable[[], Line]]:
        problem = self.problem

        def line() -> Line:
            return problem.direction_line(direction, problem.value, problem.eps)

        analytic = self._analytic(direction)
        # The terms of the sum round, not only their total.
        moving = direction != 0
        terms = analytic if self.gradient is None else self.gradient[moving] * direction[moving]
        tolerance = Tolerance.of(float(np.max(np.abs(terms))), self._dtype)
        return analytic, self._compare(line(), analytic, tolerance, direction), line

    def _locate(self, direction: Floats) -> int | None:
        """Halve the set of moving coordinates until one disagrees alone."""
        moving = np.flatnonzero(direction)
        while len(moving) > 1:
            for half in np.array_split(moving, 2):
                part = np.zeros_like(direction)
                part[half] = direction[half]
                outcomes = self._along(self.problem.project(part))[1]
                if any(o.verdict == "mismatch" for o in outcomes):
                    moving = half
                    break
            else:
                return None
        return int(moving[0])

    def _settle(self, rows: list[Row], found: list[Row]) -> list[Row]:
        """Rows of a direction that disagrees together with those of the coordinate it led to."""
        if any(row.verdict == "mismatch" for row in found):
            return rows + found
        remark = f"it crosses a kink in {found[0].name}"
        return [replace(row, verdict="kink", remark=remark) for row in rows] + found

    # ---------------------------------------------------------------- second order

    def second_order(self, reverse: Callable[..., Any], second: Callable[..., Any]) -> list[Row]:
        """Rows for products of the Hessian with axes, where they are few, and with random directions."""
        problem = self.problem
        eps = _gradient_eps(problem.call(reverse, problem.leaves))

        def gradient(leaves: Sequence[Any]) -> Floats:
            return problem.gradient(reverse, leaves)

        rows = []
        if problem.size <= _FULL_HESSIAN:
            for j in range(problem.size):
                if j not in self._kinks:
                    axis = np.zeros(problem.size)
                    axis[j] = 1.0
                    make = _deferred(problem.coordinate_line, j, gradient, eps)
                    rows += self._hessian_rows(second, problem.project(axis), make, problem.name(j))
        for k in range(min(problem.size - 1, 2)):
            direction = self._direction(k)
            if np.any(direction):
                make = _deferred(problem.direction_line, direction, gradient, eps)
                rows += self._hessian_rows(second, direction, make, f"direction {k + 1}")
        return rows

    def _hessian_rows(
        self, second: Callable[..., Any], direction: Floats, make: Callable[[], Line], name: str
    ) -> list[Row]:
        problem = self.problem
        analytic = problem.vector(second(problem.as_tangents(direction)))
        sizes = sizes_among(analytic, problem.scales())
        tolerances = [Tolerance.of(size, self._dtype) for size in sizes.tolist()]
        outcomes = self._compare_all(make(), analytic, tolerances)
        return [
            Row(f"{problem.name(i)} along {name}", "second", float(analytic[i]), *found[:5], _curve(make, i))
            for i, found in sorted(outcomes.items())
        ]

    def _compare_all(
        self, line: Line, analytic: Floats, tolerances: Sequence[Tolerance]
    ) -> dict[int, Outcome]:
        """Outcomes for the functions that share a line, by their number."""
        pending = np.arange(len(analytic)) if len(analytic) <= self.limit else self._coordinates()
        outcomes: dict[int, Outcome] = {}
        flat = analytic == 0
        for step in [] if self.method == "central" else self._steps(line):
            look = glance(line, step)
            flat &= look.flat
            good = accepts(look, analytic, tolerances)[pending]
            outcomes |= {i: Outcome.at_a_glance(look, i) for i in pending[good].tolist()}
            pending = pending[~good]
            if len(pending) == 0:
                return outcomes
        for i in pending.tolist():
            if flat[i] and self.method != "central":
                outcomes[i] = Outcome.at_a_glance(look, i)
            else:
                outcomes[i] = Outcome.closely(slope_of(line, i), float(analytic[i]), tolerances[i])
        return outcomes

    # ---------------------------------------------------------------- explanations

    def symmetric_explanation(self, wrong: Sequence[Row]) -> int | None:
        """The leaf whose symmetry explains all mismatches, if there is one."""
        problem = self.problem
        names = {row.name for row in wrong}
        for leaf, values in enumerate(problem.leaves):
            array = np.asarray(values)
            if array.ndim < 2 or array.shape[-1] != array.shape[-2] or problem.tangents[leaf] is not None:
                continue
            own = range(*problem.offsets[leaf : leaf + 2])
            places = [k for k in own if problem.name(k) in names]
            others = names - {problem.name(k) for k in places}
            if not places or any(not name.startswith("direction") for name in others):
                continue
            is_symmetric = np.array_equal(array, np.swapaxes(array, -1, -2))
            if is_symmetric and self._right_if_symmetric(leaf, places[:9]):
                return leaf
        return None

    def _right_if_symmetric(self, leaf: int, places: list[int]) -> bool:
        tangents: list[Tangent | None] = self.problem.tangents
        tangents[leaf] = symmetric
        try:
            rows = [row for place in places for row in self.coordinate_rows(place)]
        finally:
            tangents[leaf] = None
        return all(row.verdict != "mismatch" for row in rows)


def _gradient_eps(parts: Sequence[Any]) -> float:
    """Rounding error of a gradient."""
    dtypes = [np.asarray(part).dtype for part in parts if part is not None and not is_python(part)]
    return max((float(np.finfo(d).eps) for d in dtypes if d.kind == "f"), default=float(np.finfo(float).eps))


def _deferred(make: Callable[..., Line], *args: Any) -> Callable[[], Line]:
    return lambda: make(*args)


def _curve(make: Callable[[], Line], component: int) -> Callable[[], tuple[Floats, Floats]]:
    """Central difference quotients of a line at all its steps, computed when asked for."""

    def curve() -> tuple[Floats, Floats]:
        line = make()
        steps = line.steps()
        with quietly():
            ahead, behind = sample(line, steps)
        return steps, np.asarray((ahead[:, component] / 2 - behind[:, component] / 2) / steps)

    return curve
