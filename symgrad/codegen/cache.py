"""Compiled code kept on disk, found by what it was made from.

An entry is three files in a folder only its owner can write: the shared object, the C source and a small
JSON record with the digest that the shared object must have. The key covers everything that decides about the
machine code, so an entry never goes stale; a damaged one is built again. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from symgrad.codegen import cache_folder
from symgrad.codegen.toolchain import Objects, Tier, Toolchain, compile_shared, cpu_identity, require_toolchain
from symgrad.core.lazy import lazy_import
from symgrad.errors import CompilerError

if TYPE_CHECKING:
    import filelock

    from symgrad.codegen import process
else:
    filelock = lazy_import("filelock")
    process = lazy_import("symgrad.codegen.process")

#: Changes whenever the layout of entries or the kernel ABI does.
FORMAT_VERSION: Final = 1
#: Bytes kept on disk unless ``SYMGRAD_CACHE_SIZE`` says otherwise.
DEFAULT_MAX_BYTES: Final = 1 << 30

_KEY: Final = re.compile("[0-9a-f]{64}")
_SUFFIXES: Final = (".so", ".c", ".json")
#: Eviction goes somewhat below the bound, so that it is not due again at the next build.
_EVICT_TO: Final = 0.8
#: An entry used so recently may be about to be loaded by another process.
_GRACE_SECONDS: Final = 60.0
#: No build takes so long.
_ABANDONED_SECONDS: Final = 24 * 3600.0
_LOCK_TIMEOUT: Final = 600.0


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What happened in this process.

    Attributes
    ----------
    hits
        Times an entry was served without compiling.
    misses
        Times `KernelCache.get_or_build` found no valid entry.
    builds
        Times the compiler made an entry.
    rejected
        Entries found damaged or not ours, and removed.
    evicted
        Entries removed to keep the size in bounds.
    """

    hits: int = 0
    misses: int = 0
    builds: int = 0
    rejected: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class _Recipe:
    """Everything that decides what an entry contains."""

    units: tuple[str, ...]
    tiers: tuple[Tier, ...]
    extra_flags: tuple[str, ...]
    libs: tuple[str, ...]
    toolchain: Toolchain

    @property
    def flags(self) -> list[tuple[str, ...]]:
        """One list for all units, or one for each."""
        return [(*self.toolchain.flags(tier), *self.extra_flags) for tier in self.tiers]

    def key(self) -> str:
        flags = self.flags
        native = any(f.startswith(("-march=", "-mtune=", "-mcpu=")) for one in flags for f in one)
        parts = [
            [str(FORMAT_VERSION)], self.units, flags, self.libs, [self.toolchain.identity],
            [cpu_identity() if native else ""], [sys.platform, os.uname().machine, _libc()],
        ]  # fmt: skip
        # JSON keeps the borders between the parts, so that no two different lists give the same text.
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _recipe(
    source: str | Sequence[str], tier: Tier | Sequence[Tier], extra_flags: Sequence[str], libs: Sequence[str]
) -> _Recipe:
    units = (source,) if isinstance(source, str) else tuple(source)
    tiers = (tier,) if isinstance(tier, str) else tuple(tier)
    tiers = tiers if len(set(tiers)) > 1 else tiers[:1]
    return _Recipe(units, tiers, tuple(extra_flags), tuple(libs), require_toolchain())


