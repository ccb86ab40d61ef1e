"""Derivatives where they are a matter of decision: kinks, ties, masked values, infinities, empty arrays.

Every row is checked in reverse mode, in forward mode and without simplification; the values are closed forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from tests.core.graphs import derivatives, evaluated, grad_graph, gradient, hessian, run, trace

INF, NAN = np.inf, np.nan


def vec(*values: float) -> Any:
    return np.array(values, float)


def assert_gradient(function: Callable[..., Any], args: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    found = gradient(function, *args)
    for g, e, x in zip(found if len(args) > 1 else (found,), expected, args, strict=True):
        assert np.shape(g) == np.shape(x)
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-15)


Row = tuple[str, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]

KINKS: list[Row] = [
    ("abs", np.abs, (vec(-2, -0.0, 0.0, 3),), (vec(-1, 0, 0, 1),)),
    ("fabs", np.fabs, (vec(-0.0, 0.0),), (vec(0, 0),)),
    ("sign", lambda x: np.sign(x) + x, (vec(-1, 0, 2),), (vec(1, 1, 1),)),
    ("floor", lambda x: np.floor(x) * x, (vec(2.0, 2.5, -0.5),), (vec(2, 2, -1),)),
    ("ceil", lambda x: np.ceil(x) * x, (vec(2.0, 2.5),), (vec(2, 3),)),
    ("round", lambda x: np.round(x) * x, (vec(2.5, 3.5),), (vec(2, 4),)),
    ("trunc", lambda x: np.trunc(x) * x, (vec(-2.0, -2.5),), (vec(-2, -2),)),
    ("floor division", lambda x: (x // 2.0) * x, (vec(4.0, -5.0),), (vec(2, -3),)),
    ("heaviside", lambda x: np.heaviside(x, 0.5) * x, (vec(-1, 0, 2),), (vec(0, 0.5, 1),)),
    ("heaviside, value at 0", lambda x, h: np.heaviside(x, h), (vec(-1, 0, 2), vec(9, 9, 9)), (vec(0, 0, 0), vec(0, 1, 0))),
    ("relu as written by users", lambda x: x * (x > 0), (vec(-1, 0, 2),), (vec(0, 0, 1),)),
    ("where relu", lambda x: np.where(x > 0, x, 0.0), (vec(-1, 0, 2),), (vec(0, 0, 1),)),
    ("maximum with 0", lambda x: np.maximum(x, 0.0), (vec(-1, 0, 2),), (vec(0, 0.5, 1),)),
    ("maximum with 0, other order", lambda x: np.maximum(0.0, x), (vec(-1, 0, -0.0),), (vec(0, 0.5, 0.5),)),
    ("leaky", lambda x: np.maximum(x, 0.1 * x), (vec(-1, 0, 2),), (vec(0.1, 0.55, 1),)),
    ("clip at the bounds", lambda x: np.clip(x, 0.0, 1.0), (vec(-1, 0, 0.5, 1, 2),), (vec(0, 1, 1, 1, 0),)),
    ("clip, lower bound alone", lambda x: np.clip(x, 0.0, None), (vec(-1, 0, 2),), (vec(0, 1, 1),)),
    ("clip, upper bound alone", lambda x: np.clip(x, None, 1.0), (vec(0, 1, 2),), (vec(1, 1, 0),)),
    ("clip method", lambda x: x.clip(0.0, 1.0), (vec(0, 1, 2),), (vec(1, 1, 0),)),
    ("clip, bounds differentiated", np.clip, (vec(-1, 0, 0.5, 1, 2), vec(0, 0, 0, 0, 0), vec(1, 1, 1, 1, 1)),
     (vec(0, 1, 1, 1, 0), vec(1, 0, 0, 0, 0), vec(0, 0, 0, 0, 1))),
    ("clip, bounds crossed", np.clip, (vec(0.5), vec(2.0), vec(1.0)), (vec(0), vec(0), vec(1))),
    ("remainder", lambda x, y: x % y, (vec(5.5, -1.5, 4.0), vec(2, 2, 2)), (vec(1, 1, 1), vec(-2, 1, -2))),
    ("fmod", np.fmod, (vec(5.5, -5.5), vec(2, 2)), (vec(1, 1), vec(-2, 2))),
    ("fmod, quotient that rounds up", np.fmod, (vec(2.52), vec(0.07)), (vec(1), vec(-35))),
    ("copysign", np.copysign, (vec(-2, 2, 3), vec(1, -1, -0.0)), (vec(-1, -1, -1), vec(0, 0, 0))),
    ("nan_to_num", np.nan_to_num, (vec(1, NAN, INF, -INF),), (vec(1, 0, 0, 0),)),
]

TIES: list[Row] = [
    ("maximum", np.maximum, (vec(1, 2, 3), vec(2, 2, 2)), (vec(0, 0.5, 1), vec(1, 0.5, 0))),
    ("minimum", np.minimum, (vec(1, 2, 3), vec(2, 2, 2)), (vec(1, 0.5, 0), vec(0, 0.5, 1))),
    ("fmax", np.fmax, (vec(1, 2, 3), vec(2, 2, 2)), (vec(0, 0.5, 1), vec(1, 0.5, 0))),
    ("fmin", np.fmin, (vec(1, 2, 3), vec(2, 2, 2)), (vec(1, 0.5, 0), vec(0, 0.5, 1))),
    ("zeros of either sign tie", np.maximum, (vec(0.0), vec(-0.0)), (vec(0.5), vec(0.5))),
    ("infinities tie", np.maximum, (vec(INF, -INF), vec(INF, -INF)), (vec(0.5, 0.5), vec(0.5, 0.5))),
    ("maximum with itself", lambda x: np.maximum(x, x), (vec(1, -2),), (vec(1, 1),)),
    ("maximum of a value and its negative", lambda x: np.maximum(x, -x), (vec(-2, 0, 3),), (vec(-1, 0, 1),)),
    ("max + min is the identity", lambda x: np.maximum(x, 1.0) + np.minimum(x, 1.0), (vec(0, 1, 2),), (vec(1, 1, 1),)),
    ("NaN wins in maximum", np.maximum, (vec(NAN, 1), vec(1, NAN)), (vec(1, 0), vec(0, 1))),
    ("NaN wins in minimum", np.minimum, (vec(NAN, 1), vec(1, NAN)), (vec(1, 0), vec(0, 1))),
    ("NaN loses in fmax", np.fmax, (vec(NAN, 1), vec(1, NAN)), (vec(0, 1), vec(1, 0))),
    ("NaN loses in fmin", np.fmin, (vec(NAN, 1), vec(1, NAN)), (vec(0, 1), vec(1, 0))),
    ("max", np.max, (vec(3, 1, 3, 3),), (vec(1, 0, 1, 1) / 3,)),
    ("min", np.min, (vec(3, 1, 1),), (vec(0, 0.5, 0.5),)),
    ("max along an axis", lambda x: np.max(x, axis=0), (np.array([[1.0, 5.0], [1.0, 2.0]]),), (np.array([[0.5, 1.0], [0.5, 0.0]]),)),
    ("max over two axes", lambda x: np.max(x, axis=(0, 2)), (np.ones((2, 1, 2)),), (np.full((2, 1, 2), 0.25),)),
    ("max of infinities", np.max, (vec(INF, 1, INF),), (vec(0.5, 0, 0.5),)),
    ("max of one NaN", np.max, (vec(1, NAN, 3),), (vec(0, 1, 0),)),
    ("max with initial", lambda x: np.max(x, initial=3.0), (vec(3, 1),), (vec(0.5, 0),)),
    ("ptp", np.ptp, (vec(1, 1, 4),), (vec(-0.5, -0.5, 1),)),
    ("median, odd", np.median, (vec(3, 1, 2),), (vec(0, 0, 1),)),
    ("median, even", np.median, (vec(4, 1, 2, 10),), (vec(0.5, 0, 0.5, 0),)),
    ("median with equal values", np.median, (vec(2, 2, 2, 1),), (vec(0.5, 0.5, 0, 0),)),
    ("sort is stable", lambda x: np.sort(x)[1], (vec(2, 1, 1, 3),), (vec(0, 0, 1, 0),)),
    ("sort", lambda x: np.sort(x) * np.array([1.0, 10.0, 100.0]), (vec(3, 1, 2),), (vec(100, 1, 10),)),
    ("argmax takes the first", lambda x: x[np.argmax(x)], (vec(1, 3, 3),), (vec(0, 1, 0),)),
    ("take along axis", lambda x: np.take_along_axis(x, np.argsort(-x), 0)[0], (vec(1, 3, 2),), (vec(0, 1, 0),)),
]

MASKED: list[Row] = [
    ("where, infinite slope not taken", lambda x: np.where(x > 0.5, np.sqrt(x), x), (vec(0, 0.25, 4),), (vec(1, 1, 0.25),)),
    ("where, other branch", lambda x: np.where(x <= 0, 2 * x, np.sqrt(x)), (vec(0, -1, 4),), (vec(2, 2, 0.25),)),
    ("where, log of nothing", lambda x: np.where(x > 0, np.log(x), 0.0), (vec(0, -1, 2),), (vec(0, 0, 0.5),)),
    ("where, division by zero", lambda x: np.where(x == 0, 1.0, np.sin(x) / x), (vec(0, np.pi),), (vec(0, -1 / np.pi),)),
    ("entropy at zero", lambda p: np.where(p > 0, p * np.log(p), 0.0), (vec(0, 0.5),), (vec(0, 1 + np.log(0.5)),)),
    ("nested where", lambda x: np.where(x > 0, np.where(x > 1, np.log(x - 1), x), np.exp(x)), (vec(0, 1, 3),), (vec(1, 1, 0.5),)),
    ("where through a chain", lambda x: np.exp(2 * np.where(x > 0, np.sqrt(x), -x)), (vec(0, 4),), (vec(-2, 0.5 * np.exp(4)),)),
    ("chain into where", lambda x: np.where(x > 0, 3 * np.sqrt(2 * x), 0.0), (vec(0, 2),),
     (vec(0, 1.5),)),
    ("select", lambda x: np.select([x > 1, x > 0], [np.log(x), np.sqrt(x)], x), (vec(-1, 0, 0.25, 2),), (vec(1, 1, 1, 0.5),)),
    ("clip, infinite slope at the bound", lambda x: np.arccos(np.clip(x, -1.0, 1.0)), (vec(-3, 3, 0),), (vec(0, 0, -1),)),
    ("arcsin of a clipped value", lambda x: np.arcsin(np.clip(2 * x, -1.0, 1.0)), (vec(-3, 0),), (vec(0, 2),)),
    ("sqrt of a maximum", lambda x: np.sqrt(np.maximum(x, 0.0)), (vec(-1, 4),), (vec(0, 0.25),)),
    ("log of a maximum", lambda x: np.log(np.maximum(x, 0.0) + 0.0), (vec(4.0),), (vec(0.25),)),
    ("sqrt of a minimum", lambda x: np.sqrt(np.minimum(x, 0.0) * -1), (vec(3, -4),), (vec(0, -0.25),)),
    ("unused element of an array", lambda x: np.sqrt(x)[1], (vec(0, 4),), (vec(0, 0.25),)),
    ("unused rows", lambda x: np.sum(np.log(x)[1:]), (vec(0, 2, 4),), (vec(0, 0.5, 0.25),)),
    ("unused through a scalar", lambda a: np.sqrt(np.array([1.0, 0.0]) + a * np.array([3.0, 0.0]))[0], (1.0,), (0.75,)),
    ("gather leaves out", lambda x: np.sqrt(x)[[2, 2]], (vec(0, 0, 4),), (vec(0, 0, 0.5),)),
    ("take leaves out", lambda x: np.take(np.log(x), [1]), (vec(0, 2),), (vec(0, 0.5),)),
    ("max leaves out", lambda x: np.max(np.sqrt(x)), (vec(0, 4),), (vec(0, 0.25),)),
    ("min leaves out", lambda x: np.min(1 / x), (vec(0, 4),), (vec(0, -1 / 16),)),
    ("sort leaves out", lambda x: np.sort(np.sqrt(x))[-1], (vec(0, 4),), (vec(0, 0.25),)),
    ("sum under a mask", lambda x: np.sum(np.sqrt(x), where=np.array([False, True])), (vec(0, 4),), (vec(0, 0.25),)),
    ("mean under a mask", lambda x: np.mean(np.log(x), where=x > 0), (vec(0, 2, 4),), (vec(0, 0.25, 0.125),)),
    ("nansum", lambda x: np.nansum(np.log(x)), (vec(-1, 2),), (vec(0, 0.5),)),
    ("nanmean", np.nanmean, (vec(NAN, 2, 4),), (vec(0, 0.5, 0.5),)),
    ("nanprod", np.nanprod, (vec(NAN, 2, 4),), (vec(0, 4, 2),)),
    ("nanstd", np.nanstd, (vec(NAN, 1, 3),), (vec(0, -0.5, 0.5),)),
    ("nanvar", np.nanvar, (vec(NAN, 1, 3),), (vec(0, -1, 1),)),
    ("triangle leaves out", lambda x: np.tril(np.sqrt(x))[1], (np.array([[4.0, 0.0], [1.0, 4.0]]),), (np.array([[0, 0], [0.5, 0.25]]),)),
    ("concatenate and slice", lambda x: np.concatenate([np.sqrt(x), x])[1:], (vec(0, 4),), (vec(1, 1.25),)),
    ("pad and slice", lambda x: np.pad(np.sqrt(x), 1)[2:], (vec(0, 4),), (vec(0, 0.25),)),
    ("reshape and slice", lambda x: np.reshape(np.sqrt(x), (2, 2))[1], (vec(0, 0, 4, 1),), (vec(0, 0, 0.25, 0.5),)),
    ("transposed and sliced", lambda x: np.sqrt(x).T[1], (np.array([[0.0, 4.0], [0.0, 1.0]]),), (np.array([[0, 0.25], [0, 0.5]]),)),
    ("broadcast and masked", lambda a: np.where(np.array([True, True]), a, np.sqrt(a)), (0.0,), (2.0,)),
    ("reduced and masked", lambda x: np.where(x[0] > 0, np.sum(np.sqrt(x)), np.sum(x)), (vec(0, 0),), (vec(1, 1),)),
    ("infinite slope behind a reduction", lambda x: np.where(np.sum(x) > 0, np.sqrt(np.sum(x)), 1.0), (vec(0, 0),), (vec(0, 0),)),
    ("matrix product of a masked value", lambda x: np.where(x > 0, np.log(x), 0.0) @ np.ones(2), (vec(0, 2),), (vec(0, 0.5),)),
    ("NaN in an unused part", lambda x: np.stack([np.log(x), x])[1], (vec(-1, 2),), (vec(1, 1),)),
    ("NaN constant in an unused branch", lambda x: np.where(x > 0, x, NAN * x), (vec(1, 2),), (vec(1, 1),)),
    ("two masked uses", lambda x: np.where(x > 0, np.sqrt(x), 0.0) + np.where(x > 0, np.log(x), x), (vec(0, 4),), (vec(1, 0.5),)),
]

POINTS: list[Row] = [
    ("sqrt(0)", np.sqrt, (vec(0, 4),), (vec(INF, 0.25),)),
    ("sqrt(-1)", np.sqrt, (vec(-1),), (vec(NAN),)),
    ("log(-1)", np.log, (vec(-1, 0, -0.0),), (vec(NAN, INF, INF),)),
    ("log2(-1)", np.log2, (vec(-1, 0.5),), (vec(NAN, 2 / np.log(2)),)),
    ("log10(-1)", np.log10, (vec(-1, 0.5),), (vec(NAN, 2 / np.log(10)),)),
    ("log1p(-1)", np.log1p, (vec(-1, -2, 0),), (vec(INF, NAN, 1),)),
    ("logit outside", sc.logit, (vec(0, 1, 2, -1),), (vec(INF, INF, NAN, NAN),)),
    ("arctanh outside", np.arctanh, (vec(1, 2, 0),), (vec(INF, NAN, 1),)),
    ("arccosh at 1", np.arccosh, (vec(1, 0.5),), (vec(INF, NAN),)),
    ("arcsin(1)", np.arcsin, (vec(1, -1, 2),), (vec(INF, INF, NAN),)),
    ("arccos(1)", np.arccos, (vec(1, -1, 2),), (vec(-INF, -INF, NAN),)),
    ("reciprocal of 0", np.reciprocal, (vec(0.0, -0.0),), (vec(-INF, -INF),)),
    ("norm at 0", np.linalg.norm, (vec(0, 0, 0),), (vec(0, 0, 0),)),
    ("norm along an axis", lambda x: np.linalg.norm(x, axis=1), (np.array([[0.0, 0.0], [3.0, 4.0]]),), (np.array([[0, 0], [0.6, 0.8]]),)),
    ("norm of order 3 at 0", lambda x: np.linalg.norm(x, 3), (vec(0, 0),), (vec(0, 0),)),
    ("norm of order 3 with a zero", lambda x: np.linalg.norm(x, 3), (vec(0, 2),), (vec(0, 1),)),
    ("norm of order 1 at 0", lambda x: np.linalg.norm(x, 1), (vec(0, -2),), (vec(0, -1),)),
    ("norm of order inf at ties", lambda x: np.linalg.norm(x, INF), (vec(-2, 2, 1),), (vec(-0.5, 0.5, 0),)),
    ("Frobenius norm at 0", lambda x: np.linalg.norm(x, "fro"), (np.zeros((2, 2)),), (np.zeros((2, 2)),)),
    ("norm squared", lambda x: np.linalg.norm(x) ** 2, (vec(0, 0),), (vec(0, 0),)),
    ("std of equal values", np.std, (vec(3, 3, 3),), (vec(0, 0, 0),)),
    ("std along an axis", lambda x: np.std(x, axis=1), (np.array([[1.0, 1.0], [1.0, 3.0]]),), (np.array([[0, 0], [-0.5, 0.5]]),)),
    ("var of equal values", np.var, (vec(3, 3, 3),), (vec(0, 0, 0),)),
    ("hypot at 0", np.hypot, (vec(0, 3), vec(0, 4)), (vec(0, 0.6), vec(0, 0.8))),
    ("hypot, huge and tiny", np.hypot, (vec(3e200, 3e-200), vec(4e200, 4e-200)), (vec(0.6, 0.6), vec(0.8, 0.8))),
    ("hypot at 0 times a factor", lambda x, y: np.hypot(x, y) * y, (vec(0.0), vec(0.0)), (vec(0), vec(0))),
    ("arctan2 at the origin", np.arctan2, (vec(0.0), vec(0.0)), (vec(0), vec(0))),
    ("arctan2, tiny", np.arctan2, (vec(1e-170, 3e-200), vec(1e-170, 4e-200)), (vec(5e169, 1.6e199), vec(-5e169, -1.2e199))),
    ("arctan2, huge", np.arctan2, (vec(3e200), vec(4e200)), (vec(1.6e-201), vec(-1.2e-201))),
    ("arctan2 on the axes", np.arctan2, (vec(0, 1), vec(-1, 0)), (vec(-1, 0), vec(0, -1))),
    ("logaddexp, equal", np.logaddexp, (vec(1, -INF, INF), vec(1, -INF, INF)), (vec(0.5, 0, 0.5), vec(0.5, 0, 0.5))),
    ("logaddexp, one infinite", np.logaddexp, (vec(-INF, 1, INF), vec(2, -INF, 2)), (vec(0, 1, 1), vec(1, 0, 0))),
    ("logaddexp, far apart", np.logaddexp, (vec(1000, -1000), vec(-1000, 1000)), (vec(1, 0), vec(0, 1))),
    ("logaddexp2, equal", np.logaddexp2, (vec(1, -INF, INF), vec(1, -INF, INF)), (vec(0.5, 0, 0.5), vec(0.5, 0, 0.5))),
    ("sinc at 0", np.sinc, (vec(0, 1),), (vec(0, -1),)),
    ("det of a singular matrix", np.linalg.det, (np.array([[1.0, 2.0], [2.0, 4.0]]),), (np.array([[4.0, -2.0], [-2.0, 1.0]]),)),
    ("det of a zero matrix", np.linalg.det, (np.zeros((3, 3)),), (np.zeros((3, 3)),)),
    ("det of rank one less", np.linalg.det, (np.diag([2.0, 0.0, 3.0]),), (np.diag([0.0, 6.0, 0.0]),)),
    ("tanh saturates", np.tanh, (vec(400, -20),), (vec(0, 4 * np.exp(-40) / (1 + np.exp(-40)) ** 2),)),
    ("expit saturates", sc.expit, (vec(40, -745, 1000),), (vec(np.exp(-40) / (1 + np.exp(-40)) ** 2, np.exp(-745), 0),)),
    ("log_expit", sc.log_expit, (vec(-1000, 1000, 0),), (vec(1, 0, 0.5),)),
    ("expm1 near 0", np.expm1, (vec(1e-300, 0),), (vec(1, 1),)),
]

POWERS: list[Row] = [
    ("small integers at 0", lambda x: x**0 + x**1 + x**2, (vec(-1, 0, 2),), (vec(-1, 1, 5),)),
    ("cube at 0", lambda x: x**3, (vec(0, -2),), (vec(0, 12),)),
    ("pow(0, 0)", np.power, (vec(0.0), vec(0.0)), (vec(0), vec(0))),
    ("pow(0, 1)", np.power, (vec(0.0), vec(1.0)), (vec(1), vec(0))),
    ("pow(0, 2)", np.power, (vec(0.0), vec(2.0)), (vec(0), vec(0))),
    ("pow(0, -1)", lambda x: x**-1.0, (vec(0.0),), (vec(-INF),)),
    ("pow(0, 1/2)", lambda x: x**0.5, (vec(0.0),), (vec(INF),)),
    ("pow(0, 1/2), function", lambda x: np.power(x, 0.5), (vec(0.0),), (vec(INF),)),
    ("pow(0, 3/2)", lambda x: x**1.5, (vec(0.0, 4.0),), (vec(0, 3),)),
    ("pow(0, -2)", lambda x: np.power(x, -2.0), (vec(0.0, -2.0),), (vec(-INF, 0.25),)),
    ("negative base, integer exponent", lambda x: x**3.0 + np.power(x, -2.0), (vec(-2, -1),), (vec(12.25, 5),)),
    ("negative base, array of exponents", lambda x: x ** np.array([2.0, 3.0, -1.0]), (vec(-2, -2, -2),), (vec(-4, 12, -0.25),)),
    ("negative base, exponent differentiated", np.power, (vec(-2.0), vec(2.0)), (vec(-4), vec(NAN))),
    ("both differentiated", np.power, (vec(0, 2, 0), vec(2, 3, 1)), (vec(0, 12, 1), vec(0, 8 * np.log(2), 0))),
    ("exponential of base 0", lambda y: 0.0**y, (vec(1, 2),), (vec(0, 0),)),
    ("exponential of base 1", lambda y: 1.0**y, (vec(1, 2),), (vec(0, 0),)),
    ("exponential of base 2", lambda y: 2.0**y, (vec(0, 3),), (vec(np.log(2), 8 * np.log(2)),)),
    ("integer exponents", lambda x: x ** np.array([0, 1, 2]), (vec(0, 0, 0),), (vec(0, 1, 0),)),
    ("sqrt cubed at 0", lambda x: np.sqrt(x) ** 3, (vec(0, 4),), (vec(0, 3),)),
    ("sqrt to the fourth at 0", lambda x: np.sqrt(x) ** 4, (vec(0, 4),), (vec(0, 8),)),
    ("sqrt squared", lambda x: np.sqrt(x) ** 2, (vec(0, 4),), (vec(1, 1),)),
    ("x ** x", lambda x: x**x, (vec(1, 2),), (vec(1, 4 * (1 + np.log(2))),)),
    ("power of an absolute value", lambda x: np.abs(x) ** 3, (vec(-2, 0),), (vec(-12, 0),)),
    ("sqrt of a square", lambda x: np.sqrt(x**2) + (x**2) ** 0.5, (vec(-5, 1),), (vec(-2, 2),)),
    ("log of a square", lambda x: np.log(x**2) + np.log(np.abs(x) ** 3), (vec(-4, 0.25),), (vec(-1.25, 20),)),
]

REDUCTIONS: list[Row] = [
    ("prod with one zero", np.prod, (vec(2, 0, 5, -3),), (vec(0, -30, 0, 0),)),
    ("prod with two zeros", np.prod, (vec(2, 0, 0),), (vec(0, 0, 0),)),
    ("prod with huge factors and zeros", np.prod, (vec(1e200, 0, 1e200, 0),), (vec(0, 0, 0, 0),)),
    ("prod along an axis", lambda x: np.prod(x, axis=0), (np.array([[0.0, 2.0], [3.0, 0.0]]),), (np.array([[3.0, 0.0], [0.0, 2.0]]),)),
    ("prod over two axes", lambda x: np.prod(x, axis=(0, 2)), (np.array([[[2.0, 0.0]], [[3.0, 4.0]]]),),
     (np.array([[[0.0, 24.0]], [[0.0, 0.0]]]),)),
    ("prod of one", np.prod, (vec(7),), (vec(1),)),
    ("cumprod with zeros", np.cumprod, (vec(2, 0, 3, 0),), (vec(1, 8, 0, 0),)),
    ("cumprod along an axis", lambda x: np.cumprod(x, axis=0), (np.array([[0.0], [2.0], [5.0]]),), (np.array([[13.0], [0.0], [0.0]]),)),
    ("cumprod from zero", np.cumprod, (vec(0, 0),), (vec(1, 0),)),
    ("cumsum", lambda x: np.cumsum(x) * np.array([1.0, 10.0, 100.0]), (vec(1, 2, 3),), (vec(111, 110, 100),)),
    ("sum of nothing", np.sum, (np.zeros((0, 3)),), (np.zeros((0, 3)),)),
    ("prod of nothing", lambda x, y: np.prod(x) * y, (np.zeros(0), 2.0), (np.zeros(0), 1.0)),
    ("reductions of an empty axis", lambda x: np.sum(x, axis=0) ** 2, (np.zeros((0, 3)),), (np.zeros((0, 3)),)),
    ("empty slice", lambda x: np.sum(x[3:]) + np.sum(x), (vec(1, 2),), (vec(1, 1),)),
    ("empty gather", lambda x: np.sum(x[np.zeros(0, int)]) + np.sum(x), (vec(1, 2),), (vec(1, 1),)),
    ("repeated indices add up", lambda x: x[[0, 0, 1]] * np.array([1.0, 2.0, 3.0]), (vec(5, 7),), (vec(3, 3),)),
    ("mean", np.mean, (np.ones((2, 2)),), (np.full((2, 2), 0.25),)),
    ("average", lambda x, w: np.average(x, weights=w), (vec(1, 3), vec(1, 1)), (vec(0.5, 0.5), vec(-0.5, 0.5))),
    ("var", np.var, (vec(1, 3),), (vec(-1, 1),)),
    ("huge then tiny", lambda x: np.sum(x * np.array([1e300, 1e-300])), (vec(1, 1),), (vec(1e300, 1e-300),)),
]

BROADCASTS: list[Row] = [
    ("three shapes", lambda a, b, c: (a - b * c) ** 2, (np.array([[1.0], [2.0]]), vec(1, 2, 3), 0.5),
     (np.array([[0.0], [6.0]]), vec(-2, -1, 0), -8.0)),
    ("scalar with matrix", lambda s, x: s * x, (3.0, np.ones((2, 3))), (6.0, np.full((2, 3), 3.0))),
    ("axis of length one", lambda x, y: x * y, (np.array([[2.0]]), vec(1, 2, 3)), (np.array([[6.0]]), vec(2, 2, 2))),
    ("row and column", lambda r, c: r * c, (vec(1, 2), np.array([[3.0], [4.0]])), (vec(7, 7), np.array([[3.0], [3.0]]))),
    ("cancelled operand keeps its shape", lambda x, y: (x - x + y) * 1.0, (np.ones((2, 3)), vec(1, 2, 3)),
     (np.zeros((2, 3)), vec(2, 2, 2))),
    ("broadcast to", lambda x: np.broadcast_to(x, (4, 2)), (vec(1, 2),), (vec(4, 4),)),
    ("where of a scalar", lambda a, x: np.where(x > 0, a, x), (5.0, vec(-1, 1, 2)), (2.0, vec(1, 0, 0))),
    ("empty with one", lambda x, y: x * y, (np.zeros((0, 1)), vec(1, 2)), (np.zeros((0, 1)), vec(0, 0))),
]

MATRICES: list[Row] = [
    ("trace by einsum", lambda a: np.einsum("ii->", a) ** 2, (np.array([[1.0, 2.0], [3.0, 4.0]]),), (10 * np.eye(2),)),
    ("quadratic form", lambda x, a: x @ a @ x, (vec(1, 2), np.array([[1.0, 2.0], [3.0, 4.0]])),
     (vec(12, 21), np.array([[1.0, 2.0], [2.0, 4.0]]))),
    ("the same operand twice", lambda a: np.einsum("ij,ij->", a, a) + np.einsum("ij,ji->", a, a), (np.array([[1.0, 2.0], [3.0, 4.0]]),),
     (np.array([[4.0, 10.0], [10.0, 16.0]]),)),
    ("diagonal in one operand", lambda a: np.einsum("ii,ij->j", a, a), (np.array([[1.0, 2.0], [3.0, 4.0]]),), (np.array([[4.0, 1.0], [4.0, 11.0]]),)),
    ("index of one operand alone", lambda a, b: np.einsum("ij,k->i", a, b), (np.ones((2, 2)), vec(1, -3)), (np.full((2, 2), -2.0), vec(4, 4))),
    ("index that broadcasts", lambda a, b: np.einsum("ij,ij->", a, b), (np.array([[2.0, 3.0]]), np.ones((2, 2))),
     (np.array([[2.0, 2.0]]), np.array([[2.0, 3.0], [2.0, 3.0]]))),
    ("kron", lambda x: np.kron(x[:2], x[1:]) * np.array([1.0, 2.0, 3.0, 4.0]), (vec(2, 3, -1),), (vec(1, 16, 16),)),
    ("convolve", lambda x, k: np.convolve(x, k, "valid"), (vec(1, 2, 0, -1), vec(1, 3)), (vec(3, 4, 4, 1), vec(1, 3))),
    ("outer", np.outer, (vec(1, 2), vec(3, 4)), (vec(7, 7), vec(3, 3))),
    ("solve", lambda a, b: np.linalg.solve(a, b)[0], (np.array([[2.0, 0.0], [0.0, 4.0]]), vec(2, 4)),
     (np.array([[-0.5, -0.5], [0.0, 0.0]]), vec(0.5, 0))),
    ("inverse", lambda a: np.linalg.inv(a)[0, 0], (np.diag([2.0, 4.0]),), (np.array([[-0.25, 0.0], [0.0, 0.0]]),)),
    ("log of a determinant", lambda a: np.linalg.slogdet(a)[1], (np.diag([2.0, -4.0]),), (np.diag([0.5, -0.25]),)),
    ("matrix with an empty inner axis", lambda a, b: a @ b, (np.zeros((2, 0)), np.zeros((0, 3))), (np.zeros((2, 0)), np.zeros((0, 3)))),
    ("captured matrix", lambda x: np.array([[1.0, 2.0], [3.0, 4.0]]) @ x, (vec(1, 1),), (vec(4, 6),)),
]

ROWS = [*KINKS, *TIES, *MASKED, *POINTS, *POWERS, *REDUCTIONS, *BROADCASTS, *MATRICES]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_gradient(row: Row) -> None:
    _, function, args, expected = row
    assert_gradient(function, args, expected)
