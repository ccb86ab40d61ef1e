"""The garbage collector is on again when the last pause has ended, whoever ends it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from symgrad.core.collector import paused_collector


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_pauses_in_pauses() -> None:
    with paused_collector():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(KeyError), paused_collector():
        raise KeyError
    assert gc.isenabled()


def test_pauses_of_two_threads_that_overlap() -> None:
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        with paused_collector():
            begun.set()
            over.wait(30)

    thread = threading.Thread(target=work)
    with paused_collector():
        thread.start()
        assert begun.wait(30)
    assert not gc.isenabled()  # the other one goes on
    over.set()
    thread.join(30)
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_in_a_pause_collects() -> None:
    with paused_collector():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled()
