"""One traced signature of a compiled function: its graph, and the code made from it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.aval import Aval
from ..core.graph import Graph, canonical
from ..core.lazy import lazy_import
from ..core.pytree import unflatten
from ..errors import CompilerError, PerformanceWarning, UnsupportedOperationError
from .specs import DispatcherLike, InputSpec, OutputSpec

if TYPE_CHECKING:
    from .. import lowering
    from ..codegen import c_source, cache, cache_folder, numpy_source
    from . import native
else:
    # Code generators and the compiler are loaded when the first function needs them.
    numpy_source = lazy_import("symgrad.codegen.numpy_source")
    c_source = lazy_import("symgrad.codegen.c_source")
    cache = lazy_import("symgrad.codegen.cache")
    cache_folder = lazy_import("symgrad.codegen.cache_folder")
    lowering = lazy_import("symgrad.lowering")
    native = lazy_import("symgrad.runtime.native")

GIL_WORK = 20_000
"""Estimated operations above which a kernel runs without the interpreter's lock: about 5 µs."""


class Entry:
    """A function for one structure and one set of types of its arguments.

    Parameters
    ----------
    graph
        Simplified; one input for each leaf of the arguments.
    structure
        How the outputs are nested.
    """

    def __init__(self, graph: Graph, structure: Any) -> None:
        self.graph = graph
        self.structure = structure
        self.avals: tuple[Aval, ...] = tuple(x.aval for x in graph.inputs)
        self.captures: list[np.ndarray[Any, Any]] = [c.params[0][1].array for c in graph.captures]
        self.calls = 0
        self.seconds: dict[str, float] = {}
        self.kernel: DispatcherLike | None = None
        self._copies: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self.c_failed: str | None = None
        self._numpy: Callable[..., tuple[Any, ...]] | None = None
        self._csource: c_source.CSource | None = None
        self._lock = threading.RLock()
        self._out = [x.aval for x in graph.outputs]
        self._capture_avals = [c.aval for c in graph.captures]

    # ---------------------------------------------------------------- source

    def numpy_code(self) -> numpy_source.NumpyCode:
        """The generated NumPy source."""
        return numpy_source.generate(self.graph)

    def c_code(self) -> c_source.CSource:
        """The generated C source."""
        with self._lock:
            if self._csource is None:
                start = time.perf_counter()
                self._csource = c_source.generate(lowering.lower(canonical(self.graph)))
                self.seconds["lower and render"] = time.perf_counter() - start
            return self._csource

    # ---------------------------------------------------------------- calls

    def stale(self) -> bool:
        """True where a captured array has changed its shape or dtype since the trace."""
        return any(
            a.shape != v.shape or a.dtype != v.dtype
            for a, v in zip(self.captures, self._capture_avals, strict=True)
        )

    def call(self, leaves: Sequence[Any], use_c: bool) -> Any:
        """Answer a call, given the leaves of its arguments."""
        self.calls += 1
        if use_c and self.build():
            assert self.kernel is not None
            for array, copy in self._copies:
                np.copyto(copy, array)
            flat = self.kernel(*[_contiguous(leaf) for leaf in leaves])
        else:
            flat = self.run_numpy(*leaves)
        return unflatten(self.structure, flat)

    def run_numpy(self, *leaves: Any) -> tuple[Any, ...]:
        """Answer from the NumPy backend: a flat tuple of outputs."""
        if self._numpy is None:
            with self._lock:
                if self._numpy is None:
                    self._numpy = numpy_source.load(self.numpy_code())
        values = [_numpy_value(leaf) for leaf in leaves]
        with np.errstate(all="ignore"):
            results = self._numpy(*values, *self.captures)
        return tuple([_finished(r, aval) for r, aval in zip(results, self._out, strict=True)])

    def build(self) -> bool:
        """Have a C kernel; False, after one warning, where that cannot be."""
        with self._lock:
            if self.kernel is None and self.c_failed is None:
                try:
                    self._build()
                except CompilerError as error:
                    self.c_failed = str(error)
                    cache_folder.warn_once(
                        "no kernels", f"C code cannot be built, NumPy answers instead: {error}"
                    )
                except UnsupportedOperationError as error:
                    self.c_failed = str(error)
                    warnings.warn(PerformanceWarning(f"NumPy answers instead of C: {error}"), stacklevel=2)
        return self.kernel is not None

    def _build(self) -> None:
        code = self.c_code()
        start = time.perf_counter()
        path = cache.get_or_build(code.units, code.tier, libs=code.libs)
        self.seconds["compile"] = time.perf_counter() - start
        self._loaded = native.load_kernel(path, code.symbol)
        # Kernels read captured arrays where they are; those of another layout are copied before each call.
        taken = [_contiguous(a) for a in code.captures]
        self._copies = [(a, t) for a, t in zip(code.captures, taken, strict=True) if a is not t]
        self._hidden = [*taken, *code.constants]
        inputs = [input_spec(aval) for aval in self.avals]
        self.kernel = self.dispatcher(inputs, "tuple", self.run_numpy)

    @property
    def stands_alone(self) -> bool:
        """True where the kernel needs nothing done before a call."""
        return not self._copies

    def dispatcher(
        self, inputs: Sequence[InputSpec], structure: Any, slow: Callable[..., Any]
    ) -> DispatcherLike:
        """A callable for the kernel; ``inputs`` may be nested."""
        return native.make_dispatcher(
            self._loaded,
            inputs,
            [output_spec(aval) for aval in self._out],
            structure,
            slow,
            hidden=self._hidden,
            release_gil=self.c_code().work > GIL_WORK,
            name=self.graph.name,
        )


def input_spec(aval: Aval) -> InputSpec:
    """What the dispatcher accepts for a leaf."""
    if aval.weak:
        return InputSpec("float" if aval.dtype.kind == "f" else "int")
    return InputSpec("array", aval.dtype, aval.shape)


def output_spec(aval: Aval) -> OutputSpec:
    """What the dispatcher makes of an output."""
    if aval.weak:
        return OutputSpec("pyfloat" if aval.dtype.kind == "f" else "pyint")
    return OutputSpec("array" if aval.shape else "scalar", aval.dtype, aval.shape)


def _contiguous(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return np.require(leaf, leaf.dtype.newbyteorder("="), ["C", "A", "E"])
    return leaf


def _numpy_value(leaf: Any) -> Any:
    """Python numbers become NumPy's, so that dividing by zero gives inf on both backends."""
    if type(leaf) is float:
        return np.float64(leaf)
    if type(leaf) is int:
        return np.int64(leaf)
    if isinstance(leaf, np.ndarray) and not leaf.shape:
        return leaf[()]
    return leaf


def _finished(value: Any, aval: Aval) -> Any:
    if aval.weak:
        return value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if not aval.shape:
        return value[()] if isinstance(value, np.ndarray) else aval.dtype.type(value)
    return value if type(value) is np.ndarray else np.asarray(value)
