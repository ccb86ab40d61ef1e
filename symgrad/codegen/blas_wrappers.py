"""C functions around BLAS and LAPACK routines that are known by address only.

In the texts ``@I`` stands for the library's integer, ``@R`` for the element type, ``@P`` for the routine's
letter and ``@E`` for its address. Both conventions get wrappers with one and the same prototype.
"""

from __future__ import annotations

from typing import Final

_ENTRY: Final = "((const uintptr_t *)table)[@N]"

_GEMM: Final = """\
static inline void sg_@Pgemm(const void *table, int trans_a, int trans_b, long m, long n, long k, @R alpha,
                            const @R *a, long lda, const @R *b, long ldb, @R beta, @R *c, long ldc) {
"""
_GEMV: Final = """\
static inline void sg_@Pgemv(const void *table, int trans, long m, long n, @R alpha, const @R *a, long lda,
                            const @R *x, long incx, @R beta, @R *y, long incy) {
"""
_DOT: Final = """\
static inline @R sg_@Pdot(const void *table, long n, const @R *x, long incx, const @R *y, long incy) {
"""

#: 101 is row-major, 111 and 112 are untransposed and transposed.
CBLAS: Final = {
    "gemm": _GEMM + """\
    typedef void (*routine)(int, int, int, @I, @I, @I, @R, const @R *, @I, const @R *, @I, @R, @R *, @I);
    ((routine)@E)(101, trans_a ? 112 : 111, trans_b ? 112 : 111, (@I)m, (@I)n, (@I)k, alpha, a, (@I)lda, b,
                  (@I)ldb, beta, c, (@I)ldc);
}
""",
    "gemv": _GEMV + """\
    typedef void (*routine)(int, int, @I, @I, @R, const @R *, @I, const @R *, @I, @R, @R *, @I);
    ((routine)@E)(101, trans ? 112 : 111, (@I)m, (@I)n, alpha, a, (@I)lda, x, (@I)incx, beta, y, (@I)incy);
}
""",
    "dot": _DOT + """\
    typedef @R (*routine)(@I, const @R *, @I, const @R *, @I);
    return ((routine)@E)((@I)n, x, (@I)incx, y, (@I)incy);
}
""",
}  # fmt: skip

#: Fortran sees a row-major matrix as its transpose, so the operands change places. The lengths of character
#: arguments come last, as Fortran compilers pass them.
FORTRAN: Final = {
    "gemm": _GEMM + """\
    typedef void (*routine)(const char *, const char *, const @I *, const @I *, const @I *, const @R *,
                            const @R *, const @I *, const @R *, const @I *, const @R *, @R *, const @I *,
                            size_t, size_t);
    const @I m_ = (@I)m, n_ = (@I)n, k_ = (@I)k, lda_ = (@I)lda, ldb_ = (@I)ldb, ldc_ = (@I)ldc;
    ((routine)@E)(trans_b ? "T" : "N", trans_a ? "T" : "N", &n_, &m_, &k_, &alpha, b, &ldb_, a, &lda_, &beta,
                  c, &ldc_, 1, 1);
}
""",
    "gemv": _GEMV + """\
    typedef void (*routine)(const char *, const @I *, const @I *, const @R *, const @R *, const @I *,
                            const @R *, const @I *, const @R *, @R *, const @I *, size_t);
    const @I m_ = (@I)m, n_ = (@I)n, lda_ = (@I)lda, incx_ = (@I)incx, incy_ = (@I)incy;
    ((routine)@E)(trans ? "N" : "T", &n_, &m_, &alpha, a, &lda_, x, &incx_, &beta, y, &incy_, 1);
}
""",
    "dot": _DOT + """\
    typedef @R (*routine)(const @I *, const @R *, const @I *, const @R *, const @I *);
    const @I n_ = (@I)n, incx_ = (@I)incx, incy_ = (@I)incy;
    return ((routine)@E)(&n_, x, &incx_, y, &incy_);
}
""",
}  # fmt: skip

