"""How formulas are written: parentheses, constants, names, shared subterms, deep chains, SymPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

from symgrad.core.aval import make_aval
from symgrad.core.expr import InternTable
from symgrad.core.graph import Graph
from symgrad.core.origin import Origin
from symgrad.errors import UnsupportedOperationError
from symgrad.formula.dot import to_dot, to_svg
from symgrad.formula.formula import make_formula
from symgrad.formula.latex import latex_binding
from symgrad.ops.indexing import getitem
from symgrad.ops.transcendental import exp, sin
from tests.formula.graphs import N, evaluate_source, evaluate_text, gradient, graph_of, reference


def lines(f: Any, **shapes: Any) -> tuple[str, str]:
    """Unicode and ASCII right-hand side over scalar arguments a, b, c."""
    graph = graph_of(f, **(shapes or {"a": (), "b": (), "c": ()}))
    formula = make_formula(graph, ["g"])
    return str(formula).rpartition("g = ")[2], formula.ascii.rpartition("g = ")[2]


@pytest.mark.parametrize(("f", "unicode", "ascii"), [
    (lambda a, b, c: a - (b - c), "a - (b - c)", "a - (b - c)"),
    (lambda a, b, c: a - (b + c), "a - (b + c)", "a - (b + c)"),
    (lambda a, b, c: (a - b) - c, "a - b - c", "a - b - c"),
    (lambda a, b, c: a + (-b), "a - b", "a - b"),
    (lambda a, b, c: -a + b, "b - a", "b - a"),
    (lambda a, b, c: -a - b, "-a - b", "-a - b"),
    (lambda a, b, c: -(a - b), "b - a", "b - a"),
    (lambda a, b, c: -(a + b), "-(a + b)", "-(a + b)"),
    (lambda a, b, c: a / (b * c), "a/(b·c)", "a/(b*c)"),
    (lambda a, b, c: a / b / c, "a/(b·c)", "a/(b*c)"),
    (lambda a, b, c: a / (b / c), "a·c/b", "a*c/b"),
    (lambda a, b, c: a * (1 / b), "a/b", "a/b"),
    (lambda a, b, c: (-a) ** 2, "(-a)²", "(-a)**2"),
    (lambda a, b, c: -(a ** 2), "-a²", "-a**2"),
    (lambda a, b, c: 2 ** -a, "2^-a", "2**-a"),
    (lambda a, b, c: 2 ** (-a * b), "2^(-a·b)", "2**(-a*b)"),
    (lambda a, b, c: a ** -2.0, "1/a²", "1/a**2"),
    (lambda a, b, c: a ** -0.5, "a^-0.5", "a**-0.5"),
    (lambda a, b, c: (a ** b) ** c, "(a^b)^c", "(a**b)**c"),
    (lambda a, b, c: a ** (b ** c), "a^(b^c)", "a**(b**c)"),
    (lambda a, b, c: (a + b) ** 2, "(a + b)²", "(a + b)**2"),
    (lambda a, b, c: (a * b) ** 3, "(a·b)³", "(a*b)**3"),
    (lambda a, b, c: a * a * a, "a³", "a**3"),
    (lambda a, b, c: N.remainder(a * b, c) * 2, "2·((a·b) % c)", "2*((a*b) % c)"),
    (lambda a, b, c: N.remainder(a, b * c), "a % (b·c)", "a % (b*c)"),
    (lambda a, b, c: N.floor_divide(N.floor_divide(a, b), c), "(a//b)//c", "(a//b)//c"),
    (lambda a, b, c: -N.floor_divide(a, b), "-(a//b)", "-(a//b)"),
    (lambda a, b, c: a - N.remainder(b, c), "a - b % c", "a - b % c"),
    (lambda a, b, c: N.where((a < b) & ~(b >= c), a, 0), "where((a < b) ∧ ¬(b ≥ c), a, 0)",
     "where((a < b) & ~(b >= c), a, 0)"),
    (lambda a, b, c: a * 1e-7 + 2.0, "1e-07·a + 2", "1e-07*a + 2"),
    (lambda a, b, c: a * (1 / 3), "a/3", "a/3"),
    (lambda a, b, c: a * (2 / 3) * b, "2·a·b/3", "2*a*b/3"),
    (lambda a, b, c: a * np.pi / 2, "π·a/2", "pi*a/2"),
    (lambda a, b, c: a / np.sqrt(2 * np.pi), "a/√(2·π)", "a/sqrt(2*pi)"),
    (lambda a, b, c: N.maximum(a, -np.inf), "max(a, -∞)", "maximum(a, -inf)"),
    (lambda a, b, c: N.sqrt(a) + N.sqrt(b + c), "√a + √(b + c)", "sqrt(a) + sqrt(b + c)"),
    (lambda a, b, c: N.absolute(a - b), "|a - b|", "abs(a - b)"),
    (lambda a, b, c: N.expit(a), "σ(a)", "expit(a)"),
    (lambda a, b, c: N.exp(-a) * b * 2, "2·b·exp(-a)", "2*b*exp(-a)"),
    (lambda a, b, c: a * 2.0 * 0.5, "a", "a"),
    (lambda a, b, c: a * 0.1 * 3.0, "0.1·3·a", "0.1*3*a"),
    (lambda a, b, c: 6 * a / (4 * b), "3·a/(2·b)", "3*a/(2*b)"),
    (lambda a, b, c: a + a, "2·a", "2*a"),
])
def test_text(f: Any, unicode: str, ascii: str) -> None:
    assert lines(f) == (unicode, ascii)


@pytest.mark.parametrize(("f", "latex"), [
    (lambda a, b: a - (b - 1), r"a - \left(b - 1\right)"),
    (lambda a, b: (a + b) / (a * b), r"\frac{a + b}{a b}"),
    (lambda a, b: -(a + b), r"-\left(a + b\right)"),
    (lambda a, b: N.exp(-a) ** 2, r"\left(e^{-a}\right)^{2}"),
    (lambda a, b: (a / b) ** 2, r"\left(\frac{a}{b}\right)^{2}"),
    (lambda a, b: a ** (b + 1), "a^{b + 1}"),
    (lambda a, b: (a ** b) ** 2, r"\left(a^{b}\right)^{2}"),
    (lambda a, b: N.sqrt(a + b), r"\sqrt{a + b}"),
    (lambda a, b: N.where(a < b, a, 1.0),
     r"\begin{cases} a & \text{if } a < b \\ 1 & \text{otherwise} \end{cases}"),
    (lambda a, b: a * 1.5e-9, r"1.5 \times 10^{-9} a"),
    (lambda a, b: a * (b + 1), r"a \cdot \left(b + 1\right)"),
    (lambda a, b: 2 * (b + 1), r"2 \left(b + 1\right)"),
    (lambda a, b: N.tanh(a) * N.sin(b), r"\tanh\left(a\right) \sin\left(b\right)"),
])
def test_latex(f: Any, latex: str) -> None:
    assert make_formula(graph_of(f, a=(), b=()), ["g"]).latex == f"g = {latex}"


def test_latex_of_matrices_and_vectors() -> None:
    def f(X: Any, w: Any, y: Any) -> Any:
        return N.sum((X @ w - y) ** 2)

    graph = graph_of(f, X=(5, 2), w=(2,), y=(5,))
    assert make_formula(graph, ["f"]).latex == r"f\left(X, w, y\right) = \sum \left(X w - y\right)^{2}"
    slope, names = gradient(graph, "w")
    expected = r"\frac{\partial f}{\partial w} = 2 X^{T} \left(X w - y\right)"
    assert make_formula(slope, names).latex == expected
    assert make_formula(slope, names)._repr_latex_() == rf"$\displaystyle {expected}$"
    pair = graph_of(lambda b: N.stack([getitem(b, 0) ** 2, getitem(b, 1)]), b=(2,))
    assert make_formula(pair, ["g"]).latex == r"g = \begin{pmatrix} b_{0}^{2} \\ b_{1} \end{pmatrix}"


def test_every_latex_template_has_a_binding() -> None:
    assert latex_binding(exp)[0] < 90  # e^{x} needs parentheses as a base
    assert latex_binding(sin)[0] == 100


def named(labels: list[str], f: Any) -> str:
    table = InternTable()
    inputs = [table.input(make_aval((), np.dtype(float)), text) for text in labels]
    return str(make_formula(Graph(inputs, [f(*inputs)], "h"), ["g"])).partition(" = ")[2]


def test_names_stay_readable_and_unambiguous() -> None:
    assert named(["lambda", "exp"], lambda x, y: x * exp(y)) == "lambda_·exp(exp_)"
    assert named(["params['rate']", "t.0"], lambda x, y: x * y) == "params_rate·t_0"
    assert named(["x", "x"], lambda x, y: x - y) == "x - x_2"
    assert named(["", ""], lambda x, y: x - y) == "x0 - x1"
    assert named(["β", "beta"], lambda x, y: x - y) == "β - beta_2"
    formula = make_formula(graph_of(lambda **given: given["β"] * 2, β=()), ["g"])
    assert (str(formula), formula.ascii, formula.latex) == ("g = 2·β", "g = 2*beta", r"g = 2 \beta")


def test_latex_names() -> None:
    formula = make_formula(
        graph_of(lambda beta, x_1, b2, rate, lambda_: beta * x_1 * b2 * rate * lambda_,
                 beta=(), x_1=(), b2=(), rate=(), lambda_=()), ["g"])
    assert formula.latex == r"g = \beta x_{1} b_{2} \, \mathrm{rate} \, \lambda"


def test_derivatives_are_called_by_their_argument() -> None:
    def decay(t: Any, rate: Any) -> Any:
        return N.exp(-rate * t)

    graph = graph_of(decay, t=(), rate=())
    assert str(make_formula(graph, ["decay"])) == "decay(t, rate) = exp(-rate·t)"
    formula = make_formula(*gradient(graph, "rate"))
    assert str(formula) == "∂decay/∂rate = -t·exp(-rate·t)"
    assert formula.ascii == "ddecay_drate = -t*exp(-rate*t)"
    expected = r"\frac{\partial \mathrm{decay}}{\partial \mathrm{rate}} = -t e^{-\mathrm{rate} \, t}"
    assert formula.latex == expected
    assert formula.numpy() == (
        "import numpy as np\n\ndef decay(t, rate):\n    return -t*np.exp(-rate*t)\n"
    )


def test_shared_subterms_are_named_when_large() -> None:
    def f(a: Any, b: Any) -> Any:
        big = N.exp(-(a ** 2) / b) * N.sin(a)
        return big + big ** 2, N.sin(a) + 1

    formula = make_formula(graph_of(f, a=(), b=()), ["p", "q"])
    assert str(formula) == "t₁ = exp(-a²/b)·sin(a)\np = t₁ + t₁²\nq = sin(a) + 1"


def test_the_name_of_a_subterm_avoids_the_users() -> None:
    def f(t: Any, s1: Any) -> Any:
        big = N.exp(-(t ** 2) / s1) * N.sin(t)
        return big + big ** 2

    text = str(make_formula(graph_of(f, t=(), s1=()), ["g"]))
    assert text == "u₁ = exp(-t²/s1)·sin(t)\ng = u₁ + u₁²"


def test_users_variables_give_the_names() -> None:
    def f(x: Any, y: Any) -> Any:
        residual = y - N.exp(-x)
        residual.table.labels[residual.id] = "residual"
        return N.sum(residual ** 2) + N.max(residual)

    text = str(make_formula(graph_of(f, x=(3,), y=(3,)), ["g"]))
    assert text == "residual = y - exp(-x)\ng = Σ(residual²) + max(residual)"


def test_value_and_gradient_share_subterms() -> None:
    def f(b: Any, x: Any) -> Any:
        return N.sum(N.exp(-(x ** 2) / b))

    formula = make_formula(*gradient(graph_of(f, b=(), x=(4,)), "b", value=True))
    assert str(formula) == "t₁ = exp(-x²/b)\nf(b, x) = Σ(t₁)\n∂f/∂b = Σ(x²·t₁)/b²"


def test_a_gradient_by_elements_is_a_vector() -> None:
    def f(b: Any) -> Any:
        return getitem(b, 0) ** 2 * N.exp(getitem(b, 2))

    formula = make_formula(*gradient(graph_of(f, b=(3,)), "b"))
    assert str(formula) == "∂f/∂b = [2·b[0]·exp(b[2]), 0, b[0]²·exp(b[2])]"
    (value,) = evaluate_text(formula, b=np.array([3.0, 1.0, 0.0]))
    np.testing.assert_array_equal(value, [6.0, 0.0, 9.0])


def deepest(text: str) -> int:
    """How deeply parentheses nest."""
    depth = most = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        most = max(most, depth)
    return most


def test_deep_chains_are_cut_into_named_pieces() -> None:
    def f(x: Any) -> Any:
        for _ in range(20_000):
            x = N.sin(x)
        return x

    graph = graph_of(f, x=())
    formula = make_formula(graph, ["g"])
    assert deepest(str(formula)) <= 30
    expected = reference(graph, x=np.float64(0.7))
    assert evaluate_text(formula, x=np.float64(0.7)) == expected
    assert evaluate_source(formula, x=np.float64(0.7)) == expected[0]
    assert formula.latex.count("&=") == len(str(formula).splitlines())
    with pytest.raises(UnsupportedOperationError, match="too deeply for SymPy"):
        formula.sympy()


def test_long_sums_and_products_stay_evaluable() -> None:
    def f(x: Any, y: Any) -> Any:
        total, product = x, y
        for k in range(2_000):
            total = total + N.cos(x + float(k)) * y
            product = product * N.cos(y + float(k))
        return total, product

    graph = graph_of(f, x=(), y=())
    formula = make_formula(graph, ["p", "q"])
    point = {"x": np.float64(0.3), "y": np.float64(0.9)}
    values = evaluate_text(formula, **point)
    np.testing.assert_allclose(values, reference(graph, **point), rtol=1e-10, atol=1e-300)
    assert max(map(len, str(formula).splitlines())) < 4_000


def test_shared_terms_keep_the_text_linear() -> None:
    def f(x: Any) -> Any:
        for _ in range(200):
            x = x * N.sin(x) + x
        return x

    assert len(str(make_formula(graph_of(f, x=()), ["g"]))) < 200 * 40


def test_sympy_of_scalars_and_short_vectors() -> None:
    a, b0, b1 = sympy.symbols("a b_0 b_1")
    graph = graph_of(lambda a, b: N.sqrt(a) * getitem(b, 0) + getitem(b, 1) ** 2, a=(), b=(2,))
    formula = make_formula(graph, ["g"])
    assert formula.sympy() == sympy.sqrt(a) * b0 + b1**2
    slope = make_formula(*gradient(formula.graph, "b"))
    assert slope.sympy() == sympy.Matrix([sympy.sqrt(a), 2 * b1])
    pair = make_formula(graph_of(lambda b: (N.sum(b), b @ b), b=(2,)), ["p", "q"])
    assert pair.sympy() == (b0 + b1, b0**2 + b1**2)


def test_sympy_of_conditions() -> None:
    a, b = sympy.symbols("a b")
    graph = graph_of(lambda a, b: N.where(a < b, N.maximum(a, 2.0), N.expit(b) * np.pi / 3), a=(), b=())
    expected = sympy.Piecewise((sympy.Max(2, a), a < b), (sympy.pi / 3 / (1 + sympy.exp(-b)), True))
    assert make_formula(graph, ["g"]).sympy() == expected


def test_sympy_of_small_matrices() -> None:
    graph = graph_of(lambda A: np.linalg and N.log(_det(A)), A=(2, 2))
    p, q, r, s = sympy.symbols("A_0_0 A_0_1 A_1_0 A_1_1")
    assert sympy.simplify(make_formula(graph, ["g"]).sympy() - sympy.log(p * s - q * r)) == 0


def _det(A: Any) -> Any:
    from symgrad.ops.define import FUNCTIONS

    return FUNCTIONS[np.linalg.det](A)


def test_sympy_says_what_it_cannot_do() -> None:
    with pytest.raises(UnsupportedOperationError, match="argsort has no counterpart in SymPy"):
        make_formula(graph_of(N.argsort, x=(3,)), ["g"]).sympy()
    with pytest.raises(UnsupportedOperationError, match="the argument x has 2000 of them"):
        make_formula(graph_of(N.sum, x=(2000,)), ["g"]).sympy()


def test_latex_is_balanced() -> None:
    def f(x: Any, y: Any) -> Any:
        return N.where(x > 0, N.floor(x / y) ** 2, -N.absolute(y - (x - y))) * N.exp(-N.exp(x)) ** 2

    latex = make_formula(graph_of(f, x=(3,), y=(3,)), ["g"]).latex
    assert latex.count("{") == latex.count("}")
    assert latex.count(r"\left") == latex.count(r"\right")


def test_output_does_not_depend_on_the_process() -> None:
    code = (
        "import numpy as np\n"
        "from tests.formula.graphs import N, graph_of, gradient\n"
        "from symgrad.formula.formula import make_formula\n"
        "g = graph_of(lambda a, b, x: N.sum((N.exp(-a * x) - b * x) ** 2), a=(), b=(), x=(4,))\n"
        "f = make_formula(*gradient(g, 'a', 'b', value=True))\n"
        "print(f, f.ascii, f.latex, f.numpy(), ascii(f.sympy()))\n"
    )
    printed = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True,
                       env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PYTHONIOENCODING": "utf-8"}).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_pictures() -> None:
    graph = graph_of(lambda x, y: N.exp(x * y) + 2.0, x=(3,), y=())
    dot = to_dot(graph)
    assert dot.startswith('digraph "<lambda>" {')
    assert dot.count(" -> ") == 5
    assert r'label="exp\nf64[3]"' in dot
    svg = to_svg(graph)
    assert svg.count("<rect") == 6
    assert svg.count("<line") == 5
    assert svg.startswith("<svg xmlns")
    assert svg.endswith("</svg>")


def test_graphs_print_one_line_an_operation() -> None:
    data = np.ones((3, 3))

    def f(x: Any, y: Any) -> Any:
        return N.exp(x * 2.0) + x.table.capture(data) @ y

    assert str(graph_of(f, x=(3,), y=(3,))) == """\
f(x: f64[3], y: f64[3])
  t1: f64[3] = multiply(x, 2.0)
  t2: f64[3] = exp(t1)
  t3: f64[3,3] = captured array
  t4: f64[3] = matmul(t3, y)
  t5: f64[3] = add(t2, t4)
  return t5"""


def test_graphs_show_the_users_lines(tmp_path: Path) -> None:
    source = tmp_path / "fit.py"
    source.write_text("r = exp(-x)\n", encoding="utf-8")
    graph = graph_of(lambda x: N.exp(-x), x=())
    for node in graph.nodes[1:]:
        graph.table.origins[node.id] = Origin(str(source), 1, "f")
    first, second = str(graph).splitlines()[1:3]
    assert first == "  t1: f64[] = negative(x)  # fit.py:1  r = exp(-x)"
    assert second == "  t2: f64[] = exp(t1)      # fit.py:1"
