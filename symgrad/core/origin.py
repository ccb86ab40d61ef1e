"""Where an expression comes from in the user's source: kept beside the graph, never part of its identity."""

from __future__ import annotations

import linecache
import opcode
import os
import sys
from functools import lru_cache
from types import FrameType, TracebackType
from typing import NamedTuple

import numpy as np

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_SCIPY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(np.__file__))), "scipy") + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_RAISE = opcode.opmap["RAISE_VARARGS"]


class Origin(NamedTuple):
    """A line of the user's source.

    Attributes
    ----------
    filename
        File the line is in.
    lineno
        Line number, from 1.
    function
        Name of the function around it.
    derivative
        True for what a derivative of that line computes.
    """

    filename: str
    lineno: int
    function: str
    derivative: bool = False

    @property
    def text(self) -> str:
        """The source line, stripped; empty where the source is not available."""
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self) -> str:
        where = f"{self.filename}:{self.lineno} in {self.function}"
        return f"{where}: {self.text}" if self.text else where

    @property
    def short(self) -> str:
        """File name without its folder, and line; derivatives are marked by a ∂."""
        return f"{'∂ ' if self.derivative else ''}{os.path.basename(self.filename)}:{self.lineno}"


_user_files: dict[str, bool] = {}
_origins: dict[tuple[str, int], Origin] = {}


def _is_user_file(path: str) -> bool:
    foreign = path.startswith((_OWN, _NUMPY, _SCIPY, "<__array_function__")) or (
        path.startswith(_STANDARD) and "-packages" not in path
    )
    known = not foreign
    _user_files[path] = known
    return known


def user_origin(depth: int = 1) -> Origin | None:
    """Origin of the innermost frame that is neither symgrad's, NumPy's, SciPy's nor the standard library's."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        known = _user_files.get(path)
        if known is None:
            known = _is_user_file(path)
        if known:
            key = (path, frame.f_lineno)
            origin = _origins.get(key)
            if origin is None or origin.function != code.co_name:
                origin = _origins[key] = Origin(path, key[1], code.co_name)
            return origin
        frame = frame.f_back
    return None


def library_call(depth: int = 1) -> str:
    """The library function that the user's line called and that is still running; empty if there is none."""
    called = ""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        path = frame.f_code.co_filename
        if _user_files.get(path) or (path not in _user_files and _is_user_file(path)):
            return called
        # Names of wrappers and of private modules say nothing to the user.
        name = frame.f_code.co_qualname
        if not path.startswith((_OWN, "<")) and "<" not in name and not name.startswith("_"):
            module = str(frame.f_globals.get("__name__", ""))
            called = ".".join([*[p for p in module.split(".") if not p.startswith("_")], name])
        frame = frame.f_back
    return ""


def raised_at(traceback: TracebackType | None) -> Origin | None:
    """Origin of the innermost line of the user's in a traceback."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _user_files.get(code.co_filename) or _is_user_file(code.co_filename):
            found = Origin(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return found


def raises_itself(traceback: TracebackType | None) -> bool:
    """Whether an exception comes from a raise statement of the user's, not from a call that failed."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    code = traceback.tb_frame.f_code
    is_users = _user_files.get(code.co_filename) or _is_user_file(code.co_filename)
    return is_users and code.co_code[traceback.tb_lasti] == _RAISE


@lru_cache(maxsize=4096)
def derivative_origin(origin: Origin | None) -> Origin | None:
    """The origin of what is computed for the derivative of a line."""
    return origin if origin is None or origin.derivative else origin._replace(derivative=True)
