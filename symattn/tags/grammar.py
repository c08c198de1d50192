"""The grammar in which a person writes sizes, tags and relations, and its one reader.

    size   = [-] term { (+ | -) term }
    term   = power { (* | //) power }
    power  = atom [ (^ | **) integer ]
    atom   = name | integer | ( size )

A name is what `characters` says, and `d_{k}` is the tag `d_k`. The text is read by hand, and
nothing in it is ever evaluated. What a text can ask for is bounded (its length, exponents, terms,
nesting, digits), so reading always ends soon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from symattn.errors import SizeError, SizeSyntaxError
from symattn.tags.characters import MAX_DIGITS, Characters
from symattn.tags.size import Size

SizeLike: TypeAlias = Size | int | str

MAX_LENGTH = 200
MAX_RELATIONS_LENGTH = 2000
MAX_EXPONENT = 16
MAX_TERMS = 64
MAX_DEPTH = 16

_OPERATIONS: Mapping[str, Callable[[Size, Size], Size]] = {
    "+": Size.__add__,
    "-": Size.__sub__,
    "*": Size.__mul__,
    "//": Size.__floordiv__,
}
_EXPECTED = {
    "inexact": "a division that is exact",
    "zero division": "a divisor that is not zero",
    "too large": "a smaller size",
}


def parse_size(text: str) -> Size:
    """Read one size.

    >>> parse_size("h*(d_{k} + d_v)")
    Size('h*d_k+h*d_v')
    >>> parse_size("n^^2")
    Traceback (most recent call last):
        ...
    symattn.errors.SizeSyntaxError: expected an integer exponent in a size:
        n^^2
          ^

    Raises `SizeSyntaxError`, which points at the place.
    """
    reader = SizeReader(text, "a size", MAX_LENGTH)
    size = reader.size()
    reader.end()
    return size


def parse_sizes(text: str) -> tuple[Size, ...]:
    """Read sizes that stand side by side, separated by blanks or commas.

    >>> parse_sizes("h*d_k, n+1 m")
    (Size('h*d_k'), Size('n+1'), Size('m'))

    An empty text has no sizes. Raises `SizeSyntaxError`, which points at the place.
    """
    reader = SizeReader(text, "sizes", MAX_LENGTH)
    sizes: list[Size] = []
    while not reader.at_end():
        if sizes and not reader.take(",") and not reader.after_blank():
            reader.fail("an operator, a blank or a comma")
        sizes.append(reader.size())
    return tuple(sizes)


def parse_relations(text: str) -> tuple[tuple[Size, Size], ...]:
    """Read equations `left = right`, separated by commas, semicolons or line ends.

    >>> parse_relations("d_model = h*d_k, m = n")
    ((Size('d_model'), Size('h*d_k')), (Size('m'), Size('n')))

    Raises `SizeSyntaxError`, which points at the place.
    """
    reader = SizeReader(text, "a relation", MAX_RELATIONS_LENGTH, lines=True)
    pairs: list[tuple[Size, Size]] = []
    separators = (",", ";", "\n")
    while True:
        while reader.take(*separators):
            pass
        if reader.at_end():
            return tuple(pairs)
        left = reader.size()
        if not reader.take("="):
            reader.fail("an operator or '='")
        pairs.append((left, reader.size()))
        if not reader.at_end() and not reader.take(*separators):
            reader.fail("an operator, a comma or a new line")


def check_tag_name(name: str) -> str:
    """The tag that this name spells, normalised; nothing but a name may stand there.

    >>> check_tag_name("d_{k}"), check_tag_name("n'")
    ('d_k', "n'")

    Raises `SizeSyntaxError`, which points at the place.
    """
    reader = SizeReader(name, "a tag's name", MAX_LENGTH, blanks=False)
    tag = reader.name()
    if tag is None:
        reader.fail("a letter")
    if reader.position < len(reader.text):
        reader.fail("a letter, a digit or '_'")
    return tag


def as_size(value: SizeLike) -> Size:
    """The size that an integer, a text or a size stands for.

    >>> as_size("2*n") == 2 * as_size("n"), as_size(3)
    (True, Size('3'))

    Raises `SizeSyntaxError` for a text outside the grammar, `SizeError` for anything else.
    """
    if isinstance(value, Size):
        return value
    return parse_size(value) if isinstance(value, str) else Size.of(value)


@dataclass(slots=True)
class SizeReader(Characters):
    """A recursive-descent reader of sizes."""

    depth: int = 0

    def size(self) -> Size:
        start = self.position
        total = -self.term() if self.take("-") else self.term()
        while sign := self.take("+", "-"):
            total = self.combined(sign, total, self.term(), start)
        return total

    def term(self) -> Size:
        product = self.power()
        while sign := self.times():
            place = self.position - len(sign)
            product = self.combined(sign, product, self.power(), place)
        return product

    def times(self) -> str | None:
        """The sign between two factors, if one follows."""
        return self.take("*", "//")

    def power(self) -> Size:
        start = self.position
        base = self.atom()
        if not self.take("^", "**"):
            return base
        self.skip()
        place = self.position
        exponent = self.integer()
        if exponent is None:
            self.fail("an integer exponent")
        if exponent > MAX_EXPONENT:
            self.fail(f"an exponent of at most {MAX_EXPONENT}", place)
        raised = Size.of(1)
        for _ in range(exponent):
            raised = self.combined("*", raised, base, start)
        return raised

    def atom(self) -> Size:
        name = self.name()
        if name is not None:
            return Size.tag(name)
        integer = self.integer()
        if integer is not None:
            return Size.of(integer)
        opening = self.position
        if not self.take("("):
            self.fail("a tag, an integer or '('")
        if self.depth == MAX_DEPTH:
            self.fail(f"at most {MAX_DEPTH} levels of parentheses", opening)
        self.depth += 1
        size = self.size()
        if not self.take(")"):
            self.fail("an operator or ')'")
        self.depth -= 1
        return size

    def combined(self, sign: str, left: Size, right: Size, place: int) -> Size:
        """Carry out one operation; what it cannot give, or gives too large, fails at the place."""
        try:
            size = _OPERATIONS[sign](left, right)
        except SizeError as error:
            # `from None`: the arithmetic's own error says the same without the place.
            expected = f"{_EXPECTED[error.problem]} ({error})"
            raise SizeSyntaxError(self.text, place, expected, what=self.what) from None
        powers = [exponent for _, monomial in size.terms for _, exponent in monomial]
        if len(size.terms) > MAX_TERMS:
            self.fail(f"at most {MAX_TERMS} terms", place)
        if any(abs(coefficient) >= 10**MAX_DIGITS for coefficient, _ in size.terms):
            self.fail(f"coefficients of at most {MAX_DIGITS} digits", place)
        if max(powers, default=0) > MAX_EXPONENT:
            self.fail(f"exponents of at most {MAX_EXPONENT}", place)
        return size
