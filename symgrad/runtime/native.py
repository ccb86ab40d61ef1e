"""Kernels in memory, and the compiled call path that runs them.

A kernel is a C function ``int f(const void *const *in, void *const *out, void *workspace)``. A *dispatcher*
checks the arguments of a Python call, allocates the outputs, runs the kernel and hands back the results; what
it does not expect goes to a Python callable, the slow path.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from symgrad.codegen import cache, cache_folder
from symgrad.codegen.toolchain import compiler_stamp
from symgrad.errors import CompilerError
from symgrad.runtime import background, dispatch_python
from symgrad.runtime.specs import DispatcherLike, InputSpec, OutputSpec, Structure, Watch

_SOURCES: Final = ("dispatch_watch.c", "dispatch.c", "dispatch_types.c")
_MODULE: Final = "symgrad.runtime._dispatch"


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel that can be called.

    Attributes
    ----------
    address
        Where its code is.
    workspace_bytes
        How much scratch memory a call needs.
    keepalive
        What must stay alive as long as the address is used.
    """

    address: int
    workspace_bytes: int
    keepalive: object


def load_kernel(path: Path, symbol: str, sizes: np.ndarray[Any, Any] | None = None) -> LoadedKernel:
    """Load a kernel from a shared object.

    Parameters
    ----------
    path
        The shared object.
    symbol
        Name of the kernel; ``size_t <symbol>_workspace(const int64_t *sizes)`` must be there too and return
        the bytes of scratch memory.
    sizes
        What it is given.

    Raises
    ------
    CompilerError
        If the file cannot be loaded or lacks one of the two functions.

    Examples
    --------
    >>> load_kernel(Path("/nowhere/kernel.so"), "f")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    symgrad.errors.CompilerError: cannot load the kernel f: ...
    """
    try:
        library = ctypes.CDLL(str(path))
        kernel, size = library[symbol], library[f"{symbol}_workspace"]
    except (OSError, AttributeError) as error:
        raise CompilerError(f"cannot load the kernel {symbol}: {error}") from error
    size.restype, size.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    needed = size(None if sizes is None else sizes.ctypes.data)
    return LoadedKernel(address or 0, needed, library)


_lock = threading.RLock()
_native: types.ModuleType | None = None
_tried = False
_building: Future[Path] | None = None


def native_module() -> types.ModuleType | None:
    """Return the compiled call path, built at the first call; None, after one warning, where it cannot."""
    global _native, _tried, _building  # noqa: PLW0603 - built once for the process
    with _lock:
        if not _tried:
            try:
                if _building is not None:
                    _building.result()
                _native = _load(_extension(_source()))
            except (CompilerError, ImportError) as error:
                if not background.is_over():
                    cache_folder.warn_once(
                        "native call path",
                        f"the compiled call path cannot be built, each call takes microseconds more: {error}",
                    )
            finally:
                _building = None
            _tried = True
        return _native


def begin() -> None:
    """Start to build the compiled call path in the background, unless it is there or on disk.

    It takes longer than most kernels; until it is ready calls go through the one in Python.
    """
    global _building  # noqa: PLW0603 - as above
    with _lock:
        if _tried or _building is not None or why_not_native() is not None:
            return
        source = _source()
        try:
            kept = _kept_extension(source)[0]
        except CompilerError:
            return  # native_module() will say so
        if kept is None:
            _building = background.submit(partial(_extension, source))


def pending() -> bool:
    """Tell whether the compiled call path is being built."""
    return _building is not None and not _building.done()


def is_provisional(dispatcher: DispatcherLike) -> bool:
    """Tell whether a dispatcher is one in Python where a compiled one can be had, now or soon."""
    return isinstance(dispatcher, dispatch_python.Dispatcher) and (_building is not None or _native is not None)


def _available() -> Any:
    return dispatch_python if pending() else native_module() or dispatch_python


def reset() -> None:
    """Forget that the compiled call path was built or could not be built."""
    global _native, _tried, _building
    with _lock:
        _native, _tried, _building = None, False, None


def _source() -> str:
    reason = why_not_native()
    if reason is not None:
        raise CompilerError(reason)
    folder = Path(__file__).parent
    # One translation unit: each file continues the one before.
    return "".join((folder / name).read_text(encoding="utf-8") for name in _SOURCES)


def _load(path: Path) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, path, loader=loader)
    if spec is None:
        raise CompilerError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _kept_extension(source: str) -> tuple[Path | None, str]:
    """The compiled call path on disk, and under which name its key is noted: asking the compiler takes longer."""
    stamp = repr((compiler_stamp(), source, _extension_flags(), _extension_libs()))
    name = hashlib.sha256(stamp.encode()).hexdigest()
    kept = cache.default_cache()
    key = str((kept.noted(name) or {}).get("key"))
    return kept.lookup(key), name


