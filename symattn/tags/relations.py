"""Relations between tags: `d_model = h*d_k`, `m = n`, kept as substitutions.

Two different tags are equal only if somebody declares it. A declared equation is turned into a
substitution `tag = polynomial in other tags`, and a set of them is kept *solved*: no left side
occurs in any right side. Rewriting is then a single substitution, it ends, and two sizes are equal
for every choice of sizes that satisfies the relations exactly when they are rewritten to the same
polynomial. So neither the order of declaration nor the way round of an equation changes which sizes
are equal.

An equation is refused if no sizes (integers, at least 1) satisfy it together with the present ones,
or if it gives no tag as a polynomial that is certainly at least 1. Since every tag is at least 1,
common factors cancel: `h*d_k = h*d_v` is `d_k = d_v`. Hence every set that is accepted can be
satisfied: choose the tags that stand on no left side as you like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from symattn.errors import RelationError
from symattn.tags.grammar import SizeLike, as_size, parse_relations
from symattn.tags.size import Size, exact_quotient, fraction

Pair = tuple[str, Size]


@dataclass(frozen=True, slots=True)
class Relations:
    """An immutable set of relations, each a tag and the size that it is.

    >>> packed = Relations().declare("d_model = h*d_k")
    >>> packed.rewrite(as_size("d_model//h"))
    Size('d_k')
    >>> print(packed.declare("h*d_k = h*d_v").text())
    d_k = d_v, d_model = h*d_v

    Iterating gives the pairs (tag, size), in order of tag; an empty set is false.
    """

    pairs: tuple[Pair, ...] = ()

    def declare(self, relation: str | tuple[SizeLike, SizeLike]) -> Relations:
        """These relations and one more, or several in one text.

        >>> Relations().declare(("m", 2)).declare("n = k - m").text()
        'k = n+2, m = 2'

        What follows from the present ones changes nothing. Raises `RelationError` for an equation
        that cannot be satisfied or solved for a tag, `SizeSyntaxError` for a text that is none.
        """
        if isinstance(relation, str):
            return _solved(self, parse_relations(relation))
        left, right = relation
        return _solved(self, [(as_size(left), as_size(right))])

    def merge(self, other: Relations) -> Relations:
        """Both sets together; `RelationError` if they contradict each other."""
        if not self or self == other:
            return other
        return _solved(self, [(Size.tag(tag), size) for tag, size in other])

    def rewrite(self, size: Size) -> Size:
        """The size in the tags that stand on no left side; rewriting twice changes nothing more."""
        return size.substitute(dict(self.pairs))

    def needed(self, left: Size, right: Size) -> Relations | None:
        """Relations that make the two sizes equal, of which none can be left out.

        >>> some = Relations().declare("m = n, d_v = d_k")
        >>> some.needed(as_size("2*m"), as_size("2*n")).text()
        'm = n'

        Empty if the sizes are equal as they are, None if they are not equal under these relations.
        """
        if self.rewrite(left) != self.rewrite(right):
            return None
        # Right sides hold no left sides, so a relation acts only on tags that are there already.
        present = {*left.tags, *right.tags}
        kept = [pair for pair in self.pairs if pair[0] in present]
        for pair in tuple(kept):
            fewer = Relations(tuple(other for other in kept if other != pair))
            if fewer.rewrite(left) == fewer.rewrite(right):
                kept.remove(pair)
        return Relations(tuple(kept))

    def text(self) -> str:
        """The relations in the grammar that `declare` reads."""
        return ", ".join(f"{tag} = {size}" for tag, size in self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"Relations({self.text()!r})"


def _solved(relations: Relations, equations: Iterable[tuple[Size, Size]]) -> Relations:
    """The relations with the equations added, in whatever order lets each be solved for a tag."""
    waiting = list(equations)
    refused: RelationError | None = None
    while waiting:
        stuck: list[tuple[Size, Size]] = []
        for left, right in waiting:
            try:
                relations = _added(relations, left, right)
            except _Unsolvable as error:
                # Another equation may yet make this one solvable: x = y makes x*z = y*w be z = w.
                stuck.append((left, right))
                refused = refused if len(stuck) > 1 else error
        if len(stuck) == len(waiting) and refused is not None:
            raise RelationError(refused.relation, refused.reason)
        waiting = stuck
    return relations


class _Unsolvable(RelationError):
    """Satisfiable, for all that is known, but no tag's size follows from it."""


