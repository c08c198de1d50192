"""Direct sums, scores of pairs, biases by position: their transposes, and a product of blocks."""

from __future__ import annotations

from itertools import pairwise as pairwise_of

from symattn.nodes.algebra import MatrixProduct, MatrixSum, Transposed, hadamard
from symattn.nodes.blocks import Concat, concat
from symattn.nodes.core import Node
from symattn.nodes.elementwise import tanh
from symattn.nodes.pairs import Pairwise, pairwise
from symattn.nodes.positions import PositionBias, positional
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import A2, A, B, M, N, c, p, q, x, y
from symattn.proof.laws.transposes import TRANSPOSES

BLOCKS: dict[str, Law] = {}
_transpose = laws_of(TRANSPOSES)
_law = laws_of(BLOCKS)


def _score(query: Node, key: Node) -> Node:
    return hadamard(x.T @ tanh(query), y.T @ key)


def _square_score(query: Node, key: Node) -> Node:
    return x.T @ tanh(query + 2 * key)


@_transpose(
    "transpose of a concatenation",
    concat(A, A2, axis=0).T,
    concat(A.T, A2.T, axis=1),
    mistake=(concat(M, N, axis=0).T, concat(N.T, M.T, axis=1)),
    reason="what stood one on top of the other stands side by side after transposing",
    sound="a block of X[i, j] read at (j, i), the blocks in the same order",
    ends="what stands under the transpose is smaller",
)
def _of_a_concatenation(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    if not isinstance(inner, Concat):
        return None
    return Concat(1 - inner.axis, *(part.T for part in inner.matrices))


@_transpose(
    "transpose of the scores of pairs",
    pairwise(_score, A, B).T,
    pairwise(_score, A.T, B.T, layout="row"),
    mistake=(pairwise(_square_score, M, N).T, pairwise(_square_score, M, N, layout="row")),
    reason="a pair has one score, whether its query stands in a row or in a column",
    sound="s(q, k) read at (query, key) in place of (key, query), each token where it was",
    ends="what stands under the transpose is smaller",
)
def _of_pairs(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    if not isinstance(inner, Pairwise):
        return None
    query, key = inner.data
    return Pairwise(inner.body, *inner.vectors, query.T, key.T, 1 - inner.axis)


@_transpose(
    "transpose of a bias by position",
    positional(lambda i, j: c * i - j, q, p).T,
    positional(lambda i, j: c * i - j, q, p, layout="row"),
    mistake=(positional(lambda i, j: i - j, p, p).T, positional(lambda i, j: i - j, p, p)),
    reason="a pair has one bias, whether its query stands in a row or in a column",
    sound="b(i, j) read at (query, key) in place of (key, query)",
    ends="a transpose disappears",
)
def _of_positions(node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    return inner.turned() if isinstance(inner, PositionBias) else None


@_law(
    "product of concatenations",
    concat(A, M, axis=1) @ concat(B, A @ B, axis=0),
    A @ B + M @ (A @ B),
    mistake=(concat(M, N, axis=1) @ concat(A, A2, axis=0), M @ A2 + N @ A),
    reason="a sum over a direct sum is the sum over each of its parts",
    sound="Σ over a + b is Σ over a plus Σ over b, where both sides are cut at the same place",
    ends="two concatenations disappear",
)
def _of_concatenations(node: Node) -> Node | None:
    if not isinstance(node, MatrixProduct):
        return None
    factors = node.operands
    for k, (left, right) in enumerate(pairwise_of(factors)):
        if not (isinstance(left, Concat) and isinstance(right, Concat)):
            continue
        widths = [part.sizes[1] for part in left.matrices]
        heights = [part.sizes[0] for part in right.matrices]
        if (left.axis, right.axis) == (1, 0) and widths == heights:
            pairs = zip(left.matrices, right.matrices, strict=True)
            terms = MatrixSum(*(MatrixProduct(*pair) for pair in pairs))
            return product(*factors[:k], terms, *factors[k + 2 :])
    return None
