r"""The walk that all printers share: one rule a kind of writing, and parentheses by binding.

A rule returns what was *written* and how tightly that binds; the place where it is put says how
tightly it has to bind, and parentheses stand exactly where it does not.  So nothing is reordered or
dropped: ``A(BC)`` keeps its parentheses because a product does not bind tighter than a product.

Scalars are index forms, and so are sizes.  Their rules are written here once, over the few words
that a language has: a number, a name, a product, a quotient, a power, a sum, a call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from symattn.errors import NotSupportedError
from symattn.meaning.form import Add, Apply, Extent, Form, Mul, Number, Parameter, Power
from symattn.notation.extents import atom_of, form_of
from symattn.notation.rows import Binding, Kind, Printable
from symattn.tags import Size


@dataclass(frozen=True, slots=True)
class Written:
    """A piece of output, how tightly it binds, and whether it is taller than a line."""

    text: str
    binding: Binding
    tall: bool = False


class Printer(ABC):
    """One language: rules for the kinds of writing, and words for scalars.

    ``running`` are the names of the indices in what is being written, which other letters avoid.
    """

    running: frozenset[str] = frozenset()

    # Matrices.

    @cached_property
    def rules(self) -> Mapping[Kind, Callable[[Printable], Written]]:
        """The rule of each kind of writing; a language overrides those in which it differs."""
        return {
            Kind.SYMBOL: self.symbol,
            Kind.PRODUCT: self.factors,
            Kind.SUM: self.sum,
            Kind.HADAMARD: self.hadamard,
            Kind.TRANSPOSE: self.transpose,
            Kind.NEGATION: self.negation,
            Kind.FRACTION: self.fraction,
            Kind.SOFTMAX: self.softmax,
            Kind.MAXIMUM: self.maximum,
            Kind.FUNCTION: self.function,
            Kind.CONCAT: self.concat,
            Kind.MEMBER: self.member,
            Kind.HEADS: self.heads,
            Kind.SUM_OVER: self.sum_over,
            Kind.HEAD: self.head,
            Kind.RESHAPE: self.reshape,
            Kind.PAIRS: self.pairs,
            Kind.POSITIONS: self.positions,
            Kind.INDICATOR: self.indicator,
            Kind.ADDITIVE_MASK: self.additive_mask,
            Kind.ONES: self.ones,
            Kind.IDENTITY: self.identity,
        }

    def write(self, part: Printable | Form) -> Written:
        """Write an expression, or an index form where a scalar stands.

        Operands are written before what uses them, so that however deep an expression is, its
        rules find them done and Python's stack stays shallow.
        """
        if isinstance(part, Form):
            return self.scalar(part)
        # By identity: comparing expressions would recurse; a node that is kept keeps its identity.
        outermost = "_done" not in vars(self)
        done: dict[int, tuple[Printable, Written]] = vars(self).setdefault("_done", {})
        if outermost:
            self.running = frozenset(_indices_in(part))
        pending: list[Printable] = [part]
        while pending:
            node = pending[-1]
            waiting = [
                operand
                for operand in node.parts
                if not isinstance(operand, Form) and id(operand) not in done
            ]
            if waiting and id(node) not in done:
                pending.extend(waiting)
                continue
            if id(node) not in done:
                done[id(node)] = node, self.one(node)
            pending.pop()
        if outermost:  # what is written next may have other indices
            del vars(self)["_done"]
        return done[id(part)][1]

    def one(self, node: Printable) -> Written:
        """Write one expression by the rule of its kind."""
        return self.rules[node.notation.kind](node)

    def inside(self, part: Printable | Form, binding: Binding) -> Written:
        """Write a part where it has to bind at least so tightly."""
        return self.held(self.write(part), binding)

    def held(self, written: Written, binding: Binding) -> Written:
        """Put what was written into parentheses unless it binds at least so tightly."""
        if written.binding >= binding:
            return written
        return Written(self.parentheses(written), Binding.ATOM, written.tall)

    def terms(self, parts: Sequence[Printable | Form]) -> list[tuple[bool, Written]]:
        """Write the terms of a sum, each with whether it is subtracted."""
        written: list[tuple[bool, Written]] = []
        for part in parts:
            if not isinstance(part, Form) and part.notation.kind is Kind.NEGATION:
                written.append((True, self.inside(part.parts[0], Binding.HADAMARD)))
            else:
                written.append((False, self.inside(part, Binding.NEGATION)))
        return written

    def symbol(self, node: Printable) -> Written:
        """Write a matrix by its name."""
        return self.name(node.label)

    def factors(self, node: Printable) -> Written:
        """Write a product: a fraction is one thing, a product in it keeps its parentheses."""
        written: list[Written] = []
        for part in node.parts:
            if isinstance(part, Form):  # a scalar: 2 c A
                least = Binding.PRODUCT if written else Binding.NEGATION
            else:
                least = Binding.APPLICATION
            written.append(self.inside(part, least))
        return self.product(written)

    def sum(self, node: Printable) -> Written:
        """Write a sum."""
        return self.plus(self.terms(node.parts))

    def negation(self, node: Printable) -> Written:
        """Write a negation."""
        return self.negative(self.write(node.parts[0]))

    def fraction(self, node: Printable) -> Written:
        """Write a matrix over a scalar."""
        return self.quotient(self.write(node.parts[0]), self.write(node.parts[1]))

    def function(self, node: Printable) -> Written:
        """Write a function applied entry by entry."""
        return self.call(node.label, self.write(node.parts[0]))

    @abstractmethod
    def hadamard(self, node: Printable) -> Written: ...
    @abstractmethod
    def transpose(self, node: Printable) -> Written: ...
    @abstractmethod
    def softmax(self, node: Printable) -> Written: ...
    @abstractmethod
    def maximum(self, node: Printable) -> Written: ...
    @abstractmethod
    def concat(self, node: Printable) -> Written: ...
    @abstractmethod
    def member(self, node: Printable) -> Written: ...
    @abstractmethod
    def heads(self, node: Printable) -> Written: ...
    @abstractmethod
    def sum_over(self, node: Printable) -> Written: ...
    @abstractmethod
    def head(self, node: Printable) -> Written: ...
    @abstractmethod
    def reshape(self, node: Printable) -> Written: ...
    @abstractmethod
    def pairs(self, node: Printable) -> Written: ...
    @abstractmethod
    def positions(self, node: Printable) -> Written: ...
    @abstractmethod
    def indicator(self, node: Printable) -> Written: ...
    @abstractmethod
    def additive_mask(self, node: Printable) -> Written: ...
    @abstractmethod
    def ones(self, node: Printable) -> Written: ...
    @abstractmethod
    def identity(self, node: Printable) -> Written: ...

    def block_of(self, whole: Printable | Form) -> Written:
        """Write what a block is taken of: ``(W_Q)^{(i)}``, for ``W_Q^{(i)}`` is one of a family."""
        written = self.inside(whole, Binding.ATOM)
        if isinstance(whole, Form) or whole.notation.kind not in (Kind.SYMBOL, Kind.MEMBER):
            return written
        if "_" not in whole.label:
            return written
        return Written(self.parentheses(written), Binding.ATOM, written.tall)

    # Scalars.

    SCALARS: ClassVar[Mapping[type[Form], Callable[[Any, Any], Written]]]

    def scalar(self, form: Form) -> Written:
        """Write an index form."""
        rule = self.SCALARS.get(type(form))
        if rule is None:
            raise NotSupportedError(f"writing {type(form).__name__} as a scalar")
        return rule(self, form)

    def _number(self, form: Number) -> Written:
        value = form.value
        if value < 0:
            return self.negative(self._number(Number(-value)))
        if value.denominator == 1:
            return Written(str(value.numerator), Binding.ATOM)
        return self.rational(value)

    def _extent(self, form: Extent) -> Written:
        return self.size(form.size)

    def size(self, size: Size) -> Written:
        """Write a size: a tag by its name, a quotient as one, all else as the scalar it is."""
        atom = atom_of(size)
        if isinstance(atom, str):
            return self.name(atom)
        if atom is not None:
            return self.whole_quotient(self.size(atom.num), self.size(atom.den))
        return self.in_sizes.scalar(form_of(size))

    @property
    def in_sizes(self) -> Printer:
        """The printer that writes the inside of a size; itself, if it has no words of its own."""
        return self

    def _parameter(self, form: Parameter) -> Written:
        return self.name(form.name)

    def _add(self, form: Add) -> Written:
        terms: list[tuple[bool, Written]] = []
        for term in form.terms:
            subtracted, rest = _signed(term)
            terms.append((subtracted, self.held(self.scalar(rest), Binding.HADAMARD)))
        return self.plus(terms)

    def _mul(self, form: Mul) -> Written:
        negative, above, below = _fraction(form)
        written = self._ratio(above, below)
        return self.negative(written) if negative else written

    def _power(self, form: Power) -> Written:
        if form.exponent < 0:
            return self._ratio([], [Power(form.base, -form.exponent)])
        return self.power(self.scalar(form.base), form.exponent)

    def _apply(self, form: Apply) -> Written:
        return self.call(form.function, self.scalar(form.argument))

    def _ratio(self, above: Sequence[Form], below: Sequence[Form]) -> Written:
        numerator = self._factors(above)
        return self.quotient(numerator, self._factors(below)) if below else numerator

    def _factors(self, forms: Sequence[Form]) -> Written:
        if not forms:
            return Written("1", Binding.ATOM)
        if len(forms) == 1:
            return self.scalar(_unit_power(forms[0]))
        return self.product([self.scalar(_unit_power(form)) for form in forms])

    # The words of a language.

    @abstractmethod
    def parentheses(self, written: Written) -> str: ...
    @abstractmethod
    def name(self, name: str) -> Written: ...
    @abstractmethod
    def whole_quotient(self, numerator: Written, denominator: Written) -> Written: ...
    @abstractmethod
    def rational(self, value: Fraction) -> Written: ...
    @abstractmethod
    def product(self, factors: Sequence[Written]) -> Written: ...
    @abstractmethod
    def quotient(self, numerator: Written, denominator: Written) -> Written: ...
    @abstractmethod
    def power(self, base: Written, exponent: Fraction) -> Written: ...
    @abstractmethod
    def call(self, function: str, argument: Written) -> Written: ...

    def negative(self, written: Written) -> Written:
        """Write the negation of what was written."""
        held = self.held(written, Binding.HADAMARD)
        return replace(held, text="-" + held.text, binding=Binding.NEGATION)

    def plus(self, terms: Sequence[tuple[bool, Written]]) -> Written:
        """Write a sum; a term that begins with a minus sign is subtracted instead."""
        pieces: list[str] = []
        for subtracted, term in terms:
            minus, text = subtracted, term.text
            if not subtracted and text.startswith("-") and term.binding is Binding.NEGATION:
                minus, text = True, text[1:]
            if pieces:
                pieces.append(" - " if minus else " + ")
            elif minus:
                pieces.append("-")
            pieces.append(text)
        return Written("".join(pieces), Binding.SUM, any(term.tall for _, term in terms))


Printer.SCALARS = {
    Number: Printer._number,
    Extent: Printer._extent,
    Parameter: Printer._parameter,
    Add: Printer._add,
    Mul: Printer._mul,
    Power: Printer._power,
    Apply: Printer._apply,
}


def member_of_heads(node: Printable) -> tuple[Printable, dict[str, Size]] | None:
    """Return the member of a family that heads are, and how often each of its indices runs.

    Heads of heads along one axis are the members by both indices, if they are read in that order:
    from the first to the last, the inner index runs fastest.  None for what is no member.
    """
    counts: dict[str, Size] = {}
    axis, part = node.axis, node
    while part.notation.kind is Kind.HEADS and part.axis == axis:
        ((index, count),) = part.running
        if index in counts:  # bound again inside: the outer heads are alike
            return None
        counts[index] = count
        inner = part.parts[0]
        if isinstance(inner, Form):
            return None
        part = inner
    read = [name for name, _ in part.running if name in counts]
    return (part, counts) if part.notation.kind is Kind.MEMBER and read == [*counts] else None


def _indices_in(part: Printable) -> Iterator[str]:
    """Yield the names of the indices that run in an expression."""
    seen: set[int] = set()
    pending: list[Printable | Form] = [part]
    while pending:
        node = pending.pop()
        if not isinstance(node, Form) and id(node) not in seen:
            seen.add(id(node))
            yield from (name for name, _ in node.running)
            pending.extend(node.parts)


def _signed(form: Form) -> tuple[bool, Form]:
    """Take a minus sign off a term."""
    match form:
        case Number(value) if value < 0:
            return True, Number(-value)
        case Mul((Number(value), *rest)) if value < 0 and rest:
            factors = tuple(rest) if value == -1 else (Number(-value), *rest)
            return True, factors[0] if len(factors) == 1 else Mul(factors)
        case _:
            return False, form


def _fraction(form: Mul) -> tuple[bool, list[Form], list[Form]]:
    """Sort the factors of a product: its sign, what is above the line, what is below."""
    negative, rest = _signed(form)
    above: list[Form] = []
    below: list[Form] = []
    for factor in rest.factors if isinstance(rest, Mul) else (rest,):
        match factor:
            case Power(base, exponent) if exponent < 0:
                below.append(Power(base, -exponent))
            case Number(value) if value.denominator != 1:
                if value.numerator != 1:
                    above.append(Number(Fraction(value.numerator)))
                below.append(Number(Fraction(value.denominator)))
            case _:
                above.append(factor)
    return negative, above, below


def _unit_power(form: Form) -> Form:
    return form.base if isinstance(form, Power) and form.exponent == 1 else form
