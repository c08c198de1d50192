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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from symattn.errors import SizeError
from symattn.tags.counts import check_size
from symattn.tags.polynomial import collected
from symattn.tags.size import Atom, Monomial, Size, Term, fraction


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


def followed(
    equations: Iterable[Equation], known: Mapping[str, int] | None = None
) -> dict[str, tuple[int, str]]:
    """The sizes of those tags that follow, besides the known ones, each with where it comes from.

    >>> h, d_k, n = Size.tag("h"), Size.tag("d_k"), Size.tag("n")
    >>> followed([Equation(h * d_k, 12, "W"), Equation(d_k, 4, "K"), Equation(h + n, 8, "X")])
    {'d_k': (4, 'K'), 'h': (3, 'W'), 'n': (5, 'X')}
    >>> followed([Equation(h * d_k, 12, "W")])
    {}

    Raises `SizeError` as `solve` does, but not for tags that do not follow: these are left out.
    """
    solver = _Solver(tuple(equations), dict(known or {}))
    solver.work_out()
    return {tag: (solver.sizes[tag], source) for tag, source in solver.sources.items()}


def undetermined(sizes: Iterable[Size], known: Iterable[str] = ()) -> tuple[str, ...]:
    """The tags that `solve` does not find from axes of these sizes, whatever numbers they are.

    >>> h, d_k, n = Size.tag("h"), Size.tag("d_k"), Size.tag("n")
    >>> undetermined([h * d_k, n + 1]), undetermined([h * d_k, n + 1], known=["h"])
    (('h', 'd_k'), ())

    It is decided at one point, large primes for the tags, by the two steps of `solve`. (Numbers
    that are special can leave a tag open that primes determine: `h*d_k` = 0 with h = 0.) Raises
    `SizeError` for sizes too large to compute with.
    """
    return _AtPrimes(sizes, known).left()


def sufficient(sizes: Iterable[Size], known: Iterable[str], open_tags: Iterable[str]) -> list[str]:
    """Few of the tags that do not follow, from which, with the known ones, the others of them do.

    >>> h, d_k, d_v = Size.tag("h"), Size.tag("d_k"), Size.tag("d_v")
    >>> sufficient([h * d_k, h * d_v], [], ["h", "d_k", "d_v", "w"])
    ['h', 'w']

    Each is the one that most follow from, the first of several.  Decided as in `undetermined`.
    """
    sizes, chosen, left = tuple(sizes), list[str](), list(open_tags)
    met = {tag for size in sizes for tag in size.tags}

    def left_by(tag: str) -> list[str]:
        still = undetermined(sizes, [*known, *chosen, tag])
        return [other for other in left if other != tag and (other in still or other not in met)]

    while left:
        best = min(left, key=lambda tag: len(left_by(tag)))
        left = left_by(best)
        chosen.append(best)
    return chosen


_GIVEN = "the sizes given"


class _Search:
    """The two steps, over numbered equations that are more than one tag.

    `gaps` are polynomials in the tags that are unknown, each zero where its equation holds. What
    follows from a step is taken up by `found`, which each kind of search has for itself.
    """

    def __init__(self, gaps: Mapping[int, Size]) -> None:
        self.gaps = gaps

    def found(self, gap: Size, used: Sequence[int]) -> None:
        """Take the root of this polynomial in one tag, which comes from the equations numbered."""
        raise NotImplementedError

    def put(self, sizes: Mapping[str, int]) -> None:
        """Replace tags whose sizes are known."""
        self.gaps = {number: _at(gap, sizes) for number, gap in self.gaps.items()}

    def propagate(self) -> bool:
        """Solve each equation that has a single unknown tag; whether there was one."""
        found = False
        for number in self.gaps:
            if _grows(self.gaps[number]):
                self.found(self.gaps[number], (number,))
                found = True
        return found

    def eliminate(self) -> bool:
        """Solve equations together, linearly in their monomials; whether a tag came out."""
        rows = [(gap, (number,)) for number, gap in self.gaps.items()]
        for gap, used in _reduced(rows):
            if _grows(gap) or gap.constant:
                self.found(gap, used)
                return True
        return False


