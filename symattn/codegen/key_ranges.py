"""From the condition of a mask to source: the keys that queries see, or what is seen at a distance.

A condition is solved for the key.  ``j ≤ i`` is ``j - i ≤ 0``, a band along the diagonal; a
condition of the key alone is a span, the same for every query; and what two conditions say together
is what their keys have in common, or are together.  A condition that is given at run time, or is no
interval, may hold anywhere: it is looked at in each block.  (`symattn.codegen.spans` has a function
for each of these.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from symattn.errors import NotSupportedError
from symattn.meaning.form import (
    Add,
    AtMost,
    Both,
    Condition,
    Extent,
    Form,
    Mul,
    Not,
    Number,
    Place,
    Position,
)
from symattn.nodes.arrays import ArrayContext, size_code
from symattn.tags import Size


@dataclass(frozen=True, slots=True)
class Interval:
    """The keys with low ≤ j - i ≤ high (a band), or with low ≤ j ≤ high (a span)."""

    is_band: bool
    low: Size | None = None
    high: Size | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """The keys of ``both`` or of ``either`` of two conditions."""

    how: str
    parts: tuple[Keys, Keys]


@dataclass(frozen=True, slots=True)
class Somewhere:
    """Any keys."""


Keys = Interval | Joined | Somewhere


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Writes conditions on the places of a query and a key.

    ``support`` tells what a function of `symattn.codegen.spans` is called in the source.
    """

    context: ArrayContext
    support: Callable[[str], str]
    query: Place
    key: Place

    def code(self, condition: Condition) -> str:
        """Return the source of the keys that queries see."""
        return self._written(self.keys(condition))

    def is_relative(self, condition: Condition) -> bool:
        """Tell whether a condition depends on j - i alone."""
        match condition:
            case Not(inner):
                return self.is_relative(inner)
            case Both(left, right):
                return self.is_relative(left) and self.is_relative(right)
            case AtMost(left, right):
                of_key, of_query, _ = self._difference(left, right)
                return of_key == -of_query != 0
            case _:
                return False

    def relative(self, condition: Condition, distance: str) -> str:
        """Return the source of a condition of j - i, which is called ``distance``."""
        match condition:
            case AtMost() | Not(AtMost()):
                interval = cast(Interval, self.keys(condition))
                if interval.high is not None:
                    return f"{distance} <= {size_code(interval.high, self.context)}"
                return f"{distance} >= {size_code(cast(Size, interval.low), self.context)}"
            case Not(Both(Not(left), Not(right))):
                return f"({self.relative(left, distance)}) | ({self.relative(right, distance)})"
            case Not(inner):
                return f"~({self.relative(inner, distance)})"
            case Both(left, right):
                return f"({self.relative(left, distance)}) & ({self.relative(right, distance)})"
            case _:
                raise NotSupportedError(f"array code for the condition {condition}")

    def keys(self, condition: Condition) -> Keys:
        """Return the keys that queries see."""
        match condition:
            case AtMost(left, right):
                return _at_most(*self._difference(left, right))
            case Not(AtMost(left, right)):  # right + 1 ≤ left
                of_key, of_query, rest = self._difference(right, left)
                return _at_most(of_key, of_query, rest + Size.of(1))
            case Not(Not(inner)):
                return self.keys(inner)
            case Both(left, right):
                return _both(self.keys(left), self.keys(right))
            case Not(Both(left, right)):
                return Joined("either", (self.keys(Not(left)), self.keys(Not(right))))
            case _:
                return Somewhere()

    def _difference(self, left: Form, right: Form) -> tuple[int, int, Size]:
        """Return left - right as a multiple of j, one of i, and a size."""
        of_key, of_query, rest = 0, 0, Size.of(0)
        for side, sign in ((left, 1), (right, -1)):
            for term in side.terms if isinstance(side, Add) else (side,):
                factor, inner = sign, term
                match term:
                    case Mul((Number(value), one)) if value == -1:
                        factor, inner = -sign, one
                    case _:
                        pass
                match inner:
                    case Position(at) if at == self.key and at:
                        of_key += factor
                    case Position(at) if at == self.query and at:
                        of_query += factor
                    case Position():  # along an axis of size one: 0
                        pass
                    case Extent(size):
                        rest = rest + Size.of(factor) * size
                    case _:
                        rest = rest + Size.of(factor * int(cast(Number, inner).value))
        return of_key, of_query, rest

    def _written(self, keys: Keys) -> str:
        match keys:
            case Somewhere():
                return self.support("somewhere")
            case Joined(how, parts):
                return f"{self.support(how)}({', '.join(map(self._written, parts))})"
            case Interval(True, low, high):
                return self._call("band", lo=low, hi=high)
            case Interval(_, low, high):  # stop is not included
                return self._call(
                    "span", start=low, stop=None if high is None else high + Size.of(1)
                )

    def _call(self, function: str, **ends: Size | None) -> str:
        arguments = (
            f"{name}={size_code(end, self.context)}"
            for name, end in ends.items()
            if end is not None
        )
        return f"{self.support(function)}({', '.join(arguments)})"


def _at_most(of_key: int, of_query: int, rest: Size) -> Keys:
    """Return where of_key·j + of_query·i + rest ≤ 0."""
    is_band = of_query == -of_key
    match of_key, of_query:
        case 1, -1 | 0:
            return Interval(is_band, high=Size.of(0) - rest)
        case -1, 1 | 0:
            return Interval(is_band, low=rest)
        case _:
            return Somewhere()


def _both(left: Keys, right: Keys) -> Keys:
    """Return the keys of both, as one interval where one has a low end and the other a high one."""
    match left, right:
        case (Interval(of_left, None, high), Interval(of_right, low, None)) | (
            Interval(of_left, low, None),
            Interval(of_right, None, high),
        ) if of_left == of_right:
            return Interval(of_left, low, high)
        case _:
            return Joined("both", (left, right))
