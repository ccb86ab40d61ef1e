"""One signature of a compiled function: its known paths, and the code made from them."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core.aval import Aval
from ..core.collector import paused_collector
from ..core.expr import Expr, InternTable
from ..core.graph import Graph, rebuild_into
from ..core.lazy import lazy_import
from ..core.origin import Origin
from ..core.paths import Guard, Leaf, Outcome, PathTree
from ..core.pytree import unflatten
from ..errors import RetraceWarning
from ..tracing.naming import label_variables
from ..tracing.state import Trace
from ..tracing.trace import Traced, trace_path
from ..tracing.watches import MISSING, Watched
from ..transforms.rewrite import Rewriter
from ..transforms.rules import DEFAULT_RULES
from . import specs
from .kernels import Built, Kernels, contiguous
from .live import LiveNumbers
from .report import taken
from .results import finished, written
from .settings import Settings
from .specs import DispatcherLike, InputSpec, Watch
from .upkeep import Upkeep

if TYPE_CHECKING:
    from ..codegen import c_source, numpy_source
else:
    # Loaded when the first function needs it.
    numpy_source = lazy_import("symgrad.codegen.numpy_source")


NUMPY_SECONDS: Final = 3e-5
"""About how long it takes to generate and load NumPy code for a node."""


class Entry:
    """A function for one structure and one set of types of its arguments.

    Parameters
    ----------
    function
        Called with one tracer for each leaf of the arguments.
    avals, labels
        Types and names of the leaves.
    zero_dims
        Positions of the leaves that are arrays without axes, not scalars.
    name
        Name of the function.
    settings
        Bounds on the number of paths and operations.
    """

    def __init__(
        self, function: Callable[..., Any], avals: tuple[Aval, ...], zero_dims: frozenset[int],
        labels: Sequence[str], name: str, settings: Settings
    ) -> None:
        self.function = function
        self.avals = avals
        self.zero_dims = zero_dims
        self.name = name
        self.settings = settings
        self.calls = 0
        self.traces = 0
        self.seconds: dict[str, float] = {}
        self.reason = ""
        self.kernel: DispatcherLike | None = None
        self.installed: DispatcherLike | None = None
        self.front: DispatcherLike | None = None
        #: Whether there is code of the same function for other arguments.
        self.has_relatives = False
        self.full = False
        self._labels = list(labels)
        self.new_lock()
        self._live = LiveNumbers()
        self._numpy_upkeep = Upkeep()
        self._clear()
        self.kernels = Kernels(self)

    def new_lock(self) -> None:
        """Take a lock that nobody holds."""
        self._lock = threading.RLock()

    def after_fork(self) -> None:
        """Threads that held the lock, or made code, do not exist in this process."""
        self.new_lock()
        self.kernels.after_fork()

    def _reset(self) -> None:
        """Forget all paths."""
        self._clear()
        self.kernels.reset()

    def _clear(self) -> None:
        self.full = False
        self.table = InternTable()
        self.inputs = self._make_inputs(self.table)
        self.tree = PathTree(self.inputs, self.name)
        self._rewriter = Rewriter(DEFAULT_RULES)
        self._simplified: dict[int, Expr] = {}
        self._captures: list[Expr] = []
        self.operations = 0
        self._watched: dict[Any, Watched] = {}
        # Kernels of any age count here, each path in its own place.
        self.hit_counts = np.zeros(self.settings.max_paths + 1, np.int64)
        self._unbranched: list[DispatcherLike] = []
        self._numpy: tuple[Callable[..., Any], list[np.ndarray[Any, Any]]] | None = None
        self.kernel = None
        self._numpy_upkeep.outdate()

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
            return self.kernels.code()

    # ---------------------------------------------------------------- paths

    def refresh(self) -> None:
        """Forget all paths if something that a trace has read is no longer the same."""
        with self._lock:
            self._refresh()

    def exclusive(self) -> AbstractContextManager[Any]:
        """What a call is made in: where paths may be forgotten, other threads wait until it is answered."""
        fixed = self.tree.leaves and not (self._watched or self._live or self._captures)
        return nullcontext() if fixed else self._lock

    def _refresh(self) -> None:
        lost = self._live.refresh()
        changed = [watched for watched in self._watched.values() if not watched.holds()]
        for watched in changed:
            self._live.changed(watched)
        if lost is not None or changed:
            self._reset()
            self.reason = f"a captured value changed: {lost if lost is not None else changed[0]}"
            return
        if self._captured_differently():
            self._reset()
            self.reason = "a captured array changed its shape or dtype"

    def _captured_differently(self) -> bool:
        arrays = [(c, c.params[0][1].array) for c in self._captures]
        return any(array.shape != c.shape or array.dtype.newbyteorder("=") != c.dtype for c, array in arrays)

    def grow(self, values: Sequence[Any] | None) -> tuple[Traced, Leaf | None]:
        """Trace the path that these data take, and enter it into the tree if there is room."""
        with self._lock, paused_collector():
            start = time.perf_counter()
            self.traces += 1
            # What is not kept goes into a table of its own, which is freed with it.
            inputs = self._make_inputs(InternTable()) if self.full else self.inputs
            try:
                traced = trace_path(
                    self.function, inputs, self.name, values, self._live.arrays, self.zero_dims
                )
            except Exception as error:
                self.reason = f"a path ended in {type(error).__name__}; such paths are traced again each time"
                raise
            if self.full:
                self.reason = "a path was not known and, as a RetraceWarning has told, no more are kept"
            self.seconds["trace"] = time.perf_counter() - start
            return traced, None if self.full else self._enter(traced)

    def _make_inputs(self, table: InternTable) -> list[Expr]:
        return [table.input(a, n) for a, n in zip(self.avals, self._labels, strict=True)]

    def _enter(self, traced: Traced) -> Leaf | None:
        start = time.perf_counter()
        leaf = self._leaf(traced)
        news = self._news(leaf)
        origin = news.origin if news is not None else None
        paths, operations = len(self.tree.leaves), self.operations
        if paths and (paths >= self.settings.max_paths or operations >= self.settings.max_operations):
            self._give_up(origin, f"has {paths} paths and {operations} operations, as many as allowed")
            return None
        entered = self.tree.add(leaf)
        if entered is None:
            self._give_up(
                origin,
                "took different decisions for the same data; it must depend on something that symgrad "
                "cannot see",
            )
        if entered is not leaf:
            return entered  # a path that another thread has found meanwhile
        graph = self.tree.graph
        self._captures = graph.captures
        self.operations = graph.node_count
        self._watch(traced)
        self.seconds["simplify"] = time.perf_counter() - start
        # Generated code answers for the paths before.
        self.kernels.outdate()
        self._numpy_upkeep.outdate()
        return leaf

    def _leaf(self, traced: Traced) -> Leaf:
        """The path in simplified expressions."""
        roots = [*[g.expr for g in traced.guards], *traced.outputs, *[e for _, e in traced.writes]]
        label_variables(Graph((), roots))
        simple = rebuild_into(self._simplified, roots, self._rewriter.rebuilt, self.table)
        guards: dict[tuple[int, Outcome], Guard] = {}
        for e, g in zip(simple, traced.guards, strict=False):
            # Questions that turn out to be the same one are asked once.
            if e.value is None:
                guards.setdefault((e.id, g.outcome), g._replace(expr=e))
        return Leaf(
            len(self.tree.leaves), tuple(guards.values()), tuple(simple[len(traced.guards) :]),
            traced.structure, tuple([target for target, _ in traced.writes]),
        )

    def _watch(self, traced: Traced) -> None:
        """Remember what the trace has read of the world outside."""
        space = traced.trace.space
        if space is not None:
            for watched in space.watched:
                self._watched[watched.place] = watched

    def _news(self, leaf: Leaf) -> Guard | None:
        """The decision at which a path leaves the known ones, which is why the function was traced."""
        if not self.tree.leaves:
            if not self.reason.startswith("a captured"):
                self.reason = "first call with arguments of this structure, these shapes and dtypes"
            return None
        vertex = self.tree.root
        for guard in leaf.guards:
            if vertex.guard is None or vertex.guard.expr is not guard.expr:
                return guard
            child = vertex.children.get(guard.outcome)
            if child is None:
                known = ", ".join(map(str, vertex.children))
                where = f" at {guard.origin}" if guard.origin else ""
                self.reason = f"a decision had a new outcome: {guard.outcome} (known: {known}){where}"
                return guard
            vertex = child
        return None

    def watches(self) -> list[Watch]:
        """The conditions on captured values, for the dispatcher."""
        return [_native_watch(w) for w in self._watched.values() if w.native]

    def _give_up(self, origin: Origin | None, why: str) -> None:
        """From here on, unknown paths are traced at every call."""
        self.full = True
        where = f"\n  the decision with a new outcome is at {origin}" if origin else ""
        warnings.warn(
            RetraceWarning(
                f"{self.name} {why}: further paths are traced at every call, which is slow.{where}\n"
                "  Use np.where for decisions on many elements, or raise the bounds with "
                "sg.config(max_paths=…, max_operations=…)."
            ),
            stacklevel=2,
        )

    def hits(self) -> list[int]:
        """How often each path was taken."""
        counted = [leaf.hits + int(k) for leaf, k in zip(self.tree.leaves, self.hit_counts, strict=False)]
        if counted:
            counted[0] += sum([d.hits for d in self._unbranched])
        return counted

    def _count(self, leaf: Leaf) -> None:
        with self._lock:
            leaf.hits += 1

    # ---------------------------------------------------------------- calls

    def call(self, leaves: Sequence[Any], use_c: bool | None) -> Any:
        """Answer a call, given the leaves of its arguments.

        Without a decision on C, the first call is answered at once: from C only if it was built before.
        """
        start = time.perf_counter()
        self.calls += 1
        first = self.ensure(leaves)
        waits = use_c is True
        if use_c is None:
            use_c = self.kernels.failed is None and (self.calls > 1 or self._has_code())
        built = self.build(waits) if use_c else None
        if built is not None:
            for array, copy in built.copies:
                np.copyto(copy, array)
            answer = built.kernel(*[contiguous(leaf) for leaf in leaves])
            if answer is not None:
                return built.results.finish(answer, leaves)
        traces = self.traces
        if first is not None and self.tree.branches:
            result = self._as_traced(*first, leaves)
        else:
            result = self.run_numpy(leaves)
        if self.traces == traces and first is None:
            self.kernels.upkeep.spent(time.perf_counter() - start)
        if use_c:
            self.build(waits)
        return result

    def _has_code(self) -> bool:
        """Whether there is code already that answers the first call."""
        with self._lock:
            kernels = self.kernels
            return kernels.was_built_before() or (
                self.has_relatives and not kernels.is_large and kernels.is_at_hand()
            )

    def ensure(self, leaves: Sequence[Any] | None) -> tuple[Traced, Leaf | None] | None:
        """Trace a path if none is known yet; without data no decision can depend on them."""
        if self.tree.leaves:
            return None
        return self.grow(None if leaves is None else _numpy_values(leaves))

    def learn(self, leaves: Sequence[Any] | None) -> None:
        """Make the path known that these data take."""
        self.ensure(leaves)
        if leaves is not None and self.tree.branches:
            values = _numpy_values(leaves)
            if taken(self.tree, values) is None:
                self.grow(values)

    def run_numpy(self, leaves: Sequence[Any]) -> Any:
        """Answer from the NumPy backend; a path that its code lacks is traced."""
        start = time.perf_counter()
        values = _numpy_values(leaves)
        number, results = self._run(values)
        if number < 0:
            traces = self.traces
            answer = self._answered(values, leaves)
            if self.traces == traces:
                self._numpy_upkeep.spent(time.perf_counter() - start)
            return answer
        leaf = self.tree.leaves[number]
        finish = [finished(r, x.aval) for r, x in zip(results, leaf.outputs, strict=True)]
        self._count(leaf)
        return unflatten(leaf.structure, written(leaf.writes, finish, leaves))

    def _run(self, values: Sequence[Any]) -> tuple[int, Sequence[Any]]:
        """The number of the path and its results; a negative number where the generated code has no answer."""
        if self._is_numpy_due():
            self.load_numpy()
        if self._numpy is None:
            return -1, ()
        function, arrays = self._numpy
        with np.errstate(all="ignore"):
            results = function(*values, *arrays)
        return results if self.tree.branches else (0, results)

    def load_numpy(self) -> None:
        """Make the NumPy code for all known paths."""
        with self._lock, paused_collector(), self._numpy_upkeep.making():
            arrays = [c.params[0][1].array for c in self._captures]
            self._numpy = numpy_source.load(self.numpy_code()), arrays

    def _is_numpy_due(self) -> bool:
        if self.tree.branches:
            # Evaluating a path node by node is slow, but not as slow as writing code for all of them.
            return self._numpy_upkeep.pays(NUMPY_SECONDS * self.operations)
        return self._numpy is None or self._numpy_upkeep.due

    def _answered(self, values: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """The results of a path that the code lacks; one that is not known is traced."""
        found = taken(self.tree, values)
        if found is not None:
            leaf, state = found
            self._count(leaf)
            return _evaluated(state, leaf.outputs, leaf.writes, leaf.structure, leaves)
        return self._as_traced(*self.grow(values), leaves)

    def _as_traced(self, traced: Traced, entered: Leaf | None, leaves: Sequence[Any]) -> Any:
        """The results of a path on the data it was traced with."""
        if entered is not None:
            self._count(entered)
        outputs = (*traced.outputs, *[e for _, e in traced.writes])
        targets = [target for target, _ in traced.writes]
        return _evaluated(traced.trace, outputs, targets, traced.structure, leaves)

    # ---------------------------------------------------------------- C

    def build(self, waits: bool = True) -> Built | None:
        """The C kernel, made anew if that is due, see `Kernels.get`."""
        with self._lock:
            return self.kernels.get(waits)

    def take(self, built: Built) -> None:
        """Answer from a new kernel."""
        self.kernel = built.kernel
        if not built.branches:
            self._unbranched.append(built.kernel)

    def input_specs(self) -> list[InputSpec]:
        """What a kernel accepts for each leaf."""
        return [_input_spec(aval, k in self.zero_dims) for k, aval in enumerate(self.avals)]

    @property
    def stands_alone(self) -> bool:
        """True where the kernel needs nothing done before or after a call."""
        return (
            self.kernels.built is not None
            and not self.kernels.built.copies
            and not self._live
            and not any(leaf.writes for leaf in self.tree.leaves)
            and all(watched.native for watched in self._watched.values())
        )

    def dispatcher(
        self, inputs: Sequence[InputSpec], structure: Any, slow: Callable[..., Any]
    ) -> DispatcherLike:
        """A callable for the kernel; ``inputs`` may be nested."""
        built = self.kernels.built
        assert built is not None
        made = built.dispatcher(inputs, structure, slow)
        if not built.branches:
            self._unbranched.append(made)
        return made


def _evaluated(
    state: Trace, outputs: Sequence[Expr], targets: Sequence[Any], structure: Any, leaves: Sequence[Any]
) -> Any:
    """Results of a path, node by node on the data of a trace."""
    results = [finished(np.array(state.concrete(x), x.dtype), x.aval) for x in outputs]
    return unflatten(structure, written(targets, results, leaves))


def _native_watch(watched: Watched) -> Watch:
    """A condition as the dispatcher takes it."""
    expected = specs.MISSING if watched.value is MISSING else watched.value
    if watched.kind == "item":
        return specs.Item(watched.container, watched.key, expected)
    if watched.kind == "cell":
        return specs.Cell(watched.container, expected)
    if watched.kind == "slot":
        return specs.Slot(watched.container, watched.key, expected)
    if watched.kind == "sequence":
        return specs.Sequence(watched.container, watched.value)
    return specs.Mapping(watched.container, *watched.value)


def _input_spec(aval: Aval, zero_dim: bool) -> InputSpec:
    """What the dispatcher accepts for a leaf."""
    if aval.weak:
        return InputSpec("float" if aval.dtype.kind == "f" else "int")
    # An array without axes may be written to where a scalar is replaced.
    return InputSpec("array" if aval.shape or zero_dim else "scalar", aval.dtype, aval.shape)


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
