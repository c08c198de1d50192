"""False claims about masks: the wrong way round, at the wrong place, or taken to do too much."""

from __future__ import annotations

from collections.abc import Iterator

from symattn.nodes import causal, hadamard, keep, padding, scalar, window
from symattn.variants.claims.claim import Claim
from symattn.variants.claims.written import MASKS, Sides, Written, d_k, in_both, m, n, w


def _anti_causal(at: Written) -> Iterator[Sides]:
    A = at.scores(keys=n)
    anti = ~causal() | window(1)
    yield "", at.softmax(A, anti), at.softmax(A, causal())


def _after(at: Written) -> Iterator[Sides]:
    for label, mask in MASKS.items():
        after = hadamard(at.softmax(at.scores()), at.allowed(mask, m, n))
        yield label, after, at.softmax(at.scores(), mask)


def _always_one(at: Written) -> Iterator[Sides]:
    for label, mask in MASKS.items():
        yield label, at.total(at.softmax(at.scores(), mask)), at.ones(1, n)


def _finite(at: Written) -> Iterator[Sides]:
    S, c = at.scores(), scalar("c", positive=True)
    excluded = at.ones(m, n) - at.allowed(keep(), m, n)
    yield "", at.softmax(S - excluded / c), at.softmax(S, keep())


def _alignments(at: Written) -> Iterator[Sides]:
    S = at.scores()
    yield "", at.softmax(S, causal("top_left")), at.softmax(S, causal("bottom_right"))


def _decoding(at: Written) -> Iterator[Sides]:
    _, K, V = at.operands()
    q = at.matrix("q", d_k, 1)
    yield "", at.attention(q, K, V, mask=causal("top_left")), at.attention(q, K, V)


def _queries(at: Written) -> Iterator[Sides]:
    A = at.scores(keys=n)
    # What is allowed of the keys, as a matrix with keys and queries changed over.
    allowed = at.allowed(padding(), n, n).T
    yield "", hadamard(at.softmax(A), allowed), at.softmax(A, padding())


def _ahead(at: Written) -> Iterator[Sides]:
    A = at.scores(keys=n)
    yield "", at.softmax(A, window(w)), at.softmax(A, window(w) & causal())


CLAIMS = (
    Claim(
        name="anti_causal_mask",
        title="The causal mask the wrong way round",
        statement="j ≥ i is the causal mask.",
        explanation=(
            "Queries see what comes after them; as where the mask of one layout is used in the "
            "other."
        ),
        write=in_both(_anti_causal),
        expected="refuted",
    ),
    Claim(
        name="mask_after_the_softmax",
        title="A mask after the softmax",
        statement="Weights may be multiplied by the mask after the softmax.",
        explanation=(
            "Keys that are not allowed still take a share of the sum, and what is left sums to "
            "less than one."
        ),
        write=in_both(_after),
        expected="refuted",
    ),
    Claim(
        name="masked_weights_sum_to_one",
        title="Masked weights always sum to one",
        statement="Under any mask the weights of a query sum to one.",
        explanation="A query that may attend to no key has zero weights.",
        write=in_both(_always_one),
        expected="refuted",
    ),
    Claim(
        name="a_finite_bias_is_a_mask",
        title="A large finite bias for a mask",
        statement="Subtracting a large number 1/c from the scores that are not allowed is a mask.",
        explanation=(
            "Their exponentials are small but not zero; and where no key is allowed the number "
            "cancels, and the query attends to all."
        ),
        write=in_both(_finite),
        expected="refuted",
    ),
    Claim(
        name="alignments_agree",
        title="One causal alignment for the other",
        statement="Top-left and bottom-right causal masks are one.",
        explanation="They differ by m − n places wherever n and m differ, as with a cache of keys.",
        write=in_both(_alignments),
        expected="refuted",
    ),
    Claim(
        name="top_left_while_decoding",
        title="A top-left causal mask while decoding one token",
        statement=(
            "A single query with a cache of keys needs no causal mask, whichever its alignment."
        ),
        explanation=(
            "Aligned at the top left, the only query is at position 0 and sees the first key alone."
        ),
        write=in_both(_decoding),
        expected="refuted",
    ),
    Claim(
        name="padding_of_queries_for_padding_of_keys",
        title="The padding of the queries for that of the keys",
        statement="A mask of the queries masks the keys.",
        explanation=(
            "Every query still attends to the padding among the keys; the mask stands along "
            "the wrong axis."
        ),
        write=in_both(_queries),
        expected="refuted",
    ),
    Claim(
        name="a_window_without_causal_looks_back",
        title="A window that looks ahead",
        statement="A window of w keeps the last w keys of each query.",
        explanation="It reaches w − 1 places to both sides; together with causal it looks back.",
        write=in_both(_ahead),
        expected="refuted",
    ),
)
