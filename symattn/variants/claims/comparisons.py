"""Claims about how queries are compared with keys, and what weights and biases do."""

from __future__ import annotations

from collections.abc import Iterator

from symattn.nodes import concat, identity, matrix, pairwise, scalar, sqrt
from symattn.variants.claims.claim import Claim
from symattn.variants.claims.written import (
    Sides,
    Written,
    d,
    d_a,
    d_k,
    d_q,
    d_v,
    in_both,
    m,
    n,
)
from symattn.variants.scores import SCORES
from symattn.variants.sources import ALIBI, LUONG, VASWANI

_LUONG = f"{LUONG}, section 3.1"


def _one_scale(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    scaled = at.attention(Q, K, V)
    yield "on the queries", at.attention(Q / sqrt(d_k), K, V, "dot"), scaled
    yield "on the keys", at.attention(Q, K / sqrt(d_k), V, "dot"), scaled


def _two_fourth_roots(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    root = sqrt(sqrt(d_k))
    yield "", at.attention(Q / root, K / root, V, "dot"), at.attention(Q, K, V)


def _bilinear(at: Written) -> Iterator[Sides]:
    Q, K, W = at.matrix("Q", d_q, n), at.matrix("K", d_k, m), matrix("W", d_k, d_q)
    pairs = pairwise(lambda q, k: k.T @ W @ q, Q, K, layout=at.layout.name)
    yield "", pairs, SCORES["general"].in_layout[at.layout.name](Q, K, W=W)


def _concat_split(at: Written) -> Iterator[Sides]:
    Q, K, V = at.matrix("Q", d_q, n), at.matrix("K", d_k, m), at.matrix("V", d_v, m)
    one, two = matrix("W_1", d_a, d_q), matrix("W_2", d_a, d_k)
    joint = at.attention(Q, K, V, "concat", W=concat(one, two, axis=1))
    yield "", joint, at.attention(Q, K, V, "additive", W=one, U=two)


def _no_weight(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    general = at.attention(Q, K, V, "general", W=identity(d_k))
    yield "", general, at.attention(Q, K, V, "dot")


def _projected(at: Written) -> Iterator[Sides]:
    Q, K, V = at.matrix("Q", d_q, n), at.matrix("K", d_k, m), at.matrix("V", d_v, m)
    W = matrix("W", d_k, d_q)
    general = at.attention(Q, K, V, "general", W=W)
    of_queries = at.layout.weight(W)
    of_keys = W.T if of_queries is W else W
    queries, keys = at.product(of_queries, Q), at.product(of_keys, K)
    yield "queries projected", at.attention(queries, K, V, "dot"), general
    yield "keys projected", at.attention(Q, keys, V, "dot"), general


def _merged(at: Written) -> Iterator[Sides]:
    X, Y = at.matrix("X", d_q, n), at.matrix("Y", d, m)
    W_Q, W_K = at.matrix("W^Q", d_k, d_q), at.matrix("W^K", d_k, d)
    scores = at.dots(at.product(W_Q, X), at.product(W_K, Y))
    yield "", scores, at.product(Y.T, at.product(W_K.T, W_Q), X)


def _values_projected(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    W = at.matrix("W", d, d_v)
    before, after = at.attention(Q, K, at.product(W, V)), at.attention(Q, K, V)
    yield "", before, at.product(W, after)


def _value_bias(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    b = at.matrix("b", d_v, 1)
    biased = at.attention(Q, K, V + at.product(b, at.ones(1, m)))
    yield "", biased, at.attention(Q, K, V) + at.product(b, at.ones(1, n))


def _key_bias(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    b = at.matrix("b", d_k, 1)
    yield "", at.attention(Q, K + at.product(b, at.ones(1, m)), V), at.attention(Q, K, V)


def _key_positions(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    slope = scalar("slope")
    distances = at.attention(Q, K, V, bias=lambda i, j: -slope * (i - j))
    yield "", distances, at.attention(Q, K, V, bias=lambda i, j: slope * j)


def _linear(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    yield "", at.product(V, at.dots(Q, K)), at.product(at.product(V, K.T), Q)


CLAIMS = (
    Claim(
        name="the_scale_may_stand_on_queries_or_keys",
        title="The scale may stand on the scores, the queries or the keys",
        statement=(
            "Dividing the queries by √d_k, or the keys, is dividing the scores: scaled attention "
            "is dot-product attention of scaled queries."
        ),
        explanation="A score is linear in the query and in the key, so a number moves through it.",
        source=f"{VASWANI}, section 3.2.1, for the scale",
        write=in_both(_one_scale),
    ),
    Claim(
        name="two_fourth_roots_are_the_scale",
        title="A fourth root on each side is the scale",
        statement="Dividing queries and keys by the fourth root of d_k divides scores by √d_k.",
        explanation="Both factors meet in every score; it keeps numbers small in half precision.",
        write=in_both(_two_fourth_roots),
    ),
    Claim(
        name="bilinear_scores_are_a_matrix_product",
        title="Bilinear scores are a product of matrices",
        statement="The scores kᵀWq of all pairs of a query and a key are the matrix KᵀWQ.",
        explanation="An entry of a product is a row times a column: no loop over pairs is needed.",
        source=f"{_LUONG}, the score general",
        write=in_both(_bilinear),
    ),
    Claim(
        name="luong_concat_is_additive",
        title="Luong's concat is the additive score with a split weight",
        statement="With W_a = [W_1 W_2] the score vᵀ tanh(W_a [q; k]) is vᵀ tanh(W_1 q + W_2 k).",
        explanation="A row of blocks times a column of blocks is the sum of their products.",
        source=f"{_LUONG}, the score concat",
        write=in_both(_concat_split),
    ),
    Claim(
        name="general_with_the_identity_is_dot",
        title="The general score without a weight is the dot product",
        statement="General attention with W = I is dot-product attention.",
        explanation="kᵀ I q is kᵀq.",
        source=f"{_LUONG}, the scores dot and general",
        write=in_both(_no_weight),
    ),
    Claim(
        name="general_is_dot_of_projected",
        title="The general score is a dot product after a projection",
        statement=(
            "General attention is dot-product attention of the projected queries W q, or of the "
            "projected keys Wᵀ k."
        ),
        explanation="kᵀ(W q) and (Wᵀ k)ᵀ q are the same number, read with other parentheses.",
        source=f"{_LUONG}, the scores dot and general",
        write=in_both(_projected),
    ),
    Claim(
        name="two_projections_are_one_weight",
        title="The projections of queries and keys act as one matrix",
        statement="Scores of projected queries and keys depend on W^Kᵀ W^Q only.",
        explanation="Only the product stands between the data: its rank is at most d_k.",
        write=in_both(_merged),
    ),
    Claim(
        name="values_may_be_projected_afterwards",
        title="Values may be projected before or after",
        statement="Attention over projected values is the projection of attention over the values.",
        explanation="The output is a sum of values with numbers as weights, so a matrix moves out.",
        write=in_both(_values_projected),
    ),
    Claim(
        name="a_bias_of_the_values_passes_through",
        title="A bias of the values is a bias of the output",
        statement="A vector added to every value is added to every output.",
        explanation="The weights of a query sum to one.",
        write=in_both(_value_bias),
    ),
    Claim(
        name="a_bias_of_the_keys_changes_nothing",
        title="A bias of the keys changes nothing",
        statement="A vector added to every key leaves attention as it is.",
        explanation="It adds the same number, bᵀq, to every score of a query: a shift.",
        write=in_both(_key_bias),
    ),
    Claim(
        name="alibi_needs_only_the_positions_of_keys",
        title="A linear bias needs only the positions of the keys",
        statement="The bias −slope·(i − j) of ALiBi gives the weights of the bias slope·j.",
        explanation="They differ by slope·i, which is the same for all keys of query i: a shift.",
        source=f"{ALIBI}, section 3, for the bias",
        write=in_both(_key_positions),
    ),
    Claim(
        name="without_softmax_keys_and_values_come_first",
        title="Without a softmax keys and values may be multiplied first",
        statement="V (KᵀQ) is (V Kᵀ) Q: no matrix of scores is needed.",
        explanation="A product is associative; a softmax in between forbids it.",
        source=(
            "Katharopoulos et al. 2020, Transformers are RNNs: Fast Autoregressive Transformers "
            "with Linear Attention, arXiv 2006.16236, section 3.2"
        ),
        write=in_both(_linear),
    ),
)
