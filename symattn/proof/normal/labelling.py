"""Canonical labelling: one name for all expressions that differ in the names of their indices.

An expression is a set of terms, a term a set of factors, a factor a base applied to indices.  Two
expressions are the same if a renaming of their indices carries one into the other (bound indices to
bound ones, tags to equal tags).  To decide this for good, each expression gets the least of its
serialisations over all orders of its indices.

The search is McKay's, in small: refine the colours of the indices until they are stable; on a tie
give each index of the first tied colour its own colour in turn, and go on.  Labellings that reach
the same serialisation are automorphisms; those found prune the search, so that symmetric
expressions (a cycle of nine equal factors) stay cheap.

Source: B. D. McKay and A. Piperno, Practical graph isomorphism II, 2014, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Factor = tuple[int, tuple[int, ...], Fraction]
"""A base (by number), the indices it is applied to, and a power."""

Permutation = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Symmetry:
    """What permuting a base's arguments does: nothing (``even``), or a change of sign (``odd``).

    Each permutation ``p`` says that ``base(args)`` is ``±base(args[p[0]], args[p[1]], …)``.
    """

    even: tuple[Permutation, ...] = ()
    odd: tuple[Permutation, ...] = ()

    def images(
        self, args: tuple[int, ...], power: Fraction
    ) -> Iterable[tuple[tuple[int, ...], int]]:
        """Yield every equivalent tuple of arguments of ``base(args)^power``, with its sign."""
        yield args, 1
        for permutation in self.even:
            yield tuple(args[k] for k in permutation), 1
        if power.denominator == 1:
            sign = -1 if power.numerator % 2 else 1
            for permutation in self.odd:
                yield tuple(args[k] for k in permutation), sign


@dataclass(frozen=True, slots=True)
class Labelling:
    """The least serialisation, the order of indices that gives it, and the symmetries found.

    ``automorphisms`` are maps from index to index under which the expression stays the same.
    """

    key: tuple[Any, ...]
    order: tuple[int, ...]
    automorphisms: tuple[Mapping[int, int], ...]


@dataclass(slots=True)
class _Search:
    terms: Sequence[tuple[Fraction, tuple[Factor, ...]]]
    symmetry: Callable[[int], Symmetry]
    count: Callable[[int], None]
    best: tuple[Any, ...] | None = None
    order: tuple[int, ...] = ()
    automorphisms: list[dict[int, int]] = field(default_factory=list)

    def run(self, colours: dict[int, Any], fixed: tuple[int, ...]) -> None:
        colours = self.refine(colours)
        cells: dict[int, list[int]] = {}
        for index, colour in colours.items():
            cells.setdefault(colour, []).append(index)
        tied = next((cells[c] for c in sorted(cells) if len(cells[c]) > 1), None)
        if tied is None:
            self.leaf(tuple(sorted(colours, key=colours.__getitem__)))
            return
        tried: list[int] = []
        for index in tied:
            if self.in_orbit_of(index, tried, fixed):
                continue
            tried.append(index)
            split = {other: (colour, other != index) for other, colour in colours.items()}
            self.run(split, (*fixed, index))

    def in_orbit_of(self, index: int, tried: list[int], fixed: tuple[int, ...]) -> bool:
        """Tell whether a known automorphism that moves no fixed index carries it to a tried one."""
        usable = [a for a in self.automorphisms if all(a[f] == f for f in fixed)]
        orbit, pending = {index}, [index]
        while pending:
            at = pending.pop()
            for automorphism in usable:
                image = automorphism[at]
                if image not in orbit:
                    orbit.add(image)
                    pending.append(image)
        return any(index in orbit for index in tried)

    def leaf(self, order: tuple[int, ...]) -> None:
        self.count(len(self.terms))
        key = self.serialised({index: slot for slot, index in enumerate(order)})
        if self.best is None or key < self.best:
            self.best, self.order = key, order
        elif key == self.best:
            forward = dict(zip(order, self.order, strict=True))
            self.automorphisms.append(forward)
            self.automorphisms.append({image: index for index, image in forward.items()})

    def serialised(self, slots: Mapping[int, int]) -> tuple[Any, ...]:
        written = []
        for coefficient, factors in self.terms:
            named = []
            for base, args, power in factors:
                named_args = tuple(slots[a] for a in args)
                least, sign = min(self.symmetry(base).images(named_args, power))
                named.append((base, least, power))
                coefficient *= sign
            written.append((tuple(sorted(named)), coefficient))
        return tuple(sorted(written))

    def refine(self, colours: Mapping[int, Any]) -> dict[int, int]:
        ranks = _ranked(colours)
        while True:
            seen: dict[int, list[Any]] = {index: [] for index in ranks}
            for coefficient, factors in self.terms:
                self.count(1)
                signatures = []
                for base, args, power in factors:
                    ranked = tuple(ranks[a] for a in args)
                    least = min(i for i, _ in self.symmetry(base).images(ranked, power))
                    signatures.append((base, least, power))
                # A sign can move between factors and coefficient, so only its size is invariant.
                term = (abs(coefficient), tuple(sorted(signatures)))
                for (base, args, power), signature in zip(factors, signatures, strict=True):
                    for index in set(args):
                        marked = tuple(2 * ranks[a] + (a == index) for a in args)
                        where = min(i for i, _ in self.symmetry(base).images(marked, power))
                        seen[index].append((term, signature, where))
            finer = _ranked({index: (ranks[index], tuple(sorted(seen[index]))) for index in ranks})
            if len(set(finer.values())) == len(set(ranks.values())):
                return finer
            ranks = finer


def _ranked(colours: Mapping[int, Any]) -> dict[int, int]:
    order = {colour: rank for rank, colour in enumerate(sorted(set(colours.values())))}
    return {index: order[colour] for index, colour in colours.items()}


def canonical(
    terms: Sequence[tuple[Fraction, tuple[Factor, ...]]],
    colours: Mapping[int, Any],
    symmetry: Callable[[int], Symmetry],
    count: Callable[[int], None],
) -> Labelling:
    """Return the canonical labelling of an expression.

    ``colours`` gives each index what a renaming has to keep (bound or free, and its tag), and must
    be comparable; ``symmetry`` tells how a base may be rearranged; ``count`` is told of the work
    done, and raises when a budget is spent.
    """
    search = _Search(terms, symmetry, count)
    search.run(dict(colours), ())
    assert search.best is not None
    return Labelling(search.best, search.order, tuple(search.automorphisms))


def generated(generators: Iterable[Permutation], size: int, limit: int) -> tuple[Permutation, ...]:
    """Return every product of the generators except the identity, at most ``limit`` of them.

    A truncated group is still sound: its elements are symmetries, only fewer equalities are seen.
    """
    identity = tuple(range(size))
    group, pending = {identity}, [identity]
    steps = [g for g in set(generators) if g != identity]
    while pending and len(group) < limit:
        at = pending.pop()
        for step in steps:
            image = tuple(at[k] for k in step)
            if image not in group:
                group.add(image)
                pending.append(image)
    return tuple(sorted(group - {identity}))
