"""The call path in Python, where dispatch.c cannot be built: same objects, same answers, slower."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from symgrad.runtime import specs, watch_python
from symgrad.runtime.specs import DispatcherLike, InputSpec, OutputSpec, Structure, Watch

_PYTHON_INPUTS: dict[str, tuple[type, Any]] = {
    "float": (float, np.float64),
    "int": (int, np.int64),
    "bool": (bool, np.uint8),
    "complex": (complex, np.complex128),
}
_PYTHON_OUTPUTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "pyfloat": (float, np.float64),
    "pyint": (int, np.int64),
    "pybool": (bool, np.uint8),
    "pycomplex": (complex, np.complex128),
}
_CONTAINERS: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict}
_CACHE_LINE = 64


class _NoMatch(Exception):
    """An argument, or what a watch looks at, is not what the kernel was made for."""


class Dispatcher:
    """One kernel, called after the arguments were checked; anything unexpected goes to the slow path."""

    def __init__(
        self,
        kernel: int,
        workspace_bytes: int,
        inputs: tuple[InputSpec, ...],
        hidden: tuple[np.ndarray[Any, Any], ...],
        outputs: tuple[OutputSpec, ...],
        structure: Structure,
        slow: Callable[..., Any],
        *,
        watches: Sequence[Watch] = (),
        release_gil: bool = False,
        keepalive: object = None,
        name: str = "kernel",
    ) -> None:
        if not kernel or workspace_bytes < 0 or not callable(slow):
            raise ValueError("a dispatcher needs a kernel, a workspace size >= 0 and a callable slow")
        prototype = (ctypes.CFUNCTYPE if release_gil else ctypes.PYFUNCTYPE)(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
        )
        self._kernel = prototype(kernel)
        self._workspace_bytes = workspace_bytes
        self._inputs = tuple(_checked_input(InputSpec(*spec)) for spec in inputs)
        self._outputs = tuple(_checked_output(OutputSpec(*spec)) for spec in outputs)
        self._hidden = [(array, _layout(array)) for array in hidden]
        self._structure = _checked_structure(structure, len(outputs))
        self._watches = tuple(map(watch_python.condition, watches))
        self._keepalive = keepalive
        self._name = name
        self._slow = slow
        self.hits = 0
        self.misses = 0
        self.last_code = 0

    @property
    def slow(self) -> Callable[..., Any]:
        """The slow path."""
        return self._slow

    def __repr__(self) -> str:
        return f"<Dispatcher {self._name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel, or the slow path if anything is unexpected."""
        try:
            code, result = self._try(args, kwargs)
        except _NoMatch:
            code = 1
        if code == 0:
            return result
        self.misses += 1
        return self._slow(*args, **kwargs)

    def _try(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Any]:
        """Return the kernel's code and, if it is 0, the result."""
        if kwargs or len(args) != len(self._inputs):
            raise _NoMatch
        if not all(holds() for holds in self._watches):
            raise _NoMatch
        arrays = [array for spec, arg in zip(self._inputs, args, strict=True) for array in _match(spec, arg)]
        for array, layout in self._hidden:
            if _layout(array) != layout:
                raise _NoMatch
            arrays.append(array)
        made = [_allocate(spec) for spec in self._outputs]
        workspace = None
        if self._workspace_bytes:
            room = np.empty(self._workspace_bytes + _CACHE_LINE, np.uint8)
            workspace = -(-_address(room) // _CACHE_LINE) * _CACHE_LINE
        code = self._kernel(_pointers(arrays), _pointers(made), workspace)
        if code != 0:
            self.last_code = code
            return code, None
        self.hits += 1
        flat = [_finished(spec, array) for spec, array in zip(self._outputs, made, strict=True)]
        return 0, self._build(flat)

    def _build(self, flat: list[Any]) -> Any:
        if self._structure == "single":
            return flat[0]
        if self._structure == "tuple":
            return tuple(flat)
        if callable(self._structure):
            return self._structure(flat)
        return specs.fill_template(self._structure, flat)


class CallFront:
    """Several dispatchers behind one callable; if none takes the arguments, the slow path is called."""

    def __init__(self, slow: Callable[..., Any]) -> None:
        self.slow = slow
        self.misses = 0

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._entries = []
        return self

    _entries: list[Dispatcher]

    @property
    def slow(self) -> Callable[..., Any]:
        """What is called if no dispatcher takes the arguments."""
        return self._slow

    @slow.setter
    def slow(self, slow: Callable[..., Any]) -> None:
        if not callable(slow):
            raise TypeError("slow must be callable")
        self._slow = slow

    @property
    def entries(self) -> tuple[DispatcherLike, ...]:
        """The dispatchers, most recently used first."""
        return tuple(self._entries)

    def install(self, entry: DispatcherLike, /) -> None:
        """Put a dispatcher in front of the others."""
        if not isinstance(entry, Dispatcher):
            raise TypeError("only a Dispatcher can be installed")
        self._entries.insert(0, entry)

    def remove(self, entry: DispatcherLike, /) -> None:
        """Take a dispatcher out."""
        for index, installed in enumerate(self._entries):
            if installed is entry:
                del self._entries[index]
                return
        raise ValueError("this dispatcher is not installed")

    def clear(self) -> None:
        """Take all dispatchers out."""
        self._entries.clear()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the first kernel that takes the arguments, or a slow path."""
        for entry in tuple(self._entries):
            try:
                code, result = entry._try(args, kwargs)
            except _NoMatch:
                continue
            if self._entries and self._entries[0] is not entry and entry in self._entries:
                self._entries.remove(entry)
                self._entries.insert(0, entry)
            if code == 0:
                return result
            entry.misses += 1
            self.misses += 1
            return entry.slow(*args, **kwargs)
        self.misses += 1
        return self.slow(*args, **kwargs)


def _match(spec: InputSpec, value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays the kernel sees of one argument; raise `_NoMatch` if it does not fit."""
    if spec.kind in _CONTAINERS:
        container: Any = value
        if type(value) is not _CONTAINERS[spec.kind] or len(container) != len(spec.items):
            raise _NoMatch
        if spec.kind == "dict" and not all(key in container for key in spec.value):
            raise _NoMatch
        items = [container[key] for key in spec.value] if spec.kind == "dict" else container
        for item_spec, item in zip(spec.items, items, strict=True):
            yield from _match(item_spec, item)
    elif spec.kind == "static":
        comparable = type(value) is type(spec.value) and type(value) in (int, str)
        if value is not spec.value and not (comparable and value == spec.value):
            raise _NoMatch
    elif spec.kind in _PYTHON_INPUTS:
        python_type, dtype = _PYTHON_INPUTS[spec.kind]
        number: Any = value
        if type(value) is not python_type or (python_type is int and not -(2**63) <= number < 2**63):
            raise _NoMatch
        yield np.array(number, dtype)
    else:
        yield _match_numpy(spec, value)


def _match_numpy(spec: InputSpec, value: Any) -> np.ndarray[Any, Any]:
    if spec.kind == "scalar":
        if type(value) is not spec.dtype.type:
            raise _NoMatch
        return np.asarray(value)
    if (
        type(value) is not np.ndarray
        or value.shape != spec.shape
        or value.dtype != spec.dtype
        or not (value.flags.c_contiguous and value.flags.aligned)
    ):
        raise _NoMatch
    return value


def _allocate(spec: OutputSpec) -> np.ndarray[Any, Any]:
    if spec.kind == "array":
        return np.empty(spec.shape, spec.dtype)
    return np.empty((), _PYTHON_OUTPUTS[spec.kind][1] if spec.kind in _PYTHON_OUTPUTS else spec.dtype)


def _finished(spec: OutputSpec, array: np.ndarray[Any, Any]) -> Any:
    if spec.kind == "array":
        return array
    return _PYTHON_OUTPUTS[spec.kind][0](array[()]) if spec.kind in _PYTHON_OUTPUTS else array[()]


def _address(array: np.ndarray[Any, Any]) -> int:
    # Cheaper than array.ctypes.data, which makes an object first.
    address: int = array.__array_interface__["data"][0]
    return address


def _pointers(arrays: list[np.ndarray[Any, Any]]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*map(_address, arrays))


def _layout(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    if not isinstance(array, np.ndarray):
        raise TypeError("hidden inputs are arrays")
    # The very dtype object counts, as in C: whoever sets another one must be noticed.
    return (id(array.dtype), array.shape, array.strides, array.flags.aligned)


def _checked_input(spec: InputSpec, depth: int = 0) -> InputSpec:
    if depth > specs.DEEPEST:
        raise TypeError("arguments are nested too deeply")
    if spec.kind in ("array", "scalar"):
        spec = spec._replace(dtype=specs.numeric_dtype(spec.dtype), shape=tuple(spec.shape))
    elif spec.kind not in (*_CONTAINERS, *_PYTHON_INPUTS, "static"):
        raise ValueError(f"unknown kind {spec.kind!r}")
    if spec.items and spec.kind not in _CONTAINERS:
        raise TypeError("only tuple, list and dict specs have items")
    if spec.kind == "dict":
        if type(spec.value) is not tuple or len(spec.value) != len(spec.items):
            raise TypeError("a dict spec needs a tuple with one key an item")
        if not all(type(key) in (str, int) for key in spec.value):
            raise TypeError("keys of a dict spec are strings or integers")
    return spec._replace(items=tuple(_checked_input(InputSpec(*item), depth + 1) for item in spec.items))


def _checked_output(spec: OutputSpec) -> OutputSpec:
    if spec.kind in ("array", "scalar"):
        return spec._replace(dtype=specs.numeric_dtype(spec.dtype), shape=tuple(spec.shape))
    if spec.kind not in _PYTHON_OUTPUTS:
        raise ValueError(f"unknown kind {spec.kind!r}")
    return spec


def _checked_structure(structure: Structure, outputs: int) -> Structure:
    if isinstance(structure, str):
        if structure not in ("single", "tuple"):
            raise ValueError(f"unknown structure {structure!r}")
        if structure == "single" and outputs != 1:
            raise ValueError("structure 'single' needs exactly one output")
    elif not callable(structure):
        specs.check_template(structure, outputs)
    return structure
