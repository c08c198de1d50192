"""Numbers where two formulas differ, or the report that none were found.

A formula that is not equal to another differs almost everywhere, so a few random points refute it.
Both sides are evaluated as they are written, by the evaluator that knows nothing of meanings, and a
difference counts only if it is the same with twice the digits: what rounding makes changes then.
The first points are the smallest, since a person is to read the one that refutes.

Points where a side has no value (a division by zero, the log of -1) are drawn again, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any

import mpmath
import numpy as np
import sympy

from symattn.errors import SizeError
from symattn.evaluate import (
    DIGITS,
    Entries,
    UndefinedPointError,
    evaluate_together,
    random_indices,
    random_inputs,
    random_scalars,
    random_sizes,
    sizes_in,
)
from symattn.nodes.core import Node
from symattn.nodes.indices import AxisIndex
from symattn.tags import Relations

# A difference counts from here on: relative to the two values, and at all.
_RELATIVE = 1e-30
_ABSOLUTE = 1e-45
# With twice the digits a true difference stays the same to this part of itself.
_STEADY = 1e-3

_REDRAWS = 8

# Larger sizes would take too long.
_LARGEST_BEYOND = 9


@dataclass(frozen=True, slots=True)
class Difference:
    """A point where two formulas differ: the counterexample.

    ``inputs`` holds each input's rows by name, those of a mask as booleans; ``indices`` are the
    values of free indices, by name; ``entry`` is where the two matrices differ most (counted from
    0), and the two values carry 100 digits (``str`` shows 15 of them).
    """

    sizes: Mapping[str, int]
    inputs: Mapping[str, Any]
    scalars: Mapping[str, Fraction]
    entry: tuple[int, int]
    left_value: Any
    right_value: Any
    indices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoDifference:
    """Two formulas agreed at so many points; at ``undefined`` further ones a side had no value."""

    instances: int
    undefined: int = 0


@dataclass(frozen=True, slots=True)
class UndefinedEverywhere:
    """At every point that was tried one of the two formulas had no value."""

    points: int


@dataclass(frozen=True, slots=True)
class _Point:
    sizes: dict[str, int]
    inputs: dict[Any, Any]
    scalars: dict[str, Fraction]
    indices: dict[AxisIndex, int]

    def values(self, nodes: Sequence[Node], digits: int) -> list[Any]:
        return evaluate_together(
            nodes, self.sizes, self.inputs, self.scalars, digits, indices=self.indices
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one instance is drawn."""

    entries: Entries
    least: int = 2
    ones: float = 0.0


# From the smallest point to generic ones; the last is repeated.
_PLANS = (
    _Plan(Entries.READABLE, least=1),
    _Plan(Entries.READABLE),
    _Plan(Entries.GENERIC),
    _Plan(Entries.GENERIC, ones=0.5),
    _Plan(Entries.GENERIC),
)

# Sizes of one and two, which may coincide: they show little, but a person can check them.
_SMALL = (
    _Plan(Entries.READABLE, least=1, ones=1.0),
    _Plan(Entries.READABLE, least=1, ones=0.8),
    _Plan(Entries.READABLE, least=1, ones=0.6),
)

# Where a value was undefined, signs are the likely cause, and then how many entries there are.
_AGAIN = (
    _Plan(Entries.GENERIC),
    _Plan(Entries.POSITIVE),
    _Plan(Entries.ONE_SIGN),
    _Plan(Entries.GENERIC, ones=0.7),
)


def find_difference(
    left: Node,
    right: Node,
    relations: Relations | None = None,
    *,
    attempts: int = 8,
    seed: int = 0,
    small: bool = False,
) -> Difference | NoDifference | UndefinedEverywhere:
    """Return a point where two formulas of one shape differ, or how many points they agree at.

    >>> from symattn.nodes import dims, matrix, softmax
    >>> m, n = dims("m n")
    >>> S = matrix("S", m, n)
    >>> found = find_difference(softmax(S, axis=0), softmax(S, axis=1))
    >>> isinstance(found, Difference)
    True
    >>> find_difference(softmax(S, axis=0).T, softmax(S.T, axis=1))
    NoDifference(instances=8, undefined=0)

    ``attempts`` is the number of points, each of other sizes; sizes satisfy the relations, those
    that the formulas carry included.  The same seed draws the same points.  With ``small``, points
    of very small sizes are tried first, which do not count if the formulas agree there.
    """
    if small:
        found = _small_difference((left, right), relations, seed)
        if found is not None:
            return found
    return find_difference_among((left, right), relations, attempts=attempts, seed=seed)


