"""Checking arguments, calling kernels, handing back results."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

from symgrad.runtime.specs import InputSpec, OutputSpec
from tests.runtime.kernels import FLOAT, FOUR_OUT, PYFLOAT, TEN, TEN_OUT, Make

pytestmark = pytest.mark.c_backend


# ---- the fast path ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("release_gil", [False, True])
def test_value_and_gradient(make: Make, release_gil: bool) -> None:
    call = make("squares", [TEN], [PYFLOAT, TEN_OUT], "tuple", release_gil=release_gil)
    x = np.arange(10.0)
    value, gradient = call(x)
    assert type(value) is float
    assert value == 285.0
    np.testing.assert_array_equal(gradient, 2 * x)
    assert type(gradient) is np.ndarray
    assert gradient.flags.owndata
    assert gradient.flags.writeable
    assert call(x)[1] is not gradient
    assert (call.hits, call.misses) == (2, 0)


def test_python_numbers(make: Make) -> None:
    call = make(
        "numbers",
        [FLOAT, InputSpec("int"), InputSpec("bool"), InputSpec("complex")],
        [PYFLOAT, OutputSpec("pyint"), OutputSpec("pybool"), OutputSpec("pycomplex")],
        "tuple",
    )
    results = call(1.25, -(2**63) + 1, True, 3 + 4j)
    assert results == (1.75, -(2**63), False, 4 + 3j)
    assert [type(result) for result in results] == [float, int, bool, complex]
    assert call(0.0, 5, False, 1j)[2] is True
    for bad in [
        (1, 5, True, 1j),
        (np.float64(1.0), 5, True, 1j),
        (1.0, 2**63, True, 1j),
        (1.0, -(2**63) - 1, True, 1j),
        (1.0, True, True, 1j),
        (1.0, np.int64(5), True, 1j),
        (1.0, 5, 1, 1j),
        (1.0, 5, np.True_, 1j),
        (1.0, 5, True, 1.0),
    ]:
        assert call(*bad) is call.slow
    assert (call.hits, call.misses) == (2, 9)


@pytest.mark.parametrize(
    ("dtype", "symbol"),
    [("f8", "copy8"), ("f4", "copy4"), ("f2", "copy2"), ("i8", "copy8"), ("i4", "copy4"), ("i2", "copy2"),
     ("i1", "copy1"), ("u8", "copy8"), ("u4", "copy4"), ("u2", "copy2"), ("u1", "copy1"), ("?", "copy1"),
     ("c16", "copy16"), ("c8", "copy8")],
)  # fmt: skip
def test_numpy_scalars_and_arrays_of_rank_0(make: Make, dtype: str, symbol: str) -> None:
    scalar_type = np.dtype(dtype).type
    for_arrays = make(symbol, [InputSpec("array", dtype)], [OutputSpec("scalar", dtype)])
    for_scalars = make(symbol, [InputSpec("scalar", dtype)], [OutputSpec("array", dtype)])
    value, array = scalar_type(1), np.array(1, dtype)
    assert type(for_arrays(array)) is scalar_type
    assert for_arrays(array) == 1
    assert for_arrays.hits == 2
    result = for_scalars(value)
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype, result[()]) == ((), np.dtype(dtype), value)
    other = np.float32(1) if dtype == "f8" else np.float64(1)
    for bad in (value, other, 1.0, np.array([1], dtype)):
        assert for_arrays(bad) is for_arrays.slow
    for bad in (array, other, 1.0, np.array([1], dtype)):
        assert for_scalars(bad) is for_scalars.slow


def test_equal_integer_types_of_another_name_are_accepted(make: Make) -> None:
    call = make("copy8", [InputSpec("array", np.int64, (1,))], [OutputSpec("array", np.int64, (1,))])
    for char in ("l", "q"):
        if np.dtype(char).itemsize == 8:
            assert call(np.array([5], char))[0] == 5


def test_shapes_of_any_rank_and_size(make: Make) -> None:
    for shape in [(0,), (3, 0, 2), (1, 1, 1, 1, 1, 1), (2,) * 20, (1,) * 32]:
        call = make("nothing", [InputSpec("array", "f8", shape)], [OutputSpec("array", "i4", shape)])
        result = call(np.zeros(shape))
        assert (result.shape, result.dtype) == (shape, np.dtype("i4"))
        assert call(np.zeros((*shape[:-1], shape[-1] + 1))) is call.slow
        assert call(np.zeros(shape[:-1])) is call.slow


@pytest.mark.parametrize(("n", "symbol"), [(40, "sum40"), (2000, "sum2000")])
def test_many_arguments(make: Make, n: int, symbol: str) -> None:
    call = make(symbol, [FLOAT] * n, [PYFLOAT])
    values = [float(i) for i in range(n)]
    assert call(*values) == n * (n - 1) / 2
    assert call(*values[:-1], 1) is call.slow
    assert call(*values[:-1]) is call.slow


def test_read_only_arrays_are_inputs_like_others(make: Make) -> None:
    x = np.arange(10.0)
    x.flags.writeable = False
    call = make("squares", [TEN], [PYFLOAT, TEN_OUT], "tuple")
    assert call(x)[0] == 285.0


# ---- the slow path ----------------------------------------------------------------------------------------


class Subclass(np.ndarray):
    pass


def _unaligned() -> Any:
    array = np.zeros(81, np.uint8)[1:].view("f8")
    assert not array.flags.aligned
    return array


BAD_ARGUMENTS = {
    "list": lambda: [0.0] * 10,
    "float": lambda: 1.0,
    "none": lambda: None,
    "subclass": lambda: np.zeros(10).view(Subclass),
    "float32": lambda: np.zeros(10, "f4"),
    "int64": lambda: np.zeros(10, "i8"),
    "swapped": lambda: np.zeros(10, np.dtype("f8").newbyteorder()),
    "unaligned": _unaligned,
    "strided": lambda: np.zeros(20)[::2],
    "reversed": lambda: np.zeros(10)[::-1],
    "short": lambda: np.zeros(9),
    "matrix": lambda: np.zeros((10, 1)),
    "scalar": lambda: np.float64(1),
    "object": lambda: np.zeros(10, object),
    "record": lambda: np.zeros(10, [("a", "f8")]),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_anything_unexpected_goes_to_the_slow_path(make: Make, name: str) -> None:
    call = make("squares", [TEN], [PYFLOAT, TEN_OUT], "tuple")
    argument = BAD_ARGUMENTS[name]()
    assert call(argument) is call.slow
    assert call.slow.calls == [((argument,), {})] or call.slow.calls[0][0][0] is argument
    assert (call.hits, call.misses, call.last_code) == (0, 1, 0)


def test_fortran_order_goes_to_the_slow_path(make: Make) -> None:
    call = make("nothing", [InputSpec("array", "f8", (2, 3))], [], "tuple")
    assert call(np.zeros((2, 3), order="F")) is call.slow


def test_wrong_numbers_of_arguments_and_keywords(make: Make) -> None:
    call, no_keywords = make("guarded", [FLOAT], [PYFLOAT]), ()
    slow = call.slow
    assert call() is slow
    assert call(1.0, 2.0) is slow
    assert call(1.0, y=2) is slow
    assert call(x=1.0) is slow
    assert slow.calls == [((), {}), ((1.0, 2.0), {}), ((1.0,), {"y": 2}), ((), {"x": 1.0})]
    assert call(*[3.0], **dict(no_keywords)) == 6.0


def test_a_failed_guard_goes_to_the_slow_path(make: Make) -> None:
    call = make("guarded", [FLOAT], [PYFLOAT])
    assert call(1.5) == 3.0
    assert call.last_code == 0
    assert call(-1.0) is call.slow
    assert call(float("nan")) is call.slow
    assert call.slow.calls == [((-1.0,), {}), ((float("nan"),), {})] or len(call.slow.calls) == 2
    assert (call.hits, call.misses, call.last_code) == (1, 2, 7)


def test_errors_of_the_slow_path_are_raised(make: Make) -> None:
    def fail(*args: Any) -> None:
        raise KeyError(args)

    call = make("guarded", [FLOAT], [PYFLOAT], slow=fail)
    with pytest.raises(KeyError):
        call("text")
    assert call.misses == 1


def test_the_slow_path_may_call_the_dispatcher_again(make: Make) -> None:
    call = make("guarded", [FLOAT], [PYFLOAT], slow=lambda x: call(abs(float(x))))
    assert call(-2) == 4.0
    assert (call.hits, call.misses) == (1, 1)


def test_a_bound_method_as_slow_path(make: Make) -> None:
    class Owner:
        def answer(self, *args: Any, **kwargs: Any) -> Any:
            return self, args, kwargs

    owner = Owner()
    call = make("guarded", [FLOAT], [PYFLOAT], slow=owner.answer)
    assert call("a", b=1) == (owner, ("a",), {"b": 1})


# ---- hidden inputs ----------------------------------------------------------------------------------------


@pytest.fixture
def hidden_call(make: Make) -> tuple[Any, Any]:
    hidden = np.arange(4.0)
    four = InputSpec("array", "f8", (4,))
    return make("add_hidden", [four], [FOUR_OUT], hidden=[hidden]), hidden


def test_hidden_inputs_are_read_at_each_call(hidden_call: tuple[Any, Any]) -> None:
    call, hidden = hidden_call
    np.testing.assert_array_equal(call(np.ones(4)), [1, 2, 3, 4])
    hidden[:] = 10.0
    np.testing.assert_array_equal(call(np.ones(4)), [11] * 4)


def test_the_memory_of_a_hidden_input_may_move(hidden_call: tuple[Any, Any]) -> None:
    call, hidden = hidden_call
    hidden.resize(1000, refcheck=False)
    assert call(np.ones(4)) is call.slow
    hidden.resize(4, refcheck=False)
    hidden[:] = [5, 6, 7, 8]
    np.testing.assert_array_equal(call(np.ones(4)), [6, 7, 8, 9])


def test_a_hidden_input_of_another_shape_or_dtype_is_noticed(hidden_call: tuple[Any, Any]) -> None:
    call, hidden = hidden_call
    hidden.resize((2, 2), refcheck=False)
    assert call(np.ones(4)) is call.slow
    hidden.resize((4,), refcheck=False)
    assert call(np.ones(4)).tolist() == [1, 2, 3, 4]
    with warnings.catch_warnings():
        # Discouraged since NumPy 2.5, yet still possible.
        warnings.simplefilter("ignore", DeprecationWarning)
        hidden.dtype = np.int64
    assert call(np.ones(4)) is call.slow


def test_hidden_inputs_are_kept_alive_and_released(make: Make) -> None:
    hidden = np.arange(4.0)
    alive = weakref.ref(hidden)
    call = make("add_hidden", [InputSpec("array", "f8", (4,))], [FOUR_OUT], hidden=[hidden])
    del hidden
    gc.collect()
    np.testing.assert_array_equal(call(np.zeros(4)), [0, 1, 2, 3])
    del call
    gc.collect()
    assert alive() is None


# ---- structures -------------------------------------------------------------------------------------------

SCALARS = [PYFLOAT] * 3


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        ("tuple", (1.0, 2.0, 3.0)),
        ((0, (1, 2)), (1.0, (2.0, 3.0))),
        ((2, [1, {"a": 0, "b": None}], ()), (3.0, [2.0, {"a": 1.0, "b": None}], ())),
        ({"w": 0, 5: (1,)}, {"w": 1.0, 5: (2.0,)}),
        ([], []),
        (1, 2.0),
        (None, None),
        (sum, 6.0),
        (list, [1.0, 2.0, 3.0]),
        (type, list),
    ],
)
def test_structures_of_results(make: Make, structure: Any, expected: Any) -> None:
    before = copy.deepcopy(structure)
    call = make("three", [FLOAT] * 3, SCALARS, structure)
    for _ in range(3):
        result = call(1.0, 2.0, 3.0)
        assert result == expected
        assert type(result) is type(expected)
    if not callable(structure):
        assert structure == before


def test_results_do_not_share_containers(make: Make) -> None:
    call = make("three", [FLOAT] * 3, SCALARS, [[0], {"a": 1}])
    first = call(1.0, 2.0, 3.0)
    first[0].append("mine")
    first[1]["b"] = "mine"
    assert call(1.0, 2.0, 3.0) == [[1.0], {"a": 2.0}]


def test_errors_of_the_unflattening_function_are_raised(make: Make) -> None:
    def fail(flat: list[Any]) -> None:
        raise LookupError(str(flat))

    call = make("three", [FLOAT] * 3, SCALARS, fail)
    with pytest.raises(LookupError, match=r"\[1\.0, 2\.0, 3\.0\]"):
        call(1.0, 2.0, 3.0)


def test_containers_as_arguments(make: Make) -> None:
    rank_0 = InputSpec("array", "f8")
    tree = InputSpec(
        "dict",
        value=("b", "a"),
        items=(InputSpec("list", items=(FLOAT,)), InputSpec("tuple", items=(FLOAT, rank_0))),
    )
    for release_gil in (False, True):
        call = make("three", [tree], SCALARS, "tuple", release_gil=release_gil)
        assert call({"a": (2.0, np.array(3.0)), "b": [1.0]}) == (1.0, 2.0, 3.0)
        for bad in (
            {"a": (2.0, np.array(3.0)), "b": (1.0,)},
            {"a": (2.0, np.array(3.0)), "c": [1.0]},
            {"a": (2.0, np.array(3.0)), "b": [1.0], "c": 1},
            {"a": (2.0, np.array([3.0])), "b": [1.0]},
            {"a": (2.0,), "b": [1.0]},
            [("a", 1), ("b", 2)],
        ):
            assert call(bad) is call.slow
        assert (call.hits, call.misses) == (1, 6)


def test_static_arguments(make: Make) -> None:
    marker = object()
    statics = [InputSpec("static", value=value) for value in (marker, "mode", 10**30, None)]
    call = make("guarded", [FLOAT, *statics], [PYFLOAT])
    mode, number = "-mode"[1:], int("1" + "0" * 30)  # equal, but other objects
    assert call(2.0, marker, mode, number, None) == 4.0
    assert call(2.0, object(), mode, number, None) is call.slow
    assert call(2.0, marker, "other", number, None) is call.slow
    assert call(2.0, marker, mode, number + 1, None) is call.slow
    assert call(2.0, marker, mode, float(number), None) is call.slow
    one = make("guarded", [FLOAT, InputSpec("static", value=1)], [PYFLOAT])
    assert one(2.0, True) is one.slow
