"""What the outputs of a function, and of its derivatives, are called in formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.pytree import flatten, leaf_names
from ..core.spec import Spec

Titles = Callable[[tuple[Any, ...], int], list[str]]
"""From the arguments and the number of outputs to a title for each output."""


def plain_name(function: Any) -> str:
    """How a function is called; a lambda is f."""
    name = getattr(function, "__name__", "f")
    return "f" if name == "<lambda>" else str(name)


def numbered(name: str, count: int) -> list[str]:
    """The name itself, or one with the number of each output."""
    return [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]


def argument_leaves(argument: Any, name: str) -> list[str]:
    """How each leaf of an argument is written; a spec may bring its own name."""
    written = leaf_names(argument, name)
    return [
        leaf.name if isinstance(leaf, Spec) and leaf.name else text
        for leaf, text in zip(flatten(argument)[0], written, strict=True)
    ]


def derivative_titles(
    function: Any, argnums: int | Sequence[int], names: Callable[[int], list[str]], with_value: bool
) -> Titles:
    """Titles of a gradient: ``∂f/∂x`` for each leaf, after the value where that is returned too."""

    def titles(args: tuple[Any, ...], count: int) -> list[str]:
        name = plain_name(function)
        listed = (argnums,) if isinstance(argnums, int) else argnums
        leaves = [leaf for k in listed for leaf in argument_leaves(args[k], names(len(args))[k])]
        made = [f"∂{name}/∂{leaf}" for leaf in leaves]
        if with_value:
            made = [*numbered(name, count - len(made)), *made]
        return [*made, *[f"{name}[{k}]" for k in range(count - len(made))]]

    return titles
