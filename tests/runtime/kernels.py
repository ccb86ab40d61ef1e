"""Kernels in C and specs for the tests of the call path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.runtime.specs import InputSpec, OutputSpec

KERNELS = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define KERNEL(name, bytes) \
    size_t name##_workspace(const int64_t *sizes) { (void)sizes; return bytes; } \
    int name(const void *const *in, void *const *out, void *workspace)

/* value and gradient of the sum of squares of ten numbers */
KERNEL(squares, 0) {
    const double *x = in[0]; double *g = out[1], total = 0.0;
    (void)workspace;
    for (int i = 0; i < 10; i++) { total += x[i] * x[i]; g[i] = 2.0 * x[i]; }
    *(double *)out[0] = total;
    return 0;
}
/* the guard is x > 0 */
KERNEL(guarded, 0) {
    const double x = *(const double *)in[0];
    (void)workspace;
    if (!(x > 0.0)) return 7;
    *(double *)out[0] = 2.0 * x;
    return 0;
}
KERNEL(numbers, 0) {
    (void)workspace;
    *(double *)out[0] = *(const double *)in[0] + 0.5;
    *(int64_t *)out[1] = *(const int64_t *)in[1] - 1;
    *(uint8_t *)out[2] = !*(const uint8_t *)in[2];
    const double *z = in[3]; double *c = out[3];
    c[0] = z[1]; c[1] = z[0];
    return 0;
}
/* copies 4 doubles from each of three inputs */
KERNEL(three, 0) {
    (void)workspace;
    for (int i = 0; i < 3; i++) *(double *)out[i] = *(const double *)in[i];
    return 0;
}
KERNEL(add_hidden, 0) {
    const double *x = in[0], *h = in[1]; double *y = out[0];
    (void)workspace;
    for (int i = 0; i < 4; i++) y[i] = x[i] + h[i];
    return 0;
}
static int fill(const void *const *in, void *const *out, double *workspace, int n) {
    if ((uintptr_t)workspace % 64) return 99;
    const double x = *(const double *)in[0];
    for (int r = 0; r < 20; r++) {
        for (int i = 0; i < n; i++) workspace[i] = x + i;
        for (int i = 0; i < n; i++) if (workspace[i] != x + i) return 98;
    }
    *(double *)out[0] = workspace[n - 1];
    return 0;
}
KERNEL(small_workspace, 16 * 1024) { return fill(in, out, workspace, 2048); }
KERNEL(large_workspace, 800000) { return fill(in, out, workspace, 100000); }
KERNEL(no_workspace, 0) { *(double *)out[0] = workspace == NULL; (void)in; return 0; }
KERNEL(sum40, 0) {
    double total = 0.0;
    (void)workspace;
    for (int i = 0; i < 40; i++) total += *(const double *)in[i];
    *(double *)out[0] = total;
    return 0;
}
KERNEL(sum2000, 0) {
    double total = 0.0;
    (void)workspace;
    for (int i = 0; i < 2000; i++) total += *(const double *)in[i];
    *(double *)out[0] = total;
    return 0;
}
KERNEL(copy16, 0) { memcpy(out[0], in[0], 16); (void)workspace; return 0; }
KERNEL(copy1, 0) { memcpy(out[0], in[0], 1); (void)workspace; return 0; }
KERNEL(copy2, 0) { memcpy(out[0], in[0], 2); (void)workspace; return 0; }
KERNEL(copy4, 0) { memcpy(out[0], in[0], 4); (void)workspace; return 0; }
KERNEL(copy8, 0) { memcpy(out[0], in[0], 8); (void)workspace; return 0; }
KERNEL(nothing, 0) { (void)in; (void)out; (void)workspace; return 0; }
"""

FLOAT = InputSpec("float")
TEN, TEN_OUT = InputSpec("array", "f8", (10,)), OutputSpec("array", "f8", (10,))
FOUR_OUT = OutputSpec("array", "f8", (4,))
PYFLOAT = OutputSpec("pyfloat")


class Slow:
    """A slow path that remembers its calls and answers with itself."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Slow:
        self.calls.append((args, kwargs))
        return self


Make = Callable[..., Any]
