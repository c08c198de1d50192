"""Sizes as the index forms that they are, so that one rule writes scalars and sizes.

``h*d_k + 2`` is a sum of products of powers; what is left whole is an atom, a tag or a quotient.
"""

from __future__ import annotations

from fractions import Fraction

from symattn.meaning.form import Add, Extent, Form, Mul, Number, Power
from symattn.tags import Atom, Monomial, Quotient, Size


def atom_of(size: Size) -> Atom | None:
    """Return the tag or the quotient that a size is, or None where it is more than one.

    >>> atom_of(Size.tag("n")), atom_of(Size.tag("n") + Size.of(1))
    ('n', None)
    """
    match size.terms:
        case ((1, ((atom, 1),)),):
            return atom
        case _:
            return None


def form_of(size: Size) -> Form:
    """Return a size in sums, products and powers of its atoms.

    >>> form_of(Size.of(2) * Size.tag("n"))  # doctest: +ELLIPSIS
    Mul(factors=(Number(value=Fraction(2, 1)), Extent(...)))
    """
    terms = tuple(_term(coefficient, monomial) for coefficient, monomial in size.terms)
    if not terms:
        return Number(Fraction(0))
    return terms[0] if len(terms) == 1 else Add(terms)


def _term(coefficient: int, monomial: Monomial) -> Form:
    factors: list[Form] = [_power(atom, exponent) for atom, exponent in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, Number(Fraction(coefficient)))
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def _power(atom: Atom, exponent: int) -> Form:
    whole = Size.tag(atom) if isinstance(atom, str) else _whole(atom)
    return Extent(whole) if exponent == 1 else Power(Extent(whole), Fraction(exponent))


def _whole(atom: Quotient) -> Size:
    return atom.num // atom.den
