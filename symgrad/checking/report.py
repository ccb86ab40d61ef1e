"""What a check found: rows, a table, a picture of error against step, and the error to raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..errors import GradientMismatch
from .blame import Blame
from .line import Floats
from .verdict import Verdict

Curve = Callable[[], tuple[Floats, Floats]]

SHOWN = 12
_WORDS = {"reverse": "reverse mode", "forward": "forward mode", "second": "second order"}


@dataclass(frozen=True)
class Row:
    """One derivative, computed twice.

    Attributes
    ----------
    name
        Coordinate: ``params['w'][0, 2]``, with the direction for second derivatives.
    mode
        ``"reverse"``, ``"forward"`` or ``"second"``.
    analytic, numeric
        The two values.
    numeric_error
        Estimated error of ``numeric``.
    step
        Step of the finite differences.
    verdict
        ``"ok"``, ``"kink"`` (accepted: the value lies between the one-sided slopes), ``"unreliable"`` (finite
        differences cannot tell; accepted) or ``"mismatch"``.
    remark
        What else there is to say.
    curve
        Computes quotients and their steps, for the picture.
    """

    name: str
    mode: str
    analytic: float
    numeric: float
    numeric_error: float
    step: float
    verdict: Verdict
    remark: str = ""
    curve: Curve | None = field(default=None, repr=False, compare=False)

    @property
    def is_direction(self) -> bool:
        """Whether this is a derivative along a random direction of all coordinates."""
        return self.name.startswith("direction ") or " along direction " in self.name

    @property
    def abs_error(self) -> float:
        """Absolute difference of the two values."""
        return 0.0 if self.analytic == self.numeric else abs(self.analytic - self.numeric)

    @property
    def rel_error(self) -> float:
        """Difference in terms of the larger value."""
        size = max(abs(self.analytic), abs(self.numeric))
        if self.abs_error == 0 or size == 0:
            return 0.0
        return self.abs_error / size if math.isfinite(size) else math.inf


@dataclass(frozen=True)
class CheckReport:
    """The result of comparing derivatives with finite differences.

    Attributes
    ----------
    function
        Name of the function.
    rows
        One for each derivative that was compared.
    coordinates
        How many coordinates the function has.
    blame
        The operation whose own derivative disagrees, where one was found.
    advice
        What may explain a mismatch.
    """

    function: str
    rows: tuple[Row, ...]
    coordinates: int
    blame: Blame | None = None
    advice: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts the derivatives."""
        return not self.mismatches

    @property
    def mismatches(self) -> tuple[Row, ...]:
        """The rows that disagree, worst first."""
        return tuple(sorted((r for r in self.rows if r.verdict == "mismatch"), key=_badness))

    @property
    def worst(self) -> Row | None:
        """The mismatch with the largest error; without one, the largest relative error."""
        wrong = self.mismatches
        if wrong:
            return wrong[0]
        settled = [r for r in self.rows if r.verdict == "ok"] or list(self.rows)
        return max(settled, key=lambda r: _sortable(r.rel_error), default=None)

    def __str__(self) -> str:
        counts = {v: sum(r.verdict == v for r in self.rows) for v in ("ok", "kink", "unreliable", "mismatch")}
        listed = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
        title = f"derivatives of {self.function}: {listed or 'nothing to compare'}"
        if not self.rows:
            return title
        shown = self._chosen()
        lines = [title, *_table(shown)]
        if len(shown) < len(self.rows):
            lines.append(f"… and {len(self.rows) - len(shown)} more")
        return "\n".join(lines)

    def _chosen(self) -> list[Row]:
        """The rows worth showing: what is wrong, what is doubtful, and the least accurate of the rest."""
        rank = {"unreliable": 0, "kink": 1, "ok": 2}
        rest = sorted(
            (r for r in self.rows if r.verdict != "mismatch"),
            key=lambda r: (rank[r.verdict], -_sortable(r.rel_error)),
        )
        return [*self.mismatches, *rest][:SHOWN]

    def picture(self, width: int = 60, height: int = 14) -> str:
        """Error of plain central differences against the step, for the worst row, both as powers of ten.

        For a right derivative the error falls with the step until rounding takes over; for a wrong one it
        stays.
        """
        row = self.worst
        if row is None or row.curve is None:
            return ""
        steps, quotients = row.curve()
        error = np.abs(quotients - row.analytic)
        seen = np.isfinite(error)
        where = f"{row.name}, {_WORDS[row.mode]}"
        head = f"log10 |difference quotient - {row.analytic:.8g}| against log10 step: {where}"
        if not seen.any():
            return f"{head}\n  (nothing finite to draw)"
        return "\n".join([head, *_plot(steps[seen], error[seen], width, height)])

    def raise_if_wrong(self) -> None:
        """Raise the mismatch, if there is one.

        Raises
        ------
        GradientMismatch
            Naming the worst coordinate, both values, errors, step and mode, and the operation to blame.
        """
        if not self.ok:
            raise GradientMismatch(self.message())

    def message(self) -> str:
        """The text of the error; empty if there is none."""
        wrong = self.mismatches
        if not wrong:
            return ""
        row = wrong[0]
        lines = [
            f"the derivative of {self.function} disagrees with finite differences ({_WORDS[row.mode]})",
            f"  at {row.name}",
            f"  analytic {row.analytic!r}",
            f"  finite differences {row.numeric!r} ± {row.numeric_error:.1e} (step {row.step:.3g})",
            f"  absolute error {row.abs_error:.3g}, relative error {row.rel_error:.3g}",
        ]
        if row.remark:
            lines.append(f"  {row.remark}")
        if self.blame is not None:
            lines.append(f"  {self.blame}")
        if self.advice:
            lines.append(f"  {self.advice}")
        return "\n".join([*lines, "", str(self)])


