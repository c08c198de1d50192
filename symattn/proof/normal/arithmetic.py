"""The proof normal form: sums, products and powers of atoms.

``power`` distributes over factors and pulls common factors out of a sum first, which is what proves
the merge of two key blocks; a product of powers adds them, which is what lets ``Z · Z⁻¹`` cancel.

Invariant: every rewriting here is an equality for all finite real inputs and all sizes ≥ 1,
wherever both sides are defined.  What a proof divides by is listed in `lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import gcd, lcm
from typing import Any, TypeVar

import sympy

from symattn.proof.normal.atoms import (
    UNIT,
    Atoms,
    BudgetSpentError,
    Key,
    Monomial,
    Polynomial,
)
from symattn.proof.normal.labelling import Symmetry
from symattn.tags import Atom, Quotient, Size

ONE = Fraction(1)
MOST_MONOMIALS = 4096
MOST_EXPONENT = 64
MOST_BITS = 20_000
SWAP = Symmetry(even=((1, 0),))

# Kinds of bases whose value is 0 or 1: every positive power of one is the base itself.
TRUTHS = frozenset({"same", "at most", "allowed", "any"})

_Rebuild = TypeVar("_Rebuild", bound=Callable[[Any, Key], Polynomial])
_REBUILD: dict[str, Callable[[Any, Key], Polynomial]] = {}


def rebuilds(kind: str) -> Callable[[_Rebuild], _Rebuild]:
    """Register how a base of that kind is made again from its body.

    When a renaming makes two of its indices equal, the body is no longer in normal form.
    """

    def register(rebuild: _Rebuild) -> _Rebuild:
        _REBUILD[kind] = rebuild
        return rebuild

    return register


class UndefinedError(Exception):
    """Something divides by zero for every input."""


class Arithmetic(Atoms):
    """Sums, products and powers; every method returns polynomials in normal form."""

    # Constants and atoms.

    def number(self, value: Fraction | int) -> Polynomial:
        """Return a constant."""
        return {UNIT: Fraction(value)} if value else {}

    def atom(self, base: int, args: tuple[int, ...] = ()) -> Polynomial:
        """Return a base applied to indices."""
        return self.product_of([((base, args), ONE)])

    def extent(self, size: Size) -> Polynomial:
        """Return a size as a number: a polynomial in tags, each of which is positive."""
        result: Polynomial = {}
        for coefficient, powers in size.terms:
            term = self.number(1)
            for atom, exponent in powers:
                term = self.multiply(term, self.power(self._extent_of(atom), Fraction(exponent)))
            self.accumulate(result, term, Fraction(coefficient))
        return result

    def _extent_of(self, atom: Atom) -> Polynomial:
        if isinstance(atom, Quotient):
            divisor = self.power(self.extent(atom.den), Fraction(-1))
            return self.multiply(self.extent(atom.num), divisor)
        return self.atom(self.base("extent", atom, positive=True))

    def same(self, left: int, right: int) -> Polynomial:
        """Return ``[left = right]``."""
        base = self.base("same", self.sizes[left], nonnegative=True, symmetry=SWAP)
        return self.atom(base, (left, right))

    # Sums, products, powers.

    def add(self, *polynomials: Polynomial) -> Polynomial:
        """Return the sum."""
        result: Polynomial = {}
        for polynomial in polynomials:
            self.accumulate(result, polynomial)
        return result

    def accumulate(
        self, result: Polynomial, polynomial: Polynomial, factor: Fraction = ONE
    ) -> None:
        """Add a multiple of a polynomial to one that is being built."""
        for monomial, coefficient in polynomial.items():
            # Fractions are slow, and most sums have one term, most factors are one.
            total = coefficient if factor is ONE else coefficient * factor
            if monomial in result:
                total += result[monomial]
            if total:
                result[monomial] = total
            else:
                result.pop(monomial, None)
        if len(result) > MOST_MONOMIALS:
            raise BudgetSpentError(f"more than {MOST_MONOMIALS:,} monomials")

    def scale(self, polynomial: Polynomial, factor: Fraction) -> Polynomial:
        """Return the polynomial times a constant."""
        if factor == 1:
            return dict(polynomial)
        return {m: c * factor for m, c in polynomial.items()} if factor else {}

    def multiply(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return the product, distributed."""
        result: Polynomial = {}
        for one, c in left.items():
            for other, d in right.items():
                self.count(1)
                self.accumulate(result, self.product_of([*one, *other]), c * d)
        return result

    def product_of(self, factors: Iterable[tuple[Key, Fraction]]) -> Polynomial:
        """Return a product of powers of atoms; opens sums that are raised to a natural power."""
        powers: dict[Key, Fraction] = {}
        coefficient = ONE
        for (base, args), power in factors:
            args, sign = self._least(base, args, power)
            if sign != 1:
                coefficient *= sign
            key = base, args
            powers[key] = powers[key] + power if key in powers else power
        opened: list[Polynomial] = []
        for key, power in list(powers.items()):
            kind = self.bases[key[0]].kind
            if power == 0 or (kind == "same" and len(set(key[1])) == 1):
                del powers[key]
            elif kind in TRUTHS and power > 0:
                powers[key] = ONE
            elif kind == "prime" and not 0 < power < 1:
                whole = power.numerator // power.denominator
                coefficient *= Fraction(self.bases[key[0]].content) ** whole
                powers[key] = power - whole
                if powers[key] == 0:
                    del powers[key]
            elif kind == "power" and power.denominator == 1 and power > 0:
                del powers[key]
                opened += [self.opened(key)[0]] * int(power)
        if not self.known_truths(powers):
            return {}
        without = self.inverted(powers)
        if without is not None:
            result = self.scale(without, coefficient)
        else:
            result = self._identified(powers, coefficient)
        for polynomial in opened:
            result = self.multiply(result, polynomial)
        return result

    # What `truths` knows of products with conditions in them.

    def known_truths(self, powers: dict[Key, Fraction]) -> bool:
        """Take out conditions that others imply; tell whether they can hold together."""
        raise NotImplementedError

    def inverted(self, powers: dict[Key, Fraction]) -> Polynomial | None:
        """Return a product without ``Z · inv0(Z)``, or None if it has none."""
        raise NotImplementedError

    def gathered(self, polynomial: Polynomial) -> Polynomial:
        """Replace ``Z · inv0(Z)`` where Z is a sum of several terms."""
        raise NotImplementedError

    def _identified(self, powers: Mapping[Key, Fraction], coefficient: Fraction) -> Polynomial:
        """Write every other factor of ``[i = j]`` with the smaller of the two indices."""
        for base, args in powers:
            if self.bases[base].kind != "same":
                continue
            low, high = sorted(args)
            others = [(key, power) for key, power in powers.items() if key != (base, args)]
            if any(high in key[1] for key, _ in others):
                renamed = self.rename({frozenset(others): coefficient}, {high: low})
                return self.multiply(renamed, {frozenset([((base, args), ONE)]): ONE})
        return {frozenset(powers.items()): coefficient}

    def _least(
        self, base: int, args: tuple[int, ...], power: Fraction
    ) -> tuple[tuple[int, ...], int]:
        symmetry = self.bases[base].symmetry
        if not symmetry.even and not symmetry.odd:
            return args, 1
        return min(symmetry.images(args, power))

    def power(self, polynomial: Polynomial, exponent: Fraction) -> Polynomial:
        """Return a rational power; a negative one of zero raises `UndefinedError`."""
        natural = exponent.denominator == 1 and exponent >= 0
        if natural and len(polynomial) == 1:
            ((monomial, coefficient),) = polynomial.items()
            return self.monomial_power(monomial, coefficient, exponent)
        if natural:
            if exponent > MOST_EXPONENT and polynomial:
                raise BudgetSpentError(f"a sum to a power over {MOST_EXPONENT}")
            result = self.number(1)
            for _ in range(int(exponent)):
                result = self.multiply(result, polynomial)
            return result
        polynomial = self.cancelled(polynomial)
        if not polynomial:
            if exponent < 0:
                raise UndefinedError("it divides by zero for every input")
            return {}
        if len(polynomial) == 1:
            ((monomial, coefficient),) = polynomial.items()
            return self.monomial_power(monomial, coefficient, exponent)
        content, monomial, rest = self.content(polynomial, exponent)
        outside = self.monomial_power(monomial, content, exponent)
        signed = exponent.denominator == 1 and not self.positive(rest)
        sign, closure, args, symmetry = (self.oriented if signed else self.plain)(rest)
        positive = self.positive(self.closures[closure].body)
        base = self.base("power", closure, positive=positive, symmetry=symmetry)
        factor = self.product_of([((base, args), exponent)])
        turned = ONE if sign > 0 else Fraction(-1) ** int(exponent)
        return self.scale(self.multiply(outside, factor), turned)

    def monomial_power(
        self, monomial: Monomial, coefficient: Fraction, exponent: Fraction
    ) -> Polynomial:
        size = max(abs(coefficient.numerator), coefficient.denominator).bit_length() - 1
        if size * abs(exponent) > MOST_BITS:
            raise BudgetSpentError(f"a number of over {MOST_BITS:,} bits")
        if exponent.denominator == 1:
            factors = [(key, power * exponent) for key, power in monomial]
            return self.scale(self.product_of(factors), coefficient ** int(exponent))
        positive = [(k, p * exponent) for k, p in monomial if self.bases[k[0]].positive]
        other = frozenset((k, p) for k, p in monomial if not self.bases[k[0]].positive)
        sign = -1 if coefficient < 0 else 1
        factors = positive + self.primes(abs(coefficient), exponent)
        if other or sign < 0:
            _, closure, args, symmetry = self.plain({other: Fraction(sign)})
            base = self.base("power", closure, symmetry=symmetry)
            factors.append(((base, args), exponent))
        return self.product_of(factors)

    def primes(self, value: Fraction, exponent: Fraction) -> list[tuple[Key, Fraction]]:
        """Return a power of a positive rational as powers of primes."""
        factors: list[tuple[Key, Fraction]] = []
        for part, sign in ((value.numerator, 1), (value.denominator, -1)):
            for prime, multiplicity in sympy.factorint(part, limit=10_000).items():
                base = self.base("prime", int(prime), positive=True)
                factors.append(((base, ()), sign * multiplicity * exponent))
        return factors

    def content(
        self, polynomial: Polynomial, exponent: Fraction
    ) -> tuple[Fraction, Monomial, Polynomial]:
        """Return (c, M, R) with P = c·M·R: the factors that all terms share, c and R's are least.

        A fractional power takes out positive factors only.
        """
        coefficients = list(polynomial.values())
        content = Fraction(
            gcd(*(c.numerator for c in coefficients)), lcm(*(c.denominator for c in coefficients))
        )
        terms = [dict(monomial) for monomial in polynomial]
        shared: dict[Key, Fraction] = {}
        for key in {key for term in terms for key in term}:
            if exponent.denominator != 1 and not self.bases[key[0]].positive:
                continue
            least = min(term.get(key, Fraction(0)) for term in terms)
            if least:
                shared[key] = least
        if not shared:
            return content, UNIT, self.scale(polynomial, 1 / content)
        inverse = [(key, -power) for key, power in shared.items()]
        rest: Polynomial = {}
        for monomial, coefficient in polynomial.items():
            term = self.product_of([*monomial, *inverse])
            self.accumulate(rest, term, coefficient / content)
        return content, frozenset(shared.items()), rest

    # Opening and renaming.

    def opened(self, key: Key) -> tuple[Polynomial, list[int]]:
        """Return the body of a base at its arguments, and fresh indices for the bound ones."""
        base, args = key
        content = self.bases[base].content
        closure = self.closures[content if isinstance(content, int) else content[1]]
        fresh = [self.index(size) for size in closure.bound]
        return self.rename(closure.body, dict(enumerate((*args, *fresh)))), fresh

    def rename(self, polynomial: Polynomial, indices: Mapping[int, int]) -> Polynomial:
        """Substitute indices for indices, all at once."""
        result: Polynomial = {}
        for monomial, coefficient in polynomial.items():
            plain: list[tuple[Key, Fraction]] = []
            rebuilt: list[Polynomial] = []
            for (base, args), power in monomial:
                named = tuple(indices.get(i, i) for i in args)
                collapsed = len(set(named)) < len(set(args))
                rebuild = _REBUILD.get(self.bases[base].kind) if collapsed else None
                if rebuild is not None:
                    again = rebuild(self, (base, named))
                    rebuilt.append(self.power(again, power))
                else:
                    plain.append(((base, named), power))
            term = self.product_of(plain)
            for factor in rebuilt:
                term = self.multiply(term, factor)
            self.accumulate(result, term, coefficient)
        return result

    # Certificates and comparison.

    def nonnegative(self, polynomial: Polynomial) -> bool:
        """Tell whether a certificate shows that it is never negative."""
        return all(
            c > 0 and all(self._factor_sign(f) is not None for f in m)
            for m, c in polynomial.items()
        )

    def positive(self, polynomial: Polynomial) -> bool:
        """Tell whether a certificate shows that it is always positive."""
        return self.nonnegative(polynomial) and any(
            all(self._factor_sign(f) == 1 for f in m) for m in polynomial
        )

    def never_zero(self, polynomial: Polynomial) -> bool:
        """Tell whether a certificate shows that it is never zero where it is defined."""
        reciprocal = len(polynomial) == 1 and all(
            power < 0 or self._factor_sign((key, power)) == 1
            for monomial in polynomial
            for key, power in monomial
        )
        return reciprocal or self.positive(polynomial)

    def _factor_sign(self, factor: tuple[Key, Fraction]) -> int | None:
        """Return 1 for a positive factor, 0 for one that is not negative, None if unknown."""
        (base, _), power = factor
        if self.bases[base].positive:
            return 1
        if self.bases[base].nonnegative or (power.denominator == 1 and power.numerator % 2 == 0):
            return 0
        return None

    def cancelled(self, polynomial: Polynomial) -> Polynomial:
        """Cancel what is divided by: terms over one sum C whose numerators add to k·C."""
        polynomial = self.gathered(polynomial)
        denominators = {
            key
            for monomial in polynomial
            for key, power in monomial
            if power < 0 and power.denominator == 1 and self.bases[key[0]].kind == "power"
        }
        for key in denominators:
            body = self.opened(key)[0]
            for depth in sorted({-p for m in polynomial for k, p in m if k == key and p < 0}):
                over = {m: c for m, c in polynomial.items() if (key, -depth) in m}
                if len(over) < len(body):
                    continue
                numerators = {m - {(key, -depth)}: c for m, c in over.items()}
                quotient = self._quotient(numerators, body)
                if quotient is not None:
                    rest = {m: c for m, c in polynomial.items() if m not in over}
                    lowered = {frozenset([(key, 1 - depth)]) if depth != 1 else UNIT: ONE}
                    polynomial = self.add(rest, self.multiply(quotient, lowered))
        return polynomial

    def _quotient(self, numerators: Polynomial, body: Polynomial) -> Polynomial | None:
        """Return the monomial q with ``numerators = q · body``, or None if there is none."""
        first, coefficient = next(iter(body.items()))
        inverse = [(key, -power) for key, power in first]
        for monomial, c in numerators.items():
            quotient = self.scale(self.product_of([*monomial, *inverse]), c / coefficient)
            if self.multiply(quotient, body) == numerators:
                return quotient
        return None


@rebuilds("power")
def _rebuilt_power(algebra: Arithmetic, key: Key) -> Polynomial:
    return algebra.opened(key)[0]
