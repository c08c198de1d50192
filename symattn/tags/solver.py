"""From the sizes of arrays to the sizes of tags, whatever the order in which they are met.

An array whose axis is tagged `h*d_k` and has 12 columns is an equation, `h*d_k = 12`. The solver
takes all equations at once and repeats two exact steps until nothing changes: an equation in one
unknown tag is solved for it (linear, a power, anything that grows with the tag, or a quotient), and
equations in several are combined by linear elimination over their monomials. Then every equation is
checked. Nothing is guessed: a tag that does not follow is reported as underdetermined.

Sizes here are those of real arrays, so 0 is a size: `h*d_k = 0` with h = 3 gives d_k = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from symattn.errors import SizeError
from symattn.tags.counts import check_size
from symattn.tags.size import Monomial, Size, fraction


@dataclass(frozen=True, slots=True)
class Equation:
    """An axis met at run time: its size in tags, the number that it is, and where it was met."""

    size: Size
    value: int
    where: str


def solve(equations: Iterable[Equation], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """The size of every tag in the equations, besides the known ones.

    >>> h, d_k = Size.tag("h"), Size.tag("d_k")
    >>> solve([Equation(h * d_k, 12, "W's rows"), Equation(d_k, 4, "K's rows")])
    {'d_k': 4, 'h': 3}
    >>> solve([Equation(h * d_k, 12, "W's rows")], {"h": 5})
    Traceback (most recent call last):
        ...
    symattn.errors.SizeError: h*d_k = 12 from W's rows leaves a remainder: \
12 divided by 5 leaves 2, with h = 5 (the sizes given)

    Raises `SizeError` for a remainder, for a contradiction (naming both places), for tags that do
    not follow (naming them), and for values that are no sizes.
    """
    return _Solver(tuple(equations), dict(known or {})).solved()


_GIVEN = "the sizes given"


class _Solver:
    def __init__(self, equations: tuple[Equation, ...], known: Mapping[str, int]) -> None:
        for equation in equations:
            check_size(f"{equation.size} from {equation.where}", equation.value, least=0)
        self.equations = equations
        self.sizes = {tag: check_size(tag, size, least=0) for tag, size in known.items()}
        self.places = dict.fromkeys(self.sizes, _GIVEN)

    def solved(self) -> dict[str, int]:
        tags = dict.fromkeys(tag for equation in self.equations for tag in equation.size.tags)
        # Plain tags first: their places are what a person recognises in a contradiction.
        for equation in self.equations:
            tag = equation.size.single_tag
            if tag is not None and tag not in self.sizes:
                self.sizes[tag], self.places[tag] = equation.value, equation.where
        while True:
            while self.propagate():
                pass
            for equation in self.equations:
                self.check(equation)
            unknown = [tag for tag in tags if tag not in self.sizes]
            if not unknown:
                return self.sizes
            if not self.eliminate():
                raise SizeError("underdetermined", tags=unknown)

    def gap(self, equation: Equation) -> Size:
        """A polynomial in the unknown tags that is zero exactly where the equation holds.

        Denominators are multiplied out before known sizes go in, since those may be zero.
        """
        num, den = fraction(equation.size)
        known = {tag: Size.of(size) for tag, size in self.sizes.items()}
        return (num - equation.value * den).substitute(known)

    def propagate(self) -> bool:
        """Solve each equation that has a single unknown tag; whether there was one."""
        found = False
        for equation in self.equations:
            if all(tag in self.sizes for tag in equation.size.tags):
                continue
            gap = self.gap(equation)
            if _grows(gap):
                root = _root(gap)
                if root is None:
                    raise self.unsolvable(equation, gap)
                self.sizes[gap.tags[0]], self.places[gap.tags[0]] = root, _said(equation)
                found = True
        return found

    def eliminate(self) -> bool:
        """Solve equations together, linearly in their monomials; whether a tag came out."""
        rows = [(self.gap(equation), (equation,)) for equation in self.equations]
        for gap, used in _reduced(rows):
            places = " and ".join(_said(equation) for equation in used)
            root = _root(gap) if _grows(gap) else 0
            if root is None or gap.constant:
                raise SizeError("together", where=places)
            if _grows(gap):
                self.sizes[gap.tags[0]], self.places[gap.tags[0]] = root, places
                return True
        return False

    def check(self, equation: Equation) -> None:
        """Refuse an equation that the sizes found contradict."""
        tag = equation.size.single_tag
        if tag is not None and self.sizes.get(tag) == equation.value:
            return
        size, value, where = str(equation.size), equation.value, equation.where
        if any(tag not in self.sizes for tag in equation.size.tags):
            # A factor that is zero settles an equation whatever its other tags are.
            if self.gap(equation).constant:
                detail = f"not with {self.given(equation)}"
                raise SizeError("inconsistent", size=size, value=value, where=where, detail=detail)
            return
        try:
            found = equation.size.value(self.sizes)
        except SizeError as error:
            raise SizeError(
                "inconsistent", size=size, value=value, where=where, detail=str(error)
            ) from None
        if found == value:
            return
        if not equation.size.tags:
            raise SizeError("fixed", size=size, value=value, where=where)
        first, second = (value, where), (found, self.given(equation))
        if tag is not None:
            first, second = (found, self.places[tag]), first
        raise SizeError(
            "contradiction",
            size=size,
            value=first[0],
            where=first[1],
            other_value=second[0],
            other_where=second[1],
        )

    def given(self, equation: Equation) -> str:
        known = [tag for tag in equation.size.tags if tag in self.sizes]
        return ", ".join(f"{tag} = {self.sizes[tag]} ({self.places[tag]})" for tag in known)

    def unsolvable(self, equation: Equation, gap: Size) -> SizeError:
        """Why the one unknown tag of this equation has no size."""
        tag, given = gap.tags[0], self.given(equation)
        because = f", with {given}" if given else ""
        slope = gap.terms[0][0] if dict(gap.terms[0][1]) else gap.terms[1][0]
        constant = sum(c for c, monomial in gap.terms if not monomial)
        linear = len(gap.terms) == 2 and (slope, ((tag, 1),)) in gap.terms
        if linear and constant * slope < 0:
            divisor, number = abs(slope), abs(constant)
            problem = "remainder"
            detail = f"{number} divided by {divisor} leaves {number % divisor}"
        else:
            problem, detail = "inconsistent", f"no size {tag} makes it so"
        return SizeError(
            problem,
            tag=tag,
            size=str(equation.size),
            value=equation.value,
            where=equation.where,
            detail=detail + because,
        )


def _said(equation: Equation) -> str:
    return f"{equation.size} = {equation.value} from {equation.where}"


def _grows(gap: Size) -> bool:
    """Whether this is a polynomial in one tag that only grows, or only falls, with it."""
    return len(gap.tags) == 1 and len({c > 0 for c, monomial in gap.terms if monomial}) == 1


def _root(gap: Size) -> int | None:
    """The integer of at least 0 at which a growing polynomial in one tag is zero, by bisection."""
    (tag,) = gap.tags
    growing = gap if all(c > 0 for c, monomial in gap.terms if monomial) else -gap
    low, high = 0, 1
    while growing.value({tag: high}) < 0:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if growing.value({tag: middle}) >= 0 else (middle + 1, high)
    return low if growing.value({tag: low}) == 0 else None


_Row = tuple[Size, tuple[Equation, ...]]


def _reduced(rows: Iterable[_Row]) -> list[_Row]:
    """The reduced row echelon form, each monomial being a column and each row made whole again.

    A row comes with the equations that it combines. Rows that are zero are left out.
    """
    done: list[tuple[Monomial, Size, tuple[Equation, ...]]] = []
    for gap, used in rows:
        for pivot, other, others in done:
            gap, used = _cleared(gap, used, pivot, other, others)
        if not gap.terms:
            continue
        if gap.constant is not None:
            return [(gap, used)]
        # Columns of high degree first, so that the rows left over are about single tags.
        pivot = max((m for _, m in gap.terms), key=lambda m: (sum(e for _, e in m), str(m)))
        done = [(p, *_cleared(o, us, pivot, gap, used)) for p, o, us in done]
        done.append((pivot, gap, used))
    return [(gap, used) for _, gap, used in done]


def _cleared(
    gap: Size,
    used: tuple[Equation, ...],
    pivot: Monomial,
    other: Size,
    others: tuple[Equation, ...],
) -> _Row:
    """Combine a row with another so that the pivot's column vanishes from it."""
    here = sum(c for c, monomial in gap.terms if monomial == pivot)
    there = sum(c for c, monomial in other.terms if monomial == pivot)
    if not here:
        return gap, used
    combined = gap * there - other * here
    content = math.gcd(*(c for c, _ in combined.terms)) or 1
    return combined // content, tuple(dict.fromkeys((*used, *others)))
