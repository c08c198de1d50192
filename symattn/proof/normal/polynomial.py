"""The proof normal form: arithmetic on polynomials in atoms.

What each constructor does makes most laws of attention hold without being stated:

* ``sum`` distributes over terms, merges nested sums (associativity), splits into connected factors
  and drops the indices that nothing uses, so that ``Z · Z⁻¹`` cancels by adding powers;
* ``exp`` is one factor for each term of its argument, so shift invariance is adding powers;
* ``power`` distributes over factors and pulls common factors out of a sum first, which proves the
  merge of two key blocks.

Invariant: every rewriting here is an equality for all finite real inputs and all sizes ≥ 1, wherever
both sides are defined; what a proof divides by is listed by `symattn.proof.normal.lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import gcd, lcm

import sympy

from symattn.meaning.functions import FUNCTIONS
from symattn.proof.normal.atoms import (
    UNIT,
    Atoms,
    BudgetSpentError,
    Key,
    Monomial,
    Polynomial,
)
from symattn.proof.normal.labelling import Symmetry
from symattn.tags import Quotient, Size

ONE = Fraction(1)
MOST_MONOMIALS = 4096
SWAP = Symmetry(even=((1, 0),))

# Kinds of bases whose value is 0 or 1: every positive power of one is the base itself.
TRUTHS = frozenset({"same", "at most", "allowed"})


class UndefinedError(Exception):
    """Something divides by zero for every input."""


class Algebra(Atoms):
    """Arithmetic of the normal form; every method returns polynomials in normal form."""

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
            factors = [
                ((self.base("extent", atom, positive=True), ()), Fraction(exponent))
                for atom, exponent in powers
            ]
            result = self.add(result, self.scale(self.product_of(factors), Fraction(coefficient)))
        return result

    def same(self, left: int, right: int) -> Polynomial:
        """Return ``[left = right]``."""
        base = self.base("same", self.sizes[left], nonnegative=True, symmetry=SWAP)
        return self.atom(base, (left, right))

    # Sums, products, powers.

    def add(self, *polynomials: Polynomial) -> Polynomial:
        """Return the sum."""
        result: Polynomial = {}
        for polynomial in polynomials:
            for monomial, coefficient in polynomial.items():
                total = result.get(monomial, 0) + coefficient
                if total:
                    result[monomial] = Fraction(total)
                else:
                    result.pop(monomial, None)
        self._measured(result)
        return result

    def scale(self, polynomial: Polynomial, factor: Fraction) -> Polynomial:
        """Return the polynomial times a constant."""
        return {m: c * factor for m, c in polynomial.items()} if factor else {}

    def multiply(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """Return the product, distributed."""
        result: Polynomial = {}
        for one, c in left.items():
            for other, d in right.items():
                self.count(1)
                term = self.product_of([*one, *other])
                result = self.add(result, self.scale(term, c * d))
        return result

    def _measured(self, polynomial: Polynomial) -> None:
        if len(polynomial) > MOST_MONOMIALS:
            raise BudgetSpentError(f"more than {MOST_MONOMIALS:,} monomials")

    def product_of(self, factors: Iterable[tuple[Key, Fraction]]) -> Polynomial:
        """Return a product of powers of atoms; opens sums that are raised to a natural power."""
        powers: dict[Key, Fraction] = {}
        coefficient = ONE
        for (base, args), power in factors:
            args, sign = self._least(base, args, power)
            coefficient *= sign
            powers[base, args] = powers.get((base, args), Fraction(0)) + power
        opened: list[Polynomial] = []
        for key, power in list(powers.items()):
            kind = self.bases[key[0]].kind
            if power == 0:
                del powers[key]
            elif kind == "same" and len(set(key[1])) == 1:
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
        result = self._identified(powers, coefficient)
        for polynomial in opened:
            result = self.multiply(result, polynomial)
        return result

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
        if natural:
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
            return self._monomial_power(monomial, coefficient, exponent)
        content, monomial, rest = self._content(polynomial, exponent)
        outside = self._monomial_power(monomial, content, exponent)
        if exponent.denominator == 1 and not self.positive(rest):
            sign, closure, args, symmetry = self.oriented(rest)
        else:
            closure, args = self.close(rest)
            sign, symmetry = 1, Symmetry(self.closures[closure].symmetries)
        positive = self.positive(self.closures[closure].body)
        base = self.base("power", closure, positive=positive, symmetry=symmetry)
        factor = self.product_of([((base, args), exponent)])
        turned = ONE if sign > 0 else Fraction(-1) ** int(exponent)
        return self.scale(self.multiply(outside, factor), turned)

    def _monomial_power(
        self, monomial: Monomial, coefficient: Fraction, exponent: Fraction
    ) -> Polynomial:
        if exponent.denominator == 1:
            factors = [(key, power * exponent) for key, power in monomial]
            return self.scale(self.product_of(factors), coefficient ** int(exponent))
        positive = [(k, p * exponent) for k, p in monomial if self.bases[k[0]].positive]
        other = frozenset((k, p) for k, p in monomial if not self.bases[k[0]].positive)
        sign = -1 if coefficient < 0 else 1
        factors = positive + self._primes(abs(coefficient), exponent)
        if other or sign < 0:
            closure, args = self.close({other: Fraction(sign)})
            symmetry = Symmetry(self.closures[closure].symmetries)
            base = self.base("power", closure, symmetry=symmetry)
            factors.append(((base, args), exponent))
        return self.product_of(factors)

    def _primes(self, value: Fraction, exponent: Fraction) -> list[tuple[Key, Fraction]]:
        """Return a power of a positive rational as powers of primes."""
        factors: list[tuple[Key, Fraction]] = []
        for part, sign in ((value.numerator, 1), (value.denominator, -1)):
            for prime, multiplicity in sympy.factorint(part, limit=10_000).items():
                base = self.base("prime", int(prime), positive=True)
                factors.append(((base, ()), sign * multiplicity * exponent))
        return factors

    def _content(
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
            rest = self.add(rest, self.scale(term, coefficient / content))
        return content, frozenset(shared.items()), rest

    # Functions.

    def exp(self, polynomial: Polynomial) -> Polynomial:
        """Return the exponential: one factor for each term, its coefficient as the power."""
        factors: list[tuple[Key, Fraction]] = []
        for monomial, coefficient in self.cancelled(polynomial).items():
            if any(self.bases[base].symmetry.odd for (base, _), _ in monomial):
                sign, closure, args, symmetry = self.oriented({monomial: ONE})
            else:
                closure, args = self.close({monomial: ONE})
                sign, symmetry = 1, Symmetry(self.closures[closure].symmetries)
            # A change of sign in the argument inverts the exponential: no odd symmetry is kept.
            base = self.base("exp", closure, positive=True, symmetry=Symmetry(symmetry.even))
            factors.append(((base, args), sign * coefficient))
        return self.product_of(factors)

    def function(self, name: str, polynomial: Polynomial) -> Polynomial:
        """Return an elementwise function that has no definition, or the exponential."""
        if name == "exp":
            return self.exp(polynomial)
        polynomial = self.cancelled(polynomial)
        row = FUNCTIONS.get(name)
        if name == "log" and self.positive(polynomial):
            return self._log(polynomial)
        if row is not None and row.odd:
            if not polynomial:
                return {}
            sign, closure, args, symmetry = self.oriented(polynomial)
        else:
            closure, args = self.close(polynomial)
            sign, symmetry = 1, Symmetry(self.closures[closure].symmetries)
        positive = row is not None and row.positive
        base = self.base("function", (name, closure), positive=positive, symmetry=symmetry)
        return self.scale(self.atom(base, args), Fraction(sign))

    def _log(self, polynomial: Polynomial) -> Polynomial:
        """Return the logarithm of something positive: a sum over its positive factors."""
        content, monomial, rest = self._content(polynomial, Fraction(1, 2))
        if len(rest) == 1:
            ((left, coefficient),) = rest.items()
            content, monomial, rest = content * coefficient, monomial | left, {}
        result: Polynomial = {}
        for (base, args), power in (*monomial, *self._primes(content, ONE)):
            if self.bases[base].kind == "exp":
                part = self.opened((base, args))[0]
            else:
                part = self._opaque_log(self.atom(base, args))
            result = self.add(result, self.scale(part, power))
        return self.add(result, self._opaque_log(rest)) if rest else result

    def _opaque_log(self, polynomial: Polynomial) -> Polynomial:
        closure, args = self.close(polynomial)
        symmetry = Symmetry(self.closures[closure].symmetries)
        return self.atom(self.base("function", ("log", closure), symmetry=symmetry), args)

    def at_most(self, gap: Polynomial) -> Polynomial:
        """Return ``[gap ≥ 0]`` for a gap that is a whole number."""
        if not gap:
            return self.number(1)
        if set(gap) == {UNIT}:
            return self.number(1 if gap[UNIT] >= 0 else 0)
        opposite = self.add(self.scale(gap, Fraction(-1)), self.number(-1))
        closure, args = self.close(gap)
        other, other_args = self.close(opposite)
        if closure <= other:
            return self._truth(closure, args)
        return self.add(
            self.number(1), self.scale(self._truth(other, other_args), Fraction(-1))
        )

    def _truth(self, closure: int, args: tuple[int, ...]) -> Polynomial:
        symmetry = Symmetry(self.closures[closure].symmetries)
        return self.atom(self.base("at most", closure, nonnegative=True, symmetry=symmetry), args)

    def inverse_or_zero(self, polynomial: Polynomial) -> Polynomial:
        """Return ``inv0(P)``: the reciprocal, and 0 where P is 0; P is not negative."""
        if not polynomial:
            return {}
        if self.positive(polynomial):
            return self.power(polynomial, Fraction(-1))
        content, shared, rest = self._content(polynomial, Fraction(-1))
        factors: list[tuple[Key, Fraction]] = []
        for key, power in shared:
            base = self.bases[key[0]]
            if base.positive:
                factors.append((key, -power))
            elif base.kind in TRUTHS:
                factors.append((key, power))
            else:
                rest = self.multiply(rest, {frozenset([(key, power)]): ONE})
        if len(rest) == 1:
            ((monomial, coefficient),) = rest.items()
            content *= coefficient
            for key, power in monomial:
                base = self.bases[key[0]]
                if base.positive:
                    factors.append((key, -power))
                elif base.kind in TRUTHS:
                    factors.append((key, power))
                else:
                    factors.append((self._inverse_base({frozenset([(key, power)]): ONE}), ONE))
        else:
            factors.append((self._inverse_base(rest), ONE))
        return self.scale(self.product_of(factors), 1 / content)

    def _inverse_base(self, polynomial: Polynomial) -> Key:
        closure, args = self.close(polynomial)
        symmetry = Symmetry(self.closures[closure].symmetries)
        return self.base("inv0", closure, nonnegative=True, symmetry=symmetry), args

    # Binders.

    def sum(self, polynomial: Polynomial, index: int) -> Polynomial:
        """Return ``Σ_index P``."""
        result: Polynomial = {}
        for monomial, coefficient in self.cancelled(polynomial).items():
            result = self.add(result, self.scale(self._sum_of(monomial, index), coefficient))
        return result

    def _sum_of(self, monomial: Monomial, index: int) -> Polynomial:
        outside = frozenset(factor for factor in monomial if index not in factor[0][1])
        inside = monomial - outside
        if not inside:
            return self.multiply({outside: ONE}, self.extent(self.sizes[index]))
        for key, power in inside:
            if self.bases[key[0]].kind == "same":
                (other,) = (i for i in key[1] if i != index)
                rest = self.rename({inside - {(key, power)}: ONE}, {index: other})
                return self.multiply({outside: ONE}, rest)
        merged, bound = self._merged(inside, index)
        if len(merged) != 1 or self._identifies(merged, bound):
            for i in reversed(bound):
                merged = self.sum(merged, i)
            return self.multiply({outside: ONE}, merged)
        ((factors, coefficient),) = merged.items()
        result: Polynomial = {outside: coefficient}
        for part, indices in _components(factors, bound):
            result = self.multiply(result, self._sum_atom(part, indices))
        return result

    def _merged(self, factors: Monomial, index: int) -> tuple[Polynomial, list[int]]:
        """Open the sums among the factors, so that a sum of sums is one sum (associativity)."""
        product, bound = self.number(1), [index]
        for key, power in factors:
            is_sum = self.bases[key[0]].kind == "sum" and power.denominator == 1 and power > 0
            for _ in range(int(power) if is_sum else 1):
                if is_sum:
                    body, fresh = self.opened(key)
                    bound += fresh
                else:
                    body = {frozenset([(key, power)]): ONE}
                product = self.multiply(product, body)
        return product, bound

    def _identifies(self, polynomial: Polynomial, bound: list[int]) -> bool:
        """Tell whether ``[i = j]`` with a bound index is left to remove, or an index is unused."""
        (monomial,) = polynomial
        used = {i for (_, args), _ in monomial for i in args}
        return not used.issuperset(bound) or any(
            self.bases[base].kind == "same" and not set(args).isdisjoint(bound)
            for (base, args), _ in monomial
        )

    def _sum_atom(self, factors: Monomial, bound: tuple[int, ...]) -> Polynomial:
        """Return the sum of one connected product over all the bound indices in it."""
        if not bound:
            return {factors: ONE}
        body = {factors: ONE}
        if any(self.bases[base].symmetry.odd for (base, _), _ in factors):
            sign, closure, args, symmetry = self.oriented(body, bound)
        else:
            closure, args = self.close(body, bound)
            sign, symmetry = 1, Symmetry(self.closures[closure].symmetries)
        inner = self.closures[closure].body
        base = self.base(
            "sum",
            closure,
            positive=self.positive(inner),
            nonnegative=self.nonnegative(inner),
            symmetry=symmetry,
        )
        return self.scale(self.atom(base, args), Fraction(sign))

    def maximum(self, polynomial: Polynomial, indices: tuple[int, ...]) -> Polynomial:
        """Return ``max P`` over some indices; what does not depend on them is pulled out."""
        polynomial = self.cancelled(polynomial)
        bound = set(indices)
        outside: Polynomial = {}
        inside: Polynomial = {}
        for monomial, coefficient in polynomial.items():
            depends = any(not bound.isdisjoint(args) for (_, args), _ in monomial)
            (inside if depends else outside)[monomial] = coefficient
        if not inside:
            return outside
        used = {i for monomial in inside for (_, args), _ in monomial for i in args}
        content, shared, rest = self._content(inside, Fraction(1, 2))
        constant = frozenset(f for f in shared if bound.isdisjoint(f[0][1]))
        rest = self.multiply(rest, {shared - constant: ONE})
        closure, args = self.close(rest, tuple(i for i in indices if i in used))
        symmetry = Symmetry(self.closures[closure].symmetries)
        base = self.base(
            "max",
            closure,
            positive=self.positive(self.closures[closure].body),
            nonnegative=self.nonnegative(self.closures[closure].body),
            symmetry=symmetry,
        )
        largest = self.scale(self.multiply({constant: ONE}, self.atom(base, args)), content)
        return self.add(outside, largest)

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
                if collapsed and self.bases[base].kind in _REBUILD:
                    again = _REBUILD[self.bases[base].kind](self, (base, named))
                    rebuilt.append(self.power(again, power))
                else:
                    plain.append(((base, named), power))
            term = self.product_of(plain)
            for factor in rebuilt:
                term = self.multiply(term, factor)
            result = self.add(result, self.scale(term, coefficient))
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

    def equal(self, left: Polynomial, right: Polynomial) -> bool:
        """Tell whether two polynomials are the same, denominators cleared."""
        gap = self.cancelled(self.add(left, self.scale(right, Fraction(-1))))
        for _ in range(len(self.bases)):
            worst = {
                key: power
                for monomial in gap
                for key, power in monomial
                if power < 0 and self.bases[key[0]].kind == "power"
            }
            if not worst:
                break
            key = min(worst)
            least = min(p for m in gap for k, p in m if k == key)
            gap = self.multiply(gap, {frozenset([(key, Fraction(-(least // 1)))]): ONE})
        return not gap


def _components(
    factors: Monomial, bound: Iterable[int]
) -> list[tuple[Monomial, tuple[int, ...]]]:
    """Split a product into parts that share no bound index, each with its bound indices."""
    bound = set(bound)
    parts: list[tuple[set[tuple[Key, Fraction]], set[int]]] = []
    for factor in factors:
        group, indices = {factor}, bound.intersection(factor[0][1])
        apart = []
        for other, theirs in parts:
            if indices.isdisjoint(theirs):
                apart.append((other, theirs))
            else:
                group |= other
                indices |= theirs
        parts = [*apart, (group, indices)]
    return [(frozenset(group), tuple(sorted(indices))) for group, indices in parts]


def _rebuilt_sum(algebra: Algebra, key: Key) -> Polynomial:
    body, fresh = algebra.opened(key)
    for index in reversed(fresh):
        body = algebra.sum(body, index)
    return body


def _rebuilt_maximum(algebra: Algebra, key: Key) -> Polynomial:
    body, fresh = algebra.opened(key)
    return algebra.maximum(body, tuple(fresh))


# When a renaming makes two arguments of a base equal, its body is no longer in normal form.
_REBUILD: dict[str, Callable[[Algebra, Key], Polynomial]] = {
    "exp": lambda algebra, key: algebra.exp(algebra.opened(key)[0]),
    "function": lambda algebra, key: algebra.function(
        algebra.bases[key[0]].content[0], algebra.opened(key)[0]
    ),
    "power": lambda algebra, key: algebra.opened(key)[0],
    "at most": lambda algebra, key: algebra.at_most(algebra.opened(key)[0]),
    "inv0": lambda algebra, key: algebra.inverse_or_zero(algebra.opened(key)[0]),
    "sum": _rebuilt_sum,
    "max": _rebuilt_maximum,
}
