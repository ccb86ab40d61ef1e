"""Pausing Python's cyclic garbage collector where many objects are made that all live on."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """How many pauses there are at the moment, in all threads; the last one to end ends them all."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.count = 0
        self.was_enabled = False

    def begin(self) -> None:
        with self.lock:
            if self.count == 0:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self) -> None:
        with self.lock:
            # A fork inside a pause has ended it already.
            self.count = max(self.count - 1, 0)
            self._restore()

    def after_fork(self) -> None:
        # Threads that would end their pauses, or release the lock, do not exist in the child.
        self.lock = threading.RLock()
        self.count = 0
        self._restore()

    def _restore(self) -> None:
        if self.count == 0 and self.was_enabled:
            self.was_enabled = False
            gc.enable()


_pauses = _Pauses()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector: it would look at every node again and again, which is half of the time.

    Examples
    --------
    >>> import gc
    >>> with paused_collector():
    ...     gc.isenabled()
    False
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.after_fork)
