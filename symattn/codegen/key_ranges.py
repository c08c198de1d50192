"""Which keys a strip of queries sees, from the condition of a mask: source, and whether it depends
on the distance of key and query alone.

``j ≤ i`` is ``j - i ≤ 0``: a band.  Conditions of a key alone are spans, and both are combined as
the conditions are.  What is given at run time, or is no interval, may be anywhere: it is looked at
in each block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

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
class _Bounds:
    """An interval of j - i (a band) or of j (a span): its ends, both included."""

    relative: bool
    low: Size | None = None
    high: Size | None = None


@dataclass
class KeyRanges:
    """The keys of a condition: ``code`` is source, ``used`` what it calls.

    ``is_relative`` tells that the condition depends on j - i alone.
    """

    context: ArrayContext
    query: Place
    key: Place
    used: list[str] = field(default_factory=list)

    def code(self, condition: Condition) -> str:
        """Return the source of the keys that queries see."""
        found = self._read(condition)
        return found if isinstance(found, str) else self._written(found)

    def is_relative(self, condition: Condition) -> bool:
        """Tell whether a condition is one of j - i."""
        match condition:
            case Not(inner):
                return self.is_relative(inner)
            case Both(left, right):
                return self.is_relative(left) and self.is_relative(right)
            case AtMost(left, right):
                of_key, of_query, _ = self._linear(left, right)
                return of_key == -of_query != 0
            case _:
                return False

    def relative(self, condition: Condition, distance: str) -> str:
        """Return the source of a condition of j - i, which is called ``distance``."""
        match condition:
            case AtMost() | Not(AtMost()):
                bounds = cast(_Bounds, self._read(condition))
                if bounds.high is not None:
                    return f"{distance} <= {_size(bounds.high, self.context)}"
                return f"{distance} >= {_size(cast(Size, bounds.low), self.context)}"
            case Not(Both(Not(left), Not(right))):
                return f"({self.relative(left, distance)}) | ({self.relative(right, distance)})"
            case Not(inner):
                return f"~({self.relative(inner, distance)})"
            case Both(left, right):
                return f"({self.relative(left, distance)}) & ({self.relative(right, distance)})"
            case _:
                raise NotSupportedError(f"array code for the condition {condition}")

    def _read(self, condition: Condition) -> _Bounds | str:
        match condition:
            case AtMost(left, right):
                return self._at_most(*self._linear(left, right))
            case Not(AtMost(left, right)):  # right + 1 ≤ left
                of_key, of_query, rest = self._linear(right, left)
                return self._at_most(of_key, of_query, rest + Size.of(1))
            case Not(Not(inner)):
                return self._read(inner)
            case Not(Both(Not(left), Not(right))):
                return self._joined("either", self._read(left), self._read(right))
            case Both(left, right):
                return self._joined("both", self._read(left), self._read(right))
            case Not(Both(left, right)):
                return self._joined("either", self._read(Not(left)), self._read(Not(right)))
            case _:
                return self._call("somewhere", None)

    def _linear(self, left: Form, right: Form) -> tuple[int, int, Size]:
        """Return left - right as a multiple of j, one of i, and a size."""
        of_key, of_query, rest = 0, 0, Size.of(0)
        for form, sign in ((left, 1), (right, -1)):
            for term in form.terms if isinstance(form, Add) else (form,):
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
                        value = cast(Number, inner).value
                        rest = rest + Size.of(factor * int(value))
        return of_key, of_query, rest

    def _at_most(self, of_key: int, of_query: int, rest: Size) -> _Bounds | str:
        """Return where of_key·j + of_query·i + rest ≤ 0."""
        less = Size.of(0) - rest
        match of_key, of_query:
            case 1, -1:
                return _Bounds(True, high=less)
            case -1, 1:
                return _Bounds(True, low=rest)
            case 1, 0:
                return _Bounds(False, high=less)
            case -1, 0:
                return _Bounds(False, low=rest)
            case _:
                return self._call("somewhere", None)

    def _joined(self, how: str, left: _Bounds | str, right: _Bounds | str) -> _Bounds | str:
        if (
            how == "both"
            and isinstance(left, _Bounds)
            and isinstance(right, _Bounds)
            and left.relative == right.relative
            and (left.low is None or right.low is None)
            and (left.high is None or right.high is None)
        ):
            low = right.low if left.low is None else left.low
            high = right.high if left.high is None else left.high
            return _Bounds(left.relative, low, high)
        parts = [part if isinstance(part, str) else self._written(part) for part in (left, right)]
        return self._call(how, ", ".join(parts))

    def _written(self, bounds: _Bounds) -> str:
        names = ("lo", "hi") if bounds.relative else ("start", "stop")
        high = bounds.high
        if high is not None and not bounds.relative:
            high = high + Size.of(1)  # stop is not included
        ends = [
            f"{name}={_size(end, self.context)}"
            for name, end in zip(names, (bounds.low, high), strict=True)
            if end is not None
        ]
        return self._call("band" if bounds.relative else "span", ", ".join(ends))

    def _call(self, function: str, arguments: str | None) -> str:
        if function not in self.used:
            self.used.append(function)
        return function if arguments is None else f"{function}({arguments})"


def _size(size: Size, context: ArrayContext) -> str:
    """Return a size with its signs, as in ``1 - w``."""
    signed = [
        (coefficient, size_code(_term(abs(coefficient), powers), context))
        for coefficient, powers in size.terms
    ]
    positive_first = sorted(signed, key=lambda term: term[0] < 0)
    code = " ".join(f"{'-' if factor < 0 else '+'} {term}" for factor, term in positive_first)
    return code[2:] or "0" if code[:1] != "-" else f"-{code[2:]}"


def _term(coefficient: int, powers: Any) -> Size:
    """Return one term of a size."""
    product = Size.of(coefficient)
    for atom, exponent in powers:
        base = Size.tag(atom) if isinstance(atom, str) else atom.num // atom.den
        product = product * base**exponent
    return product
