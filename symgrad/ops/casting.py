"""Converting dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Aval, make_aval, require_supported
from ..core.expr import Expr
from ..core.op import Op, Sample
from .c_types import conversion
from .define import FUNCTIONS, METHODS, as_exprs, cast, implements, linear


def _infer_astype(avals: tuple[Aval, ...], dtype: str) -> Aval:
    return make_aval(avals[0].shape, np.dtype(dtype))


def _astype_transpose(ct: Expr, out: Expr, x: Expr, dtype: str) -> Expr | None:
    # Integers and bools have no tangent space: nothing flows through a cast to or from them.
    if not (x.aval.is_float and out.aval.is_float):
        return None
    return astype(ct, dtype=x.dtype.name)


astype: Op = linear(
    "astype", doc="The value converted to another dtype.", infer=_infer_astype,
    numpy=lambda args, avals, params: (
        f"{args[0]}.astype(np.{_numpy_name(params['dtype'])})" if avals[0].shape
        else f"np.{_numpy_name(params['dtype'])}({args[0]})"
    ),
    lowering="elementwise", c=conversion, text="{0}", latex="{0}",
    transposes=[_astype_transpose],
    samples=[Sample(((-3.0, 3.0),), params={"dtype": "float32"})],
)


def _numpy_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _astype(x: Any, dtype: Any, *args: Any, **kw: Any) -> Expr:
    value = as_exprs(x)[0]
    wanted = np.dtype(dtype)
    if value.dtype == wanted and not value.aval.weak:
        return value
    if value.value is not None:
        return cast(value, wanted)
    require_supported(wanted)
    return astype(value, dtype=wanted.name)


implements("astype", np.astype)(_astype)
METHODS["astype"] = _astype


def _infer_number(avals: tuple[Aval, ...]) -> Aval:
    return make_aval((), avals[0].dtype, True)


python_number: Op = linear(
    "python_number", doc="The value as a Python number, which adapts to the dtype of its partners.",
    infer=_infer_number, numpy="+{0}", lowering="elementwise", c="{0}", text="{0}", latex="{0}",
    transposes=[lambda ct, out, x: cast(ct, x.dtype)], samples=[Sample(((-3.0, 3.0),), ((),))],
)
FUNCTIONS["python_number"] = python_number
