"""symgrad: derivatives of plain NumPy functions, compiled to NumPy and C.

>>> import numpy as np, symgrad as sg
>>> gradient = sg.grad(lambda x: np.sum(x**2))
>>> gradient(np.array([1.0, 2.0]))
array([2., 4.])
"""

from . import formula as _formula_room  # loaded first: the function of that name then takes its place here
from .api.checking import check_grads, check_report
from .api.jacobians import hessian, jacobian
from .api.looking import formula, show_config, trace
from .api.transforms import compile, grad, jvp, stop_gradient, value_and_grad, vjp
from .core.spec import Spec
from .errors import (
    CompilerError,
    CompilerWarning,
    DtypeError,
    GradientMismatch,
    NotDifferentiableError,
    NumericalWarning,
    PerformanceWarning,
    RetraceWarning,
    ShapeError,
    SideEffectWarning,
    SymgradError,
    SymgradWarning,
    TraceError,
    UnsupportedOperationError,
)
from .runtime.settings import config

__version__ = "0.1.0"

__all__ = [
    "CompilerError",
    "CompilerWarning",
    "DtypeError",
    "GradientMismatch",
    "NotDifferentiableError",
    "NumericalWarning",
    "PerformanceWarning",
    "RetraceWarning",
    "ShapeError",
    "SideEffectWarning",
    "Spec",
    "SymgradError",
    "SymgradWarning",
    "TraceError",
    "UnsupportedOperationError",
    "check_grads",
    "check_report",
    "compile",
    "config",
    "formula",
    "grad",
    "hessian",
    "jacobian",
    "jvp",
    "show_config",
    "stop_gradient",
    "trace",
    "value_and_grad",
    "vjp",
]
