"""Names as they are printed: the user's own where possible, always unambiguous, in three notations."""

from __future__ import annotations

import keyword
import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from ..core.op import OPS

GREEK = frozenset({
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda",
    "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma",
    "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
})
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_PLAIN_DIGITS = str.maketrans("₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹", "01234567890123456789")
_FIXED = {
    "pi", "inf", "nan", "array", "ones", "zeros", "diag", "trace", "eye", "tril", "triu", "outer", "stack",
    "pad", "ravel", "swapaxes", "unslice", "np", "sc", "sl", "rt", "float16", "float32", "float64",
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
}


@dataclass(frozen=True)
class Name:
    """One name in the three notations."""

    text: str
    ascii: str
    latex: str


PI = Name("π", "pi", r"\pi")
INFINITY = Name("∞", "inf", r"\infty")
NAN = Name("nan", "nan", r"\mathrm{nan}")


@cache
def reserved() -> frozenset[str]:
    """Words that mean something else in a formula: Python's keywords and the names of functions."""
    words = {*keyword.kwlist, *_FIXED}
    for op in OPS.values():
        words.update(re.findall(r"[A-Za-z_]\w*(?=\()", op.text) if op.text else [op.name])
    return frozenset(words)


def identifier(label: str) -> str:
    """Turn any label, such as ``params['w']``, into an identifier that still reads like it."""
    word = re.sub(r"\W+", "_", label.translate(_PLAIN_DIGITS)).strip("_")
    if not word:
        return "x"
    word += "_" if label.endswith("_") and label.isidentifier() else ""
    return f"x{word}" if word[0].isdigit() else word


def to_ascii(word: str) -> str:
    """Spell out letters that are not ASCII: Greek by name, accents dropped, the rest by code point."""
    return "".join(c if c.isascii() else _spelled(c) for c in word)


def _spelled(letter: str) -> str:
    words = unicodedata.name(letter, "").split()
    if len(words) >= 4 and words[0] == "GREEK" and words[2] == "LETTER":
        spoken = "lambda" if words[3] == "LAMDA" else words[3].lower()
        return spoken.capitalize() if words[1] == "CAPITAL" else spoken
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain if plain.isalnum() else f"u{ord(letter):04x}"


def latex_name(word: str) -> str:
    r"""LaTeX of an identifier: Greek letters, subscripts, upright words.

    Examples
    --------
    >>> latex_name("beta"), latex_name("x_1"), latex_name("b2"), latex_name("rate"), latex_name("w_max")
    ('\\beta', 'x_{1}', 'b_{2}', '\\mathrm{rate}', 'w_{\\mathrm{max}}')
    >>> latex_name("learning_rate")
    '\\mathrm{learning\\_rate}'
    """
    head, *rest = [part for part in to_ascii(word).split("_") if part] or ["_"]
    digits = re.fullmatch(r"([A-Za-z]+)(\d+)", head)
    if digits:
        head, rest = digits[1], [digits[2], *rest]
    if len(head) > 1 and head not in GREEK and any(len(part) > 1 and not part.isdigit() for part in rest):
        escaped = r"\_".join([head, *rest])
        return rf"\mathrm{{{escaped}}}"
    below = ",".join(_latex_word(part) for part in rest)
    return f"{_latex_word(head)}_{{{below}}}" if below else _latex_word(head)


def _latex_word(word: str) -> str:
    if word in GREEK:
        return rf"\{word}"
    if len(word) == 1 or word.isdigit():
        return word.replace("_", r"\_")
    return rf"\mathrm{{{word}}}"


class Namer:
    """Hands out names so that no two things of a formula share one in any notation."""

    def __init__(self) -> None:
        self._ascii: set[str] = set(reserved())
        self._latex: set[str] = {PI.latex}

    def take(self, label: str) -> Name:
        """A name that reads like ``label``; a trailing underscore or a number keeps it apart from others."""
        word = identifier(label)
        spelled = to_ascii(word)
        suffix, k = "_" if spelled in reserved() else "", 1
        while spelled + suffix in self._ascii:
            k += 1
            suffix = f"_{k}"
        return self._enter(Name(word + suffix, spelled + suffix, latex_name(word + suffix)))

    def numbered(self, letter: str, number: int) -> Name:
        """The name of a subterm or of an unnamed array: a letter with an index."""
        text = letter + str(number).translate(_SUBSCRIPTS)
        return self._enter(Name(text, f"{letter}{number}", f"{letter}_{{{number}}}"))

    def free_letter(self, letters: str) -> str:
        """The first letter that no name made so far begins an indexed name with."""
        for letter in letters:
            if not any(re.fullmatch(rf"{letter}_?\d*_?", word) for word in self._ascii):
                return letter
        return letters[0] + "_"

    def _enter(self, name: Name) -> Name:
        latex = name.latex
        if latex in self._latex:
            escaped = name.ascii.replace("_", r"\_")
            latex = rf"\mathrm{{{escaped}}}"
        self._ascii.add(name.ascii)
        self._latex.add(latex)
        return Name(name.text, name.ascii, latex)


_DERIVATIVE = re.compile(r"∂(\w+)/∂(.+)")


def output_name(label: str, inputs: dict[str, Name], namer: Namer) -> Name:
    """The left-hand side of an equation: a plain name, or a derivative written ``∂f/∂x``."""
    found = _DERIVATIVE.fullmatch(label)
    if found is None:
        name = namer.take(label)
        return Name(label, name.ascii, name.latex)
    below = inputs.get(found[2])
    function, variable = identifier(found[1]), below.ascii if below else to_ascii(identifier(found[2]))
    name = namer.take(f"d{to_ascii(function)}_d{variable}")
    under = below.latex if below else latex_name(identifier(found[2]))
    top, bottom = rf"\partial {latex_name(function)}", rf"\partial {under}"
    text = f"∂{found[1]}/∂{below.text if below else found[2]}"
    return Name(text, name.ascii, rf"\frac{{{top}}}{{{bottom}}}")
