"""The C kernel of one signature: made from the paths that are known, at once or in the background."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core.collector import paused_collector
from ..core.graph import canonical, in_creation_order
from ..core.lazy import lazy_import
from ..core.paths import PathTree
from ..errors import CompilerError, PerformanceWarning, UnsupportedOperationError
from .results import Results
from .specs import DispatcherLike, InputSpec, Watch
from .upkeep import Upkeep

if TYPE_CHECKING:
    from .. import lowering
    from ..codegen import c_growing, c_source, c_tree, cache, cache_folder
    from . import background, native, recall
    from .entry import Entry
else:
    # Code generators and the compiler are loaded when the first function needs them.
    c_growing = lazy_import("symgrad.codegen.c_growing")
    c_source = lazy_import("symgrad.codegen.c_source")
    c_tree = lazy_import("symgrad.codegen.c_tree")
    cache = lazy_import("symgrad.codegen.cache")
    cache_folder = lazy_import("symgrad.codegen.cache_folder")
    lowering = lazy_import("symgrad.lowering")
    background = lazy_import("symgrad.runtime.background")
    native = lazy_import("symgrad.runtime.native")
    recall = lazy_import("symgrad.runtime.recall")

LOOKED_UP: Final = 2000
"""Programs of more nodes are not looked up on disk before the first call: naming them takes too long."""

LARGE: Final = 2_000
"""Programs of more nodes take more than some tenths of a second to make: they are made in the background, and what is
known of their code is used again."""

GIL_WORK: Final = 20_000
"""Estimated operations above which a kernel runs without the interpreter's lock: about 5 µs."""


