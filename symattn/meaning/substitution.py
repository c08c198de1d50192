"""Substitution: a form in which entries, scalars or indices are something else.

It is what inlines a score into a matrix of scores, and what binds the index of heads.  Renaming of
bound indices stands here once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from symattn.meaning.form import (
    Add,
    Allowed,
    Apply,
    AtMost,
    Block,
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
    components,
    indices_of,
    place,
)
from symattn.tags import Size

Key = tuple[str, tuple[Size, ...]]
"""An input: its name and its sizes."""

Reading = Callable[[tuple[Place, ...]], Form]
"""What stands for an input: its entry at given places, a new form at each call."""


def substitute(
    form: Form,
    entries: Mapping[Key, Reading],
    parameters: Mapping[str, Reading] | None = None,
    indices: Mapping[Index, Place] | None = None,
) -> Form:
    """Return a form in which entries of some inputs, some scalars and free indices are replaced.

    >>> c, n, i = Index(Size.tag("d")), (Size.tag("d"), Size.of(1)), Index(Size.tag("n"))
    >>> column = {("q", n): lambda at: Entry("Q", (Size.tag("d"), Size.tag("n")), (at[0], (i,)))}
    >>> read = substitute(Sum(c, Entry("q", n, ((c,), ()))), column)
    >>> read.body.name, read.index == c, read.body.places[0] == (read.index,)
    ('Q', False, True)

    Every binder of the result is a new one, so that a form may be substituted into many times and
    no index is bound twice; nothing is captured, for what is read has indices of its own.
    """
    return _Substitution(entries, parameters or {}).form(form, indices or {})


class _Substitution:
    """Copies a form; ``to`` says what each index around a part becomes in the copy."""

    def __init__(self, entries: Mapping[Key, Reading], parameters: Mapping[str, Reading]) -> None:
        self.entries = entries
        self.parameters = parameters

    def form(self, form: Form, to: Mapping[Index, Place]) -> Form:
        match form:
            case Number() | Extent():
                return form
            case Parameter(name):
                return self.parameters[name](()) if name in self.parameters else form
            case Entry(name, sizes, at):
                read = tuple(_renamed(one, to) for one in at)
                replaced = self.entries.get((name, sizes))
                return Entry(name, sizes, read) if replaced is None else replaced(read)
            case Position(at):
                return Position(_renamed(at, to))
            case Add(terms):
                return Add(tuple(self.form(term, to) for term in terms))
            case Mul(factors):
                return Mul(tuple(self.form(factor, to) for factor in factors))
            case Power(base, exponent):
                return Power(self.form(base, to), exponent)
            case Apply(function, argument):
                return Apply(function, self.form(argument, to))
            case Truth(condition):
                return Truth(self.condition(condition, to))
            case Blocks(at, parts):
                return Blocks(_renamed(at, to), tuple(self.block(part, to) for part in parts))
            case Sum(index, body) | Maximum(index, body):
                fresh = Index(index.size, index.hint)
                return type(form)(fresh, self.form(body, {**to, index: (fresh,)}))
            case Softmax(index, body, at, allowed):
                fresh = Index(index.size, index.hint)
                inner = {**to, index: (fresh,)}
                where = None if allowed is None else self.condition(allowed, inner)
                return Softmax(fresh, self.form(body, inner), _renamed(at, to), where)

    def block(self, part: Block, to: Mapping[Index, Place]) -> Block:
        fresh = place(part.size)
        inner = {**to, **dict.fromkeys(indices_of(part.place), fresh)}
        return Block(part.size, fresh, self.form(part.form, inner))

    def condition(self, condition: Condition, to: Mapping[Index, Place]) -> Condition:
        match condition:
            case Same(left, right):
                return Same(_renamed(left, to), _renamed(right, to))
            case AtMost(left, right):
                return AtMost(self.form(left, to), self.form(right, to))
            case Allowed(name, sizes, at):
                return Allowed(name, sizes, tuple(_renamed(one, to) for one in at))
            case Not(inner):
                return Not(self.condition(inner, to))
            case Both(left, right):
                return Both(self.condition(left, to), self.condition(right, to))


def _renamed(at: Place, to: Mapping[Index, Place]) -> Place:
    """Return a place in the copy; what was one index may have become several."""
    renamed: list[Index | Component] = []
    for one in at:
        if isinstance(one, Index):
            renamed += to.get(one, (one,))
        else:
            factors = components(_renamed(one.of, to), one.sizes)
            renamed += factors[one.position]
    return tuple(renamed)
