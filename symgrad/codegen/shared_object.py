"""Telling a usable shared object from a truncated, foreign or meaningless file, before it is used."""

from __future__ import annotations

import _ctypes
import ctypes
import struct
from pathlib import Path
from typing import Final

_ELF: Final = b"\x7fELF"
_MACH: Final = (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


def why_not_loadable(path: Path) -> str | None:
    """Return why the file cannot be loaded as a shared object, or None if it can.

    Parameters
    ----------
    path
        The file. It is loaded and released again.

    Examples
    --------
    >>> why_not_loadable(Path("/nowhere/nothing.so"))
    'there is no output file'
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "there is no output file"
    if not data.startswith((_ELF, *_MACH)):
        return "its output is no shared object"
    # The loader maps what the headers promise: touching what a truncated file lacks kills the process.
    if data.startswith(_ELF) and _elf_end(data) > len(data):
        return "its output is truncated"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"its output cannot be loaded ({error})"
    _ctypes.dlclose(library._handle)
    return None


def _elf_end(data: bytes) -> int:
    """Return where the section headers, which linkers write last, and all loaded segments end."""
    if len(data) < 64:
        return 64
    order = "<" if data[5] == 1 else ">"
    if data[4] == 2:
        program, sections = struct.unpack_from(order + "QQ", data, 32)
        p_size, p_count, s_size, s_count = struct.unpack_from(order + "HHHH", data, 54)
        offset_at, size_at, word = 8, 32, "Q"
    else:
        program, sections = struct.unpack_from(order + "II", data, 28)
        p_size, p_count, s_size, s_count = struct.unpack_from(order + "HHHH", data, 42)
        offset_at, size_at, word = 4, 16, "I"
    end: int = max(sections + s_size * s_count, program + p_size * p_count)
    if end > len(data):
        return end
    for index in range(p_count):
        start = program + index * p_size
        (offset,) = struct.unpack_from(order + word, data, start + offset_at)
        (size,) = struct.unpack_from(order + word, data, start + size_at)
        end = max(end, offset + size)
    return end
