"""The index form: what a formula means, entry by entry.

One matrix formula has one meaning, an expression for its ``(i, j)`` entry over tagged axes:

    Σ_j softmax_t(Σ_c Q[c, i] K[c, t] / √d_k)[j] · V[v, j]

There is no transpose and no order of factors here, so most equalities of attention are plain to
see.  Two things are kept that a normal form later lowers: ``Softmax`` with its own bound axis *and
the place where it is read* (the ``j`` above is not the bound ``t``), and conditions as 0/1 factors.

An **index** runs over an axis of a given `Size`; two indices are the same only if they are the same
object.  A **place** is what stands between the brackets: a tuple of indices, outermost first.  An
axis of size one has the empty place, a merged axis (heads × features) has one index a factor, and
the order matters: ``(h, d_v)`` is head-major and is not ``(d_v, h)``.  Where a merged axis is read
as a whole, a `Component` is one of its factors: the head that row p of the heads lies in.

Invariant: forms are immutable, and a binder (`Sum`, `Maximum`, `Softmax`, `Blocks`) owns its index,
which is used nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from symattn.tags import Size

_fresh_identity = itertools.count()


@dataclass(frozen=True, slots=True)
class Index:
    """A bound or free index over an axis; identity, not name or size, makes it equal.

    A bound one has an identity of its own; one that a user named has its name and size.
    """

    size: Size = field(compare=False)
    hint: str = field(default="", compare=False)
    identity: Hashable = field(default_factory=lambda: next(_fresh_identity))


@dataclass(frozen=True, slots=True)
class Component:
    """One factor of a place on a merged axis, whose factors have these sizes (row-major).

    On an axis of h·d_v read at p, component 0 of (h, d_v) is ``p div d_v``, the head, and component
    1 is ``p mod d_v``, the feature in it.
    """

    of: Place
    sizes: tuple[Size, ...]
    position: int

    @property
    def size(self) -> Size:
        """The size of the axis that this factor is on."""
        return self.sizes[self.position]


Place = tuple[Index | Component, ...]
"""Where an axis is read: its indices, outermost first; empty for an axis of size one."""


def place(size: Size, hint: str = "") -> tuple[Index, ...]:
    """Return a fresh place on an axis of the given size."""
    return () if size.is_one else (Index(size, hint),)


def components(at: Place, sizes: Sequence[Size]) -> tuple[Place, ...]:
    """Return the place on each factor of a merged axis, from a place on the whole of it.

    >>> h, d = Size.tag("h"), Size.tag("d")
    >>> i, c, p = Index(h), Index(d), Index(h * d)
    >>> components((i, c), (h, d)) == ((i,), (c,)), components((p,), (h * d, Size.of(1)))[0] == (p,)
    (True, True)
    >>> components((p,), (h, d))[1][0].size == d
    True
    """
    wide = tuple(size for size in sizes if not size.is_one)
    if len(wide) < 2:
        return tuple(() if size.is_one else at for size in sizes)
    grouped = _grouped(at, wide)
    factors = iter(grouped or [(Component(at, wide, k),) for k in range(len(wide))])
    return tuple(() if size.is_one else next(factors) for size in sizes)


def _grouped(at: Place, sizes: Sequence[Size]) -> list[Place] | None:
    """Return the parts of a place that are on axes of these sizes, or None if none divide it so."""
    groups: list[Place] = []
    rest = at
    for size in sizes:
        count, reached = 0, Size.of(1)
        while reached != size:
            if count == len(rest):
                return None
            reached, count = reached * rest[count].size, count + 1
        groups.append(rest[:count])
        rest = rest[count:]
    return None if rest else groups


def indices_of(at: Place) -> Iterator[Index]:
    """Yield every index that a place is made from."""
    for one in at:
        if isinstance(one, Component):
            yield from indices_of(one.of)
        else:
            yield one


@dataclass(frozen=True, slots=True)
class Number:
    """A rational constant."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Extent:
    """A size used as a number, as in √d_k."""

    size: Size


@dataclass(frozen=True, slots=True)
class Parameter:
    """A scalar that is an input: a finite real, positive if it was declared so."""

    name: str
    positive: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an input, ``T[i, j]``; an input is its name and its sizes."""

    name: str
    sizes: tuple[Size, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """A place used as a number, counted from 0 (merged axes: row-major)."""

    at: Place


@dataclass(frozen=True, slots=True)
class Add:
    """A sum of finitely many terms."""

    terms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Mul:
    """A product of finitely many factors."""

    factors: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """A rational power; a negative one is undefined where the base is zero."""

    base: Form
    exponent: Fraction


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementwise function of the table `symattn.meaning.functions`, or one by name only."""

    function: str
    argument: Form


