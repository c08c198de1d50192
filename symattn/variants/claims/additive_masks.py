"""Claims about masks of 0 and −∞ that are added to scores, as papers write them."""

from __future__ import annotations

from collections.abc import Iterator

from symattn.nodes import AdditiveMask, Mask, additive_mask, exp, hadamard, sqrt
from symattn.variants.claims.claim import Claim
from symattn.variants.claims.written import MASKS, Sides, Written, d_k, in_both, m, n


def _added(at: Written, mask: Mask) -> AdditiveMask:
    """Return the mask as an addend of scores of m keys and n queries."""
    return additive_mask(mask, *at.layout.shape(m, n), axis=at.layout.axis)


def _is_selection(at: Written) -> Iterator[Sides]:
    S = at.scores()
    for label, mask in MASKS.items():
        yield label, at.softmax(S + _added(at, mask)), at.softmax(S, mask)


def _exponentials(at: Written) -> Iterator[Sides]:
    S = at.scores()
    for label, mask in MASKS.items():
        yield label, exp(S + _added(at, mask)), hadamard(at.allowed(mask, m, n), exp(S))


def _scaled(at: Written) -> Iterator[Sides]:
    Q, K, _ = at.operands()
    S = at.dots(Q, K)
    for label, mask in MASKS.items():
        M = _added(at, mask)
        yield label, at.softmax((S + M) / sqrt(d_k)), at.softmax(S / sqrt(d_k) + M)


CLAIMS = (
    Claim(
        name="an_additive_mask_is_selection",
        title="Adding 0 or −∞ to the scores selects the keys",
        statement=(
            "Softmax of scores plus a mask of 0 and −∞ is the softmax over the keys that the mask "
            "allows; a query that may attend to none gets weights of zero."
        ),
        explanation="e^(−∞) is 0, so that a masked key takes no part in the sum.",
        write=in_both(_is_selection),
    ),
    Claim(
        name="exp_of_an_additive_mask_is_selection",
        title="Exponentials of scores plus 0 or −∞ are selected",
        statement="exp(S + M) is exp(S) where the mask allows, and 0 elsewhere.",
        explanation="e^(s + 0) is e^s, and e^(−∞) is 0.",
        write=in_both(_exponentials),
    ),
    Claim(
        name="an_additive_mask_may_be_scaled",
        title="A mask of 0 and −∞ may stand inside the scale or outside of it",
        statement="Dividing scores and mask by √d_k is dividing the scores and adding the mask.",
        explanation=(
            "A positive factor leaves 0 and −∞ as they are; a finite bias would be scaled with "
            "the scores."
        ),
        write=in_both(_scaled),
    ),
)