class _Solver(_Search):
    def __init__(self, equations: tuple[Equation, ...], known: Mapping[str, int]) -> None:
        for equation in equations:
            check_size(f"{equation.size} from {equation.where}", equation.value, least=0)
        self.equations = equations
        self.sizes = {tag: check_size(tag, size, least=0) for tag, size in known.items()}
        self.places = dict.fromkeys(self.sizes, _GIVEN)
        self.sources: dict[str, str] = {}
        # Denominators are multiplied out before known sizes go in, since those may be zero.
        gaps: dict[int, Size] = {}
        for number, equation in enumerate(equations):
            if equation.size.single_tag is None:
                num, den = fraction(equation.size)
                gaps[number] = num - equation.value * den
        super().__init__(gaps)

    def solved(self) -> dict[str, int]:
        unknown = self.work_out()
        if unknown:
            raise SizeError("underdetermined", tags=unknown)
        return self.sizes

    def work_out(self) -> list[str]:
        """Find every size that follows and check every equation; the tags that do not follow."""
        tags = dict.fromkeys(tag for equation in self.equations for tag in equation.size.tags)
        # Plain tags first: their places are what a person recognises in a contradiction.
        for equation in self.equations:
            tag = equation.size.single_tag
            if tag is not None and tag not in self.sizes:
                self.sizes[tag], self.places[tag] = equation.value, equation.where
                self.sources[tag] = equation.where
        self.put(self.sizes)
        while True:
            while self.propagate():
                pass
            for number in range(len(self.equations)):
                self.check(number)
            unknown = [tag for tag in tags if tag not in self.sizes]
            if not unknown or not self.eliminate():
                return unknown

    def found(self, gap: Size, used: Sequence[int]) -> None:
        root = _root(gap) if _grows(gap) else None
        equations = [self.equations[number] for number in used]
        places = " and ".join(map(_said, equations))
        if root is None and len(used) == 1:
            raise self.unsolvable(equations[0], gap)
        if root is None:
            raise SizeError("together", where=places)
        tag = gap.tags[0]
        self.sizes[tag], self.places[tag] = root, places
        self.sources[tag] = " and ".join(dict.fromkeys(equation.where for equation in equations))
        self.put({tag: root})

    def check(self, number: int) -> None:
        """Refuse an equation that the sizes found contradict."""
        equation = self.equations[number]
        tag = equation.size.single_tag
        if tag is not None and self.sizes.get(tag) == equation.value:
            return
        size, value, where = str(equation.size), equation.value, equation.where
        if any(tag not in self.sizes for tag in equation.size.tags):
            # A factor that is zero settles an equation whatever its other tags are.
            if self.gaps[number].constant:
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


class _AtPrimes(_Search):
    """A search whose equations hold at a point that is known beforehand, so that no root is sought.

    A quotient need not be whole there: its equation is kept as one between two polynomials.
    """

    def __init__(self, sizes: Iterable[Size], known: Iterable[str]) -> None:
        sizes = dict.fromkeys(sizes)
        tags = dict.fromkeys(tag for size in sizes for tag in size.tags)
        self.point = dict(zip(tags, _primes(len(tags)), strict=True))
        given = {*known, *(size.single_tag for size in sizes)}
        self.open = [tag for tag in tags if tag not in given]
        mixed = [size for size in sizes if size.single_tag is None]
        super().__init__(dict(enumerate(map(self.gap, mixed))))
        self.put({tag: prime for tag, prime in self.point.items() if tag in given})

    def gap(self, size: Size) -> Size:
        num, den = fraction(size)
        if den.is_one:
            return num - num.value(self.point)
        return num * den.value(self.point) - den * num.value(self.point)

    def left(self) -> tuple[str, ...]:
        """The tags that are open after both steps have been repeated until nothing changes."""
        while self.open and (self.propagate() or self.eliminate()):
            pass
        return tuple(self.open)

    def found(self, gap: Size, used: Sequence[int]) -> None:
        (tag,) = gap.tags
        self.open.remove(tag)
        self.put({tag: self.point[tag]})


@lru_cache(maxsize=64)
def _primes(count: int) -> tuple[int, ...]:
    """So many primes, large beside the numbers that people write in sizes."""
    found: list[int] = []
    number = 1009
    while len(found) < count:
        if all(number % divisor for divisor in range(2, math.isqrt(number) + 1)):
            found.append(number)
        number += 2
    return tuple(found)


def _said(equation: Equation) -> str:
    return f"{equation.size} = {equation.value} from {equation.where}"


def _at(gap: Size, sizes: Mapping[str, int]) -> Size:
    """A polynomial without quotients, with numbers for these tags."""
    if not any(tag in sizes for tag in gap.tags):
        return gap
    terms: list[Term] = []
    for coefficient, monomial in gap.terms:
        left: list[tuple[Atom, int]] = []
        for atom, exponent in monomial:
            if isinstance(atom, str) and atom in sizes:
                coefficient *= sizes[atom] ** exponent
            else:
                left.append((atom, exponent))
        terms.append((coefficient, tuple(left)))
    return Size(collected(terms))


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


_Row = tuple[Size, tuple[int, ...]]


def _reduced(rows: Iterable[_Row]) -> list[_Row]:
    """The reduced row echelon form, each monomial being a column and each row made whole again.

    A row comes with the numbers of the equations that it combines. Rows that are zero are left out.
    """
    done: list[tuple[Monomial, Size, tuple[int, ...]]] = []
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
    used: tuple[int, ...],
    pivot: Monomial,
    other: Size,
    others: tuple[int, ...],
) -> _Row:
    """Combine a row with another so that the pivot's column vanishes from it."""
    here = sum(c for c, monomial in gap.terms if monomial == pivot)
    there = sum(c for c, monomial in other.terms if monomial == pivot)
    if not here:
        return gap, used
    combined = gap * there - other * here
    content = math.gcd(*(c for c, _ in combined.terms)) or 1
    return combined // content, tuple(dict.fromkeys((*used, *others)))
