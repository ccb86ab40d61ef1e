"""When generated code is made anew after the function has taken further paths."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PROMPT: Final = 8
"""So often code is made anew at once,"""

PROMPT_SECONDS: Final = 3.0
"""and more often as long as it took no longer than this altogether."""

QUIET: Final = 16
"""After so many calls without a new path the function has probably shown them all;"""

QUIET_PART: Final = 0.02
"""such calls must have taken this part of the time that making code takes."""


class Upkeep:
    """Keeps the making of code within a constant factor of the time it saves.

    Code that lacks the newest paths still answers for those it has. It is made anew at once a few times, and
    later when the calls on known paths that it could not answer have taken as long as making it did the last
    time, or a part of that without a new path.

    Attributes
    ----------
    times
        How often code was made.
    seconds
        How long it took the last time.
    """

    def __init__(self) -> None:
        self.times = 0
        self.seconds = 0.0
        self._total = 0.0
        self._spent = 0.0
        self._quiet = 0
        self._outdated = True

    def outdate(self) -> None:
        """The code lacks something from now on."""
        self._outdated = True
        self._quiet = 0

    def spent(self, seconds: float) -> None:
        """A call on a known path took so long because the code could not answer it."""
        self._spent += seconds
        self._quiet += 1

    def pays(self, estimate: float) -> bool:
        """Whether calls have taken as long as making code will, estimated before it was made for the first time."""
        return self._outdated and self._spent >= (self.seconds or estimate)

    @property
    def due(self) -> bool:
        """Whether to make code now."""
        prompt = self.times < PROMPT or self._total < PROMPT_SECONDS
        part = QUIET_PART if self._quiet > QUIET else 1.0
        return self._outdated and (prompt or self._spent >= part * self.seconds)

    def begin(self) -> None:
        """Code is made from now on."""
        self._outdated = False

    def made(self, seconds: float) -> None:
        """Code was made, which took so long."""
        self.times += 1
        self.seconds = seconds
        self._total += seconds
        self._spent = 0.0

    @contextmanager
    def making(self) -> Iterator[None]:
        """Code is made inside."""
        start = time.perf_counter()
        self.begin()
        try:
            yield
        except BaseException:
            self._outdated = True
            raise
        self.made(time.perf_counter() - start)
