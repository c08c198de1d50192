"""The two layouts: tokens as columns, or tokens as rows.

Column layout (``V Softmax(KᵀQ)``): a token is a column, weights stand left of the data (``W X``),
and each column of the softmax sums to one.  Row layout (``softmax(QKᵀ) V``) is its transpose.  A
layout is one row of a table; nothing else in this floor asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import matmul
from typing import Any

from symattn.nodes import Family, Node, family, head, heads, matrix, ones
from symattn.nodes.indices import AxisIndex
from symattn.nodes.inputs import InputMatrix
from symattn.notation.layouts import LAYOUTS
from symattn.tags import Size, named


@dataclass(frozen=True, slots=True)
class Layout:
    """How formulas of one layout are put together.

    ``features`` and ``tokens`` are the axes of a data matrix; ``project`` applies a weight to data,
    ``mix`` the attention weights to the values.
    """

    name: str
    features: int
    tokens: int
    project: Callable[[Node, Node], Node]
    mix: Callable[[Node, Node], Node]

    @property
    def axis(self) -> int:
        """The axis that the softmax runs along."""
        return LAYOUTS[self.name]

    def shape(self, features: Any, tokens: Any) -> tuple[Any, Any]:
        """Return the numbers of rows and of columns of a data matrix."""
        return (features, tokens) if self.features == 0 else (tokens, features)

    def product(self, *factors: Node) -> Node:
        """Return a product, the factors given from left to right as they stand in columns."""
        return reduce(matmul, factors if self.features == 0 else factors[::-1])

    def weight(self, matrix: Node) -> Node:
        """Return a weight as it stands beside data, given as it stands left of columns."""
        return matrix if self.features == 0 else matrix.T

    def matrix(self, name: str, features: object, tokens: object) -> InputMatrix:
        """Return a named matrix; a weight has the features that it makes, then those it takes."""
        return matrix(name, *self.shape(features, tokens))

    def family(
        self, name: str, counts: tuple[object, ...], features: object, tokens: object
    ) -> Family:
        """Return a family of weights, each laid out as a matrix is."""
        return family(name, counts, *self.shape(features, tokens))

    def shifted(self, data: Node, bias: Node) -> Node:
        """Return data with a column vector added to every token."""
        every_token = ones(*self.shape(1, self.token_count(data)))
        return data + self.product(self.weight(bias), every_token)

    def stacked(self, each: Node, which: AxisIndex) -> Node:
        """Return all heads, one after another along the features."""
        return heads(each, which, axis=self.features)

    def part(self, whole: Node, which: AxisIndex) -> Node:
        """Return the features of one head."""
        return head(whole, which, axis=self.features)

    def feature_size(self, data: Node) -> Size:
        """Return the size of a token."""
        return data.sizes[self.features]

    def token_count(self, data: Node) -> Size:
        """Return the number of tokens."""
        return data.sizes[self.tokens]


COLUMN = Layout(
    name="column",
    features=0,
    tokens=1,
    project=lambda weight, data: weight @ data,
    mix=lambda value, weights: value @ weights,
)
ROW = Layout(
    name="row",
    features=1,
    tokens=0,
    project=lambda weight, data: data @ weight,
    mix=lambda value, weights: weights @ value,
)

BUILDERS = {layout.name: layout for layout in (COLUMN, ROW)}


def layout_named(name: str) -> Layout:
    """Return the layout of that name.

    >>> layout_named("row").axis
    1

    Raises `UnknownNameError` for anything but "column" and "row".
    """
    return named("layout", name, BUILDERS)
