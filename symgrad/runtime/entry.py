"""One signature of a compiled function: its known paths, and the code made from them."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.aval import Aval
from ..core.expr import Expr, InternTable
from ..core.graph import Graph, canonical, rebuild_into
from ..core.lazy import lazy_import
from ..core.paths import Guard, Leaf, PathTree
from ..core.pytree import unflatten
from ..errors import CompilerError, PerformanceWarning, RetraceWarning, UnsupportedOperationError
from ..tracing.naming import label_variables
from ..tracing.trace import Traced, trace_path
from ..tracing.watches import Watched
from ..transforms.rewrite import Rewriter
from ..transforms.rules import DEFAULT_RULES
from . import specs
from .settings import Settings
from .specs import DispatcherLike, InputSpec, OutputSpec, Watch

if TYPE_CHECKING:
    from .. import lowering
    from ..codegen import c_source, c_tree, cache, cache_folder, numpy_source
    from . import native
else:
    # Code generators and the compiler are loaded when the first function needs them.
    numpy_source = lazy_import("symgrad.codegen.numpy_source")
    c_source = lazy_import("symgrad.codegen.c_source")
    c_tree = lazy_import("symgrad.codegen.c_tree")
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
    function
        Called with one tracer for each leaf of the arguments.
    avals, labels
        Types and names of the leaves.
    name
        Name of the function.
    settings
        Bounds on the number of paths and operations.
    """

    def __init__(
        self, function: Callable[..., Any], avals: tuple[Aval, ...], labels: Sequence[str], name: str,
        settings: Settings
    ) -> None:
        self.function = function
        self.avals = avals
        self.name = name
        self.settings = settings
        self.calls = 0
        self.traces = 0
        self.builds = 0
        self.seconds: dict[str, float] = {}
        self.reason = ""
        self.kernel: DispatcherLike | None = None
        self.installed: DispatcherLike | None = None
        self.front: DispatcherLike | None = None
        self.c_failed: str | None = None
        self.full = False
        self._labels = list(labels)
        self._lock = threading.RLock()
        self._copies: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self._reset()

    def _reset(self) -> None:
        """Forget all paths."""
        self.table = InternTable()
        self.inputs = [self.table.input(a, n) for a, n in zip(self.avals, self._labels, strict=True)]
        self.tree = PathTree(self.inputs, self.name)
        self._rewriter = Rewriter(DEFAULT_RULES)
        self._simplified: dict[int, Expr] = {}
        self._captures: list[Expr] = []
        self._watched: dict[Any, Watched] = {}
        self._hits = np.zeros(0, np.int64)
        self._changed()

    def _changed(self) -> None:
        """The paths changed: what was generated from them is out of date."""
        self._numpy: Callable[..., Any] | None = None
        self._csource: c_source.CSource | None = None
        self.kernel = None

    # ---------------------------------------------------------------- source

    @property
    def graph(self) -> Graph:
        """What the function computes: of all paths that are known, guards first."""
        return self.tree.graph

    def numpy_code(self) -> numpy_source.NumpyCode:
        """The generated NumPy source."""
        return numpy_source.generate(self.tree)

    def c_code(self) -> c_source.CSource:
        """The generated C source."""
        with self._lock:
            if self._csource is None:
                start = time.perf_counter()
                if self.tree.branches:
                    self._count_hits()
                    self._hits = np.zeros(len(self.tree.leaves), np.int64)
                    self._csource = c_tree.generate_tree(self.tree, self.results, self._hits)
                else:
                    self._csource = c_source.generate(lowering.lower(canonical(self.tree.graph)))
                self.seconds["lower and render"] = time.perf_counter() - start
            return self._csource

    @property
    def results(self) -> list[Aval]:
        """Types of the outputs, of the first path; strong wherever a path that fits has a strong one."""
        first = [x.aval for x in self.tree.leaves[0].outputs]
        for leaf in self.tree.leaves[1:]:
            own = [x.aval for x in leaf.outputs]
            if [a.strong() for a in own] == [a.strong() for a in first]:
                first = [a if a.weak and b.weak else a.strong() for a, b in zip(first, own, strict=True)]
        return first

    # ---------------------------------------------------------------- paths

    def refresh(self) -> None:
        """Forget all paths if something that a trace has read is no longer the same."""
        for watched in self._watched.values():
            if not watched.holds():
                self._reset()
                self.full = False
                self.reason = f"a captured value changed: {watched}"
                return
        if self._captured_differently():
            self._reset()
            self.reason = "a captured array changed its shape or dtype"

    def _captured_differently(self) -> bool:
        arrays = [(c, c.params[0][1].array) for c in self._captures]
        return any(array.shape != c.shape or array.dtype != c.dtype for c, array in arrays)

    def grow(self, values: Sequence[Any] | None) -> Traced:
        """Trace the path that these data take, and enter it into the tree if there is room."""
        with self._lock:
            start = time.perf_counter()
            self.traces += 1
            traced = trace_path(self.function, self.inputs, self.name, values)
            self.seconds["trace"] = time.perf_counter() - start
            if not self.full:
                self._enter(traced)
            return traced

    def _enter(self, traced: Traced) -> None:
        start = time.perf_counter()
        roots = [*[g.expr for g in traced.guards], *traced.outputs, *[e for _, e in traced.writes]]
        label_variables(Graph((), roots))
        simple = rebuild_into(self._simplified, roots, self._rewriter.rebuilt, self.table)
        guards = [
            Guard(e, g.outcome, g.origin) for e, g in zip(
                simple, traced.guards, strict=False
            ) if e.value is None
        ]
        leaf = Leaf(
            len(self.tree.leaves), tuple(guards), tuple(simple[len(traced.guards) :]), traced.structure,
            tuple([target for target, _ in traced.writes]),
        )
        self._explain(leaf)
        if not self.tree.add(leaf):
            self._give_up(
                leaf,
                "took different decisions for the same data; it must depend on something that symgrad "
                "cannot see",
            )
            return
        self._captures = self.tree.graph.captures
        self._watch(traced)
        self.seconds["simplify"] = time.perf_counter() - start
        self._changed()
        paths, operations = len(self.tree.leaves), self.tree.graph.node_count
        if paths >= self.settings.max_paths or operations > self.settings.max_operations:
            self._give_up(
                leaf,
                f"has {len(self.tree.leaves)} paths and {self.tree.graph.node_count} operations, "
                "as many as allowed",
            )

    def _watch(self, traced: Traced) -> None:
        """Remember what the trace has read of the world outside."""
        space = traced.trace.space
        if space is not None:
            for watched in space.watched:
                self._watched[watched.kind, id(watched.container), watched.key] = watched

    def _explain(self, leaf: Leaf) -> None:
        if self.reason.startswith("a captured"):
            return
        vertex = self.tree.root
        for guard in leaf.guards:
            if vertex.guard is None:
                break
            child = vertex.children.get(guard.outcome)
            if child is None:
                known = ", ".join(map(str, vertex.children))
                where = f" at {guard.origin}" if guard.origin else ""
                self.reason = f"a decision had a new outcome: {guard.outcome} (known: {known}){where}"
                return
            vertex = child
        self.reason = "first call with arguments of this structure, these shapes and dtypes"

    def watches(self) -> list[Watch]:
        """The conditions on captured values, for the dispatcher."""
        return [_native_watch(w) for w in self._watched.values()]

    def _give_up(self, leaf: Leaf, why: str) -> None:
        """From here on, unknown paths are traced at every call."""
        self.full = True
        origin = leaf.guards[-1].origin if leaf.guards else None
        where = f"\n  the last decision is at {origin}" if origin else ""
        warnings.warn(
            RetraceWarning(
                f"{self.name} {why}: further paths are traced at every call, which is slow.{where}\n"
                "  Use np.where for decisions on many elements, or raise the bounds with "
                "sg.config(max_paths=…, max_operations=…)."
            ),
            stacklevel=2,
        )

    def _count_hits(self) -> None:
        for leaf, count in zip(self.tree.leaves, self._hits.tolist(), strict=False):
            leaf.hits += count
        self._hits[:] = 0

    def hits(self) -> list[int]:
        """How often each path was taken."""
        self._count_hits()
        return [leaf.hits for leaf in self.tree.leaves]

    # ---------------------------------------------------------------- calls

    def call(self, leaves: Sequence[Any], use_c: bool) -> Any:
        """Answer a call, given the leaves of its arguments."""
        self.calls += 1
        self.ensure(leaves)
        if use_c and self._kernel_fits() and self.build():
            assert self.kernel is not None
            for array, copy in self._copies:
                np.copyto(copy, array)
            answer = self.kernel(*[_contiguous(leaf) for leaf in leaves])
            if answer is not None:
                first = self.tree.leaves[0]
                return unflatten(first.structure, self._written(first.writes, answer, leaves))
        return self.run_numpy(leaves, use_c)

    def ensure(self, leaves: Sequence[Any] | None) -> None:
        """Trace a path if none is known yet; without data no decision can depend on them."""
        if not self.tree.leaves:
            self.grow(None if leaves is None else _numpy_values(leaves))

    def _kernel_fits(self) -> bool:
        """A kernel of several paths does not say which one it took; writing back needs to know."""
        return not self.tree.branches or not any(leaf.writes for leaf in self.tree.leaves)

    @staticmethod
    def _written(writes: Sequence[Any], results: Sequence[Any], leaves: Sequence[Any]) -> Sequence[Any]:
        """Give arguments and captured arrays their new contents, as NumPy would; the rest is returned."""
        count = len(results) - len(writes)
        for target, new in zip(writes, results[count:], strict=True):
            np.copyto(leaves[target] if isinstance(target, int) else target, new)
        return results[:count]

    def run_numpy(self, leaves: Sequence[Any], use_c: bool = False) -> Any:
        """Answer from the NumPy backend; an unknown path is traced."""
        values = _numpy_values(leaves)
        if not self.tree.branches:
            return self._returned(self.tree.leaves[0], self._run(values), leaves)
        number, results = self._run(values)
        if number < 0:
            traced = self.grow(values)
            if use_c and not self.full:
                self.build()
            return self._evaluated(traced, leaves)
        leaf = self.tree.leaves[number]
        leaf.hits += 1
        return self._returned(leaf, results, leaves)

    def _run(self, values: Sequence[Any]) -> Any:
        function = self._numpy
        if function is None:
            with self._lock:
                function = self._numpy = numpy_source.load(self.numpy_code())
        with np.errstate(all="ignore"):
            return function(*values, *[c.params[0][1].array for c in self._captures])

    def _returned(self, leaf: Leaf, results: Sequence[Any], leaves: Sequence[Any]) -> Any:
        finished = [_finished(r, x.aval) for r, x in zip(results, leaf.outputs, strict=True)]
        return unflatten(leaf.structure, self._written(leaf.writes, finished, leaves))

    def _evaluated(self, traced: Traced, leaves: Sequence[Any]) -> Any:
        """The results of a path on the data it was traced with."""
        if not self.full and self.tree.leaves:
            self.tree.leaves[-1].hits += 1
        new = [e for _, e in traced.writes]
        results = [
            _finished(np.array(traced.trace.concrete(x), x.dtype), x.aval) for x in (*traced.outputs, *new)
        ]
        return unflatten(traced.structure, self._written([t for t, _ in traced.writes], results, leaves))

    # ---------------------------------------------------------------- C

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
        self.builds += 1
        self.seconds["compile"] = time.perf_counter() - start
        self._loaded = native.load_kernel(path, code.symbol)
        # Kernels read captured arrays where they are; those of another layout are copied before each call.
        taken = [_contiguous(a) for a in code.hidden]
        self._copies = [(a, t) for a, t in zip(code.hidden, taken, strict=True) if a is not t]
        self._hidden = taken
        self.kernel = self.dispatcher([input_spec(aval) for aval in self.avals], "tuple", _no_answer)

    @property
    def stands_alone(self) -> bool:
        """True where the kernel needs nothing done before or after a call."""
        return not self._copies and not any(leaf.writes for leaf in self.tree.leaves)

    def dispatcher(
        self, inputs: Sequence[InputSpec], structure: Any, slow: Callable[..., Any]
    ) -> DispatcherLike:
        """A callable for the kernel; ``inputs`` may be nested."""
        return native.make_dispatcher(
            self._loaded,
            inputs,
            [output_spec(aval) for aval in self.results],
            structure,
            slow,
            hidden=self._hidden,
            watches=self.watches(),
            release_gil=self.c_code().work > GIL_WORK,
            name=self.name,
        )


def _native_watch(watched: Watched) -> Watch:
    """A condition as the dispatcher takes it."""
    if watched.kind == "item":
        return specs.Item(watched.container, watched.key, watched.value)
    if watched.kind == "cell":
        return specs.Cell(watched.container, watched.value)
    if watched.kind == "sequence":
        return specs.Sequence(watched.container, watched.value)
    return specs.Mapping(watched.container, *watched.value)


def _no_answer(*_: Any) -> None:
    """Stands for the slow path where the caller goes on by itself."""


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
    if not isinstance(leaf, np.ndarray):
        return leaf
    flags = leaf.flags
    if type(leaf) is np.ndarray and flags.c_contiguous and flags.aligned and leaf.dtype.isnative:
        return leaf
    return np.array(leaf, leaf.dtype.newbyteorder("="), order="C", subok=False)


def _numpy_values(leaves: Sequence[Any]) -> list[Any]:
    return [_numpy_value(leaf) for leaf in leaves]


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
