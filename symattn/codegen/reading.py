"""Reading a formula of scores as a tile, and what each query and each key brings as operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from symattn.codegen.tiles import (
    Applied,
    Beside,
    Dot,
    Entries,
    Mixed,
    OfKeys,
    OfNeither,
    OfQueries,
    One,
    Positions,
    Product,
    Scale,
    Scaled,
    Stacked,
    Sum,
    Tile,
    Weights,
)
from symattn.errors import NotSupportedError
from symattn.meaning.form import Form
from symattn.nodes import (
    Concat,
    Elementwise,
    Hadamard,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Ones,
    Pairwise,
    PositionBias,
    Quotient,
    Transposed,
)
from symattn.notation import text
from symattn.tags import Size


@dataclass
class Reading:
    """What reading a formula of scores collects: its operands, and the nodes that tiles replace."""

    operands: list[Node] = field(default_factory=list)
    weights: Node | None = None
    """The weights, where what is done with them is read."""
    entries: list[Size] = field(default_factory=list)
    """The sizes of the vectors of a pair, where scores are of pairs."""

    def number(self, node: Node) -> int:
        """Return the number of an operand."""
        if node not in self.operands:
            self.operands.append(node)
        return self.operands.index(node)

    def along(self, node: Node, axis: int) -> tuple[int, int]:
        """Return the number of an operand, a transpose looked through, and the axis of tokens."""
        while isinstance(node, Transposed):
            node, axis = node.matrices[0], 1 - axis
        return self.number(node), axis


def read(node: Node, query_axis: int, reading: Reading) -> Tile:
    """Return a formula of scores as a tile; raises `NotSupportedError` where it is none."""
    if node == reading.weights:
        return Weights()
    for kind, reader in _READERS:
        if isinstance(node, kind):
            return reader(node, query_axis, reading)
    if node.is_input:
        return Entries(reading.number(node), query_axis)
    raise NotSupportedError(f"{text(node)} is not computed from each query and each key")


def _transposed(node: Node, query_axis: int, reading: Reading) -> Tile:
    return read(node.matrices[0], 1 - query_axis, reading)


def _sum(node: Node, query_axis: int, reading: Reading) -> Tile:
    terms: list[tuple[str, Tile]] = []
    for term in node.matrices:
        negative = isinstance(term, Negated)
        inner = term.matrices[0] if negative else term
        terms.append(("-" if negative else "+", read(inner, query_axis, reading)))
    return Sum(tuple(terms))


def _negated(node: Node, query_axis: int, reading: Reading) -> Tile:
    return Sum((("-", read(node.matrices[0], query_axis, reading)),))


def _hadamard(node: Node, query_axis: int, reading: Reading) -> Tile:
    return Product(tuple(read(factor, query_axis, reading) for factor in node.matrices))


def _quotient(node: Node, query_axis: int, reading: Reading) -> Tile:
    inner = read(node.matrices[0], query_axis, reading)
    return scaled(inner, (("/", cast(Form, node.parts[1])),))


def _elementwise(node: Node, query_axis: int, reading: Reading) -> Tile:
    return Applied(cast(Elementwise, node), read(node.matrices[0], query_axis, reading))


def _positions(node: Node, query_axis: int, reading: Reading) -> Tile:
    bias = cast(PositionBias, node)
    return Positions(bias, 0 if bias.axis == query_axis else 1)


def _ones(_node: Node, _query_axis: int, _reading: Reading) -> Tile:
    return One()


def _beside(node: Node, query_axis: int, reading: Reading) -> Tile:
    axis = cast(Concat, node).axis
    if axis == query_axis:
        raise NotSupportedError(f"the queries of {text(node)}, which are of several kinds,")
    parts = ((read(part, query_axis, reading), part.sizes[axis]) for part in node.matrices)
    return Beside(tuple(parts))


def _product(node: Node, query_axis: int, reading: Reading) -> Tile:
    """Read a product as one of something of queries and something of keys."""
    scale = scale_of(node)
    matrices = node.matrices
    if len(matrices) == 1:
        return scaled(read(matrices[0], query_axis, reading), scale)
    left, right = _halves(matrices)
    if isinstance(right, Ones) and right.sizes[0].is_one:
        return scaled(repeated(left, 0, query_axis, reading), scale)
    if isinstance(left, Ones) and left.sizes[1].is_one:
        return scaled(repeated(right, 1, query_axis, reading), scale)
    return scaled(dot(left, right, query_axis, reading), scale)


def scale_of(node: Node) -> Scale:
    """Return the scalars among the factors of a product."""
    pairs = zip(node.operands, node.parts, strict=True)
    return tuple(
        ("*", cast(Form, part)) for operand, part in pairs if not isinstance(operand, Node)
    )


def _halves(matrices: tuple[Node, ...]) -> tuple[Node, Node]:
    """Split a chain where it is narrow: at the last axis that is none of queries or of keys."""
    tokens = {matrices[0].sizes[0], matrices[-1].sizes[1]}
    inner = [left.sizes[1] for left in matrices[:-1]]
    at = next((k for k in reversed(range(len(inner))) if inner[k] not in tokens), len(inner) - 1)
    return chain(matrices[: at + 1]), chain(matrices[at + 1 :])


def chain(matrices: tuple[Node, ...]) -> Node:
    """Return the product of some matrices."""
    return matrices[0] if len(matrices) == 1 else MatrixProduct(*matrices)


def repeated(node: Node, axis: int, query_axis: int, reading: Reading) -> Tile:
    """Return a column (axis 0) or row (axis 1) that is repeated along the other axis."""
    number, along = reading.along(node, axis)
    return OfQueries(number, along) if axis == query_axis else OfKeys(number, along)


def dot(left: Node, right: Node, query_axis: int, reading: Reading) -> Dot:
    """Return the product of a matrix of queries and one of keys, in the order of the layout."""
    first, last = reading.along(left, 0), reading.along(right, 1)
    query, key = (first, last) if query_axis == 0 else (last, first)
    return Dot(*query, *key)


def scaled(tile: Tile, scale: Scale) -> Tile:
    """Return a tile times and over scalars, which inner products take into their queries."""
    if not scale:
        return tile
    match tile:
        case Dot(query, query_axis, key, key_axis, before):
            return Dot(query, query_axis, key, key_axis, before + scale)
        case Scaled(inner, before):
            return Scaled(inner, before + scale)
        case _:
            return Scaled(tile, scale)


def _pairs(node: Node, query_axis: int, reading: Reading) -> Tile:
    pairs = cast(Pairwise, node)
    if pairs.axis != query_axis:  # of its transpose: what it calls queries are keys
        raise NotSupportedError(f"the transpose of {text(node)}")
    columns = [data if query_axis == 1 else turned(data) for data in pairs.data]
    tokens = dict(zip(pairs.vectors, columns, strict=True))
    return _Pair(cast(dict[Node, Node], tokens), reading).number(pairs.body)


class _Pair:
    """The score of one query and one key, read as the scores of all."""

    def __init__(self, tokens: dict[Node, Node], reading: Reading) -> None:
        self.tokens = tokens
        self.query, self.key = tokens
        self.reading = reading

    def used(self, node: Node) -> set[Node]:
        """Return which of the two vectors a part of the score depends on."""
        return {vector for vector in self.tokens if vector in node.symbols()}

    def number(self, node: Node) -> Tile:
        """Return a part that is one number for every pair."""
        used = self.used(node)
        if len(used) < 2:
            alone = self.of_one(node, used, is_vector=False)
            return alone
        if isinstance(node, Transposed):
            return self.number(node.matrices[0])
        if isinstance(node, MatrixProduct) and len(node.matrices) > 1:
            numbers = all(size.is_one for part in node.matrices for size in part.sizes)
            tile = (
                Product(tuple(map(self.number, node.matrices)))
                if numbers
                else self.inner_product(node)
            )
            return scaled(tile, scale_of(node))
        return self.entrywise(node, self.number)

    def inner_product(self, node: MatrixProduct) -> Tile:
        """Return a row times a column."""
        for at in reversed(range(1, len(node.matrices))):
            left, right = chain(node.matrices[:at]), chain(node.matrices[at:])
            before, after = self.used(left), self.used(right)
            if len(before) == len(after) == 1 and before != after:
                found = {
                    before.pop(): self.each(turned(left), *self.used(left)),
                    after.pop(): self.each(right, *self.used(right)),
                }
                query = self.reading.along(found[self.query], 1)
                return Dot(*query, *self.reading.along(found[self.key], 1))
        *_, last = node.matrices
        if not self.used(last):
            return self.inner_product(cast(MatrixProduct, turned(node)))
        constant = chain(node.matrices[:-1])
        if self.used(constant):
            raise NotSupportedError(f"{text(node)} is not computed from each query and each key")
        row = self.reading.number(constant)
        return Mixed(row, self.vector(last), is_row=True)

    def vector(self, node: Node) -> Tile:
        """Return a part that is a column vector for every pair."""
        self.reading.entries.append(node.sizes[0])
        used = self.used(node)
        if not used:
            return OfNeither(self.reading.number(node))
        if len(used) == 1:
            return self.of_one(node, used, is_vector=True)
        if isinstance(node, Concat) and node.axis == 0:
            return Stacked(tuple(self.vector(part) for part in node.matrices))
        if isinstance(node, MatrixProduct) and len(node.matrices) > 1:
            *before, last = node.matrices
            constant = chain(tuple(before))
            if not self.used(constant):
                mixed = Mixed(self.reading.number(constant), self.vector(last), is_row=False)
                return scaled(mixed, scale_of(node))
        return self.entrywise(node, self.vector)

    def entrywise(self, node: Node, part: Callable[[Node], Tile]) -> Tile:
        """Return an operation on every entry."""
        match node:
            case MatrixSum() | Negated():
                terms = node.matrices if isinstance(node, MatrixSum) else (node,)
                signed = [(term, isinstance(term, Negated)) for term in terms]
                return Sum(
                    tuple(
                        ("-", part(term.matrices[0])) if negative else ("+", part(term))
                        for term, negative in signed
                    )
                )
            case Hadamard():
                return Product(tuple(map(part, node.matrices)))
            case Quotient():
                return scaled(part(node.matrices[0]), (("/", cast(Form, node.parts[1])),))
            case MatrixProduct() if len(node.matrices) == 1:
                return scaled(part(node.matrices[0]), scale_of(node))
            case Elementwise():
                return Applied(node, part(node.matrices[0]))
            case _:
                raise NotSupportedError(
                    f"{text(node)} is not computed from each query and each key"
                )

    def of_one(self, node: Node, used: set[Node], *, is_vector: bool) -> Tile:
        """Return a part that depends on one of the two vectors, or on none."""
        (vector,) = used or {self.query}
        number, axis = self.reading.along(self.each(node, vector), 1)
        kind = OfQueries if vector == self.query else OfKeys
        return kind(number, axis, is_vector)

    def each(self, node: Node, vector: Node) -> Node:
        """Return what a column is for every query or key: a matrix with these as columns."""
        tokens = self.tokens[vector]
        if node == vector:
            return tokens
        if vector not in node.symbols():
            return MatrixProduct(node, Ones(Size.of(1), tokens.sizes[1]))
        match node:
            case Transposed() if node.sizes[0].is_one and node.sizes[1].is_one:
                return self.each(node.matrices[0], vector)
            case MatrixProduct() if len(node.matrices) > 1:
                return self.each_product(node, vector)
            case MatrixProduct() | MatrixSum() | Hadamard() | Negated() | Quotient():
                return node.rebuilt(lambda part: self.each(part, vector))
            case Elementwise():
                return node.rebuilt(lambda part: self.each(part, vector))
            case Concat() if node.axis == 0:
                return node.rebuilt(lambda part: self.each(part, vector))
            case _:
                raise NotSupportedError(f"{text(node)} is not computed for all tokens at once")

    def each_product(self, node: MatrixProduct, vector: Node) -> Node:
        """Return a product for every token: of a constant and a column, or of a row and a column.

        ``qᵀ A q`` is the sum of the entries of q ∘ A q.
        """
        *before, last = node.matrices
        left = chain(tuple(before))
        scalars = [operand for operand in node.operands if not isinstance(operand, Node)]
        if vector not in left.symbols():
            return MatrixProduct(*scalars, left, self.each(last, vector))
        if not (node.sizes[0].is_one and node.sizes[1].is_one):
            if vector in last.symbols() or not last.sizes[0].is_one:
                raise NotSupportedError(f"{text(node)} is not computed for all tokens at once")
            tokens = self.each(left, vector)  # each times one number
            rows, columns = (Ones(size, Size.of(1)) for size in tokens.sizes)
            return Hadamard(MatrixProduct(*scalars, rows, last, turned(columns)), tokens)
        if vector not in last.symbols():
            right, other = turned(left), turned(last)
            return MatrixProduct(*scalars, other, self.each(right, vector))
        rows = Ones(Size.of(1), last.sizes[0])
        both = Hadamard(self.each(turned(left), vector), self.each(last, vector))
        return MatrixProduct(*scalars, rows, both)


def turned(node: Node) -> Node:
    """Return the transpose, written without one where that is possible."""
    if isinstance(node, Transposed):
        return node.matrices[0]
    if isinstance(node, MatrixProduct):
        operands = (turned(o) if isinstance(o, Node) else o for o in reversed(node.operands))
        return MatrixProduct(*operands)
    return Transposed(node)


Reader = Callable[[Node, int, Reading], Tile]

_READERS: tuple[tuple[type[Node], Reader], ...] = (
    (Transposed, _transposed),
    (MatrixSum, _sum),
    (Negated, _negated),
    (Hadamard, _hadamard),
    (Quotient, _quotient),
    (Elementwise, _elementwise),
    (PositionBias, _positions),
    (Ones, _ones),
    (Concat, _beside),
    (MatrixProduct, _product),
    (Pairwise, _pairs),
)
