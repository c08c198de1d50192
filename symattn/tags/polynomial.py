"""Integer polynomials as plain tuples: the arithmetic beneath `Size`.

A polynomial is a tuple of terms (coefficient, monomial), a monomial a tuple of powers (atom,
exponent). An atom is anything hashable; what it means is no concern of this module. Equal
polynomials are equal tuples: like terms are collected, zeros left out, and everything stands in one
order, the one in which papers write it (`h*d_k`, counts before the widths that carry an index).

What can be built is bounded, so that no text or relation, however short, asks for endless work.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from typing import TypeAlias, TypeVar

from symattn.errors import SizeError

A = TypeVar("A", bound=Hashable)
Monomial: TypeAlias = tuple[tuple[A, int], ...]
Term: TypeAlias = tuple[int, Monomial[A]]
Polynomial: TypeAlias = tuple[Term[A], ...]

MAX_TERMS = 256
MAX_DEGREE = 256
MAX_BITS = 2048


def collected(
    terms: Iterable[Term[A]],
) -> Polynomial[A]:
    """The polynomial with these terms, like ones added, in order.

    >>> collected([(2, (("n", 1),)), (1, ()), (-2, (("n", 1),))])
    ((1, ()),)

    Raises `SizeError` beyond the bounds of this module.
    """
    sums: defaultdict[Monomial[A], int] = defaultdict(int)
    for coefficient, monomial in terms:
        sums[monomial] += coefficient
        if len(sums) > MAX_TERMS or sums[monomial].bit_length() > MAX_BITS:
            raise SizeError("too large")
    return tuple(sorted(((c, m) for m, c in sums.items() if c), key=_term_key))


def product(
    left: Iterable[Term[A]],
    right: Iterable[Term[A]],
) -> Polynomial[A]:
    """The product, expanded."""
    right = tuple(right)
    return collected((c * d, _joined(m, k)) for c, m in left for d, k in right)


def exact_quotient(
    num: Polynomial[A],
    den: Polynomial[A],
) -> Polynomial[A] | None:
    """num/den where that is a polynomial with integer coefficients, by long division, else None."""
    if not den:
        return None
    # What divides as a polynomial divides at every point. One point of large numbers rules out
    # nearly every pair that does not, before long division sets out on it.
    point = value(den, _landmark)
    if point and value(num, _landmark) % point:
        return None
    order = sorted({atom for _, m in (*num, *den) for atom, _ in m}, key=_atom_key)

    def degree(term: Term[A]) -> tuple[int, list[int]]:
        # Graded lexicographic order, which products respect: leading terms divide or nothing does.
        powers = dict(term[1])
        return sum(powers.values()), [powers.get(atom, 0) for atom in order]

    lead, lead_monomial = max(den, key=degree)
    quotient: list[Term[A]] = []
    while num:
        coefficient, monomial = max(num, key=degree)
        powers = dict(monomial)
        for atom, exponent in lead_monomial:
            powers[atom] = powers.get(atom, 0) - exponent
        if coefficient % lead or any(exponent < 0 for exponent in powers.values()):
            return None
        left = tuple((atom, exponent) for atom, exponent in powers.items() if exponent)
        quotient.append((coefficient // lead, left))
        if len(quotient) > MAX_TERMS:
            raise SizeError("too large")
        num = collected(chain(num, product([(-coefficient // lead, left)], den)))
    return collected(quotient)


def common_factor(
    terms: Polynomial[A],
) -> Term[A]:
    """The largest term that divides every one of these: an integer and a monomial."""
    shared = dict(terms[0][1])
    for _, monomial in terms[1:]:
        powers = dict(monomial)
        shared = {atom: min(e, powers[atom]) for atom, e in shared.items() if atom in powers}
    return math.gcd(*(c for c, _ in terms)), tuple(shared.items())


def value(terms: Polynomial[A], number: Callable[[A], int]) -> int:
    """The integer that the polynomial is where each atom is this number."""
    return sum(c * math.prod(number(atom) ** e for atom, e in m) for c, m in terms)


def _landmark(atom: Hashable) -> int:
    return (1 << 32) + zlib.crc32(str(atom).encode())


def _joined(left: Monomial[A], right: Monomial[A]) -> Monomial[A]:
    powers: defaultdict[A, int] = defaultdict(int)
    for atom, exponent in chain(left, right):
        powers[atom] += exponent
    if sum(powers.values()) > MAX_DEGREE:
        raise SizeError("too large")
    return tuple(sorted(powers.items(), key=lambda power: _atom_key(power[0])))


def _atom_key(atom: Hashable) -> tuple[bool, bool, str]:
    text = str(atom)
    return not isinstance(atom, str), "_" in text, text


def _term_key(term: Term[Hashable]) -> tuple[object, ...]:
    # What is added before what is taken away, and high powers first: n^2+m-1.
    coefficient, monomial = term
    degree = sum(exponent for _, exponent in monomial)
    return coefficient < 0, -degree, [(_atom_key(atom), -e) for atom, e in monomial]
