"""The C compiler: which one, with which flags, and how it is run.

Nothing here trusts the compiler: it may be missing, hang, die, print rubbish or leave a file that cannot be
loaded. Each of these ends in a `CompilerError` that shows the command and says what to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from symgrad.codegen import cache_folder
from symgrad.core.lazy import lazy_import
from symgrad.errors import CompilerError

if TYPE_CHECKING:
    from symgrad.codegen import process, shared_object
else:
    # Loaded when there is something to compile.
    process = lazy_import("symgrad.codegen.process")
    shared_object = lazy_import("symgrad.codegen.shared_object")

Tier = Literal["vector", "scalar", "huge", "portable"]
Kind = Literal["gcc", "clang", "other"]

#: Seconds one compiler process may take; ``SYMGRAD_CC_TIMEOUT`` overrides it.
DEFAULT_TIMEOUT: Final = 120.0
#: Seconds for an empty function: a compiler that takes longer hangs, and is not asked again in this process.
_PROBE_TIMEOUT: Final = 15.0

_OPTIMISATION: Final[dict[Tier, str]] = {"vector": "-O3", "scalar": "-O1", "huge": "-O0", "portable": "-O2"}
_ALWAYS: Final = ("-std=c99", "-fPIC")
# Linking with one of these may switch the whole process to flush-to-zero when the result is loaded.
_NEVER_LINKED: Final = frozenset({"-ffast-math", "-Ofast", "-funsafe-math-optimizations"})
_OPTIONAL: Final = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fopenmp-simd")
_NATIVE: Final = "-march=native"
_WIDE: Final = "-mprefer-vector-width=512"
_CPU_MODEL: Final = (
    "vendor_id", "cpu family", "model", "cache size", "CPU implementer", "CPU part", "CPU variant", "uarch",
)  # fmt: skip
_PROBE: Final = "double symgrad_probe(double x) { return x * 2.0 + 1.0; }\n"
_ADVICE: Final = (
    "Install a C compiler (gcc or clang) or name one in SYMGRAD_CC; backend='numpy' works without any."
)


Objects = dict[tuple[tuple[str, ...], str], bytes]
"""Object code by the command that made it and the text of the unit."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler.

    Attributes
    ----------
    command
        How it is started: the program and the arguments that always come first.
    path
        The program, with symbolic links resolved.
    kind
        The family, which decides about flags.
    version
        First line that ``--version`` prints.
    target
        The machine it compiles for, as it names it itself.
    """

    command: tuple[str, ...]
    path: str
    kind: Kind
    version: str
    target: str

    @property
    def identity(self) -> str:
        """What tells this compiler from another one; part of every cache key."""
        return " | ".join((self.path, *self.command[1:], self.version, self.target))

    def flags(self, tier: Tier) -> tuple[str, ...]:
        """Return the flags for code of one tier, without ``-shared`` and libraries.

        Parameters
        ----------
        tier
            ``"vector"`` for loops over arrays, ``"scalar"`` for straight-line code, ``"huge"`` where compile
            time is all that matters, ``"portable"`` for code that must run on other CPUs too.

        Raises
        ------
        CompilerError
            If the compiler cannot even compile an empty function.

        Examples
        --------
        >>> toolchain = find_toolchain()
        >>> toolchain is None or "-O3" in toolchain.flags("vector")
        True
        """
        accepted = accepted_flags(self)
        flags = [_OPTIMISATION[tier], *_ALWAYS, *(flag for flag in _OPTIONAL if flag in accepted)]
        if tier != "portable" and _NATIVE in accepted:
            flags.append(_NATIVE)
        if tier == "vector" and _WIDE in accepted and "avx512f" in cpu_features():
            flags.append(_WIDE)
        return (*flags, *_own_flags())


_lock = threading.RLock()
_found: dict[tuple[object, ...], Toolchain] = {}
_accepted: dict[tuple[str, ...], frozenset[str]] = {}
_hanging: dict[tuple[str, ...], str] = {}


def find_toolchain() -> Toolchain | None:
    """Return the C compiler to use, or None if there is none.

    ``SYMGRAD_CC`` decides alone if it is set; otherwise the first program found of ``CC``, ``cc``, ``gcc``
    and ``clang`` is taken. The answer is kept while these settings and the program's file stay the same.

    Examples
    --------
    >>> toolchain = find_toolchain()
    >>> toolchain is None or toolchain.kind in ("gcc", "clang", "other")
    True
    """
    command = _command()
    if command is None:
        return None
    path, status = _program(command)
    key = _program_key(command, path, status)
    with _lock:
        if key not in _found:
            _found[key] = _identify(command, path, status)
        return _found[key]


def compiler_stamp() -> bytes:
    """What decides which code a compiler makes, found without running it: its file, flags and the CPU.

    Raises
    ------
    CompilerError
        If there is no compiler.
    """
    command = _command()
    if command is None:
        raise CompilerError(f"no C compiler: {why_no_toolchain()}.\n  {_ADVICE}")
    key = _program_key(command, *_program(command))
    return repr((key, _own_flags(), cpu_identity())).encode()


def _program(command: tuple[str, ...]) -> tuple[Path, os.stat_result]:
    path = Path(command[0]).resolve()
    return path, path.stat()


def _program_key(command: tuple[str, ...], path: Path, status: os.stat_result) -> tuple[object, ...]:
    return (*command, str(path), status.st_mtime_ns, status.st_size)


def require_toolchain() -> Toolchain:
    """Return the C compiler.

    Raises
    ------
    CompilerError
        If there is none; the message names what was looked for.
    """
    toolchain = find_toolchain()
    if toolchain is None:
        raise CompilerError(f"no C compiler: {why_no_toolchain()}.\n  {_ADVICE}")
    return toolchain


def why_no_toolchain() -> str:
    """Say what was looked for, for messages when `find_toolchain` returns None."""
    if os.name != "posix":
        return f"C code is built on POSIX systems only, not on {sys.platform}"
    asked = os.environ.get("SYMGRAD_CC", "").strip()
    if asked:
        return f"SYMGRAD_CC={asked!r} names no program that can be run"
    return "none of CC, cc, gcc, clang names a program on PATH"


def reset() -> None:
    """Forget the compilers found and their flags, as in a fresh process."""
    with _lock:
        _found.clear()
        _accepted.clear()
        _hanging.clear()
    cpu_features.cache_clear()
    _cpu_fields.cache_clear()


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    global _lock  # noqa: PLW0603 - a child needs a lock of its own
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _command() -> tuple[str, ...] | None:
    if os.name != "posix":
        return None
    asked = os.environ.get("SYMGRAD_CC", "").strip()
    candidates = [asked] if asked else [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    for candidate in candidates:
        words = _split(candidate)
        program = shutil.which(words[0]) if words else None
        if program is not None:
            return (str(Path(program).absolute()), *words[1:])
    return None


def _own_flags() -> list[str]:
    asked = os.environ.get("SYMGRAD_CFLAGS", "")
    try:
        return shlex.split(asked)
    except ValueError as error:
        raise CompilerError(f"SYMGRAD_CFLAGS={asked!r} cannot be divided into flags: {error}") from error


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:  # an unbalanced quote: certainly not a program
        return []


def _identify(command: tuple[str, ...], path: Path, status: os.stat_result) -> Toolchain:
    version = process.run_one(process.Job((*command, "--version"), Path("/")), timeout=10.0)
    text = version.output if version.code == 0 else ""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        # A compiler without --version is told from others by its file.
        first = f"unversioned {status.st_mtime_ns} {status.st_size}"
    kind = _kind(text)
    ask = process.Job((*command, "-dumpmachine"), Path("/"))
    machine = process.run_one(ask, timeout=10.0) if kind != "other" else None
    target = machine.output.strip() if machine is not None and machine.code == 0 else platform.machine()
    return Toolchain(command, str(path), kind, first, target)


def _kind(version_text: str) -> Kind:
    lowered = version_text.lower()
    if "clang" in lowered:
        return "clang"
    # Distributions call the program cc or x86_64-linux-gnu-gcc, but all of them print this owner.
    if "free software foundation" in lowered:
        return "gcc"
    return "other"


def accepted_flags(toolchain: Toolchain) -> frozenset[str]:
    """Return those of the optional flags that the compiler takes without complaint; it is asked only once.

    Raises
    ------
    CompilerError
        If it cannot compile the probe without any of them.
    """
    key = (toolchain.identity, cpu_identity())
    with _lock:
        if key in _hanging:
            raise CompilerError(_hanging[key])
        if key not in _accepted:
            _accepted[key] = _remembered_flags(toolchain, key)
        return _accepted[key]


def _remembered_flags(toolchain: Toolchain, key: tuple[str, str]) -> frozenset[str]:
    folder = cache_folder.usable_folder()
    try:
        return _flags_on_record(toolchain, key, folder)
    except (OSError, process.NoRoomError) as error:
        if isinstance(error, OSError) and not cache_folder.out_of_room(error):
            raise
        cache_folder.distrust(folder, cache_folder.cannot_be_written(error))
        return _flags_on_record(toolchain, key, cache_folder.usable_folder())


def _flags_on_record(toolchain: Toolchain, key: tuple[str, str], folder: Path) -> frozenset[str]:
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]
    file = cache_folder.own_subfolder(folder, "compilers") / f"{digest}.json"
    known = cache_folder.read_json(file)
    probed = (*_OPTIONAL, _NATIVE, _WIDE)
    if known is not None and isinstance(known.get("accepted"), list) and known.get("probed") == list(probed):
        return frozenset(flag for flag in probed if flag in known["accepted"])
    accepted = _probe(toolchain, probed, folder)
    record = {"compiler": toolchain.identity, "probed": probed, "accepted": sorted(accepted)}
    cache_folder.write_atomically(file, json.dumps(record).encode())
    return accepted


def _probe(toolchain: Toolchain, flags: tuple[str, ...], folder: Path) -> frozenset[str]:
    with cache_folder.temporary_subfolder(folder) as work:
        source = work / "probe.c"
        source.write_text(_PROBE)

        def job(*chosen: str) -> process.Job:
            # An unknown flag is an error for gcc, only a warning for some clangs.
            strict = ("-Werror",) if chosen else ()
            flags = (*_ALWAYS, *strict, *chosen)
            return process.Job((*toolchain.command, *flags, "-c", source.name, "-o", "probe.o"), work)

        limit = min(_timeout(None), _PROBE_TIMEOUT)
        first = process.run_one(job(*flags), timeout=limit)
        if first.code == 0:
            return frozenset(flags)
        bare = first if first.timed_out else process.run_one(job(), timeout=limit)
        if bare.code != 0:
            error = bare.error("the C compiler cannot compile an empty function", _ADVICE)
            if bare.timed_out:
                _hanging[toolchain.identity, cpu_identity()] = str(error)
            raise error
        return frozenset(flag for flag in flags if process.run_one(job(flag), timeout=limit).code == 0)


def _timeout(asked: float | None) -> float:
    if asked is not None:
        return asked
    value = os.environ.get("SYMGRAD_CC_TIMEOUT", "")
    try:
        return float(value) if value else DEFAULT_TIMEOUT
    except ValueError as error:
        raise CompilerError(f"SYMGRAD_CC_TIMEOUT={value!r} is not a number of seconds") from error


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Return the instruction sets of the CPU as the system names them; empty where it does not say.

    Examples
    --------
    >>> isinstance(cpu_features(), frozenset)
    True
    """
    return frozenset(_cpu_fields().get("flags", _cpu_fields().get("Features", "")).split())


