"""Where files may be kept between processes, and why a folder is not trusted.

Whatever lies in the folder is loaded as machine code, so nobody but its owner may be able to write there.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import shutil
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from symgrad.core.lazy import lazy_import
from symgrad.errors import CompilerWarning

platformdirs = lazy_import("platformdirs")

#: Environment variable that replaces the folder inside the user's cache directory.
CACHE_DIR_VARIABLE = "SYMGRAD_CACHE_DIR"

_FULL_OR_READ_ONLY = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}
)

_lock = threading.RLock()
_warned: set[str] = set()
_trusted: dict[Path, str | None] = {}
_private: dict[int, Path] = {}


def requested_folder() -> Path:
    """Return the folder the settings ask for, whether or not it can be used.

    Examples
    --------
    >>> requested_folder().is_absolute()
    True
    """
    value = os.environ.get(CACHE_DIR_VARIABLE)
    # resolve() would hide a symlink, which is one of the things to be refused.
    return Path(value).expanduser().absolute() if value else Path(platformdirs.user_cache_dir("symgrad"))


def usable_folder(wanted: Path | None = None) -> Path:
    """Return ``wanted`` if it is safe and writable, else a private folder that lives as long as the process.

    Parameters
    ----------
    wanted
        The folder to use; by default the one the settings ask for.

    Notes
    -----
    The first refusal of a folder issues one `CompilerWarning` with the reason.
    """
    wanted = requested_folder() if wanted is None else wanted.absolute()
    with _lock:
        # A verdict is kept while the process runs; only the cheap existence test is repeated.
        if wanted not in _trusted or (_trusted[wanted] is None and not wanted.is_dir()):
            _trusted[wanted] = reason_against(wanted)
        reason = _trusted[wanted]
        if reason is None:
            return wanted
        warn_once(
            f"refused {wanted}",
            f"compiled code cannot be kept in {wanted}: {reason}. "
            f"It is built anew in every process; set {CACHE_DIR_VARIABLE} to a folder of yours, mode 0700.",
        )
        return private_folder()


def distrust(wanted: Path, reason: str) -> None:
    """Stop using the folder ``wanted`` in this process, for example because its disk is full."""
    with _lock:
        _trusted[wanted.absolute()] = reason


def private_folder() -> Path:
    """Return a temporary folder of this very process (a forked child gets its own), removed at exit."""
    with _lock:
        pid = os.getpid()
        if pid not in _private or not _private[pid].is_dir():
            _private[pid] = Path(tempfile.mkdtemp(prefix="symgrad-"))
        return _private[pid]


def reason_against(folder: Path) -> str | None:
    """Create ``folder`` if need be and return why it must not be used, or None if it may.

    Parameters
    ----------
    folder
        An absolute path.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        reason = _ownership_problem(folder) or _ancestor_problem(folder)
        if reason is None:
            _try_writing(folder)
    except OSError as error:
        return cannot_be_written(error)
    return reason


def _ownership_problem(folder: Path) -> str | None:
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not is_own(status):
        return "it belongs to another user" if _foreign(status) else "others may write to it"
    return None


def _ancestor_problem(folder: Path) -> str | None:
    # Whoever may write to an ancestor can put another folder in place of ours, unless its sticky bit is set.
    for parent in folder.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"everybody may write to {parent}"
    return None


def _try_writing(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=".try-", dir=folder)
    try:
        # A full disk lets an empty file be created; only the bytes fail.
        os.write(handle, b"\0" * 4096)
    finally:
        os.close(handle)
        Path(name).unlink()


def _foreign(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and status.st_uid != os.geteuid()


def is_own(status: os.stat_result) -> bool:
    """Tell whether a file or folder is ours and only we may write to it."""
    return not _foreign(status) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def own_subfolder(folder: Path, name: str) -> Path:
    """Return ``folder/name``, created with mode 0700 if need be.

    Raises
    ------
    PermissionError
        If it exists and is a link, belongs to somebody else or is writable for others.
    """
    path = folder / name
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    reason = _ownership_problem(path)
    if reason is not None:
        raise PermissionError(errno.EACCES, reason, str(path))
    return path


@contextmanager
def temporary_subfolder(folder: Path) -> Iterator[Path]:
    """Give a fresh folder (mode 0700) on the disk of ``folder``, so that files can be renamed into it."""
    with temporary_folder(own_subfolder(folder, "tmp")) as made:
        yield made


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Give a fresh folder (mode 0700) and remove it afterwards.

    One of `tempfile.TemporaryDirectory` would also be removed by a child that was forked meanwhile.
    """
    made = Path(tempfile.mkdtemp(prefix="build-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def out_of_room(error: OSError) -> bool:
    """Tell whether ``error`` means that nothing can be written any more."""
    return error.errno in _FULL_OR_READ_ONLY


def cannot_be_written(error: Exception) -> str:
    """Word ``error`` as a reason against a folder."""
    return f"it cannot be written ({getattr(error, 'strerror', None) or 'no room'})"


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` so that readers see either the old file or the whole new one."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in ``path``; None if there is none, or it is damaged or not ours alone."""
    try:
        if not is_own(path.lstat()):
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def warn_once(subject: str, message: str) -> None:
    """Issue ``message`` as `CompilerWarning` unless ``subject`` was warned about in this process."""
    with _lock:
        if subject in _warned:
            return
        _warned.add(subject)
    warnings.warn(message, CompilerWarning, stacklevel=3)


def reset() -> None:
    """Forget verdicts and warnings, as in a fresh process."""
    with _lock:
        _trusted.clear()
        _warned.clear()


def _remove_private_folder() -> None:
    folder = _private.pop(os.getpid(), None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    global _lock  # noqa: PLW0603 - a child needs a lock of its own
    _lock = threading.RLock()


atexit.register(_remove_private_folder)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
