"""From index forms to the proof normal form, and what a comparison of two of them says.

Softmax is lowered to its definition, ``[g] e^s · inv0(Σ_t [g] e^s)``.  Sizes are first rewritten by
the relations in force; then merged axes are aligned: where one side reads an axis of size ``h·d_v``
as heads by features, every axis of that size is split so on both sides.  Two different splits of
one size cannot be aligned, and the comparison is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from symattn.meaning.form import (
    Add,
    Allowed,
    Apply,
    AtMost,
    Both,
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
    places,
)
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.entries import entry_text
from symattn.proof.normal.arithmetic import UndefinedError
from symattn.proof.normal.atoms import BudgetSpentError, Polynomial
from symattn.proof.normal.binders import Algebra
from symattn.tags import Relations, Size

Indices = tuple[int, ...]


class ConflictingSplitsError(Exception):
    """One size is read as two different merged axes."""


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
        lowering = Lowering(algebra, relations, _splits(forms, relations), names)
        at = {index: lowering.fresh(index.size) for index in free}
        first, *others = [lowering.form(form, at) for form in forms]
        equal = all(algebra.equal(first, other) for other in others)
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


def _splits(forms: Iterable[Form], relations: Relations) -> dict[Size, tuple[Size, ...]]:
    """Collect how merged axes are read: the size of the whole, and the sizes of its factors."""
    splits: dict[Size, tuple[Size, ...]] = {}
    for form in forms:
        for _, at in places(form):
            if len(at) < 2:
                continue
            parts = tuple(relations.rewrite(index.size) for index in at)
            whole = Size.of(1)
            for part in parts:
                whole = whole * part
            parts = tuple(part for part in parts if not part.is_one)
            if len(parts) > 1 and splits.setdefault(whole, parts) != parts:
                one, other = (" × ".join(map(str, p)) for p in (splits[whole], parts))
                raise ConflictingSplitsError(
                    f"the axis of size {whole} is read both as {one} and as {other}"
                )
    return splits


class Lowering:
    """Lowers forms into one algebra, under relations and splits of merged axes."""

    def __init__(
        self,
        algebra: Algebra,
        relations: Relations,
        splits: dict[Size, tuple[Size, ...]],
        names: dict[Index, str],
    ) -> None:
        self.algebra = algebra
        self.relations = relations
        self.splits = splits
        self.names = names
        self.conditions: list[str] = []

    def fresh(self, size: Size) -> Indices:
        """Return fresh indices for an axis: none of size one, several where it is merged."""
        size = self.relations.rewrite(size)
        if size.is_one:
            return ()
        parts = self.splits.get(size)
        if parts is None:
            return (self.algebra.index(size),)
        return tuple(index for part in parts for index in self.fresh(part))

    def form(self, form: Form, at: dict[Index, Indices]) -> Polynomial:
        """Return the normal form, with each free index at the given indices."""
        return _RULES[type(form)](self, form, at)

    def read(self, place: Place, at: dict[Index, Indices]) -> Indices:
        """Return the indices at which a place is read."""
        return tuple(index for one in place for index in at[one])

    def entry(self, form: Entry, at: dict[Index, Indices]) -> Polynomial:
        sizes = tuple(self.relations.rewrite(size) for size in form.sizes)
        base = self.algebra.base("entry", (form.name, sizes))
        return self.algebra.atom(base, tuple(i for p in form.places for i in self.read(p, at)))

    def parameter(self, form: Parameter, at: dict[Index, Indices]) -> Polynomial:
        content = (form.name, form.positive)
        return self.algebra.atom(self.algebra.base("scalar", content, positive=form.positive))

    def position(self, form: Position, at: dict[Index, Indices]) -> Polynomial:
        algebra = self.algebra
        result: Polynomial = {}
        for index in self.read(form.at, at):
            size = algebra.sizes[index]
            base = algebra.base("position", size, nonnegative=True)
            outer = algebra.multiply(result, algebra.extent(size))
            result = algebra.add(outer, algebra.atom(base, (index,)))
        return result

    def product(self, form: Mul, at: dict[Index, Indices]) -> Polynomial:
        result = self.algebra.number(1)
        for factor in form.factors:
            result = self.algebra.multiply(result, self.form(factor, at))
        return result

    def power(self, form: Power, at: dict[Index, Indices]) -> Polynomial:
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

    def apply(self, form: Apply, at: dict[Index, Indices]) -> Polynomial:
        argument = self.form(form.argument, at)
        row = FUNCTIONS.get(form.function)
        if row is not None and row.domain and not self.algebra.positive(argument):
            self.conditions.append(
                f"{row.text} is defined {row.domain}: {entry_text(form.argument, self.names)}"
            )
        return self.algebra.function(form.function, argument)

    def sum(self, form: Sum, at: dict[Index, Indices]) -> Polynomial:
        indices = self.fresh(form.index.size)
        result = self.form(form.body, {**at, form.index: indices})
        for index in reversed(indices):
            result = self.algebra.sum(result, index)
        return result

    def maximum(self, form: Maximum, at: dict[Index, Indices]) -> Polynomial:
        indices = self.fresh(form.index.size)
        return self.algebra.maximum(self.form(form.body, {**at, form.index: indices}), indices)

    def softmax(self, form: Softmax, at: dict[Index, Indices]) -> Polynomial:
        algebra = self.algebra
        bound = self.fresh(form.index.size)
        read = self.read(form.at, at)
        total = self.weight(form, {**at, form.index: bound})
        for index in reversed(bound):
            total = algebra.sum(total, index)
        weight = self.weight(form, {**at, form.index: read})
        return algebra.multiply(weight, algebra.inverse_or_zero(total))

    def weight(self, form: Softmax, at: dict[Index, Indices]) -> Polynomial:
        """Return ``[g] e^s``, what softmax normalises."""
        weight = self.algebra.exp(self.form(form.body, at))
        if form.allowed is None:
            return weight
        return self.algebra.multiply(self.condition(form.allowed, at), weight)

    def condition(self, condition: Condition, at: dict[Index, Indices]) -> Polynomial:
        """Return a condition as a polynomial whose value is 0 or 1."""
        algebra = self.algebra
        match condition:
            case Same(left, right):
                result = algebra.number(1)
                pairs = zip(self.read(left, at), self.read(right, at), strict=True)
                for one, other in pairs:
                    result = algebra.multiply(result, algebra.same(one, other))
                return result
            case AtMost(left, right):
                gap = algebra.scale(self.form(left, at), Fraction(-1))
                return algebra.at_most(algebra.add(self.form(right, at), gap))
            case Allowed(name, sizes, where):
                rewritten = tuple(self.relations.rewrite(size) for size in sizes)
                base = algebra.base("allowed", (name, rewritten), nonnegative=True)
                return algebra.atom(base, tuple(i for p in where for i in self.read(p, at)))
            case Not(inner):
                opposite = algebra.scale(self.condition(inner, at), Fraction(-1))
                return algebra.add(algebra.number(1), opposite)
            case Both(left, right):
                return algebra.multiply(self.condition(left, at), self.condition(right, at))


_RULES: dict[type, Callable[[Lowering, Any, dict[Index, Indices]], Polynomial]] = {
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
}
