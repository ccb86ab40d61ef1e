"""The transforms as a user calls them: structure, dtypes, nesting, errors; on both backends."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections import namedtuple

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture(params=["numpy", "c"])
def backend(request):
    with sg.config(backend=request.param):
        yield request.param


@pytest.mark.usefixtures("backend")
class TestGrad:
    def test_gradient_of_a_sum_of_squares(self):
        np.testing.assert_array_equal(sg.grad(lambda x: np.sum(x**2))(np.array([1.0, -2.0])), [2.0, -4.0])

    def test_value_and_gradient_agree_with_the_separate_calls(self):
        f = lambda x: np.sum(np.sin(x) * x)
        x = np.linspace(0.1, 2.0, 7)
        value, gradient = sg.value_and_grad(f)(x)
        assert value == pytest.approx(f(x), rel=1e-15)
        np.testing.assert_allclose(gradient, np.sin(x) + x * np.cos(x), rtol=1e-15)

    def test_a_python_float_gives_a_scalar(self):
        result = sg.grad(lambda x: x**3)(2.0)
        assert result == 12.0
        assert isinstance(result, float)

    def test_a_python_int_becomes_a_float(self):
        assert sg.grad(lambda x: x**3)(2) == 12.0

    def test_float32_stays_float32(self):
        gradient = sg.grad(lambda x: np.sum(x / 3 + 0.5 * x))(np.ones(3, np.float32))
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, np.full(3, 5 / 6), rtol=1e-6)

    def test_several_arguments(self):
        gx, gy = sg.grad(lambda x, y: np.sum(x * y), (0, 1))(np.array([1.0, 2.0]), np.array([3.0, 5.0]))
        np.testing.assert_array_equal(gx, [3.0, 5.0])
        np.testing.assert_array_equal(gy, [1.0, 2.0])

    def test_one_position_as_a_tuple_gives_a_tuple(self):
        (gradient,) = sg.grad(lambda x, y: x * y, (1,))(3.0, 4.0)
        assert gradient == 3.0

    def test_negative_argnums_count_from_the_end(self):
        assert sg.grad(lambda x, y: x * y, -1)(3.0, 4.0) == 3.0

    def test_an_argument_that_is_not_used_has_gradient_zero(self):
        np.testing.assert_array_equal(sg.grad(lambda x, y: y * 2.0)(np.ones((2, 3)), 1.0), np.zeros((2, 3)))

    def test_aux_is_handed_through(self):
        gradient, aux = sg.grad(lambda x: (x**2, {"cube": x**3}), has_aux=True)(2.0)
        assert gradient == 4.0
        assert aux == {"cube": 8.0}

    def test_value_with_aux(self):
        (value, aux), gradient = sg.value_and_grad(lambda x: (x**2, x + 1.0), has_aux=True)(3.0)
        assert (value, aux, gradient) == (9.0, 4.0, 6.0)

    def test_keyword_arguments(self):
        g = sg.grad(lambda x, scale=1.0: scale * x**2)
        assert g(3.0, scale=10.0) == 60.0
        assert g(3.0) == 6.0

    def test_empty_arrays(self):
        assert sg.grad(lambda x: np.sum(x**2))(np.zeros((0, 3))).shape == (0, 3)

    def test_captured_arrays_are_read_at_every_call(self):
        weights = np.array([1.0, 2.0])
        g = sg.grad(lambda x: np.sum(weights * x))
        for _ in range(3):
            np.testing.assert_array_equal(g(np.ones(2)), [1.0, 2.0])
        weights[0] = 7.0
        np.testing.assert_array_equal(g(np.ones(2)), [7.0, 2.0])

    def test_captured_arrays_of_any_layout(self):
        table = np.arange(12.0).reshape(6, 2)
        for column in (
            table[:, 1], table[::-2, 0], np.arange(3.0).astype(">f8"), np.asfortranarray(table).T[0]
        ):
            g = sg.grad(lambda s, column=column: np.sum(s * column))
            for _ in range(3):
                assert g(1.0) == np.sum(column)
        table[:, 1] = 1.0
        g = sg.grad(lambda s: np.sum(s * table[:, 1]))
        assert [g(1.0) for _ in range(3)] == [6.0, 6.0, 6.0]
        column = table[:, 1]
        g = sg.grad(lambda s: np.sum(s * column))
        assert [g(1.0) for _ in range(3)] == [6.0, 6.0, 6.0]
        table[0, 1] = 5.0
        assert g(1.0) == 10.0

    def test_arguments_of_any_layout(self):
        g = sg.grad(lambda x: np.sum(np.arange(6.0).reshape(2, 3) * x))
        expected = np.arange(6.0).reshape(2, 3)
        base = np.ones((4, 6))
        for x in (np.ones((2, 3)), np.ones((3, 2)).T, base[::2, ::2], np.ones((2, 3), dtype=">f8")):
            np.testing.assert_array_equal(g(x), expected)

    def test_the_result_never_shares_memory_with_an_argument(self):
        x = np.ones(3)
        same = sg.compile(lambda x: (x, x.T, x))
        for _ in range(2):
            outputs = same(x)
            assert not any(np.shares_memory(o, x) for o in outputs)
            assert not np.shares_memory(outputs[0], outputs[2])


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    bias: float


@pytest.mark.usefixtures("backend")
class TestStructures:
    def test_nested_containers(self):
        params = {"layers": [np.ones(2), (2.0, np.array(3.0))], "b": 4.0}

        def f(p):
            return np.sum(p["layers"][0]) * p["layers"][1][0] * p["layers"][1][1] + p["b"] ** 2

        g = sg.grad(f)
        for _ in range(3):
            result = g(params)
            assert list(result) == ["layers", "b"]
            np.testing.assert_array_equal(result["layers"][0], [6.0, 6.0])
            assert result["layers"][1] == (6.0, 4.0)
            assert result["b"] == 8.0

    def test_namedtuples_and_dataclasses_come_back_as_themselves(self):
        point = sg.grad(lambda p: p.x * p.y)(Point(2.0, 5.0))
        assert point == Point(5.0, 2.0)
        model = sg.grad(lambda m: np.sum(m.weights) * m.bias)(Model(np.ones(2), 3.0))
        assert isinstance(model, Model)
        np.testing.assert_array_equal(model.weights, [3.0, 3.0])
        assert model.bias == 2.0

    def test_a_function_may_return_any_structure(self):
        f = sg.compile(lambda x: {"a": (x, x + 1.0), "b": [x * 2.0]})
        for _ in range(3):
            assert f(3.0) == {"a": (3.0, 4.0), "b": [6.0]}


@pytest.mark.usefixtures("backend")
class TestNesting:
    def test_derivatives_of_every_order(self):
        f = lambda x: np.sin(x) * x**2
        d = f
        expected = [
            math.sin(0.7) * 0.49,
            math.cos(0.7) * 0.49 + 1.4 * math.sin(0.7),
            -math.sin(0.7) * 0.49 + 2.8 * math.cos(0.7) + 2 * math.sin(0.7),
        ]
        for value in expected:
            assert d(0.7) == pytest.approx(value, rel=1e-14)
            d = sg.grad(d)

    def test_an_inner_derivative_does_not_see_the_outer_variable(self):
        # d/dx [x · d/dy (x + y)] = d/dx [x · 1] = 1
        assert sg.grad(lambda x: x * sg.grad(lambda y: x + y)(1.0))(1.0) == 1.0
        # d/dx [x · d/dy (x·y²)|y=x] = d/dx 2x³ = 6x²
        assert sg.grad(lambda x: x * sg.grad(lambda y: x * y**2)(x))(3.0) == 54.0

    def test_forward_over_reverse_and_reverse_over_forward(self):
        f = lambda x: np.sum(x**3)
        x, v = np.array([1.0, 2.0]), np.array([1.0, -1.0])
        expected = 6 * x * v
        _, forward = sg.jvp(sg.grad(f), (x,), (v,))
        np.testing.assert_allclose(forward, expected, rtol=1e-15)
        reverse = sg.grad(lambda x: sg.jvp(f, (x,), (v,))[1])(x)
        np.testing.assert_allclose(reverse, expected, rtol=1e-15)

    def test_forward_over_forward(self):
        _, second = sg.jvp(lambda x: sg.jvp(np.sin, (x,), (1.0,))[1], (0.5,), (1.0,))
        assert second == pytest.approx(-math.sin(0.5), rel=1e-15)

    def test_vjp_of_jvp(self):
        value, pullback = sg.vjp(lambda x: sg.jvp(lambda y: y**3, (x,), (2.0,))[1], 3.0)
        assert value == 54.0
        assert pullback(1.0) == (36.0,)

    def test_compiled_functions_inline(self):
        square = sg.compile(lambda x: x**2)
        assert sg.grad(lambda x: square(x) * 3.0)(2.0) == 12.0
        assert square(4.0) == 16.0


@pytest.mark.usefixtures("backend")
class TestVjpAndJvp:
    def test_vjp_of_several_outputs(self):
        value, pullback = sg.vjp(lambda x, y: (x * y, np.sum(x)), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        np.testing.assert_array_equal(value[0], [3.0, 8.0])
        assert value[1] == 3.0
        gx, gy = pullback((np.array([1.0, 10.0]), 100.0))
        np.testing.assert_array_equal(gx, [103.0, 140.0])
        np.testing.assert_array_equal(gy, [1.0, 20.0])

    def test_a_cotangent_of_another_shape_is_refused(self):
        _, pullback = sg.vjp(lambda x: x * 2.0, np.ones(3))
        with pytest.raises(sg.ShapeError, match=r"shape \(2,\).*\(3,\)"):
            pullback(np.ones(2))

    def test_jvp(self):
        value, tangent = sg.jvp(
            lambda x, y: np.sum(x * y), (np.ones(2), np.array([1.0, 2.0])), (np.ones(2), np.zeros(2))
        )
        assert (value, tangent) == (3.0, 3.0)

    def test_a_tangent_of_another_shape_is_refused(self):
        with pytest.raises(sg.ShapeError, match="the tangent of x"):
            sg.jvp(lambda x: np.sum(x), (np.ones(3),), (np.ones(2),))

    def test_stop_gradient(self):
        assert sg.grad(lambda x: x * sg.stop_gradient(x))(3.0) == 3.0
        np.testing.assert_array_equal(sg.stop_gradient(np.ones(2)), np.ones(2))


class TestCompile:
    def test_it_looks_like_the_function(self):
        def potential(x, strength=1.0):
            """Energy at x."""
            return strength * x**2

        for made in (sg.compile(potential), sg.grad(potential)):
            assert made.__name__ == "potential"
            assert made.__doc__ == "Energy at x."
            assert made.__wrapped__ is potential
            assert list(inspect.signature(made).parameters) == ["x", "strength"]

    def test_it_is_a_decorator_with_and_without_arguments(self):
        @sg.compile
        def f(x):
            return x + 1.0

        @sg.compile(backend="numpy")
        def g(x):
            return x + 2.0

        assert (f(1.0), g(1.0)) == (2.0, 3.0)

    def test_it_traces_once_for_each_signature(self):
        compiled = sg.compile(lambda x: np.sum(x))
        for _ in range(4):
            compiled(np.ones(3))
        compiled(np.ones(4))
        compiled(np.ones(3, np.float32))
        compiled(1.0)
        assert compiled.cache_info().traces == 4

    def test_static_arguments_select_a_trace(self):
        f = sg.compile(lambda x, kind: x**2 if kind == "square" else x**3, static_argnums=1)
        for _ in range(3):
            assert f(2.0, "square") == 4.0
            assert f(2.0, "cube") == 8.0
        assert f.cache_info().traces == 2

    def test_methods_and_partials(self):
        class Spring:
            def __init__(self, k):
                self.k = k

            def energy(self, x):
                return 0.5 * self.k * x**2

        assert sg.grad(Spring(3.0).energy)(2.0) == 6.0
        assert sg.grad(functools.partial(lambda a, x: a * x**2, 5.0))(1.0) == 10.0

    def test_the_first_call_of_auto_is_answered_without_a_compiler(self):
        f = sg.compile(lambda x: x * 2.0, backend="auto")
        f(1.0)
        assert f.cache_info().kernels == 0

    @pytest.mark.c_backend
    def test_the_first_call_of_auto_takes_what_was_built_before(self):
        def make():
            return sg.compile(lambda x: np.sum(np.cos(x) * 0.12345), backend="auto")

        first, again = make(), make()
        for _ in range(2):
            first(np.ones(7))
        assert again(np.ones(7)) == pytest.approx(7 * 0.12345 * math.cos(1.0), rel=1e-15)
        assert (first.cache_info().kernels, again.cache_info().kernels) == (1, 1)

    def test_sources_and_graph(self):
        g = sg.grad(lambda x: np.sum(np.sin(x)), 0)
        g(np.ones(3))
        assert "np.cos(x" in g.source("numpy")
        assert g.graph().node_count == 1
        with pytest.raises(ValueError, match="'numpy' or 'c'"):
            g.source("fortran")

    def test_no_source_before_the_first_call(self):
        with pytest.raises(ValueError, match="give example arguments"):
            sg.compile(lambda x: x).source()


class TestErrors:
    def test_a_vector_has_no_gradient(self):
        with pytest.raises(sg.ShapeError, match=r"array of shape \(3,\).*\n.*np.sum"):
            sg.grad(lambda x: x * 2.0)(np.ones(3))

    def test_an_integer_array_names_its_argument(self):
        with pytest.raises(sg.DtypeError, match=r"argument weights of <lambda> has dtype int64"):
            sg.grad(lambda weights: np.sum(weights))(np.arange(3))

    def test_allow_int_gives_zeros(self):
        gradient = sg.grad(lambda n: np.sum(n * 1.5), allow_int=True)(np.arange(3))
        np.testing.assert_array_equal(gradient, np.zeros(3))

    def test_an_integer_result(self):
        with pytest.raises(sg.DtypeError, match="floating-point result"):
            sg.grad(lambda x: np.sum(x > 0))(np.ones(3))

    def test_an_argument_that_is_no_number(self):
        def f(x, name):
            return x

        with pytest.raises(sg.DtypeError, match="argument name of f is a str"):
            sg.compile(f)(1.0, "a")

    def test_too_few_arguments(self):
        with pytest.raises(ValueError, match="argnums=1"):
            sg.grad(lambda x: x, 1)(1.0)

    @pytest.mark.parametrize("transform", [sg.grad, sg.value_and_grad, sg.compile])
    def test_no_function(self, transform):
        with pytest.raises(TypeError, match="takes a function"):
            transform(3.0)

    def test_an_unknown_backend(self):
        with pytest.raises(ValueError, match="auto, numpy, c"):
            sg.compile(lambda x: x, backend="gpu")

    def test_errors_of_the_user_come_through(self):
        def f(x):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            sg.grad(f)(1.0)

    def test_aux_without_a_pair(self):
        with pytest.raises(sg.TraceError, match=r"must return \(value, aux\)"):
            sg.grad(lambda x: x, has_aux=True)(1.0)


class TestSettings:
    def test_the_environment_sets_the_default(self, monkeypatch):
        monkeypatch.setenv("SYMGRAD_BACKEND", "numpy")
        f = sg.compile(lambda x: x + 1.0)
        for _ in range(3):
            f(1.0)
        assert f.cache_info().kernels == 0

    def test_settings_end_with_the_block(self):
        with sg.config(backend="numpy") as outer, sg.config(backend="c") as inner:
            assert (outer.backend, inner.backend) == ("numpy", "c")

    def test_unknown_settings(self):
        with pytest.raises(TypeError, match="no setting 'speed'"), sg.config(speed=11):
            pass


class TestArgumentsThatAreNoPlainArrays:
    """What C and NumPy would treat differently is refused; the rest is taken as plain numbers."""

    @pytest.mark.parametrize(
        "argument",
        [np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]), np.eye(2).view(np.matrix)],
        ids=["masked", "matrix"],
    )
    def test_arrays_with_rules_of_their_own(self, argument):
        with pytest.raises(sg.DtypeError, match="rules of its own"):
            sg.grad(lambda x: np.sum(x * x))(argument)
        with pytest.raises(sg.DtypeError, match="rules of its own"):
            sg.grad(lambda x: np.sum(x * argument))(np.ones(3))

    def test_subclasses_without_rules_of_their_own(self):
        class Named(np.ndarray):
            pass

        x = np.array([1.0, 2.0]).view(Named)
        f = sg.compile(lambda x: (x * 2, np.sum(x)))
        for _ in range(3):
            doubled, total = f(x)
            assert type(doubled) is np.ndarray
            assert doubled.tolist() == [2.0, 4.0]
            assert total == 3.0

    def test_numbers_of_subclasses_divide_as_arrays_do(self):
        class Metres(float):
            pass

        with np.errstate(all="ignore"):
            assert sg.compile(lambda x: 1.0 / x, backend="numpy")(Metres(0.0)) == np.inf

    def test_an_integer_beyond_64_bits(self):
        with pytest.raises(sg.DtypeError, match=r"argument n .* 71 bits"):
            sg.compile(lambda n: n * 2)(2**70)


class TestCapturedArraysWithoutAxes:
    @pytest.mark.parametrize("backend", ["numpy", "c"])
    def test_are_read_at_every_call(self, backend):
        scale = np.array(2.0)
        f = sg.compile(lambda x: x * scale, backend=backend)
        assert f(3.0) == 6.0
        scale[...] = 5.0
        assert [f(3.0), f(3.0)] == [15.0, 15.0]

    def test_can_be_written_to(self):
        held = np.array(2.0)

        def f(x):
            held[...] = x * 3.0
            return x * held

        assert sg.grad(f)(1.5) == 9.0
        assert held == 4.5


def test_functions_that_write_in_place_are_looked_at_and_checked_like_others():
    def f(x):
        made = np.zeros(3)
        made[:2] = x
        made[2] += x[0]
        return np.sum(made**2)

    x = np.array([1.0, 2.0])
    assert sg.check_grads(f, (x,)).ok
    assert sg.trace(f, x).outputs[0].shape == ()
    assert "∂f/∂x" in str(sg.formula(f, x, wrt="x"))
