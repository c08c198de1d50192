"""False claims about scores, weights and layouts: mistakes that run without an error.

The shapes fit, so nothing stops them; numbers do.
"""

from __future__ import annotations

from collections.abc import Iterator

from symattn.nodes import concat, exp, hadamard, matrix, max, reciprocal, scalar, sqrt
from symattn.variants.claims.claim import Claim, Equation
from symattn.variants.claims.key_blocks import keys_in_blocks
from symattn.variants.claims.written import (
    Sides,
    Written,
    d,
    d_a,
    d_k,
    d_v,
    in_both,
    m,
    n,
)
from symattn.variants.layouts import BUILDERS, ROW


def _over_queries(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    wrong = at.product(V, at.softmax_over_queries(at.dots(Q, K) / sqrt(d_k)))
    yield "", wrong, at.attention(Q, K, V)


def _untransposed() -> Iterator[Equation]:
    at = Written(ROW)
    Q, K, V = at.matrix("Q", d, n), at.matrix("K", d, m), at.matrix("V", d_v, m)
    W = matrix("W", d, d)
    wrong = at.softmax(Q @ W @ K.T) @ V
    yield Equation("row", wrong, at.attention(Q, K, V, "general", W=W))


def _channels() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        at = Written(layout)
        X = at.matrix("X", d, n)
        tokens = at.product(X, at.softmax(at.product(X.T, X)))
        channels = at.product(at.softmax(at.product(X, X.T)), X)
        yield Equation(f"{layout.name}, of one matrix", channels, tokens)
        Q, K = at.matrix("Q", d, n), at.matrix("K", d, n)
        wrong = at.softmax(at.product(K, Q.T))
        weights = at.softmax(at.product(K.T, Q))
        yield Equation(f"{layout.name}, weights", wrong, weights, relations=("n = d",))


def _transposed_scores() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        at = Written(layout)
        Q, K, V = at.operands(keys=n)
        wrong = at.product(V, at.softmax(at.dots(K, Q) / sqrt(d_k)))
        yield Equation(layout.name, wrong, at.attention(Q, K, V))


def _one_fourth_root(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    root = sqrt(sqrt(d_k))
    yield "on the queries", at.attention(Q / root, K, V, "dot"), at.attention(Q, K, V)
    yield "on the keys", at.attention(Q, K / root, V, "dot"), at.attention(Q, K, V)


def _no_root(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    yield "", at.attention(Q / d_k, K, V, "dot"), at.attention(Q, K, V)


def _scaled_twice(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    yield "", at.attention(Q / sqrt(d_k), K / sqrt(d_k), V, "dot"), at.attention(Q, K, V)


def _scaled_weights(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    wrong = at.product(V, at.softmax(at.dots(Q, K)) / sqrt(d_k))
    yield "", wrong, at.attention(Q, K, V)


def _no_scale(at: Written) -> Iterator[Sides]:
    S, c = at.scores(), scalar("c", positive=True)
    yield "", at.softmax(S / c), at.softmax(S)


def _bias_in_the_scale(at: Written) -> Iterator[Sides]:
    (Q, K, _), M = at.operands(), at.matrix("M", m, n)
    wrong = at.softmax((at.dots(Q, K) + M) / sqrt(d_k))
    yield "", wrong, at.softmax(at.dots(Q, K) / sqrt(d_k) + M)


def _query_bias(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    b = at.matrix("b", d_k, 1)
    yield "", at.attention(Q + at.product(b, at.ones(1, n)), K, V), at.attention(Q, K, V)


def _maximum_of_a_key(at: Written) -> Iterator[Sides]:
    S = at.scores()
    largest = at.product(max(S, axis=1 - at.layout.axis), at.ones(1, n))
    yield "", at.softmax(S - largest), at.softmax(S)


def _split_swapped(at: Written) -> Iterator[Sides]:
    Q, K, V = at.matrix("Q", d, n), at.matrix("K", d, m), at.matrix("V", d_v, m)
    one, two = matrix("W_1", d_a, d), matrix("W_2", d_a, d)
    wrong = at.attention(Q, K, V, "concat", W=concat(two, one, axis=1))
    yield "", wrong, at.attention(Q, K, V, "additive", W=one, U=two)


def _keys_alone_swapped(at: Written) -> Iterator[Sides]:
    Q, (K_1, V_1, K_2, V_2) = at.operands()[0], keys_in_blocks(at)
    wrong = at.attention(Q, at.beside(K_2, K_1), at.beside(V_1, V_2))
    yield "", wrong, at.attention(Q, at.beside(K_1, K_2), at.beside(V_1, V_2))


def _averaged(at: Written) -> Iterator[Sides]:
    Q, (K_1, V_1, K_2, V_2) = at.operands()[0], keys_in_blocks(at)
    mean = (at.attention(Q, K_1, V_1) + at.attention(Q, K_2, V_2)) / 2
    yield "", mean, at.attention(Q, at.beside(K_1, K_2), at.beside(V_1, V_2))


def _not_rescaled(at: Written) -> Iterator[Sides]:
    Q, (K_1, V_1, K_2, V_2) = at.operands()[0], keys_in_blocks(at)
    weights = []
    for k, K in ((1, K_1), (2, K_2)):
        shift = at.spread(at.matrix(f"s_{k}", 1, n), at.layout.token_count(K))
        weights.append(exp(at.dots(Q, K) / sqrt(d_k) - shift))
    one, two = weights
    values = at.product(V_1, one) + at.product(V_2, two)
    sums = at.spread(reciprocal(at.total(one) + at.total(two)), d_v)
    whole = at.attention(Q, at.beside(K_1, K_2), at.beside(V_1, V_2))
    yield "", hadamard(values, sums), whole


def _dropped_softmax(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    wrong = at.product(at.product(V, K.T), Q)
    yield "", wrong, at.attention(Q, K, V, "dot")


CLAIMS = (
    Claim(
        name="softmax_over_the_queries",
        title="A softmax along the wrong axis",
        statement="Attention weights may be normalised over the queries instead of the keys.",
        explanation=(
            "The softmax ran along the other axis: the weights of a key sum to one, those of a "
            "query do not."
        ),
        write=in_both(_over_queries),
        expected="refuted",
    ),
    Claim(
        name="untransposed_weight_in_rows",
        title="The weight of the general score, not transposed in row layout",
        statement="In row layout KᵀWQ becomes Q W Kᵀ.",
        explanation="Transposing a product transposes every factor, the weight too: it is Q Wᵀ Kᵀ.",
        write=_untransposed,
        expected="refuted",
    ),
    Claim(
        name="channels_for_tokens",
        title="Attention among channels for attention among tokens",
        statement="X Xᵀ may stand for XᵀX.",
        explanation=(
            "The product was taken over the tokens: features attend to features, d × d instead "
            "of n × n. Where n = d nothing but the numbers tells."
        ),
        write=_channels,
        expected="refuted",
    ),
    Claim(
        name="scores_transposed",
        title="Scores transposed",
        statement="In self-attention QᵀK may stand for KᵀQ in column layout.",
        explanation=(
            "Both are n × n, but QᵀK has a query where a key should be: each token is answered "
            "with the weights that others give it."
        ),
        write=_transposed_scores,
        expected="refuted",
    ),
    Claim(
        name="one_fourth_root_is_the_scale",
        title="A fourth root on one side only",
        statement=(
            "Dividing only the queries, or only the keys, by the fourth root of d_k is the scale."
        ),
        explanation="The scores are divided by the fourth root then; it has to be on both sides.",
        write=in_both(_one_fourth_root),
        expected="refuted",
    ),
    Claim(
        name="the_scale_is_d_k",
        title="Scaling by d_k",
        statement="Scores are divided by d_k.",
        explanation="It is the square root that keeps the variance of a score at one.",
        write=in_both(_no_root),
        expected="refuted",
    ),
    Claim(
        name="scaled_on_both_sides",
        title="Scaling twice",
        statement="Both queries and keys are divided by √d_k.",
        explanation=(
            "The scores are divided by d_k then, as where a library scales what is scaled already."
        ),
        write=in_both(_scaled_twice),
        expected="refuted",
    ),
    Claim(
        name="scale_after_the_softmax",
        title="The scale after the softmax",
        statement="Weights may be divided by √d_k instead of the scores.",
        explanation="A softmax is not linear, and the weights would no longer sum to one.",
        write=in_both(_scaled_weights),
        expected="refuted",
    ),
    Claim(
        name="softmax_ignores_a_factor",
        title="Softmax ignores a factor",
        statement="Dividing all scores by a number leaves the weights as they are.",
        explanation="A shift cancels, a factor does not: it is a temperature.",
        write=in_both(_no_scale),
        expected="refuted",
    ),
    Claim(
        name="a_finite_bias_may_be_scaled",
        title="A bias inside the scale",
        statement="softmax((KᵀQ + M) / √d_k) is softmax(KᵀQ / √d_k + M).",
        explanation="The bias is divided too. Only where it is 0 or −∞ does that change nothing.",
        write=in_both(_bias_in_the_scale),
        expected="refuted",
    ),
    Claim(
        name="a_bias_of_the_queries_changes_nothing",
        title="A bias of the queries taken for one of the keys",
        statement="A vector added to every query leaves attention as it is.",
        explanation="It adds kᵀb to the score of key k, which differs from key to key.",
        write=in_both(_query_bias),
        expected="refuted",
    ),
    Claim(
        name="the_maximum_of_a_key_may_be_subtracted",
        title="The maximum along the wrong axis",
        statement="Subtracting the largest score of each key leaves the weights as they are.",
        explanation="Only what is the same for all keys of a query cancels.",
        write=in_both(_maximum_of_a_key),
        expected="refuted",
    ),
    Claim(
        name="concat_weight_split_in_the_wrong_order",
        title="The weight of the concat score, split the wrong way round",
        statement="W_a = [W_2 W_1] gives vᵀ tanh(W_1 q + W_2 k) on [q; k].",
        explanation="The first columns of the weight meet the first part of the column, the query.",
        write=in_both(_split_swapped),
        expected="refuted",
    ),
    Claim(
        name="keys_permuted_without_values",
        title="Keys permuted, values not",
        statement="The order of the keys is free by itself.",
        explanation=(
            "A weight then meets the value of another key; both have to be permuted together."
        ),
        write=in_both(_keys_alone_swapped),
        expected="refuted",
    ),
    Claim(
        name="blocks_of_keys_average",
        title="Outputs of two blocks of keys, averaged",
        statement="Attention over two blocks of keys is the mean of their outputs.",
        explanation="Each block has to count by its share in the sum of all exponentials.",
        write=in_both(_averaged),
        expected="refuted",
    ),
    Claim(
        name="blocks_merge_without_rescaling",
        title="Blocks of keys merged without rescaling",
        statement="The sums of blocks with different shifts may be added as they are.",
        explanation="Both have to be brought to one shift first, by the factor e^(s_1 − s).",
        write=in_both(_not_rescaled),
        expected="refuted",
    ),
    Claim(
        name="attention_is_linear",
        title="Attention without its softmax",
        statement="V (KᵀQ) is V Softmax(KᵀQ).",
        explanation=(
            "Leaving the softmax out makes another formula, linear attention, not an approximation."
        ),
        write=in_both(_dropped_softmax),
        expected="refuted",
    ),
)
