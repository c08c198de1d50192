"""The two layouts: tokens as columns, or tokens as rows.

Column layout (``V Softmax(KᵀQ)``): a token is a column, weights stand left of the data (``W X``),
and each column of the softmax sums to one.  Row layout (``softmax(QKᵀ) V``) is its transpose.  A
layout is one row of a table; nothing else in this floor asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symattn.errors import UnknownNameError
from symattn.nodes import Node, matrix
from symattn.nodes.inputs import InputMatrix
from symattn.tags import Size, nearest


@dataclass(frozen=True, slots=True)
class Layout:
    """How formulas of one layout are put together.

    ``features`` and ``tokens`` are the axes of a data matrix, ``axis`` is the one that the softmax
    runs along; ``project`` applies a weight to data, ``mix`` the attention weights to the values.
    """

    name: str
    features: int
    tokens: int
    axis: int
    project: Callable[[Node, Node], Node]
    mix: Callable[[Node, Node], Node]

    def matrix(self, name: str, features: object, tokens: object) -> InputMatrix:
        """Return a named matrix; a weight has the features that it makes, then those it takes."""
        sizes = {self.features: features, self.tokens: tokens}
        return matrix(name, sizes[0], sizes[1])

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
    axis=0,
    project=lambda weight, data: weight @ data,
    mix=lambda value, weights: value @ weights,
)
ROW = Layout(
    name="row",
    features=1,
    tokens=0,
    axis=1,
    project=lambda weight, data: data @ weight,
    mix=lambda value, weights: weights @ value,
)

LAYOUTS = {layout.name: layout for layout in (COLUMN, ROW)}


def layout_named(name: str) -> Layout:
    """Return the layout of that name.

    >>> layout_named("row").axis
    1

    Raises `UnknownNameError` for anything but "column" and "row".
    """
    layout = LAYOUTS.get(name) if isinstance(name, str) else None
    if layout is None:
        raise UnknownNameError("layout", str(name), nearest(str(name), LAYOUTS) or tuple(LAYOUTS))
    return layout
