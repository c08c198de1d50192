"""Fixes for shapes that do not fit: each is built before it is offered.

The smallest change that fits is found by trying: a transpose of one operand, a swapped order, both
transposed, a broadcast, then relations between tags.  What is suggested has been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from symattn.errors import MinusInfinityError, NotSupportedError, RelationError, ShapeError
from symattn.nodes.given import assuming
from symattn.notation.code import brief, python
from symattn.notation.rows import Kind
from symattn.tags import Size

if TYPE_CHECKING:
    from symattn.nodes.core import Node

# While a candidate is being tried, an error inside it does not look for fixes of its own.
_trying: ContextVar[bool] = ContextVar("a fix is being tried", default=False)

_FEW = 6
"""Transposing every subset of the operands is only tried for so many of them."""

_LONG = 120
"""Python longer than this is not shown whole: what changes is enough."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to write it that may fit, and how it is told.

    ``relation`` is what has to be declared for it, ``remark`` a word of explanation; ``part`` is
    what changes and what stood there before, shown where the whole is long.
    """

    build: Callable[[], Node]
    relation: str = ""
    remark: str = ""
    part: Callable[[], tuple[Node, str]] | None = None


def smallest_fix(candidates: Iterable[Candidate]) -> tuple[str, Node | None]:
    """Return the first candidate that can be built, as Python and as built; or nothing.

    >>> import symattn as sa
    >>> K, Q = sa.matrix("K", "d", "m"), sa.matrix("Q", "d", "n")
    >>> smallest_fix([Candidate(lambda: K @ Q), Candidate(lambda: K.T @ Q)])
    ('K.T @ Q', K.T @ Q)
    """
    if _trying.get():
        return "", None
    token = _trying.set(True)
    try:
        for candidate in candidates:
            try:
                with assuming(*filter(None, [candidate.relation])):
                    built = candidate.build()
                    told = _told(candidate, built)
            except (ShapeError, RelationError, MinusInfinityError):
                continue
            if told:
                advice = f", with sa.assuming({candidate.relation!r})" if candidate.relation else ""
                told += advice + candidate.remark
            return told, built
        return "", None
    finally:
        _trying.reset(token)


def _told(candidate: Candidate, built: Node) -> str:
    """Return the Python of a candidate, or of what changes in it; empty if both are long."""
    whole = _python(built)
    if whole or candidate.part is None:
        return whole
    changed, before = candidate.part()
    written = _python(changed)
    return written and f"{written} in place of {before}"


def _python(node: Node) -> str:
    try:
        written = python(node)
    except (NotSupportedError, RecursionError):
        return ""
    return written if len(written) <= _LONG else ""


def turned(operand: Node) -> Node:
    """Return the transpose as a person would write it: X for X.T.

    >>> import symattn as sa
    >>> turned(sa.matrix("X", "n", "m")), turned(sa.matrix("X", "n", "m").T)
    (X.T, X)
    """
    is_transpose = operand.notation.kind is Kind.TRANSPOSE
    return operand.matrices[0] if is_transpose else operand.T


def transposed(operands: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Yield the operands with some of them transposed, fewest transposes first.

    >>> import symattn as sa
    >>> list(transposed((sa.ones("n", "m"),)))
    [(ones(n, m).T,)]
    """
    if len(operands) > _FEW:
        return
    choices = sorted(product((False, True), repeat=len(operands)), key=sum)
    for choice in choices[1:]:
        yield tuple(turned(o) if turn else o for o, turn in zip(operands, choice, strict=True))


def declared_equal(
    clashes: Sequence[tuple[Size, Size]], build: Callable[[], Node]
) -> Iterator[Candidate]:
    """Yield the candidate of declaring sizes equal, where each clash has a tag of its own.

    >>> import symattn as sa
    >>> sizes = Size.tag("h") * Size.tag("d_k"), Size.tag("d_model")
    >>> [candidate.relation for candidate in declared_equal([sizes], lambda: sa.ones(1, 1))]
    ['d_model = h*d_k']

    A tag and a size that it is part of are not declared equal: ``d_v = h*d_v`` only says h = 1.
    """
    pairs: list[tuple[Size, Size]] = []
    for left, right in clashes:
        tag, size = (left, right) if left.single_tag else (right, left)
        if tag.single_tag is None or not size.tags or tag.single_tag in size.tags:
            return
        pairs.append((tag, size))
    if pairs:
        relation = ", ".join(dict.fromkeys(f"{tag} = {size}" for tag, size in pairs))
        yield Candidate(build, relation=relation)


def facts(operands: Iterable[Node]) -> tuple[tuple[str, str, str], ...]:
    """Return each operand with its sizes, as an error shows them.

    >>> import symattn as sa
    >>> facts([sa.matrix("X", "n", "m")])
    (('X', 'n', 'm'),)
    """
    return tuple((brief(o), str(o.sizes[0]), str(o.sizes[1])) for o in dict.fromkeys(operands))
