"""Where a program takes weighted sums that can be computed in blocks.

The blocked plan is the direct plan of another program: the product of the weights with the values
is replaced by one node, whose operands are what the scores of a block are computed from
(`symattn.codegen.reading`): `Attended` where the weights are a softmax, and `Summed` where they are
another function of scores (`symattn.codegen.kin`).  What comes before it (projections, biases,
norms) and what comes after (heads put together, an output projection) stays what it was.
"""

from __future__ import annotations

import sympy

from symattn.codegen.distributed import distributed
from symattn.codegen.in_blocks import (
    InBlocks,
    refused_use,
    replaced,
    used_otherwise,
    values_beside,
)
from symattn.codegen.kin import with_sums
from symattn.codegen.reading import Reading, read
from symattn.codegen.tiles import Tile
from symattn.errors import NotSupportedError, ShapeError
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
from symattn.nodes.along_axis import queries_and_keys
from symattn.notation import text
from symattn.tags import Size


class Attended(InBlocks):
    """``P V`` or ``V P``; P is a softmax, or one that is scaled or multiplied entry by entry."""

    @property
    def weights(self) -> Softmax:
        """The softmax in it."""
        return next(node for node in self.changed.walk() if isinstance(node, Softmax))

    @property
    def tokens(self) -> tuple[Size, Size]:
        """The numbers of queries and of keys."""
        return queries_and_keys(self.weights.sizes, self.weights.axis)

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


def blocked_program(program: Program) -> Program:
    """Return a program whose weighted sums are one operation each.

    Raises `NotSupportedError`, with the reason, if there is none, or if the scores of one are no
    tiles.
    """
    softmaxes = [node for node in program.result.walk() if isinstance(node, Softmax)]
    program = distributed(program)
    weights = _innermost(program)
    while weights is not None:
        program = replaced(program, _weighted_sums(program.result, weights))
        weights = _innermost(program)
    tokens = frozenset(size for node in softmaxes for size in node.sizes)
    program, why_not = with_sums(program, tokens)
    if not any(isinstance(node, InBlocks) for node in program.result.walk()):
        raise NotSupportedError(
            why_not or "there is no softmax in it, nor values times a function of scores"
        )
    return program


def _innermost(program: Program) -> Softmax | None:
    """Return a softmax that none comes before, and that is no part of an attended sum yet."""
    return next((node for node in program.result.walk() if isinstance(node, Softmax)), None)


def _read(factor: Node, weights: Softmax, query_axis: int) -> tuple[Tile, Tile, Reading]:
    """Return the scores, and what the factor is made from the weights by."""
    scores = weights.matrices[0]
    reading = Reading()
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
    use = used_otherwise(factor, result.walk())
    if use:
        raise refused_use(factor, use)
    try:
        *_, reading = _read(factor, weights, query_axis)
    except ShapeError as error:
        raise NotSupportedError(f"{text(weights.matrices[0])} in blocks: {error}") from None
    rows = query_axis == 0
    found: dict[Node, Node] = {}
    attended: dict[Node, None] = {}
    for product in users:
        before, values, after = values_beside(product, factor, rows=rows)
        if values is None:
            raise NotSupportedError(f"{named} are multiplied with no values")
        order = sympy.Integer(1 if rows else 0)
        one = Attended(factor, order, values, *reading.operands)
        attended[one] = None
        found[product] = MatrixProduct(*before, one, *after) if before or after else one
    if len(attended) > 1:
        raise NotSupportedError(f"{named} are multiplied with several values")
    return found


def attended_sizes(program: Program) -> tuple[tuple[Size, Size, tuple[Size, ...]], ...]:
    """Return for each sum in blocks the numbers of queries, of keys, and of values of its indices.

    Raises `NotSupportedError` as `blocked_program` does.
    """
    found = [node for node in blocked_program(program).result.walk() if isinstance(node, InBlocks)]
    sizes = ((*node.tokens, tuple(i.size for i in node.changed.indices)) for node in found)
    return tuple(dict.fromkeys(sizes))
