"""The masked zero: what derivative rules put where a value does not reach the output."""

from __future__ import annotations

from ..core.op import Op, Sample
from .define import INFER, linear

keep: Op = linear(
    "keep",
    doc="The value where the condition holds, elsewhere an exact zero that infinities cannot turn into NaN.",
    infer=INFER["select"],
    numpy="np.where({0}, {1}, 0)",
    transposes=[None, lambda ct, out, c, x: keep(c, ct)],
    lowering="elementwise",
    c="({0} ? {1} : 0)",
    text="where({0}, {1}, 0)",
    latex=r"\begin{{cases}} {1} & \text{{if }} {0} \\ 0 & \text{{otherwise}} \end{{cases}}",
    samples=[Sample(("bool", (-3.0, 3.0)))],
)
