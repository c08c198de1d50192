"""Fixes for shapes that do not fit: each is built before it is offered.

The smallest change that fits is found by trying: a transpose of one operand, of the other, a
swapped order, a broadcast, then a relation between two tags.  What is suggested has been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from symattn.errors import RelationError, ShapeError
from symattn.nodes.given import assuming
from symattn.notation.code import brief
from symattn.tags import Size

if TYPE_CHECKING:
    from symattn.nodes.core import Node

# While a candidate is being tried, an error inside it does not look for fixes of its own.
_trying: ContextVar[bool] = ContextVar("a fix is being tried", default=False)

# Transposing every subset of the operands is only tried for so many of them.
_FEW = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to write it that may fit, the relation to declare for it, and a word of explanation."""

    build: Callable[[], Node]
    relation: str = ""
    remark: str = ""


def smallest_fix(candidates: Iterable[Candidate]) -> str:
    """Return the first candidate that can be built, as Python, or an empty text."""
    if _trying.get():
        return ""
    token = _trying.set(True)
    try:
        for candidate in candidates:
            try:
                with assuming(*filter(None, [candidate.relation])):
                    built = candidate.build()
            except (ShapeError, RelationError):
                continue
            advice = f", with sa.assuming({candidate.relation!r})" if candidate.relation else ""
            return brief(built) + advice + candidate.remark
        return ""
    finally:
        _trying.reset(token)


def transposed(operands: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Yield the operands with some of them transposed, fewest transposes first."""
    if len(operands) > _FEW:
        return
    choices = sorted(product((False, True), repeat=len(operands)), key=sum)
    for choice in choices[1:]:
        yield tuple(o.T if flip else o for o, flip in zip(operands, choice, strict=True))


def declared_equal(left: Size, right: Size, build: Callable[[], Node]) -> Iterator[Candidate]:
    """Yield the candidate of declaring two sizes equal, where both are single tags."""
    if all(len(size.tags) == 1 and size == Size.tag(size.tags[0]) for size in (left, right)):
        yield Candidate(build, relation=f"{left} = {right}")


def facts(operands: Iterable[Node]) -> tuple[tuple[str, str, str], ...]:
    """Return each operand with its sizes, as an error shows them."""
    return tuple((brief(o), str(o.sizes[0]), str(o.sizes[1])) for o in dict.fromkeys(operands))