def _extension(source: str) -> Path:
    path, name = _kept_extension(source)
    if path is None:
        flags, libs = _extension_flags(), _extension_libs()
        kept = cache.default_cache()
        path = kept.get_or_build(source, "portable", flags, libs)
        kept.note(name, {"key": kept.key(source, "portable", flags, libs)})
    return path


def why_not_native() -> str | None:
    """Return why this Python cannot have the compiled call path, or None if only the compiler decides."""
    if sys.implementation.name != "cpython":
        return f"it needs CPython, not {sys.implementation.name}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it relies on the GIL, which this Python was built without"
    header = Path(_python_include()) / "Python.h"
    if not header.exists():
        return f"Python's C headers are missing ({header}); a package python3-dev or python3-devel has them"
    return None


def _python_include() -> str:
    return sysconfig.get_paths()["include"]


def _extension_flags() -> tuple[str, ...]:
    # Versions stand in the flags because headers of another version may lie in the same folder one day.
    abi = f"{sysconfig.get_config_var('SOABI')} {sys.hexversion:x} numpy {np.__version__}"
    includes = dict.fromkeys([_python_include(), sysconfig.get_paths()["platinclude"], np.get_include()])
    return ("-std=c11", f'-DSYMGRAD_ABI="{abi}"', *(f"-I{folder}" for folder in includes))


def _extension_libs() -> tuple[str, ...]:
    # The interpreter's functions are found when the module is loaded; only macOS must be told so.
    return ("-Wl,-undefined,dynamic_lookup",) if sys.platform == "darwin" else ()


def dispatcher_type() -> type[Any]:
    """Return the class of dispatchers: the compiled one, or the one in Python where that cannot be built."""
    dispatcher: type[Any] = _available().Dispatcher
    return dispatcher


def call_front_type(like: DispatcherLike | None = None) -> type[dispatch_python.CallFront]:
    """Return the class that puts several dispatchers behind one callable; made to be subclassed.

    Parameters
    ----------
    like
        A dispatcher that will be among them: a front and its dispatchers are all compiled, or all in Python.

    Notes
    -----
    ``CallFront(slow)`` offers ``install(dispatcher)``, ``remove(dispatcher)``, ``clear()``, ``entries`` (most
    recently used first), ``slow`` (may be set) and ``misses``. A call tries the entries in order; where none
    takes the arguments, ``slow(*args, **kwargs)`` answers; a failed guard goes to the slow path of its entry.
    In a class body it binds like a function.
    """
    if isinstance(like, dispatch_python.Dispatcher):
        return dispatch_python.CallFront
    front: type[dispatch_python.CallFront] = _available().CallFront
    return front


def make_dispatcher(
    kernel: LoadedKernel,
    inputs: Sequence[InputSpec],
    outputs: Sequence[OutputSpec],
    structure: Structure,
    slow: Callable[..., Any],
    *,
    hidden: Sequence[np.ndarray[Any, Any]] = (),
    watches: Sequence[Watch] = (),
    release_gil: bool = False,
    name: str = "kernel",
) -> DispatcherLike:
    """Return a callable that runs a kernel.

    Parameters
    ----------
    kernel
        What `load_kernel` gave. Its ``in`` lists the leaves of the arguments in order, then the hidden
        inputs; its ``out`` lists the outputs.
    inputs
        One spec an argument.
    outputs
        One spec an output.
    structure
        ``"single"``: the only output is returned as it is; ``"tuple"``: a flat tuple; nested tuples, lists
        and dicts of output numbers (and None): the same containers with the outputs in place; a callable gets
        the flat list of outputs and returns the result.
    slow
        Called with the arguments as they are if one does not fit its spec, if there are more, fewer or
        keyword arguments, if a watch fails, if a hidden input changed its layout, or if the kernel returns a
        positive code.
    hidden
        Arrays held by reference. Their data are read where they are at each call; shape, dtype and strides
        must stay as they were at construction.
    watches
        What must hold of captured Python objects, looked at before the arguments at each call; see
        `symgrad.runtime.specs.Item`. A call with the wrong number of arguments is not worth a look.
    release_gil
        Let other threads run meanwhile; worth it if the kernel takes more than about 5 µs.
    name
        For the repr.

    Returns
    -------
    DispatcherLike
        With counters ``hits`` and ``misses``, ``last_code`` (of the last failed guard), and ``slow``.

    Raises
    ------
    TypeError, ValueError
        If a spec makes no sense.
    """
    dispatcher: DispatcherLike = dispatcher_type()(
        kernel.address, kernel.workspace_bytes, tuple(inputs), tuple(hidden), tuple(outputs), structure, slow,
        watches=tuple(watches), release_gil=release_gil, keepalive=kernel.keepalive, name=name,
    )  # fmt: skip
    return dispatcher


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    global _lock, _building  # noqa: PLW0603 - a child needs its own
    _lock = threading.RLock()
    _building = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
