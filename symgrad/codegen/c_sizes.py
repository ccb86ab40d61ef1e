"""Sizes of arrays as parameters of a kernel, so that the same source serves arrays of other sizes.

Whatever number in the source follows from a large size (how far a loop runs, strides, offsets, the number of
elements that a mean divides by) is read from an array that the kernel is given. The source together with the
contents of that array means exactly what it would mean with the numbers written into it; two sizes share
compiled code if, and only if, their sources come out the same.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..core.graph import SMALL
from ..lowering.program import Program
from . import c_text

#: Dimensions up to this are written into the source: the compiler does better when it knows short loops.
BAKED: Final = SMALL
#: At most so many numbers are parameters, any others are written into the source.
MOST: Final = 256
#: What derivatives of means and variances make of a number of elements: it is multiplied with or divides these.
_FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


class Sizes:
    """The numbers that a kernel is given.

    Attributes
    ----------
    array
        Their values, filled while the source is written; floats take the same eight bytes each.
    """

    def __init__(self, names: c_text.Names) -> None:
        self.array: np.ndarray[Any, Any] = np.zeros(MOST, np.int64)
        self._names = names
        self._known: dict[tuple[str, Any, int], str] = {}
        self._places: dict[str, tuple[int, str]] = {}
        self._integers: set[int] = set()
        self._numbers: set[float] = set()

    def know(self, program: Program) -> None:
        """Note the sizes of a program if any of its dimensions is large."""
        groups = (program.inputs, program.captures, program.constants, program.outputs, program.workspace)
        shapes = {buffer.shape for group in groups for buffer in group}
        large = {n for shape in shapes for n in shape if n > BAKED}
        if not large:
            return
        large |= {size for buffers in groups for size in (b.size for b in buffers) if size > BAKED}
        # One less is where an array ends, and what an unbiased variance divides by.
        new = (large | {n - 1 for n in large}) - self._integers
        self._integers |= new
        values = [value for n in new for f in _FACTORS for value in (f * n, f / n)]
        self._numbers.update(values, [float(np.float32(value)) for value in values])

    @property
    def known(self) -> bool:
        """Whether there is any large size."""
        return bool(self._integers)

    def integer(self, n: int, kind: str = "n", key: Any = None) -> str:
        """Source of a number that may follow from a size; equal ones of one kind and key share a parameter.

        Without a key all equal ones do: sizes that are equal are the same size. What a key names may still
        have several values, like where the second scratch array of each call is.
        """
        if -BAKED <= n <= BAKED or not self._integers:
            return str(n)
        return self._parameter(kind, n if key is None else key, np.int64(n)) or str(n)

    def follows(self, n: int) -> bool:
        """Whether an integer is a size of some array, or the last position in it."""
        return n in self._integers

    def number(self, value: float) -> str | None:
        """Source of the absolute value of a float that is made of a size; None for any other."""
        if abs(value) not in self._numbers:
            return None
        return self._parameter("c", abs(value), np.float64(abs(value)).view(np.int64))

    def _parameter(self, kind: str, key: Any, bits: np.int64) -> str | None:
        name = self._known.get((kind, key, int(bits)))
        if name is None and len(self._places) < MOST:
            place = len(self._places)
            name = self._known[kind, key, int(bits)] = self._names.fresh(f"{kind}{place}")
            self._places[name] = place, kind
            self.array[place] = bits
        return name

    def named(self, n: int) -> str:
        """How comments call a dimension."""
        return self._known.get(("n", n, n), "n") if n > BAKED and self._integers else str(n)

    def declaration(self, name: str) -> str:
        """The statement that reads a parameter."""
        place, kind = self._places[name]
        if kind == "c":
            return f"const double {name} = ((const double *)sizes)[{place}];"
        return f"const long {name} = (long)sizes[{place}];"

    def order(self, names: Any) -> list[str]:
        """Names of parameters as they lie in the array."""
        return sorted(names, key=self._places.__getitem__)

    def stored(self, text: str) -> str:
        """Source of a number where nothing was declared: a literal, or an element of the array."""
        return f"sizes[{self._places[text][0]}]" if text in self._places else text
