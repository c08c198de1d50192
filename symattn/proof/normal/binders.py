"""The proof normal form: sums and maxima over bound indices, and the comparison of two forms.

``sum`` distributes over terms, merges nested sums (associativity), splits into connected factors
and drops the indices that nothing uses.  That leaves little symmetry, and makes equal
denominators equal atoms.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from symattn.proof.normal.arithmetic import ONE, rebuilds
from symattn.proof.normal.atoms import Key, Monomial, Polynomial
from symattn.proof.normal.truths import Truths


class Algebra(Truths):
    """The whole normal form."""

    def sum(self, polynomial: Polynomial, index: int) -> Polynomial:
        """Return ``Σ_index P``."""
        result: Polynomial = {}
        for monomial, coefficient in self.cancelled(polynomial).items():
            self.accumulate(result, self._sum_of(monomial, index), coefficient)
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
            summed = self._cancelling(part, indices) or self._sum_atom(part, indices)
            result = self.multiply(result, summed)
        return result

    def _cancelling(self, factors: Monomial, bound: tuple[int, ...]) -> Polynomial | None:
        """Sum first over an index whose sum is divided by, as in ``Σ_k Σ_j e^{s_jk} Z_k⁻¹ w_k``.

        A joint sum would hide that ``Σ_j e^{s_jk}`` is ``Z_k``: with this the order of summation
        does not matter.  Each cancellation removes a factor, so it comes to an end.
        """
        for index in bound:
            others = frozenset(factor for factor in factors if index not in factor[0][1])
            divisors = {
                key for key, power in others if power < 0 and self.bases[key[0]].kind == "sum"
            }
            if not divisors:
                continue
            inner = self._sum_of(factors - others, index)
            if len(inner) == 1 and not divisors.isdisjoint(key for m in inner for key, _ in m):
                result = self.multiply(inner, {others: ONE})
                for other in bound:
                    result = result if other == index else self.sum(result, other)
                return result
        return None

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
        signed = any(self.bases[base].symmetry.odd for (base, _), _ in factors)
        sign, closure, args, symmetry = (self.oriented if signed else self.plain)(body, bound)
        inner = self.closures[closure].body
        base = self.base(
            "sum",
            closure,
            positive=self.positive(inner) or self.certain(factors, bound),
            nonnegative=self.nonnegative(inner),
            symmetry=symmetry,
        )
        return self.scale(self.atom(base, args), Fraction(sign))

    def maximum(self, polynomial: Polynomial, indices: tuple[int, ...]) -> Polynomial:
        """Return ``max P`` over some indices; what does not depend on them is pulled out."""
        polynomial = self.cancelled(polynomial)
        if self.is_truth(polynomial):
            return self.any(polynomial, indices)
        bound = set(indices)
        outside: Polynomial = {}
        inside: Polynomial = {}
        for monomial, coefficient in polynomial.items():
            depends = any(not bound.isdisjoint(args) for (_, args), _ in monomial)
            (inside if depends else outside)[monomial] = coefficient
        if not inside:
            return outside
        used = {i for monomial in inside for (_, args), _ in monomial for i in args}
        content, shared, rest = self.content(inside, Fraction(1, 2))
        constant = frozenset(f for f in shared if bound.isdisjoint(f[0][1]))
        rest = self.multiply(rest, {shared - constant: ONE})
        _, closure, args, symmetry = self.plain(rest, tuple(i for i in indices if i in used))
        base = self.base(
            "max",
            closure,
            positive=self.positive(self.closures[closure].body),
            nonnegative=self.nonnegative(self.closures[closure].body),
            symmetry=symmetry,
        )
        largest = self.scale(self.multiply({constant: ONE}, self.atom(base, args)), content)
        return self.add(outside, largest)

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


def _components(factors: Monomial, bound: Iterable[int]) -> list[tuple[Monomial, tuple[int, ...]]]:
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


@rebuilds("sum")
def _rebuilt_sum(algebra: Algebra, key: Key) -> Polynomial:
    body, fresh = algebra.opened(key)
    for index in reversed(fresh):
        body = algebra.sum(body, index)
    return body


@rebuilds("max")
def _rebuilt_maximum(algebra: Algebra, key: Key) -> Polynomial:
    body, fresh = algebra.opened(key)
    return algebra.maximum(body, tuple(fresh))
