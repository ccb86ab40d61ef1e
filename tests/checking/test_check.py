"""Right derivatives pass, planted faults are found, and the message says where."""

from __future__ import annotations

import math
import re
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from symgrad.checking.check import check_derivatives
from symgrad.checking.problem import cotangents, symmetric
from symgrad.checking.report import CheckReport
from symgrad.errors import DtypeError, GradientMismatch, ShapeError
from tests.checking.traced import traced

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
N = 1000
POINT = RNG.normal(size=N)
COEFFICIENTS = RNG.normal(size=N)
COEFFICIENTS[77] = 1e-6


def wave(x: Array) -> Any:
    return np.sum(COEFFICIENTS * np.sin(x))


def wave_gradient(x: Array) -> list[Array]:
    return [COEFFICIENTS * np.cos(x)]


def reverse_only(**options: Any) -> CheckReport:
    return check_derivatives(modes=("reverse",), **options)


def scaled(index: int, factor: float) -> Any:
    def gradient(x: Array) -> list[Array]:
        (right,) = wave_gradient(x)
        right[index] *= factor
        return [right]

    return gradient


# ---------------------------------------------------------------- planted faults


@pytest.mark.parametrize(
    ("index", "factor"),
    [(500, 2.0), (77, -1.0), (77, 1.01), (0, 0.0), (999, 0.99), (3, math.nan), (4, math.inf)],
)
def test_one_wrong_entry_of_a_thousand_is_named(index: int, factor: float) -> None:
    options: dict[str, Any] = {"value": wave, "args": (POINT,), "names": ["x"], "raising": False}
    report = reverse_only(reverse=scaled(index, factor), **options)
    wrong = [row for row in report.mismatches if not row.is_direction]
    assert [row.name for row in wrong] == [f"x[{index}]"]
    right = COEFFICIENTS[index] * math.cos(POINT[index])
    assert wrong[0].numeric == pytest.approx(right, rel=1e-4)
    np.testing.assert_equal(wrong[0].analytic, right * factor)


def test_the_message_names_coordinate_values_errors_step_and_mode() -> None:
    with pytest.raises(GradientMismatch) as caught:
        reverse_only(value=wave, args=(POINT,), names=["x"], reverse=scaled(500, 2), function="wave")
    right = float(COEFFICIENTS[500] * np.cos(POINT[500]))
    text = str(caught.value)
    head = text.splitlines()
    assert head[0] == "the derivative of wave disagrees with finite differences (reverse mode)"
    assert head[1] == "  at x[500]"
    assert head[2] == f"  analytic {2 * right!r}"
    found = re.fullmatch(r"  finite differences (\S+) ± \S+e-\d\d \(step [\d.e-]+\)", head[3])
    assert found is not None
    assert float(found[1]) == pytest.approx(right, rel=1e-8)
    assert head[4] == f"  absolute error {abs(right):.3g}, relative error 0.5"
    assert "999 ok" in text


def test_a_transposed_jacobian_is_found() -> None:
    a = np.array([[0.0, 1.0, 2.0], [1.0, 0.5, 3.0], [2.0, 3.001, 1.0]])  # nearly symmetric
    x = np.array([0.3, -0.2, 0.9])

    def value(x: Array) -> Any:
        return np.tanh(a @ x)

    weights = cotangents(value(x))

    def gradient(jacobian: Array) -> Any:
        return lambda x: [jacobian.T @ (weights / np.cosh(a @ x) ** 2)]

    assert reverse_only(value=value, args=(x,), reverse=gradient(a)).ok
    report = reverse_only(value=value, args=(x,), reverse=gradient(a.T), names=["x"], raising=False)
    worst = report.worst
    assert worst is not None
    errors = np.abs((a.T - a) @ (weights / np.cosh(a @ x) ** 2))
    assert worst.name == f"x[{np.argmax(errors)}]"
    assert worst.abs_error == pytest.approx(errors.max(), rel=1e-4)


