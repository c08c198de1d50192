"""Weighted sums without a softmax: values times any function of scores.

``sigmoid(S) V``, ``exp(S) V`` and ``(S ∘ D) V`` need no row of S as a whole either: a block of keys
gives Σ_B f(s_j) v_j, and blocks merge by addition, with no shift and nothing to divide by.  ``Q Kᵀ
V`` alone is none of them: it has no function of entries, and Kᵀ V comes first where that is less.

Of a product, the weights are a matrix that is read as a tile (`symattn.codegen.reading`), and whose
entries are each a function of a score, or are masked.  A mask is a factor of 0 and 1
(`symattn.indicator`), or one that an exp takes up (`symattn.additive_mask`).
"""

from __future__ import annotations

from typing import cast

import sympy

from symattn.codegen.distributed import Distributed
from symattn.codegen.in_blocks import (
    InBlocks,
    is_scaled,
    refused_use,
    replaced,
    used_otherwise,
    values_beside,
)
from symattn.codegen.reading import Reading, read
from symattn.codegen.tiles import (
    Applied,
    Dot,
    Mixed,
    OfKeys,
    OfQueries,
    Positions,
    Product,
    Tile,
    Weights,
    everything,
)
from symattn.errors import NotSupportedError, ShapeError
from symattn.nodes import (
    AdditiveMask,
    BooleanInput,
    Elementwise,
    Hadamard,
    Indicator,
    Mask,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Ones,
    Program,
    Quotient,
    Transposed,
)
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.masks import together
from symattn.notation import text
from symattn.tags import Size

MaskMatrix = Indicator | AdditiveMask
ENTRYWISE = (Elementwise, Hadamard, MatrixSum, Negated, Quotient, Transposed)
"""Operations whose entries are each made from the same entry of every operand."""


class Summed(InBlocks):
    """``F V`` or ``V F``; F is a function of scores, entry by entry, and may be masked."""

    @property
    def tokens(self) -> tuple[Size, Size]:
        """The numbers of queries and of keys."""
        return queries_and_keys(self.changed.sizes, 1 - self.query_axis)

    @property
    def masks(self) -> tuple[MaskMatrix, ...]:
        """The masks among its factors."""
        return unmasked(self.changed, 1 - self.query_axis)[1]

    @property
    def mask_arrays(self) -> tuple[BooleanInput, ...]:
        """The boolean arrays of its masks."""
        mask = self.attends_under
        return () if mask is None else mask.arrays(self.tokens)

    @property
    def attends_under(self) -> Mask | None:
        """All its masks together."""
        return together(matrix.mask for matrix in self.masks) if self.masks else None

    @property
    def multiplies_by_mask(self) -> bool:
        """Tell whether its masks are but numbers, 0 and 1: then 0 · NaN is NaN."""
        return bool(self.masks) and all(isinstance(matrix, Indicator) for matrix in self.masks)

    def scores(self) -> tuple[Tile, Tile, Reading]:
        """Return the weights of a block, that nothing becomes of them, and what was read."""
        factor, _ = unmasked(self.changed, 1 - self.query_axis)
        reading = Reading()
        return read(factor, self.query_axis, reading), Weights(), reading


def unmasked(factor: Node, key_axis: int) -> tuple[Node, tuple[MaskMatrix, ...]]:
    """Return weights without their masks, and these.

    Raises `NotSupportedError` for a mask whose keys lie along the axis of queries.
    """
    match factor:
        case Indicator():
            return Ones(*factor.sizes), _along(key_axis, factor)
        case Elementwise() if factor.matrices[0].has_minus_infinity:
            finite, masks = factor.matrices[0].finite_and_masks()
            inner = Ones(*factor.sizes) if finite is None else Elementwise(factor.function, finite)
            return inner, _along(key_axis, *cast(tuple[MaskMatrix, ...], masks))
        case Transposed():
            inner, masks = unmasked(factor.matrices[0], 1 - key_axis)
            return Transposed(inner) if masks else factor, masks
        case Hadamard():
            parts = [unmasked(part, key_axis) for part in factor.matrices]
            masks = tuple(mask for _, found in parts for mask in found)
            kept = [part for part, _ in parts if not isinstance(part, Ones)] or [parts[0][0]]
            return (kept[0] if len(kept) == 1 else Hadamard(*kept)) if masks else factor, masks
        case _ if isinstance(factor, Negated | Quotient) or is_scaled(factor):
            inner, masks = unmasked(factor.matrices[0], key_axis)
            return factor.rebuilt(lambda _: inner) if masks else factor, masks
        case _:
            return factor, ()


