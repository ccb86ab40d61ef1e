"""Compiled functions: traced once for each structure and types of arguments, then run as generated code."""

from __future__ import annotations

import inspect
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.aval import Aval, aval_of
from ..core.graph import Graph
from ..core.lazy import lazy_import
from ..core.pytree import flatten, leaf_names, unflatten
from ..core.spec import Spec
from ..errors import DtypeError, SymgradError
from ..tracing.namespace import bound
from ..tracing.naming import label_variables
from ..tracing.trace import active_table, active_trace, trace_flat
from ..tracing.tracer import Tracer
from ..transforms.simplify import simplify
from .entry import Entry
from .report import PathTable, path_table, taken
from .results import returned
from .settings import Backend, Policy, check_backend, check_policy, current
from .specs import InputSpec
from .titles import Titles, numbered, plain_name

if TYPE_CHECKING:
    from ..formula.formula import Formula

native: Any = lazy_import("symgrad.runtime.native")
formula_room: Any = lazy_import("symgrad.formula.formula")


class CacheInfo(NamedTuple):
    """Counts of a compiled function.

    Attributes
    ----------
    traces
        How often the function was traced.
    kernels
        How many C kernels it has.
    calls
        How many calls went through Python; those that a kernel answered at once are not among them.
    """

    traces: int
    kernels: int
    calls: int


