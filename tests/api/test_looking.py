"""Formulas, graphs and specs as a user asks for them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import symgrad as sg


def loss(w, x, y):
    residual = x @ w - y
    return np.sum(residual**2)


SPECS = (sg.Spec((3,)), sg.Spec((5, 3)), sg.Spec((5,)))


class TestFormula:
    def test_of_a_function_and_its_derivative(self):
        assert str(sg.formula(loss, *SPECS)) == "loss(w, x, y) = Σ((x @ w - y)²)"
        assert str(sg.formula(loss, *SPECS, wrt="w")) == "∂loss/∂w = 2·xᵀ @ (x @ w - y)"
        assert str(sg.formula(loss, *SPECS, wrt=0)) == str(sg.formula(loss, *SPECS, wrt="w"))

    def test_of_a_compiled_derivative_is_titled_as_one(self):
        assert str(sg.formula(sg.grad(loss), *SPECS)) == "∂loss/∂w = 2·xᵀ @ (x @ w - y)"
        assert str(sg.grad(lambda x: x**3).formula(2.0)) == "∂f/∂x = 3·x²"

    def test_value_and_gradient_share_subterms(self):
        lines = str(sg.value_and_grad(loss).formula(*SPECS)).splitlines()
        assert lines[0] == "residual = x @ w - y"
        assert lines[-2].startswith("loss")
        assert lines[-1].startswith("∂loss/∂w")

    def test_leaves_of_a_tree_have_their_own_derivatives(self):
        text = str(sg.formula(lambda p: p["a"] * p["b"], {"a": 2.0, "b": 3.0}, wrt="p"))
        assert text.splitlines() == ["∂f/∂p_a = p_b", "∂f/∂p_b = p_a"]

    def test_a_spec_may_bring_a_name(self):
        assert str(sg.formula(lambda x: x**2, sg.Spec(name="speed"))) == "f(speed) = speed²"

    def test_latex_and_sympy(self):
        made = sg.formula(lambda x: np.exp(-x) / x, sg.Spec(), wrt="x")
        assert "\\frac" in made.latex
        expression = made.sympy()
        (symbol,) = expression.free_symbols
        assert float(expression.subs(symbol, 0.7)) == pytest.approx(
            -np.exp(-0.7) * (1 / 0.7 + 1 / 0.49), rel=1e-14
        )

    def test_unknown_arguments(self):
        with pytest.raises(ValueError, match="no argument 'z'; its arguments are w, x, y"):
            sg.formula(loss, *SPECS, wrt="z")
        with pytest.raises(ValueError, match="wrt=7"):
            sg.formula(loss, *SPECS, wrt=7)


class TestTrace:
    def test_it_prints_operations_with_lines(self):
        text = str(sg.trace(loss, *SPECS))
        assert text.startswith("loss(w: f64[3], x: f64[5,3], y: f64[5])")
        assert "test_looking.py" in text
        assert "residual: f64[5] = subtract(" in text

    def test_it_draws(self):
        graph = sg.trace(loss, *SPECS)
        assert graph.to_dot().startswith("digraph")
        assert graph.to_svg().startswith("<svg")
        assert graph._repr_svg_() == graph.to_svg()

    def test_it_is_pickled(self):
        graph = sg.trace(loss, *SPECS)
        assert str(pickle.loads(pickle.dumps(graph))) == str(graph)

    def test_an_example_decides_branches(self):
        def f(x):
            return x**2 if x > 0 else -x

        assert sg.trace(f, 2.0).node_count == 1
        assert "negative" in str(sg.trace(f, -2.0))
        with pytest.raises(sg.TraceError, match=r"instead of sg\.Spec"):
            sg.trace(f, sg.Spec())


def test_show_config_names_what_is_used():
    text = sg.show_config()
    for word in ("python", "numpy", "compiler", "BLAS", "cache"):
        assert word in text