@dataclass
class Built:
    """A kernel in memory.

    Attributes
    ----------
    loaded
        Its code.
    hidden
        Arrays it reads beside the arguments.
    copies
        Captured arrays and the contiguous ones among ``hidden`` that they are copied to before each call.
    results
        What becomes of its outputs.
    watches
        What must hold of captured values.
    is_long
        Whether it runs so long that other threads should run meanwhile.
    branches
        Whether it decides between paths.
    seconds
        How long each stage took.
    inputs, name
        What its callable accepts, and is called.
    kernel
        It as a callable for the leaves of the arguments.
    """

    loaded: native.LoadedKernel
    hidden: Sequence[np.ndarray[Any, Any]]
    copies: Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
    results: Results
    watches: Sequence[Watch]
    is_long: bool
    branches: bool
    seconds: dict[str, float]
    inputs: Sequence[InputSpec]
    name: str

    def __post_init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Make the callable."""
        self.kernel: Any = self.dispatcher(self.inputs, "tuple", _no_answer)

    def dispatcher(
        self, inputs: Sequence[InputSpec], structure: Any, slow: Callable[..., Any]
    ) -> DispatcherLike:
        """A callable for the kernel; ``inputs`` may be nested."""
        made: DispatcherLike = native.make_dispatcher(
            self.loaded, inputs, self.results.outputs, structure, slow, hidden=self.hidden,
            watches=self.watches, release_gil=self.is_long, name=self.name,
        )  # fmt: skip
        return made


@dataclass
class Plan:
    """What a kernel is to be made from; paths found later are not in it.

    Attributes
    ----------
    tree
        The paths.
    hits
        Counters of the paths.
    watches, inputs
        What must hold of captured values and of the arguments.
    growing
        For a large tree, the code it had before.
    may_recall
        Whether code that was compiled for the same by an earlier process is looked for.
    seconds
        How long each stage took.
    """

    tree: PathTree
    hits: np.ndarray[Any, Any]
    watches: Sequence[Watch]
    inputs: Sequence[InputSpec]
    growing: c_growing.GrowingCode | None
    may_recall: bool
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.results = Results(self.tree)
        self._recalled: recall.Recalled | None = None

    def code(self) -> c_source.CSource:
        """The source."""
        start = time.perf_counter()
        if not self.tree.branches:
            with paused_collector():
                graph = self.tree.graph
                ordered = in_creation_order(graph) if len(graph.nodes) > LARGE else canonical(graph)
                made = c_source.generate(lowering.lower(ordered))
        else:
            results = self.results
            given = results.completed(self.tree), results.avals, self.hits, results.numbered
            if self.growing is not None:
                made = self.growing.generate(*given)
            else:
                with paused_collector():
                    made = c_tree.generate_tree(*given)
        self.seconds["lower and render"] = time.perf_counter() - start
        return made

    def built(self, code: c_source.CSource | None = None, compiles: bool = True) -> Built | None:
        """The kernel; without compiling, None if its code is not there."""
        found = self.recalled() if code is None and self.may_recall else None
        if found is None:
            found = self._compiled(self.code() if code is None else code, compiles)
            if found is None:
                return None
        # Kernels read captured arrays where they are; those of another layout are copied before each call.
        taken = [contiguous(a) for a in found.hidden]
        copies = [(a, t) for a, t in zip(found.hidden, taken, strict=True) if a is not t]
        try:
            loaded = native.load_kernel(found.path, found.symbol, found.sizes)
        except CompilerError:
            if found is not self._recalled or not compiles:
                raise
            # What was noted is of no use: the source is written after all.
            self.may_recall = False
            return self.built(code, compiles)
        return Built(
            loaded, taken, copies, self.results, self.watches, found.work > GIL_WORK, self.tree.branches,
            self.seconds, self.inputs, self.tree.name,
        )

    @cached_property
    def name(self) -> str:
        """What the kernel does, the same in every process."""
        return recall.name_of(self)

    def recalled(self) -> recall.Recalled | None:
        """What an earlier process compiled for the same."""
        start = time.perf_counter()
        if self._recalled is None:
            self._recalled = recall.recall(self.name, self)
        self.seconds["recall"] = time.perf_counter() - start
        return self._recalled

    def _compiled(self, code: c_source.CSource, compiles: bool) -> recall.Recalled | None:
        start = time.perf_counter()
        kept = cache.default_cache()
        tiers = code.tiers or code.tier
        key = kept.key(code.units, tiers, libs=code.libs)
        if not compiles:
            path = kept.lookup(key)
            if path is None:
                return None
        else:
            path = kept.get_or_build(code.units, tiers, libs=code.libs, objects=code.objects)
        self.seconds["compile"] = time.perf_counter() - start
        if self.may_recall:
            recall.remember(self.name, self, code, key)
        return recall.Recalled(path, code.symbol, code.hidden, code.sizes, code.work)


class Kernels:
    """The kernel of a signature, which is made anew when paths were added.

    Parameters
    ----------
    entry
        The signature.

    Attributes
    ----------
    built
        The newest kernel, which may lack the newest paths.
    failed
        Why there cannot be one.
    upkeep
        When it is due.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.upkeep = Upkeep()
        self.failed: str | None = None
        self._making: tuple[Future[Built | None], float, object] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the kernel: it belongs to paths that are forgotten."""
        self.built: Built | None = None
        self._growing: c_growing.GrowingCode | None = None
        self._tree: object = object()
        self.outdate()

    def outdate(self) -> None:
        """There is a new path."""
        self._code: c_source.CSource | None = None
        self._plan: Plan | None = None
        self.upkeep.outdate()

    def after_fork(self) -> None:
        """Forget what a thread was working on that does not exist here."""
        if self._making is not None:
            self._making = None
            self._growing = None
            self.upkeep.outdate()

    @property
    def is_large(self) -> bool:
        """Whether making the code takes long."""
        return self._entry.operations > LARGE

    # ---------------------------------------------------------------- source

    def plan(self) -> Plan:
        """What a kernel is made from now."""
        entry = self._entry
        if self._plan is None:
            tree = entry.tree
            if tree.branches and self.is_large and self._growing is None:
                self._growing = c_growing.GrowingCode()
            may_recall = not tree.branches or not self.is_large
            self._plan = Plan(
                tree.snapshot(), entry.hit_counts, entry.watches(), entry.input_specs(), self._growing,
                may_recall,
            )
        return self._plan

    def code(self) -> c_source.CSource:
        """The source for all known paths."""
        if self._code is None:
            plan = self.plan()
            self._code = plan.code()
            self._entry.seconds.update(plan.seconds)
        return self._code

    def was_built_before(self) -> bool:
        """Whether code for this was built by an earlier process; large programs are not looked up."""
        if self._entry.operations > LOOKED_UP:
            return False
        try:
            return self.plan().recalled() is not None
        except CompilerError:
            return False  # The second call will say so.

    def is_at_hand(self) -> bool:
        """Whether the code is there without a compiler: that for arrays of other sizes often is the same."""
        try:
            code = self.code()
            kept = cache.default_cache()
            return kept.lookup(kept.key(code.units, code.tiers or code.tier, libs=code.libs)) is not None
        except (CompilerError, UnsupportedOperationError):
            return False  # The second call will say so.

    # ---------------------------------------------------------------- making

    def get(self, wait: bool) -> Built | None:
        """The kernel, made anew if that is due. None, after one warning, where there cannot be a kernel.

        Without ``wait``, what takes long is made in the background.
        """
        self._collect(wait)
        policy = "sync" if wait else self._entry.settings.compile
        due = self.upkeep.due or (self.built is None and policy != "never")
        if self.failed is None and self._making is None and due:
            if policy != "never":
                native.begin()
            if policy == "background" or (policy == "auto" and self.is_large):
                self._begin()
            else:
                self._make(policy != "never")
        if self.built is not None and native.is_provisional(self.built.kernel) and not native.pending():
            self.built.renew()
            self._entry.take(self.built)
        return self.built

    def _begin(self) -> None:
        self.upkeep.begin()
        code = self._code
        self._making = background.submit(partial(self.plan().built, code)), time.perf_counter(), self._tree

    def _collect(self, wait: bool) -> None:
        """Take what was made in the background, if it is ready."""
        if self._making is None:
            return
        future, start, tree = self._making
        if wait:
            futures.wait([future])
        if not future.done():
            return
        self._making = None
        if not future.cancelled() and isinstance(future.exception(), Exception):
            self.upkeep.outdate()
        made = self._tried(future.result)
        if made is not None:
            self.upkeep.made(time.perf_counter() - start)
        if tree is self._tree:
            self._take(made)

    def _make(self, compiles: bool) -> None:
        def make() -> Built | None:
            with self.upkeep.making():
                return self.plan().built(self._code, compiles)

        self._take(self._tried(make))

    def _take(self, made: Built | None) -> None:
        if made is not None:
            self.built = made
            self._entry.seconds.update(made.seconds)
            self._entry.take(made)

    def _tried(self, make: Callable[[], Built | None]) -> Built | None:
        try:
            return make()
        except (CompilerError, OSError) as error:
            self.failed = str(error)
            if not background.is_over():
                cache_folder.warn_once("no kernels", f"C code cannot be built, NumPy answers instead: {error}")
        except UnsupportedOperationError as error:
            self.failed = str(error)
            warnings.warn(PerformanceWarning(f"NumPy answers instead of C: {error}"), stacklevel=2)
        return None


def contiguous(leaf: Any) -> Any:
    """An array as kernels read it: itself if possible, otherwise a copy."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    flags = leaf.flags
    if type(leaf) is np.ndarray and flags.c_contiguous and flags.aligned and leaf.dtype.isnative:
        return leaf
    return np.array(leaf, leaf.dtype.newbyteorder("="), order="C", subok=False)


def _no_answer(*_: Any) -> None:
    """Stands for the slow path where the caller goes on by itself."""