LAPACK: Final = {
    "gesv": """\
static inline int sg_@Pgesv(const void *table, long n, long nrhs, @R *a, long lda, @I *pivots, @R *b,
                            long ldb) {
    typedef void (*routine)(const @I *, const @I *, @R *, const @I *, @I *, @R *, const @I *, @I *);
    const @I n_ = (@I)n, nrhs_ = (@I)nrhs, lda_ = (@I)lda, ldb_ = (@I)ldb;
    @I info = 0;
    ((routine)@E)(&n_, &nrhs_, a, &lda_, pivots, b, &ldb_, &info);
    return (int)info;
}
""",
    "getrf": """\
static inline int sg_@Pgetrf(const void *table, long m, long n, @R *a, long lda, @I *pivots) {
    typedef void (*routine)(const @I *, const @I *, @R *, const @I *, @I *, @I *);
    const @I m_ = (@I)m, n_ = (@I)n, lda_ = (@I)lda;
    @I info = 0;
    ((routine)@E)(&m_, &n_, a, &lda_, pivots, &info);
    return (int)info;
}
""",
    "getrs": """\
static inline int sg_@Pgetrs(const void *table, char trans, long n, long nrhs, const @R *a, long lda,
                            const @I *pivots, @R *b, long ldb) {
    typedef void (*routine)(const char *, const @I *, const @I *, const @R *, const @I *, const @I *, @R *,
                            const @I *, @I *, size_t);
    const @I n_ = (@I)n, nrhs_ = (@I)nrhs, lda_ = (@I)lda, ldb_ = (@I)ldb;
    @I info = 0;
    ((routine)@E)(&trans, &n_, &nrhs_, a, &lda_, pivots, b, &ldb_, &info, 1);
    return (int)info;
}
""",
    "potrf": """\
static inline int sg_@Ppotrf(const void *table, char uplo, long n, @R *a, long lda) {
    typedef void (*routine)(const char *, const @I *, @R *, const @I *, @I *, size_t);
    const @I n_ = (@I)n, lda_ = (@I)lda;
    @I info = 0;
    ((routine)@E)(&uplo, &n_, a, &lda_, &info, 1);
    return (int)info;
}
""",
    "potrs": """\
static inline int sg_@Ppotrs(const void *table, char uplo, long n, long nrhs, const @R *a, long lda, @R *b,
                            long ldb) {
    typedef void (*routine)(const char *, const @I *, const @I *, const @R *, const @I *, @R *, const @I *,
                            @I *, size_t);
    const @I n_ = (@I)n, nrhs_ = (@I)nrhs, lda_ = (@I)lda, ldb_ = (@I)ldb;
    @I info = 0;
    ((routine)@E)(&uplo, &n_, &nrhs_, a, &lda_, b, &ldb_, &info, 1);
    return (int)info;
}
""",
    "trtrs": """\
static inline int sg_@Ptrtrs(const void *table, char uplo, char trans, char diag, long n, long nrhs,
                            const @R *a, long lda, @R *b, long ldb) {
    typedef void (*routine)(const char *, const char *, const char *, const @I *, const @I *, const @R *,
                            const @I *, @R *, const @I *, @I *, size_t, size_t, size_t);
    const @I n_ = (@I)n, nrhs_ = (@I)nrhs, lda_ = (@I)lda, ldb_ = (@I)ldb;
    @I info = 0;
    ((routine)@E)(&uplo, &trans, &diag, &n_, &nrhs_, a, &lda_, b, &ldb_, &info, 1, 1, 1);
    return (int)info;
}
""",
}


def wrapper(routine: str, index: int, convention: str) -> str:
    """Return the C function ``sg_<routine>``.

    Parameters
    ----------
    routine
        Such as ``"dgemm"``.
    index
        Its place in the table of addresses.
    convention
        ``"cblas"`` or ``"fortran"``, for the BLAS routines.

    Examples
    --------
    >>> "return ((routine)((const uintptr_t *)table)[4])" in wrapper("ddot", 4, "cblas")
    True
    """
    letter, name = routine[0], routine[1:]
    text = {**LAPACK, **(CBLAS if convention == "cblas" else FORTRAN)}[name]
    marks = {"@E": _ENTRY, "@N": str(index), "@P": letter, "@I": "sg_blasint"}
    marks["@R"] = {"d": "double", "s": "float"}[letter]
    for mark, meaning in marks.items():
        text = text.replace(mark, meaning)
    return text
