"""The Python of scalars in a program of `einsum` lines: sizes, roots, functions of NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from symattn.meaning.functions import FUNCTIONS
from symattn.notation.code import PythonPrinter
from symattn.notation.names import identifier
from symattn.notation.printer import Written
from symattn.notation.rows import Binding


class Numbers(PythonPrinter):
    """Scalars in the Python of a program; ``imported`` says a name that it needs."""

    def __init__(self, imported: Callable[[str], str]) -> None:
        self.imported = imported

    def rational(self, value: Fraction) -> Written:
        return Written(f"{value.numerator}/{value.denominator}", Binding.PRODUCT)

    def power(self, base: Written, exponent: Fraction) -> Written:
        if exponent == Fraction(1, 2):
            self.imported("sqrt")
        return super().power(base, exponent)

    def call(self, function: str, argument: Written) -> Written:
        return Written(called(function, argument.text, self.imported), Binding.ATOM)


def called(function: str, argument: str, imported: Callable[[str], str]) -> str:
    """Return the source of an elementwise function; one known by name only is called by it.

    >>> called("relu", "x", str), called("phi", "x", str)
    ('maximum(x, 0)', 'phi(x)')
    """
    row = FUNCTIONS.get(function)
    template = f"{identifier(function)}({{x}})" if row is None else row.numpy
    template = re.sub(r"xp\.(\w+)", lambda found: imported(found[1]), template)
    return template.replace("{x}", argument)


def spelt(tag: str) -> str:
    """Return a tag as the source spells it.

    >>> spelt("d_k"), spelt("λ")
    ('d_k', 'lambda_')
    """
    return Numbers(str).name(tag).text
