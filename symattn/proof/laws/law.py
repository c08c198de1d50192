"""What a law is: data that can be printed, tested on numbers, and applied to one node.

A law says that two ways of writing are equal.  It is stated on sample matrices, whose sizes differ
pairwise, and it rewrites the first way into the second at one node.  Beside it stands a *mistake*,
a pair that looks like the law and is not equal: a test that cannot tell the two apart is no test.

Invariant: ``rewrite(left) == right``, and a node to which the law does not apply gives None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symattn.nodes.algebra import MatrixProduct
from symattn.nodes.core import Node

Rewrite = Callable[[Node], Node | None]
Sides = tuple[Node, Node]


@dataclass(frozen=True, slots=True)
class Law:
    """Two equal ways of writing, and the rewriting of one node from the first to the second.

    ``condition`` is what the entries have to satisfy, empty where finite real entries suffice;
    ``reason`` is one sentence for the reader of a derivation; ``sound`` says why the rewriting is
    right for every node that it takes, not only for the sample; ``ends`` says what shrinks, so
    that rewriting with it comes to an end.
    """

    name: str
    left: Node
    right: Node
    mistake: Sides
    reason: str
    sound: str
    ends: str
    rewrite: Rewrite
    condition: str = ""


def laws_of(theme: dict[str, Law]) -> Callable[..., Callable[[Rewrite], Rewrite]]:
    """Return the decorator that makes a rewriting of one node a law of a theme."""

    def law(
        name: str,
        left: Node,
        right: Node,
        *,
        mistake: Sides,
        reason: str,
        sound: str,
        ends: str,
        condition: str = "",
    ) -> Callable[[Rewrite], Rewrite]:
        def register(rewrite: Rewrite) -> Rewrite:
            theme[name] = Law(name, left, right, mistake, reason, sound, ends, rewrite, condition)
            return rewrite

        return register

    return law


def product(*factors: object) -> Node:
    """Return the product of the factors; a single matrix is itself."""
    if len(factors) == 1 and isinstance(factors[0], Node):
        return factors[0]
    return MatrixProduct(*factors)
