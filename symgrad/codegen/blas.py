"""BLAS and LAPACK for generated code, without linking: their addresses in the libraries of NumPy and SciPy.

Generated kernels receive the addresses as a hidden input, an array of function pointers in the order of
`ROUTINES`, and call them through the functions of `BlasTable.c_prelude`, which hide how libraries differ.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from symgrad.codegen.blas_wrappers import wrapper
from symgrad.core.lazy import lazy_import

#: Which routine each entry of `BlasTable.pointers` is; new ones are added at the end.
ROUTINES: Final = (
    "dgemm", "sgemm", "dgemv", "sgemv", "ddot", "sdot",
    "dgesv", "dgetrf", "dgetrs", "dpotrf", "dpotrs", "dtrtrs",
)  # fmt: skip
BLAS_ROUTINES: Final = ROUTINES[:6]
LAPACK_ROUTINES: Final = ROUTINES[6:]

# The names of one library differ from the standard's by one pattern, so one spelling serves all its routines.
_CBLAS: Final = (
    "scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}$NEWLAPACK$ILP64", "cblas_{}$NEWLAPACK", "scipy_cblas_{}",
    "cblas_{}",
)  # fmt: skip
_FORTRAN: Final = (
    "scipy_{}_64_", "{}_64_", "{}64_", "{}$NEWLAPACK$ILP64", "{}$NEWLAPACK", "scipy_{}_", "{}_",
)  # fmt: skip

Convention = Literal["cblas", "fortran"]


@dataclass(frozen=True, slots=True, eq=False)
class BlasTable:
    """Where the routines are and how they are called.

    Attributes
    ----------
    addresses
        One a routine, in the order of `ROUTINES`; 0 where the library has none.
    int_bytes
        Width of the libraries' integers: 8 or 4.
    convention
        How the BLAS routines take their arguments; those of LAPACK always follow Fortran.
    origin
        Where they were found, for people.
    pointers
        The addresses as an array, ready to be a hidden input of a kernel.
    """

    addresses: tuple[int, ...]
    int_bytes: int
    convention: Convention
    origin: str
    pointers: np.ndarray[Any, np.dtype[np.uintp]]

    def address(self, routine: str) -> int:
        """Return the address of a routine, 0 if the library lacks it.

        Raises
        ------
        ValueError
            If it is not one of `ROUTINES`.
        """
        if routine not in ROUTINES:
            raise ValueError(f"{routine!r} is none of {', '.join(ROUTINES)}")
        return self.addresses[ROUTINES.index(routine)]

    def c_prelude(self, routines: Iterable[str] = ROUTINES) -> str:
        """Return C source with one function ``sg_<routine>`` for each of the routines.

        Parameters
        ----------
        routines
            Those to be called; by default all.

        Notes
        -----
        All take the table, that is its entry of ``in``, as their first argument. Matrices are row-major for
        gemm and gemv, as in CBLAS, with flags 0 or 1 for transposition; those of LAPACK are column-major,
        with letters for flags, and the functions return ``info``. Sizes are ``long``, pivots ``sg_blasint``.
        Calling a routine whose address is 0 is an error that nothing catches.

        Examples
        --------
        >>> table = blas_table()
        >>> table is None or "static inline double sg_ddot(" in table.c_prelude(["ddot"])
        True
        """
        chosen = [name for name in ROUTINES if name in set(routines)]
        functions = [wrapper(name, ROUTINES.index(name), self.convention) for name in chosen]
        head = f"#include <stddef.h>\n#include <stdint.h>\ntypedef int{8 * self.int_bytes}_t sg_blasint;\n"
        return head + "".join(functions)


_lock = threading.RLock()
_table: BlasTable | None = None
_searched = False


def blas_table() -> BlasTable | None:
    """Return the table of routines, or None if no library publishes them; searched for once.

    NumPy's own library comes first, because a second one would bring its own threads. Each is tried on a
    small problem before it is trusted, which also settles the width of its integers.

    Examples
    --------
    >>> table = blas_table()
    >>> table is None or table.int_bytes in (4, 8)
    True
    """
    global _table, _searched  # noqa: PLW0603 - found once for the process
    with _lock:
        if not _searched:
            _table = next(filter(None, (_checked(*found) for found in _candidates())), None)
            _searched = True
        return _table


def reset() -> None:
    """Forget the table, as in a fresh process."""
    global _table, _searched
    with _lock:
        _table, _searched = None, False


_Addresses = dict[str, int]


def _candidates() -> Iterator[tuple[_Addresses, Convention, str]]:
    libraries = _numpy_libraries()
    lapack = _from_libraries(libraries, LAPACK_ROUTINES, _FORTRAN)
    for convention, spellings in (("cblas", _CBLAS), ("fortran", _FORTRAN)):
        blas = _from_libraries(libraries, BLAS_ROUTINES, spellings)
        if "dgemm" in blas:
            yield blas | lapack, "cblas" if convention == "cblas" else "fortran", "NumPy's BLAS"
    capsules = _from_scipy()
    if "dgemm" in capsules:
        yield capsules, "fortran", "SciPy's BLAS"


def _numpy_libraries() -> list[ctypes.CDLL]:
    libraries = []
    for name in ("numpy._core._multiarray_umath", "numpy.linalg._umath_linalg"):
        file = getattr(importlib.import_module(name), "__file__", None)
        if file is not None:  # else it is linked into the interpreter
            libraries.append(ctypes.CDLL(file))
    return libraries


def _from_libraries(
    libraries: list[ctypes.CDLL], routines: tuple[str, ...], spellings: tuple[str, ...]
) -> _Addresses:
    """Look all routines up under the first spelling that any of them has, never mixing integer widths."""
    for spelling in spellings:
        found = {}
        for routine in routines:
            addresses = (_symbol(library, spelling.format(routine)) for library in libraries)
            address = next(filter(None, addresses), 0)
            if address:
                found[routine] = address
        if found:
            return found
    return {}


def _symbol(library: ctypes.CDLL, name: str) -> int:
    try:
        return ctypes.cast(library[name], ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def _from_scipy() -> _Addresses:
    found = {}
    for module, routines in (("cython_blas", BLAS_ROUTINES), ("cython_lapack", LAPACK_ROUTINES)):
        try:
            capsules = lazy_import(f"scipy.linalg.{module}").__pyx_capi__
        except (ImportError, AttributeError):
            continue
        known = [routine for routine in routines if routine in capsules]
        found.update({routine: _capsule_address(capsules[routine]) for routine in known})
    return found


def _capsule_address(capsule: object) -> int:
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer_of(capsule, name_of(capsule)) or 0)


def _checked(addresses: _Addresses, convention: Convention, origin: str) -> BlasTable | None:
    """Try the library on problems whose answers are known."""
    int_bytes = _pivot_bytes(addresses.get("dgetrf", 0))
    if int_bytes == 0 or not _multiplies(addresses["dgemm"], convention, int_bytes):
        return None
    ordered = tuple(addresses.get(routine, 0) for routine in ROUTINES)
    pointers = np.array(ordered, np.uintp)
    pointers.flags.writeable = False
    return BlasTable(ordered, int_bytes, convention, origin, pointers)


def _pivot_bytes(dgetrf: int) -> int:
    """Factor [[0, 1], [1, 0]] and see how wide the pivots are that LAPACK writes; 0 if they are wrong."""
    if not dgetrf:
        return 0
    # Sizes are passed as 8 bytes, which also hold the 4-byte number on little-endian machines.
    two, info = ctypes.c_int64(2), ctypes.c_int64(0)
    matrix = (ctypes.c_double * 4)(0.0, 1.0, 1.0, 0.0)
    pivots = (ctypes.c_int64 * 2)(-1, -1)
    arguments = [ctypes.byref(part) for part in (two, two, matrix, two, pivots, info)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(dgetrf)(*arguments)
    if list(pivots) == [2, 2]:
        return 8
    return 4 if list((ctypes.c_int32 * 4).from_buffer(pivots)) == [2, 2, -1, -1] else 0


def _multiplies(dgemm: int, convention: Convention, int_bytes: int) -> bool:
    """Multiply two 2x2 matrices, row by row, as the wrappers in C do."""
    integer: Any = ctypes.c_int64 if int_bytes == 8 else ctypes.c_int32
    left, right = (ctypes.c_double * 4)(1.0, 2.0, 3.0, 4.0), (ctypes.c_double * 4)(5.0, 6.0, 7.0, 8.0)
    product = (ctypes.c_double * 4)()
    if convention == "cblas":
        real, matrix = ctypes.c_double, ctypes.c_void_p
        kinds = [*[ctypes.c_int] * 3, *[integer] * 3, real, matrix, integer, matrix, integer, real]
        kinds += [matrix, integer]
        function: Callable[..., Any] = ctypes.CFUNCTYPE(None, *kinds)(dgemm)
        function(101, 111, 111, 2, 2, 2, 1.0, left, 2, right, 2, 0.0, product, 2)
    else:
        no, two = ctypes.c_char(b"N"), integer(2)
        one, zero = ctypes.c_double(1.0), ctypes.c_double(0.0)
        parts = (no, no, two, two, two, one, right, two, left, two, zero, product, two)
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(dgemm)(*[ctypes.byref(part) for part in parts])
    return list(product) == [19.0, 22.0, 43.0, 50.0]


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    global _lock  # noqa: PLW0603 - a child needs a lock of its own
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
