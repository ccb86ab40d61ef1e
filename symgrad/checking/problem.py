"""The function to check, as a function of its floating-point leaves, and the lines through its arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.pytree import flatten, leaf_names, unflatten
from ..errors import DtypeError, ShapeError
from .line import Floats, Line, random_weights

Function = Callable[..., Any]
Tangent = Callable[[Floats], Floats]
Evaluate = Callable[[Sequence[Any]], Floats]

_SEED = 20240229


def cotangents(outputs: Any) -> Any:
    """Fixed weights for every output, in the structure of the outputs.

    A function with several outputs is checked through their weighted sum. A single scalar has weight 1;
    outputs that are no floating-point numbers have weight 0.

    Examples
    --------
    >>> cotangents(3.5)
    1.0
    >>> weights = cotangents({"a": [1.0, 2.0]})
    >>> [0.5 <= abs(w) <= 1.5 for w in weights["a"]]
    [True, True]
    """
    leaves, structure = flatten(outputs)
    if len(leaves) == 1 and np.ndim(leaves[0]) == 0 and is_float(leaves[0]):
        return unflatten(structure, [_like(leaves[0], np.ones(()))])
    rng = np.random.default_rng(_SEED)
    weights = [_like(leaf, random_weights(rng, np.shape(leaf)) * is_float(leaf)) for leaf in leaves]
    return unflatten(structure, weights)


def _like(leaf: Any, values: Floats) -> Any:
    """Values of the dtype of a leaf where that is floating point, a Python number for a Python number."""
    dtype = np.asarray(leaf).dtype
    if is_python(leaf):
        return float(values)
    return np.asarray(values, dtype=dtype if dtype.kind == "f" else np.float64)[()]


def is_float(leaf: Any) -> bool:
    """Whether derivatives with respect to this leaf are checked."""
    return np.asarray(leaf).dtype.kind == "f"


def is_python(leaf: Any) -> bool:
    """Whether a leaf is a Python number and not one of NumPy's."""
    return isinstance(leaf, float) and not isinstance(leaf, np.generic)