def test_swapped_arguments_are_found() -> None:
    u, v = np.array([1.0, 2.0]), np.array([3.0, -1.0])

    def value(u: Array, v: Array) -> Any:
        return np.sum(u**2 * v)

    assert reverse_only(value=value, args=(u, v), reverse=lambda u, v: [2 * u * v, u**2]).ok
    with pytest.raises(GradientMismatch, match=r"at args\[0\]\[1\]\n  analytic 4.0\n"):
        reverse_only(value=value, args=(u, v), reverse=lambda u, v: [u**2, 2 * u * v])


# ---------------------------------------------------------------- both modes, second order


def test_forward_and_second_order_of_a_right_function() -> None:
    report = check_derivatives(
        value=wave,
        args=(POINT,),
        names=["x"],
        reverse=wave_gradient,
        forward=lambda v: float(np.dot(wave_gradient(POINT)[0], v[0])),
        second=lambda v: [-COEFFICIENTS * np.sin(POINT) * v[0]],
        order=2,
    )
    assert {row.verdict for row in report.rows} == {"ok"}
    assert {row.mode for row in report.rows} == {"reverse", "forward", "second"}
    assert len(report.rows) == 2 * N + 2 + 2 * N


def test_a_fault_in_forward_mode_only() -> None:
    with pytest.raises(GradientMismatch, match=r"\(forward mode\)\n  at x\[2\]"):
        check_derivatives(
            value=lambda x: np.sum(x**3),
            args=(np.array([1.0, 2.0, 3.0]),),
            names=["x"],
            reverse=lambda x: [3 * x**2],
            forward=lambda v: float(np.dot([3.0, 12.0, 54.0], v[0])),
        )


def test_a_fault_in_one_second_derivative() -> None:
    def second(v: list[Array]) -> list[Array]:
        hessian = np.array([[2.0, 1.0], [1.0, 6.0]])
        hessian[0, 1] += 1e-3
        return [hessian @ v[0]]

    expected = r"\(second order\)\n  at x\[0\] along x\[1\]\n  analytic 1\.001"
    with pytest.raises(GradientMismatch, match=expected):
        check_derivatives(
            value=lambda x: x[0] ** 2 + x[0] * x[1] + x[1] ** 3,
            args=(np.array([1.0, 1.0]),),
            names=["x"],
            reverse=lambda x: [np.array([2 * x[0] + x[1], x[0] + 3 * x[1] ** 2])],
            second=second,
            modes=("reverse",),
            order=2,
        )


def test_traced_functions_of_several_arguments() -> None:
    def loss(w: Any, x: Any, b: Any) -> Any:
        hidden = np.tanh(w @ x + b)
        return np.sum(np.exp(hidden) * hidden[0]) / (1 + np.sum(hidden**2))

    w, x, b = [RNG.normal(size=shape) for shape in ((3, 4), 4, 3)]
    report = check_derivatives(**traced(loss, w, x, b))
    assert {row.verdict for row in report.rows} == {"ok"}


# ---------------------------------------------------------------- kinks


@pytest.mark.parametrize(
    ("f", "x", "accepted", "refused"),
    [
        (np.abs, 0.0, (0.0, 1.0, -1.0, 0.3), (1.5, -2.0)),
        (lambda x: np.maximum(x, 0), 0.0, (0.0, 0.5, 1.0), (-0.1, 1.1)),
        (lambda x: np.clip(x, -1, 1), 1.0, (0.0, 0.5, 1.0), (-0.5, 2.0)),
    ],
)
def test_kinks_accept_what_lies_between_the_slopes(f: Any, x: float, accepted: Any, refused: Any) -> None:
    for slope in accepted:
        report = reverse_only(value=f, args=(x,), reverse=lambda x, s=slope: [s])
        assert [row.verdict for row in report.rows] == ["kink"]
        assert "kink within the step" in str(report)
    for slope in refused:
        with pytest.raises(GradientMismatch, match="kink within the step: slopes"):
            reverse_only(value=f, args=(x,), reverse=lambda x, s=slope: [s])


def test_beside_a_kink_only_the_slope_there_is_right() -> None:
    assert reverse_only(value=np.abs, args=(1e-9,), reverse=lambda x: [1.0]).rows[0].verdict == "ok"
    with pytest.raises(GradientMismatch):
        reverse_only(value=np.abs, args=(1e-9,), reverse=lambda x: [-1.0])