class KernelCache:
    """Shared objects on disk, addressed by the digest of what they are made from.

    Safe for any number of threads and processes, and after a fork. If the folder cannot be trusted or
    written, a private one that lives as long as the process takes its place, after one `CompilerWarning`.

    Parameters
    ----------
    root
        The folder; by default ``SYMGRAD_CACHE_DIR`` or ``symgrad`` in the user's cache directory.
    max_bytes
        Size beyond which the entries unused for longest are removed; by default ``SYMGRAD_CACHE_SIZE``
        (bytes) or 1 GiB.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = KernelCache(pathlib.Path(folder) / "kernels")
    ...     cache.lookup("0" * 64), cache.stats().hits
    (None, 0)
    """

    def __init__(self, root: Path | None = None, max_bytes: int | None = None) -> None:
        self._wanted = cache_folder.requested_folder() if root is None else root.absolute()
        self._max_bytes = _configured_size() if max_bytes is None else max_bytes
        self._counts = dict.fromkeys(CacheStats.__dataclass_fields__, 0)
        self._used: int | None = None
        self._new_lock()
        _alive.add(self)

    def _new_lock(self) -> None:
        self._guard = threading.Lock()

    @property
    def root(self) -> Path:
        """The folder in use; private to the process if the one asked for was refused."""
        return cache_folder.usable_folder(self._wanted)

    def key(
        self,
        source: str | Sequence[str],
        tier: Tier | Sequence[Tier] = "scalar",
        extra_flags: Sequence[str] = (),
        libs: Sequence[str] = ("-lm",),
    ) -> str:
        """Return the key of an entry: a digest of source, flags, compiler, CPU and platform.

        Raises
        ------
        CompilerError
            If there is no compiler, or it is broken.
        """
        return _recipe(source, tier, extra_flags, libs).key()

    def lookup(self, key: str) -> Path | None:
        """Return the shared object of an entry if it is there and undamaged; counts a hit if so."""
        path = self._valid(self.root, key) if _KEY.fullmatch(key) else None
        if path is not None:
            self._count("hits")
        return path

    def get_or_build(
        self,
        source: str | Sequence[str],
        tier: Tier | Sequence[Tier] = "scalar",
        extra_flags: Sequence[str] = (),
        libs: Sequence[str] = ("-lm",),
        *,
        timeout: float | None = None,
        objects: Objects | None = None,
    ) -> Path:
        """Return the shared object made from ``source``, compiling it unless it is kept already.

        Parameters
        ----------
        source, tier, extra_flags, libs, timeout, objects
            As for `symgrad.codegen.toolchain.compile_shared`.

        Raises
        ------
        CompilerError
            If there is no compiler or it fails. Failures are not kept: the next call tries again.
        """
        recipe = _recipe(source, tier, extra_flags, libs)
        key = recipe.key()
        try:
            path, found = self._found_or_built(key, recipe, timeout, objects)
        except CompilerError:
            self._count("misses")
            raise
        self._count("hits" if found else "misses")
        return path

    def _found_or_built(
        self, key: str, recipe: _Recipe, timeout: float | None, objects: Objects | None
    ) -> tuple[Path, bool]:
        root = self.root
        try:
            return self._in_folder(root, key, recipe, timeout, objects)
        except (OSError, process.NoRoomError) as error:
            if isinstance(error, OSError) and not cache_folder.out_of_room(error):
                raise CompilerError(f"cannot keep compiled code in {root}: {error}") from error
            if root == cache_folder.private_folder():
                raise CompilerError(f"nowhere to put compiled code: {error}") from error
            cache_folder.distrust(self._wanted, cache_folder.cannot_be_written(error))
        try:
            return self._in_folder(self.root, key, recipe, timeout, objects)
        except OSError as error:
            raise CompilerError(f"nowhere to put compiled code: {error}") from error

    def _in_folder(
        self, root: Path, key: str, recipe: _Recipe, timeout: float | None, objects: Objects | None
    ) -> tuple[Path, bool]:
        """Return the shared object and whether it was there already."""
        path = self._valid(root, key)
        if path is None:
            with _locked(root, f"build-{key[:2]}"):
                # Another process may have built it while this one waited.
                path = self._valid(root, key)
                if path is None:
                    return self._build(root, key, recipe, timeout, objects), False
        return path, True

    def _build(
        self, root: Path, key: str, recipe: _Recipe, timeout: float | None, objects: Objects | None
    ) -> Path:
        path = _entry(root, key, create=True)
        compile_shared(
            recipe.units, path, recipe.tiers if len(recipe.tiers) > 1 else recipe.tiers[0],
            recipe.extra_flags, recipe.libs,
            toolchain=recipe.toolchain, timeout=timeout, folder=root, objects=objects,
        )  # fmt: skip
        made = path.read_bytes()
        record = {
            "format": FORMAT_VERSION,
            "sha256": hashlib.sha256(made).hexdigest(),
            "tiers": recipe.tiers,
            "flags": recipe.flags,
            "libs": recipe.libs,
            "compiler": recipe.toolchain.identity,
        }
        text = "\n".join(recipe.units).encode()
        cache_folder.write_atomically(path.with_suffix(".c"), text)
        # The record comes last: without it the entry does not exist.
        cache_folder.write_atomically(path.with_suffix(".json"), json.dumps(record).encode())
        self._count("builds")
        self._keep_in_bounds(root, len(made) + len(text))
        return path

    def _valid(self, root: Path, key: str) -> Path | None:
        path = _entry(root, key)
        record_file = path.with_suffix(".json")
        if not record_file.exists():
            return None
        record = cache_folder.read_json(record_file)
        if record is None or record.get("sha256") != _own_digest(path):
            # Unlink the record first, so that nobody else takes the rest for an entry.
            for suffix in reversed(_SUFFIXES):
                path.with_suffix(suffix).unlink(missing_ok=True)
            self._count("rejected")
            return None
        try:
            os.utime(record_file)
        except FileNotFoundError:
            return None  # evicted this very moment
        return path

    def note(self, name: str, record: dict[str, Any]) -> None:
        """Remember something about code, under a hex digest; what is noted there already stays if it is the same."""
        if self.noted(name) == record:
            return
        try:
            folder = cache_folder.own_subfolder(cache_folder.own_subfolder(self.root, "noted"), name[:2])
            cache_folder.write_atomically(folder / name, json.dumps(record).encode())
        except OSError as error:
            # A note only saves time; a disk without room for it is told about where code is kept.
            if not cache_folder.out_of_room(error):
                raise CompilerError(f"cannot write to {self.root}: {error}") from error

    def noted(self, name: str) -> dict[str, Any] | None:
        """Return what :meth:`note` was given for that name, in this process or another; None if nothing."""
        return cache_folder.read_json(self.root / "noted" / name[:2] / name)

    def stats(self) -> CacheStats:
        """Return exact counts of what this object did in this process."""
        with self._guard:
            return CacheStats(**self._counts)

    def _count(self, name: str, amount: int = 1) -> None:
        with self._guard:
            self._counts[name] += amount

    def size(self) -> int:
        """Return the bytes that all entries take."""
        return sum(size for _, size, _ in _entries(self.root))

    def clear(self) -> int:
        """Remove all entries and return how many there were. Code that is loaded already keeps working."""
        removed = 0
        root = self.root
        with _locked(root, "evict"):
            _sweep(root)
            for path, _, _ in _entries(root):
                removed += _remove(path)
            for note in root.glob("noted/*/*"):
                note.unlink(missing_ok=True)
        with self._guard:
            self._used = None
        return removed

    def evict(self, max_bytes: int | None = None) -> int:
        """Remove the entries unused for longest until the rest takes at most ``max_bytes``; return how many.

        Parameters
        ----------
        max_bytes
            By default somewhat less than the cache's bound. Entries used within the last minute stay.
        """
        bound = int(self._max_bytes * _EVICT_TO) if max_bytes is None else max_bytes
        root = self.root
        with _locked(root, "evict"):
            _sweep(root)
            found = sorted(_entries(root), key=lambda entry: entry[2])
            used = sum(size for _, size, _ in found)
            removed = 0
            for path, size, last_use in found:
                if used <= bound or last_use > time.time() - _GRACE_SECONDS:
                    break
                removed += _remove(path)
                used -= size
        with self._guard:
            self._used = used
        self._count("evicted", removed)
        return removed

    def _keep_in_bounds(self, root: Path, added: int) -> None:
        # Other processes' entries are noticed at the first build and whenever the own count passes the bound.
        with self._guard:
            known = self._used
        used = known + added if known is not None else sum(size for _, size, _ in _entries(root))
        with self._guard:
            self._used = used
        if used > self._max_bytes:
            self.evict()


