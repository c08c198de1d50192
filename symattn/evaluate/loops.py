"""Numbers of an index form by plain loops: Σ is a loop over an index, nothing more.

Where the other evaluator computes matrices as they are written, this one computes what a formula
*means*, one entry at a time.  It serves as the oracle for generated code (in floats), and against
the matrix evaluator it tests the meanings themselves (in many digits).

The values of a sum, a maximum or a softmax are remembered for each value of the indices that stand
free in it, so that a denominator is computed once for a column rather than once for an entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from typing import Any

from symattn.errors import InternalError, UndefinedPointError
from symattn.evaluate.arithmetic import (
    FLOATS,
    Arithmetic,
    apply_function,
    number,
    rows_of,
    undefined,
)
from symattn.evaluate.scalars import require_indices
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
    children,
    indices_of,
    place,
)
from symattn.nodes.core import Node
from symattn.nodes.indices import AxisIndex
from symattn.tags import Size

Numbers = Any
Arrays = Mapping[tuple[str, tuple[Size, ...]], Any]
"""Inputs by name and sizes, each as nested rows with one level for each size."""

_Bound = dict[Index, int]
_Value = Callable[[_Bound], Any]


def entry_value(
    form: Form,
    at: Mapping[Index, int],
    sizes: Mapping[str, int],
    entries: Arrays,
    scalars: Mapping[str, Any] | None = None,
    arithmetic: Arithmetic = FLOATS,
) -> Numbers:
    """Return the number that a form is where its free indices have these values.

    >>> from fractions import Fraction
    >>> i, n = Index(Size.tag("n")), (Size.tag("n"), Size.of(1))
    >>> total = Sum(i, Entry("x", n, ((i,), ())))
    >>> entry_value(total, {}, {"n": 3}, {("x", n): [[1], [2], [4]]})
    7.0

    Indices count from 0; ``entries`` hold the inputs by name and sizes.  Raises
    `UndefinedPointError` where a division by zero or a root of a negative number comes up.
    """
    loops = _Loops(sizes, entries, scalars or {}, arithmetic)
    try:
        return loops.compiled(form)(dict(at))
    except (ZeroDivisionError, OverflowError) as error:
        raise undefined(error) from None


def table(
    node: Node,
    sizes: Mapping[str, int],
    inputs: Mapping[Any, Any],
    scalars: Mapping[str, Any] | None = None,
    arithmetic: Arithmetic = FLOATS,
    *,
    indices: Mapping[AxisIndex, int] | None = None,
) -> list[list[Numbers]]:
    """Return every entry of a formula, each from its meaning, as rows.

    >>> from symattn.nodes import dims, matrix, softmax
    >>> m, n = dims("m n")
    >>> S = matrix("S", m, n)
    >>> table(softmax(S, axis=0), {"m": 2, "n": 1}, {S: [[0], [0]]})
    [[0.5], [0.5]]

    ``indices`` says where the indices that are free in the formula are read.  Raises
    `UndefinedPointError` and `SizeError` as `entry_value` and the matrix evaluator do.
    """
    entries: dict[tuple[str, tuple[Size, ...]], Any] = {
        (source.label, source.sizes): rows_of(source, inputs[source], sizes, arithmetic)
        for source in node.inputs()
    }
    entries.update(((array.label, array.sizes), inputs[array]) for array in node.booleans())
    row, column = place(node.sizes[0]), place(node.sizes[1])
    require_indices((node,), sizes, indices or {})
    loops = _Loops(sizes, entries, scalars or {}, arithmetic)
    rows, columns = (size.value(sizes) for size in node.sizes)
    try:
        entry = loops.compiled(node.meaning(row, column))
        return [
            [
                entry({**_spread(i, row, sizes), **_spread(j, column, sizes), **_read_at(indices)})
                for j in range(columns)
            ]
            for i in range(rows)
        ]
    except (ZeroDivisionError, OverflowError) as error:
        raise undefined(error) from None


def free_indices(form: Form | Condition) -> tuple[Index, ...]:
    """Return the indices that a form reads and does not bind, in order of appearance."""
    found: dict[Index, None] = {}
    match form:
        case Entry(_, _, at) | Allowed(_, _, at):
            found.update(dict.fromkeys(indices_of(tuple(itertools.chain(*at)))))
        case Position(at):
            found.update(dict.fromkeys(indices_of(at)))
        case Same(left, right):
            found.update(dict.fromkeys(indices_of(left + right)))
        case Softmax(_, _, at, _) | Blocks(at, _):
            found.update(dict.fromkeys(indices_of(at)))
        case _:
            pass
    bound: tuple[Index, ...] = (form.index,) if isinstance(form, Sum | Maximum | Softmax) else ()
    if isinstance(form, Blocks):
        bound = tuple(index for part in form.parts for index in indices_of(part.place))
    for child in children(form):
        found.update((index, None) for index in free_indices(child) if index not in bound)
    return tuple(found)


class _Loops:
    """Turns forms into functions of the values of their indices, at one point."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        entries: Arrays,
        scalars: Mapping[str, Any],
        arithmetic: Arithmetic,
    ) -> None:
        self.sizes = sizes
        self.entries = entries
        self.scalars = scalars
        self.arithmetic = arithmetic

    def compiled(self, form: Form | Condition) -> _Value:
        """Return the function that computes a form, or the truth of a condition."""
        match form:
            case Number() | Extent() | Parameter():
                constant = self._constant(form)
                return lambda bound: constant
            case Entry(name, sizes, at) | Allowed(name, sizes, at):
                return self._entry(self.entries[name, sizes], at)
            case Position(at):
                position = self._position(at)
                return lambda bound: self.arithmetic.mpf(position(bound))
            case Add() | Mul() | Power() | Apply():
                return self._pointwise(form)
            case Sum() | Maximum():
                return self._remembered(form, self._folded(form))
            case Softmax():
                return self._softmax(form)
            case Blocks():
                return self._blocks(form)
            case Truth(condition):
                holds = self.compiled(condition)
                return lambda bound: self.arithmetic.mpf(1 if holds(bound) else 0)
            case Same() | AtMost() | Not() | Both():
                return self._condition(form)
        raise InternalError(f"no loop for {type(form).__name__}")

    def _constant(self, form: Number | Extent | Parameter) -> Any:
        match form:
            case Number(value):
                return number(value, self.arithmetic)
            case Extent(size):
                return self.arithmetic.mpf(size.value(self.sizes))
            case Parameter(name):
                return number(self.scalars[name], self.arithmetic)

    def _pointwise(self, form: Add | Mul | Power | Apply) -> _Value:
        arithmetic = self.arithmetic
        if isinstance(form, Power):
            base, exponent = self.compiled(form.base), form.exponent
            return lambda bound: _power(base(bound), exponent, arithmetic)
        if isinstance(form, Apply):
            argument, name = self.compiled(form.argument), form.function
            return lambda bound: apply_function(name, argument(bound), arithmetic)
        parts = [self.compiled(part) for part in children(form)]
        start = arithmetic.mpf(0 if isinstance(form, Add) else 1)

        def summed(bound: _Bound) -> Any:
            value = start
            for part in parts:
                value = value + part(bound)
            return value

        def multiplied(bound: _Bound) -> Any:
            value = start
            for part in parts:
                value = value * part(bound)
            return value

        return summed if isinstance(form, Add) else multiplied

    def _entry(self, rows: Any, at: tuple[Place, ...]) -> _Value:
        positions = [self._position(axis) for axis in at]

        def value(bound: _Bound) -> Any:
            entry = rows
            for position in positions:
                entry = entry[position(bound)]
            return entry

        return value

    def _position(self, at: Place) -> Callable[[_Bound], int]:
        """Return the place as a number, row-major where several indices share an axis."""
        if not at:
            return lambda bound: 0
        if len(at) == 1:
            return self._factor(at[0])
        factors = [(self._factor(one), one.size.value(self.sizes)) for one in at]

        def value(bound: _Bound) -> int:
            position = 0
            for factor, extent in factors:
                position = position * extent + factor(bound)
            return position

        return value

    def _factor(self, one: Index | Component) -> Callable[[_Bound], int]:
        """Return an index as a number, or one factor of a place on a merged axis."""
        if isinstance(one, Index):
            return lambda bound: bound[one]
        whole = self._position(one.of)
        extent = one.size.value(self.sizes)
        inner = prod(size.value(self.sizes) for size in one.sizes[one.position + 1 :])
        return lambda bound: whole(bound) // inner % extent

    def _folded(self, form: Sum | Maximum) -> _Value:
        index, body = form.index, self.compiled(form.body)
        extent = index.size.value(self.sizes)
        zero = self.arithmetic.mpf(0)

        def summed(bound: _Bound) -> Any:
            value = zero
            for k in range(extent):
                value = value + body({**bound, index: k})
            return value

        def largest(bound: _Bound) -> Any:
            return max(body({**bound, index: k}) for k in range(extent))

        return summed if isinstance(form, Sum) else largest

    def _softmax(self, form: Softmax) -> _Value:
        index, body, arithmetic = form.index, self.compiled(form.body), self.arithmetic
        extent = index.size.value(self.sizes)
        allowed = None if form.allowed is None else self.compiled(form.allowed)
        read = self._position(form.at)

        def weights(bound: _Bound) -> list[Any]:
            points = [{**bound, index: k} for k in range(extent)]
            kept = {
                k: body(inner)
                for k, inner in enumerate(points)
                if allowed is None or allowed(inner)
            }
            result = [arithmetic.mpf(0)] * extent
            if not kept:
                return result
            # Subtracting the largest changes no weight, and floats do not overflow.
            largest = max(kept.values())
            exponentials = {k: arithmetic.exp(value - largest) for k, value in kept.items()}
            total = sum(exponentials.values(), arithmetic.mpf(0))
            for k, value in exponentials.items():
                result[k] = value / total
            return result

        # Where it is read is no part of what is remembered: one column serves all its entries.
        inside = Softmax(index, form.body, (), form.allowed)
        column = self._remembered(inside, weights)
        return lambda bound: column(bound)[read(bound)]

    def _blocks(self, form: Blocks) -> _Value:
        at = self._position(form.at)
        parts = [
            (part.size.value(self.sizes), part.place, self.compiled(part.form))
            for part in form.parts
        ]

        def value(bound: _Bound) -> Any:
            position = at(bound)
            for extent, where, entry in parts:
                if position < extent:
                    return entry({**bound, **_spread(position, where, self.sizes)})
                position -= extent
            raise InternalError("a place beyond the last block")

        return value

    def _remembered(self, form: Form, compute: _Value) -> _Value:
        free = free_indices(form)
        known: dict[tuple[int, ...], Any] = {}

        def value(bound: _Bound) -> Any:
            key = tuple([bound[index] for index in free])
            if key not in known:
                known[key] = compute(bound)
            return known[key]

        return value

    def _condition(self, condition: Same | AtMost | Not | Both) -> _Value:
        match condition:
            case Same(left, right):
                first, second = self._position(left), self._position(right)
                return lambda bound: first(bound) == second(bound)
            case AtMost(left, right):
                low, high = self.compiled(left), self.compiled(right)
                return lambda bound: low(bound) <= high(bound)
            case Not(inner):
                holds = self.compiled(inner)
                return lambda bound: not holds(bound)
            case Both(left, right):
                one, other = self.compiled(left), self.compiled(right)
                return lambda bound: bool(one(bound)) and bool(other(bound))


def _spread(position: int, at: Place, sizes: Mapping[str, int]) -> _Bound:
    """Return the indices of a place that is this position, row-major."""
    spread: _Bound = {}
    for index in reversed(tuple(indices_of(at))):
        position, spread[index] = divmod(position, index.size.value(sizes))
    return spread


def _read_at(indices: Mapping[AxisIndex, int] | None) -> _Bound:
    """Return the values of named indices by the indices of forms."""
    return {
        inner: value
        for index, value in (indices or {}).items()
        for inner in indices_of(index.place)
    }


def _power(base: Any, exponent: Fraction, arithmetic: Arithmetic) -> Any:
    if exponent.denominator == 1:
        return base**exponent.numerator
    if base < 0:
        raise UndefinedPointError(f"({base})^({exponent})")
    if exponent == Fraction(1, 2):
        return arithmetic.sqrt(base)
    return base ** number(exponent, arithmetic)
