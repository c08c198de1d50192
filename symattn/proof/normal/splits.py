"""How merged axes are split: one way for every size, so that both sides read an axis alike.

An axis of h·d_v that is read as heads by features somewhere is split so everywhere.  Where it is
read in several ways, as (g·r, d) and as (g, r·d), they have a common refinement (g, r, d) if the
places at which they cut are in one order: cuts are what remains to the right of them, d and r·d,
and of two cuts one has to divide the other.  (h, d) and (d, h) have none, for d does not divide h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod

from symattn.meaning.form import Component, Form, Place, places
from symattn.tags import Relations, Size, exact_quotient

Splits = dict[Size, tuple[Size, ...]]
"""The size of a merged axis, and the sizes of its factors, outermost first."""

_MOST_ROUNDS = 16


class ConflictingSplitsError(Exception):
    """One size is read as two different merged axes."""


def splits_of(forms: Iterable[Form], relations: Relations) -> Splits:
    """Return how every merged axis of some forms is split, under relations.

    Raises `ConflictingSplitsError` where an axis is read in ways that have no common refinement.
    """
    readings: dict[Size, set[tuple[Size, ...]]] = {}
    for form in forms:
        for _, at in places(form):
            for sizes in _factors_in(at):
                _note(readings, [relations.rewrite(size) for size in sizes])
    # A cut of the whole may go through a factor, which then is a merged axis itself.
    for _ in range(_MOST_ROUNDS):
        splits = {whole: _refined(whole, ways) for whole, ways in readings.items()}
        known = sum(map(len, readings.values()))
        # What is noted here may be another reading of a size whose turn is yet to come.
        for whole, ways in [(whole, tuple(ways)) for whole, ways in readings.items()]:
            for way in ways:
                for inner in _grouped(splits[whole], way):
                    _note(readings, inner)
        if known == sum(map(len, readings.values())):
            return splits
    raise ConflictingSplitsError("the axes are split into one another without an end")


def _factors_in(at: Place) -> Iterator[Sequence[Size]]:
    """Yield the sizes of the factors in which a place reads its axis, and others in it."""
    if len(at) > 1:
        yield [one.size for one in at]
    for one in at:
        if isinstance(one, Component):
            yield one.sizes
            yield from _factors_in(one.of)


def _note(readings: dict[Size, set[tuple[Size, ...]]], sizes: Sequence[Size]) -> None:
    factors = tuple(size for size in sizes if not size.is_one)
    if len(factors) > 1:
        readings.setdefault(prod(factors, start=Size.of(1)), set()).add(factors)


def _refined(whole: Size, ways: Iterable[tuple[Size, ...]]) -> tuple[Size, ...]:
    """Return the factors of an axis that is cut wherever one of the ways cuts it."""
    ways = tuple(ways)
    if len(ways) == 1:
        return ways[0]
    cuts = {prod(way[k:], start=Size.of(1)) for way in ways for k in range(1, len(way))}
    ordered = [whole, *sorted(cuts, key=_extent, reverse=True), Size.of(1)]
    factors = [exact_quotient(outer, inner) for outer, inner in pairwise(ordered)]
    found = tuple(factor for factor in factors if factor is not None)
    if len(found) < len(factors):
        one, other = sorted(" × ".join(map(str, way)) for way in ways)[:2]
        raise ConflictingSplitsError(
            f"the axis of size {whole} is read both as {one} and as {other}"
        )
    return found


def _extent(size: Size) -> tuple[int, int, str]:
    """Order sizes so that what divides another, without being it, comes before it."""
    degree = max(sum(power for _, power in monomial) for _, monomial in size.terms)
    return degree, sum(abs(coefficient) for coefficient, _ in size.terms), str(size)


def _grouped(factors: Sequence[Size], way: Sequence[Size]) -> Iterator[Sequence[Size]]:
    """Yield the finer factors that each factor of a way consists of."""
    rest = iter(factors)
    for size in way:
        group: list[Size] = []
        while prod(group, start=Size.of(1)) != size:
            group.append(next(rest))
        yield group
