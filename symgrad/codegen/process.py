"""Running compiler processes: several at a time, with a deadline, without a shell, leaving none behind."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from symgrad.errors import CompilerError

_LONGEST_OUTPUT: Final = 4000
_NO_ROOM: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "File too large",
)


@dataclass(frozen=True, slots=True)
class Job:
    """A command and the folder it runs in."""

    command: tuple[str, ...]
    folder: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its exit code (None if killed here or never started) and what it printed."""

    job: Job
    code: int | None
    output: str
    trouble: str = ""

    @property
    def timed_out(self) -> bool:
        """Whether it was started and ended here, because it took too long."""
        return self.code is None and self.trouble.startswith("it did not end")

    @property
    def no_room(self) -> bool:
        """Whether it failed because nothing more can be written."""
        return self.code != 0 and any(text in self.output for text in _NO_ROOM)

    def error(self, what: str, advice: str) -> CompilerError:
        """Return the exception that reports the failure."""
        kind = NoRoomError if self.no_room else CompilerError
        return kind(self._describe(what, advice))

    def _describe(self, what: str, advice: str) -> str:
        reason = self.trouble or _how_it_ended(self.code)
        lines = [f"{what}: {reason}.", f"  command: {_trimmed(shlex.join(self.job.command), 1000)}"]
        if self.output.strip():
            plain = "".join(c if c.isprintable() or c == "\n" else " " for c in self.output)
            printed = (f"    {line}" for line in _trimmed(plain).splitlines())
            lines.append("  it printed:\n" + "\n".join(printed))
        return "\n".join([*lines, f"  {advice}"])


class NoRoomError(CompilerError):
    """The compiler could not write its output: disk full, quota used up, or read-only."""


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"it was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was killed by signal {-code}"
    return f"it ended with code {code}"


def _trimmed(text: str, longest: int = _LONGEST_OUTPUT) -> str:
    """Keep the head, where a compiler names the first and most telling error."""
    text = text.strip()
    if len(text) <= longest:
        return text
    return text[:longest] + f"\n… {len(text) - longest} more characters"


_NICE: Final = 10
_manner = threading.local()


def give_way() -> None:
    """Let commands that this thread starts run only when nobody else wants the processor."""
    _manner.gives_way = True


_alive: set[_Running] = set()
_ending = threading.Event()


def end_all() -> None:
    """End all commands that run, and let no other start: the program is over."""
    _ending.set()
    for running in list(_alive):
        running.kill()


def _after_fork() -> None:
    # What the parent runs is not the child's to end.
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Running:
    """A started process; its output goes to a file, so that it can never block on a full pipe."""

    def __init__(self, job: Job, timeout: float) -> None:
        self.job = job
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.trouble = ""
        self.output: IO[bytes] = tempfile.TemporaryFile(dir=_scratch(job.folder))  # noqa: SIM115 - closed with the job
        self.process: subprocess.Popen[bytes] | None = None
        if _ending.is_set():
            self.trouble = "it was not started because the program ends"
            return
        scratch = _scratch(job.folder) or tempfile.gettempdir()
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(scratch)}
        try:
            # Its own session, so that the passes a compiler driver starts can be ended with it.
            self.process = subprocess.Popen(
                job.command,
                cwd=job.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            _alive.add(self)
            if getattr(_manner, "gives_way", False):
                with suppress(OSError):  # it has ended already
                    os.setpriority(os.PRIO_PROCESS, self.process.pid, _NICE)
        except OSError as error:
            self.trouble = f"it could not be started ({error.strerror or error})"

    def wait(self) -> Outcome:
        code: int | None = None
        if self.process is not None:
            try:
                left = max(0.0, self.deadline - time.monotonic())
                _await_end(self.process, left)
                code = self.process.wait(max(0.0, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.trouble = f"it did not end within {self.timeout:g} s (SYMGRAD_CC_TIMEOUT sets the limit)"
                self.kill()
        self.output.seek(0)
        text = self.output.read(16 * _LONGEST_OUTPUT).decode("utf-8", "replace")
        return Outcome(self.job, code, text, self.trouble)

    def end(self) -> None:
        """Leave nothing behind, whether or not the process has ended."""
        self.kill()
        _alive.discard(self)
        self.output.close()

    def kill(self) -> None:
        """End the process and all that it has started."""
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _await_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Sleep until a process has ended: `Popen.wait` looks only every 50 ms, as long as a small build takes."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # an old system, or no descriptors left
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll(1000 * seconds)
    finally:
        os.close(descriptor)


def _scratch(folder: Path) -> Path | None:
    """The job's folder if it is a private one, else the system's choice."""
    return folder if folder.name.startswith("build-") else None


def run_one(job: Job, timeout: float) -> Outcome:
    """Run one command and return how it ended; never raises for what the command does."""
    running = _Running(job, timeout)
    try:
        return running.wait()
    finally:
        running.end()


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def run_jobs(jobs: Sequence[Job], timeout: float, advice: str) -> None:
    """Run the commands, as many at a time as there are processors.

    Raises
    ------
    NoRoomError
        If one fails for lack of room.
    CompilerError
        If one fails otherwise, is killed or takes longer than ``timeout`` seconds. The others are ended.
    """
    waiting = deque(jobs)
    running: deque[_Running] = deque()
    try:
        while waiting or running:
            while waiting and len(running) < processors():
                running.append(_Running(waiting.popleft(), timeout))
            oldest = running.popleft()
            try:
                outcome = oldest.wait()
            finally:
                oldest.end()
            if outcome.code != 0:
                raise outcome.error("the C compiler failed", advice)
    finally:
        for left in running:
            left.end()
