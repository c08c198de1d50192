r"""Names of matrices, scalars and functions: one grammar, and each name as an identifier.

A name is a base of letters (Latin or Greek) and digits, then superscripts, subscripts and primes in
any order: ``Q``, ``W^Q``, ``d_{model}``, ``W_Q^{(1)}``, ``Q'``, ``λ``, ``lambda``.  Names are
NFC-normalised, so what looks alike is alike; nothing else reaches LaTeX, HTML or source.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from symattn.errors import NameSyntaxError

_LETTER = "A-Za-zΑ-ΡΣ-Ωα-ω"
_PART = re.compile(
    rf"(?P<mark>[_^])(?:\{{(?P<braced>[{_LETTER}0-9_,()' ]+)\}}|(?P<bare>[{_LETTER}0-9]+))"
    r"|(?P<primes>'+)"
)
_BASE = re.compile(rf"[{_LETTER}][{_LETTER}0-9]*")
NAME = re.compile(rf"{_BASE.pattern}(?:{_PART.pattern})*(?![{_LETTER}0-9])")
"""A name where it stands in a text: in "don't" the apostrophe is no prime."""

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν",
    "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ",
    "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ",
    "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω",
}  # fmt: skip
SPELLED = {letter: name for name, letter in GREEK.items()}


@dataclass(frozen=True, slots=True)
class Name:
    """A name taken apart."""

    base: str
    superscript: str = ""
    subscript: str = ""
    primes: int = 0


def parse_name(text: str) -> Name:
    """Take a name apart.

    >>> parse_name("W^Q")
    Name(base='W', superscript='Q', subscript='', primes=0)
    >>> parse_name("d_{model}'").primes
    1

    Raises `NameSyntaxError`, which points at the first character that does not fit.
    """
    if not isinstance(text, str):
        raise NameSyntaxError(repr(text)[:60], 0)
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Name:
    text = unicodedata.normalize("NFC", text)
    head = _BASE.match(text)
    if head is None or len(text) > 64:
        raise NameSyntaxError(text, 0 if head is None else 64)
    at, marks, primes = head.end(), {"_": [], "^": []}, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise NameSyntaxError(text, at)
        if part["primes"]:
            primes += len(part["primes"])
        else:
            marks[part["mark"]].append((part["braced"] or part["bare"]).strip())
        at = part.end()
    return Name(head[0], ",".join(marks["^"]), ",".join(marks["_"]), primes)


def check_name(text: str) -> str:
    """Return a name in normal form: NFC, braces only where they are needed.

    >>> check_name("d_{k}"), check_name("W_{QK}^{(1)}")
    ('d_k', 'W^{(1)}_QK')
    """
    name = parse_name(text)
    return name.base + _mark("^", name.superscript) + _mark("_", name.subscript) + "'" * name.primes


def _mark(mark: str, part: str) -> str:
    if not part:
        return ""
    return mark + (part if re.fullmatch(rf"[{_LETTER}0-9]+", part) else "{" + part + "}")


def member_name(text: str, letters: Sequence[str]) -> str:
    """Return the name of one of a family: an index below, or above where the name has one below.

    >>> member_name("W^Q", ["i"]), member_name("W_Q", ["i"]), member_name("head", ["1"])
    ('W^Q_i', 'W^{(i)}_Q', 'head_1')
    """
    name, read = parse_name(text), ",".join(letters)
    below, above = name.subscript, name.superscript
    if not below:
        below = read
    elif not above:
        above = f"({read})"
    else:
        below = f"{below},{read}"
    return name.base + _mark("^", above) + _mark("_", below) + "'" * name.primes


def identifier(text: str) -> str:
    """Return the Python identifier by which an input of that name is passed.

    >>> [identifier(name) for name in ("lambda", "W^Q", "Q'", "λ", "W_Q^{(1)}")]
    ['lambda_', 'W_Q', 'Q_prime', 'lambda_', 'W_1_Q']
    """
    name = parse_name(text)
    parts = [name.base, name.superscript, name.subscript, *["prime"] * name.primes]
    spelled = "_".join(
        "".join(SPELLED.get(letter, letter) for letter in re.sub(r"[^\w]+", "_", part)).strip("_")
        for part in parts
        if part
    )
    return (
        spelled + "_" if keyword.iskeyword(spelled) or keyword.issoftkeyword(spelled) else spelled
    )
