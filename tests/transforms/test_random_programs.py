"""Random programs: NumPy itself, the traced graph, the simplified graph and both modes of differentiation agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.core.graph import canonical, digests, verify
from symgrad.transforms.simplify import simplify
from tests.core.graphs import central, grad_graph, jvp_graph, run, run_all, trace, vjp_graph

SHAPE = (2, 3)
Step = Callable[[list[Any], int, int], Any]

# Bounded and smooth on bounded values, so that differences are accurate however deep the program.
UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin,
    "tanh": np.tanh,
    "expit": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "arctan": np.arctan,
    "root": lambda x: np.sqrt(1.0 + x * x),
    "reciprocal": lambda x: 1 / (2 + np.cos(x)),
    "log": lambda x: np.log(1.5 + np.sin(x)),
    "negative": lambda x: -x,
    "square": lambda x: x**2 / (1 + x**2),
    "centred": lambda x: x - np.mean(x, axis=1, keepdims=True),
    "normed": lambda x: x / (1 + np.linalg.norm(x)),
    "total": lambda x: np.broadcast_to(np.sum(x, axis=0), SHAPE) / 3,
    "running": lambda x: np.cumsum(x, axis=1) / 3,
    "product": lambda x: np.broadcast_to(np.prod(np.cos(x), axis=1)[:, None], SHAPE),
    "softmax": lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))),
    "transposed": lambda x: np.transpose(x).reshape(SHAPE),
    "flipped": lambda x: x[::-1, ::-1],
    "rolled": lambda x: np.roll(x, 1, axis=1),
    "gathered": lambda x: x[:, [2, 0, 0]],
    "joined": lambda x: np.concatenate([x[:, 1:], x[:, :1] * 2], axis=1),
    "padded": lambda x: np.pad(x, 1)[1:-1, 2:] + x,
    "sliced": lambda x: np.stack([x[0], x[1] * x[0]]),
    "deviation": lambda x: x / (1 + np.std(x)),
    "mixed": lambda x: x @ np.array([[1.0, 0.5, 0.0], [0.0, -1.0, 0.3], [0.2, 0.0, 1.0]]) / 2,
    "contracted": lambda x: np.einsum("ij,kj->ik", x, x) @ x / 9,
    "identity": lambda x: x * 1 + 0.0,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: np.sin(a) * np.cos(b),
    "divide": lambda a, b: a / (2 + b * b),
    "power": lambda a, b: (1.5 + np.sin(a)) ** np.tanh(b),
    "hypot": lambda a, b: np.hypot(a, 1 + b * b),
    "angle": lambda a, b: np.arctan2(a, 2 + np.sin(b)),
    "logaddexp": np.logaddexp,
    "column": lambda a, b: a * np.tanh(b[:, :1]),
    "row": lambda a, b: a + b[0],
    "scalar": lambda a, b: a * np.tanh(b[0, 0]),
}
# With kinks: values agree everywhere, derivatives are compared between modes only.
KINKED: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": lambda a, b: np.where(a > b, a * b, np.sqrt(0.1 + np.abs(b))),
    "clip": lambda a, b: np.clip(a, -0.5, b),
    "largest": lambda a, b: a - np.max(b, axis=1, keepdims=True),
    "absolute": lambda a, b: np.abs(a) * np.sign(b),
    "sorted": lambda a, b: np.sort(a, axis=1) + b,
    "floor": lambda a, b: np.floor(a) * b,
    "remainder": lambda a, b: a % (1.0 + np.abs(b)),
}

smooth_steps = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 7), st.integers(0, 7)),
    min_size=1,
    max_size=8,
)
all_steps = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY, *KINKED]), st.integers(0, 7), st.integers(0, 7)),
    min_size=1, max_size=8,
)  # fmt: skip
seeds = st.integers(0, 2**32 - 1)


def program(steps: list[tuple[str, int, int]]) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        values = [x, y]
        for name, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            if name in UNARY:
                values.append(UNARY[name](a))
            else:
                values.append((BINARY.get(name) or KINKED[name])(a, b))
        return values[-1] + values[len(values) // 2]

    return f


def arguments(seed: int) -> tuple[np.random.Generator, Any, Any]:
    rng = np.random.default_rng(seed)
    return rng, rng.uniform(-1, 1, SHAPE), rng.uniform(-1, 1, SHAPE)


@given(all_steps, seeds)
@settings(max_examples=150, deadline=None)
def test_values_agree(steps: list[tuple[str, int, int]], seed: int) -> None:
    f = program(steps)
    _, x, y = arguments(seed)
    expected = f(x, y)
    graph = trace(f, x, y)
    np.testing.assert_allclose(run(graph, x, y), expected, rtol=1e-12, atol=1e-13)
    simplified = simplify(graph)
    verify(simplified)
    np.testing.assert_allclose(run(simplified, x, y), expected, rtol=1e-12, atol=1e-13)
    assert simplify(simplified).outputs == simplified.outputs


@given(all_steps, seeds)
@settings(max_examples=80, deadline=None)
def test_forward_and_reverse_are_adjoint(steps: list[tuple[str, int, int]], seed: int) -> None:
    rng, x, y = arguments(seed)
    graph = simplify(trace(program(steps), x, y))
    u, v, ct = (rng.uniform(-1, 1, SHAPE) for _ in range(3))
    pushed = run(jvp_graph(graph, [0, 1]), x, y, u, v)
    gx, gy = run_all(vjp_graph(graph, [0, 1]), x, y, ct)
    assert gx.shape == gy.shape == SHAPE
    left, right = np.sum(ct * pushed), np.sum(gx * u) + np.sum(gy * v)
    scale = np.sum(np.abs(ct * pushed)) + np.sum(np.abs(gx * u)) + np.sum(np.abs(gy * v))
    assert abs(left - right) <= 1e-12 * scale + 1e-15


@given(smooth_steps, seeds)
@settings(max_examples=80, deadline=None)
def test_derivatives_agree_with_differences(steps: list[tuple[str, int, int]], seed: int) -> None:
    rng, x, y = arguments(seed)
    f = program(steps)
    u, v = (rng.uniform(-1, 1, SHAPE) for _ in range(2))
    graph = simplify(trace(f, x, y))
    pushed = run(jvp_graph(graph, [0, 1]), x, y, u, v)
    differences = central(lambda h: f(x + h * u, y + h * v), 2.0**-10)
    np.testing.assert_allclose(pushed, differences, rtol=1e-7, atol=1e-8)


@given(smooth_steps, seeds)
@settings(max_examples=40, deadline=None)
def test_second_derivatives_agree(steps: list[tuple[str, int, int]], seed: int) -> None:
    rng, x, y = arguments(seed)
    gradient = grad_graph(simplify(trace(program(steps), x, y)), [0, 1])
    u, v, a, b = (rng.uniform(-1, 1, SHAPE) for _ in range(4))
    second = jvp_graph(gradient, [0, 1])
    along, other = run_all(second, x, y, u, v), run_all(second, x, y, a, b)
    left = np.sum(along[0] * a) + np.sum(along[1] * b)
    right = np.sum(other[0] * u) + np.sum(other[1] * v)
    scale = sum(np.sum(np.abs(p)) for p in (*along, *other))
    assert abs(left - right) <= 1e-11 * scale + 1e-14, "the Hessian is not symmetric"
    moved = central(lambda h: np.stack(run_all(gradient, x + h * u, y + h * v)), 2.0**-10)
    np.testing.assert_allclose(np.stack(along), moved, rtol=1e-6, atol=1e-7)


@given(all_steps, seeds)
@settings(max_examples=60, deadline=None)
def test_canonical_form_computes_the_same(steps: list[tuple[str, int, int]], seed: int) -> None:
    _, x, y = arguments(seed)
    graph = grad_graph(trace(program(steps), x, y), [0, 1])
    form = canonical(graph)
    verify(form)
    found, own = digests(graph), digests(form)
    assert [found[o.id] for o in graph.outputs] == [own[o.id] for o in form.outputs]
    assert form.node_count == graph.node_count
    for a, b in zip(run_all(graph, x, y), run_all(form, x, y), strict=True):
        np.testing.assert_array_equal(a, b)


@given(all_steps, seeds)
@settings(max_examples=60, deadline=None)
def test_gradients_of_float32_stay_float32(steps: list[tuple[str, int, int]], seed: int) -> None:
    _, x, y = arguments(seed)
    half = [x.astype(np.float32), y.astype(np.float32)]
    graph = trace(program(steps), *half)
    wide = {n.op.name for n in graph.nodes if n.dtype == np.float64 and n.args}
    if not wide:  # a captured float64 matrix widens what it meets
        for out in grad_graph(graph, [0, 1]).outputs:
            assert out.dtype == np.float32
    else:
        assert [o.dtype for o in grad_graph(graph, [0, 1]).outputs] == [np.float32, np.float32]