def symmetric(perturbation: Floats) -> Floats:
    """Project a perturbation onto symmetric matrices; stacks of matrices are projected one by one.

    Examples
    --------
    >>> symmetric(np.array([[0.0, 1.0], [0.0, 0.0]]))
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    return np.asarray((perturbation + np.swapaxes(perturbation, -1, -2)) / 2)


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: points off the domain are visited on purpose."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Problem:
    """A function of its floating-point leaves.

    Parameters
    ----------
    value
        The function.
    args
        Its arguments.
    names
        One name for each floating-point leaf; by default ``args[0]`` and so on.
    argnums
        Positional arguments that are checked; by default all.
    tangents
        For each floating-point leaf None, or how a perturbation is projected onto the allowed ones.

    Attributes
    ----------
    given
        The leaves as given.
    leaves
        The same as float64, if the function takes that.
    dtypes
        Their original dtypes.
    """

    def __init__(
        self,
        value: Function,
        args: Sequence[Any],
        names: Sequence[str] | None = None,
        argnums: Sequence[int] | None = None,
        tangents: Sequence[Tangent | None] | None = None,
    ) -> None:
        self._value = value
        self._all, self._structure = flatten(tuple(args))
        self._places = _places(args, argnums)
        self.given = given = [self._all[k] for k in self._places]
        own = leaf_names(tuple(args), "args")
        self.names = list(names) if names is not None else [own[k] for k in self._places]
        self.tangents: list[Tangent | None] = [None] * len(given) if tangents is None else list(tangents)
        for what, entries in (("names", self.names), ("tangents", self.tangents)):
            if len(entries) != len(given):
                raise ShapeError(f"{len(entries)} {what} were given for {len(given)} floating-point leaves")
        if not given:
            raise DtypeError("there is no floating-point argument whose derivative could be checked")
        self.dtypes = [np.asarray(leaf).dtype for leaf in given]
        self.leaves, self.lifted = self._lift(given)
        outputs = self.call(value, self.leaves)
        self.weights = flatten(cotangents(outputs))[0]
        self.eps = _eps(outputs)

    def _lift(self, given: list[Any]) -> tuple[list[Any], bool]:
        """Leaves in float64, if the function takes them and gives the same."""
        if all(dtype == np.float64 for dtype in self.dtypes):
            return given, False
        wide = [_widened(leaf) for leaf in given]
        exact = self.call(self._value, given)
        try:
            with quietly():
                tried = self.call(self._value, wide)
        except (TypeError, ValueError):
            return given, False  # the function insists on its dtypes
        return (wide, True) if _similar(exact, tried) else (given, False)

    def call(self, function: Function, leaves: Sequence[Any]) -> Any:
        full = list(self._all)
        for k, leaf in zip(self._places, leaves, strict=True):
            full[k] = leaf
        return function(*unflatten(self._structure, full))

    # ---------------------------------------------------------------- values

    def value(self, leaves: Sequence[Any]) -> Floats:
        """The weighted sum of the outputs, as an array of one number; NaN off the domain."""
        try:
            outputs = flatten(self.call(self._value, leaves))[0]
        except (ArithmeticError, ValueError):
            # math.log(-1.0) and np.linalg.cholesky of an indefinite matrix raise where ufuncs give NaN.
            return np.full(1, np.nan)
        if len(outputs) != len(self.weights):
            return np.full(1, np.nan)
        total = 0.0
        for weight, out in zip(self.weights, outputs, strict=True):
            if np.any(weight):
                total = total + float(np.sum(np.multiply(weight, out, dtype=np.float64)))
        return np.full(1, total)

    def complex_step(self, direction: Floats) -> float:
        """Derivative along a direction from one evaluation at a complex point.

        Raises
        ------
        DtypeError
            If the function does not take complex numbers.
        """
        step = 2.0**-200
        parts = self.split(direction)
        moved = {k: np.asarray(leaf) + 1j * step * parts[k] for k, leaf in enumerate(self.leaves)}
        try:
            with quietly():
                outputs = flatten(self.call(self._value, self._replace(moved)))[0]
        except (TypeError, ValueError) as error:
            raise DtypeError(
                f"the function does not take complex numbers: {error}\n  Check it with method=\"auto\"."
            ) from error
        pairs = zip(self.weights, outputs, strict=True)
        return float(sum(np.sum(np.asarray(w) * np.imag(out)) for w, out in pairs)) / step

    def gradient(self, reverse: Function, leaves: Sequence[Any]) -> Floats:
        """All entries of the gradient as one vector; NaN off the domain."""
        try:
            parts = self.call(reverse, leaves)
        except (ArithmeticError, ValueError):
            return np.full(self.size, np.nan)
        return self.vector(parts)

    def vector(self, parts: Sequence[Any]) -> Floats:
        """One entry a leaf as one vector; None stands for zeros."""
        if len(parts) != len(self.leaves):
            found, expected = len(parts), len(self.leaves)
            raise ShapeError(f"{found} derivatives were given for {expected} floating-point leaves")
        flat = []
        for part, leaf, name in zip(parts, self.leaves, self.names, strict=True):
            entry = np.zeros(np.shape(leaf)) if part is None else np.asarray(part, dtype=np.float64)
            if entry.shape != np.shape(leaf):
                shape = np.shape(leaf)
                raise ShapeError(f"the derivative for {name} has shape {entry.shape}, the argument {shape}")
            flat.append(entry.ravel())
        return np.concatenate(flat)

    # ---------------------------------------------------------------- coordinates

    @property
    def offsets(self) -> list[int]:
        """Where each leaf starts in the vector of all coordinates, and the total."""
        return [0, *np.cumsum([np.size(leaf) for leaf in self.leaves]).tolist()]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.offsets[-1]

    def place(self, coordinate: int) -> tuple[int, int]:
        """Leaf of a coordinate and flat position in it."""
        leaf = int(np.searchsorted(self.offsets, coordinate, side="right")) - 1
        return leaf, coordinate - self.offsets[leaf]

    def name(self, coordinate: int) -> str:
        """How a coordinate is written: ``params['w'][0, 2]``."""
        leaf, position = self.place(coordinate)
        shape = np.shape(self.leaves[leaf])
        if not shape:
            return self.names[leaf]
        return f"{self.names[leaf]}[{', '.join(str(int(k)) for k in np.unravel_index(position, shape))}]"

    def scales(self) -> Floats:
        """Size of every coordinate; that of its leaf, or 1, where it is zero."""
        parts = []
        for leaf in self.leaves:
            values = np.abs(np.asarray(leaf, dtype=np.float64)).ravel()
            parts.append(np.where(values > 0, values, _unit(values)))
        return np.concatenate(parts)

    def perturbation(self, coordinate: int) -> Floats | None:
        """The direction in its leaf along which a coordinate moves; None where that is the axis itself."""
        leaf, position = self.place(coordinate)
        project = self.tangents[leaf]
        if project is None:
            return None
        axis = np.zeros(np.size(self.leaves[leaf]))
        axis[position] = 1.0
        return self._project(leaf, axis.reshape(np.shape(self.leaves[leaf])))

    def _project(self, leaf: int, direction: Floats) -> Floats:
        project = self.tangents[leaf]
        return direction if project is None else np.asarray(project(direction), dtype=np.float64)

    def project(self, direction: Floats) -> Floats:
        """A vector of all coordinates with every leaf projected onto its allowed perturbations."""
        parts = enumerate(self.split(direction))
        return np.concatenate([self._project(k, part).ravel() for k, part in parts])

    def split(self, vector: Floats) -> list[Floats]:
        """A vector of all coordinates as one array a leaf."""
        starts = self.offsets
        return [
            vector[a:b].reshape(np.shape(leaf))
            for a, b, leaf in zip(starts, starts[1:], self.leaves, strict=False)
        ]

    def as_tangents(self, vector: Floats) -> list[Any]:
        """The same in the original dtypes of the leaves."""
        parts = self.split(vector)
        return [
            float(p) if is_python(leaf) else p.astype(dtype)[()]
            for p, dtype, leaf in zip(parts, self.dtypes, self.leaves, strict=True)
        ]

    # ---------------------------------------------------------------- lines

    def coordinate_line(self, coordinate: int, evaluate: Evaluate, eps: float) -> Line:
        """The line on which one coordinate moves."""
        leaf, position = self.place(coordinate)
        start = np.asarray(self.leaves[leaf])
        magnitudes = np.abs(start.astype(np.float64)).ravel()
        direction = self.perturbation(coordinate)

        def at(t: float) -> Floats:
            moved = start.copy()
            if direction is None:
                moved.reshape(-1)[position] += start.dtype.type(t)
            else:
                moved += (t * direction).astype(start.dtype)
            return evaluate(self._replace({leaf: moved}))

        return Line(at, float(magnitudes[position]), _unit(magnitudes), eps, start.dtype)

    def direction_line(self, direction: Floats, evaluate: Evaluate, eps: float) -> Line:
        """The line on which all coordinates move, in units of their sizes."""
        parts = self.split(direction)

        def at(t: float) -> Floats:
            moved = {}
            for k, (leaf, part) in enumerate(zip(self.leaves, parts, strict=True)):
                start = np.asarray(leaf)
                moved[k] = start + (t * part).astype(start.dtype)
            return evaluate(self._replace(moved))

        dtype = np.float64 if self.lifted or all(d == np.float64 for d in self.dtypes) else np.float32
        return Line(at, 1.0, max(self._reach(parts), 1.0), eps, dtype)

    def _reach(self, parts: Sequence[Floats]) -> float:
        """How far all coordinates can move and stay within their surroundings."""
        reach = np.inf
        for leaf, part in zip(self.leaves, parts, strict=True):
            fastest = float(np.max(np.abs(part), initial=0.0))
            if fastest > 0:
                reach = min(reach, _unit(np.abs(np.asarray(leaf, np.float64)).ravel()) / fastest)
        return reach

    def _replace(self, moved: dict[int, Any]) -> list[Any]:
        leaves = list(self.leaves)
        for k, value in moved.items():
            array = np.asarray(value)
            if is_python(leaves[k]):
                leaves[k] = complex(array) if array.dtype.kind == "c" else float(array)
            else:
                leaves[k] = array if isinstance(leaves[k], np.ndarray) else array[()]
        return leaves


def _widened(leaf: Any) -> Any:
    if is_python(leaf):
        return leaf
    wide = np.asarray(leaf, np.float64)
    return wide if isinstance(leaf, np.ndarray) else wide[()]


def _unit(magnitudes: Floats) -> float:
    """Size of the surroundings of a coordinate."""
    finite = magnitudes[np.isfinite(magnitudes)]
    return max(float(finite.max()) if finite.size else 0.0, 1.0)


def _places(args: Sequence[Any], argnums: Sequence[int] | None) -> list[int]:
    """Positions of the floating-point leaves of the chosen arguments among all leaves."""
    chosen = range(len(args)) if argnums is None else [k % len(args) for k in argnums]
    found, start = [], 0
    for k, arg in enumerate(args):
        leaves = flatten(arg)[0]
        if k in chosen:
            found += [start + j for j, leaf in enumerate(leaves) if is_float(leaf)]
        start += len(leaves)
    return found


def _eps(outputs: Any) -> float:
    dtypes = {np.asarray(leaf).dtype for leaf in flatten(outputs)[0] if is_float(leaf)}
    if not dtypes:
        raise DtypeError("the function returns no floating-point number whose derivative could be checked")
    return max(float(np.finfo(dtype).eps) for dtype in dtypes)


def _similar(exact: Any, tried: Any) -> bool:
    """Whether outputs differ by no more than rounding can explain."""
    first, second = flatten(exact)[0], flatten(tried)[0]
    if len(first) != len(second):
        return False
    for a, b in zip(first, second, strict=True):
        if np.shape(a) != np.shape(b):
            return False
        if not is_float(a):
            continue
        x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
        # Not only relative: a sum may cancel.
        bound = 1e-2 * float(np.max(np.abs(x[np.isfinite(x)]), initial=0.1))
        if not np.all((np.abs(x - y) <= bound) | (x == y) | np.isnan(x)):
            return False
    return True
