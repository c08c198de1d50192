"""The two layouts: tokens as columns, or tokens as rows.

Column layout (``V Softmax(KᵀQ)``): a token is a column, weights stand left of the data (``W X``),
and each column of the softmax sums to one.  Row layout (``softmax(QKᵀ) V``) is its transpose.  A
layout is one row of a table; nothing else in this floor asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

    def matrix(self, name: str, features: object, tokens: object) -> InputMatrix:
        """Return a named matrix; a weight has the features that it makes, then those it takes."""
        sizes = {self.features: features, self.tokens: tokens}
        return matrix(name, sizes[0], sizes[1])

    def family(
        self, name: str, counts: tuple[object, ...], features: object, tokens: object
    ) -> Family:
        """Return a family of weights, each laid out as a matrix is."""
        sizes = {self.features: features, self.tokens: tokens}
        return family(name, counts, sizes[0], sizes[1])

    def shifted(self, data: Node, bias: Node) -> Node:
        """Return data with a column vector added to every token."""
        count = self.token_count(data)
        column = self.features == 0
        return data + (bias @ ones(1, count) if column else ones(count, 1) @ bias.T)

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
