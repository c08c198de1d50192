"""The positions of a query and a key in whole numbers: ``i - j + n0``.

Differences of positions are taken between whole numbers, and only then become numbers of the type
that is computed in: a float32 has no room for positions above 2²⁴, but for what they differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from fractions import Fraction

from symattn.meaning.form import (
    MINUS_ONE,
    Add,
    Condition,
    Extent,
    Form,
    Mul,
    Number,
    Place,
    Position,
    children,
    place,
    total,
)
from symattn.tags import Size

QUERY = place(Size.tag("n"), "i")
"""Where the query stands, in the conditions and biases that are written."""
KEY = place(Size.tag("m"), "j")


@dataclass(frozen=True, slots=True)
class Line:
    """``of_query·i + of_key·j + number + Σ sign·size``; the first two are -1, 0 or 1."""

    of_query: int = 0
    of_key: int = 0
    number: int = 0
    sizes: tuple[tuple[int, Extent], ...] = ()

    def opposite(self) -> Line:
        """Return minus the line."""
        sizes = tuple((-sign, size) for sign, size in self.sizes)
        return Line(-self.of_query, -self.of_key, -self.number, sizes)

    def without(self, name: str) -> Line:
        """Return the line without one of its positions."""
        return replace(self, **{"of_key" if name == "j" else "of_query": 0})

    def split(self, counted: Container[Size], largest: int) -> tuple[Line, Form | None]:
        """Return what a whole number of four bytes holds, and what may be larger (None: nothing).

        Sizes that are ``counted`` are no larger than positions are.
        """
        far = tuple((sign, size) for sign, size in self.sizes if size.size not in counted)
        number = 0 if abs(self.number) <= largest else self.number
        sizes = tuple(one for one in self.sizes if one not in far)
        near = replace(self, number=self.number - number, sizes=sizes)
        return near, Line(number=number, sizes=far).rest

    @property
    def rest(self) -> Form | None:
        """What is no position, None if it is 0."""
        terms: list[Form] = [
            size if sign > 0 else Mul((MINUS_ONE, size)) for sign, size in self.sizes
        ]
        if self.number:
            terms.append(Number(Fraction(self.number)))
        return total(terms) if terms else None

    def text(self, whole: Callable[[Form], str]) -> str:
        """Return the source, what is added first; ``whole`` writes a number.

        >>> Line(-1, 1, 2).text(lambda form: str(form.value))
        'j - i + 2'
        """
        signed = [("i", self.of_query), ("j", self.of_key)]
        terms = sorted(("-" if sign < 0 else "+", name) for name, sign in signed if sign)
        if self.rest is not None or not terms:
            number = whole(self.rest or Number(Fraction(0)))
            negative = number.startswith("-")
            terms.append(("-" if negative else "+", number.removeprefix("-")))
        code = " ".join(f"{sign} {name}" for sign, name in terms)
        return code.removeprefix("+ ") if code.startswith("+") else code.replace("- ", "-", 1)


def line_of(form: Form) -> Line | None:
    """Return a sum of positions and whole numbers, or None if a form is none.

    >>> line_of(Add((Position(KEY), Number(Fraction(-1)))))
    Line(of_query=0, of_key=1, number=-1, sizes=())
    """
    counts: dict[Place, int] = {QUERY: 0, KEY: 0}
    number = 0
    sizes: list[tuple[int, Extent]] = []

    def add(form: Form, sign: int) -> bool:
        nonlocal number
        match form:
            case Position(at) if at in counts:
                counts[at] += sign
            case Number(value) if value.denominator == 1:
                number += sign * value.numerator
            case Extent(size) if size.constant is not None:
                number += sign * size.constant
            case Extent():
                sizes.append((sign, form))
            case Add(terms):
                return all(add(term, sign) for term in terms)
            case Mul((Number(value), inner)) if value in (1, -1):
                return add(inner, sign * value.numerator)
            case _:
                return False
        return True

    if not add(form, 1) or any(abs(count) > 1 for count in counts.values()):
        return None
    return Line(counts[QUERY], counts[KEY], number, tuple(sizes))


def has_positions(form: Form | Condition) -> bool:
    """Tell whether a form reads a position."""
    return isinstance(form, Position) or any(map(has_positions, children(form)))