def test_a_switch_within_the_step() -> None:
    def value(x: Any) -> Any:
        return np.where(x > 1, x**2, 2 * x - 1) + np.where(x > 1 + 1e-7, 5 * (x - 1 - 1e-7), 0)

    assert reverse_only(value=value, args=(1.0,), reverse=lambda x: [2.0]).ok


def test_kinks_spoil_neither_neighbours_nor_directions_nor_second_order() -> None:
    x = np.array([0.0, 1e-9, -2.0, 3.0, 0.0])
    report = check_derivatives(
        value=lambda x: np.sum(np.abs(x) * np.arange(1, 6)),
        args=(x,),
        names=["x"],
        reverse=lambda x: [np.sign(x) * np.arange(1, 6)],
        second=lambda v: [np.zeros(5)],
        modes=("reverse",),
        order=2,
    )
    assert {row.name for row in report.rows if row.verdict == "kink"} == {"x[0]", "x[4]"}
    assert all(row.verdict == "ok" for row in report.rows if row.verdict != "kink")


def test_the_norm_at_zero() -> None:
    report = reverse_only(value=np.linalg.norm, args=(np.zeros(3),), reverse=lambda x: [np.zeros(3)])
    assert [row.verdict for row in report.rows] == ["kink"] * 3


def test_infinite_slopes() -> None:
    assert reverse_only(value=np.sqrt, args=(0.0,), reverse=lambda x: [math.inf]).ok
    with pytest.raises(GradientMismatch, match="edge of the domain"):
        reverse_only(value=np.sqrt, args=(0.0,), reverse=lambda x: [0.0])


@pytest.mark.parametrize(("f", "x"), [(np.floor, 1.0), (np.sign, 0.0), (np.rint, 0.5)])
def test_jumps_accept_the_slope_of_the_smooth_side(f: Any, x: float) -> None:
    assert reverse_only(value=f, args=(x,), reverse=lambda x: [0.0]).rows[0].verdict == "kink"


# ---------------------------------------------------------------- domains


def test_functions_that_raise_off_their_domain() -> None:
    assert reverse_only(value=math.log, args=(1e-10,), reverse=lambda x: [1 / x]).ok
    assert reverse_only(value=math.sqrt, args=(0.0,), reverse=lambda x: [math.inf]).ok


def test_where_nothing_can_be_said_nothing_is_claimed() -> None:
    with np.errstate(invalid="ignore"):
        report = reverse_only(value=np.log, args=(-1.0,), reverse=lambda x: [math.nan])
    assert [row.verdict for row in report.rows] == ["unreliable"]


# ---------------------------------------------------------------- symmetric matrices

SPD = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])


def log_determinant(a: Array) -> Any:
    return 2 * np.sum(np.log(np.diag(np.linalg.cholesky(a))))


def test_the_convention_of_symmetric_matrices_is_explained() -> None:
    options: dict[str, Any] = {"value": log_determinant, "args": (SPD,), "names": ["A"]}
    with pytest.raises(GradientMismatch, match="A is symmetric, and along symmetric perturbations the deriv"):
        reverse_only(reverse=lambda a: [np.linalg.inv(a)], **options)


def test_symmetric_perturbations_on_request() -> None:
    options: dict[str, Any] = {"value": log_determinant, "args": (SPD,), "names": ["A"]}
    options["tangents"] = [symmetric]
    report = reverse_only(reverse=lambda a: [np.linalg.inv(a)], **options)
    assert {row.verdict for row in report.rows} == {"ok"}
    wrong = np.linalg.inv(SPD)
    wrong[0, 1] *= 1.2
    with pytest.raises(GradientMismatch, match=r"at A\[[01], [01]\]"):
        reverse_only(reverse=lambda a: [wrong], **options)


def test_no_excuse_for_a_fault_that_symmetry_does_not_explain() -> None:
    with pytest.raises(GradientMismatch) as caught:
        reverse_only(value=log_determinant, args=(SPD,), reverse=lambda a: [2 * np.linalg.inv(a)])
    assert "symmetric" not in str(caught.value)


# ---------------------------------------------------------------- trees, dtypes, sizes

