"""The identity matrix, which a product does not notice."""

from __future__ import annotations

from symattn.nodes.algebra import MatrixProduct
from symattn.nodes.core import Node
from symattn.nodes.inputs import IdentityMatrix, identity, ones
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import A, I, M, p, q

IDENTITIES: dict[str, Law] = {}
_law = laws_of(IDENTITIES)


@_law(
    "identity in front",
    I @ A,
    A,
    mistake=(ones(p, p) @ A, A),
    reason="the identity picks each row as it is",
    sound="Σ_c [i = c] X[c, j] = X[i, j]",
    ends="a factor disappears",
)
def _in_front(node: Node) -> Node | None:
    return _without_identity(node, last=False)


@_law(
    "identity behind",
    A @ identity(q),
    A,
    mistake=(M @ I, M.T),
    reason="the identity picks each column as it is",
    sound="Σ_c X[i, c] [c = j] = X[i, j]",
    ends="a factor disappears",
)
def _behind(node: Node) -> Node | None:
    return _without_identity(node, last=True)


def _without_identity(node: Node, *, last: bool) -> Node | None:
    """Return a product without an identity that is, or is not, its last matrix."""
    if not isinstance(node, MatrixProduct) or len(node.matrices) < 2:
        return None
    factors = node.operands
    final = max(k for k, factor in enumerate(factors) if isinstance(factor, Node))
    for k, factor in enumerate(factors):
        if isinstance(factor, IdentityMatrix) and (k == final) is last:
            return product(*factors[:k], *factors[k + 1 :])
    return None
