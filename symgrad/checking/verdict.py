"""Whether an analytic derivative agrees with finite differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .extrapolation import Mask
from .finite_difference import Glance, Slope
from .line import Floats

Verdict = Literal["ok", "kink", "mismatch", "unreliable"]

RELATIVE = 1e-5
"""Disagreement that is always forgiven, in float64; a fault of one percent is a thousand times larger."""

_SAFETY = 3.0
_CERTAIN = 3e-3  # an error below this part of the derivative still shows a fault of one percent
# Derivatives that are this small, compared with what the function does elsewhere, need not be resolved; a
# first glance may forgive less than a close look.
_NEGLIGIBLE, _NEGLIGIBLE_AT_A_GLANCE = 1e-8, 1e-10


@dataclass(frozen=True)
class Tolerance:
    """What rounding in the analytic derivative is worth.

    Attributes
    ----------
    relative
        In terms of the derivative.
    absolute
        Rounding that large entries may leave in small ones.
    largest
        What counts as a large entry, to tell negligible ones.
    """

    relative: float
    absolute: float
    largest: float

    @classmethod
    def of(cls, largest: float, dtype: Any) -> Tolerance:
        """For a derivative that was computed in ``dtype``, among entries of this size."""
        eps = float(np.finfo(dtype).eps)
        return cls(max(RELATIVE, min(1e3 * eps, 3e-2)), 8 * eps * largest, largest)


def sizes_among(derivative: Floats, scales: Floats) -> Floats:
    """The size of large entries, as seen from each entry of a gradient.

    Coordinates may have different units: an entry is compared with others as such and in terms of the sizes
    of the coordinates, whichever forgives less.
    """
    magnitudes = np.where(np.isfinite(derivative), np.abs(derivative), 0.0)
    if not magnitudes.size:
        return magnitudes
    with np.errstate(over="ignore"):
        weighted = np.max(magnitudes * scales) / scales
    return np.asarray(np.minimum(np.max(magnitudes), weighted))


def accepts(look: Glance, analytic: Floats, tolerances: Sequence[Tolerance]) -> Mask:
    """Where four evaluations suffice to believe an analytic derivative; the others deserve a closer look."""
    size = np.maximum(np.abs(analytic), np.abs(look.value))
    relative, absolute, largest = np.array([(t.relative, t.absolute, t.largest) for t in tolerances]).T
    with np.errstate(invalid="ignore"):
        gap = np.abs(analytic - look.value)
        close = gap <= relative * size + absolute + _SAFETY * look.rounding
        # Either the numbers are sharp, or both are zero for all one can see.
        scale = np.maximum(look.scale, largest)
        sharp = (look.error <= _CERTAIN * size) | (look.error + size <= _NEGLIGIBLE_AT_A_GLANCE * scale)
    return np.asarray(look.smooth & close & sharp & ~look.flat & np.isfinite(analytic))


def judge(slope: Slope, analytic: float, tolerance: Tolerance) -> tuple[Verdict, str]:
    """Verdict on one derivative after a close look, and a remark where there is something to say."""
    if slope.kind == "unknown":
        return "unreliable", "the function is not finite around this point"
    if math.isnan(analytic):
        return "mismatch", "the derivative is NaN although the function is finite"
    if slope.kind == "kink":
        return _at_kink(slope, analytic, tolerance)
    if slope.kind == "jump":
        return _at_jump(slope, analytic, tolerance)
    remark = "at the edge of the domain: one-sided" if slope.kind == "edge" else ""
    if math.isinf(analytic) or math.isinf(slope.value):
        return ("ok" if analytic == slope.value else "mismatch"), remark
    size = max(abs(analytic), abs(slope.value))
    negligible = _NEGLIGIBLE * max(slope.scale, tolerance.largest)
    resolved = slope.error <= _CERTAIN * size
    slack = tolerance.relative * size + tolerance.absolute + _SAFETY * slope.error
    if not resolved:
        slack += 1e-12 * slope.scale
    if not abs(analytic - slope.value) <= slack:
        return "mismatch", remark
    if resolved or slope.error + size <= negligible or size == 0:
        return "ok", remark
    return "unreliable", "finite differences cannot resolve this derivative"


def _at_kink(slope: Slope, analytic: float, tolerance: Tolerance) -> tuple[Verdict, str]:
    low, high = min(slope.left, slope.right), max(slope.left, slope.right)
    ends = [abs(end) for end in (low, high) if math.isfinite(end)]
    slack = tolerance.absolute + 100 * tolerance.relative * max(ends, default=0.0)
    remark = f"kink within the step: slopes {slope.left:.6g} and {slope.right:.6g}"
    return ("kink" if low - slack <= analytic <= high + slack else "mismatch"), remark


def _at_jump(slope: Slope, analytic: float, tolerance: Tolerance) -> tuple[Verdict, str]:
    """A jump leaves the slope of the other side, or nothing, to compare with."""
    remark = "the function jumps here"
    sides = [side for side in (slope.left, slope.right) if not math.isnan(side)]
    fits = not sides or any(_near(analytic, side, slope.scale, tolerance) for side in sides)
    return ("kink" if fits else "mismatch"), remark


def _near(analytic: float, side: float, scale: float, tolerance: Tolerance) -> bool:
    if math.isinf(side) or math.isinf(analytic):
        return analytic == side
    slack = tolerance.absolute + 100 * tolerance.relative * abs(side) + 1e-9 * scale
    return abs(analytic - side) <= slack
