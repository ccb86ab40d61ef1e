"""No false alarm on right derivatives at awkward points, and no wrong one passes there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from symgrad.checking.check import check_derivatives
from symgrad.checking.finite_difference import differentiate
from symgrad.checking.report import CheckReport
from tests.checking.zoo import CASES

NAMES = [name for name, *_ in CASES]


def slopes(f: Callable[[Any], Any], derivative: Callable[[Any], Any], x: float) -> bool:
    """Whether the derivative is neither zero nor lost in the rounding of the value: a fault can be seen."""
    return abs(derivative(np.float64(x))) > 1e-9 * abs(f(np.float64(x))) / max(abs(x), 1.0)


SLOPING = [case for case in CASES if slopes(*case[1:])]


def check(f: Callable[[Any], Any], slope: float, x: float, **options: Any) -> CheckReport:
    options |= {"modes": ("reverse",), "raising": False}
    return check_derivatives(value=f, args=(np.float64(x),), reverse=lambda x: [slope], **options)


def test_the_zoo_is_large() -> None:
    assert len(CASES) > 180
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(("name", "f", "derivative", "x"), CASES, ids=NAMES)
def test_right_derivatives_are_accepted(name: str, f: Any, derivative: Any, x: float) -> None:
    report = check(f, float(derivative(np.float64(x))), x)
    assert report.ok, str(report)
    assert [row.verdict for row in report.rows] == ["ok"] * len(report.rows), str(report)


@pytest.mark.parametrize(("name", "f", "derivative", "x"), SLOPING, ids=[case[0] for case in SLOPING])
@pytest.mark.parametrize("fault", [1.01, -1.0, 0.0])
def test_wrong_derivatives_are_rejected(name: str, f: Any, derivative: Any, x: float, fault: float) -> None:
    report = check(f, fault * float(derivative(np.float64(x))), x)
    assert not report.ok
    assert report.worst is not None
    assert report.worst.name == "args[0]"


@pytest.mark.parametrize(("name", "f", "derivative", "x"), CASES, ids=NAMES)
def test_errors_are_not_underestimated(name: str, f: Any, derivative: Any, x: float) -> None:
    right = float(derivative(np.float64(x)))
    with np.errstate(all="ignore"):
        slope = differentiate(f, x)
    assert abs(slope.value - right) <= 3 * slope.error + 1e-10 * abs(right) + 1e-12 * slope.scale


@pytest.mark.parametrize("method", ["auto", "central"])
@pytest.mark.parametrize(("name", "f", "derivative", "x"), CASES[::5], ids=NAMES[::5])
def test_methods_agree(name: str, f: Any, derivative: Any, x: float, method: str) -> None:
    assert check(f, float(derivative(np.float64(x))), x, method=method).ok
