"""The proof normal form: conditions as 0 or 1, whether any place satisfies one, and its inverse.

A polynomial of truths is linear in each of them, which makes it canonical: two conditions built
from the same comparisons are equal as soon as they hold together.  What masks need beyond that:

* a sum under a mask is zero where nothing is allowed, so it is inverted by ``inv0``, and
  ``Z · inv0(Z)`` is **any**: 1 where some place is allowed, 0 elsewhere;
* a mask may have a *witness*, a place that is always allowed (for a causal mask with n = m, the
  diagonal); then "any" is 1 and the sum is positive.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction

from symattn.proof.normal.arithmetic import ONE, SWAP, TRUTHS, rebuilds
from symattn.proof.normal.atoms import UNIT, Key, Monomial, Polynomial
from symattn.proof.normal.functions import Functions

_MOST_TRUTHS = 6  # whose every combination is tried
_MOST_POSITIONS = 4

Indices = tuple[int, ...]


class Truths(Functions):
    """Comparisons of whole numbers, "any", and the reciprocal that is 0 at 0."""

    def __init__(self) -> None:
        super().__init__()
        # For each base "inv0": where what it inverts is not zero, over the slots of its closure.
        self._supports: dict[int, Polynomial] = {}
        # For each closure: whether it is certain not to be negative, whatever its indices.
        self._never_negative: dict[int, bool] = {}
        self._compared: dict[tuple[Key, Key], str] = {}

    # Comparisons.

    def at_most(self, gap: Polynomial) -> Polynomial:
        """Return ``[gap ≥ 0]`` for a gap that is a whole number."""
        opposite = self.add(self.scale(gap, Fraction(-1)), self.number(-1))
        if self.never_negative(gap):
            return self.number(1)
        if self.never_negative(opposite):
            return {}
        closure, args = self.close(gap)
        other, other_args = self.close(opposite)
        if closure <= other:
            return self._truth(closure, args)
        return self.add(self.number(1), self.scale(self._truth(other, other_args), Fraction(-1)))

    def _truth(self, closure: int, args: Indices) -> Polynomial:
        symmetry = self.closures[closure].symmetry
        return self.atom(self.base("at most", closure, nonnegative=True, symmetry=symmetry), args)

    def never_negative(self, gap: Polynomial) -> bool:
        """Tell whether a whole number is certain not to be negative.

        Sizes are at least 1, and a position lies between 0 and the size of its axis less 1.
        """
        closure, _ = self.close(gap)
        if closure not in self._never_negative:
            self._never_negative[closure] = self._is_never_negative(gap)
        return self._never_negative[closure]

    def _is_never_negative(self, gap: Polynomial) -> bool:
        positions = sorted({k for m in gap for k, _ in m if self.bases[k[0]].kind == "position"})
        if len(positions) > _MOST_POSITIONS:
            return False
        return any(
            self._no_negative_term(gap, from_the_end)
            for count in range(len(positions) + 1)
            for from_the_end in itertools.combinations(positions, count)
        )

    def _no_negative_term(self, gap: Polynomial, from_the_end: Iterable[Key]) -> bool:
        """Tell whether no term is negative once every variable is written as one that is ≥ 0.

        A size is 1 + x, a position is itself or, from the end, the size − 1 − y.
        """
        values: dict[Key, Polynomial] = {}
        for key in from_the_end:
            last = self._above_one(self.extent(self.bases[key[0]].content))
            if last is None:
                return False
            values[key] = self.add(
                last, self.number(-1), self.scale({frozenset([(key, ONE)]): ONE}, Fraction(-1))
            )
        written = self._above_one(gap, values)
        return written is not None and all(c >= 0 for c in written.values())

    def _above_one(
        self, polynomial: Polynomial, values: dict[Key, Polynomial] | None = None
    ) -> Polynomial | None:
        """Return a polynomial in sizes and positions with each size as 1 + x; None for others."""
        result: Polynomial = {}
        for monomial, coefficient in polynomial.items():
            term = self.number(coefficient)
            for key, power in monomial:
                kind = self.bases[key[0]].kind
                if kind not in ("extent", "position") or power.denominator != 1 or power < 0:
                    return None
                own: Polynomial = {frozenset([(key, ONE)]): ONE}
                value = self.add(self.number(1), own) if kind == "extent" else own
                value = (values or {}).get(key, value)
                for _ in range(int(power)):
                    term = self.multiply(term, value)
            self.accumulate(result, term)
        return result

    def known_truths(self, powers: dict[Key, Fraction]) -> bool:
        """Take out comparisons that others imply; tell whether they can hold together."""
        keys = [key for key in powers if self.bases[key[0]].kind == "at most"]
        for one, other in itertools.combinations(keys, 2):
            if one not in powers or other not in powers:
                continue
            found = self._comparison(one, other)
            if found == "contradict":
                return False
            if found == "one":
                del powers[one]
            elif found == "other":
                del powers[other]
            elif found == "equal":
                del powers[one], powers[other]
                powers[self._same_place(one)] = ONE
        for key in [key for key in powers if self.bases[key[0]].kind == "any"]:
            if self._met_by(key, powers):
                del powers[key]
        return True

    def _met_by(self, key: Key, powers: dict[Key, Fraction]) -> bool:
        """Tell whether "any" is 1 wherever the other factors are not 0: one says that a place is.

        A sum is not 0 only where one of its terms is not, and then the truths in that term hold.
        """
        held = {other for other in powers if other != key and self._is_true(other)}
        for other, power in powers.items():
            if self.bases[other[0]].kind == "sum" and power > 0:
                terms = [{k for k, _ in term if self._is_true(k)} for term in self.opened(other)[0]]
                held |= set.intersection(*terms)
        body, bound = self.opened(key)
        met = {i for _, args in held for i in args}
        ways = ([i for i in met if self.sizes[i] == self.sizes[index]] for index in bound)
        for there in itertools.product(*ways):
            found: Polynomial = {}
            for monomial, c in self.rename(body, dict(zip(bound, there, strict=True))).items():
                self.accumulate(found, {frozenset(f for f in monomial if f[0] not in held): c})
            if found == self.number(1):
                return True
        return False

    def _is_true(self, key: Key) -> bool:
        return self.bases[key[0]].kind in TRUTHS

    def _same_place(self, comparison: Key) -> Key:
        """Return ``[i = j]`` for a comparison of the positions i and j on one axis."""
        (left, right) = ((key for key, _ in m) for m in self.opened(comparison)[0])
        (position, (i,)), (_, (j,)) = *left, *right
        size = self.bases[position].content
        base = self.base("same", size, nonnegative=True, symmetry=SWAP)
        return base, tuple(sorted((i, j)))

    def _is_difference(self, gap: Polynomial) -> bool:
        """Tell whether a gap is the position of one index less that of another on its axis."""
        if len(gap) != 2 or sorted(gap.values()) != [-1, 1]:
            return False
        keys = [key for monomial in gap for key, _ in monomial]
        return (
            all(len(monomial) == 1 and next(iter(monomial))[1] == 1 for monomial in gap)
            and keys[0][0] == keys[1][0]
            and self.bases[keys[0][0]].kind == "position"
        )

    def _comparison(self, one: Key, other: Key) -> str:
        """Return how two comparisons are related: which is implied, "contradict", or "equal"."""
        if (one, other) not in self._compared:
            first, second = self.opened(one)[0], self.opened(other)[0]
            minus = Fraction(-1)
            found = ""
            if self.never_negative(self.add(first, self.scale(second, minus))):
                found = "one"
            elif self.never_negative(self.add(second, self.scale(first, minus))):
                found = "other"
            elif self.never_negative(self.scale(self.add(first, second, self.number(1)), minus)):
                found = "contradict"
            elif not self.add(first, second) and self._is_difference(first):
                found = "equal"  # i ≤ j and j ≤ i
            self._compared[one, other] = found
        return self._compared[one, other]

    # Polynomials that are 0 or 1.

    def is_truth(self, polynomial: Polynomial) -> bool:
        """Tell whether a polynomial of truths is 0 or 1 whatever holds."""
        keys = sorted({key for monomial in polynomial for key, _ in monomial})
        if len(keys) > _MOST_TRUTHS or not all(self.bases[k[0]].kind in TRUTHS for k in keys):
            return False
        return all(
            sum(c for m, c in polynomial.items() if all(holds[key] for key, _ in m)) in (0, 1)
            for values in itertools.product((False, True), repeat=len(keys))
            for holds in (dict(zip(keys, values, strict=True)),)
        )

    def apart(self, truth: Polynomial, bound: Iterable[int]) -> tuple[Polynomial, Polynomial]:
        """Return (outside, inside) whose product is a truth; outside has no bound index."""
        indices = set(bound)
        terms = list(truth)
        shared = {f for f in terms[0] if indices.isdisjoint(f[0][1])}.intersection(*terms[1:])
        return {frozenset(shared): ONE}, {m - shared: c for m, c in truth.items()}

    def any(self, truth: Polynomial, bound: Indices) -> Polynomial:
        """Return 1 where a truth holds at some place of the bound indices, and 0 elsewhere."""
        if not truth:
            return {}
        outside, inside = self.apart(truth, bound)
        used = tuple(i for i in bound if any(i in a for m in inside for (_, a), _ in m))
        if not used:
            return self.multiply(outside, inside)
        if self._witnessed(inside, used):
            return outside
        if len(inside) == 1:
            found = self._met(next(iter(inside)), used)
            if found is not None:
                return self.multiply(outside, found)
        _, closure, args, symmetry = self.plain(inside, used)
        base = self.base("any", closure, nonnegative=True, symmetry=symmetry)
        return self.multiply(outside, self.atom(base, args))

    def _met(self, monomial: Monomial, bound: Indices) -> Polynomial | None:
        """Return "any" of one product where ``[i = j]`` says which bound index meets."""
        for key, power in monomial:
            if self.bases[key[0]].kind != "same":
                continue
            for index, other in (key[1], key[1][::-1]):
                if index in bound:
                    rest = self.rename({monomial - {(key, power)}: ONE}, {index: other})
                    return self.any(rest, tuple(i for i in bound if i != index))
        return None

    def _witnessed(self, truth: Polynomial, bound: Indices) -> bool:
        """Tell whether a truth holds at some place for certain: a free index, the first, the last.

        An axis has at least one place, and an index of the same axis is one of them.
        """
        index, *rest = bound
        for found in self._at_witnesses(truth, index):
            if found == self.number(1) or (rest and self._witnessed(found, tuple(rest))):
                return True
        return False

    def _at_witnesses(self, truth: Polynomial, index: int) -> Iterator[Polynomial]:
        size = self.sizes[index]
        free = sorted({i for m in truth for (_, args), _ in m for i in args} - {index})
        for other in free:
            if self.sizes[other] == size:
                yield self.rename(truth, {index: other})
        for value in ({}, self.add(self.extent(size), self.number(-1))):
            found = self._at_position(truth, index, value)
            if found is not None:
                yield found

    def _at_position(self, truth: Polynomial, index: int, value: Polynomial) -> Polynomial | None:
        """Return a truth with a number as the position of an index; None if it has other uses."""
        result: Polynomial = {}
        for monomial, coefficient in truth.items():
            term = self.number(coefficient)
            for (base, args), power in monomial:
                factor: Polynomial = {frozenset([((base, args), power)]): ONE}
                # Another truth about the place may be 0 or 1 there, as far as is known.
                if index in args and self.bases[base].kind == "at most":
                    gap = self._with_position(self.opened((base, args))[0], index, value)
                    if gap is None:
                        return None
                    factor = self.at_most(gap)
                term = self.multiply(term, factor)
            self.accumulate(result, term)
        return result

    def _with_position(self, gap: Polynomial, index: int, value: Polynomial) -> Polynomial | None:
        result: Polynomial = {}
        for monomial, coefficient in gap.items():
            term = self.number(coefficient)
            for (base, args), power in monomial:
                if index not in args:
                    term = self.multiply(term, {frozenset([((base, args), power)]): ONE})
                elif self.bases[base].kind == "position":
                    term = self.multiply(term, self.power(value, power))
                else:
                    return None
            self.accumulate(result, term)
        return result

    def certain(self, factors: Monomial, bound: Indices) -> bool:
        """Tell whether a sum of one product is positive: a place is allowed, the rest positive."""
        truths = {f for f in factors if self.bases[f[0][0]].kind in TRUTHS}
        if not truths or not all(self.bases[key[0]].positive for key, _ in factors - truths):
            return False
        used = tuple(i for i in bound if any(i in key[1] for key, _ in truths))
        return bool(used) and self._witnessed({frozenset(truths): ONE}, used)

    # The inverse.

    def inverse_or_zero(self, polynomial: Polynomial, support: Polynomial) -> Polynomial:
        """Return ``inv0(P)``: the reciprocal, and 0 where P is 0.

        P is not negative, and ``support`` is 1 where it is positive and 0 where it is 0.
        """
        if not polynomial or not support:
            return {}
        if support == self.number(1) or self.positive(polynomial):
            return self.power(polynomial, Fraction(-1))
        content, shared, rest = self.content(polynomial, Fraction(-1))
        outside = [(key, -power) for key, power in shared if self.bases[key[0]].positive]
        inside = {f for f in shared if not self.bases[f[0][0]].positive}
        rest = self.multiply(rest, {frozenset(inside): ONE})
        if len(rest) == 1:  # positive factors of a single term are not shared with another
            ((monomial, coefficient),) = rest.items()
            content *= coefficient
            outside += [(k, -p) for k, p in monomial if self.bases[k[0]].positive]
            rest = {frozenset(f for f in monomial if not self.bases[f[0][0]].positive): ONE}
        _, closure, args, symmetry = self.plain(rest)
        base = self.base("inv0", closure, nonnegative=True, symmetry=symmetry)
        free = {i for m in support for (_, own), _ in m for i in own}
        if free.issubset(args):
            slots = {index: slot for slot, index in enumerate(args)}
            self._supports.setdefault(base, self.rename(support, slots))
        return self.scale(self.product_of([*outside, ((base, args), ONE)]), 1 / content)

    def support(self, key: Key) -> Polynomial | None:
        """Return where what an ``inv0`` inverts is not zero, or None if that is not known."""
        base, args = key
        found = self._supports.get(base)
        return None if found is None else self.rename(found, dict(enumerate(args)))

    def inverted(self, powers: dict[Key, Fraction]) -> Polynomial | None:
        """Return a product without ``Z · inv0(Z)``, which is "any"; None if it has none."""
        for key, power in powers.items():
            if self.bases[key[0]].kind != "inv0":
                continue
            support, body = self.support(key), self.opened(key)[0]
            if support is None:
                continue
            if len(body) == 1 and power.denominator == 1:
                ((monomial, _),) = body.items()
                if monomial and all(powers.get(k, 0) >= p for k, p in monomial):
                    left = {**powers, key: power - 1}
                    left.update((k, left[k] - p) for k, p in monomial)
                    return self.multiply(self.product_of(left.items()), support)
            if len(support) == 1:
                ((monomial, _),) = support.items()
                if monomial and all(k in powers for k, _ in monomial):
                    kept = {k: p for k, p in powers.items() if k not in dict(monomial)}
                    return self.product_of(kept.items())
        return None

    def gathered(self, polynomial: Polynomial) -> Polynomial:
        """Replace ``Z · inv0(Z)`` by "any" where Z is a sum of several terms."""
        keys = {k for m in polynomial for k, _ in m if self.bases[k[0]].kind == "inv0"}
        for key in sorted(keys):
            support, body = self.support(key), self.opened(key)[0]
            if support is None or len(body) < 2:
                continue
            for power in sorted({p for m in polynomial for k, p in m if k == key}, reverse=True):
                over = {m: c for m, c in polynomial.items() if (key, power) in m}
                numerators = {m - {(key, power)}: c for m, c in over.items()}
                quotient = self._quotient(numerators, body)
                if quotient is not None:
                    rest = {m: c for m, c in polynomial.items() if m not in over}
                    left = {frozenset([(key, power - 1)]) if power != 1 else UNIT: ONE}
                    met = self.multiply(self.multiply(quotient, support), left)
                    polynomial = self.add(rest, met)
        return polynomial


@rebuilds("at most")
def _rebuilt_comparison(algebra: Truths, key: Key) -> Polynomial:
    return algebra.at_most(algebra.opened(key)[0])


@rebuilds("any")
def _rebuilt_any(algebra: Truths, key: Key) -> Polynomial:
    body, fresh = algebra.opened(key)
    return algebra.any(body, tuple(fresh))


@rebuilds("inv0")
def _rebuilt_inverse(algebra: Truths, key: Key) -> Polynomial:
    support = algebra.support(key)
    if support is None:
        return {frozenset([(key, ONE)]): ONE}
    return algebra.inverse_or_zero(algebra.opened(key)[0], support)