Pair = namedtuple("Pair", "scale shift")


def test_names_and_trees() -> None:
    def value(params: dict[str, Any], pair: Pair, count: int) -> dict[str, Any]:
        return {"a": params["w"] * pair.scale, "b": (count * pair.shift, np.arange(3))}

    args = ({"w": np.array([[1.0, 2.0, 3.0]])}, Pair(2.0, np.float64(3.0)), 4)
    weights = cotangents(value(*args))

    def gradient(params: dict[str, Any], pair: Pair, count: int) -> list[Any]:
        w = weights["a"]
        return [w * pair.scale, float(np.sum(w * params["w"])), count * weights["b"][0]]

    report = reverse_only(value=value, args=args, reverse=gradient)
    assert [row.name for row in report.rows] == [
        "args[0]['w'][0, 0]", "args[0]['w'][0, 1]", "args[0]['w'][0, 2]", "args[1].scale", "args[1].shift",
        "direction 1",
    ]  # fmt: skip
    options: dict[str, Any] = {"value": value, "args": args, "argnums": (1,), "names": ["s", "t"]}
    only = reverse_only(reverse=lambda *a: gradient(*a)[1:], **options)
    assert [row.name for row in only.rows] == ["s", "t", "direction 1"]


def test_an_argument_without_influence_may_have_no_gradient() -> None:
    report = reverse_only(
        value=lambda x, y: np.sum(x), args=(np.ones(2), np.ones(2)), reverse=lambda x, y: [np.ones(2), None]
    )
    assert report.ok
    with pytest.raises(GradientMismatch, match=r"at args\[0\]\[0\]"):
        reverse_only(value=np.sum, args=(np.ones(2),), reverse=lambda x: [None])


def single(**options: Any) -> CheckReport:
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    return check_derivatives(
        args=(x,),
        reverse=lambda x: [np.cos(x) * x.dtype.type(options.pop("factor", 1))],
        forward=lambda v: np.sum(np.cos(x) * v[0]),
        second=lambda v: [-np.sin(x) * v[0]],
        order=2,
        **{key: value for key, value in options.items() if key != "factor"},
    )


def test_single_precision_is_checked_in_double_where_the_function_allows() -> None:
    report = single(value=lambda x: np.sum(np.sin(x)))
    assert report.ok
    assert max(row.abs_error for row in report.rows) < 1e-6


def test_single_precision_only() -> None:
    def value(x: Array) -> Any:
        if x.dtype != np.float32:
            raise TypeError("float32 only")
        return np.sum(np.sin(x))

    assert single(value=value).ok
    wrong = np.linspace(-2, 2, 9, dtype=np.float32)
    with pytest.raises(GradientMismatch):
        reverse_only(value=value, args=(wrong,), reverse=lambda x: [1.05 * np.cos(x)])


def test_half_precision() -> None:
    x = np.array([0.5, 1.0, 2.0], dtype=np.float16)
    assert reverse_only(value=lambda x: np.sum(x * x), args=(x,), reverse=lambda x: [2 * x]).ok
    with pytest.raises(GradientMismatch):
        reverse_only(value=lambda x: np.sum(x * x), args=(x,), reverse=lambda x: [3 * x])