def _badness(row: Row) -> tuple[bool, float, float]:
    """Sorts coordinates, which can be looked up, before directions, then by error."""
    # Six digits: both modes of one coordinate, which differ by rounding, come in their given order.
    error, relative = [float(f"{_sortable(e):.6e}") for e in (row.abs_error, row.rel_error)]
    return row.is_direction, -error, -relative


def _sortable(number: float) -> float:
    return math.inf if math.isnan(number) else number


def _table(rows: list[Row]) -> list[str]:
    head = ("coordinate", "mode", "analytic", "numeric", "error", "relative", "± numeric", "step", "verdict")
    cells = [head]
    for r in rows:
        verdict = f"{r.verdict}: {r.remark}" if r.remark else r.verdict
        numbers = (f"{r.abs_error:.1e}", f"{r.rel_error:.1e}", f"{r.numeric_error:.1e}", f"{r.step:.1e}")
        cells.append((r.name, r.mode, f"{r.analytic:.8g}", f"{r.numeric:.8g}", *numbers, verdict))
    widths = [max(len(row[k]) for row in cells) for k in range(len(head) - 1)]
    padded = [[*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]] for row in cells]
    return ["  " + "  ".join(row) for row in padded]


def _plot(steps: Floats, error: Floats, width: int, height: int) -> list[str]:
    """Points on a grid of characters; an exact zero is drawn on the floor."""
    positive = error[error > 0]
    low = math.floor(math.log10(positive.min())) if len(positive) else -17
    high = max(math.ceil(math.log10(positive.max())) if len(positive) else low + 1, low + 1)
    x = np.log10(steps)
    y = np.where(error > 0, np.log10(np.where(error > 0, error, 1.0)), low)
    left, right = float(x.min()), float(x.max())
    columns = np.rint((x - left) / max(right - left, 1e-9) * (width - 1)).astype(int)
    rows = np.rint((high - y) / (high - low) * (height - 1)).astype(int)
    grid = [[" "] * width for _ in range(height)]
    for column, row in zip(columns.tolist(), rows.tolist(), strict=True):
        grid[row][column] = "*"
    labels = {0: f"{high:>5d}", height - 1: f"{low:>5d}"}
    lines = [f"{labels.get(k, ''):>5} |{''.join(cells)}".rstrip() for k, cells in enumerate(grid)]
    ends = f"{left:.0f}".ljust(width - len(f"{right:.0f}")) + f"{right:.0f}"
    return [*lines, f"{'':>5} +{'-' * width}", f"{'':>6} {ends}"]
