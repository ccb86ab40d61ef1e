"""Compiled kernels: dtypes, edge values, failures, names, accuracy of sums, and a run under sanitizers."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import symgrad.ops  # noqa: F401 - fills the table
from symgrad.codegen.c_source import generate
from symgrad.codegen.c_text import Names
from symgrad.core.aval import Aval, aval_of
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph
from symgrad.core.op import OPS
from symgrad.errors import UnsupportedOperationError
from symgrad.lowering import lower
from symgrad.ops.casting import astype
from symgrad.ops.indexing import gather, scatter_add
from symgrad.ops.linalg import cholesky, inv, solve
from symgrad.ops.reduction import max_, min_, prod, sum_
from symgrad.ops.shaping import concatenate, take_slice
from tests.codegen.kernels import Batch, Kernel, reference

pytestmark = pytest.mark.c_backend

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def graph_of(make: Any, *args: Any) -> Graph:
    table = InternTable()
    inputs = [table.input(aval_of(np.asarray(a)), f"x{k}") for k, a in enumerate(args)]
    made = make(*inputs)
    return Graph(inputs, list(made) if isinstance(made, (list, tuple)) else [made], "f")


def edges(dtype: str) -> list[int]:
    info = np.iinfo(dtype)
    near = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1]
    return near if info.min == 0 else [*near, -1, -2, -7]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps_and_divides_as_numpys(dtype: str) -> None:
    values = edges(dtype)
    pairs = np.array([(a, b) for a in values for b in values], dtype).T
    two = [
        "add",
        "subtract",
        "multiply",
        "floor_divide",
        "remainder",
        "fmod",
        "maximum",
        "minimum",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "less",
        "less_equal",
        "equal",
        "not_equal",
    ]
    batch = Batch()
    for name in two:
        batch.add(name, OPS[name], list(pairs), {})
    for name in (
        "negative",
        "absolute",
        "square",
        "sign",
        "invert",
        "isnan",
        "isfinite",
        "floor",
        "logical_not",
    ):
        if name != "negative" or dtype[0] == "i" or dtype[0] == "u":
            batch.add(name, OPS[name], [np.array(values, dtype)], {})
    small = np.array([(a, b) for a in values for b in (0, 1, 2, 3, 5)], dtype).T
    batch.add("power", OPS["power"], list(small), {})
    for name, got, want in batch.pairs():
        assert (got == want).all(), f"{name} of {dtype}: {got} is not {want}"


def test_signed_and_unsigned_compare_by_value() -> None:
    a, b = np.array([-1, 0, 5]), np.array([2**63, 0, 4], np.uint64)
    batch = Batch()
    for name in ("less", "greater_equal", "equal"):
        batch.add(name, OPS[name], [a, b], {})
        batch.add(name + " swapped", OPS[name], [b, a], {})
    for name, got, want in batch.pairs():
        assert (got == want).all(), name


def test_casts_between_all_dtypes() -> None:
    batch = Batch()
    kinds = [*INTEGERS, "float64", "float32", "bool"]
    for source in kinds:
        for target in kinds:
            values = [0, 1, 2, 100] if source[0] in "ub" else [0, 1, -1, 100, -100]
            data = np.array([*values, 1.5, -2.7] if source[0] == "f" else values).astype(source)
            if not (source[0] == "f" and target[0] == "u"):
                batch.add(f"{source} to {target}", OPS["astype"], [data], {"dtype": target})
    for name, got, want in batch.pairs():
        assert (got == want).all(), f"{name}: {got} is not {want}"


def test_a_float_out_of_range_becomes_the_smallest_integer() -> None:
    graph = graph_of(lambda x: astype(x, dtype="int64"), np.zeros(4))
    (got,) = Kernel(graph)(np.array([np.nan, np.inf, -np.inf, 1e300]))
    assert got.tolist() == [-(2**63)] * 4


def test_float16_is_left_to_numpy() -> None:
    x = InternTable().input(Aval((3,), "float16"))
    with pytest.raises(UnsupportedOperationError):
        lower(Graph([x], [x * x]))


@pytest.mark.parametrize("n", [1, 5, 8, 9, 31, 64, 65, 100, 2047, 2048, 2049, 5000, 100_001])
def test_sums_are_more_accurate_than_numpys(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.uniform(0.5, 1.5, n) * 10.0 ** rng.integers(-3, 4, n)
    (got,) = Kernel(graph_of(lambda v: sum_(v, axis=(0,)), x))(x)
    exact = sum(map(Fraction, x.tolist()))
    error = abs(Fraction(float(got)) - exact) / exact
    assert error <= max(abs(Fraction(float(np.sum(x))) - exact) / exact, Fraction(2.0**-52))


@pytest.mark.parametrize("shape", [(7, 30), (30, 7), (3, 100, 5), (70, 3)])
def test_reductions_over_every_choice_of_axes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, shape)
    choices = [
        axes
        for k in range(1, 2 ** len(shape))
        if (axes := tuple(d for d in range(len(shape)) if k >> d & 1))
    ]

    def make(v: Expr) -> list[Expr]:
        return [op(v, axis=axes) for op in (sum_, max_, min_, prod) for axes in choices]

    graph = graph_of(make, x)
    for got, want in zip(Kernel(graph)(x), reference(graph, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


def test_nan_wins_in_extrema_wherever_it_is() -> None:
    graph = graph_of(lambda v: [max_(v, axis=(1,)), min_(v, axis=(1,))], np.zeros((100, 100)))
    x = np.arange(10_000.0).reshape(100, 100)
    np.fill_diagonal(x, np.nan)
    for got in Kernel(graph)(x):
        assert np.isnan(got).all()


def test_empty_arrays() -> None:
    table = InternTable()
    x = table.input(Aval((0, 3), "float64"), "x")
    graph = Graph([x], [sum_(x, axis=(0,)), sum_(x, axis=(0, 1)), prod(x, axis=(0, 1)), x * 2.0], "f")
    sums, total, product, doubled = Kernel(graph)(np.zeros((0, 3)))
    assert sums.tolist() == [0.0] * 3
    assert (float(total), float(product), doubled.shape) == (0.0, 1.0, (0, 3))


def test_positions_out_of_bounds_are_reported_and_touch_nothing() -> None:
    x, where = np.arange(4.0), np.array([0, 3, 1])
    kernel = Kernel(graph_of(lambda v, k: gather(v, k, axes=(0,)), x, where))
    assert kernel(x, where)[0].tolist() == [0.0, 3.0, 1.0]
    for bad in (4, -1, 2**62, -(2**63)):
        assert kernel.run(x, np.array([0, bad, 1]))[0] != 0
    kernel = Kernel(graph_of(lambda v, k: scatter_add(v, k, shape=(5,), axes=(0,)), x[:3], where))
    assert kernel(x[:3], where)[0].tolist() == [0.0, 2.0, 0.0, 1.0, 0.0]
    assert kernel.run(x[:3], np.array([0, 5, 1]))[0] != 0


@pytest.mark.parametrize("op", [inv, cholesky, lambda a: solve(a, a)])
def test_singular_matrices_are_reported(op: Any) -> None:
    kernel = Kernel(graph_of(op, np.eye(3)))
    assert kernel.run(np.eye(3) * 2.0)[0] == 0
    assert kernel.run(np.diag([1.0, 0.0, 2.0]))[0] != 0


def test_batches_of_matrices_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (4, 1, 3, 3)) + 3 * np.eye(3), rng.uniform(-1, 1, (5, 3, 2))
    graph = graph_of(solve, a, b)
    np.testing.assert_allclose(Kernel(graph)(a, b)[0], np.linalg.solve(a, b), rtol=1e-12)


@pytest.mark.parametrize(
    "shapes",
    [
        ((40, 30), (30, 50)),
        ((3, 4), (4, 2)),
        ((2, 60, 8), (8, 5)),
        ((64,), (64, 40)),
        ((64, 40), (40,)),
        ((1, 30), (30, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_products_of_all_shapes_and_orders(shapes: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, s).astype(dtype) for s in shapes]

    def make(*inputs: Expr) -> list[Expr]:
        flipped = [
            OPS["transpose"](x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if x.ndim > 1 else x
            for x in inputs
        ]
        again = [OPS["multiply"](x, x.table.constant(1, x.dtype)) for x in flipped]
        back = [
            OPS["transpose"](x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if x.ndim > 1 else x
            for x in again
        ]
        return [
            OPS["matmul"](inputs[0], inputs[1]),
            OPS["matmul"](back[0], inputs[1]),
            OPS["matmul"](back[0], back[1]),
        ]

    for got in Kernel(graph_of(make, *arrays))(*arrays):
        assert (got == np.matmul(*arrays)).all()


def test_names_are_valid_and_unique_in_c() -> None:
    table = InternTable()
    words = ["for", "x", "x", "sin", "i", "p['a']", "größe", "sg_push", "in", "1st", "out0", "t1"]
    inputs = [table.input(Aval((3,), "float64"), word) for word in words]
    total = inputs[0]
    for x in inputs[1:]:
        total = total * x
    graph = Graph(inputs, [total], "a name with */ and ??/")
    got = Kernel(graph)(*[np.full(3, 2.0)] * len(words))
    assert got[0].tolist() == [2.0 ** len(words)] * 3


def test_a_variable_named_like_a_numbered_value_does_not_hide_it() -> None:
    """An outer value read in a loop stays visible where the user's names are t1, t2, …"""
    names = Names()
    assert names.numbered() == "t1"
    assert names.fresh("t1") == "t1_2"
    assert names.fresh("t2") == "t2"
    assert names.numbered() == "t3"
    table = InternTable()
    x, c = table.input(Aval((3,), "float64"), "x"), table.input(Aval((), "float64"), "c")
    doubled, halved = c * 2.0, c * 0.5
    first = x * doubled
    second = first * halved
    third = second + doubled
    for number, node in enumerate((first, second, third), 1):
        table.labels[node.id] = f"t{number}"
    got = Kernel(Graph([x, c], [third], "f"))(np.array([1.0, 2.0, 3.0]), np.float64(4.0))
    assert got[0].tolist() == [24.0, 40.0, 56.0]


