"""A function along a line through the point of interest, and the steps at which to look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Not a round number: a step that is a multiple of a period would see no change at all.
_TOP = 0.3655
_FINE_BITS = 46


class Line:
    """Values of t ↦ f(x + t·d), each point computed once.

    Parameters
    ----------
    function
        Value at t, as an array of one axis: several functions can share a line.
    size
        Absolute value of what moves; 0 if it is zero.
    unit
        How far one may look when ``size`` says nothing: the size of its neighbours, at least that of x.
    eps
        Relative rounding error of the values.
    dtype
        Precision in which x + t·d is held.
    """

    def __init__(
        self,
        function: Callable[[float], Floats],
        size: float,
        unit: float,
        eps: float,
        dtype: Any = np.float64,
    ) -> None:
        self._function = function
        self._known: dict[float, Floats] = {}
        self.size = size
        self.unit = max(unit, size) or 1.0
        self.eps = eps
        self._dtype = np.dtype(dtype).type

    def at(self, t: float) -> Floats:
        """Values at t."""
        found = self._known.get(t)
        if found is None:
            found = self._known[t] = self._function(t)
        return found

    @property
    def evaluations(self) -> int:
        """How many points were computed."""
        return len(self._known)

    def quantum(self, step: float) -> float:
        """Spacing to which x ± step are rounded."""
        return 2.0 * float(np.spacing(self._dtype(self.size + step)))

    def exact(self, step: float) -> float:
        """The step nearest to this one for which both x + t and x − t are representable."""
        quantum = self.quantum(step)
        return max(round(step / quantum), 1) * quantum

    def steps(self, reach: float = 1.0) -> Floats:
        """A ladder of steps, largest first: down from ``unit`` and, further below, down from ``size``.

        Parameters
        ----------
        reach
            The largest step in terms of ``unit``.
        """
        top = _TOP * self.unit * reach
        # Logarithms: top / bottom may overflow.
        down = np.log2(top) - np.log2(self.size * _TOP) + _FINE_BITS if self.size else 75
        powers = np.arange(max(int(down), 1) + 1, dtype=float)
        steps = top * 2.0**-powers
        if len(steps) > 110:
            # x is tiny compared with its surroundings: two separate stretches.
            near = steps <= self.size * _TOP * 4
            steps = steps[near | (steps > top * 2.0**-24 / reach)]
        exact = [self.exact(h) for h in steps.tolist() if h > 8 * self.quantum(h)]
        return np.array(sorted(set(exact), reverse=True))

    def guesses(self) -> list[float]:
        """A few steps that suit most functions: relative to x, to its neighbours, and to 1."""
        found: list[float] = []
        for scale in (self.size, self.unit, 1.0):
            step = self.exact(scale * _TOP * 2.0**-8) if scale else 0.0
            if step and all(not 0.1 < step / other < 10 for other in found):
                found.append(step)
        return found


def sample(line: Line, steps: Floats) -> tuple[Floats, Floats]:
    """Values at +steps and −steps, one row a step."""
    ahead = np.stack([line.at(h) for h in steps.tolist()])
    behind = np.stack([line.at(-h) for h in steps.tolist()])
    return ahead, behind


def random_weights(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Numbers from 0.5 to 1.5 of either sign: none so small that it could hide something."""
    return np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape))
