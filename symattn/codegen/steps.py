"""What a plan consists of: steps, their variables, and whose memory each result is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from symattn.meaning.functions import FUNCTIONS
from symattn.nodes import Elementwise, Node, Softmax
from symattn.nodes.indices import AxisIndex
from symattn.tags import Size


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of the plan: the variable ``name`` becomes the value of ``node``.

    ``overwrites`` is the position, among ``node.matrices``, of the operand in whose memory the
    result is written, and None where it gets memory of its own.  ``heads`` are the indices whose
    axes stand before rows and columns, in this order.
    """

    name: str
    node: Node
    overwrites: int | None
    heads: tuple[AxisIndex, ...] = ()

    @property
    def sizes(self) -> tuple[Size, Size]:
        """The numbers of rows and columns."""
        return self.node.sizes

    @property
    def shape(self) -> str:
        """The axes of the array: ``(…, h, m, n)``."""
        return axes_text((*(index.size for index in self.heads), *self.sizes))

    @property
    def operands(self) -> tuple[Node, ...]:
        """The matrix operands, in order."""
        return self.node.matrices


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in order; ``names`` holds the variable of every step.

    ``in_place`` holds the node from which each node that is read in place is written, ``owned``
    tells whether the result is memory that a step made, so that it can be handed out, and
    ``standing`` leads from the name of a line to the node that the line computes.  ``order`` is
    that of the axes of indices, in all arrays.  ``softmax`` is the one whose weights or sums are
    returned as well, None where there is none, and ``shared`` tells whether the result lies in the
    memory of its weights.
    """

    steps: tuple[Step, ...]
    result: Node
    names: Mapping[Node, str]
    in_place: Mapping[Node, Node]
    owned: bool
    standing: Mapping[Node, Node]
    order: tuple[AxisIndex, ...]
    softmax: Softmax | None = None
    shared: bool = False


def axes_text(axes: Iterable[Size]) -> str:
    """Return the axes of an array as text: ``(…, m, n)``."""
    return f"(…, {', '.join(map(str, axes))})"


_ONE_CALL = re.compile(r"xp\.(\w+)\(\{x\}\)")


def single_call(node: Node) -> str | None:
    """Return the library function that a function of every entry is, if it is one.

    Such a function can write its result where its operand is.
    """
    known = FUNCTIONS.get(cast(Elementwise, node).function)
    call = _ONE_CALL.fullmatch(known.numpy) if known is not None else None
    return call[1] if call else None


class Names:
    """Variable names, each given out once: ``S``, then ``S_2``."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """Return the wanted name, numbered if it is taken."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name
