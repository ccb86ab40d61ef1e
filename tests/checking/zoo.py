"""Smooth functions of one number with their derivatives in closed form, at awkward points.

Each entry: name, function, derivative, points. The derivatives are textbook formulas, written so that they
are accurate at these points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

Entry = tuple[str, Callable[[Any], Any], Callable[[Any], Any], tuple[float, ...]]

ZOO: list[Entry] = [
    ("identity", lambda x: x, lambda x: 1.0, (0.0, 1.0, -1e8, 1e-8, 1e150, 1e-300)),
    ("affine, large offset", lambda x: 1e10 + 3 * x, lambda x: 3.0, (0.0, 1.0, 1e-8, 1e5)),
    ("square", lambda x: x**2, lambda x: 2 * x, (1e8, 1e-8, 1.0, -3.0, 0.0, 1e100)),
    ("cube", lambda x: x**3, lambda x: 3 * x**2, (1e5, 1e-5, 0.0, -1.0)),
    ("tenth power", lambda x: x**10, lambda x: 10 * x**9, (0.1, 1.0, -7.0, 30.0)),
    ("reciprocal", lambda x: 1 / x, lambda x: -1 / x**2, (1e-10, 1e10, -0.5, 1e-150)),
    ("square root", np.sqrt, lambda x: 0.5 / np.sqrt(x), (1e-12, 1.0, 1e12, 1e-200)),
    ("cube root", np.cbrt, lambda x: 1 / (3 * np.cbrt(x) ** 2), (1e-9, 1.0, -8.0)),
    ("power 0.3", lambda x: x**0.3, lambda x: 0.3 * x**-0.7, (1e-6, 2.0, 1e9)),
    ("power 1.5 at its edge", lambda x: x**1.5, lambda x: 1.5 * x**0.5, (0.0, 1e-10, 4.0)),
    ("log", np.log, lambda x: 1 / x, (1e-10, 1.0, 1e10, 1e-300, 1.0000001)),
    ("log1p", np.log1p, lambda x: 1 / (1 + x), (1e-12, -0.999999, 0.0, 1e6)),
    ("log2", np.log2, lambda x: 1 / (x * np.log(2.0)), (1e-3, 1e3)),
    ("log of log", lambda x: np.log(np.log(x)), lambda x: 1 / (x * np.log(x)), (1.001, 10.0, 1e10)),
    ("exp", np.exp, np.exp, (0.0, 1.0, -30.0, 600.0, -700.0)),
    ("exp, fast", lambda x: np.exp(1e5 * x), lambda x: 1e5 * np.exp(1e5 * x), (0.0, 1e-3, -1e-4)),
    ("expm1", np.expm1, np.exp, (1e-10, 0.0, -5.0, 3.0)),
    ("gaussian", lambda x: np.exp(-x * x), lambda x: -2 * x * np.exp(-x * x), (0.0, 1e-5, 3.0, -2.0)),
    (
        "narrow gaussian",
        lambda x: np.exp(-((x - 1) ** 2) * 1e8),
        lambda x: -2e8 * (x - 1) * np.exp(-((x - 1) ** 2) * 1e8),
        (1.0001, 0.99995),
    ),
    ("sine", np.sin, np.cos, (0.0, 1.0, 1e4, -1e-9, 3.0)),
    ("sine, a million", lambda x: np.sin(1e6 * x), lambda x: 1e6 * np.cos(1e6 * x), (1.0, 0.0, 0.3, 2.5)),
    (
        "sine, whole periods",
        lambda x: np.sin(2 * np.pi * x),
        lambda x: 2 * np.pi * np.cos(2 * np.pi * x),
        (0.0, 1.0),
    ),
    ("cosine", np.cos, lambda x: -np.sin(x), (0.0, 1e-4, 1.0, np.pi / 2, 100.0)),
    ("tangent", np.tan, lambda x: 1 / np.cos(x) ** 2, (0.0, 1.5, 1.5707, -0.3)),
    ("arcsine", np.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), (0.0, 0.999999, -0.5)),
    ("arccosine", np.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), (0.1, -0.99999)),
    ("arctangent", np.arctan, lambda x: 1 / (1 + x * x), (0.0, 1.0, 1e4, -1e-7)),
    ("hyperbolic sine", np.sinh, np.cosh, (0.0, 1e-6, 20.0)),
    ("hyperbolic cosine", np.cosh, np.sinh, (1e-6, 1.0, -15.0)),
    ("tanh", np.tanh, lambda x: 1 / np.cosh(x) ** 2, (0.0, 1.0, 5.0, -8.0, 1e-10)),
    ("arctanh", np.arctanh, lambda x: 1 / ((1 - x) * (1 + x)), (0.0, 0.99999, -0.3)),
    ("arsinh", np.arcsinh, lambda x: 1 / np.hypot(1, x), (0.0, 1e8, -2.0)),
    ("arcosh", np.arccosh, lambda x: 1 / np.sqrt((x - 1) * (x + 1)), (1.0001, 2.0, 1e6)),
    ("sigmoid", special.expit, lambda x: special.expit(x) * special.expit(-x), (0.0, -30.0, 8.0, 2.0)),
    ("softplus", lambda x: np.logaddexp(0, x), special.expit, (0.0, -20.0, 20.0, 500.0)),
    ("error function", special.erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x), (0.0, 1.0, -2.5, 1e-12)),
    ("erfc", special.erfc, lambda x: -2 / np.sqrt(np.pi) * np.exp(-x * x), (0.0, 5.0, 10.0)),
    ("log gamma", special.gammaln, special.digamma, (1e-5, 0.5, 100.0, 1e6)),
    ("x log x", lambda x: special.xlogy(x, x), lambda x: np.log(x) + 1, (1e-8, 1.0, 50.0)),
    ("sin x / x", lambda x: np.sin(x) / x, lambda x: (x * np.cos(x) - np.sin(x)) / x**2, (0.5, 20.0, -3.0)),
    ("rational", lambda x: x / (1 + x * x), lambda x: (1 - x * x) / (1 + x * x) ** 2, (0.0, 1e-6, 1e6, 2.0)),
    ("Runge", lambda x: 1 / (1 + 25 * x * x), lambda x: -50 * x / (1 + 25 * x * x) ** 2, (0.2, 1e-5, 3.0)),
    ("steep step", lambda x: np.tanh(1e6 * x), lambda x: 1e6 / np.cosh(1e6 * x) ** 2, (0.0, 1e-6, -5e-7)),
    (
        "cancellation",
        lambda x: (1e10 + x) - 1e10,
        lambda x: 1.0,
        (0.0, 1.0, 1e-8, 1e3),
    ),
    (
        "single precision inside",
        lambda x: np.float64(np.sin(np.float32(x))),
        np.cos,
        (0.3, 1.0, -2.0),
    ),
    (
        "small slope on a large value",
        lambda x: 1e6 + 1e-4 * np.sin(x),
        lambda x: 1e-4 * np.cos(x),
        (0.3, 1.0),
    ),
    ("fast and slow", lambda x: x + 1e-3 * np.sin(1e3 * x), lambda x: 1 + np.cos(1e3 * x), (0.0, 1.0, 2.2)),
    (
        "oscillation in a wide bowl",
        lambda x: 1e-6 * x * x + np.sin(50 * x),
        lambda x: 2e-6 * x + 50 * np.cos(50 * x),
        (0.0, 7.0, 1e3),
    ),
    ("logistic map, iterated", lambda x: _logistic(x)[0], lambda x: _logistic(x)[1], (0.3, 0.71)),
    ("chirp", lambda x: np.sin(np.exp(x)), lambda x: np.exp(x) * np.cos(np.exp(x)), (0.0, 5.0, 9.0)),
    ("distance", lambda x: np.hypot(x, 1e-6), lambda x: x / np.hypot(x, 1e-6), (1e-6, 1e-3, -1.0)),
    (
        "Planck",
        lambda x: x**3 / np.expm1(x),
        lambda x: x * x * (3 * np.expm1(x) - x * np.exp(x)) / np.expm1(x) ** 2,
        (1e-3, 1.0, 30.0),
    ),
]


def _logistic(x: Any) -> tuple[Any, Any]:
    slope = 1.0
    for _ in range(12):
        slope = slope * 3.9 * (1 - 2 * x)
        x = 3.9 * x * (1 - x)
    return x, slope


CASES = [
    (f"{name} at {point:.9g}", f, derivative, point)
    for name, f, derivative, points in ZOO
    for point in points
]
