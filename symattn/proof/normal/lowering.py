"""From index forms to the proof normal form, and what a comparison of two of them says.

Softmax is lowered to its definition, ``[g] e^s · inv0(Σ_t [g] e^s)``.  Sizes are first rewritten by
the relations in force; then merged axes and direct sums are aligned (see `axes`): a sum over an
axis that is read block by block becomes one sum a block.  Where that is not possible, the
comparison is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from symattn.errors import InternalError
from symattn.meaning.form import (
    Add,
    Allowed,
    Apply,
    AtMost,
    Blocks,
    Both,
    Component,
    Condition,
    Entry,
    Extent,
    Form,
    Index,
    Maximum,
    Mul,
    Not,
    Number,
    Parameter,
    Place,
    Position,
    Power,
    Same,
    Softmax,
    Sum,
    Truth,
    indices_of,
)
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.index_forms import entry_text
from symattn.proof.normal.arithmetic import UndefinedError
from symattn.proof.normal.atoms import BudgetSpentError, Polynomial
from symattn.proof.normal.axes import Axes, ConflictingSplitsError, Parts
from symattn.proof.normal.binders import Algebra
from symattn.tags import Relations, Size


@dataclass(frozen=True, slots=True)
class At:
    """Where an axis is read: indices of the algebra, and in which block of each direct sum.

    A block is the sizes of all blocks on its axis, and the number of this one.
    """

    indices: tuple[int, ...] = ()
    blocks: tuple[tuple[Parts, int], ...] = ()

    def __add__(self, other: At) -> At:
        return At(self.indices + other.indices, self.blocks + other.blocks)


Scope = dict[Index, At]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether two index forms have one normal form.

    ``equal`` is None where the question was not decided, and ``reason`` says why.  ``conditions``
    lists what has to hold for both sides to be defined, in words.
    """

    equal: bool | None
    reason: str
    conditions: tuple[str, ...]


def compare(
    forms: Sequence[Form],
    free: Sequence[Index],
    relations: Relations = Relations(),  # noqa: B008
) -> Comparison:
    """Compare index forms in the same free indices, under relations between their tags.

    They are equal if each has the normal form of the first.
    """
    algebra = Algebra()
    try:
        names = dict(zip(free, "ijkl", strict=False))
        lowering = Lowering(algebra, relations, Axes(forms, relations), names)
        equal = True
        for ways in product(*map(lowering.ways, free)):
            at = dict(zip(free, ways, strict=True))
            first, *others = [lowering.form(form, at) for form in forms]
            equal = equal and all(algebra.equal(first, other) for other in others)
    except BudgetSpentError as spent:
        return Comparison(None, f"the normal form grew past its budget ({spent})", ())
    except ConflictingSplitsError as conflict:
        return Comparison(None, str(conflict), ())
    except UndefinedError as undefined:
        return Comparison(None, f"one side is never defined: {undefined}", ())
    except RecursionError:
        return Comparison(None, "the expression is nested too deeply", ())
    conditions = tuple(dict.fromkeys(lowering.conditions))
    return Comparison(equal, "" if equal else "the normal forms differ", conditions)


