"""Calling NumPy's BLAS and LAPACK from C through a table of addresses."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symgrad.codegen import blas
from symgrad.codegen.blas import ROUTINES, BlasTable, blas_table
from symgrad.codegen.toolchain import compile_shared

pytestmark = pytest.mark.c_backend

Array = np.ndarray[Any, np.dtype[Any]]


def _tables() -> Iterator[BlasTable]:
    for candidate in blas._candidates():
        table = blas._checked(*candidate)
        if table is not None:
            yield table


TABLES = list(_tables())
every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.convention} {table.origin}")


@pytest.fixture(autouse=True)
def fresh_search() -> Iterator[None]:
    blas.reset()
    yield
    blas.reset()


def kernel(folder: Path, table: BlasTable, body: str) -> Any:
    """Compile a kernel whose in[0] is the table and return it as a function of other inputs and outputs."""
    source = table.c_prelude() + (
        "int kernel(const void *const *in, void *const *out, void *workspace);\n"
        "int kernel(const void *const *in, void *const *out, void *workspace) {\n"
        f"(void)in; (void)out; (void)workspace; {body}\n}}\n"
    )
    strict = ["-pedantic", "-Wall", "-Wextra", "-Werror"]
    compile_shared(source, folder / "kernel.so", extra_flags=strict)
    function = ctypes.CDLL(str(folder / "kernel.so")).kernel

    def call(inputs: list[Array], outputs: list[Array]) -> int:
        arrays = [table.pointers, *inputs]
        ins = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
        outs = (ctypes.c_void_p * len(outputs))(*[array.ctypes.data for array in outputs])
        result: int = function(ins, outs, None)
        return result

    return call


def random(seed: int, *shape: int, dtype: str = "f8") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_numpy_brings_a_library() -> None:
    table = blas_table()
    assert table is not None
    assert blas_table() is table
    assert len(table.addresses) == len(ROUTINES)
    assert table.pointers.dtype == np.uintp
    assert table.pointers.tolist() == list(table.addresses)
    assert not table.pointers.flags.writeable
    assert table.address("dgemm") == table.addresses[0] != 0
    with pytest.raises(ValueError, match="zgemm"):
        table.address("zgemm")


def test_the_order_of_the_table_is_part_of_the_kernel_abi() -> None:
    assert ROUTINES == (
        "dgemm", "sgemm", "dgemv", "sgemv", "ddot", "sdot",
        "dgesv", "dgetrf", "dgetrs", "dpotrf", "dpotrs", "dtrtrs",
    )  # fmt: skip


def test_scipy_is_the_second_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_numpy_libraries", list)
    table = blas_table()
    assert table is not None
    assert (table.convention, table.origin) == ("fortran", "SciPy's BLAS")
    assert 0 not in table.addresses


def test_no_library_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_numpy_libraries", list)
    monkeypatch.setattr(blas, "_from_scipy", dict)
    assert blas_table() is None


def test_without_scipy_nothing_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(blas, "lazy_import", missing)
    assert blas._from_scipy() == {}


def test_routines_that_give_wrong_answers_are_not_trusted() -> None:
    # Each does nothing when called.
    idle = ctypes.CFUNCTYPE(None)(lambda: None)
    address = ctypes.cast(idle, ctypes.c_void_p).value or 0
    good = dict(zip(ROUTINES, TABLES[0].addresses, strict=True))
    assert blas._checked(good, TABLES[0].convention, "good") is not None
    assert blas._checked(good | {"dgetrf": address}, TABLES[0].convention, "idle") is None
    assert blas._checked(good | {"dgemm": address}, TABLES[0].convention, "idle") is None
    assert blas._checked({"dgemm": good["dgemm"]}, TABLES[0].convention, "no LAPACK") is None


def test_both_conventions_are_covered_here() -> None:
    assert {table.convention for table in TABLES} == {"cblas", "fortran"}


@every_table
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("letter", "dtype"), [("d", "f8"), ("s", "f4")])
def test_gemm(
    table: BlasTable, tmp_path: Path, trans_a: int, trans_b: int, letter: str, dtype: str
) -> None:
    m, n, k = 3, 5, 4
    a = random(1, *((k, m) if trans_a else (m, k)), dtype=dtype)
    b = random(2, *((n, k) if trans_b else (k, n)), dtype=dtype)
    c = random(3, m, n, dtype=dtype)
    expected = 0.5 * (a.T if trans_a else a) @ (b.T if trans_b else b) + 2 * c
    call = kernel(
        tmp_path,
        table,
        f"sg_{letter}gemm(in[0], {trans_a}, {trans_b}, {m}, {n}, {k}, 0.5, in[1], {a.shape[1]}, in[2], "
        f"{b.shape[1]}, 2.0, out[0], {n}); return 0;",
    )
    assert call([a, b], [c]) == 0
    bound = 1e-14 if dtype == "f8" else 1e-5
    np.testing.assert_allclose(c, expected, rtol=bound, atol=bound)


@every_table
@pytest.mark.parametrize("trans", [0, 1])
def test_gemv(table: BlasTable, tmp_path: Path, trans: int) -> None:
    a, x, y = random(1, 3, 5), random(2, 3 if trans else 5), random(3, 5 if trans else 3)
    expected = 2.0 * (a.T if trans else a) @ x - y
    statement = f"sg_dgemv(in[0], {trans}, 3, 5, 2.0, in[1], 5, in[2], 1, -1.0, out[0], 1);"
    call = kernel(tmp_path, table, f"{statement} return 0;")
    assert call([a, x], [y]) == 0
    np.testing.assert_allclose(y, expected, rtol=1e-13, atol=1e-14)


@every_table
def test_dot_with_strides(table: BlasTable, tmp_path: Path) -> None:
    call = kernel(
        tmp_path,
        table,
        "*(double *)out[0] = sg_ddot(in[0], 3, in[1], 2, in[2], 1);"
        "*(float *)out[1] = sg_sdot(in[0], 2, in[3], 1, in[3], 1); return 0;",
    )
    x, y, s = np.array([1.0, 9, 2, 9, 3]), np.array([4.0, 5, 6]), np.array([3, 4], "f4")
    double, single = np.zeros(()), np.zeros((), "f4")
    assert call([x, y, s], [double, single]) == 0
    assert double == 1 * 4 + 2 * 5 + 3 * 6
    assert single == 9 + 16


@every_table
def test_solving_by_lu(table: BlasTable, tmp_path: Path) -> None:
    # Column-major, so the system is a.T @ x = b, and getrs with 'T' solves a @ x = b.
    call = kernel(
        tmp_path,
        table,
        "sg_blasint pivots[4]; int info;\n"
        "info = sg_dgesv(in[0], 4, 1, out[0], 4, pivots, out[1], 4); if (info) return info;\n"
        "info = sg_dgetrf(in[0], 4, 4, out[2], 4, pivots); if (info) return info;\n"
        "return sg_dgetrs(in[0], 'T', 4, 1, out[2], 4, pivots, out[3], 4);",
    )
    a, b = random(1, 4, 4), random(2, 4)
    first, second = b.copy(), b.copy()
    assert call([], [a.copy(), first, a.copy(), second]) == 0
    np.testing.assert_allclose(a.T @ first, b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a @ second, b, rtol=1e-12, atol=1e-12)


@every_table
def test_a_singular_matrix_is_reported(table: BlasTable, tmp_path: Path) -> None:
    call = kernel(
        tmp_path, table, "sg_blasint pivots[3]; return sg_dgetrf(in[0], 3, 3, out[0], 3, pivots);"
    )
    assert call([], [np.diag([1.0, 0.0, 2.0])]) == 2


@every_table
def test_cholesky_and_triangular_solves(table: BlasTable, tmp_path: Path) -> None:
    # The lower triangle of a row-major matrix is the upper one of its column-major reading.
    call = kernel(
        tmp_path,
        table,
        "int info = sg_dpotrf(in[0], 'U', 3, out[0], 3); if (info) return info;\n"
        "info = sg_dpotrs(in[0], 'U', 3, 1, out[0], 3, out[1], 3); if (info) return info;\n"
        "return sg_dtrtrs(in[0], 'U', 'T', 'N', 3, 1, out[0], 3, out[2], 3);",
    )
    lower = np.array([[2.0, 0, 0], [1, 3, 0], [-1, 0.5, 4]])
    a, b = lower @ lower.T, np.array([1.0, -2.0, 0.5])
    factor, solved, half = a.copy(), b.copy(), b.copy()
    assert call([], [factor, solved, half]) == 0
    np.testing.assert_allclose(np.tril(factor), lower, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(a @ solved, b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(lower @ half, b, rtol=1e-12, atol=1e-12)


def test_the_prelude_holds_only_what_is_asked_for() -> None:
    prelude = TABLES[0].c_prelude(["ddot", "dgemm"])
    assert prelude.count("static inline") == 2
    assert prelude.index("sg_dgemm") < prelude.index("sg_ddot")
    assert "@" not in TABLES[0].c_prelude()


def test_the_prelude_states_the_width_of_integers() -> None:
    for width in (4, 8):
        table = dataclasses.replace(TABLES[0], int_bytes=width)
        assert f"typedef int{8 * width}_t sg_blasint;" in table.c_prelude([])
