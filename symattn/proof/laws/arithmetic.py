"""Sums, products and scalars: gathered first, distributed only where that is needed.

Two themes.  `GATHERING` removes parentheses and moves signs and scalars to the front, and nothing
gets longer.  `DISTRIBUTING` multiplies sums out and sorts terms, which brings two sides to one form
more often and makes every line longer; so it is tried last.
"""

from __future__ import annotations

import sympy

from symattn.nodes.algebra import Hadamard, MatrixProduct, MatrixSum, Negated, Quotient, hadamard
from symattn.nodes.core import Node
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import A2, A3, B2, A, B, C, M, N, c, e

GATHERING: dict[str, Law] = {}
DISTRIBUTING: dict[str, Law] = {}
_law = laws_of(GATHERING)
_spreading_law = laws_of(DISTRIBUTING)


@_law(
    "associativity of the product",
    A @ (B @ C),
    A @ B @ C,
    mistake=(M @ (N @ M), N @ M @ M),
    reason="a product of matrices does not depend on its parentheses",
    sound="Σ_c Σ_d A[i, c] B[c, d] C[d, j] in either order of summation",
    ends="a pair of parentheses disappears",
)
def _associativity(node: Node) -> Node | None:
    return _spliced(node, MatrixProduct)


@_law(
    "associativity of the sum",
    A + (A2 - A3),
    A + A2 - A3,
    mistake=(A - (A2 - A3), A - A2 - A3),
    reason="a sum does not depend on its parentheses",
    sound="the same terms at every place",
    ends="a pair of parentheses disappears",
)
def _associativity_of_the_sum(node: Node) -> Node | None:
    return _spliced(node, MatrixSum)


@_law(
    "associativity of the entrywise product",
    hadamard(A, hadamard(A2, A3)),
    hadamard(A, A2, A3),
    mistake=(hadamard(A, hadamard(A2, A3)), hadamard(A, A2 + A3)),
    reason="an entrywise product does not depend on its parentheses",
    sound="the same factors at every place",
    ends="a pair of parentheses disappears",
)
def _associativity_of_the_entrywise_product(node: Node) -> Node | None:
    return _spliced(node, Hadamard)


def _spliced(node: Node, kind: type[Node]) -> Node | None:
    """Return the operation with its first operand of the same operation spliced in."""
    if not isinstance(node, kind):
        return None
    for k, operand in enumerate(node.operands):
        if isinstance(operand, kind):
            return kind(*node.operands[:k], *operand.operands, *node.operands[k + 1 :])
    return None


@_law(
    "double negation",
    Negated(-A),
    A,
    mistake=(Negated(-A), -A),
    reason="two minus signs cancel",
    sound="-(-x) = x at every place",
    ends="two minus signs disappear",
)
def _double_negation(node: Node) -> Node | None:
    if isinstance(node, Negated) and isinstance(node.matrices[0], Negated):
        return node.matrices[0].matrices[0]
    return None


@_law(
    "negation of a sum",
    -(A - A2),
    -A + A2,
    mistake=(-(A - A2), -A - A2),
    reason="a minus sign in front of a sum changes the sign of every term",
    sound="-(x + y) = -x - y at every place",
    ends="what stands under the minus sign is smaller",
)
def _negation_of_a_sum(node: Node) -> Node | None:
    if not isinstance(node, Negated) or not isinstance(node.matrices[0], MatrixSum):
        return None
    terms = node.matrices[0].matrices
    return MatrixSum(*(t.matrices[0] if isinstance(t, Negated) else Negated(t) for t in terms))


@_law(
    "minus sign in front",
    A @ (-B),
    -(A @ B),
    mistake=(A @ (-B), A @ B),
    reason="a minus sign may stand in front of a product",
    sound="x · (-y) = -(x · y), and sums of negated terms are negated",
    ends="a minus sign moves outwards",
)
def _minus_in_front(node: Node) -> Node | None:
    if not isinstance(node, MatrixProduct | Hadamard):
        return None
    for k, operand in enumerate(node.operands):
        if isinstance(operand, Negated):
            rest = node.operands[k + 1 :]
            return Negated(type(node)(*node.operands[:k], operand.matrices[0], *rest))
    return None