def test_large_constants_are_handed_over_and_small_ones_written_out() -> None:
    table = InternTable()
    x = table.input(Aval((500,), "float64"), "x")
    large, small = table.constant(np.arange(500.0)), table.constant(np.array([1.0, -0.0, np.nan, np.inf]))
    part = take_slice(x, starts=(0,), sizes=(4,), steps=(1,))
    graph = Graph([x], [x * large, part * small], "f")
    source = generate(lower(graph))
    assert [c.shape for c in source.constants if c is not source.sizes] == [(500,)]
    first, second = Kernel(graph)(np.ones(500))
    assert (first == np.arange(500.0)).all()
    np.testing.assert_array_equal(second, [1.0, -0.0, np.nan, np.inf])
    assert math.copysign(1.0, second[1]) == -1.0


def test_captures_follow_the_inputs() -> None:
    table = InternTable()
    held = np.arange(5.0)
    x = table.input(Aval((5,), "float64"), "x")
    source = generate(lower(Graph([x], [x + table.capture(held)], "f")))
    assert len(source.hidden) == 1
    assert source.hidden[0] is held


def test_an_output_may_be_an_input_or_be_returned_twice() -> None:
    table = InternTable()
    x = table.input(Aval((3,), "float64"), "x")
    y = x * 2.0
    graph = Graph([x], [x, y, y, table.constant(np.array([1, 2]))], "f")
    got = Kernel(graph)(np.array([1.0, 2.0, 3.0]))
    assert [g.tolist() for g in got] == [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [2.0, 4.0, 6.0], [1, 2]]


