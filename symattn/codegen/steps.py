"""What a plan consists of: steps, their variables, and whose memory each result is written in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from symattn.nodes import Node
from symattn.tags import Size


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of the plan: the variable ``name`` becomes the value of ``node``.

    ``overwrites`` is the position, among ``node.matrices``, of the operand in whose memory the
    result is written, and None where it gets memory of its own.
    """

    name: str
    node: Node
    overwrites: int | None

    @property
    def sizes(self) -> tuple[Size, Size]:
        """The numbers of rows and columns."""
        return self.node.sizes

    @property
    def operands(self) -> tuple[Node, ...]:
        """The matrix operands, in order."""
        return self.node.matrices


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in order; ``names`` holds the variable of every step.

    ``in_place`` holds the node from which each node that is read in place is written, ``owned``
    tells whether the result is memory that a step made, so that it can be handed out, and
    ``standing`` leads from the name of a line to the node that the line computes.
    """

    steps: tuple[Step, ...]
    result: Node
    names: Mapping[Node, str]
    in_place: Mapping[Node, Node]
    owned: bool
    standing: Mapping[Node, Node]


def shape_text(node: Node) -> str:
    """Return the axes of a node's array: ``(…, m, n)``."""
    return f"(…, {node.sizes[0]}, {node.sizes[1]})"


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
