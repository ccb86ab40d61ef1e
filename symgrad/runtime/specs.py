"""What a dispatcher checks and returns; the same tuples for the native one and for the one in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

InputKind: TypeAlias = Literal[
    "array", "scalar", "float", "int", "bool", "complex", "static", "tuple", "list", "dict"
]
OutputKind: TypeAlias = Literal["array", "scalar", "pyfloat", "pyint", "pybool", "pycomplex"]
#: How outputs are handed back: alone, as a tuple, in nested containers of output numbers, or by a function.
Structure: TypeAlias = (
    Literal["single", "tuple"]
    | tuple[Any, ...]
    | list[Any]
    | dict[Any, Any]
    | int
    | Callable[[list[Any]], Any]
    | None
)


class InputSpec(NamedTuple):
    """What one argument must be for the kernel to be called.

    Attributes
    ----------
    kind
        - ``"array"``: exactly a `numpy.ndarray` of this dtype and shape, C-contiguous, aligned, in native
          byte order. With shape ``()`` also the NumPy scalar of that dtype, such as `numpy.float64`.
        - ``"scalar"``: only that NumPy scalar.
        - ``"float"``, ``"int"``, ``"bool"``, ``"complex"``: exactly that Python type, so `numpy.float64` is
          no ``"float"``. The kernel finds a double, an int64 (larger integers do not fit), a byte 0 or 1, or
          two doubles.
        - ``"static"``: the very object ``value``, or an equal ``int`` or ``str``. The kernel does not see it.
        - ``"tuple"``, ``"list"``, ``"dict"``: exactly that type holding ``items``, which are what the kernel
          sees, in order.
    dtype, shape
        Of an array or NumPy scalar.
    value
        Of a static argument; for a dict the tuple of its keys (str or int), in the order of ``items``.
    items
        The specs of a container's items.
    """

    kind: InputKind
    dtype: Any = None
    shape: tuple[int, ...] = ()
    value: Any = None
    items: tuple[InputSpec, ...] = ()


class OutputSpec(NamedTuple):
    """One output of the kernel.

    Attributes
    ----------
    kind
        ``"array"``: a new array, which the kernel fills. ``"scalar"``: a NumPy scalar of ``dtype``.
        ``"pyfloat"``, ``"pyint"``, ``"pybool"``, ``"pycomplex"``: a Python number; the kernel writes a
        double, an int64, a byte or two doubles.
    dtype, shape
        Of an array or NumPy scalar.
    """

    kind: OutputKind
    dtype: Any = None
    shape: tuple[int, ...] = ()


class DispatcherLike(Protocol):
    """One kernel for one signature, see `symgrad.runtime.native.make_dispatcher`."""

    @property
    def hits(self) -> int:
        """Calls that the kernel answered."""

    @property
    def misses(self) -> int:
        """Calls of this object that went to the slow path."""

    @property
    def last_code(self) -> int:
        """What the kernel answered when a guard last failed; 0 before."""

    @property
    def slow(self) -> Callable[..., Any] | None:
        """The slow path."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel, or the slow path if anything is unexpected."""


DEEPEST = 64  # nesting of arguments and results


def check_template(template: Any, outputs: int, depth: int = 0) -> None:
    """Raise unless ``template`` consists of output numbers, tuples, lists, dicts and None.

    Raises
    ------
    TypeError
        If it holds anything else, or is nested too deeply.
    ValueError
        If it names an output that does not exist.
    """
    if depth > DEEPEST:
        raise TypeError("results are nested too deeply")
    if template is None:
        return
    if type(template) is int:
        if not 0 <= template < outputs:
            raise ValueError(f"there is no output {template}")
        return
    if type(template) is dict:
        parts: Sequence[Any] = list(template.values())
    elif type(template) in (tuple, list):
        parts = template
    else:
        raise TypeError(f"a structure holds output numbers, tuple, list, dict and None, not {template!r}")
    for part in parts:
        check_template(part, outputs, depth + 1)


def fill_template(template: Any, outputs: Sequence[Any]) -> Any:
    """Return ``template`` with each number replaced by that output.

    Examples
    --------
    >>> fill_template((0, {"w": 1, "b": [2, None]}), ["x", "y", "z"])
    ('x', {'w': 'y', 'b': ['z', None]})
    """
    if type(template) is int:
        return outputs[template]
    if type(template) is dict:
        return {key: fill_template(part, outputs) for key, part in template.items()}
    if type(template) is tuple:
        return tuple(fill_template(part, outputs) for part in template)
    if type(template) is list:
        return [fill_template(part, outputs) for part in template]
    return None


def numeric_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of an argument or output.

    Raises
    ------
    TypeError
        If kernels cannot work on it: not a number, foreign byte order, or wider than 16 bytes.
    """
    checked: np.dtype[Any] = np.dtype(dtype)
    if checked.kind not in "biufc" or not checked.isnative or checked.itemsize > 16:
        raise TypeError(f"kernels take no arrays of dtype {checked!r}")
    return checked
