"""Operations that only concern differentiation."""

from __future__ import annotations

from ..core.op import Sample
from .define import nondiff

stop_gradient = nondiff(
    "stop_gradient", doc="The value itself, held constant by every derivative.", c="{0}", numpy="+{0}",
    text="stop({0})", latex=r"\operatorname{{stop}}\left({0}\right)", samples=[Sample(((-3.0, 3.0),))],
)
