"""Additive masks: taken up by a softmax or an exp, and passed on by positive scalars.

A side that ends with an additive mask has no value by itself; such a law is about scores that some
softmax or exp takes up, and is tested under one.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from symattn.nodes.algebra import Hadamard, MatrixProduct, MatrixSum, Quotient, hadamard
from symattn.nodes.along_axis import Softmax, softmax
from symattn.nodes.core import Node
from symattn.nodes.elementwise import Elementwise, exp
from symattn.nodes.given import carried
from symattn.nodes.indicators import AdditiveMask, Indicator, additive_mask, indicator
from symattn.nodes.known_masks import causal
from symattn.nodes.masks import together
from symattn.proof.laws.law import Law, laws_of
from symattn.proof.laws.samples import A2, A, c, p, q

ADDITIVE_MASKS: dict[str, Law] = {}
_law = laws_of(ADDITIVE_MASKS)

# With fewer keys than queries it leaves the first queries without any.
_LAST = causal("bottom_right")
_ADDED = additive_mask(_LAST, p, q, axis=0)


@_law(
    "additive mask is selection",
    softmax(A + _ADDED, axis=0),
    softmax(A, axis=0, mask=_LAST),
    mistake=(
        softmax(A + _ADDED, axis=0),
        hadamard(softmax(A, axis=0), indicator(_LAST, p, q, axis=0)),
    ),
    reason="a score of −∞ has the weight 0, and takes no part in the sum",
    sound="an addend of 0 or −∞ under a softmax stands for the condition [g], by definition",
    ends="an additive mask disappears",
)
def _selection(node: Node) -> Node | None:
    if not isinstance(node, Softmax):
        return None
    finite, masks = _terms(node.matrices[0])
    if finite is None or not masks:
        return None
    own = () if node.mask is None else (node.mask,)
    mask = together((*own, *(added.mask for added in masks)))
    return Softmax(finite, node.axis, mask, *carried(node.given))


@_law(
    "exp of an additive mask is selection",
    exp(A + _ADDED),
    hadamard(indicator(_LAST, p, q, axis=0), exp(A)),
    mistake=(exp(A + _ADDED), exp(A)),
    reason="the exponential of −∞ is 0, and that of 0 is 1",
    sound="an addend of 0 or −∞ under an exp stands for the factor [g], by definition",
    ends="an additive mask disappears",
)
def _exponential(node: Node) -> Node | None:
    if not isinstance(node, Elementwise):
        return None
    finite, masks = _terms(node.matrices[0])
    if finite is None or not masks:
        return None
    allowed = (Indicator(*mask.args) for mask in masks)
    return Hadamard(*allowed, Elementwise(node.function, finite), *carried(node.given))


@_law(
    "positive scale passes an additive mask",
    (A + _ADDED) / c,
    A / c + _ADDED,
    mistake=((A + A2) / c, A / c + A2),
    reason="scaled by what is positive, 0 stays 0 and −∞ stays −∞",
    sound="c · 0 = 0 and c · (−∞) = −∞ for c > 0, which every scale of an additive mask is",
    ends="what stands under a scale is smaller",
)
def _scaled(node: Node) -> Node | None:
    if not isinstance(node, Quotient | MatrixProduct) or not node.has_minus_infinity:
        return None
    finite, masks = _terms(node.matrices[0])
    if not masks:
        return None
    terms = masks if finite is None else (node.rebuilt(lambda _: finite), *masks)
    return terms[0] if len(terms) == 1 else MatrixSum(*terms, *carried(node.given))


def _terms(node: Node) -> tuple[Node | None, tuple[AdditiveMask, ...]]:
    """Return the additive masks in a sum, after the sum of its other terms, None without any."""
    terms = node.matrices if isinstance(node, MatrixSum) else (node,)
    masks = tuple(term for term in terms if isinstance(term, AdditiveMask))
    others = [term for term in terms if not isinstance(term, AdditiveMask)]
    return (reduce(add, others) if others else None), masks
