"""Pausing Python's cyclic garbage collector where many objects are made that all live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