class Lowering:
    """Lowers forms into one algebra, under relations, with axes read in one way."""

    def __init__(
        self,
        algebra: Algebra,
        relations: Relations,
        axes: Axes,
        names: dict[Index, str],
    ) -> None:
        self.algebra = algebra
        self.relations = relations
        self.axes = axes
        self.names = names
        self.conditions: list[str] = []

    def ways(self, index: Index) -> list[At]:
        """Return fresh indices for an axis, one way to be on it for each block of a direct sum.

        There is no index on an axis of size one, and there are several where it is merged.
        """
        return self.ways_on(self.relations.rewrite(index.size), self.axes.parts((index,)))

    def ways_on(self, size: Size, blocks: Parts | None) -> list[At]:
        """Return the ways to be on an axis of this size with these blocks, if it has any."""
        if size.is_one:
            return [At()]
        if size in self.axes.merged:
            factors = self.axes.merged[size]
            parts = [self.ways_on(part, self.axes.parts_of(part)) for part in factors]
            return [sum(way, start=At()) for way in product(*parts)]
        if blocks is not None:
            ways = ((k, self.ways_on(part, None)) for k, part in enumerate(blocks))
            return [At((), ((blocks, k),)) + way for k, inside in ways for way in inside]
        return [At((self.algebra.index(size),))]

    def form(self, form: Form, at: Scope) -> Polynomial:
        """Return the normal form, with each free index at the given indices."""
        return _RULES[type(form)](self, form, at)

    def read(self, place: Place, at: Scope) -> At:
        """Return where a place is read."""
        return sum(
            (at[one] if isinstance(one, Index) else self.factor(one, at) for one in place),
            start=At(),
        )

    def factor(self, one: Component, at: Scope) -> At:
        """Return where one factor of a merged axis is read, its whole axis being split."""
        whole = self.read(one.of, at)
        factors = [self.factors(self.relations.rewrite(size)) for size in one.sizes]
        wanted = [size for factor in factors for size in factor]
        if whole.blocks or wanted != [self.algebra.sizes[index] for index in whole.indices]:
            sizes = " × ".join(map(str, one.sizes))
            raise ConflictingSplitsError(f"an axis is read as {sizes}, which it is not split into")
        start = sum(map(len, factors[: one.position]))
        return At(whole.indices[start : start + len(factors[one.position])])

    def factors(self, size: Size) -> list[Size]:
        """Return the sizes of the indices that there are on an axis."""
        if size.is_one:
            return []
        parts = self.axes.merged.get(size)
        return [size] if parts is None else [f for part in parts for f in self.factors(part)]

    def input(
        self, kind: str, form: Entry | Allowed, at: Scope, *, nonnegative: bool = False
    ) -> Polynomial:
        """Return an entry of an input; in other blocks it is another base."""
        sizes = tuple(self.relations.rewrite(size) for size in form.sizes)
        read = [self.read(place, at) for place in form.places]
        blocks = tuple(one.blocks for one in read)
        base = self.algebra.base(kind, (form.name, sizes, blocks), nonnegative=nonnegative)
        return self.algebra.atom(base, sum(read, start=At()).indices)

    def entry(self, form: Entry, at: Scope) -> Polynomial:
        return self.input("entry", form, at)

    def direct_sum(self, form: Blocks, at: Scope) -> Polynomial:
        """Return the form of the part in which the place lies."""
        read = self.read(form.at, at)
        (_, block), *rest = read.blocks
        for part in form.parts:
            within = self.axes.parts(part.place)
            count = len(within or (part,))
            if block < count:
                inner = At(read.indices, ((within, block), *rest) if within else tuple(rest))
                within_part = dict.fromkeys(indices_of(part.place), inner)
                return self.form(part.form, {**at, **within_part})
            block -= count
        raise InternalError("a place beyond the last block")

    def parameter(self, form: Parameter, at: Scope) -> Polynomial:
        content = (form.name, form.positive)
        return self.algebra.atom(self.algebra.base("scalar", content, positive=form.positive))

    def position(self, form: Position, at: Scope) -> Polynomial:
        algebra = self.algebra
        result: Polynomial = {}
        for one in form.at:
            size = self.relations.rewrite(one.size)
            outer = algebra.multiply(result, algebra.extent(size))
            result = algebra.add(outer, self.offset(size, self.read((one,), at)))
        return result

    def offset(self, size: Size, read: At) -> Polynomial:
        """Return a place on an axis as a number: what lies before its block, then row-major."""
        algebra = self.algebra
        result: Polynomial = {}
        for index in read.indices:
            extent = algebra.sizes[index]
            base = algebra.base("position", extent, nonnegative=True)
            outer = algebra.multiply(result, algebra.extent(extent))
            result = algebra.add(outer, algebra.atom(base, (index,)))
        for parts, block in read.blocks:
            if self.relations.rewrite(sum(parts, start=Size.of(0))) != size:
                raise ConflictingSplitsError(f"the position on the merged axis of size {size}")
            result = algebra.add(result, *(algebra.extent(part) for part in parts[:block]))
        return result

    def product(self, form: Mul, at: Scope) -> Polynomial:
        result = self.algebra.number(1)
        for factor in form.factors:
            result = self.algebra.multiply(result, self.form(factor, at))
        return result

    def power(self, form: Power, at: Scope) -> Polynomial:
        base = self.form(form.base, at)
        written = entry_text(form.base, self.names)
        if form.exponent.denominator == 1:
            if form.exponent < 0 and not self.algebra.never_zero(base):
                self.conditions.append(f"{written} ≠ 0")
        elif form.exponent < 0 and not self.algebra.positive(base):
            self.conditions.append(f"{written} > 0")
        elif not self.algebra.nonnegative(base):
            self.conditions.append(f"{written} ≥ 0")
        return self.algebra.power(base, form.exponent)

    def apply(self, form: Apply, at: Scope) -> Polynomial:
        argument = self.form(form.argument, at)
        row = FUNCTIONS.get(form.function)
        if row is not None and row.domain and not self.algebra.positive(argument):
            self.conditions.append(
                f"{row.text} is defined {row.domain}: {entry_text(form.argument, self.names)}"
            )
        return self.algebra.function(form.function, argument)

    def sum(self, form: Sum, at: Scope) -> Polynomial:
        return self.summed(form.index, lambda way: self.form(form.body, {**at, form.index: way}))

    def summed(self, index: Index, body: Callable[[At], Polynomial]) -> Polynomial:
        """Return the sum of a body over an axis, block by block."""
        total: Polynomial = {}
        for way in self.ways(index):
            result = body(way)
            for inner in reversed(way.indices):
                result = self.algebra.sum(result, inner)
            total = self.algebra.add(total, result)
        return total

    def maximum(self, form: Maximum, at: Scope) -> Polynomial:
        algebra, ways = self.algebra, self.ways(form.index)
        bodies = [self.form(form.body, {**at, form.index: way}) for way in ways]
        if len(ways) == 1:
            return algebra.maximum(bodies[0], ways[0].indices)
        if not all(map(algebra.is_truth, bodies)):
            raise ConflictingSplitsError("a maximum over a direct sum has no normal form")
        none = algebra.number(1)  # 1 where no block has a place that is true
        for body, way in zip(bodies, ways, strict=True):
            some = algebra.any(body, way.indices)
            none = algebra.multiply(none, algebra.add(algebra.number(1), _minus(some)))
        return algebra.add(algebra.number(1), _minus(none))

    def softmax(self, form: Softmax, at: Scope) -> Polynomial:
        algebra = self.algebra
        ways = self.ways(form.index)
        outside = algebra.number(1)
        total: Polynomial = {}
        none = algebra.number(1)  # 1 where nothing is allowed
        for way in ways:
            allowed, weight = self.weight(form, {**at, form.index: way})
            if len(ways) == 1 and allowed:
                # A condition on the query alone stands before the sum.
                outside, allowed = algebra.apart(allowed, way.indices)
            part = algebra.multiply(allowed, weight)
            for index in reversed(way.indices):
                part = algebra.sum(part, index)
            total = algebra.add(total, part)
            some = algebra.any(allowed, way.indices)
            none = algebra.multiply(none, algebra.add(algebra.number(1), _minus(some)))
        support = algebra.add(algebra.number(1), _minus(none))
        inverse = algebra.inverse_or_zero(total, support)
        numerator = algebra.multiply(*self.weight(form, {**at, form.index: self.read(form.at, at)}))
        return algebra.multiply(numerator, algebra.multiply(outside, inverse))

    def weight(self, form: Softmax, at: Scope) -> tuple[Polynomial, Polynomial]:
        """Return ``[g]`` and ``e^s``: softmax normalises their product."""
        weight = self.algebra.exp(self.form(form.body, at))
        if form.allowed is None:
            return self.algebra.number(1), weight
        return self.condition(form.allowed, at), weight

    def condition(self, condition: Condition, at: Scope) -> Polynomial:
        """Return a condition as a polynomial whose value is 0 or 1."""
        algebra = self.algebra
        match condition:
            case Same(left, right):
                first, second = self.read(left, at), self.read(right, at)
                if [parts for parts, _ in first.blocks] != [parts for parts, _ in second.blocks]:
                    raise ConflictingSplitsError("places on differently stacked axes are compared")
                if first.blocks != second.blocks:
                    return {}
                result = algebra.number(1)
                for one, other in zip(first.indices, second.indices, strict=True):
                    result = algebra.multiply(result, algebra.same(one, other))
                return result
            case AtMost(left, right):
                gap = algebra.scale(self.form(left, at), Fraction(-1))
                return algebra.at_most(algebra.add(self.form(right, at), gap))
            case Allowed():
                return self.input("allowed", condition, at, nonnegative=True)
            case Not(AtMost(left, right)):  # left > right, between whole numbers
                gap = algebra.scale(self.form(right, at), Fraction(-1))
                return algebra.at_most(algebra.add(self.form(left, at), gap, algebra.number(-1)))
            case Not(inner):
                opposite = algebra.scale(self.condition(inner, at), Fraction(-1))
                return algebra.add(algebra.number(1), opposite)
            case Both(left, right):
                return algebra.multiply(self.condition(left, at), self.condition(right, at))


def _minus(polynomial: Polynomial) -> Polynomial:
    return {monomial: -coefficient for monomial, coefficient in polynomial.items()}


_RULES: dict[type, Callable[[Lowering, Any, Scope], Polynomial]] = {
    Number: lambda lowering, form, at: lowering.algebra.number(form.value),
    Extent: lambda lowering, form, at: lowering.algebra.extent(
        lowering.relations.rewrite(form.size)
    ),
    Add: lambda lowering, form, at: lowering.algebra.add(
        *(lowering.form(term, at) for term in form.terms)
    ),
    Truth: lambda lowering, form, at: lowering.condition(form.condition, at),
    Parameter: Lowering.parameter,
    Entry: Lowering.entry,
    Position: Lowering.position,
    Mul: Lowering.product,
    Power: Lowering.power,
    Apply: Lowering.apply,
    Sum: Lowering.sum,
    Maximum: Lowering.maximum,
    Softmax: Lowering.softmax,
    Blocks: Lowering.direct_sum,
}