def _entry(root: Path, key: str, *, create: bool = False) -> Path:
    folder = root / "entries" / key[:2]
    if create:
        folder = cache_folder.own_subfolder(cache_folder.own_subfolder(root, "entries"), key[:2])
    return folder / f"{key}.so"


def _entries(root: Path) -> Iterator[tuple[Path, int, float]]:
    """Yield shared object, bytes and time of last use of each entry, also of incomplete ones."""
    for path in (root / "entries").glob("*/*.so"):
        try:
            record = path.with_suffix(".json")
            last_use = (record if record.exists() else path).stat().st_mtime
            files = [path.with_suffix(suffix) for suffix in _SUFFIXES]
            yield path, sum(file.stat().st_size for file in files if file.exists()), last_use
        except FileNotFoundError:
            continue  # removed by another process meanwhile


def _remove(path: Path) -> bool:
    existed = path.exists()
    for suffix in reversed(_SUFFIXES):
        path.with_suffix(suffix).unlink(missing_ok=True)
    return existed


def _sweep(root: Path) -> None:
    """Remove what processes that were killed left half done."""
    for left in (*(root / "tmp").glob("*"), *(root / "entries").glob("*/.new-*")):
        try:
            if left.stat().st_mtime > time.time() - _ABANDONED_SECONDS:
                continue
        except FileNotFoundError:
            continue  # its process was quicker
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _own_digest(path: Path) -> str | None:
    """Return the digest of a file that only we can have written, None for any other."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not cache_folder.is_own(os.fstat(descriptor)):
            return None
        return hashlib.sha256(file.read()).hexdigest()


@contextmanager
def _locked(root: Path, name: str) -> Iterator[None]:
    """Hold a lock of the folder against other processes and threads.

    Where locks do not work (some network disks) or the holder never ends, work goes on without: entries
    appear by atomic renames, so the worst case is that something is compiled twice.
    """
    file = cache_folder.own_subfolder(root, "locks") / f"{name}.lock"
    lock = filelock.FileLock(file, timeout=_LOCK_TIMEOUT, mode=0o600)
    try:
        lock.acquire()
    except (filelock.Timeout, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""  # no glibc


def _configured_size() -> int:
    value = os.environ.get("SYMGRAD_CACHE_SIZE", "")
    try:
        return int(value) if value else DEFAULT_MAX_BYTES
    except ValueError as error:
        raise CompilerError(f"SYMGRAD_CACHE_SIZE={value!r} is not a number of bytes") from error


_alive: weakref.WeakSet[KernelCache] = weakref.WeakSet()
_default: dict[tuple[Path, int], KernelCache] = {}
_default_lock = threading.Lock()


def default_cache() -> KernelCache:
    """Return the cache that the settings describe; the same object as long as they stay the same.

    Examples
    --------
    >>> default_cache() is default_cache()
    True
    """
    key = (cache_folder.requested_folder(), _configured_size())
    with _default_lock:
        if key not in _default:
            _default[key] = KernelCache(*key)
        return _default[key]


def get_or_build(
    source: str | Sequence[str],
    tier: Tier | Sequence[Tier] = "scalar",
    extra_flags: Sequence[str] = (),
    libs: Sequence[str] = ("-lm",),
    *,
    timeout: float | None = None,
    objects: Objects | None = None,
) -> Path:
    """Do what `KernelCache.get_or_build` does, with the default cache."""
    return default_cache().get_or_build(source, tier, extra_flags, libs, timeout=timeout, objects=objects)


def _after_fork() -> None:
    # Locks may have been held by threads that do not exist in the child.
    global _default_lock  # noqa: PLW0603 - a child needs a lock of its own
    _default_lock = threading.Lock()
    for cache in _alive:
        cache._new_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
