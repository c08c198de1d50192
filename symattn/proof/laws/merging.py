"""A softmax-weighted sum in blocks of keys: sums of blocks merge, whatever was subtracted in each.

It is what allows code to go through keys block by block, with any finite number taken off the
scores of a block so that no exponential overflows, and never to hold all scores at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import cast

from symattn.nodes.algebra import Hadamard, MatrixProduct, MatrixSum, Negated, hadamard
from symattn.nodes.along_axis import softmax
from symattn.nodes.blocks import concat
from symattn.nodes.core import Node
from symattn.nodes.elementwise import Elementwise, exp, reciprocal
from symattn.nodes.inputs import Ones, matrix, ones, vector
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import p, q, r, s

MERGING: dict[str, Law] = {}
_law = laws_of(MERGING)

Block = tuple[Node, Node, Node]
"""Values, scores, and the row of shifts of a block."""

_X, _Y = matrix("X", r, p), matrix("Y", r, s)
_S, _T = matrix("S", p, q), matrix("T", s, q)
_BLOCKS = ((_X, _S, vector("c", q).T), (_Y, _T, vector("c'", q).T))


def _merged(blocks: Sequence[Block], *, by_shifts: bool = True) -> Node:
    """Return the sums of the blocks brought to one shift, over their weights brought to it."""
    sums: list[Node] = []
    totals: list[Node] = []
    rows = blocks[0][0].sizes[0]
    for values, scores, shift in blocks:
        keys = scores.sizes[0]
        weights = exp(scores - ones(keys, 1) @ shift)
        one, total = values @ weights, ones(1, keys) @ weights
        sums.append(hadamard(ones(rows, 1) @ exp(shift), one) if by_shifts else one)
        totals.append(hadamard(exp(shift), total) if by_shifts else total)
    over = ones(rows, 1) @ reciprocal(reduce(Node.__add__, totals))
    return hadamard(reduce(Node.__add__, sums), over)


def _whole(blocks: Sequence[Block]) -> Node:
    """Return the weighted sum over the keys of all blocks."""
    values, scores, _ = zip(*blocks, strict=True)
    return concat(*values, axis=1) @ softmax(concat(*scores, axis=0), axis=0)


@_law(
    "blocks merge for any finite shift",
    _merged(_BLOCKS),
    _whole(_BLOCKS),
    mistake=(_merged(_BLOCKS, by_shifts=False), _whole(_BLOCKS)),
    reason="e^c times Σ_j e^(s_j - c) v_j is Σ_j e^(s_j) v_j, for the sum and for its weights",
    sound="e^c e^(s - c) = e^s for every finite c, and a sum over all keys is one over its blocks",
    ends="exponentials and a reciprocal disappear",
    condition="the axis is not empty",
)
def _merge(node: Node) -> Node | None:
    if not isinstance(node, Hadamard) or not isinstance(node.matrices[0], MatrixSum):
        return None
    blocks = [_block(term) for term in node.matrices[0].matrices]
    if None in blocks:
        return None
    found = cast(list[Block], blocks)
    return _whole(found) if _merged(found) == node else None


def _block(term: Node) -> Block | None:
    """Return what a term e^c ∘ V e^(S - c) is made of, or None for any other."""
    if not isinstance(term, Hadamard) or len(term.matrices) != 2:
        return None
    weighted = term.matrices[1]
    if not isinstance(weighted, MatrixProduct) or len(weighted.operands) < 2:
        return None
    *before, weights = weighted.operands
    if not isinstance(weights, Elementwise) or not isinstance(weights.matrices[0], MatrixSum):
        return None
    *scores, last = weights.matrices[0].matrices
    repeated = last.matrices[0] if isinstance(last, Negated) else last
    if not isinstance(repeated, MatrixProduct) or not isinstance(repeated.operands[0], Ones):
        return None
    if not any(isinstance(operand, Node) for operand in before):
        return None
    shift = product(*repeated.operands[1:])
    return product(*before), reduce(Node.__add__, scores), shift