def cpu_identity() -> str:
    """Return what decides which code ``-march=native`` means here; part of the cache key of such code."""
    fields = _cpu_fields()
    model = [fields[name] for name in _CPU_MODEL if fields.get(name)]
    return " ".join((platform.machine(), *model, *sorted(cpu_features())))


@lru_cache(maxsize=1)
def _cpu_fields() -> dict[str, str]:
    # Only the first processor is read: the file is slow to make on machines with many.
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:  # noqa: PTH123 - no real file
            for line in lines:
                name, colon, value = line.partition(":")
                if not colon and fields:
                    break
                fields[name.strip()] = value.strip()
    except OSError:
        return {"vendor_id": platform.processor()}
    return fields


def compile_shared(
    source: str | Sequence[str],
    output: Path,
    tier: Tier | Sequence[Tier] = "scalar",
    extra_flags: Sequence[str] = (),
    libs: Sequence[str] = ("-lm",),
    *,
    toolchain: Toolchain | None = None,
    timeout: float | None = None,
    folder: Path | None = None,
    objects: Objects | None = None,
) -> None:
    """Compile C source into a shared object.

    Parameters
    ----------
    source
        The text of one translation unit, or of several; these are compiled in parallel and linked.
    output
        The file to make. It appears only if everything went well, and replaces an older one atomically.
    tier
        Which flags to use, see `Toolchain.flags`: the same for all units, or one for each.
    extra_flags
        Flags for compiling, after all others.
    libs
        Libraries and flags for linking.
    toolchain
        The compiler; by default the one `find_toolchain` gives.
    timeout
        Seconds a single compiler process may take; default 120, or ``SYMGRAD_CC_TIMEOUT``.
    folder
        The cache folder to work in; it must be on the disk of ``output``. By default ``output``'s own folder.
    objects
        Object code of units compiled before, which is used again; that of new ones is added.

    Raises
    ------
    CompilerError
        If there is no compiler or it fails, is killed, takes too long, or makes something unloadable.
    OSError
        If a source file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     if find_toolchain() is not None:
    ...         compile_shared("int one(void) { return 1; }", pathlib.Path(folder) / "one.so")
    """
    toolchain = require_toolchain() if toolchain is None else toolchain
    units = [source] if isinstance(source, str) else list(source)
    tiers = [tier] * len(units) if isinstance(tier, str) else list(tier)
    flags = [(*toolchain.flags(t), *extra_flags) for t in tiers]
    limit = _timeout(timeout)
    with _work_folder(folder, output) as work:
        made = work / "out.so"
        names = _write_units(work, units)
        link_flags = tuple(flag for flag in flags[0] if flag not in _NEVER_LINKED)
        if len(names) > 1 or link_flags != flags[0] or objects is not None:
            names = _objects(toolchain, work, list(zip(names, units, flags, strict=True)), limit, objects)
        last = process.Job((*toolchain.command, *link_flags, "-shared", *names, "-o", made.name, *libs), work)
        process.run_jobs([last], limit, _ADVICE)
        reason = shared_object.why_not_loadable(made)
        if reason is not None:
            raise CompilerError(
                f"the C compiler reported success, but {reason}.\n"
                f"  command: {shlex.join(last.command)}\n  {_ADVICE}"
            )
        made.chmod(0o700)
        made.replace(output)