def test_thousands_of_operands_are_joined() -> None:
    table = InternTable()
    scalars = [table.input(Aval((1,), "float64"), f"s{k}") for k in range(3000)]
    graph = Graph(scalars, [concatenate(*scalars, axis=0)], "join")
    got = Kernel(graph)(*[np.array([float(k)]) for k in range(3000)])
    assert (got[0] == np.arange(3000.0)).all()


SANITIZED = """
import itertools, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from tests.codegen.kernels import STRICT, Kernel
from tests.codegen.test_c_ops import RECORDS, cases, draw
from tests.codegen.kernels import Batch
from tests.lowering.programs import Maker

flags = (*STRICT, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
rng = np.random.default_rng(0)
batch = Batch()
for op in RECORDS:
    for sample, shapes in itertools.islice(cases(op), 1, 3):
        args = [draw(rng, d, s, np.float64) for d, s in zip(sample.args, shapes, strict=True)]
        batch.add(op.name, op, args, sample.params)
batch.flags = flags
batch.kernel()(*batch.args)
for seed in range(5):
    maker = Maker(seed, 30)
    Kernel(maker.graph, flags=flags)(*maker.args())
print("clean")
"""


@pytest.mark.subprocess
def test_kernels_run_clean_under_sanitizers(request: pytest.FixtureRequest) -> None:
    runtime = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("the compiler has no address sanitizer")
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "SYMGRAD_CC_TIMEOUT": "600",
    }
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(request.config.rootpath)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.stdout.endswith("clean\n"), done.stderr[-3000:]