def _along(key_axis: int, *masks: MaskMatrix) -> tuple[MaskMatrix, ...]:
    for mask in masks:
        if mask.axis != key_axis:
            raise NotSupportedError(f"{text(mask)} in blocks: values are not those of its keys")
    return masks


def with_sums(program: Program, tokens: frozenset[Size]) -> tuple[Program, str]:
    """Return a program whose sums of a function of scores are one operation each.

    Where a softmax tells the sizes of queries and keys, the ``tokens``, others are no scores.  With
    the program comes why the first product that could have been such a sum is none, if there is
    one.
    """
    reasons: list[str] = []
    refused: set[Node] = set()
    while True:
        nodes = list(program.result.walk())
        for product in reversed(nodes):  # scores before what they are computed from
            if product in refused or not isinstance(product, MatrixProduct):
                continue
            try:
                found = _summed(product, nodes, tokens)
            except (NotSupportedError, ShapeError) as error:
                reasons.append(error.what if isinstance(error, NotSupportedError) else str(error))
                found = None
            if found is not None:
                program = replaced(program, {product: found})
                break
            refused.add(product)
        else:
            return program, reasons[0] if reasons else ""


def _summed(product: Node, nodes: list[Node], tokens: frozenset[Size]) -> Node | None:
    """Return a product with the sum in it as one operation, None if there is none."""
    for at, factor in enumerate(product.matrices):
        rows = at + 1 < len(product.matrices)
        if (not rows and at == 0) or not _may_be_weights(factor, tokens):
            continue
        # In F V values come after the weights; in V F, where nothing does, before.
        before, values, after = values_beside(product, factor, rows=rows)
        query_axis = 0 if rows else 1
        inner, masks = unmasked(factor, 1 - query_axis)
        reading = Reading()
        tile = read(inner, query_axis, reading)
        if not (_is_of_pairs(tile) if masks else _has_function(tile, reading)):
            continue
        use = used_otherwise(factor, nodes)
        if use:
            raise refused_use(factor, use)
        assert values is not None
        one = Summed(factor, sympy.Integer(1 if rows else 0), values, *reading.operands)
        return MatrixProduct(*before, one, *after) if before or after else one
    return None


def _may_be_weights(node: Node, tokens: frozenset[Size]) -> bool:
    """Tell whether a factor is an operation entry by entry on what has both axes of tokens."""
    if not isinstance(node, ENTRYWISE) and not is_scaled(node):
        return False
    if any(size.is_one for size in node.sizes) or (tokens and not set(node.sizes) <= tokens):
        return False
    inside = [node]
    while inside:
        part = inside.pop()
        if isinstance(part, Elementwise | Hadamard):
            return True
        if isinstance(part, ENTRYWISE) or is_scaled(part):
            inside += part.matrices
    return False


def _is_of_pairs(tile: Tile) -> bool:
    """Tell whether entries are computed from something of two sides."""
    kinds = {type(part) for part in everything(tile)}
    return bool(kinds & {Dot, Mixed}) or {OfQueries, OfKeys} <= kinds


def _has_function(tile: Tile, reading: Reading) -> bool:
    """Tell whether entries are a function of scores, of which every one is of a query and a key.

    Queries and keys are both rows or both columns of what they come from: the inner products of X W
    are those of tokens and features, a layer of a network.
    """
    parts = list(everything(tile))
    layers = any(
        isinstance(part, Dot)
        and _token_axis(reading.operands[part.query], part.query_axis)
        != _token_axis(reading.operands[part.key], part.key_axis)
        for part in parts
    )
    if layers and not any(isinstance(part, Positions) for part in parts):
        return False
    return any(isinstance(part, Applied | Product) and _is_of_pairs(part) for part in parts)


def _token_axis(node: Node, axis: int) -> int:
    """Return along which axis of an input the tokens lie that lie along this one of a node."""
    while node.matrices:
        if isinstance(node, InBlocks):
            node = node.product()
        match node:
            case Transposed():
                node, axis = node.matrices[0], 1 - axis
            case MatrixProduct():
                node = node.matrices[-axis]
            case _ if isinstance(node, (*ENTRYWISE, Distributed)):
                node = node.matrices[0]
            case _:
                break
    return axis