def _small_difference(
    sides: tuple[Node, Node], relations: Relations | None, seed: int
) -> Difference | None:
    known = (relations or Relations()).merge(sides[0].given).merge(sides[1].given)
    rng = Random(seed)
    for plan in _SMALL:
        try:
            found = _difference_at(_drawn(sides, known, plan, rng), sides)
        except (UndefinedPointError, SizeError):  # sizes so small need not exist
            continue
        if found is not None:
            return found
    return None


def find_difference_among(
    sides: Sequence[Node],
    relations: Relations | None = None,
    *,
    attempts: int = 8,
    seed: int = 0,
) -> Difference | NoDifference | UndefinedEverywhere:
    """Return a point where one of several formulas differs from the first, as `find_difference`."""
    known = relations or Relations()
    for side in sides:
        known = known.merge(side.given)
    rng = Random(seed)
    agreed = undefined = 0
    beyond = _beyond_masks(sides)
    for instance in range(attempts):
        for plan in _plans(instance):
            if beyond and instance > 1 and instance % 2:
                plan = replace(plan, least=max(plan.least, beyond))
            point = _drawn(sides, known, plan, rng)
            try:
                found = _difference_at(point, sides)
            except UndefinedPointError:
                undefined += 1
                continue
            if found is not None:
                return found
            agreed += 1
            break
        else:
            if not agreed and instance:
                break  # it is not the signs, nor the sizes
    return NoDifference(agreed, undefined) if agreed else UndefinedEverywhere(undefined)


def _beyond_masks(sides: Sequence[Node]) -> int:
    """Return a size beyond the numbers in masks: ``~prefix(5)`` allows nothing of four keys."""
    masks = [part.mask for side in sides for part in side.walk() if part.mask is not None]
    numbers = [int(number) for mask in masks for number in mask.atoms(sympy.Integer)]
    return min(max(numbers) + 1, _LARGEST_BEYOND) if numbers else 0


def _plans(instance: int) -> Iterator[_Plan]:
    yield _PLANS[min(instance, len(_PLANS) - 1)]
    for redraw in range(_REDRAWS):
        yield _AGAIN[redraw % len(_AGAIN)]


def _drawn(sides: Sequence[Node], relations: Relations, plan: _Plan, rng: Random) -> _Point:
    sizes = random_sizes(sizes_in(sides), relations, rng, least=plan.least, ones=plan.ones)
    inputs = dict.fromkeys(
        symbol for side in sides for symbol in (*side.inputs(), *side.booleans())
    )
    scalars = dict.fromkeys(scalar for side in sides for scalar in side.scalars())
    indices = dict.fromkeys(index for side in sides for index in side.indices)
    return _Point(
        sizes,
        random_inputs(inputs, sizes, rng, plan.entries, relations),
        random_scalars(scalars, rng, plan.entries),
        random_indices(indices, sizes, rng),
    )


def _difference_at(point: _Point, sides: Sequence[Node]) -> Difference | None:
    """Return the largest difference from the first side, if it is there with more digits too."""
    first, *others = point.values(sides, DIGITS)
    for side, other in zip(sides[1:], others, strict=True):
        if first.shape != other.shape:
            shapes = " and ".join("×".join(map(str, matrix.shape)) for matrix in (first, other))
            raise SizeError("together", where=f"matrices to be compared, {shapes},")
        if any(_differ(*pair) for pair in zip(first.flat, other.flat, strict=True)):
            found = _steady_difference(point, (sides[0], side), first - other)
            if found is not None:
                return found
    return None


def _steady_difference(point: _Point, sides: tuple[Node, Node], gaps: Any) -> Difference | None:
    """Return the largest of some differences that stays the same with twice the digits."""
    finer = point.values(sides, 2 * DIGITS)
    finer_gaps = finer[0] - finer[1]
    entries = [
        entry
        for entry in np.ndindex(gaps.shape)
        if _differ(finer[0][entry], finer[1][entry])
        and abs(gaps[entry] - finer_gaps[entry]) <= _STEADY * abs(finer_gaps[entry])
    ]
    if not entries:
        return None
    entry = max(entries, key=lambda where: abs(finer_gaps[where]))
    return Difference(
        point.sizes,
        {symbol.label: rows for symbol, rows in point.inputs.items()},
        point.scalars,
        (entry[0], entry[1]),
        *(mpmath.mp.make_mpf(side[entry]._mpf_) for side in finer),
        indices={index.name: value for index, value in point.indices.items()},
    )


def _differ(left: Any, right: Any) -> bool:
    gap = abs(left - right)
    return gap > _ABSOLUTE and gap > _RELATIVE * max(abs(left), abs(right))
