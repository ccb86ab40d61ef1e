"""Every record of the table as compiled C against NumPy: within 4 ulp, or 1e-13 where numbers are summed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest

import symgrad.ops  # noqa: F401 - fills the table
from symgrad.core.op import OPS, Op, Sample
from tests.codegen.kernels import Batch, ulps

pytestmark = pytest.mark.c_backend

RECORDS = [op for op in OPS.values() if op.kind != "leaf"]
SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((),), ((4,),), ((100,),), ((2, 3),), ((20, 3),)],
    2: [((), ()), ((3, 1), (4,)), ((), (30,)), ((2, 3), (2, 3)), ((20, 1), (3,))],
    3: [((), (), ()), ((3, 1), (4,), ()), ((2, 3), (2, 3), (2, 3))],
}
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    3.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-310,
    5e-324,
    1e308,
    -1e308,
    1e-5,
    20.0,
    745.0,
]
ACCURATE = {"elementwise", "view"}


def draw(rng: np.random.Generator, domain: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if domain == "bool":
        return rng.uniform(size=shape) < 0.5
    if callable(domain):
        return domain(rng).astype(dtype)
    if domain[2:] == ("int",):
        return rng.integers(domain[0], domain[1], shape)
    return rng.uniform(domain[0], domain[1], shape).astype(dtype)


def cases(op: Op) -> Iterator[tuple[Sample, tuple[tuple[int, ...], ...]]]:
    for sample in op.samples:
        if sample.shapes is not None:
            yield sample, sample.shapes
        else:
            for shapes in SHAPES[len(sample.args)]:
                yield sample, shapes


# SciPy's own function is up to 7 ulp off; this is what both should give.
EXACT: dict[str, Any] = {"erfc": mpmath.erfc}


def exact(op: Op, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    exact = [float(EXACT[op.name](mpmath.mpf(float(v)))) for v in x.ravel()]
    return np.array(exact).reshape(x.shape).astype(x.dtype)


def assert_close(
    op: Op, name: str, args: Any, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]
) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape, name
    if got.dtype.kind != "f":
        assert (got == want).all(), f"{name}: {got} is not {want}"
    elif op.lowering in ACCURATE:
        worst = ulps(got, want if op.name not in EXACT else exact(op, args[0])).max(initial=0)
        assert worst <= 4, f"{name}: {worst} ulp: {got} is not {want}"
    else:
        bound = 1e-13 if got.dtype.itemsize == 8 else 1e-5
        np.testing.assert_allclose(
            got, want, rtol=bound, atol=bound * np.max(np.abs(want), initial=0), err_msg=name
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_every_record_as_numpy_computes_it(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    batch, ops = Batch(), []
    for op in RECORDS:
        for sample, shapes in cases(op):
            args = [draw(rng, d, s, dtype) for d, s in zip(sample.args, shapes, strict=True)]
            batch.add(f"{op.name} {shapes} {sample.params}", op, args, sample.params)
            ops.append(op)
    wrong = []
    for op, (name, got, want) in zip(ops, batch.pairs(), strict=True):
        try:
            assert_close(op, name, batch.args_of(name), got, want)
        except AssertionError as error:
            wrong.append(str(error)[:300])
    assert not wrong, "\n".join(wrong)


EXTREMA = {"maximum", "minimum", "fmax", "fmin"}


def float_ops() -> list[Op]:
    kinds = [op for op in RECORDS if op.lowering == "elementwise"]
    kinds = [op for op in kinds if op.samples[0].shapes is None]
    return [op for op in kinds if all(isinstance(d, tuple) and len(d) == 2 for d in op.samples[0].args)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_special_values(dtype: Any) -> None:
    batch = Batch()
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(dtype)
    for op in float_ops():
        count = len(op.samples[0].args)
        grid = np.array(list(itertools.product(values, repeat=count)), dtype).T
        if count == 3:
            grid = grid[:, ::7]
        for sample in op.samples:
            batch.add(f"{op.name} {sample.params}", op, list(grid), sample.params)
    wrong = []
    for name, got, want in batch.pairs():
        if got.dtype.kind != "f":
            bad = got != want
        else:
            bad = ulps(got, want) > 4
            if name.split()[0] in EXTREMA:
                # Of 0.0 and -0.0 NumPy takes one or the other, depending on the place in the array.
                bad &= got != want
        if bad.any():
            at = np.flatnonzero(bad)[:4]
            args = [a[at] for a in batch.args_of(name)]
            wrong.append(f"{name}{args}: {got[at]} is not {want[at]}")
    assert not wrong, "\n".join(wrong)
