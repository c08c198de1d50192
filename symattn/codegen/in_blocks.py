"""A weighted sum as one operation, and how it takes the place of a product in a program.

What is summed is a matrix of queries and keys times values; its operands are what a block of that
matrix is computed from, so that the plan has these ready and never the matrix.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import cast

import sympy

from symattn.codegen.reading import Reading, chain
from symattn.codegen.tiles import Tile
from symattn.errors import NotSupportedError
from symattn.meaning.form import Form, Place
from symattn.nodes import Mask, MatrixProduct, Node, Program, Transposed
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments
from symattn.notation import text
from symattn.notation.rows import Binding, Kind, Notation, Printable
from symattn.tags import Size


class InBlocks(Node):
    """``F V`` or ``V F`` as one operation; arguments are F, the order, V, and all operands."""

    notation = Notation(Kind.PRODUCT, Binding.PRODUCT)

    @classmethod
    def _accept(cls, factor: Node, rows: sympy.Integer, values: Node, *operands: Node) -> Arguments:
        return factor, rows, values, *operands

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        factor, values = cast(Node, operands[0]), cast(Node, operands[2])
        if operands[1] == 1:
            return factor.sizes[0], values.sizes[1]
        return values.sizes[0], factor.sizes[1]

    @property
    def changed(self) -> Node:
        """What the values are multiplied with."""
        return cast(Node, self.args[0])

    @property
    def query_axis(self) -> int:
        """The axis of the result along which queries lie: 0 where they are rows."""
        return 0 if self.args[1] == 1 else 1

    @property
    def matrices(self) -> tuple[Node, ...]:
        """The values, and what the scores are computed from."""
        return cast(tuple[Node, ...], self.operands[2:])

    @property
    def parts(self) -> tuple[Printable | Form, ...]:
        """Those of the product: what the scores are computed from is in its weights."""
        return self.product().parts

    @property
    @abstractmethod
    def tokens(self) -> tuple[Size, Size]:
        """The numbers of queries and of keys."""

    @property
    @abstractmethod
    def attends_under(self) -> Mask | None:
        """The mask of the weights."""

    @abstractmethod
    def scores(self) -> tuple[Tile, Tile, Reading]:
        """Return the scores of a block, what becomes of the weights, and what was read."""

    def meaning(self, row: Place, column: Place) -> Form:
        """That of the product."""
        return self.product().meaning(row, column)

    def product(self) -> Node:
        """Return the product that it stands for."""
        values = cast(Node, self.args[2])
        pair = (self.changed, values) if self.query_axis == 0 else (values, self.changed)
        return MatrixProduct(*pair)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """None: it is written as statements."""
        raise NotSupportedError(f"{text(self.product())} in one expression, block by block")


def values_beside(
    product: Node, factor: Node, *, rows: bool
) -> tuple[Arguments, Node | None, Arguments]:
    """Return the values that weights are multiplied with, and the factors around the two.

    In P V they are the next matrix, in V P all matrices before P.
    """
    at = product.operands.index(factor)
    before, after = product.operands[:at], product.operands[at + 1 :]
    matrices = [part for part in (after if rows else before) if isinstance(part, Node)]
    if not matrices:
        return before, None, after
    scalars = tuple(part for part in (after if rows else before) if not isinstance(part, Node))
    if rows:
        return before, matrices[0], (*scalars, *matrices[1:])
    return scalars, chain(tuple(matrices)), after


def used_otherwise(factor: Node, nodes: Iterable[Node]) -> str:
    """Return what weights are used for beside a product with values, "" if there is nothing."""
    nodes = tuple(nodes)
    users = [node for node in nodes if factor in node.matrices]
    if not users:
        return "are the result themselves"
    for user in users:
        if user.matrices.count(factor) > 1:
            return f"are used twice in {text(user)}"
        if not isinstance(user, MatrixProduct) or is_scaled(user):
            after = [node for node in nodes if user in node.matrices]
            shown = after[0] if isinstance(user, Transposed) and after else user
            also = " too" if len(users) > 1 else ""
            return f"are used in {text(shown)}{also}"
    return ""


def refused_use(factor: Node, use: str) -> NotSupportedError:
    """Return the error that says so, and which weights need no whole matrix."""
    return NotSupportedError(
        f"the weights {text(factor)} {use}, which needs them as a whole matrix; blocks do for "
        "weights that are scaled, multiplied entry by entry, or added to others, and then "
        "multiplied with values and used for nothing else"
    )


def is_scaled(node: Node) -> bool:
    """Tell whether a node is a matrix times scalars."""
    return isinstance(node, MatrixProduct) and len(node.matrices) == 1


def replaced(program: Program, rule: Mapping[Node, Node]) -> Program:
    """Return a program with some of its nodes replaced."""
    changed: dict[Node, Node] = {}
    for line in program.lines.values():
        for node in line.walk():
            if node not in changed:
                changed[node] = rule.get(node) or node.rebuilt(lambda part: changed.get(part, part))
    return Program({name: changed[line] for name, line in program.lines.items()})