def _objects(
    toolchain: Toolchain, work: Path, units: Sequence[tuple[str, str, tuple[str, ...]]], limit: float,
    known: Objects | None,
) -> list[str]:
    """Compile units, given by file, text and flags, that are not known yet; return the object files of all."""
    names, jobs, made = [], [], []
    for file, text, flags in units:
        name = file.removesuffix(".c") + ".o"
        names.append(name)
        key = ((*toolchain.command, *flags), text)
        code = known.get(key) if known is not None else None
        if code is not None:
            (work / name).write_bytes(code)
            continue
        jobs.append(process.Job((*toolchain.command, *flags, "-c", file, "-o", name), work))
        made.append((key, name))
    process.run_jobs(jobs, limit, _ADVICE)
    if known is not None:
        known.update((key, (work / name).read_bytes()) for key, name in made)
    return names


def _work_folder(folder: Path | None, output: Path) -> AbstractContextManager[Path]:
    if folder is not None:
        return cache_folder.temporary_subfolder(folder)
    return cache_folder.temporary_folder(output.parent)


def _write_units(work: Path, units: list[str]) -> list[str]:
    if not units:
        raise CompilerError("no source to compile")
    names = [f"unit{index}.c" for index in range(len(units))]
    for name, text in zip(names, units, strict=True):
        (work / name).write_text(text, encoding="utf-8")
    return names
