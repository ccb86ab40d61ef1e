"""From a graph to a Program: loops fused, libraries chosen, memory planned; nothing here knows a language."""

from __future__ import annotations

from .lower import lower
from .program import Program

__all__ = ["Program", "lower"]