def _added(relations: Relations, left: Size, right: Size) -> Relations:
    said = f"{left} = {right}"
    now_left, now_right = relations.rewrite(left), relations.rewrite(right)
    now = f"{now_left} = {now_right}"
    because = f"by the relations before it it is {now}, and " if now != said else ""
    # Denominators are at least 1, so multiplying by them loses nothing.
    gap, _ = fraction(now_left - now_right)
    if not gap.terms:
        return relations
    impossible = _impossible(gap)
    if impossible:
        raise RelationError(said, because + impossible)
    # A side that is one tag is what the relation was written to define.
    sides = (side.single_tag for side in (now_left, now_right))
    for tag in dict.fromkeys((*filter(None, sides), *gap.tags)):
        size = _solved_for(tag, gap)
        if size is not None:
            pairs = {name: old.substitute({tag: size}) for name, old in relations}
            return Relations(tuple(sorted({**pairs, tag: size}.items(), key=_by_tag)))
    raise _Unsolvable(
        said,
        because + "it does not give one tag as a polynomial in others that is certainly at least 1",
    )


def _by_tag(pair: Pair) -> str:
    return pair[0]


def _impossible(gap: Size) -> str | None:
    """Why `gap = 0` has no solution in integers of at least 1, where that is plain to see."""
    from_one = _from_one(gap)
    signs = {coefficient > 0 for coefficient, _ in from_one.terms}
    constant = sum(c for c, monomial in from_one.terms if not monomial)
    if len(signs) == 1 and constant:
        return "no sizes of at least 1 satisfy it"
    divisor = math.gcd(*(c for c, monomial in gap.terms if monomial))
    constant = sum(c for c, monomial in gap.terms if not monomial)
    if divisor and constant % divisor:
        return f"no whole sizes satisfy it: {abs(constant)} is not a multiple of {divisor}"
    return None


def _solved_for(tag: str, gap: Size) -> Size | None:
    """The size that `gap = 0` makes this tag, if that is a polynomial certainly at least 1."""
    slope = offset = Size.of(0)
    for coefficient, monomial in gap.terms:
        exponent = dict(monomial).get(tag, 0)
        if exponent > 1:
            return None
        left = tuple(power for power in monomial if power[0] != tag)
        part = Size(((coefficient, left),))
        slope, offset = (slope + part, offset) if exponent else (slope, offset + part)
    # Only a factor that is never zero may be cancelled.
    if not (_at_least_one(slope) or _at_least_one(-slope)):
        return None
    size = exact_quotient(-offset, slope)
    return size if size is not None and _at_least_one(size) else None


def _from_one(polynomial: Size) -> Size:
    """The polynomial in how far each tag exceeds 1: sizes start at 1, these start at 0."""
    return polynomial.substitute({tag: Size.tag(tag) + 1 for tag in polynomial.tags})


def is_at_least_one(size: Size) -> bool:
    """Whether a size is at least 1 whenever its tags are: `n + m` is, `n - 1` may not be.

    >>> is_at_least_one(Size.tag("n") + 1), is_at_least_one(Size.tag("n") - 1)
    (True, False)

    An exact division counts as a tag of its own: where it is exact it is at least 1.
    """
    polynomial = Size.of(0)
    for coefficient, powers in size.terms:
        term = Size.of(coefficient)
        for atom, exponent in powers:
            name = atom if isinstance(atom, str) else f"quotient_{hash(atom) & 0xFFFFFFFF}"
            term = term * Size.tag(name) ** exponent
        polynomial = polynomial + term
    return _at_least_one(polynomial)


def _at_least_one(polynomial: Size) -> bool:
    """Sufficient: counted from 1 it has no negative coefficient and a positive constant.

    Substituting such polynomials into such polynomials gives such polynomials, so the right sides
    of relations stay at least 1 when they are rewritten.
    """
    terms = _from_one(polynomial).terms
    return all(c > 0 for c, _ in terms) and any(not monomial for _, monomial in terms)