@_law(
    "quotient as a scalar factor",
    A / c,
    (1 / c) * A,
    mistake=(A / c, c * A),
    reason="dividing by a scalar is multiplying by its reciprocal",
    sound="x / c = (1/c) · x at every place",
    ends="a quotient disappears",
    condition="the denominator is not 0, as on the other side",
)
def _quotient(node: Node) -> Node | None:
    if not isinstance(node, Quotient):
        return None
    top, bottom = node.operands
    return MatrixProduct(1 / bottom, top)  # pyright: ignore[reportOperatorIssue]


@_law(
    "scalars in front",
    MatrixProduct(c, A, MatrixProduct(e, B)),
    MatrixProduct(c * e, A, B),
    mistake=(MatrixProduct(c, A, MatrixProduct(e, B)), MatrixProduct(c, A, B)),
    reason="scalars commute with everything, so one of them in front says it all",
    sound="numbers commute, and a scalar may leave a sum",
    ends="fewer scalars stand behind a matrix or beside each other",
)
def _scalars_in_front(node: Node) -> Node | None:
    if not isinstance(node, MatrixProduct):
        return None
    factors: list[sympy.Basic] = []
    for operand in node.operands:
        # A parenthesised product with scalars gives up its parentheses with them.
        inner = operand.operands if isinstance(operand, MatrixProduct) else ()
        scaled = not all(isinstance(factor, Node) for factor in inner)
        factors.extend(inner if scaled else (operand,))
    if all(isinstance(factor, Node) for factor in factors):
        return None
    matrices = [factor for factor in factors if isinstance(factor, Node)]
    scalars = [factor for factor in factors if not isinstance(factor, Node)]
    scalar = sympy.Mul(*scalars)  # pyright: ignore[reportArgumentType]
    gathered = product(*matrices) if scalar == 1 else product(scalar, *matrices)
    return None if gathered == node else gathered


@_spreading_law(
    "product distributes over a sum",
    A @ (B + B2),
    A @ B + A @ B2,
    mistake=(A @ (B + B2), A @ B + A @ B),
    reason="a factor in front of a sum multiplies every term",
    sound="Σ_c A[i, c] (B[c, j] + C[c, j]), term by term",
    ends="a product of a sum becomes a sum of products with shorter factors",
)
def _distributes(node: Node) -> Node | None:
    return _multiplied_out(node) if not _begins_with_a_sum(node) else None


@_spreading_law(
    "sum times a factor",
    (A + A2) @ B,
    A @ B + A2 @ B,
    mistake=((M + N) @ M, M @ M + M @ N),
    reason="a factor behind a sum multiplies every term",
    sound="Σ_c (A[i, c] + B[i, c]) C[c, j], term by term",
    ends="a product of a sum becomes a sum of products with shorter factors",
)
def _sum_times_a_factor(node: Node) -> Node | None:
    return _multiplied_out(node) if _begins_with_a_sum(node) else None


def _begins_with_a_sum(node: Node) -> bool:
    return isinstance(node, MatrixProduct) and isinstance(node.operands[0], MatrixSum)


def _multiplied_out(node: Node) -> Node | None:
    if not isinstance(node, MatrixProduct):
        return None
    for k, operand in enumerate(node.operands):
        if isinstance(operand, MatrixSum):
            before, after = node.operands[:k], node.operands[k + 1 :]
            return MatrixSum(
                *(
                    Negated(product(*before, term.matrices[0], *after))
                    if isinstance(term, Negated)
                    else product(*before, term, *after)
                    for term in operand.matrices
                )
            )
    return None


@_spreading_law(
    "order of terms",
    A2 + A,
    A + A2,
    mistake=(A2 - A, A - A2),
    reason="the order of terms does not matter",
    sound="addition of numbers commutes",
    ends="the terms are sorted",
)
def _order_of_terms(node: Node) -> Node | None:
    return _sorted(node, MatrixSum)


@_spreading_law(
    "order of entrywise factors",
    hadamard(A2, A),
    hadamard(A, A2),
    mistake=(hadamard(A2, A), hadamard(A, A)),
    reason="the order of entrywise factors does not matter",
    sound="multiplication of numbers commutes",
    ends="the factors are sorted",
)
def _order_of_entrywise_factors(node: Node) -> Node | None:
    return _sorted(node, Hadamard)


def _sorted(node: Node, kind: type[Node]) -> Node | None:
    if not isinstance(node, kind):
        return None
    ordered = tuple(sorted(node.matrices, key=_sorting_key))
    return None if ordered == node.matrices else kind(*ordered)


def _sorting_key(term: Node) -> tuple[str, bool]:
    negated = isinstance(term, Negated)
    return str(term.matrices[0] if negated else term), negated