def test_copies_of_one_element_are_the_same_bit_for_bit() -> None:
    exp, equal, broadcast_to = OPS["exp"], OPS["equal"], OPS["broadcast_to"]

    def make(x: Expr, y: Expr) -> list[Expr]:
        pairs = exp(OPS["reshape"](x, shape=(301, 1)) * OPS["reshape"](y, shape=(1, 299)))
        top = broadcast_to(max_(pairs, axis=(0, 1)), shape=(301, 299))
        rows = OPS["reshape"](max_(pairs, axis=(1,)), shape=(301, 1))
        return [sum_(astype(equal(pairs, other), dtype="float64"), axis=(0, 1)) for other in (top, rows)]

    rng = np.random.default_rng(3)
    x, y = rng.uniform(0.1, 1, 301), rng.uniform(0.1, 1, 299)
    first, second = Kernel(graph_of(make, x, y))(x, y)
    assert (float(first), float(second)) == (1.0, 301.0)


def test_a_negative_power_of_an_integer_is_reported() -> None:
    kernel = Kernel(graph_of(lambda a, b: OPS["power"](a, b), np.array([2]), np.array([2])))
    assert kernel(np.array([3]), np.array([4]))[0].tolist() == [81]
    assert kernel.run(np.array([3]), np.array([-1]))[0] != 0


@pytest.mark.parametrize("n", [5, 60])
def test_linear_algebra_of_small_and_large_matrices(n: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (n, n)) + n * np.eye(n)
    a[:2] = a[1::-1]  # a permutation, so that the sign matters
    b = rng.uniform(-1, 1, (n, 7))
    positive = a @ a.T
    ops = OPS

    def make(x: Expr, y: Expr, p: Expr) -> list[Expr]:
        triangular = [
            ops["solve_triangular"](x, y, lower=lower, trans=trans)
            for lower in (True, False)
            for trans in (True, False)
        ]
        single = [ops[name](x) for name in ("inv", "logabsdet", "det_sign")]
        return [solve(x, y), *single, cholesky(p), ops["cofactor"](x * (1.0 / n)), *triangular]

    graph = graph_of(make, a, b, positive)
    for got, want in zip(Kernel(graph)(a, b, positive), reference(graph, [a, b, positive]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12 * np.max(np.abs(want)))


def test_large_singular_matrices_are_reported() -> None:
    for op in (inv, cholesky, lambda a: solve(a, a)):
        kernel = Kernel(graph_of(op, np.eye(60)))
        assert kernel.run(np.eye(60))[0] == 0
        assert kernel.run(np.diag(np.arange(60.0)))[0] != 0
