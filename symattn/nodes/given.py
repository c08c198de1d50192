"""Relations between tags: declared for a while, and carried by the nodes that needed them.

``assuming`` puts relations in force for the expressions built inside the ``with``.  A node whose
check needed one carries it as its last argument, so copying, pickling and substitution work outside
the ``with`` as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import sympy

from symattn.errors import RelationError
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.code import brief
from symattn.tags import Relations, Size, exact_quotient

_NONE = Relations()
_in_force: ContextVar[Relations] = ContextVar("relations in force", default=_NONE)


class Given(sympy.Basic):
    """The relations that a node needed, as a SymPy argument: pairs (left side, right side)."""

    def __new__(cls, *pairs: sympy.Tuple) -> Given:
        node = super().__new__(cls, *pairs)
        node.relations = _declared(pairs)
        return node

    relations: Relations

    @classmethod
    def of(cls, relations: Relations) -> Given:
        """Return the argument that carries these relations."""
        return cls(
            *(
                sympy.Tuple(expression_of(size_of(tag)), expression_of(size))
                for tag, size in relations
            )
        )


@lru_cache(maxsize=1024)
def _declared(pairs: tuple[sympy.Tuple, ...]) -> Relations:
    """Return the relations of these sides; nodes carry the same ones over and over."""
    relations = Relations()
    for left, right in pairs:
        relations = relations.declare((size_of(left), size_of(right)))
    return relations


def carried(relations: Relations) -> tuple[Given, ...]:
    """Return the argument that carries some relations, or none if there are none.

    >>> carried(Relations())
    ()
    """
    return (Given.of(relations),) if relations else ()


@contextmanager
def assuming(*relations: str) -> Iterator[Relations]:
    """Declare relations between tags for the expressions built inside the ``with``.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> with sa.assuming("m = n"):
    ...     S = sa.matrix("A", m, n) @ sa.matrix("B", m, n)
    >>> S.shape
    (m, n)

    A relation is ``tag = polynomial in other tags``; several may be separated by commas.
    Raises `RelationError` for anything else, and for relations that no sizes satisfy.
    """
    declared = _in_force.get()
    for relation in relations:
        if not isinstance(relation, str):
            raise RelationError(brief(relation), "write it as text, such as 'd_model = h*d_k'")
        declared = declared.declare(relation)
    token = _in_force.set(declared)
    try:
        yield declared
    finally:
        _in_force.reset(token)


def in_force() -> Relations:
    """Return the relations that are declared right now.

    >>> with assuming("m = n"):
    ...     in_force().text()
    'm = n'
    """
    return _in_force.get()


class Agreement:
    """Decides whether two sizes are equal, and remembers the relations that this needed."""

    def __init__(self, carried: Relations, available: Relations) -> None:
        self.needed = carried
        self._available = available

    def __call__(self, left: Size, right: Size) -> bool:
        """Tell whether the sizes are equal under the available relations."""
        if left == right:
            return True
        needed = self._available.needed(left, right)
        if needed is None:
            return False
        self.needed = self.needed.merge(needed)
        return True

    def divided(self, whole: Size, count: Size) -> Size | None:
        """Return the size of each of so many equal parts, or None if they do not come out even."""
        for size in (whole, self._available.rewrite(whole)):
            part = exact_quotient(size, count)
            if part is None:
                part = exact_quotient(size, self._available.rewrite(count))
            if part is not None and self(whole, count * part):
                return part
        return None