@dataclass(frozen=True, slots=True)
class Sum:
    """``Σ_index body``."""

    index: Index
    body: Form


@dataclass(frozen=True, slots=True)
class Maximum:
    """``max_index body``."""

    index: Index
    body: Form


@dataclass(frozen=True, slots=True)
class Softmax:
    """``softmax_index(body)`` read at a place, over the places where ``allowed`` holds.

    It stands for ``[g] e^s · inv0(Σ_t [g] e^s)`` with ``inv0(0) = 0``: where nothing is allowed the
    value is zero, as a consequence.
    """

    index: Index
    body: Form
    at: Place
    allowed: Condition | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a direct sum of axes: its size, and the form read at a place in it."""

    size: Size
    place: Place
    form: Form


@dataclass(frozen=True, slots=True)
class Blocks:
    """A direct sum read at a place: its axis is that of the parts, one after another.

    Where the place lies in a part, the value is that of the part's form, counted from the beginning
    of the part: ``[q; k]`` at c is ``q[c]`` for c < d_q, and ``k[c − d_q]`` from there on.
    """

    at: Place
    parts: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """``[condition]``: 1 where it holds and 0 where it does not."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Same:
    """Two places on one axis coincide."""

    left: Place
    right: Place


@dataclass(frozen=True, slots=True)
class AtMost:
    """``left ≤ right`` between integer-valued forms (positions, extents, numbers)."""

    left: Form
    right: Form


@dataclass(frozen=True, slots=True)
class Allowed:
    """An entry of a boolean input that is given at run time; True means "may attend"."""

    name: str
    sizes: tuple[Size, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """Both conditions hold; "either" is written with `Not`."""

    left: Condition
    right: Condition


Condition = Same | AtMost | Allowed | Not | Both
Form = (
    Number
    | Extent
    | Parameter
    | Entry
    | Position
    | Add
    | Mul
    | Power
    | Apply
    | Sum
    | Maximum
    | Softmax
    | Blocks
    | Truth
)

ZERO = Number(Fraction(0))
ONE = Number(Fraction(1))
MINUS_ONE = Number(Fraction(-1))


def total(terms: Sequence[Form]) -> Form:
    """Return the sum of the terms, without a wrapper around a single one."""
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def times(factors: Sequence[Form]) -> Form:
    """Return the product of the factors, without a wrapper around a single one."""
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def reciprocal(form: Form) -> Form:
    """Return ``1/form``, undefined at zero."""
    return Power(form, Fraction(-1))


def either(left: Condition, right: Condition) -> Condition:
    """Return the condition that at least one of the two holds."""
    return Not(Both(Not(left), Not(right)))


def sum_over(at: Place, body: Form) -> Form:
    """Sum the body over every index of a place; over an axis of size one it is the body itself."""
    for index in reversed(at):
        assert isinstance(index, Index), "a sum binds indices of its own"
        body = Sum(index, body)
    return body


def children(form: Form | Condition) -> Iterator[Form | Condition]:
    """Yield the forms and conditions directly inside one."""
    match form:
        case Add(parts) | Mul(parts):
            yield from parts
        case Power(inner, _) | Apply(_, inner) | Sum(_, inner) | Maximum(_, inner):
            yield inner
        case Truth(condition) | Not(condition):
            yield condition
        case Softmax(_, inner, _, allowed):
            yield inner
            if allowed is not None:
                yield allowed
        case Blocks(_, parts):
            yield from (part.form for part in parts)
        case AtMost(left, right) | Both(left, right):
            yield left
            yield right
        case _:
            return


def places(form: Form | Condition) -> Iterator[tuple[Size | None, Place]]:
    """Yield every place that stands in a form, with the size of the axis that it reads."""
    match form:
        case Entry(_, sizes, at) | Allowed(_, sizes, at):
            yield from zip(sizes, at, strict=True)
        case Position(at):
            yield None, at
        case Same(left, right):
            yield None, left
            yield None, right
        case Softmax(index, _, at, _):
            yield index.size, at
        case Blocks(at, _):
            yield None, at
        case _:
            pass
    for child in children(form):
        yield from places(child)
