"""Compiled code used again in another process, without writing its source first.

Writing C source takes many times as long as loading what was compiled from it. So it is noted on disk, under a
name that stands for what is computed and for everything that decides how it is written and compiled, which
shared object that was and what it has to be given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..codegen import cache, toolchain
from ..core.graph import digests, ranked_captures
from ..core.lazy import lazy_import
from ..core.paths import Vertex
from ..core.resources import template_dir
from .results import returned

if TYPE_CHECKING:
    from ..codegen import blas
    from ..codegen.c_source import CSource
    from .kernels import Plan
else:
    # What writes source is loaded when there is something to write.
    blas = lazy_import("symgrad.codegen.blas")

_ROOT: Final = Path(__file__).parents[1]
_BLAS: Final = "blas "


@dataclass(frozen=True)
class Recalled:
    """A kernel that was compiled before.

    Attributes
    ----------
    path, symbol
        The shared object, and the name of the function in it.
    hidden
        Arrays that it is given after its inputs.
    sizes
        Of these, the one with the sizes.
    work
        Estimated operations of a run.
    """

    path: Path
    symbol: str
    hidden: list[np.ndarray[Any, Any]]
    sizes: np.ndarray[Any, Any] | None
    work: float


def name_of(plan: Plan) -> str:
    """A name for what a kernel does here, the same in every process.

    Raises
    ------
    CompilerError
        If there is no compiler.
    """
    tree, results = plan.tree, plan.results
    graph = tree.graph
    known = digests(graph)
    targets = [t if isinstance(t, int) else id(t) for t in results.targets]
    digest = hashlib.sha256(_stamp(toolchain.compiler_stamp()))
    for output in graph.outputs:
        digest.update(known[output.id])
    parts = [
        [str(x.aval) for x in tree.inputs], results.numbered, [str(a) for a in results.avals],
        [t if isinstance(t, int) else "captured" for t in results.targets],
        *[_place(vertex, targets) for vertex in tree.vertices()],
    ]  # fmt: skip
    digest.update(repr(parts).encode())
    return digest.hexdigest()


def _place(vertex: Vertex, targets: list[int]) -> list[Any]:
    """All of a place in the tree but the expressions: which of these are whose, what they are for, what follows."""
    leaf = vertex.leaf
    ends: list[Any] = []
    if leaf is not None:
        # A path whose results do not fit the kernel may write to something that it knows nothing of.
        written = [t if isinstance(t, int) else id(t) for t in leaf.writes]
        ends = [leaf.index, len(returned(leaf)), [targets.index(t) if t in targets else -1 for t in written]]
    return [vertex.number, len(vertex.roots), ends, [(k, c.number) for k, c in sorted(vertex.children.items())]]


@lru_cache(maxsize=8)
def _stamp(compiler: bytes) -> bytes:
    """What decides how source is written and compiled: symgrad's own files, compiler, flags, processor."""
    digest = hashlib.sha256(compiler)
    folders = [(_ROOT, "**/*.py"), (template_dir(), "*.j2")]
    for path in sorted(p for folder, pattern in folders for p in folder.glob(pattern)):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.digest()


def remember(name: str, plan: Plan, code: CSource, key: str) -> None:
    """Note what was compiled; kernels that are given anything that cannot be found again are left out."""
    known = {id(array): reference for reference, array in _references(plan, code.sizes, True)}
    hidden = [known.get(id(array)) for array in code.hidden]
    if None in hidden:
        return
    sizes = None if code.sizes is None else np.trim_zeros(code.sizes, "b").tolist()
    cache.default_cache().note(
        name, {"key": key, "symbol": code.symbol, "work": float(code.work), "hidden": hidden, "sizes": sizes}
    )


def recall(name: str, plan: Plan) -> Recalled | None:
    """Find what was noted under a name; None if there is nothing, or it is damaged."""
    kept = cache.default_cache()
    note = kept.noted(name)
    if note is None or not _is_whole(note):
        return None
    sizes = None
    if note["sizes"] is not None:
        sizes = np.zeros(max(len(note["sizes"]), 1), np.int64)
        sizes[: len(note["sizes"])] = note["sizes"]
    calls_blas = any(reference.startswith(_BLAS) for reference in note["hidden"])
    known = dict(_references(plan, sizes, calls_blas))
    if not all(reference in known for reference in note["hidden"]):
        return None
    path = kept.lookup(note["key"])
    if path is None:
        return None
    hidden = [known[reference] for reference in note["hidden"]]
    return Recalled(path, note["symbol"], hidden, sizes, note["work"])


def _is_whole(note: dict[str, Any]) -> bool:
    hidden, sizes = note.get("hidden"), note.get("sizes")
    return (
        isinstance(note.get("key"), str)
        and str(note.get("symbol")).isidentifier()
        and isinstance(note.get("work"), float)
        and isinstance(hidden, list)
        and all(isinstance(h, str) for h in hidden)
        and (sizes is None or (isinstance(sizes, list) and all(type(n) is int for n in sizes)))
    )


def _references(
    plan: Plan, sizes: np.ndarray[Any, Any] | None, with_blas: bool
) -> Sequence[tuple[str, np.ndarray[Any, Any]]]:
    """Arrays that a kernel may be given, under names that mean the same in every process."""
    found = [(f"capture {k}", c.params[0][1].array) for k, c in enumerate(ranked_captures(plan.tree.graph))]
    found.append(("hits", plan.hits))
    if sizes is not None:
        found.append(("sizes", sizes))
    table = blas.blas_table() if with_blas else None
    if table is not None:
        has = "".join("1" if address else "0" for address in table.addresses)
        found.append((f"{_BLAS}{table.origin} {table.convention} {table.int_bytes} {has}", table.pointers))
    return found
