"""Sizes of axes as integer polynomials in tags: `h*d_k`, `2*n`, `n+m`, and exact division.

A tag stands for an unknown size, so an axis of size `h*(d_k+d_v)` is a polynomial, and two axes
agree for every choice of sizes exactly when their polynomials are equal. That is the one idea:
equality of sizes is equality of polynomials, decided by keeping them expanded, and sizes that
happen to agree prove nothing. `n` and `m` are never equal.

`a // b` is exact division. Where polynomial division carries it out, no trace of it is left
(`(h*d_k)//h` is `d_k`); where it cannot, the result holds a `Quotient`, which stands for the
rational function a/b together with the assumption that b divides a.

Invariants: terms are expanded, in one canonical order, and without zero coefficients; a `Quotient`
holds polynomials that have no quotient inside; a size that is equal to a polynomial has no quotient
in it. (Sizes that do hold quotients may be equal and yet be written differently.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from symattn.errors import SizeError
from symattn.tags import polynomial
from symattn.tags.counts import check_size


@dataclass(frozen=True, slots=True)
class Quotient:
    """An exact division that polynomial division cannot carry out: num/den, assuming den | num."""

    num: Size
    den: Size

    def __str__(self) -> str:
        return f"{_operand(self.num)}//{_operand(self.den, divisor=True)}"


Atom: TypeAlias = str | Quotient
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Term: TypeAlias = tuple[int, Monomial]

_HASH_MODULUS = (1 << 61) - 1
_MAX_DEN = 256  # terms that a common denominator may have, before it is multiplied out


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Size:
    """An integer polynomial in tags and quotients, immutable and hashable.

    >>> h, d_k, d_v = Size.tag("h"), Size.tag("d_k"), Size.tag("d_v")
    >>> h * (d_k + d_v) == h * d_k + h * d_v
    True
    >>> str(h * d_k // h), str(d_k // h), (d_k // h).assumptions
    ('d_k', 'd_k//h', ((Size('h'), Size('d_k')),))

    `terms` is a tuple of (coefficient, ((atom, exponent), …)), in canonical order. Build sizes with
    `Size.of`, `Size.tag`, `parse_size` and arithmetic, which keep that order.

    Raises `SizeError` for a division by zero or one of numbers that leaves a remainder.
    """

    terms: tuple[Term, ...]

    @staticmethod
    def of(value: int) -> Size:
        """The size that is this integer, of any sign (a polynomial may be `n-1`)."""
        number = check_size("a size", value, least=None)
        return Size(((number, ()),) if number else ())

    @staticmethod
    def tag(name: str) -> Size:
        """The size of this tag; the name is taken as it is (see `check_tag_name`)."""
        return Size(((1, ((name, 1),)),))

    # -- arithmetic: an int is taken as a constant

    def __add__(self, other: Size | int) -> Size:
        return _collected(chain(self.terms, _size(other).terms))

    def __neg__(self) -> Size:
        return _collected((-c, m) for c, m in self.terms)

    def __sub__(self, other: Size | int) -> Size:
        return self + -_size(other)

    def __rsub__(self, other: int) -> Size:
        return _size(other) - self

    def __mul__(self, other: Size | int) -> Size:
        return _collected(polynomial.product(self.terms, _size(other).terms))

    def __floordiv__(self, other: Size | int) -> Size:
        return _divided(self, _size(other))

    def __rfloordiv__(self, other: int) -> Size:
        return _divided(_size(other), self)

    def __pow__(self, exponent: int) -> Size:
        power = _ONE
        for _ in range(check_size("an exponent", exponent, least=0)):
            power = power * self
        return power

    __radd__ = __add__
    __rmul__ = __mul__

    # -- equality: of polynomials, or of rational functions where a quotient is left

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Size):
            return NotImplemented
        if self.terms == other.terms:
            return True
        if not (_has_quotient(self) and _has_quotient(other)):
            return False  # by the invariant that a size equal to a polynomial has no quotient
        (num, den), (other_num, other_den) = fraction(self), fraction(other)
        return (num * other_den).terms == (other_num * den).terms

    def __hash__(self) -> int:
        if not _has_quotient(self):
            return hash(self.terms)
        # Equal rational functions may be written with different quotients, so hash what they agree
        # on: the value at one fixed point of a large prime field.
        num, den = (_residue(part) for part in fraction(self))
        return hash((num * pow(den, -1, _HASH_MODULUS)) % _HASH_MODULUS) if den else 0

    # -- looking inside

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag, those inside quotients too, in the order in which `str` shows them."""
        names: dict[str, None] = {}
        for _, monomial in self.terms:
            for atom, _ in monomial:
                inside = (atom,) if isinstance(atom, str) else (*atom.num.tags, *atom.den.tags)
                names.update(dict.fromkeys(inside))
        return tuple(names)

    @property
    def single_tag(self) -> str | None:
        """The tag that this size is, if it is one tag as it stands, or None.

        >>> Size.tag("n").single_tag, (2 * Size.tag("n")).single_tag
        ('n', None)
        """
        match self.terms:
            case ((1, ((str() as tag, 1),)),):
                return tag
            case _:
                return None

    @property
    def constant(self) -> int | None:
        """The integer that this size is for every choice of its tags, or None."""
        if any(monomial for _, monomial in self.terms):
            return None
        return sum(coefficient for coefficient, _ in self.terms)

    @property
    def is_one(self) -> bool:
        """Whether this is the constant 1: an axis of this size has a single place."""
        return self.constant == 1

    @property
    def assumptions(self) -> tuple[tuple[Size, Size], ...]:
        """The exact divisions left in this size, as pairs (divisor, dividend)."""
        atoms = (atom for _, monomial in self.terms for atom, _ in monomial)
        found = {(a.den, a.num): None for a in atoms if isinstance(a, Quotient)}
        return tuple(found)

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """This size with each tag of the mapping replaced, all at once.

        >>> d_model, h = Size.tag("d_model"), Size.tag("h")
        >>> (d_model // h).substitute({"d_model": h * Size.tag("d_k")})
        Size('d_k')
        """
        if not any(tag in sizes for tag in self.tags):
            return self
        total = _ZERO
        for coefficient, monomial in self.terms:
            product = Size.of(coefficient)
            for atom, exponent in monomial:
                if isinstance(atom, str):
                    factor = sizes[atom] if atom in sizes else Size.tag(atom)
                else:
                    factor = atom.num.substitute(sizes) // atom.den.substitute(sizes)
                product = product * factor**exponent
            total = total + product
        return total

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number that this size is when its tags have these sizes.

        >>> (Size.tag("d_model") // Size.tag("h")).value({"d_model": 12, "h": 3})
        4

        Raises `SizeError` for a tag without a size, a division that leaves a remainder, or by zero.
        """
        missing = [tag for tag in self.tags if tag not in sizes]
        if missing:
            raise SizeError("unknown", tags=missing, size=str(self))
        return polynomial.value(self.terms, lambda atom: _atom_value(atom, sizes))

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = "".join(("-" if c < 0 else "+") + _term_text(abs(c), m) for c, m in self.terms)
        return text.removeprefix("+")

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"


def _collected(terms: Iterable[Term]) -> Size:
    """The size with these terms: like terms added, quotients that cancel cancelled, in order."""
    size = Size(polynomial.collected(terms))
    return _cancelled(size) if _has_quotient(size) else size


# -- quotients


def _has_quotient(size: Size) -> bool:
    return any(isinstance(atom, Quotient) for _, monomial in size.terms for atom, _ in monomial)


def _cancelled(size: Size) -> Size:
    """Carry out the divisions that have become exact: `h*(d//h)` is `d`, `n//2+n//2` is `n`."""
    num, den = fraction(size)
    whole = exact_quotient(num, den)
    if whole is not None:
        return whole
    # Terms that share a quotient have a cofactor in common: C * (num/den), where den may divide C
    # as a whole or some terms of it.
    groups: defaultdict[Monomial, list[Term]] = defaultdict(list)
    for term in size.terms:
        groups[tuple(power for power in term[1] if isinstance(power[0], Quotient))].append(term)
    for quotients, terms in groups.items():
        for atom, _ in quotients:
            assert isinstance(atom, Quotient)
            for part in (terms, *([term] for term in terms)):
                whole = exact_quotient(_without(part, quotients), atom.den)
                if whole is not None:
                    left = tuple((a, e - (a is atom)) for a, e in quotients if e - (a is atom))
                    others = _collected(term for term in size.terms if term not in part)
                    return others + whole * atom.num * Size(((1, left),))
    return size


def _without(terms: Iterable[Term], quotients: Monomial) -> Size:
    return Size(tuple((c, tuple(p for p in m if p not in quotients)) for c, m in terms))


def fraction(size: Size) -> tuple[Size, Size]:
    """Two polynomials without quotients whose ratio is this size."""
    if not _has_quotient(size):
        return size, _ONE
    dens: dict[Quotient, int] = {}
    for _, monomial in size.terms:
        for atom, exponent in monomial:
            if isinstance(atom, Quotient):
                dens[atom] = max(exponent, dens.get(atom, 0))
    num, den = _ZERO, _ONE
    if math.prod((len(a.num.terms) * len(a.den.terms)) ** e for a, e in dens.items()) > _MAX_DEN:
        raise SizeError("too large")
    for atom, exponent in dens.items():
        den = den * atom.den**exponent
    for coefficient, monomial in size.terms:
        powers = dict(monomial)
        product = Size(((coefficient, tuple(p for p in monomial if isinstance(p[0], str))),))
        for atom, exponent in dens.items():
            mine = powers.get(atom, 0)
            product = product * atom.num**mine * atom.den ** (exponent - mine)
        num = num + product
    return num, den


def _divided(dividend: Size, divisor: Size) -> Size:
    (num, num_den), (den_den, den) = fraction(dividend), fraction(divisor)[::-1]
    num, den = num * den_den, den * num_den
    text = f"{_operand(dividend)}//{_operand(divisor, divisor=True)}"
    if not den.terms:
        raise SizeError("zero division", size=text)
    whole = exact_quotient(num, den)
    if whole is not None:
        return whole
    num, den = _reduced(num, den)
    if num.constant is not None and den.constant is not None:
        detail = f"{num} divided by {den} leaves a remainder"
        raise SizeError("inexact", size=text, detail=detail)
    return Size(((1, ((Quotient(num, den), 1),)),))


def _reduced(num: Size, den: Size) -> tuple[Size, Size]:
    """Cancel what both have in common: an integer, a monomial, all of num, and the sign."""
    number, monomial = polynomial.common_factor((*num.terms, *den.terms))
    common = Size(((number if den.terms[0][0] > 0 else -number, monomial),))
    parts = [exact_quotient(part, common) for part in (num, den)]
    assert parts[0] is not None and parts[1] is not None, "a common factor divides both"
    inverse = exact_quotient(parts[1], parts[0])
    return (_ONE, inverse) if inverse is not None else (parts[0], parts[1])


def exact_quotient(num: Size, den: Size) -> Size | None:
    """num/den where that is a polynomial with integer coefficients, else None.

    >>> h, d_k = Size.tag("h"), Size.tag("d_k")
    >>> exact_quotient(h * d_k, h), exact_quotient(d_k, h)
    (Size('d_k'), None)
    """
    terms = polynomial.exact_quotient(num.terms, den.terms)
    return None if terms is None else Size(terms)


def _residue(part: Size) -> int:
    return polynomial.value(part.terms, hash) % _HASH_MODULUS


def _atom_value(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return sizes[atom]
    num, den = atom.num.value(sizes), atom.den.value(sizes)
    if den == 0:
        raise SizeError("zero division", size=str(atom))
    if num % den:
        given = ", ".join(f"{tag} = {sizes[tag]}" for tag in (*atom.num.tags, *atom.den.tags))
        detail = f"{num} divided by {den} leaves a remainder ({given})"
        raise SizeError("inexact", size=str(atom), detail=detail)
    return num // den


# -- text


def _operand(size: Size, divisor: bool = False) -> str:
    """A factor as text: in parentheses where it would otherwise be read as something else."""
    text = str(size)
    loose = len(size.terms) > 1 or (size.terms and size.terms[0][0] < 0)
    return f"({text})" if loose or (divisor and ("*" in text or "//" in text)) else text


def _term_text(coefficient: int, monomial: Monomial) -> str:
    factors = [] if coefficient == 1 and monomial else [str(coefficient)]
    for atom, exponent in monomial:
        base = atom if isinstance(atom, str) else f"({atom})"
        if not isinstance(atom, str) and exponent == 1 and len(monomial) == 1 and coefficient == 1:
            base = str(atom)
        factors.append(base if exponent == 1 else f"{base}^{exponent}")
    return "*".join(factors)


def _size(value: Size | int) -> Size:
    return value if isinstance(value, Size) else Size.of(value)


_ZERO = Size(())
_ONE = Size(((1, ()),))
