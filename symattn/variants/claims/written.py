"""Formulas that are written once, as columns, and read in either layout.

The row layout of a product is the product the other way round, that of a matrix has its sizes
swapped, that of a softmax runs along rows.  So a claim is one function of a layout, written as in
``V Softmax(KᵀQ)``, and has an equation in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from symattn.nodes import (
    Node,
    causal,
    concat,
    dims,
    hadamard,
    indicator,
    keep,
    ones,
    padding,
    reciprocal,
    softmax,
    window,
)
from symattn.variants.attend import Operands, attention
from symattn.variants.claims.claim import Equation
from symattn.variants.layouts import BUILDERS, Layout

d, d_a, d_k, d_q, d_v, n, m, w = dims("d d_a d_k d_q d_v n m w")

MASKS = {
    "a boolean for each pair": keep(),
    "a boolean for each key": padding(),
    "causal": causal("bottom_right"),
    "a window": window(w, "top_left"),
}


@dataclass(frozen=True)
class Written:
    """Writes in one layout what its methods are given as columns."""

    layout: Layout

    def matrix(self, name: str, features: Any, tokens: Any) -> Node:
        """Return a named matrix with these features for each token; scores have keys as those."""
        return self.layout.matrix(name, features, tokens)

    def ones(self, features: Any, tokens: Any) -> Node:
        """Return a matrix of ones."""
        return ones(*self.layout.shape(features, tokens))

    def product(self, *factors: Node) -> Node:
        """Return a product, the factors given from left to right as they stand in columns."""
        return self.layout.product(*factors)

    def spread(self, numbers: Node, features: Any) -> Node:
        """Return one number for each token (1 × n) as that many equal features."""
        return self.product(self.ones(features, 1), numbers)

    def total(self, data: Node) -> Node:
        """Return the sum over the features of each token."""
        return self.product(self.ones(1, self.layout.feature_size(data)), data)

    def shared_out(self, data: Node) -> Node:
        """Return each token divided by the sum of its features."""
        total = self.spread(self.total(data), self.layout.feature_size(data))
        return hadamard(data, reciprocal(total))

    def softmax(self, scores: Node, mask: Any = None) -> Node:
        """Return the softmax over the keys."""
        return softmax(scores, axis=self.layout.axis, mask=mask)

    def softmax_over_queries(self, scores: Node) -> Node:
        """Return the softmax along the other axis."""
        return softmax(scores, axis=1 - self.layout.axis)

    def allowed(self, mask: Any, keys: Any, queries: Any) -> Node:
        """Return the 0/1 matrix of a mask."""
        return indicator(mask, *self.layout.shape(keys, queries), axis=self.layout.axis)

    def attention(self, Q: Node, K: Node, V: Node, *args: Any, **options: Any) -> Node:
        """Return attention in this layout."""
        return attention(Q, K, V, *args, layout=self.layout.name, **options)

    def beside(self, *parts: Node) -> Node:
        """Return the tokens of all parts, one part after the other."""
        return concat(*parts, axis=self.layout.tokens)

    def stacked(self, *parts: Node) -> Node:
        """Return the features of all parts, one part after the other."""
        return concat(*parts, axis=self.layout.features)

    def operands(self, keys: Any = m) -> Operands:
        """Return queries Q, keys K and values V."""
        Q, K = self.matrix("Q", d_k, n), self.matrix("K", d_k, keys)
        return Q, K, self.matrix("V", d_v, keys)

    def scores(self, keys: Any = m) -> Node:
        """Return a matrix S of any scores."""
        return self.matrix("S", keys, n)

    def dots(self, Q: Node, K: Node) -> Node:
        """Return every query times every key."""
        return self.product(K.T, Q)


Sides = tuple[str, Node, Node]


def in_both(write: Callable[[Written], Iterable[Sides]]) -> Callable[[], Iterator[Equation]]:
    """Return the equations of both layouts, given those of one: a label, left side, right side.

    >>> write = in_both(lambda at: [("", at.softmax(at.scores()), at.scores())])
    >>> [equation.label for equation in write()]
    ['column', 'row']
    """

    def equations() -> Iterator[Equation]:
        for name, layout in BUILDERS.items():
            for label, lhs, rhs in write(Written(layout)):
                labelled = f"{name}, {label}" if label else name
                yield Equation(labelled, lhs, rhs, layout=name)

    return equations
