"""What the kernel of a tree of paths returns, and what becomes of it: results by path, written arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import INT64, Aval, make_aval
from ..core.expr import Expr
from ..core.paths import Leaf, PathTree
from ..core.pytree import unflatten
from ..errors import TraceError
from .specs import OutputSpec


def returned(leaf: Leaf) -> tuple[Expr, ...]:
    """The results of a path, without the new contents of what it writes to."""
    return leaf.outputs[: len(leaf.outputs) - len(leaf.writes)]


class Results:
    """The outputs that the kernel of a tree has, so that as many paths as possible can use them.

    Parameters
    ----------
    tree
        All known paths.

    Attributes
    ----------
    avals
        Types of the outputs: what is returned, then the new contents of everything that some path writes to.
    numbered
        Whether the kernel gives the number of the path before them: paths differ in structure, in what is a
        Python number, or in what they write to.
    targets
        What is written to: argument numbers and captured arrays.
    """

    def __init__(self, tree: PathTree) -> None:
        first = tree.leaves[0]
        own = [x.aval for x in returned(first)]
        strong = [a.strong() for a in own]
        fitting = [leaf for leaf in tree.leaves if [x.aval.strong() for x in returned(leaf)] == strong]
        contents: dict[Any, Aval] = {}
        self.targets: list[Any] = []
        for leaf in fitting:
            for target, new in zip(leaf.writes, leaf.outputs[len(own) :], strict=True):
                if _key(target) not in contents:
                    contents[_key(target)] = new.aval
                    self.targets.append(target)
        self._place = {key: k for k, key in enumerate(contents)}
        self.numbered = any(
            leaf.structure != first.structure
            or [x.aval for x in returned(leaf)] != own
            or [_key(t) for t in leaf.writes] != list(contents)
            for leaf in fitting
        )
        self.avals = [*(strong if self.numbered else own), *contents.values()]
        self._count = len(own)
        self._leaves = tree.leaves

    @property
    def outputs(self) -> list[OutputSpec]:
        """What the dispatcher makes of the outputs."""
        number = [make_aval((), INT64, True)] if self.numbered else []
        return [output_spec(aval) for aval in (*number, *self.avals)]

    def completed(self, tree: PathTree) -> PathTree:
        """The tree with all paths writing to all targets: where one does not write, the contents stay."""
        if not self.numbered or not self.targets:
            return tree
        made = tree.mapped(tree.graph)
        for leaf in made.leaves:
            new = {_key(t): x for t, x in zip(leaf.writes, leaf.outputs[len(returned(leaf)) :], strict=True)}
            contents = [new.get(_key(t), _contents(made, t)) for t in self.targets]
            leaf.outputs = (*returned(leaf), *contents)
            leaf.writes = tuple(self.targets)
        return made

    def finish(self, answer: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """What a call returns, from the outputs of the kernel; arguments are written to."""
        if not self.numbered:
            first = self._leaves[0]
            return unflatten(first.structure, written(first.writes, answer, leaves))
        leaf = self._leaves[answer[0]]
        outputs = answer[1:]
        count = self._count
        results = [finished(r, x.aval) for r, x in zip(outputs[:count], returned(leaf), strict=True)]
        new = [outputs[count + self._place[_key(t)]] for t in leaf.writes]
        return unflatten(leaf.structure, written(leaf.writes, [*results, *new], leaves))

    def assemble(self, answer: Sequence[Any]) -> Any:
        """What a call returns that writes to nothing."""
        return self.finish(answer, ())


def _key(target: Any) -> Any:
    return target if isinstance(target, int) else ("captured", id(target))


def _contents(tree: PathTree, target: Any) -> Expr:
    """What a target holds before the call."""
    return tree.inputs[target] if isinstance(target, int) else tree.root.roots[0].table.capture(target)


def written(writes: Sequence[Any], results: Sequence[Any], leaves: Sequence[Any]) -> Sequence[Any]:
    """Give arguments and captured arrays their new contents, as NumPy would; the rest is returned.

    Raises
    ------
    TraceError
        If an array that is written to shares memory with another argument: NumPy's result would depend on
        the order of reads and writes, which the compiled code does not keep.
    """
    count = len(results) - len(writes)
    if writes:
        _refuse_overlaps(writes, leaves)
    for target, new in zip(writes, results[count:], strict=True):
        np.copyto(leaves[target] if isinstance(target, int) else target, new)
    return results[:count]


def _refuse_overlaps(writes: Sequence[Any], leaves: Sequence[Any]) -> None:
    for target in writes:
        array = leaves[target] if isinstance(target, int) else target
        own = target if isinstance(target, int) else -1
        others = [x for k, x in enumerate(leaves) if k != own and isinstance(x, np.ndarray)]
        others += [t for t in writes if not isinstance(t, int) and t is not target]
        if any(overlap(array, other) for other in others):
            raise TraceError(
                "an argument that the function writes to shares memory with another one.\n"
                "  Give one of them as a copy: x.copy()."
            )


def overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays share memory; in doubt they do."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # any number is meant
    except np.exceptions.TooHardError:
        return True


def output_spec(aval: Aval) -> OutputSpec:
    """What the dispatcher makes of an output."""
    if aval.weak:
        return OutputSpec("pyfloat" if aval.dtype.kind == "f" else "pyint")
    return OutputSpec("array" if aval.shape else "scalar", aval.dtype, aval.shape)


def finished(value: Any, aval: Aval) -> Any:
    """A result of the NumPy backend as what NumPy would have returned."""
    if aval.weak:
        return value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if not aval.shape:
        return value[()] if isinstance(value, np.ndarray) else aval.dtype.type(value)
    return value if type(value) is np.ndarray else np.asarray(value)
