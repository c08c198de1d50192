"""Transposes, pushed inwards until only named matrices carry them.

Entry by entry a transpose swaps two letters, so each law here is the same entry read twice.  Each
makes what stands under a transpose smaller; that is why pushing them inwards comes to an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import sympy

from symattn.nodes.algebra import (
    Hadamard,
    MatrixProduct,
    MatrixSum,
    Negated,
    Quotient,
    Transposed,
    hadamard,
)
from symattn.nodes.along_axis import MaxAlong, Softmax, max as largest, softmax
from symattn.nodes.core import Node
from symattn.nodes.elementwise import Elementwise, tanh
from symattn.nodes.indicators import AdditiveMask, Indicator, additive_mask, indicator
from symattn.nodes.inputs import IdentityMatrix, Ones, ones
from symattn.nodes.known_masks import causal
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import A2, A, B, I, M, N, c, p, q

TRANSPOSES: dict[str, Law] = {}
_law = laws_of(TRANSPOSES)

_Inner = TypeVar("_Inner", bound=Node)

_SMALLER = "what stands under the transpose is smaller"


def _under(node: Node, kind: type[_Inner]) -> _Inner | None:
    """Return what is transposed, if the node is a transpose of such an operation."""
    inner = node.matrices[0] if isinstance(node, Transposed) else None
    return inner if isinstance(inner, kind) else None


@_law(
    "transpose of a product",
    (c * A @ B).T,
    c * B.T @ A.T,
    mistake=((M @ N).T, M.T @ N.T),
    reason="transposing a product transposes its factors and reverses their order",
    sound="Σ_c A[i, c] B[c, j] read at (j, i), and the product of numbers commutes",
    ends=_SMALLER,
)
def _of_a_product(node: Node) -> Node | None:
    inner = _under(node, MatrixProduct)
    if inner is None:
        return None
    factors = _grouped(inner.operands)
    reversed_: Iterator[Node] = iter([f.T for f in reversed(factors) if isinstance(f, Node)])
    # Scalars stay where they stand between the matrices.
    return MatrixProduct(*(next(reversed_) if isinstance(f, Node) else f for f in factors))


def _grouped(factors: Sequence[sympy.Basic]) -> Sequence[sympy.Basic]:
    """Return the factors, with the matrices before the first operation as a group of their own.

    ``(X W)(X U)ᵀ`` and ``(W X) softmax(S)`` are stored without their first parentheses, as every
    product is that is written from the left; in their transposes ``(X U)ᵀᵀ (X W)ᵀ`` and
    ``softmax(S)ᵀ (W X)ᵀ`` the group can be seen again.
    """
    start = next(k for k, factor in enumerate(factors) if isinstance(factor, Node))
    for k in range(start + 1, len(factors)):
        factor = factors[k]
        base = factor.matrices[0] if isinstance(factor, Transposed) else factor
        if isinstance(base, Node) and base.matrices:
            group = product(*factors[start:k])
            return (*factors[:start], group, *factors[k:])
    return factors


@_law(
    "transpose of a transpose",
    A.T.T,
    A,
    mistake=(M.T.T, M.T),
    reason="transposing twice changes nothing",
    sound="X[i, j] read at (j, i), twice",
    ends="two transposes disappear",
)
def _of_a_transpose(node: Node) -> Node | None:
    inner = _under(node, Transposed)
    return None if inner is None else inner.matrices[0]


@_law(
    "transpose of a sum",
    (A - A2).T,
    A.T - A2.T,
    mistake=((M - N).T, M.T - N),
    reason="a sum is transposed term by term",
    sound="A[i, j] + B[i, j] read at (j, i)",
    ends=_SMALLER,
)
def _of_a_sum(node: Node) -> Node | None:
    inner = _under(node, MatrixSum)
    if inner is None:
        return None
    # The minus sign of a difference stays in front of its term.
    terms = (
        Negated(term.matrices[0].T) if isinstance(term, Negated) else term.T
        for term in inner.matrices
    )
    return MatrixSum(*terms)


@_law(
    "transpose of a negation",
    (-A).T,
    -A.T,
    mistake=((-M).T, M.T),
    reason="a minus sign does not depend on the place",
    sound="-X[i, j] read at (j, i)",
    ends=_SMALLER,
)
def _of_a_negation(node: Node) -> Node | None:
    inner = _under(node, Negated)
    return None if inner is None else Negated(inner.matrices[0].T)


@_law(
    "transpose of a quotient",
    (A / c).T,
    A.T / c,
    mistake=((M / c).T, M / c),
    reason="a scalar does not depend on the place",
    sound="X[i, j]/c read at (j, i)",
    ends=_SMALLER,
    condition="the denominator is not 0, as on the other side",
)
def _of_a_quotient(node: Node) -> Node | None:
    inner = _under(node, Quotient)
    if inner is None:
        return None
    top, bottom = inner.operands
    return Quotient(inner.matrices[0].T, bottom) if top is inner.matrices[0] else None


@_law(
    "transpose of an entrywise product",
    hadamard(A, A2).T,
    hadamard(A.T, A2.T),
    mistake=(hadamard(M, N).T, hadamard(M.T, N)),
    reason="an entrywise product is transposed factor by factor",
    sound="A[i, j] B[i, j] read at (j, i)",
    ends=_SMALLER,
)
def _of_an_entrywise_product(node: Node) -> Node | None:
    inner = _under(node, Hadamard)
    return None if inner is None else Hadamard(*(factor.T for factor in inner.matrices))


@_law(
    "transpose of a function",
    tanh(A).T,
    tanh(A.T),
    mistake=(tanh(M).T, tanh(M)),
    reason="a function of every entry does not depend on the place",
    sound="f(X[i, j]) read at (j, i)",
    ends=_SMALLER,
)
def _of_a_function(node: Node) -> Node | None:
    inner = _under(node, Elementwise)
    return None if inner is None else inner.rebuilt(lambda operand: operand.T)


@_law(
    "transpose of softmax",
    softmax(A, axis=0).T,
    softmax(A.T, axis=1),
    mistake=(softmax(A, axis=0).T, softmax(A.T, axis=0)),
    reason="what ran down each column runs along each row after transposing",
    sound="softmax_t(X[t, j])[i] read at (j, i)",
    ends=_SMALLER,
)
def _of_softmax(node: Node) -> Node | None:
    inner = _under(node, Softmax)
    return None if inner is None else inner.along(inner.matrices[0].T, 1 - inner.axis)


@_law(
    "transpose of a maximum",
    largest(A, axis=0).T,
    largest(A.T, axis=1),
    mistake=(largest(M, axis=0).T, largest(M, axis=1)),
    reason="what ran down each column runs along each row after transposing",
    sound="max_t X[t, j] read at (j, ·)",
    ends=_SMALLER,
)
def _of_a_maximum(node: Node) -> Node | None:
    inner = _under(node, MaxAlong)
    return None if inner is None else MaxAlong(inner.matrices[0].T, 1 - inner.axis)


@_law(
    "transpose of ones",
    ones(p, q).T,
    ones(q, p),
    mistake=(ones(p, p).T, I),
    reason="every entry is 1",
    sound="1 at every place",
    ends="a transpose disappears",
)
def _of_ones(node: Node) -> Node | None:
    inner = _under(node, Ones)
    return None if inner is None else Ones(inner.sizes[1], inner.sizes[0])


@_law(
    "transpose of an identity",
    I.T,
    I,
    mistake=(I.T, ones(p, p)),
    reason="[i = j] does not change when i and j are swapped",
    sound="[i = j] read at (j, i)",
    ends="a transpose disappears",
)
def _of_an_identity(node: Node) -> Node | None:
    return _under(node, IdentityMatrix)


@_law(
    "transpose of the matrix of a mask",
    indicator(causal("top_left"), p, q, axis=0).T,
    indicator(causal("top_left"), q, p, axis=1),
    mistake=(
        indicator(causal(), p, p, axis=0).T,
        indicator(causal(), p, p, axis=0),
    ),
    reason="a mask knows queries and keys, which swap places",
    sound="[the query may attend to the key] read at (key, query)",
    ends="a transpose disappears",
)
def _of_an_indicator(node: Node) -> Node | None:
    inner = _under(node, Indicator)
    return None if inner is None else inner.along(1 - inner.axis)


@_law(
    "transpose of an additive mask",
    additive_mask(causal("top_left"), p, q, axis=0).T,
    additive_mask(causal("top_left"), q, p, axis=1),
    mistake=(
        additive_mask(causal(), p, p, axis=0).T,
        additive_mask(causal(), p, p, axis=0),
    ),
    reason="a mask knows queries and keys, which swap places",
    sound="0 or −∞, as the query may attend to the key or not, read at (key, query)",
    ends="a transpose disappears",
)
def _of_an_additive_mask(node: Node) -> Node | None:
    inner = _under(node, AdditiveMask)
    return None if inner is None else inner.along(1 - inner.axis)
