"""Where a form is read: the position of each index, and what is known of it.

Invariant: positions count from 0, whatever the entry that is written counts from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import sympy

from symattn.meaning.form import Component, Index, Place
from symattn.nodes.sizes import expression_of
from symattn.tags import Size
from symattn.views.terms import BlockOf


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known where a form is read.

    ``positions`` has the position of every index, counted from 0; ``inside`` says of an index that
    runs through one part of a direct sum which part, of which sizes, and at which position in it.
    """

    positions: Mapping[Index, sympy.Expr]
    inside: Mapping[Index, tuple[tuple[Size, ...], int, sympy.Expr]]
    names: frozenset[str]

    def at(self, place: Place) -> sympy.Expr:
        """Return a place as one position: a merged axis is row-major."""
        position: Any = sympy.S.Zero
        for one in place:
            at = self.component(one) if isinstance(one, Component) else self.positions[one]
            position = position * expression_of(one.size) + at
        return position

    def component(self, one: Component) -> Any:
        """Return one factor of a merged axis, from the position on the whole of it."""
        inner = prod(
            (expression_of(size) for size in one.sizes[one.position + 1 :]), start=sympy.S.One
        )
        whole = self.at(one.of)
        position: Any = whole if inner == 1 else BlockOf(whole, inner)
        return sympy.Mod(position, expression_of(one.size)) if one.position else position

    def within(self, at: Place) -> tuple[tuple[Size, ...], int, sympy.Expr] | None:
        """Return the part of a direct sum that a place is known to lie in, if it is."""
        match at:
            case (Index() as index,):
                return self.inside.get(index)
            case _:
                return None

    def bound(self, index: Index, position: Any, inside: Any = None, name: str = "") -> Scope:
        """Return the scope in which an index has a position too."""
        parts = {} if inside is None else {index: inside}
        kept = {other: part for other, part in self.inside.items() if other != index}
        names = self.names | {name} if name else self.names
        return Scope({**self.positions, index: position}, {**kept, **parts}, names)
