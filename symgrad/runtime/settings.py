"""Settings: defaults from the environment, changed for a while and for one thread by a context manager."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

Backend = Literal["auto", "numpy", "c"]
BACKENDS: tuple[str, ...] = get_args(Backend)
Policy = Literal["auto", "sync", "background", "never"]
POLICIES: tuple[str, ...] = get_args(Policy)


@dataclass(frozen=True)
class Settings:
    """What can be set.

    Attributes
    ----------
    backend
        Used by functions that were not given one: ``"auto"``, ``"numpy"`` or ``"c"``.
    max_paths
        How many paths through its branches a function may have; beyond, unknown ones are traced each time.
    max_operations
        How many operations all its paths together may have.
    compile
        Who waits for C code under ``backend="auto"``: the call that needs it (``"sync"``), nobody, as NumPy
        answers until it is there (``"background"``), or nobody ever, as only code compiled earlier is used
        (``"never"``). With ``"auto"`` calls wait for code of up to 2,000 operations.
    """

    backend: Backend = "auto"
    max_paths: int = 64
    max_operations: int = 100_000
    compile: Policy = "auto"


def check_backend(name: str) -> Backend:
    """Accept the name of a backend.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    return _one_of("backend", BACKENDS, name)  # type: ignore[return-value]  # checked there


def check_policy(name: str) -> Policy:
    """Accept the name of a way to compile.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    return _one_of("compile", POLICIES, name)  # type: ignore[return-value]  # checked there


def _one_of(setting: str, allowed: tuple[str, ...], name: str) -> str:
    if name not in allowed:
        raise ValueError(f"{setting} must be one of {', '.join(allowed)}, not {name!r}")
    return name


_overrides: ContextVar[Settings | None] = ContextVar("symgrad settings", default=None)


def current() -> Settings:
    """The settings in force here."""
    chosen = _overrides.get()
    if chosen is not None:
        return chosen
    return Settings(
        backend=check_backend(os.environ.get("SYMGRAD_BACKEND", "auto")),
        compile=check_policy(os.environ.get("SYMGRAD_COMPILE", "auto")),
    )


@contextmanager
def config(**changes: Any) -> Iterator[Settings]:
    """Change settings inside a ``with`` block, for this thread.

    Parameters
    ----------
    **changes
        ``backend="auto" | "numpy" | "c"``, ``compile="auto" | "sync" | "background" | "never"``, ``max_paths``
        and ``max_operations``.

    Raises
    ------
    TypeError
        If there is no such setting.
    ValueError
        If the value is not one of those allowed.

    Examples
    --------
    >>> import symgrad as sg
    >>> with sg.config(backend="numpy"):
    ...     sg.grad(lambda x: x**3)(2.0)
    12.0
    """
    known = {f.name for f in fields(Settings)}
    for name in changes:
        if name not in known:
            raise TypeError(f"there is no setting {name!r}; the settings are {', '.join(sorted(known))}")
    if "backend" in changes:
        check_backend(changes["backend"])
    if "compile" in changes:
        check_policy(changes["compile"])
    made = replace(current(), **changes)
    token = _overrides.set(made)
    try:
        yield made
    finally:
        _overrides.reset(token)
