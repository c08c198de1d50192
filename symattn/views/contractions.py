"""A formula as a program of `einsum` lines, read off its index form.

In an index form there is no transpose and no order of factors, so a product of any number of
matrices, transposed or not, is one contraction: ``S = einsum("km,kn->mn", K, Q) / sqrt(d_k)``.  A
letter stands for a size: two axes of one size have a small and a capital letter.  Heads are one
axis more, ``S = einsum("hkm,hkn->hmn", K, Q)``, in front of rows and columns.

Invariant: an array that is read by the factors of an axis, ``W^O`` by heads and features, is
reshaped first; no position is divided.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from symattn.errors import NotSupportedError
from symattn.meaning.form import (
    Add,
    Allowed,
    Apply,
    AtMost,
    Block,
    Blocks,
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
    place,
)
from symattn.nodes import Node
from symattn.notation.conditions import parts_of
from symattn.notation.names import identifier
from symattn.notation.rows import Binding
from symattn.tags import Size
from symattn.views.axes import Axes, joined
from symattn.views.letters import Letters, Value
from symattn.views.merged import by_factors, split
from symattn.views.spelling import Numbers, called

_ALWAYS = Same((), ())
_HAS_INDICES = (Entry, Position, Truth, Sum, Maximum, Softmax, Blocks)


class Contractions(Axes):
    """Writes index forms as lines of a program; ``vectors`` are inputs that have one axis."""

    def __init__(
        self, letters: Letters, vectors: Iterable[str], taken: Iterable[str], *, batch: bool
    ) -> None:
        super().__init__(letters, taken, batch=batch)
        self.vectors = frozenset(vectors)

    def line(self, name: str, node: Node) -> None:
        """Add the line that computes a matrix, or one matrix for each value of its indices."""
        heads = tuple(index for each in node.indices for index in each.place)
        places = place(node.sizes[0]), place(node.sizes[1])
        form = node.meaning(*places)
        of_axis: dict[Index, tuple[Index, ...]] = {}
        for axis in itertools.chain(*places):
            of_axis[axis], form = split(axis, form)
        order = (*heads, *itertools.chain(*of_axis.values()))
        value = self.spread(self.value(form, order), order)
        for axis, parts in of_axis.items():
            value = self.merged(value, parts, axis)
        code = value.code
        if not order and not any(isinstance(part, Entry) for part in parts_of(form)):
            code = f"{self.call('full')}((1, 1), {code})"
        elif len(of_axis) < 2:
            axes = ", ".join(":" if at else "None" for at in places)
            code = f"{value.held(Binding.ATOM)}[..., {axes}]"
        self.lines.append((name, code, (*(index.size for index in heads), *node.sizes)))

    # Forms.

    def value(self, form: Form, order: Sequence[Index] = ()) -> Value:
        """Return a form as a value; ``order`` is that in which its axes are wanted."""
        if not any(isinstance(part, _HAS_INDICES) for part in parts_of(form)):
            return self._scalar(form)
        match form:
            case Entry(name, _, places):
                return self._entry(name, places)
            case Position():
                return self._position(form)
            case Add(terms):
                return self._sum([self._signed(term, order) for term in terms], order)
            case Mul() | Sum():
                return self._product(form, order)
            case Power(base, exponent):
                return self._power(self.value(base, order), exponent)
            case Apply(function, argument):
                return self._apply(function, self.value(argument, order))
            case Truth(condition):
                truth = self.condition(condition, order)
                return replace(truth, code=f"1 * ({truth.code})", binding=Binding.PRODUCT)
            case Maximum(index, body):
                parts, body = split(index, body)
                return self._largest(parts, self.value(body, (*order, *parts)))
            case Softmax():
                return self._softmax(form, order)
            case Blocks(at, parts):
                return self._blocks(at, parts, order)
            case Number() | Extent() | Parameter():
                return self._scalar(form)

    def _scalar(self, form: Form) -> Value:
        written = Numbers(self.call).write(form)
        return Value(written.text, (), written.binding)

    def _entry(self, name: str, places: tuple[Place, ...]) -> Value:
        code = identifier(name)
        if name not in self.vectors and () in places:
            code += f"[..., {', '.join(':' if at else '0' for at in places)}]"
        read = [self._plain(at) for at in places if at]
        axes = tuple(at[0] if len(at) == 1 else Index(_size_of(at)) for at in read)
        value = Value(code, axes, leading=bool(self.dots))
        return self.split(value, dict(zip(axes, read, strict=True)))

    def _plain(self, at: Place) -> tuple[Index, ...]:
        """Return the indices of a place that has no factor of an axis that runs as one."""
        plain = tuple(one for one in at if isinstance(one, Index))
        if len(plain) < len(at):
            raise NotSupportedError("einsum with an axis that is split in several ways")
        return plain

    def _position(self, form: Position) -> Value:
        if not form.at:
            return Value("0")
        at = self._plain(form.at)
        whole = Index(_size_of(at))
        counted = Value(f"{self.call('arange')}({self.extent(whole.size)})", (whole,))
        return self.split(counted, {whole: at})

    def _signed(self, term: Form, order: Sequence[Index]) -> tuple[bool, Value]:
        match term:
            case Mul((Number(value), *rest)) if value == -1 and rest:
                inner = rest[0] if len(rest) == 1 else Mul(tuple(rest))
                return True, self.value(inner, order)
            case _:
                return False, self.value(term, order)

    def _sum(self, terms: Sequence[tuple[bool, Value]], order: Sequence[Index]) -> Value:
        indices = joined([value for _, value in terms], order)
        code = ""
        for subtracted, value in terms:
            aligned = self.aligned(value, indices)
            least = Binding.HADAMARD if code or subtracted else Binding.SUM
            sign = (" - " if subtracted else " + ") if code else ("-" if subtracted else "")
            code += sign + aligned.held(least)
        return Value(code, indices, Binding.SUM, any(value.leading for _, value in terms))

    def _power(self, base: Value, exponent: Fraction) -> Value:
        if exponent < 0:
            below = self._power(base, -exponent)
            return replace(below, code=f"1 / {below.held(Binding.POWER)}", binding=Binding.PRODUCT)
        if exponent == 1:
            return base
        if exponent == Fraction(1, 2):
            return replace(base, code=f"{self.call('sqrt')}({base.code})", binding=Binding.ATOM)
        raised = str(exponent) if exponent.denominator == 1 else f"({exponent})"
        code = f"{base.held(Binding.ATOM)}**{raised}"
        return replace(base, code=code, binding=Binding.POWER)

    def _apply(self, function: str, argument: Value) -> Value:
        code = called(function, argument.code, self.call)
        return replace(argument, code=code, binding=Binding.ATOM)

    # Products and sums over an index are one contraction.

    def _product(self, form: Mul | Sum, order: Sequence[Index]) -> Value:
        summed, factors = _opened(form)
        numbers: list[Form] = []
        arrays: list[Form] = []
        for factor in factors:
            has_indices = any(isinstance(part, _HAS_INDICES) for part in parts_of(factor))
            (arrays if has_indices else numbers).append(factor)
        values = [self.value(factor, order) for factor in arrays]
        there = {index for value in values for index in value.indices}
        numbers += [Extent(index.size) for index in summed if index not in there]
        summed = [index for index in summed if index in there]
        kept = tuple(index for index in joined(values, order) if index not in summed)
        if not values:
            return self._scalar(Mul(tuple(numbers)))
        if not summed and all(set(value.indices) == set(kept) for value in values):
            product = self._entrywise(values, kept)
        else:
            product = self.einsum([self.named(value) for value in values], kept)
        return self._scaled(product, numbers)

    def _entrywise(self, values: Sequence[Value], indices: tuple[Index, ...]) -> Value:
        if len(values) == 1:
            return values[0]
        code = " * ".join(
            self.aligned(value, indices).held(Binding.APPLICATION) for value in values
        )
        leading = any(value.leading for value in values)
        return Value(code, indices, Binding.PRODUCT, leading)

    def _scaled(self, product: Value, numbers: Sequence[Form]) -> Value:
        negative = sum(1 for n in numbers if isinstance(n, Number) and n.value == -1) % 2 == 1
        kept = [n for n in numbers if not (isinstance(n, Number) and abs(n.value) == 1)]
        below = [n for n in kept if isinstance(n, Power) and n.exponent < 0]
        above = [n for n in kept if n not in below]
        code, binding = product.code, product.binding
        if above:
            first, *rest = (self._scalar(number) for number in above)
            scale = [first.held(Binding.NEGATION), *(n.held(Binding.APPLICATION) for n in rest)]
            code = " * ".join([*scale, product.held(Binding.APPLICATION)])
            binding = min(first.binding, Binding.PRODUCT)
        for n in below:
            held = code if binding >= Binding.PRODUCT else f"({code})"
            divisor = self._scalar(n.base if n.exponent == -1 else Power(n.base, -n.exponent))
            code, binding = f"{held} / {divisor.held(Binding.APPLICATION)}", Binding.PRODUCT
        if negative:
            held = code if binding >= Binding.PRODUCT else f"({code})"
            code, binding = f"-{held}", Binding.NEGATION
        return replace(product, code=code, binding=binding)

    # What runs along an axis.

    def _largest(self, parts: Sequence[Index], body: Value) -> Value:
        value = self.named(self.spread(body, joined([body], parts), parts))
        axes = [value.indices.index(index) - len(value.indices) for index in parts]
        kept = tuple(other for other in value.indices if other not in parts)
        axis = axes[0] if len(axes) == 1 else tuple(axes)
        code = f"{value.held(Binding.ATOM)}.max(axis={axis})"
        return Value(code, kept, leading=bool(self.dots))

    def _softmax(self, form: Softmax, order: Sequence[Index]) -> Value:
        index, at = form.index, self._plain(form.at)
        weighed = Mul((Truth(form.allowed or _ALWAYS), form.body))
        parts, inside = split(index, weighed)
        assert isinstance(inside, Mul)
        truth, body = inside.factors
        assert isinstance(truth, Truth)
        wanted = [part for other in order for part in (parts if other == at[0] else (other,))]
        values = [self.value(body, wanted)]
        if form.allowed is not None:
            values.append(self.condition(truth.condition, wanted))
        indices = joined(values, wanted)
        indices = (*(part for part in parts if part not in indices), *indices)
        scores = self.named(self.merged(self.spread(values[0], indices), parts, index))
        axis = scores.indices.index(index) - len(scores.indices)
        where = ""
        for allowed in values[1:]:
            if len(parts) > 1:
                allowed = self.merged(self.spread(allowed, indices), parts, index)
            where = f", where={self.aligned(allowed, scores.indices).code}"
        self.call("softmax")
        code = f"softmax({scores.code}, axis={axis}{where})"
        value = Value(code, scores.indices, leading=bool(self.dots))
        return self._once(self.split(value, {index: at}))

    def _once(self, value: Value) -> Value:
        """Return a value with one axis an index: what is read twice at a place is a diagonal."""
        indices = tuple(dict.fromkeys(value.indices))
        return value if indices == value.indices else self.einsum([self.named(value)], indices)

    def _blocks(self, at: Place, parts: Sequence[Block], order: Sequence[Index]) -> Value:
        read = self._plain(at)
        whole = Index(_size_of(read))
        order = [whole if other == read[0] else other for other in order]
        moved: list[Value] = []
        for part in parts:
            moved.append(self._part(part, whole, order))
        there = joined(moved, order)
        indices = there if whole in there else (whole, *there)
        if self.dots and len({value.leading for value in moved}) > 1:
            raise NotSupportedError("einsum of parts only some of which have leading axes")
        written = [
            self.spread(value, indices, sizes={whole: part.size}).code
            for part, value in zip(parts, moved, strict=True)
        ]
        axis = indices.index(whole) - len(indices)
        code = f"{self.call('concatenate')}([{', '.join(written)}], axis={axis})"
        value = Value(code, indices, leading=moved[0].leading)
        return self._once(self.split(value, {whole: read}))

    def _part(self, part: Block, whole: Index, order: Sequence[Index]) -> Value:
        """Return a part of a direct sum, with the index of the whole along its axis."""
        if not part.place:
            return self.value(part.form, order)
        (own,) = self._plain(part.place)
        parts, form = split(own, part.form)
        inside = [one for other in order for one in (parts if other == whole else (other,))]
        value = self.value(form, inside)
        if len(parts) > 1:
            value = self.merged(self.spread(value, joined([value], inside), parts), parts, own)
        return self.split(value, {own: (whole,)})

    # Conditions are arrays of booleans.

    def condition(self, condition: Condition, order: Sequence[Index] = ()) -> Value:
        """Return a condition as a value; its axes broadcast."""
        match condition:
            case Allowed(name, _, places):
                return self._entry(name, places)
            case AtMost(left, right):
                return self._compared("<=", (left, right), order)
            case Not(AtMost(left, right)):
                return self._compared("<", (right, left), order)
            case Same(left, right):
                return self._compared("==", (Position(left), Position(right)), order)
            case Not(Both(Not(left), Not(right))):
                return self._combined("|", (left, right), order)
            case Not(inner):
                value = self.condition(inner, order)
                code = f"{self.call('logical_not')}({value.code})"  # ~True is -2
                return replace(value, code=code, binding=Binding.ATOM)
            case Both(left, right):
                return self._combined("&", (left, right), order)

    def _compared(self, sign: str, sides: tuple[Form, Form], order: Sequence[Index]) -> Value:
        values = [self.value(side, order) for side in sides]
        return self._beside(sign, values, order, Binding.SUM)

    def _combined(
        self, sign: str, sides: tuple[Condition, Condition], order: Sequence[Index]
    ) -> Value:
        # In Python & and | bind tighter than comparisons.
        values = [self.condition(side, order) for side in sides]
        return self._beside(sign, values, order, Binding.POWER)

    def _beside(
        self, sign: str, values: Sequence[Value], order: Sequence[Index], least: Binding
    ) -> Value:
        indices = joined(values, order)
        sides = (self.aligned(value, indices).held(least) for value in values)
        leading = any(value.leading for value in values)
        return Value(f" {sign} ".join(sides), indices, Binding.SUM, leading)


def _opened(form: Form) -> tuple[list[Index], list[Form]]:
    """Take sums over indices of a product apart: what is summed over, and the factors.

    A sum that is a factor stays one: a product in parentheses is computed first, as written.
    """
    summed: list[Index] = []
    while isinstance(form, Sum):
        form = by_factors(form)
        summed.append(form.index)
        form = form.body
    factors: list[Form] = []
    for factor in form.factors if isinstance(form, Mul) else (form,):
        if isinstance(factor, Mul):
            inner, opened = _opened(factor)
            summed += inner
            factors += opened
        else:
            factors.append(factor)
    return summed, factors


def _size_of(at: Sequence[Index]) -> Size:
    """Return the size of the axis that has these factors."""
    return prod((index.size for index in at), start=Size.of(1))
