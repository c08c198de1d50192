"""Atoms of the proof normal form: bases, indices, and closures that are interned.

A polynomial is a dictionary from monomials to rational coefficients; a monomial is a set of factors
``base(indices)^power``.  A base is an entry of an input, a size, a function of a closure, a sum
over a closure…  A **closure** is a polynomial with slots in place of indices, canonically labelled
and interned: equal closures are one object.  So equal polynomials are equal dictionaries, and
substituting indices rewrites arguments only, never a body.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from symattn.proof.normal.labelling import Symmetry, canonical, generated
from symattn.tags import Size

Key = tuple[int, tuple[int, ...]]
Monomial = frozenset[tuple[Key, Fraction]]
Polynomial = dict[Monomial, Fraction]

UNIT: Monomial = frozenset()
NO_SYMMETRY = Symmetry()

MOST_WORK = 50_000
# Symmetries of a closure that are kept; fewer are sound, they only show fewer equalities.
MOST_SYMMETRIES = 720


class BudgetSpentError(Exception):
    """The normal form grew past its budget; the verdict is then "undecided"."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a factor applies to its indices.

    ``content`` tells two bases of a kind apart; for kinds that have a body it is the number of a
    closure.  ``positive`` and ``nonnegative`` are certificates, valid for every input.
    """

    kind: str
    content: Any
    positive: bool
    nonnegative: bool
    symmetry: Symmetry


@dataclass(frozen=True, slots=True)
class Closure:
    """A polynomial over slots: free slots first, then the bound ones, whose sizes are kept."""

    bound: tuple[Size, ...]
    body: Polynomial
    symmetry: Symmetry


class Atoms:
    """The indices, bases and closures of one proof; their numbers mean something only within it."""

    def __init__(self) -> None:
        self.bases: list[Base] = []
        self.closures: list[Closure] = []
        self.sizes: list[Size] = []
        self._base_numbers: dict[tuple[str, Any], int] = {}
        self._closure_numbers: dict[Any, int] = {}
        self._size_numbers: dict[Size, int] = {}
        self._closed: dict[Any, tuple[int, tuple[int, ...]]] = {}
        self._work = 0

    def count(self, amount: int) -> None:
        """Count work done; raise `BudgetSpentError` when the budget is spent."""
        self._work += amount
        if self._work > MOST_WORK:
            raise BudgetSpentError(f"more than {MOST_WORK:,} steps of rewriting")

    def index(self, size: Size) -> int:
        """Return a fresh index over an axis."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def base(
        self,
        kind: str,
        content: Any,
        *,
        positive: bool = False,
        nonnegative: bool = False,
        symmetry: Symmetry = NO_SYMMETRY,
    ) -> int:
        """Return the number of a base, the same for the same kind and content."""
        number = self._base_numbers.get((kind, content))
        if number is None:
            number = self._base_numbers[kind, content] = len(self.bases)
            self.bases.append(Base(kind, content, positive, nonnegative or positive, symmetry))
        return number

    def close(self, body: Polynomial, bound: tuple[int, ...] = ()) -> tuple[int, tuple[int, ...]]:
        """Return the closure of a polynomial over some bound indices, and its free indices."""
        exact = (frozenset(body.items()), bound)
        known = self._closed.get(exact)
        if known is not None:
            return known
        terms = [
            (coefficient, tuple((base, args, power) for (base, args), power in monomial))
            for monomial, coefficient in body.items()
        ]
        indices = {index for _, factors in terms for _, args, _ in factors for index in args}
        colours = {i: (i in bound, self._size_number(self.sizes[i])) for i in indices}
        found = canonical(terms, colours, lambda base: self.bases[base].symmetry, self.count)
        free = tuple(i for i in found.order if i not in bound)
        order = free + tuple(i for i in found.order if i in bound)
        key = (found.key, tuple(colours[i] for i in found.order))
        number = self._closure_numbers.get(key)
        if number is None:
            slots = {index: slot for slot, index in enumerate(order)}
            symmetries = [tuple(free.index(a[i]) for i in free) for a in found.automorphisms]
            number = self._closure_numbers[key] = len(self.closures)
            self.closures.append(
                Closure(
                    tuple(self.sizes[i] for i in order[len(free) :]),
                    {
                        frozenset(
                            ((base, tuple(slots[a] for a in args)), power)
                            for (base, args), power in monomial
                        ): coefficient
                        for monomial, coefficient in body.items()
                    },
                    Symmetry(generated(symmetries, len(free), MOST_SYMMETRIES)),
                )
            )
        self._closed[exact] = number, free
        return number, free

    def plain(
        self, body: Polynomial, bound: tuple[int, ...] = ()
    ) -> tuple[int, int, tuple[int, ...], Symmetry]:
        """Return the closure of a body as `oriented` does, as it is: its sign is 1."""
        closure, free = self.close(body, bound)
        return 1, closure, free, self.closures[closure].symmetry

    def oriented(
        self, body: Polynomial, bound: tuple[int, ...] = ()
    ) -> tuple[int, int, tuple[int, ...], Symmetry]:
        """Return the closure of a body or of its negative, whichever comes first, and the sign.

        A body that is its own negative under a permutation of its indices has odd symmetries.
        """
        plus, free = self.close(body, bound)
        minus, other = self.close({m: -c for m, c in body.items()}, bound)
        even = self.closures[plus].symmetry.even
        if plus == minus:
            turn = tuple(free.index(i) for i in other)
            odd = (turn, *(tuple(turn[k] for k in p) for p in even))
            return 1, plus, free, Symmetry(even, odd)
        if plus < minus:
            return 1, plus, free, Symmetry(even)
        return -1, minus, other, self.closures[minus].symmetry

    def _size_number(self, size: Size) -> int:
        return self._size_numbers.setdefault(size, len(self._size_numbers))
