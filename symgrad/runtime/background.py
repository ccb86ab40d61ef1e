"""One thread that makes code while the program goes on."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from ..core.lazy import lazy_import

process: Any = lazy_import("symgrad.codegen.process")

#: How long the end of the program waits for a job, after the compilers that it runs were ended.
_LAST_SECONDS: Final = 1.0

Job = Callable[[], Any]


class Worker:
    """Runs jobs one after the other in a thread, which is started by the first one."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Job] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, job: Job) -> Future[Any]:
        """Have a job run; what it returns or raises is found in the future."""
        future: Future[Any] = Future()
        self._jobs.put((future, job))
        with self._lock:
            if self._thread is None:
                # The program does not wait for it at its end: compilers may take long.
                self._thread = threading.Thread(target=self._run, name="symgrad compile", daemon=True)
                self._thread.start()
        return future

    def stop(self) -> None:
        """End the running job and forget the others."""
        with self._lock:
            thread = self._thread
        if thread is None:
            return
        while not self._jobs.empty():
            taken = self._jobs.get()
            if taken is not None:
                taken[0].cancel()
        self._jobs.put(None)
        process.end_all()
        thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        process.give_way()
        while (taken := self._jobs.get()) is not None:
            future, job = taken
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - whoever waits for the future raises it
                future.set_exception(error)
            else:
                future.set_result(result)
            del taken, future, job  # while waiting nothing is kept alive


_worker = Worker()


def submit(job: Job) -> Future[Any]:
    """Have a job run beside the program, after those submitted before."""
    return _worker.submit(job)


_over = threading.Event()


def is_over() -> bool:
    """Tell whether the program ends: compilers were ended with it, which is no fault of theirs."""
    return _over.is_set()


def _stop() -> None:
    _over.set()
    _worker.stop()


def _after_fork() -> None:
    # The thread does not exist in the child.
    global _worker  # noqa: PLW0603 - a child needs a worker of its own
    _worker = Worker()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
