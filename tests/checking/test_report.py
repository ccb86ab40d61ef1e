"""The table and the picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from symgrad.checking.check import check_derivatives
from symgrad.checking.report import SHOWN, CheckReport, Row
from symgrad.errors import GradientMismatch


def row(name: str, analytic: float, numeric: float, verdict: Any = "ok") -> Row:
    return Row(name, "reverse", analytic, numeric, 1e-9, 1e-3, verdict)


def test_errors_of_a_row() -> None:
    r = row("x", 2.0, 4.0)
    assert (r.abs_error, r.rel_error) == (2.0, 0.5)
    assert row("x", math.inf, math.inf).rel_error == 0.0
    assert row("x", 0.0, 0.0).rel_error == 0.0
    assert row("x", 1.0, math.inf).rel_error == math.inf


def test_the_worst_mismatch_is_a_coordinate() -> None:
    rows = (
        row("direction 1", 9.0, 1.0, "mismatch"), row("x[1]", 3.0, 1.0, "mismatch"), row("x[2]", 1.0, 1.001),
        row("x[3]", 4.0, 1.0, "mismatch"),
    )  # fmt: skip
    report = CheckReport("f", rows, 4)
    assert not report.ok
    assert [r.name for r in report.mismatches] == ["x[3]", "x[1]", "direction 1"]
    assert report.worst is rows[3]
    with pytest.raises(GradientMismatch, match=r"at x\[3\]"):
        report.raise_if_wrong()


def test_a_nan_is_worse_than_any_number() -> None:
    rows = (row("x[1]", 1e300, 1.0, "mismatch"), row("x[2]", math.nan, 1.0, "mismatch"))
    assert CheckReport("f", rows, 2).worst is rows[1]


def test_without_mismatch_the_least_accurate_is_worst() -> None:
    rows = (row("x[0]", 1.0, 1.0), row("x[1]", 1.0, 1.0001), row("x[2]", 0.0, 5.0, "kink"))
    report = CheckReport("f", rows, 3)
    assert report.ok
    assert report.worst is rows[1]
    assert report.message() == ""
    report.raise_if_wrong()


def test_the_table_shows_what_matters_first() -> None:
    rows = [row(f"x[{k}]", 1.0, 1.0 + k * 1e-9) for k in range(40)]
    rows[7] = row("x[7]", 0.0, 5.0, "kink")
    rows[9] = row("x[9]", 1.0, 2.0, "mismatch")
    rows[11] = row("x[11]", 1.0, 3.0, "unreliable")
    lines = str(CheckReport("loss", tuple(rows), 40)).splitlines()
    assert lines[0] == "derivatives of loss: 37 ok, 1 kink, 1 unreliable, 1 mismatch"
    assert lines[1].split() == [
        "coordinate", "mode", "analytic", "numeric", "error", "relative", "±", "numeric", "step", "verdict",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:6]] == ["x[9]", "x[11]", "x[7]", "x[39]"]
    assert len(lines) == 2 + SHOWN + 1
    assert lines[-1] == f"… and {40 - SHOWN} more"
    assert lines[2].split() == [
        "x[9]", "reverse", "1", "2", "1.0e+00", "5.0e-01", "1.0e-09", "1.0e-03", "mismatch",
    ]  # fmt: skip


def checked(factor: float) -> CheckReport:
    return check_derivatives(
        value=np.sin, args=(1.0,), reverse=lambda x: [factor * math.cos(x)], modes=("reverse",), names=["x"],
        raising=False,
    )  # fmt: skip


def drawn(picture: str) -> list[tuple[int, int]]:
    body = [line[7:] for line in picture.splitlines()[1:-2]]
    return [(column, k) for k, line in enumerate(body) for column, c in enumerate(line) if c == "*"]


def test_the_picture_of_a_right_derivative_is_a_valley() -> None:
    picture = checked(1.0).picture()
    assert picture.splitlines()[0].endswith("against log10 step: x, reverse mode")
    points = drawn(picture)
    lowest = max(points, key=lambda p: p[1])
    ends = [max(points), min(points)]
    assert all(lowest[1] > end[1] + 3 for end in ends)
    # Truncation and rounding of central differences balance near the cube root of the rounding error.
    assert 25 < lowest[0] < 58


def test_the_picture_of_a_wrong_derivative_is_a_plateau() -> None:
    points = drawn(checked(2.0).picture())
    rows = {k for column, k in points if column < 55}
    assert max(rows) - min(rows) <= 1


def test_the_picture_has_the_size_asked_for() -> None:
    lines = checked(1.0).picture(width=40, height=9).splitlines()
    assert len(lines) == 1 + 9 + 2
    assert max(map(len, lines[1:])) == 7 + 40


def test_an_exact_derivative_can_be_drawn() -> None:
    report = check_derivatives(value=lambda x: x, args=(0.0,), reverse=lambda x: [1.0], modes=("reverse",))
    assert drawn(report.picture())