def test_the_smallest_fault_in_a_large_array_is_located() -> None:
    n = 8_000
    rng = np.random.default_rng(0)
    c, x = rng.normal(size=n), rng.normal(size=n)
    place = int(np.argsort(np.abs(c * np.cos(x)))[n // 2])

    def gradient(x: Array) -> list[Array]:
        right = c * np.cos(x)
        right[place] *= 2
        return [right]

    options: dict[str, Any] = {"value": lambda x: np.sum(c * np.sin(x)), "args": (x,), "names": ["x"]}
    report = reverse_only(reverse=lambda x: [c * np.cos(x)], **options)
    assert report.ok
    assert 200 < len(report.rows) < 300
    wrong = reverse_only(reverse=gradient, raising=False, **options)
    assert wrong.worst is not None
    assert wrong.worst.name == f"x[{place}]"


def test_badly_scaled_vectors() -> None:
    x = np.array([1e8, 1e-8, 1.0, -1e3, 1e-3])

    def value(x: Array) -> Any:
        return np.sum(x**2 * np.array([1e-16, 1e16, 1.0, 1e-6, 1e6])) + np.sum(np.log(np.abs(x)))

    def gradient(x: Array) -> list[Array]:
        return [2 * x * np.array([1e-16, 1e16, 1.0, 1e-6, 1e6]) + 1 / x]

    assert {row.verdict for row in reverse_only(value=value, args=(x,), reverse=gradient).rows} == {"ok"}
    for k in range(5):
        wrong = gradient(x)[0]
        wrong[k] *= 1.01
        report = reverse_only(
            value=value, args=(x,), names=["x"], reverse=lambda x, w=wrong: [w], raising=False
        )
        assert [row.name for row in report.mismatches if not row.is_direction] == [f"x[{k}]"]


# ---------------------------------------------------------------- methods and misuse


def test_complex_steps_are_exact_where_rounding_hides_the_slope() -> None:
    options: dict[str, Any] = {"value": lambda x: (1e10 + x) ** 2 - 1e20, "args": (3.0,)}
    report = reverse_only(reverse=lambda x: [2 * (1e10 + x)], method="complex", **options)
    assert report.rows[0].rel_error < 1e-14
    with pytest.raises(GradientMismatch):
        reverse_only(reverse=lambda x: [2.02 * (1e10 + x)], method="complex", **options)


def test_complex_steps_fall_back_at_functions_that_are_not_analytic() -> None:
    options: dict[str, Any] = {"args": (3.0,), "method": "complex"}
    assert reverse_only(value=lambda x: np.abs(x) ** 2, reverse=lambda x: [6.0], **options).ok
    with pytest.raises(DtypeError, match="does not take complex numbers"):
        reverse_only(value=math.sin, reverse=lambda x: [math.cos(x)], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 3}, "order is 1 or 2"),
        ({"method": "five-point"}, "method is one of"),
        ({"modes": ("sideways",)}, "modes holds some of"),
        ({"modes": ()}, "modes holds some of"),
        ({"modes": ("forward",)}, "needs forward"),
        ({"order": 2, "modes": ("reverse",)}, "needs second"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_derivatives(value=np.sin, args=(1.0,), reverse=lambda x: [math.cos(x)], **options)


def test_derivatives_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"for x has shape \(2,\), the argument \(3,\)"):
        reverse_only(value=np.sum, args=(np.ones(3),), names=["x"], reverse=lambda x: [np.ones(2)])
    with pytest.raises(ShapeError, match="2 derivatives were given for 1"):
        reverse_only(value=np.sum, args=(np.ones(3),), reverse=lambda x: [np.ones(3)] * 2)
    with pytest.raises(ShapeError, match="2 names were given for 1"):
        reverse_only(value=np.sum, args=(np.ones(3),), names=["x", "y"], reverse=lambda x: [np.ones(3)])


def test_nothing_to_differentiate() -> None:
    with pytest.raises(DtypeError, match="no floating-point argument"):
        reverse_only(value=np.sum, args=(np.arange(3),), reverse=lambda x: [])
    with pytest.raises(DtypeError, match="returns no floating-point number"):
        reverse_only(value=np.argmax, args=(np.ones(3),), reverse=lambda x: [np.zeros(3)])


def test_empty_arrays() -> None:
    report = reverse_only(value=np.sum, args=(np.ones((0, 3)),), reverse=lambda x: [np.ones((0, 3))])
    assert report.ok
    assert str(report) == "derivatives of f: nothing to compare"
    assert report.picture() == ""


def test_arguments_are_left_alone() -> None:
    x = np.array([1.0, 2.0])
    x.flags.writeable = False
    seen: list[Any] = []

    def value(x: Array) -> Any:
        seen.append(x)
        return np.sum(x**2)

    reverse_only(value=value, args=(x,), reverse=lambda x: [2 * x])
    np.testing.assert_array_equal(x, [1.0, 2.0])
    # No buffer is used twice: a function may keep what it was given.
    assert len({id(a) for a in seen}) == len(seen) - sum(a is x for a in seen) + 1
