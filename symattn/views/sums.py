"""One entry of a formula as sums: ``Σ_j exp(…)/Σ_t exp(…) V[i, j]``, a SymPy expression.

It is the index form of the entry, said in SymPy's words: sums have their limits, a softmax is
exponentials over their sum, a mask is a factor that is 0 or 1, and an axis put together from parts
is summed part by part.  Indices count from 0, or from 1 where that is asked for; either way an
entry at given positions has the same value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from types import MappingProxyType
from typing import Any

import sympy

from symattn.errors import EntryError, SymbolClashError
from symattn.evaluate.loops import free_indices
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
    indices_of,
)
from symattn.meaning.substitution import substitute
from symattn.nodes import Node
from symattn.nodes.depth import shallow_enough
from symattn.nodes.given import in_force
from symattn.nodes.indices import AxisIndex
from symattn.nodes.scalars import NAMES_OF_FUNCTIONS, Scalar
from symattn.nodes.sizes import expression_of
from symattn.notation.code import brief
from symattn.notation.conditions import names_in, parts_of
from symattn.tags import Size
from symattn.views.merged import by_factors, factors_of, split
from symattn.views.operands import as_expression
from symattn.views.scopes import Scope
from symattn.views.terms import BooleanEntry, Bracket, ByPart, InputEntries, Largest, Share

_SUMMED = "ctsuraebfghpqwxyz"
_ALONG = "tsuracbefghpqwxyz"
_WEIGHED = "jkl" + _SUMMED
"""The letters of sums, of what a softmax or a maximum runs along, and of sums of weighted terms."""

_AXES = ("row", "column")

FUNCTIONS_IN_SYMPY: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        **{name: function for function, name in NAMES_OF_FUNCTIONS.items()},
        "relu": lambda x: sympy.Max(x, 0),
        "softplus": lambda x: sympy.log(1 + sympy.exp(x)),
    }
)
"""How SymPy writes the elementwise functions that have no definition of their own."""


@shallow_enough("an entry")
def entry(A: Any, i: Any, j: Any, *, base: int = 0) -> sympy.Expr:
    r"""Return the entry of a formula in a row and a column, as a SymPy expression.

    >>> import sympy, symattn as sa
    >>> d_k, n, m = sa.dims("d_k n m")
    >>> Q, K = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m)
    >>> j, i = sa.index("j", m), sa.index("i", n)
    >>> s = sa.entry(K.T @ Q / sa.sqrt(d_k), j, i)
    >>> s
    Sum(K[c, j]*Q[c, i], (c, 0, d_k - 1))/sqrt(d_k)
    >>> sa.entry(sa.softmax(sa.matrix("S", m, n), axis=0), j, i)
    exp(S[j, i])/Sum(exp(S[t, i]), (t, 0, m - 1))

    It prints with `sympy.latex`, and has a value wherever sizes and entries have:

    >>> s.subs(d_k, 2).doit()
    sqrt(2)*(K[0, j]*Q[0, i] + K[1, j]*Q[1, i])/2
    >>> f = sympy.lambdify([d_k, j, i, Q, K], s)
    >>> import numpy as np
    >>> float(f(4, 2, 1, np.ones((4, 5)), np.ones((4, 7))))
    2.0

    ``i`` and ``j`` are integers, or indices (`sa.index`) over the rows and the columns.  They, the
    sums and the entries of the inputs count from 0, or from 1 with ``base=1``.  An axis of size one
    is not read: a column q has the entries ``q[c]``.  A softmax is exponentials over their sum, and
    0 where a mask allows nothing; a mask is a factor ``[j <= i]``, 0 or 1.  Of a formula in which
    the index of a head is free, the entry has that index, `AxisIndex`, as a symbol; what heads are
    put together from is summed over heads and features.

    Raises `EntryError` for an integer beyond the axis, an index over another size, and for what is
    neither; `SymbolClashError` if an index has the name of something in the formula.
    """
    node = as_expression(A, "entry")
    if base not in (0, 1) or isinstance(base, bool):
        raise EntryError(brief(node), "base", brief(base), "indices count from 0 or from 1")
    places: list[Place] = []
    positions: dict[Index, sympy.Expr] = {}
    for axis, at in enumerate((i, j)):
        position = _position(node, axis, at, base)
        place = () if node.sizes[axis].is_one else (Index(node.sizes[axis]),)
        positions.update((index, position) for index in place)
        places.append(place)
    form = node.meaning(places[0], places[1])
    heads = {at: AxisIndex(at.hint, at.size) for at in free_indices(form) if at not in positions}
    positions |= {index: letter - base for index, letter in heads.items()}
    taken = {*names_in(form), *node.tags, *_tags_of_masks(node)}
    taken |= {letter.name for letter in heads.values()}
    indices = {at for at in (i, j) if isinstance(at, AxisIndex)}
    for at in indices:
        if at.name in taken:
            raise SymbolClashError(at.name, ("an index", "a part of the formula"), "rename one")
    if len({at.name for at in indices}) < len(indices):
        meanings = sorted(f"an index over {at.size}" for at in indices)
        raise SymbolClashError(i.name, meanings, "give each its own name")
    reserved = frozenset(taken | {at.name for at in indices})
    running = {size: name for part in node.everything() for name, size in part.running}
    return _Sums(base, running).form(form, Scope(positions, {}, reserved))


def _tags_of_masks(node: Node) -> set[str]:
    return {tag for part in node.everything() for size in part.extents for tag in size.tags}


def _position(node: Node, axis: int, at: Any, base: int) -> sympy.Expr:
    """Return a position counted from 0, or raise `EntryError`."""
    size, which = node.sizes[axis], _AXES[axis]
    if isinstance(at, AxisIndex):
        if node.given.merge(in_force()).needed(size, at.size) is None:
            raise EntryError(
                brief(node),
                which,
                f"{at.name}, an index over {at.size},",
                f'there are {size} {which}s; sa.index("{at.name}", …) of {size} runs over them',
            )
        return at - base
    number = int(at) if isinstance(at, sympy.Integer) else at
    if not isinstance(number, Integral) or isinstance(number, bool):
        advice = f'give an integer, or an index over the {which}s: sa.index("i", {size})'
        raise EntryError(brief(node), which, brief(at), advice)
    position, count = int(number) - base, size.constant
    if position < 0 or (count is not None and position >= count):
        last = expression_of(size) - 1 + base
        reason = f"the {which}s are counted from {base} to {last}"
        raise EntryError(brief(node), which, str(number), reason)
    return sympy.Integer(position)


_Write = Callable[[Scope], Any]


@dataclass(frozen=True, slots=True)
class _Operation:
    """What runs through an axis: what SymPy calls it, and the letters that it runs with."""

    build: Callable[..., Any]
    letters: str


_SUM = _Operation(sympy.Sum, _SUMMED)
_MIXED = _Operation(sympy.Sum, _WEIGHED)  # of weighted values
_WHOLE = _Operation(sympy.Sum, _ALONG)  # of the exponentials
_MAXIMUM = _Operation(Largest, _ALONG)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Writes index forms as SymPy expressions; indices count from ``base``.

    ``heads`` has the names of indices of heads, by their sizes, for the sums that are over heads.
    """

    base: int
    heads: Mapping[Size, str]

    def form(self, form: Form, scope: Scope) -> Any:
        match form:
            case Number(value):
                return sympy.Rational(value.numerator, value.denominator)
            case Extent(size):
                return expression_of(size)
            case Parameter(name, positive):
                return Scalar(name, positive=positive)
            case Entry(name, sizes, places):
                return self._entry(name, sizes, places, scope)
            case Position(at):
                return scope.at(at)
            case Add(terms):
                return sympy.Add(*(self.form(term, scope) for term in terms))
            case Mul(factors):
                return sympy.Mul(*(self.form(factor, scope) for factor in factors))
            case Power(base, exponent):
                power = sympy.Rational(exponent.numerator, exponent.denominator)
                return self.form(base, scope) ** power
            case Apply(name, argument):
                function = FUNCTIONS_IN_SYMPY.get(name) or sympy.Function(name, real=True)
                return function(self.form(argument, scope))
            case Truth(condition):
                return Bracket(self.condition(condition, scope))
            case Sum(index, body) | Maximum(index, body) if factors_of(index, body):
                return self.form(by_factors(form), scope)
            case Sum(index, body):
                factors = body.factors if isinstance(body, Mul) else (body,)
                weighted = any(isinstance(factor, Softmax) for factor in factors)
                operation = _MIXED if weighted else _SUM
                through = self._through(operation, index, body, scope, partial(self.form, body))
                return sympy.Add(*through)
            case Maximum(index, body):
                through = self._through(_MAXIMUM, index, body, scope, partial(self.form, body))
                return sympy.Max(*through)
            case Softmax():
                return self._softmax(form, scope)
            case Blocks():
                return self._blocks(form, scope)

    def _read(self, sizes: tuple[Size, ...], places: tuple[Place, ...], scope: Scope) -> list[Any]:
        """Return the indices of an entry, without those of axes of size one."""
        at = zip(sizes, places, strict=True)
        return [scope.at(place) + self.base for size, place in at if not size.is_one]

    def _entry(
        self, name: str, sizes: tuple[Size, ...], places: tuple[Place, ...], scope: Scope
    ) -> Any:
        shape = [expression_of(size) for size in sizes if not size.is_one] or [sympy.S.One]
        read = self._read(sizes, places, scope) or [sympy.Integer(self.base)]
        return InputEntries(name, shape)[tuple(read)]

    # What runs through an axis.

    def _through(
        self, operation: _Operation, index: Index, body: Form, scope: Scope, write: _Write
    ) -> list[Any]:
        """Return what runs through an axis; part by part where the axis is a direct sum."""
        parts = _parts_along(index, body)
        if parts is None:
            return [self._run(operation, index, index.size, scope, write)]
        found: list[Any] = []
        before: Any = sympy.S.Zero
        for k, size in enumerate(parts):
            found.append(self._run(operation, index, size, scope, write, before, (parts, k)))
            before = before + expression_of(size)
        return found

    def _run(
        self,
        operation: _Operation,
        index: Index,
        size: Size,
        scope: Scope,
        write: _Write,
        before: Any = sympy.S.Zero,
        part: tuple[tuple[Size, ...], int] | None = None,
    ) -> Any:
        """Return what runs through an axis, or through the part of it that begins at a place."""
        hint = index.hint or self.heads.get(index.size, "")
        name = _fresh(hint, operation.letters, scope.names)
        position = sympy.S.Zero if size.is_one else AxisIndex(name, size) - self.base
        inside = None if part is None else (*part, position)
        body = write(scope.bound(index, before + position, inside, name))
        if size.is_one:
            return body
        last = expression_of(size) - 1 + self.base
        return operation.build(body, (AxisIndex(name, size), self.base, last))

    def _softmax(self, form: Softmax, scope: Scope) -> Any:
        weight: Form = Apply("exp", form.body)
        if form.allowed is not None:
            weight = Mul((Truth(form.allowed), weight))
        parts, inside = split(form.index, weight)
        if len(parts) == 1:
            here = scope.bound(form.index, scope.at(form.at), scope.within(form.at))
            part = self.form(weight, here)
            write = partial(self.form, weight)
            whole = sympy.Add(*self._through(_WHOLE, form.index, form.body, scope, write))
        else:
            part = self.form(substitute(weight, {}, indices={form.index: form.at}), scope)
            whole = self._over(parts, inside, scope)
        return part / whole if form.allowed is None else Share(part, whole)

    def _over(self, parts: Sequence[Index], body: Form, scope: Scope) -> Any:
        """Return the sum of exponentials over each factor of an axis."""
        if not parts:
            return self.form(body, scope)
        first, *rest = parts
        through = self._through(
            _WHOLE, first, body, scope, lambda inner: self._over(rest, body, inner)
        )
        return sympy.Add(*through)

    def _blocks(self, form: Blocks, scope: Scope) -> Any:
        sizes = tuple(part.size for part in form.parts)
        known = scope.within(form.at)
        if known is not None and known[0] == sizes:
            return self._block(form.parts[known[1]], known[2], scope)
        pieces: list[Any] = []
        position: Any = scope.at(form.at)
        before: Any = sympy.S.Zero
        for part in form.parts:
            after = before + expression_of(part.size)
            value = self._block(part, position - before, scope)
            pieces += [value, _less(position, after)]
            before = after
        return ByPart(*pieces[:-1])

    def _block(self, part: Block, position: Any, scope: Scope) -> Any:
        """Return a part read at a position in it."""
        for index in indices_of(part.place):
            scope = scope.bound(index, position)
        return self.form(part.form, scope)

    # Conditions.

    def condition(self, condition: Condition, scope: Scope) -> Any:
        match condition:
            case Not(Both(Not(left), Not(right))):
                return sympy.Or(self.condition(left, scope), self.condition(right, scope))
            case Not(AtMost(left, right)):
                return _less(self.form(right, scope), self.form(left, scope))
            case Not(inner):
                return sympy.Not(self.condition(inner, scope))
            case Both(left, right):
                return sympy.And(self.condition(left, scope), self.condition(right, scope))
            case AtMost(left, right):
                return sympy.Le(*_balanced(self.form(left, scope), self.form(right, scope)))
            case Same(left, right):
                return sympy.Eq(*_balanced(scope.at(left), scope.at(right)))
            case Allowed(name, sizes, places):
                return BooleanEntry(name, *self._read(sizes, places, scope))


def _less(left: Any, right: Any) -> Any:
    return sympy.Lt(*_balanced(left, right))


def _balanced(left: Any, right: Any) -> tuple[Any, Any]:
    """Move the numbers of two sides that are compared to the right: j ≤ i for j − 1 ≤ i − 1."""
    constant = left.as_coeff_Add()[0]
    return left - constant, right - constant


def _parts_along(index: Index, body: Form) -> tuple[Size, ...] | None:
    """Return the sizes of the parts of an axis, where something that is read along it has some."""
    for part in parts_of(body):
        match part:
            case Blocks((at,), blocks) if at == index:
                return tuple(block.size for block in blocks)
            case Softmax(inner, scores, (at,), _) if at == index:
                parts = _parts_along(inner, scores)
                if parts is not None:
                    return parts
            case _:
                pass
    return None


def _fresh(hint: str, letters: str, taken: frozenset[str]) -> str:
    """Return a letter that nothing in sight is called by."""
    numbered = (f"{letters[0]}{k}" for k in itertools.count(1))
    candidates = itertools.chain([hint] * bool(hint), letters, numbered)
    return next(name for name in candidates if name not in taken)
