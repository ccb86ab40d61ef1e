"""Limits of difference quotients as the step goes to zero, each with an error that rounding is part of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .line import Floats

Mask = NDArray[np.bool_]

RESOLVED = 0.1
"""A quotient is believed to differ from another one if its error is below this part of the difference."""


class Limit(NamedTuple):
    """A limit, its error and the smallest step it was computed from."""

    value: float
    error: float
    step: float


class Series(NamedTuple):
    """For each step the best extrapolation that ends there, with its error.

    Attributes
    ----------
    steps
        Largest first.
    value, error
        One an entry of ``steps``.
    noise
        The part of the error that comes from rounding.
    """

    steps: Floats
    value: Floats
    error: Floats
    noise: Floats


NOTHING = Series(np.empty(0), np.empty(0), np.empty(0), np.empty(0))


def noise_of(steps: Floats, quotients: Floats) -> float:
    """Rounding error of the function, from how its quotients jitter at the smallest steps."""
    if len(steps) < 4:
        return 0.0
    jitter = np.sort((steps[1:] * np.abs(np.diff(quotients)))[-14:])
    # Almost the largest: steps of few bits may agree by construction, not because there is no noise.
    return float(jitter[-2])


def extrapolate(steps: Floats, quotients: Floats, rounding: Floats, powers: Sequence[int]) -> Series:
    """Richardson extrapolation from every stretch of neighbouring steps.

    Parameters
    ----------
    steps
        Largest first, about a factor of two apart.
    quotients
        Difference quotients.
    rounding
        A bound for the rounding error of a value of the function, for each step.
    powers
        Exponents of the step in the error of a quotient: 2, 4, 6 for central differences, 1, 2, 3 for
        one-sided ones.
    """
    if len(steps) == 0:
        return NOTHING
    ratio = np.full(len(steps), np.nan)
    ratio[1:] = steps[:-1] / steps[1:]
    ratio[ratio > 4] = np.nan  # the ladder has a gap here
    noise = np.maximum(rounding, noise_of(steps, quotients)) / steps
    value, error = quotients.copy(), 2 * np.abs(quotients - _before(quotients)) + 2 * noise
    error[np.isnan(ratio) | np.isnan(error)] = np.inf
    column, amplified = quotients, noise
    for power in powers:
        weight = 1 / (ratio**power - 1)
        improved = column + weight * (column - _before(column))
        amplified = amplified * (1 + weight) + weight * _before(amplified)
        spread = np.maximum(np.abs(improved - column), np.abs(improved - _before(improved)))
        attempt = 2 * spread + 2 * amplified
        better = attempt < error
        value, error = np.where(better, improved, value), np.where(better, attempt, error)
        column = improved
    return Series(steps, value, error, noise)


def _before(values: Floats) -> Floats:
    shifted = np.full_like(values, np.nan)
    shifted[1:] = values[:-1]
    return shifted


def settle(series: Series) -> Limit:
    """The limit that a series supports.

    The smallest error wins, unless a smaller step clearly shows something else: what happens close to the
    point decides, a smooth trend far away does not.
    """
    steps, value, error, _ = series
    if len(steps) == 0 or not np.isfinite(error).any():
        return Limit(math.nan, math.inf, math.nan)
    best = int(np.nanargmin(error))
    while True:
        gap = np.abs(value - value[best])
        clear: Mask = (error <= RESOLVED * gap) & (steps < steps[best])
        clear = clear & (_agrees(value, error, 1) | _agrees(value, error, -1))
        if not clear.any():
            return Limit(float(value[best]), float(error[best]), float(steps[best]))
        best = int(np.argmin(np.where(clear, error, np.inf)))


def _agrees(value: Floats, error: Floats, shift: int) -> Mask:
    """Where an entry agrees with its neighbour as well as with itself."""
    neighbour, slack = np.roll(value, shift), np.roll(error, shift)
    with np.errstate(invalid="ignore"):
        same = np.abs(value - neighbour) <= 3 * error + np.minimum(slack, 0.05 * np.abs(value))
    same[0 if shift > 0 else -1] = False
    return np.asarray(same, dtype=np.bool_)


def diverges(steps: Floats, quotients: Floats, rounding: Floats) -> bool:
    """Whether quotients grow without bound as the step shrinks, at least like its logarithm."""
    growth, noise = np.diff(quotients), rounding / steps
    seen = np.flatnonzero(np.abs(growth) > 10 * (noise[1:] + noise[:-1]))
    if len(seen) == 0 or seen[-1] < 5:
        return False
    # Below the last visible change there is only rounding.
    tail = growth[seen[-1] - 5 : seen[-1] + 1]
    same_sign = bool((tail > 0).all() or (tail < 0).all())
    return same_sign and bool((np.abs(tail[1:]) >= 0.9 * np.abs(tail[:-1])).all())


def jumps(steps: Floats, quotients: Floats, rounding: Floats) -> bool:
    """Whether the function itself jumps: its change does not vanish with the step."""
    if len(steps) < 6:
        return False
    change = (steps * quotients)[-6:]
    same = np.abs(change - change[-1]) <= 0.02 * np.abs(change[-1])
    return bool(same.all() and (np.abs(change) > 10 * rounding[-6:]).all())
