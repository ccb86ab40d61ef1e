"""Lists and tuples that hold traced values, given to NumPy's functions as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.linalg as nla
import pytest
import scipy.special as sc
from numpy import add, concatenate, linalg, sqrt
from numpy import sum as total
from scipy.special import expit

import symgrad as sg
import symgrad.numpy as snp
from symgrad.errors import DtypeError, UnsupportedOperationError
from tests.tracing.agreement import BACKENDS, agrees, slopes_agree

LINES = """
np.sum([a, a], axis=0)
np.sum([a, b])
np.sum((a, b))
np.sum(a=[a, b])
np.sum([x, [a, b, c]])
np.sum([x[:1], [a]], axis=1)
np.sum([a, b], where=[True, False])
np.sum([a, b], initial=c)
np.diag([a, 1.0])
np.dot([a, b], [c, d])
np.dot(b=[a, b], a=[c, d])
np.sqrt([a, b])
np.max([a, b, c])
np.max([a, b], initial=c)
np.mean([a, b])
np.maximum([a, b], 0)
np.where([a > 1, b > 1], [a, b], 0)
np.where([True, False], [a, 1], 0)
np.concatenate([[a, b], [c]])
np.outer([a, b], [c, d])
np.cross([a, b, c], [d, a, b])
np.prod([a, b])
np.cumsum([[a, b], [c, d]], axis=1)
np.clip([a, b], 0, 1)
np.clip(x, [a, b, c], [c, c, d])
np.interp([a, b], [0, 1, 2], [c, d, a])
np.stack([[a, b], [c, d]], axis=1)
np.vstack([[a, b], [c, d]])
np.hstack([a, b, [c]])
np.column_stack([[a, b], [c, d]])
np.append([a, b], c)
np.linalg.norm([a, b])
np.linalg.norm([[a, b], [c, d]], axis=0)
np.linalg.det([[a, b], [c, d + 9]])
np.linalg.solve([[a, b], [c, d + 9]], [a, b])
np.linalg.inv([[a, b], [c, d + 9]])
np.linalg.multi_dot([[[a, b], [c, d]], [[a, b], [c, d]]])
np.einsum("ij,j", [[a, b], [c, d]], [a, b])
np.matmul([[a, b]], [c, d])
np.tensordot([a, b], [[c], [d]], 1)
np.kron([a, b], [c, d])
np.sort([c, b, a])
np.argsort([c, b, a])
np.unique([a, b, a])
np.add.reduce([a, b])
np.add.accumulate([a, b])
np.multiply.outer([a, b], [c, d])
np.minimum.reduce([[a, b], [c, d]], axis=1)
np.std([a, b])
np.median([a, b, c])
np.average([a, b], weights=[c, d])
np.diff([a, b, c])
np.reshape([a, b, c, d], (2, 2))
np.transpose([[a, b], [c, d]])
np.broadcast_to([a, b], (3, 2))
np.broadcast_arrays([a, b], c)[1]
np.ravel([[a, b], [c, d]])
np.diagonal([[a, b], [c, d]])
np.array_equal([a, b], [a, b]) + a
np.allclose([a, b], [a, b]) + a
np.shape([[a], [b]])[0] + np.ndim([a, b]) + np.size([a, b]) + a
np.full_like([a, b], c)
np.full_like(x, fill_value=a)
np.full((2, 2), [a, b])
np.linspace([0.0, 1.0], [a, b], 3)
np.logspace([a, 1.0], [b, c], 3)
np.geomspace(a, [b, c], 3)
np.select([[a > 1, b > 1]], [[a, b]], 0)
np.add([a, b], [c, d], out=np.zeros(2))
np.count_nonzero([a, b]) + a
np.pad([a, b], 1)
np.roll([a, b, c], 1)
np.tile([a, b], 2)
x + [a, b, c]
(a, b, c) * x
x - [[a], [b]]
x @ [a, b, c]
sqrt([a, b])
concatenate([[a], [b]])
total([a, b])
add.reduce([a, b])
linalg.norm([a, b])
nla.norm((a, b))
expit([a, b])
sc.expit([a, b])
snp.sum([a, b])
snp.linalg.norm([a, b])
TABLE[np.sum]([a, b])
np.sum([1, 2]) * a
np.vectorize(np.sin)([a, b])
""".strip().splitlines()

TABLE = {np.sum: np.prod}
NAMES = {
    "np": np, "nla": nla, "sc": sc, "add": add, "concatenate": concatenate, "linalg": linalg, "sqrt": sqrt,
    "total": total, "expit": expit, "snp": snp, "TABLE": TABLE,
}  # fmt: skip
A = (1.5, 0.25, 2.5, 3.75, np.array([1.5, 2.5, 3.5]))


def _function(line: str) -> Any:
    names: dict[str, Any] = dict(NAMES)
    exec(f"def f(a, b, c, d, x):\n    return {line}", names)
    return names["f"]


@pytest.mark.parametrize("line", LINES)
def test_lists_are_arrays(line: str) -> None:
    agrees(_function(line), "numpy", A, twice=False, rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_have_slopes(backend: str) -> None:
    def f(x: Any) -> Any:
        a, b, c = x
        turned = np.dot([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]], [b, c])
        return np.linalg.norm([a, 1.0] * turned) + np.max([a * b, c]) + np.sum(np.sqrt([a, b * c]))

    slopes_agree(f, backend, (np.array([0.5, 1.5, 2.5]),))


@pytest.mark.parametrize("kind", ["integers", "mixed", "single"])
def test_dtypes_are_those_of_the_array(kind: str) -> None:
    def f(i: Any, h: Any) -> Any:
        if kind == "integers":
            return np.sum([i[0], 2]), np.sqrt([i[0], i[1]])
        return (np.max([i[0], 2.5]), np.add([i[0], 1], [h[0], 1])) if kind == "mixed" else np.sum([h[0], h[1]])

    agrees(f, "numpy", (np.array([3, 4]), np.array([1.5, 2.5], np.float32)))


def test_functions_are_still_those_of_numpy() -> None:
    def f(x: Any) -> Any:
        known = {np.sin: 2.0}
        kinds = isinstance(np.sin, np.ufunc), type(np.sin) is np.ufunc, type(np.sum) is type(np.max)
        same = sqrt is np.sqrt, linalg.norm is nla.norm, np.linalg.norm is nla.norm
        attributes = np.sum.__name__, np.add.nin
        return x * known[np.sin] if all(kinds) and all(same) and attributes == ("sum", 2) else x

    agrees(f, "numpy", (A[4],))


class Settings:
    """Kept outside of the traced function."""

    reduction: Any = None


def test_what_is_kept_outside_is_numpys_own() -> None:
    settings = Settings()

    def f(x: Any) -> Any:
        settings.reduction = np.max
        return x * 2

    with pytest.warns(sg.errors.SideEffectWarning):
        sg.compile(f, backend="numpy")(A[4])
    assert settings.reduction is np.max


def test_as_a_method_of_a_class() -> None:
    class Loss:
        scale = np.exp  # ufuncs are no methods

        def __call__(self, a: Any) -> Any:
            return self.scale([a, a]).sum()

    loss = Loss()
    agrees(lambda a: loss(a), "numpy", (1.5,), rtol=1e-14)


def test_refusals_say_what_and_where() -> None:
    def unknown(x: Any) -> Any:
        return np.histogram([x[0], x[1]])

    def wrong(x: Any) -> Any:
        return np.sum([x[0], "one"])

    with pytest.raises(UnsupportedOperationError, match=r"np\.histogram cannot be traced[\s\S]*test_array_likes"):
        sg.compile(unknown)(A[4])
    with pytest.raises(DtypeError, match=r"str[\s\S]*test_array_likes"):
        sg.compile(wrong)(A[4])
    agrees(lambda x: np.sum([x[0], [x[1], x[2]]]), "numpy", (A[4],))
