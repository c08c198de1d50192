"""A formula as a program of `einsum` lines, read off its index form.

In an index form there is no transpose and no order of factors, so a product of any number of
matrices, transposed or not, is one contraction: ``S = einsum("km,kn->mn", K, Q) / sqrt(d_k)``.  A
letter stands for a size: two axes of one size have a small and a capital letter.

Invariant: a value is source together with the indices along its axes, in order; whatever joins
values first brings them to the same indices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

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
)
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.code import PythonPrinter
from symattn.notation.conditions import parts_of
from symattn.notation.names import identifier
from symattn.notation.printer import Written
from symattn.notation.rows import Binding
from symattn.tags import Size
from symattn.views.letters import Letters, Value

_SIMPLE = re.compile(r"\w+(\[\.\.\., [:0, ]+\])?")
"""Source that needs no line of its own: a name, or a row or column of one."""

_HAS_INDICES = (Entry, Position, Truth, Sum, Maximum, Softmax, Blocks)


class _Numbers(PythonPrinter):
    """Scalars in the Python of a program; ``imported`` says a name that it needs."""

    def __init__(self, imported: Callable[[str], str]) -> None:
        self.imported = imported

    def rational(self, value: Fraction) -> Written:
        return Written(f"{value.numerator}/{value.denominator}", Binding.PRODUCT)

    def power(self, base: Written, exponent: Fraction) -> Written:
        if exponent == Fraction(1, 2):
            self.imported("sqrt")
        return super().power(base, exponent)

    def call(self, function: str, argument: Written) -> Written:
        return Written(called(function, argument.text, self.imported), Binding.ATOM)


def called(function: str, argument: str, imported: Callable[[str], str]) -> str:
    """Return the source of an elementwise function; one known by name only is called by it.

    >>> called("relu", "x", str), called("phi", "x", str)
    ('maximum(x, 0)', 'phi(x)')
    """
    row = FUNCTIONS.get(function)
    template = f"{identifier(function)}({{x}})" if row is None else row.numpy
    template = re.sub(r"xp\.(\w+)", lambda found: imported(found[1]), template)
    return template.replace("{x}", argument)


def spelt(tag: str) -> str:
    """Return a tag as the source spells it.

    >>> spelt("d_k"), spelt("λ")
    ('d_k', 'lambda_')
    """
    return _Numbers(str).name(tag).text


class Contractions:
    """Writes index forms as lines of a program; ``lines`` has those written so far."""

    def __init__(
        self, letters: Letters, vectors: Iterable[str], taken: Iterable[str], *, batch: bool
    ) -> None:
        self.lines: list[tuple[str, str, tuple[Size, ...]]] = []
        self.functions: dict[str, None] = {}
        self.letters = letters
        self.vectors = frozenset(vectors)
        self.taken = set(taken)
        self.dots = "..." if batch else ""

    def line(self, name: str, form: Form, row: Place, column: Place) -> None:
        """Add the line that computes a matrix."""
        order = (*row, *column)
        value = self._spread(self.value(form, order), order)
        axes = ", ".join(":" if place else "None" for place in (row, column))
        code = value.code
        if not order and not any(isinstance(part, Entry) for part in parts_of(form)):
            code = f"{self.call('full')}((1, 1), {code})"
        elif len(order) < 2:
            code = f"{value.held(Binding.ATOM)}[..., {axes}]"
        sizes = tuple(place[0].size if place else Size.of(1) for place in (row, column))
        self.lines.append((name, code, sizes))

    def call(self, function: str) -> str:
        """Return the name of a function of the array library, which is imported."""
        self.functions[function] = None
        return function

    def named(self, value: Value) -> Value:
        """Return a value that is a name or a number, giving it a line of its own if need be."""
        is_number = not value.indices and not value.leading
        if is_number or _SIMPLE.fullmatch(value.code):
            return value
        k = 1
        while f"T_{k}" in self.taken:
            k += 1
        name = f"T_{k}"
        self.taken.add(name)
        self.lines.append((name, value.code, tuple(index.size for index in value.indices)))
        return Value(name, value.indices, leading=value.leading)

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
                return self._largest(index, self.value(body, (*order, index)))
            case Softmax():
                return self._softmax(form, order)
            case Blocks(at, parts):
                return self._blocks(at, parts, order)
            case Number() | Extent() | Parameter():
                return self._scalar(form)

    def _scalar(self, form: Form) -> Value:
        written = _Numbers(self.call).write(form)
        return Value(written.text, (), written.binding)

    def _entry(self, name: str, places: tuple[Place, ...]) -> Value:
        code = identifier(name)
        if any(len(place) > 1 for place in places):
            raise NotSupportedError(f"einsum of {name}, whose axes are merged")
        indices = tuple(index for place in places for index in place)
        if name not in self.vectors and len(indices) < len(places):
            code += f"[..., {', '.join(':' if place else '0' for place in places)}]"
        return Value(code, indices, leading=bool(self.dots))

    def _position(self, form: Position) -> Value:
        match form.at:
            case ():
                return Value("0")
            case (index,):
                return Value(f"{self.call('arange')}({self._extent(index.size)})", form.at)
            case _:
                raise NotSupportedError("einsum with positions on a merged axis")

    def _extent(self, size: Size) -> str:
        return _Numbers(self.call).size(size).text

    def _signed(self, term: Form, order: Sequence[Index]) -> tuple[bool, Value]:
        match term:
            case Mul((Number(value), *rest)) if value == -1 and rest:
                inner = rest[0] if len(rest) == 1 else Mul(tuple(rest))
                return True, self.value(inner, order)
            case _:
                return False, self.value(term, order)

    def _sum(self, terms: Sequence[tuple[bool, Value]], order: Sequence[Index]) -> Value:
        indices = _joined([value for _, value in terms], order)
        code = ""
        for subtracted, value in terms:
            aligned = self._aligned(value, indices)
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
        kept = tuple(index for index in _joined(values, order) if index not in summed)
        if not values:
            return self._scalar(Mul(tuple(numbers)))
        if not summed and all(set(value.indices) == set(kept) for value in values):
            product = self._entrywise(values, kept)
        else:
            product = self._einsum([self.named(value) for value in values], kept)
        return self._scaled(product, numbers)

    def _entrywise(self, values: Sequence[Value], indices: tuple[Index, ...]) -> Value:
        if len(values) == 1:
            return values[0]
        code = " * ".join(
            self._aligned(value, indices).held(Binding.APPLICATION) for value in values
        )
        leading = any(value.leading for value in values)
        return Value(code, indices, Binding.PRODUCT, leading)

    def _einsum(self, values: Sequence[Value], kept: tuple[Index, ...]) -> Value:
        seen = (index for value in values for index in value.indices)
        letters = self.letters.assigned((*kept, *seen))
        read = ",".join(
            self.dots + "".join(letters[index] for index in value.indices) for value in values
        )
        spec = f"{read}->{self.dots}{''.join(letters[index] for index in kept)}"
        arguments = ", ".join(value.code for value in values)
        code = f'{self.call("einsum")}("{spec}", {arguments})'
        return Value(code, kept, leading=bool(self.dots))

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

    def _largest(self, index: Index, body: Value) -> Value:
        value = self.named(self._spread(body, _joined([body], (index,)), (index,)))
        axis = value.indices.index(index) - len(value.indices)
        kept = tuple(other for other in value.indices if other != index)
        code = f"{value.held(Binding.ATOM)}.max(axis={axis})"
        return Value(code, kept, leading=bool(self.dots))

    def _softmax(self, form: Softmax, order: Sequence[Index]) -> Value:
        if len(form.at) != 1:
            raise NotSupportedError("einsum with a softmax that is read on a merged axis")
        index, at = form.index, form.at[0]
        order = tuple(index if other == at else other for other in order)
        body = self.value(form.body, order)
        allowed = None if form.allowed is None else self.condition(form.allowed, order)
        indices = _joined([body, *([] if allowed is None else [allowed])], order)
        if at in indices:
            raise NotSupportedError("einsum with a softmax that is read where it depends on")
        indices = indices if index in indices else (index, *indices)
        scores = self.named(self._spread(body, indices))
        axis = indices.index(index) - len(indices)
        where = "" if allowed is None else f", where={self._aligned(allowed, indices).code}"
        read = tuple(at if other == index else other for other in indices)
        self.call("softmax")
        code = f"softmax({scores.code}, axis={axis}{where})"
        return Value(code, read, leading=bool(self.dots))

    def _blocks(self, at: Place, parts: Sequence[Block], order: Sequence[Index]) -> Value:
        if len(at) != 1 or any(len(part.place) > 1 for part in parts):
            raise NotSupportedError("einsum with parts on a merged axis")
        moved: list[Value] = []
        for part in parts:
            to = dict(zip(part.place, at, strict=False))
            inside = tuple(part.place[0] if part.place and o == at[0] else o for o in order)
            value = self.value(part.form, inside)
            moved.append(replace(value, indices=tuple(to.get(i, i) for i in value.indices)))
        there = _joined(moved, order)
        indices = there if at[0] in there else (at[0], *there)
        if self.dots and len({value.leading for value in moved}) > 1:
            raise NotSupportedError("einsum of parts only some of which have leading axes")
        sizes = {at[0]: at[0].size}
        written: list[str] = []
        for part, value in zip(parts, moved, strict=True):
            sizes[at[0]] = part.size
            written.append(self._spread(value, indices, sizes=sizes).code)
        axis = indices.index(at[0]) - len(indices)
        code = f"{self.call('concatenate')}([{', '.join(written)}], axis={axis})"
        return Value(code, indices, leading=moved[0].leading)

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
        indices = _joined(values, order)
        sides = (self._aligned(value, indices).held(least) for value in values)
        leading = any(value.leading for value in values)
        return Value(f" {sign} ".join(sides), indices, Binding.SUM, leading)

    # Axes.

    def _aligned(self, value: Value, indices: Sequence[Index]) -> Value:
        """Return a value with axes in the order of some indices; axes that it lacks are of one."""
        there = tuple(index for index in indices if index in value.indices)
        if there != value.indices:
            value = self._einsum([self.named(value)], there)
        if (not there and not value.leading) or len(there) == len(indices):
            return value
        axes = [":" if index in there else "None" for index in indices]
        while not self.dots and axes[0] == "None":  # NumPy adds axes in front by itself
            axes.pop(0)
        if "None" not in axes:
            return value
        code = f"{value.held(Binding.ATOM)}[..., {', '.join(axes)}]"
        return replace(value, code=code, binding=Binding.POWER)

    def _spread(
        self,
        value: Value,
        indices: Sequence[Index],
        extra: Sequence[Index] = (),
        sizes: Mapping[Index, Size] | None = None,
    ) -> Value:
        """Return a value that has every axis at its full size."""
        wanted = tuple(dict.fromkeys((*indices, *extra)))
        if value.indices == wanted:
            return value
        aligned = self._aligned(value, wanted)
        if set(value.indices) == set(wanted):
            return aligned
        of = sizes or {}
        shape = ", ".join(self._extent(of.get(index, index.size)) for index in wanted)
        shape = f"({shape},)" if len(wanted) == 1 else f"({shape})"
        zeros = f"{self.call('zeros')}({shape})"
        code = f"{aligned.held(Binding.HADAMARD)} + {zeros}"
        return Value(code, wanted, Binding.SUM, value.leading)


def _joined(values: Sequence[Value], order: Sequence[Index]) -> tuple[Index, ...]:
    """Return every index of some values once: those that an order names in it, then the others."""
    there = dict.fromkeys(index for value in values for index in value.indices)
    first = [index for index in order if index in there]
    return (*first, *(index for index in there if index not in first))


def _opened(form: Form) -> tuple[list[Index], list[Form]]:
    """Take sums over indices of a product apart: what is summed over, and the factors.

    A sum that is a factor stays one: a product in parentheses is computed first, as written.
    """
    summed: list[Index] = []
    while isinstance(form, Sum):
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
