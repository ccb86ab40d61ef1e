"""What a dispatcher checks and returns; the same tuples for the native one and for the one in Python."""

from __future__ import annotations

import enum
import types
from collections import abc
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

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
          byte order.
        - ``"scalar"``: the NumPy scalar of that dtype, such as `numpy.float64`; arrays without axes are none.
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


class _Missing(enum.Enum):
    MISSING = "missing"


#: Expected by a watch where nothing may be: no such key, an empty cell, a slot without value.
MISSING: Final = _Missing.MISSING


class Item(NamedTuple):
    """A watch: what a dict holds for a key, such as a global name or an attribute.

    Like every watch it holds while it finds the *same* as expected: the identical object, or an ``int``,
    ``float``, ``bool``, ``complex``, ``str`` or ``bytes`` of exactly the same type and equal; floats to the
    bit, so ``0.0`` is not ``-0.0`` and NaN is NaN. No ``__eq__`` of a value is called. A watch looks at one
    level: the contents of a list in a dict take a second watch. It keeps strong references to what it looks
    at and to what it expects.

    Attributes
    ----------
    mapping
        A dict or an instance of a subclass, whose own methods, ``__missing__`` among them, are not called.
        ``vars(obj)`` watches an attribute of a module, an instance or (a mapping proxy) a class. An instance
        may be given another ``__dict__``; only a `Slot` watch with the getset descriptor of that name, which
        its class or a base class has, notices.
    key
        Any hashable object. ``__hash__`` and ``__eq__`` of a key are called if it has them written in Python,
        and their exceptions reach the caller.
    expected
        What must be there, or `MISSING`.
    """

    mapping: dict[Any, Any] | types.MappingProxyType[Any, Any]
    key: Any
    expected: Any


class Cell(NamedTuple):
    """A watch: what a closure cell holds; see `Item`.

    Attributes
    ----------
    cell
        An item of ``function.__closure__``.
    expected
        What must be in it, or `MISSING`.
    """

    cell: types.CellType
    expected: Any


class Sequence(NamedTuple):
    """A watch: the length and all items of a list or tuple; see `Item`.

    Attributes
    ----------
    sequence
        A list or tuple, or an instance of a subclass, whose own methods are not called.
    items
        What it must hold.
    """

    sequence: list[Any] | tuple[Any, ...]
    items: tuple[Any, ...]


class Mapping(NamedTuple):
    """A watch: the keys, in any order, and all values of a dict; see `Item`.

    Attributes
    ----------
    mapping
        As for `Item`.
    keys, values
        What it must hold, and nothing else; all keys are different.
    """

    mapping: dict[Any, Any] | types.MappingProxyType[Any, Any]
    keys: tuple[Any, ...]
    values: tuple[Any, ...]


class Slot(NamedTuple):
    """A watch: what a descriptor written in C reads from an object; see `Item`.

    Attributes
    ----------
    obj
        The object. If its class changes so that the descriptor does not apply any more, the watch fails.
    descriptor
        A member descriptor, which a class with ``__slots__`` has under the slot's name, or a getset
        descriptor such as ``types.FunctionType.__dict__["__code__"]``.
    expected
        What it must give, or `MISSING` if it must raise AttributeError.
    """

    obj: Any
    descriptor: types.MemberDescriptorType | types.GetSetDescriptorType
    expected: Any


Watch: TypeAlias = Item | Cell | Sequence | Mapping | Slot


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
        parts: abc.Sequence[Any] = list(template.values())
    elif type(template) in (tuple, list):
        parts = template
    else:
        raise TypeError(f"a structure holds output numbers, tuple, list, dict and None, not {template!r}")
    for part in parts:
        check_template(part, outputs, depth + 1)


def fill_template(template: Any, outputs: abc.Sequence[Any]) -> Any:
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