class Static:
    """A static argument: part of the signature, not traced."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Static)
            and type(other.value) is type(self.value)
            and bool(other.value == self.value)
        )


_alive: weakref.WeakSet[Compiled] = weakref.WeakSet()


class Compiled:
    """A function that runs as generated code.

    Call it like the function it was made from. Inside another trace it inlines.
    """

    # `__call__` is a slot, so that calling the object calls what the slot holds without a Python frame: at
    # first a method of this class, later the native dispatcher.
    __slots__ = (
        "__call__",
        "__dict__",
        "__weakref__",
        "_backend",
        "_calls",
        "_entries",
        "_front",
        "_function",
        "_last",
        "_lock",
        "_policy",
        "_static",
        "_titles",
    )

    __call__: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        wrapped: Callable[..., Any] | None = None,
        backend: Backend | None = None,
        static_argnums: int | Sequence[int] = (),
        titles: Titles | None = None,
        policy: Policy | None = None,
    ) -> None:
        user = wrapped if wrapped is not None else function
        self.__wrapped__ = user
        self.__name__ = getattr(user, "__name__", type(user).__name__)
        self.__qualname__ = getattr(user, "__qualname__", self.__name__)
        self.__module__ = getattr(user, "__module__", "__main__")
        self.__doc__ = getattr(user, "__doc__", None)
        self._function = function
        self._titles = titles
        self._backend = check_backend(backend) if backend is not None else None
        self._policy = check_policy(policy) if policy is not None else None
        self._static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self._entries: dict[Any, Entry] = {}
        self._front: Any = None
        self._last: Entry | None = None
        self._lock = threading.RLock()
        _alive.add(self)
        self._calls = 0
        self.__call__ = self._slow_call

    def after_fork(self) -> None:
        """Threads that held locks, or made code, do not exist in this process."""
        self._lock = threading.RLock()
        for entry in self._entries.values():
            entry.after_fork()

    def __repr__(self) -> str:
        count = len(self._entries)
        return f"<compiled {self.__name__}: {count} signature{'s' if count != 1 else ''}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return _bound(self, instance)

    # ---------------------------------------------------------------- calls

    def _slow_call(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call that no kernel takes as it is."""
        if active_table() is not None:
            return bound(self._function)(*args, **kwargs)
        self._calls += 1
        entry, leaves = self._entry(args, kwargs)
        known = entry.traces
        with entry.exclusive():
            try:
                result = entry.call(leaves, self._wants_c())
            finally:
                if entry.traces != known:
                    self._last = entry
            if entry.kernel is not None and entry.installed is not entry.kernel:
                self._install(entry, args, kwargs)
            return result

    def _wants_c(self) -> bool | None:
        """Whether to answer from C; None leaves it to the entry."""
        backend = self._backend or current().backend
        return None if backend == "auto" else backend == "c"

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, tuple[Any, ...]]:
        static = (
            {k % len(args): args[k] for k in self._static if -len(args) <= k < len(args)}
            if self._static
            else {}
        )
        dynamic = tuple(None if k in static else a for k, a in enumerate(args))
        leaves, structure = flatten((dynamic, kwargs))
        return leaves, structure, tuple(Static(static[k]) for k in sorted(static))

    def _entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Entry, list[Any]]:
        leaves, structure, static = self._split(args, kwargs)
        try:
            avals = tuple([leaf.aval if isinstance(leaf, Spec) else aval_of(leaf) for leaf in leaves])
        except (DtypeError, TypeError, ValueError) as error:
            raise self._bad_argument(args, kwargs, leaves, error) from None
        zero_dims = frozenset([k for k, x in enumerate(leaves) if isinstance(x, np.ndarray) and not x.ndim])
        key = (structure, avals, static, _out_of_order(leaves), zero_dims)
        entry = self._entries.get(key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(key)
                if entry is None:
                    entry = self._new_entry(structure, avals, zero_dims, args, kwargs)
                    entry.has_relatives = any(e.kernel is not None for e in self._entries.values())
                    self._entries[key] = entry
        entry.refresh()
        return entry, [np.asarray(leaf) if _needs_array(leaf) else leaf for leaf in leaves]

    def _bad_argument(self, args: Any, kwargs: Any, leaves: Sequence[Any], error: Exception) -> SymgradError:
        for leaf, name in zip(leaves, self._names(args, kwargs), strict=False):
            try:
                aval_of(leaf)
            except (DtypeError, TypeError, ValueError):
                return DtypeError(
                    f"argument {name} of {self.__name__} is a {type(leaf).__name__}, "
                    f"which cannot be traced: {error}\n"
                    "  Give numbers, arrays, or tuples, lists and dicts of them; for an option use "
                    "sg.compile(f, static_argnums=…)."
                )
        return DtypeError(str(error))

    def _names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """What the user calls each leaf of the arguments."""
        names: list[str] = []
        parameters = parameter_names(self.__wrapped__, len(args))
        for k, (a, name) in enumerate(zip(args, parameters, strict=True)):
            if k not in {s % max(len(args), 1) for s in self._static}:
                names.extend(leaf_names(a, name))
        for name, value in kwargs.items():
            names.extend(leaf_names(value, name))
        return names

    # ---------------------------------------------------------------- tracing

    def _new_entry(
        self, structure: Any, avals: tuple[Aval, ...], zero_dims: frozenset[int], args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Entry:
        static = (
            {k % len(args): args[k] for k in self._static if -len(args) <= k < len(args)}
            if self._static
            else {}
        )

        def flat(*tracers: Tracer) -> Any:
            trace = active_trace()
            if trace is not None:
                trace.unseen = frozenset([t.expr.id for t in tracers])
            positional, named = unflatten(structure, tracers)
            return bound(self._function)(*[static.get(k, a) for k, a in enumerate(positional)], **named)

        settings = current() if self._policy is None else replace(current(), compile=self._policy)
        return Entry(flat, avals, zero_dims, self._names(args, kwargs), self.__name__, settings)

    def _install(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let the kernel be called without Python where the arguments are plain containers."""
        if kwargs or not entry.stands_alone:
            entry.installed = entry.kernel
            return
        specs = iter(entry.input_specs())
        try:
            inputs = [self._input_spec(k, a, len(args), specs) for k, a in enumerate(args)]
            template = _template(entry)
        except TypeError:
            entry.installed = entry.kernel
            return
        dispatcher = entry.dispatcher(inputs, template, self._slow_call)
        with self._lock:
            front_type = native.call_front_type(dispatcher)
            if not isinstance(self._front, front_type):
                self._drop_front()
                self._front = front_type(self._slow_call)
            if entry.front is not None:
                self._front.remove(entry.front)
            self._front.install(dispatcher)
            entry.front, entry.installed = dispatcher, entry.kernel
            self.__call__ = self._provisional_call if native.is_provisional(dispatcher) else self._front

    def _drop_front(self) -> None:
        self._front = None
        for entry in self._entries.values():
            entry.front = entry.installed = None
        self.__call__ = self._slow_call

    def _provisional_call(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call while the compiled call path is built, and go over to it when it is ready."""
        front = self._front
        if native.pending() and front is not None:
            return front(*args, **kwargs)
        with self._lock:
            if self.__call__ == self._provisional_call:
                self._drop_front()
        return self._slow_call(*args, **kwargs)

    def _input_spec(self, k: int, argument: Any, count: int, leaves: Iterator[InputSpec]) -> InputSpec:
        if k in {s % count for s in self._static}:
            return InputSpec("static", value=argument)
        return _nested_spec(argument, leaves)

    def warmup(self, *args: Any, **kwargs: Any) -> None:
        """Trace and compile now, so that no call has to.

        Parameters
        ----------
        *args, **kwargs
            Example arguments, or :class:`Spec` in the place of arrays. Nothing is computed on them, except
            decisions that depend on data: of those, the path that the examples take is made known.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> f = sg.value_and_grad(lambda x: np.sum(x**2))
        >>> f.warmup(sg.Spec((3,)))
        >>> f(np.ones(3)), f.cache_info().traces
        ((np.float64(3.0), array([2., 2., 2.])), 1)
        """
        entry, leaves = self._entry(args, kwargs)
        self._last = entry
        with entry.exclusive():
            entry.learn(None if any(isinstance(leaf, Spec) for leaf in leaves) else leaves)
            in_c = self._wants_c() is not False
            if in_c:
                native.native_module()
            if not in_c or entry.build() is None:
                entry.load_numpy()
            elif entry.installed is not entry.kernel:
                self._install(entry, args, kwargs)

    # ---------------------------------------------------------------- looking

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The simplified graph for these arguments; without arguments, of the signature traced last.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> sg.grad(lambda x: np.sum(x**2)).graph(np.ones(3)).node_count
        1
        """
        return self._chosen(args, kwargs).graph

    def source(self, kind: str = "numpy", *args: Any, **kwargs: Any) -> str:
        """Generated source, ``"numpy"`` or ``"c"``, for these arguments or the signature traced last.

        Raises
        ------
        ValueError
            If there is no such kind, or nothing was traced yet and no arguments are given.
        """
        if kind not in ("numpy", "c"):
            raise ValueError(f"source must be 'numpy' or 'c', not {kind!r}")
        entry = self._chosen(args, kwargs)
        return entry.numpy_code().source if kind == "numpy" else entry.c_code().text

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        if args or kwargs:
            return self._example(args, kwargs)[0]
        if self._last is None:
            raise ValueError(f"{self.__name__} was not called yet; give example arguments")
        return self._last

    def _example(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Entry, list[Any] | None]:
        """The signature of example arguments, of which at least one path is known, and their data if they have any."""
        entry, leaves = self._entry(args, kwargs)
        data = None if any(isinstance(leaf, Spec) for leaf in leaves) else leaves
        if not entry.tree.leaves:
            self._last = entry
        entry.ensure(data)
        return entry, data

    def _path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
        """What is computed on the path that example arguments take."""
        if not args and not kwargs:
            return self.graph()
        entry, data = self._example(args, kwargs)
        if not entry.tree.branches:
            return entry.graph
        values = None if data is None else [np.asarray(leaf)[()] for leaf in data]
        found = None if values is None else taken(entry.tree, values)
        if found is not None:
            return Graph(entry.tree.inputs, returned(found[0]), entry.name)
        graph, _ = trace_flat(
            entry.function, entry.avals, self._names(args, kwargs), entry.name, values, entry.zero_dims
        )
        label_variables(graph)
        return simplify(graph)

    def titles(self, args: tuple[Any, ...], count: int) -> list[str]:
        """What each output is called in formulas."""
        if self._titles is None:
            return numbered(plain_name(self.__wrapped__), count)
        return self._titles(args, count)

    def formula(self, *args: Any, **kwargs: Any) -> Formula:
        """The formula of what is computed for these arguments: of the path they take.

        Parameters
        ----------
        *args, **kwargs
            Examples or specs, as for a call.

        Examples
        --------
        >>> import symgrad as sg
        >>> print(sg.grad(lambda x: x**3).formula(2.0))
        ∂f/∂x = 3·x²
        """
        graph = self._path(args, kwargs)
        made: Formula = formula_room.make_formula(graph, self.titles(args, len(graph.outputs)))
        return made

    def paths(self, *args: Any, **kwargs: Any) -> PathTable:
        """The known paths through the branches of the function.

        Parameters
        ----------
        *args, **kwargs
            Example arguments; without them, of the signature traced last.

        Returns
        -------
        PathTable
            One row a path: decisions with their source lines and outcomes, hits, operations.

        Examples
        --------
        >>> import symgrad as sg
        >>> g = sg.grad(lambda x: x**2 if x > 0 else -x)
        >>> [g(2.0), g(-1.0), g(3.0)], [row.hits for row in g.paths()]
        ([4.0, -1.0, 6.0], [2, 1])
        """
        entry = self._chosen(args, kwargs)
        return path_table(entry.tree.leaves, entry.hits())

    def explain(self) -> str:
        """Why the function was traced last, in words.

        Examples
        --------
        >>> import symgrad as sg
        >>> f = sg.compile(lambda x: x + 1.0)
        >>> f(1.0)
        2.0
        >>> print(f.explain())
        traced 1 time: first call with arguments of this structure, these shapes and dtypes
        """
        entry = self._chosen((), {})
        traces = self.cache_info().traces
        return f"traced {traces} time{'s' if traces != 1 else ''}: {entry.reason}"

    def cache_info(self) -> CacheInfo:
        """How often the function was traced, and how many kernels it has."""
        kernels = sum(1 for e in self._entries.values() if e.kernel is not None)
        traces = sum(e.traces for e in self._entries.values())
        return CacheInfo(traces, kernels, self._calls)

    def stats(self) -> dict[str, Any]:
        """Nodes and seconds of each stage, for the signature traced last."""
        entry = self._chosen((), {})
        return {"nodes": entry.graph.node_count, "seconds": dict(entry.seconds)}


def _bound(compiled: Compiled, instance: Any) -> Any:
    def method(*args: Any, **kwargs: Any) -> Any:
        return compiled(instance, *args, **kwargs)

    return method


def _out_of_order(leaves: Sequence[Any]) -> tuple[int, ...]:
    """Which arrays are not in C order: what is a view of them, and what a copy, is another matter."""
    return tuple([k for k, x in enumerate(leaves) if isinstance(x, np.ndarray) and not x.flags.c_contiguous])


def _needs_array(leaf: Any) -> bool:
    # Subclasses too: NumPy code must not run by their rules where a C kernel does not.
    return type(leaf) not in (np.ndarray, float, int) and not isinstance(leaf, (np.generic, Spec))


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Names of the first ``count`` positional parameters, made up where the function does not say."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names.extend(f"{p.name}[{k}]" for k in range(count - len(names)))
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    names.extend(f"x{k}" for k in range(len(names), count))
    return names[:count]


def _nested_spec(argument: Any, leaves: Iterator[InputSpec]) -> InputSpec:
    """The spec of an argument made of plain containers and leaves.

    Raises
    ------
    TypeError
        For any other container.
    """
    kind = type(argument)
    if kind in (tuple, list):
        return InputSpec(
            "tuple" if kind is tuple else "list", items=tuple([_nested_spec(a, leaves) for a in argument])
        )
    if kind is dict:
        keys = tuple(argument)
        if list(keys) != sorted(keys):
            raise TypeError("leaves of a dict come in the order of its sorted keys")
        return InputSpec("dict", value=keys, items=tuple([_nested_spec(argument[k], leaves) for k in keys]))
    if isinstance(argument, (np.ndarray, np.generic, float, int, Spec)):
        return next(leaves)
    raise TypeError(f"{kind.__name__} is no plain container")


def _template(entry: Entry) -> Any:
    """Output numbers in the nesting of the outputs, or a function where that depends on the path."""
    assert entry.kernels.built is not None
    results = entry.kernels.built.results
    if results.numbered:
        return results.assemble
    tree = unflatten(entry.tree.leaves[0].structure, list(range(len(results.avals))))
    if type(tree) is int:
        return "single"
    _check_plain(tree)
    return tree


def _check_plain(tree: Any) -> None:
    kind = type(tree)
    if kind in (tuple, list):
        for t in tree:
            _check_plain(t)
    elif kind is dict:
        for t in tree.values():
            _check_plain(t)
    elif kind is not int and tree is not None:
        raise TypeError(f"{kind.__name__} is no plain container")


def _after_fork() -> None:
    # Locks may have been held by threads that do not exist in the child.
    for compiled in list(_alive):
        compiled.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
