"""Heads: their transposes, blocks of a merged axis, and a product with all heads as a sum."""

from __future__ import annotations

from itertools import pairwise as pairwise_of

from symattn.nodes.algebra import MatrixProduct, MatrixSum, Negated, Transposed
from symattn.nodes.core import Node
from symattn.nodes.families import family
from symattn.nodes.indices import index
from symattn.nodes.inputs import matrix
from symattn.nodes.over_heads import Head, Heads, SumOver, head, heads, sum_over
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import B, p, q, r
from symattn.proof.laws.transposes import TRANSPOSES

HEADS: dict[str, Law] = {}
_transpose = laws_of(TRANSPOSES)
_law = laws_of(HEADS)

_h = "h"
_i = index("i", _h)
_F = family("F", _h, p, q)[_i]
_S = family("S", _h, p, p)[_i]
_W = matrix("W", f"{_h}*{q}", r)
_U = matrix("U", f"{_h}*{p}", q)
_U2 = matrix("U'", f"{_h}*{p}", q)
_D = matrix("D", f"{_h}*{p}", f"{_h}*{p}")


@_transpose(
    "transpose of stacked heads",
    heads(_F, _i, axis=0).T,
    heads(_F.T, _i, axis=1),
    mistake=(heads(_S, _i, axis=0).T, heads(_S, _i, axis=1)),
    reason="heads that stood one on top of the other stand side by side after transposing",
    sound="E_i[r, j] at the row (i, r), read at (j, (i, r))",
    ends="what stands under the transpose is smaller",
)
def _of_stacked_heads(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    return inner.along(inner.matrices[0].T, 1 - inner.axis) if isinstance(inner, Heads) else None


@_transpose(
    "transpose of a sum over heads",
    sum_over(_F, _i).T,
    sum_over(_F.T, _i),
    mistake=(sum_over(_S, _i).T, sum_over(_S, _i)),
    reason="a sum is transposed term by term",
    sound="Σ_i E_i[r, j] read at (j, r)",
    ends="what stands under the transpose is smaller",
)
def _of_a_sum_over_heads(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    return inner.of(inner.matrices[0].T) if isinstance(inner, SumOver) else None


@_transpose(
    "transpose of a block",
    head(_U, _i, axis=0).T,
    head(_U.T, _i, axis=1),
    mistake=(head(_D, _i, axis=0).T, head(_D, _i, axis=1)),
    reason="a block of rows is a block of columns after transposing",
    sound="X[(i, r), j] read at (j, r)",
    ends="what stands under the transpose is smaller",
)
def _of_a_block(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    return inner.along(inner.matrices[0].T, 1 - inner.axis) if isinstance(inner, Head) else None


@_law(
    "block of a product",
    head(_U @ B, _i, axis=0),
    head(_U, _i, axis=0) @ B,
    mistake=(head(_D @ _D, _i, axis=0), head(_D, _i, axis=1).T @ _D),
    reason="rows of a product come from the rows of its first factor, columns from its last",
    sound="Σ_c A[(i, r), c] B[c, j]: the place of the block is read by one factor alone",
    ends="what the block is taken of is smaller",
)
def _block_of_a_product(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Head) else None
    if not isinstance(inner, MatrixProduct) or not isinstance(node, Head):
        return None
    factors = list(inner.operands)
    at = [k for k, factor in enumerate(factors) if isinstance(factor, Node)][-node.axis]
    factors[at] = node.of(inner.matrices[-node.axis])
    return MatrixProduct(*factors)


@_law(
    "block of a sum",
    head(_U - _U2, _i, axis=0),
    head(_U, _i, axis=0) - head(_U2, _i, axis=0),
    mistake=(head(_U - _U2, _i, axis=0), head(_U, _i, axis=0) + head(_U2, _i, axis=0)),
    reason="the block of a sum is the sum of the blocks",
    sound="A[(i, r), j] + B[(i, r), j]",
    ends="what the block is taken of is smaller",
)
def _block_of_a_sum(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Head) else None
    if not isinstance(inner, MatrixSum) or not isinstance(node, Head):
        return None
    terms = (
        Negated(node.of(term.matrices[0])) if isinstance(term, Negated) else node.of(term)
        for term in inner.matrices
    )
    return MatrixSum(*terms)


@_law(
    "block of stacked heads",
    head(heads(_F, _i, axis=0), _i, axis=0),
    _F,
    mistake=(head(heads(_S, _i, axis=0), _i, axis=0), _S.T),
    reason="block i of the stacked heads is head i",
    sound="E_i[r, j] at the row (i, r)",
    ends="two operations disappear",
)
def _block_of_stacked_heads(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Head) else None
    if not isinstance(inner, Heads) or not isinstance(node, Head):
        return None
    alike = (inner.axis, inner.index) == (node.axis, node.index)
    return inner.matrices[0] if alike else None


@_law(
    "product with stacked heads",
    heads(_F, _i, axis=1) @ _W,
    sum_over(_F @ head(_W, _i, axis=0), _i),
    mistake=(heads(_S, _i, axis=1) @ _U, sum_over(_S.T @ head(_U, _i, axis=0), _i)),
    reason="a sum over a merged axis is a sum over the heads of the sums over their features",
    sound="Σ over (i, c) is Σ_i Σ_c; the other factor does not depend on the index",
    ends="stacked heads disappear",
)
def _product_with_heads(node: Node) -> Node | None:
    if not isinstance(node, MatrixProduct):
        return None
    factors = node.operands
    for k, (left, right) in enumerate(pairwise_of(factors)):
        if not (isinstance(left, Node) and isinstance(right, Node)):
            continue
        terms: Node | None = None
        if isinstance(left, Heads) and left.axis == 1 and left.index not in right.indices:
            terms = left.matrices[0] @ Head(right, left.index, 0)
            terms = SumOver(terms, left.index)
        elif isinstance(right, Heads) and right.axis == 0 and right.index not in left.indices:
            terms = Head(left, right.index, 1) @ right.matrices[0]
            terms = SumOver(terms, right.index)
        if terms is not None:
            return product(*factors[:k], terms, *factors[k + 2 :])
    return None
