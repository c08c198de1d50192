"""Claims about keys in blocks: the merge behind online softmax, and in what order tokens stand.

A block of keys leaves three things for each query: a shift s, any finite number; the sum l of its
exponentials e^(score − s); and the sum o of its values, weighted by them.  Merging two blocks puts
both on one shift and adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from symattn.nodes import Node, dims, exp, hadamard, head, index, log, prefix, reciprocal, sqrt
from symattn.variants.catalogue import formula
from symattn.variants.claims.claim import Claim
from symattn.variants.claims.written import Sides, Written, d, d_k, d_v, in_both, m, n

m_1, m_2 = dims("m_1 m_2")

_ONLINE = (
    "Milakov and Gimelshein 2018, Online normalizer calculation for softmax, arXiv 1805.02867, "
    "section 3"
)
_BLOCKS = (
    "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness, "
    "arXiv 2205.14135, section 3.1"
)


class KeyBlock(NamedTuple):
    """What a block of keys leaves for each query: shift, sum of exponentials, sum of values."""

    s: Node
    l: Node
    o: Node


def _block(at: Written, Q: Node, K: Node, V: Node, shift: Node) -> KeyBlock:
    scores = at.dots(Q, K) / sqrt(d_k)
    weights = exp(scores - at.spread(shift, at.layout.token_count(K)))
    return KeyBlock(shift, at.total(weights), at.product(V, weights))


def _merge(at: Written, one: KeyBlock, other: KeyBlock, shift: Node) -> KeyBlock:
    a, b = exp(one.s - shift), exp(other.s - shift)
    sums = hadamard(one.l, a) + hadamard(other.l, b)
    values = hadamard(one.o, at.spread(a, d_v)) + hadamard(other.o, at.spread(b, d_v))
    return KeyBlock(shift, sums, values)


def keys_in_blocks(at: Written) -> tuple[Node, Node, Node, Node]:
    """Return the keys and the values of a first block, then those of a second."""
    sizes = (("1", m_1), ("2", m_2))
    (K_1, V_1), (K_2, V_2) = (
        (at.matrix(f"K_{k}", d_k, size), at.matrix(f"V_{k}", d_v, size)) for k, size in sizes
    )
    return K_1, V_1, K_2, V_2


def _merged(at: Written) -> Iterator[Sides]:
    Q, (K_1, V_1, K_2, V_2) = at.operands()[0], keys_in_blocks(at)
    s, s_1, s_2 = (at.matrix(name, 1, n) for name in ("s", "s_1", "s_2"))
    whole = at.attention(Q, at.beside(K_1, K_2), at.beside(V_1, V_2))
    both = _merge(at, _block(at, Q, K_1, V_1, s_1), _block(at, Q, K_2, V_2, s_2), s)
    yield "", hadamard(both.o, at.spread(reciprocal(both.l), d_v)), whole


def _merged_by_sums(at: Written) -> Iterator[Sides]:
    Q, (K_1, V_1, K_2, V_2) = at.operands()[0], keys_in_blocks(at)
    whole = at.attention(Q, at.beside(K_1, K_2), at.beside(V_1, V_2))
    l_1, l_2 = (log(at.total(exp(at.dots(Q, K) / sqrt(d_k)))) for K in (K_1, K_2))
    total = log(exp(l_1) + exp(l_2))
    parts = [
        hadamard(at.attention(Q, K, V), at.spread(exp(l - total), d_v))
        for K, V, l in ((K_1, V_1, l_1), (K_2, V_2, l_2))
    ]
    yield "", parts[0] + parts[1], whole


def _associative(at: Written) -> Iterator[Sides]:
    one, two, three = (
        KeyBlock(at.matrix(f"s_{k}", 1, n), at.matrix(f"l_{k}", 1, n), at.matrix(f"O_{k}", d_v, n))
        for k in (1, 2, 3)
    )
    s, t, u = (at.matrix(name, 1, n) for name in "stu")
    left = _merge(at, _merge(at, one, two, t), three, s)
    right = _merge(at, one, _merge(at, two, three, u), s)
    yield "sums", left.l, right.l
    yield "values", left.o, right.o


# Sizes are 1 or more, so that a swap with nothing before it, or after it, stands by itself.
# Blocks that are the whole sequence only turn it round; with others around them, blocks of one
# token are any two neighbours, and swaps of neighbours make up every permutation.
_SWAPS = {
    "nothing around": ((1, 2), (2, 1)),
    "others before": ((1, 2, 3), (1, 3, 2)),
    "others after": ((1, 2, 3), (2, 1, 3)),
    "others around": ((1, 2, 3, 4), (1, 3, 2, 4)),
}


def _blocks(at: Written, name: str, features: Any, counts: Sequence[Any]) -> dict[int, Node]:
    """Return a matrix for each count of tokens, by its number."""
    return {k: at.matrix(f"{name}_{k}", features, size) for k, size in enumerate(counts, 1)}


def _keys_swapped(at: Written) -> Iterator[Sides]:
    Q, counts = at.operands()[0], dims("m_1 m_2 m_3 m_4")
    K, V = _blocks(at, "K", d_k, counts), _blocks(at, "V", d_v, counts)

    def over(order: Sequence[int]) -> Node:
        keys, values = (at.beside(*(blocks[k] for k in order)) for blocks in (K, V))
        return at.attention(Q, keys, values)

    for label, (order, swapped) in _SWAPS.items():
        yield label, over(swapped), over(order)


def _queries_swapped(at: Written) -> Iterator[Sides]:
    _, K, V = at.operands()
    Q = _blocks(at, "Q", d_k, dims("n_1 n_2 n_3 n_4"))
    answer = {k: at.attention(Q_k, K, V) for k, Q_k in Q.items()}
    in_order = _SWAPS["others around"][0]
    orders = {"in order": in_order, **{label: swapped for label, (_, swapped) in _SWAPS.items()}}
    for label, order in orders.items():
        asked, answers = (at.beside(*(blocks[k] for k in order)) for blocks in (Q, answer))
        yield label, at.attention(asked, K, V), answers


def _three_steps_each(at: Written) -> Iterator[Sides]:
    def of_query(tokens: Node) -> Node:
        return head(tokens, index("i", n), axis=at.layout.tokens)

    Q, K, V = at.operands()
    yield "keys and values", of_query(at.attention(Q, K, V)), at.attention(of_query(Q), K, V)
    Q, X = at.matrix("Q", d, n), at.matrix("X", d, m)
    single = formula("single_query", at.layout.name)
    q, candidates = single.operands[:2]
    steps = single.expr.subs({n: m}).xreplace({q: of_query(Q), candidates.subs({n: m}): X})
    yield "candidates", of_query(at.attention(Q, X, X, "dot")), steps


def _query_alone(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    q = at.matrix("q", d_k, 1)
    alone = at.attention(q, K, V)
    yield "first", at.attention(at.beside(q, Q), K, V), at.beside(alone, at.attention(Q, K, V))
    yield "last", at.attention(at.beside(Q, q), K, V), at.beside(at.attention(Q, K, V), alone)


def _left_out(at: Written) -> Iterator[Sides]:
    Q, (K_1, V_1, K_2, V_2) = at.operands()[0], keys_in_blocks(at)
    padded = at.attention(Q, at.beside(K_1, K_2), at.beside(V_1, V_2), mask=prefix(m_1))
    yield "", padded, at.attention(Q, K_1, V_1)


def _two_times(at: Written) -> Iterator[Sides]:
    Q, K, V = at.operands()
    yield "", at.attention(Q, at.beside(K, K), at.beside(V, V)), at.attention(Q, K, V)


CLAIMS = (
    Claim(
        name="blocks_of_keys_merge",
        title="Two blocks of keys merge into one, for any shifts",
        statement=(
            "With (s, l, o) of each block on one shift, (o_1 + o_2) / (l_1 + l_2) is attention "
            "over both blocks, whatever finite shifts were subtracted."
        ),
        explanation=(
            "Going to the shift s multiplies l and o by e^(s_1 − s), which cancels; the running "
            "maximum is a choice that keeps exponentials small."
        ),
        source=f"{_ONLINE}; {_BLOCKS}",
        write=in_both(_merged),
    ),
    Claim(
        name="blocks_of_keys_merge_by_log_sum_exp",
        title="Outputs of two blocks merge by their log-sum-exp",
        statement=(
            "Attention over two blocks is the sum of their outputs, each weighted by the share "
            "e^(L_i − L) of its block in the sum of all exponentials."
        ),
        explanation="An output and one number a query are all that a block has to hand on.",
        source=_BLOCKS,
        write=in_both(_merged_by_sums),
    ),
    Claim(
        name="merging_blocks_is_associative",
        title="Merging blocks is associative",
        statement="Three blocks give the same l and o, whichever two are merged first.",
        explanation=(
            "The shifts t and u in between cancel; so blocks may be merged one by one, or as a "
            "tree."
        ),
        source=_ONLINE,
        write=in_both(_associative),
    ),
    Claim(
        name="the_order_of_keys_is_free",
        title="Permuting keys and values together changes nothing",
        statement=(
            "Swapping two neighbouring blocks of keys, and their values with them, leaves "
            "attention as it is, whatever other keys stand before and after; such swaps make up "
            "every permutation."
        ),
        explanation="A query sums over the keys: without positions or masks it sees a set.",
        write=in_both(_keys_swapped),
    ),
    Claim(
        name="the_order_of_queries_is_that_of_outputs",
        title="Permuting queries permutes the output",
        statement=(
            "Each block of queries is answered by itself, so swapping two neighbouring blocks of "
            "queries, with others before and after, swaps their outputs; such swaps make up every "
            "permutation."
        ),
        explanation="Queries meet keys only: no query sees another.",
        write=in_both(_queries_swapped),
    ),
    Claim(
        name="a_query_is_answered_alone",
        title="A query is answered as if it were alone",
        statement="One of many queries gets what attention with that query alone gives it.",
        explanation=(
            "Scores, softmax and weighted sum of a query use no other query: one column of the "
            "output (a row, in row layout) is the three steps for one query."
        ),
        write=in_both(_query_alone),
    ),
    Claim(
        name="each_query_takes_three_steps",
        title="Every query takes the three steps",
        statement=(
            "Column i of the output (row i, in row layout) is the answer to query i alone: inner "
            "products with the keys, a softmax, and the weighted sum of the values."
        ),
        explanation=(
            "Scores, softmax and weighted sum are made column by column, so n queries are the "
            "same three steps n times over."
        ),
        write=in_both(_three_steps_each),
    ),
    Claim(
        name="masked_keys_may_be_left_out",
        title="Keys that are masked may as well be left out",
        statement="Attention that is masked to the first m_1 keys is attention over those keys.",
        explanation="A masked key has no part in the sum of exponentials: padding does no harm.",
        write=in_both(_left_out),
    ),
    Claim(
        name="keys_twice_are_keys_once",
        title="Every key twice is every key once",
        statement="Repeating all keys and values leaves attention as it is.",
        explanation="Numerator and denominator double.",
        write=in_both(_two_times),
    ),
)
