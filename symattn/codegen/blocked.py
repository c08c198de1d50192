"""Where a program takes a softmax-weighted sum that can be computed in blocks.

The blocked plan is the direct plan of another program: the product of the weights with the values
is replaced by one node, `Attended`, whose operands are what the scores of a block are computed from
(`symattn.codegen.reading`).  What comes before it (projections, biases, norms) and what comes after
(heads put together, an output projection) stays what it was.
"""

from __future__ import annotations

from typing import cast

import sympy

from symattn.codegen.reading import Reading, chain, read
from symattn.codegen.tiles import Tile
from symattn.errors import NotSupportedError, ShapeError
from symattn.meaning.form import Form, Place
from symattn.nodes import (
    BooleanInput,
    Hadamard,
    Mask,
    MatrixProduct,
    Negated,
    Node,
    Program,
    Quotient,
    Softmax,
    Transposed,
)
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments
from symattn.notation import text
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class Attended(Node):
    """``P V`` or ``V P`` as one operation; arguments are P, the order, V, and all operands.

    P is a softmax, or one that is scaled or multiplied entry by entry (by a dropout, say).
    """

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
    def weights(self) -> Softmax:
        """The softmax in it."""
        return next(node for node in self.changed.walk() if isinstance(node, Softmax))

    @property
    def query_axis(self) -> int:
        """The axis of the result along which queries lie: 0 where they are rows."""
        return 0 if self.args[1] == 1 else 1

    @property
    def matrices(self) -> tuple[Node, ...]:
        """The values, and what the scores are computed from."""
        return cast(tuple[Node, ...], self.operands[2:])

    @property
    def mask_arrays(self) -> tuple[BooleanInput, ...]:
        """The boolean arrays of the mask of the weights."""
        return self.weights.mask_arrays

    @property
    def attends_under(self) -> Mask | None:
        """The mask of the weights."""
        return self.weights.mask

    def scores(self) -> tuple[Tile, Tile, Reading]:
        """Return the scores of a block, what becomes of the weights, and what was read."""
        return _read(self.changed, self.weights, self.query_axis)

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


def blocked_program(program: Program) -> Program:
    """Return a program whose weighted sums are one operation each.

    Raises `NotSupportedError`, with the reason, if there is none, or if the scores of one are no
    tiles.
    """
    weights = _innermost(program)
    if weights is None:
        raise NotSupportedError("there is no softmax in it")
    while weights is not None:
        rule = _weighted_sums(program.result, weights)
        program = Program({name: _replace(line, rule) for name, line in program.lines.items()})
        weights = _innermost(program)
    return program


def _innermost(program: Program) -> Softmax | None:
    """Return a softmax that none comes before, and that is no part of an attended sum yet."""
    return next((node for node in program.result.walk() if isinstance(node, Softmax)), None)


def _read(factor: Node, weights: Softmax, query_axis: int) -> tuple[Tile, Tile, Reading]:
    """Return the scores, and what the factor is made from the weights by."""
    scores = weights.matrices[0]
    reading = Reading(*scores.sizes)
    tile = read(scores, 1 - weights.axis, reading)
    reading.weights = weights
    return tile, read(factor, query_axis, reading), reading


def _changed(result: Node, weights: Softmax) -> tuple[Node, int]:
    """Return what becomes of the weights entry by entry, and along which axis its queries lie."""
    factor: Node = weights
    query_axis = 1 - weights.axis
    while True:
        users = [node for node in result.walk() if factor in node.matrices]
        if len(users) != 1 or users[0].matrices.count(factor) != 1:
            return factor, query_axis
        match users[0]:
            case Transposed():
                query_axis = 1 - query_axis
            case Quotient() | Negated() | Hadamard():
                pass
            case MatrixProduct() if len(users[0].matrices) == 1:
                pass
            case _:
                return factor, query_axis
        factor = users[0]


def _weighted_sums(result: Node, weights: Softmax) -> dict[Node, Node]:
    """Return the products that the weights are a factor of, each with what stands for it."""
    named = f"the weights {text(weights)}"
    factor, query_axis = _changed(result, weights)
    users = [node for node in result.walk() if factor in node.matrices]
    if not users or not all(isinstance(node, MatrixProduct) for node in users):
        raise NotSupportedError(f"{named} are used for more than a product with values")
    try:
        *_, reading = _read(factor, weights, query_axis)
    except ShapeError as error:
        raise NotSupportedError(f"{text(weights.matrices[0])} in blocks: {error}") from None
    rows = query_axis == 0
    found: dict[Node, Node] = {}
    attended: dict[Node, None] = {}
    for product in users:
        before, values, after = _around(product, factor, rows=rows)
        if values is None:
            raise NotSupportedError(f"{named} are multiplied with no values")
        order = sympy.Integer(1 if rows else 0)
        one = Attended(factor, order, values, *reading.operands)
        attended[one] = None
        found[product] = MatrixProduct(*before, one, *after) if before or after else one
    if len(attended) > 1:
        raise NotSupportedError(f"{named} are multiplied with several values")
    return found


def _around(product: Node, factor: Node, *, rows: bool) -> tuple[Arguments, Node | None, Arguments]:
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


def _replace(line: Node, rule: dict[Node, Node]) -> Node:
    """Return a line with some of its nodes replaced."""
    changed: dict[Node, Node] = {}
    for node in line.walk():
        changed[node] = rule.get(node) or node.rebuilt(lambda part: changed.get(part, part))
    return changed[line]


def attended_sizes(program: Program) -> tuple[tuple[Size, Size, tuple[Size, ...]], ...]:
    """Return for each softmax the numbers of queries, of keys, and of values of its indices."""
    found = [node for node in program.result.walk() if isinstance(node, Softmax)]
    return tuple(
        (
            node.sizes[1 - node.axis],
            node.sizes[node.axis],
            tuple(index.size for index in node.indices),
        )
        for node in found
    )
