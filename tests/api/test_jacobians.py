"""Jacobians and Hessians as a user calls them, on both backends."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture(params=["numpy", "c"], autouse=True)
def backend(request):
    with sg.config(backend=request.param):
        yield request.param


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
class TestJacobian:
    def test_of_an_elementwise_function_is_diagonal(self, mode):
        x = np.array([0.3, 1.2, -0.7])
        np.testing.assert_allclose(sg.jacobian(np.sin, mode=mode)(x), np.diag(np.cos(x)), rtol=1e-15)

    def test_of_a_linear_map_is_its_matrix(self, mode):
        a = np.arange(6.0).reshape(2, 3)
        np.testing.assert_array_equal(sg.jacobian(lambda x: a @ x, mode=mode)(np.ones(3)), a)
        np.testing.assert_array_equal(sg.jacobian(lambda x: a.T @ x, mode=mode)(np.ones(2)), a.T)

    def test_zeros_between_elements_stay_zeros_at_infinite_slopes(self, mode):
        np.testing.assert_array_equal(
            sg.jacobian(np.sqrt, mode=mode)(np.array([0.0, 4.0])), [[np.inf, 0.0], [0.0, 0.25]]
        )

    def test_shapes_are_those_of_output_then_argument(self, mode):
        result = sg.jacobian(lambda x: np.outer(x, x), mode=mode)(np.array([2.0, 3.0]))
        expected = np.zeros((2, 2, 2))
        for i in range(2):
            for j in range(2):
                expected[i, j, i] += [2.0, 3.0][j]
                expected[i, j, j] += [2.0, 3.0][i]
        np.testing.assert_array_equal(result, expected)

    def test_scalars(self, mode):
        assert sg.jacobian(lambda x: x**3, mode=mode)(2.0) == 12.0

    def test_size_zero(self, mode):
        assert sg.jacobian(lambda x: x * 2.0, mode=mode)(np.zeros((0, 2))).shape == (0, 2, 0, 2)

    def test_trees(self, mode):
        result = sg.jacobian(lambda p: {"a": p["x"] * 2.0, "b": np.sum(p["x"]) * p["y"]}, mode=mode)(
            {"x": np.ones(2), "y": 3.0}
        )
        np.testing.assert_array_equal(result["a"]["x"], 2.0 * np.eye(2))
        np.testing.assert_array_equal(result["a"]["y"], np.zeros(2))
        np.testing.assert_array_equal(result["b"]["x"], [3.0, 3.0])
        assert result["b"]["y"] == 2.0

    def test_several_arguments(self, mode):
        by_x, by_y = sg.jacobian(lambda x, y: x * y, (0, 1), mode=mode)(np.array([1.0, 2.0]), 3.0)
        np.testing.assert_array_equal(by_x, 3.0 * np.eye(2))
        np.testing.assert_array_equal(by_y, [1.0, 2.0])

    def test_through_a_branch(self, mode):
        f = sg.jacobian(lambda x: x**2 if x[0] > 0 else -x, mode=mode)
        np.testing.assert_array_equal(f(np.array([1.0, 2.0])), np.diag([2.0, 4.0]))
        np.testing.assert_array_equal(f(np.array([-1.0, 2.0])), -np.eye(2))


def test_hessian_of_a_quadratic_form_is_its_symmetric_part_twice():
    a = np.array([[1.0, 2.0], [0.0, 3.0]])
    np.testing.assert_array_equal(sg.hessian(lambda x: x @ a @ x)(np.array([0.5, -1.0])), a + a.T)


def test_hessian_of_rosenbrock():
    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    # By hand at (1, 2): 1200 x0² - 400 x1 + 2, -400 x0, 200.
    np.testing.assert_allclose(
        sg.hessian(rosenbrock)(np.array([1.0, 2.0])), [[402.0, -400.0], [-400.0, 200.0]], rtol=1e-15
    )


def test_an_integer_output_has_no_jacobian():
    with pytest.raises(sg.DtypeError, match="has no derivative"):
        sg.jacobian(lambda x: np.argsort(x))(np.ones(2))


def test_an_unknown_mode():
    with pytest.raises(ValueError, match="'auto', 'forward' or 'reverse'"):
        sg.jacobian(np.sin, mode="sideways")
