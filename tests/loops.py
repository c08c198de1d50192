"""Attention in plain Python loops over lists of floats, from the entry formulas written by hand.

Nothing of symattn and no matrix product of NumPy is used; batches are looped over one by one.
The formulas are in the column layout: tokens are columns, and weights stand on the left.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Score = Callable[[int, int], float]


def over_batches(one: Callable[..., Array], *arrays: Array, axes: Sequence[int] = ()) -> Array:
    """Apply a function of matrices to every element of the broadcast batch."""
    axes = axes or [2] * len(arrays)
    batches = [a.shape[: a.ndim - k] for a, k in zip(arrays, axes, strict=True)]
    batch = np.broadcast_shapes(*batches)
    wide = [
        np.broadcast_to(a, batch + a.shape[a.ndim - k :]).astype(np.float64)
        for a, k in zip(arrays, axes, strict=True)
    ]
    results = [one(*(a[at] for a in wide)) for at in itertools.product(*map(range, batch))]
    return np.reshape(results, batch + results[0].shape)


def softmax_of(values: Sequence[float]) -> list[float]:
    """exp(s_j) / Σ_t exp(s_t), shifted so that large scores do not overflow."""
    if not values:
        return []
    largest = max(values)
    weights = [math.exp(value - largest) for value in values]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def attend(score: Score, value: Callable[[int, int], float], n: int, m: int, d_v: int) -> Array:
    """out[v, i] = Σ_j softmax_t(score(i, t))[j] value(v, j), in the column layout."""
    out = np.zeros((d_v, n))
    for i in range(n):
        weights = softmax_of([score(i, j) for j in range(m)])
        for v in range(d_v):
            out[v, i] = math.fsum(weights[j] * value(v, j) for j in range(m))
    return out


def dot(a: Array, b: Array) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def times(a: Array, b: Array) -> Array:
    """The matrix product by loops."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = dot(a[i, :], b[:, j])
    return out


def scaled_dot_product(q: Array, k: Array, v: Array) -> Array:
    """q: d_k n, k: d_k m, v: d_v m -> d_v n."""
    root = math.sqrt(q.shape[0])
    return attend(
        lambda i, j: dot(k[:, j], q[:, i]) / root,
        lambda r, j: float(v[r, j]),
        q.shape[1],
        k.shape[1],
        v.shape[0],
    )


def dot_product(q: Array, k: Array, v: Array) -> Array:
    """q: d_k n, k: d_k m, v: d_v m -> d_v n."""
    return attend(
        lambda i, j: dot(k[:, j], q[:, i]),
        lambda r, j: float(v[r, j]),
        q.shape[1],
        k.shape[1],
        v.shape[0],
    )


def luong_general(q: Array, k: Array, v: Array, w: Array) -> Array:
    """q: d_q n, k: d_k m, v: d_v m, w: d_k d_q -> d_v n; the score is k_jᵀ w q_i."""

    def score(i: int, j: int) -> float:
        return math.fsum(
            float(k[a, j]) * float(w[a, b]) * float(q[b, i])
            for a in range(w.shape[0])
            for b in range(w.shape[1])
        )

    return attend(score, lambda r, j: float(v[r, j]), q.shape[1], k.shape[1], v.shape[0])


def self_attention(x: Array, wq: Array, wk: Array, wv: Array) -> Array:
    """x: d n, wq: d_k d, wk: d_k d, wv: d_v d -> d_v n."""
    return cross_attention(x, x, wq, wk, wv)


def cross_attention(x: Array, y: Array, wq: Array, wk: Array, wv: Array) -> Array:
    """x: d_x n, y: d_y m, wq: d_k d_x, wk: d_k d_y, wv: d_v d_y -> d_v n."""
    return dot_product(times(wq, x), times(wk, y), times(wv, y))


def masked(x: Array, wq: Array, wk: Array, wv: Array, allowed: Callable[[int, int], bool]) -> Array:
    """Scaled self-attention of each token to the tokens that it may attend to."""
    q, k, v = times(wq, x), times(wk, x), times(wv, x)
    columns = []
    for i in range(x.shape[1]):
        kept = [j for j in range(x.shape[1]) if allowed(i, j)]
        columns.append(scaled_dot_product(q[:, i : i + 1], k[:, kept], v[:, kept])[:, 0])
    return np.stack(columns, axis=1)


def causal_self_attention(x: Array, wq: Array, wk: Array, wv: Array) -> Array:
    """x: d n, wq: d_k d, wk: d_k d, wv: d_v d -> d_v n; token i attends to tokens j ≤ i."""
    return masked(x, wq, wk, wv, lambda i, j: j <= i)


def sliding_window(x: Array, wq: Array, wk: Array, wv: Array, w: int) -> Array:
    """x: d n, wq: d_k d, wk: d_k d, wv: d_v d -> d_v n; token i attends to i - w < j < i + w."""
    return masked(x, wq, wk, wv, lambda i, j: -w < j - i < w)


def key_padding(q: Array, k: Array, v: Array, padding: Array) -> Array:
    """q: d_k n, k: d_k m, v: d_v m, padding: m -> d_v n; True keys may be attended to."""
    kept = [j for j in range(k.shape[1]) if padding[j]]
    return scaled_dot_product(q, k[:, kept], v[:, kept])


# Scores of two token vectors, over lists of tokens.

Vectors = list[list[float]]


def by_tokens(loops: Callable[..., Vectors]) -> Callable[..., Array]:
    """Take columns as lists of tokens, weights (named W or U) as they stand left of a column."""
    names = list(signature(loops).parameters)

    @wraps(loops)
    def of_columns(*arrays: Array, **given: Any) -> Array:
        tokens = [
            array.tolist() if name[0] in "WU" else array.T.tolist()
            for name, array in zip(names, arrays, strict=False)
        ]
        return np.array(loops(*tokens, **given)).T

    return of_columns


def attended(
    queries: Vectors, keys: Vectors, values: Vectors, score: Callable[[Any, Any], float]
) -> Vectors:
    """One output a query: Σ_j exp(score(q, k_j)) v_j / Σ_t exp(score(q, k_t))."""
    outputs = []
    for q in queries:
        exponentials = [math.exp(score(q, k)) for k in keys]
        total = sum(exponentials)
        outputs.append(
            [
                sum(e * v[c] for e, v in zip(exponentials, values, strict=True)) / total
                for c in range(len(values[0]))
            ]
        )
    return outputs


def inner(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def bahdanau(Q: Vectors, K: Vectors, V: Vectors, W_a: Any, U_a: Any, v: Any) -> Vectors:
    def score(q: list[float], k: list[float]) -> float:
        return sum(
            a * math.tanh(inner(w, q) + inner(u, k)) for a, w, u in zip(v, W_a, U_a, strict=True)
        )

    return attended(Q, K, V, score)


@by_tokens
def additive(Q: Vectors, K: Vectors, V: Vectors, W_a: Any, U_a: Any, v: Any) -> Vectors:
    return bahdanau(Q, K, V, W_a, U_a, v)


@by_tokens
def luong_concat(Q: Vectors, K: Vectors, V: Vectors, W_a: Any, v: Any) -> Vectors:
    def score(q: list[float], k: list[float]) -> float:
        return sum(a * math.tanh(inner(w, [*q, *k])) for a, w in zip(v, W_a, strict=True))

    return attended(Q, K, V, score)


@by_tokens
def location(Q: Vectors, V: Vectors, W_a: Any) -> Vectors:
    keys = [[float(j)] for j in range(len(V))]
    return attended(Q, keys, V, lambda q, k: inner(W_a[int(k[0])], q))


@by_tokens
def cosine(Q: Vectors, K: Vectors, V: Vectors, tau: float) -> Vectors:
    def score(q: list[float], k: list[float]) -> float:
        return inner(q, k) / math.sqrt(inner(q, q)) / math.sqrt(inner(k, k)) / tau

    return attended(Q, K, V, score)


@by_tokens
def softcap(Q: Vectors, K: Vectors, V: Vectors, c: float) -> Vectors:
    return attended(Q, K, V, lambda q, k: c * math.tanh(inner(k, q) / math.sqrt(len(q)) / c))


@by_tokens
def alibi(Q: Vectors, K: Vectors, V: Vectors, slope: float) -> Vectors:
    placed = [[*k, float(j)] for j, k in enumerate(K)]
    return [
        attended(
            [q],
            placed,
            V,
            lambda q, k, i=i: inner(k[:-1], q) / math.sqrt(len(q)) - slope * (i - k[-1]),
        )[0]
        for i, q in enumerate(Q)
    ]


def additive_bias(q: Array, k: Array, v: Array, b: Array) -> Array:
    """q: d_k n, k: d_k m, v: d_v m, b: m n -> d_v n; b[j, i] is added to the score of i and j."""
    o = np.zeros((v.shape[0], q.shape[1]))
    for i in range(q.shape[1]):
        scores = [
            sum(q[c, i] * k[c, j] for c in range(q.shape[0])) / math.sqrt(q.shape[0]) + b[j, i]
            for j in range(k.shape[1])
        ]
        exponentials = [math.exp(score) for score in scores]
        for j, e in enumerate(exponentials):
            o[:, i] += e / sum(exponentials) * v[:, j]
    return o


@by_tokens
def single_query(q: Any, X: Vectors) -> Vectors:
    return attended(q, X, X, inner)


@by_tokens
def encoder_decoder_context(s: Any, H: Vectors, W_a: Any, U_a: Any, v: Any) -> Vectors:
    return bahdanau(s, H, H, W_a, U_a, v)


# Heads, from the entries of each: families are lists of weights, one a head, as tokens are lists.


def applied(weight: Any, tokens: Vectors, bias: Any = None) -> Vectors:
    """W x + b for every token x."""
    return [
        [inner(row, x) + (bias[c] if bias is not None else 0.0) for c, row in enumerate(weight)]
        for x in tokens
    ]


def scaled(queries: Vectors, keys: Vectors, values: Vectors) -> Vectors:
    root = math.sqrt(len(queries[0]))
    return attended(queries, keys, values, lambda q, k: inner(k, q) / root)


def mixed(heads: list[Vectors], W_O: Any, bias: Any = None) -> Vectors:
    """W_O [head_1; …; head_h], the features of each token's heads one head after another."""
    stacked = [[c for head in heads for c in head[i]] for i in range(len(heads[0]))]
    return applied(W_O, stacked, bias)


@by_tokens
def multi_head_attention(X: Vectors, W_Q: Any, W_K: Any, W_V: Any, W_O: Any) -> Vectors:
    return of_heads(X, X, W_Q, W_K, W_V, W_O)


@by_tokens
def multi_head_cross_attention(
    X: Vectors, Y: Vectors, W_Q: Any, W_K: Any, W_V: Any, W_O: Any
) -> Vectors:
    return of_heads(X, Y, W_Q, W_K, W_V, W_O)


def of_heads(X: Vectors, Y: Vectors, W_Q: Any, W_K: Any, W_V: Any, W_O: Any) -> Vectors:
    heads = [
        scaled(applied(w_q, X), applied(w_k, Y), applied(w_v, Y))
        for w_q, w_k, w_v in zip(W_Q, W_K, W_V, strict=True)
    ]
    return mixed(heads, W_O)


@by_tokens
def multi_query(X: Vectors, W_Q: Any, W_K: Any, W_V: Any, W_O: Any) -> Vectors:
    keys, values = applied(W_K, X), applied(W_V, X)
    return mixed([scaled(applied(w_q, X), keys, values) for w_q in W_Q], W_O)


@by_tokens
def grouped_query(X: Vectors, W_Q: Any, W_K: Any, W_V: Any, W_O: Any) -> Vectors:
    """W_Q[a][b] belongs to head b of group a; the heads of a group stand together."""
    heads = [
        scaled(applied(w_q, X), applied(w_k, X), applied(w_v, X))
        for of_group, w_k, w_v in zip(W_Q, W_K, W_V, strict=True)
        for w_q in of_group
    ]
    return mixed(heads, W_O)


Packed = Sequence[Any]
"""W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O; without biases the weights alone."""


def packed(X: Vectors, Y: Vectors, learned: Packed, h: int) -> Vectors:
    """Head i takes the features from i·d_k on, d_k of them, of queries, keys and values."""
    (w_q, b_q), (w_k, b_k), (w_v, b_v), (w_o, b_o) = (
        zip(learned[::2], learned[1::2], strict=True)
        if len(learned) == 8
        else ((weight, None) for weight in learned)
    )
    made = applied(w_q, X, b_q), applied(w_k, Y, b_k), applied(w_v, Y, b_v)
    d_k = len(w_q) // h
    heads = [
        scaled(*([token[i * d_k : (i + 1) * d_k] for token in of_all] for of_all in made))
        for i in range(h)
    ]
    return mixed(heads, w_o, b_o)


def packed_multi_head(x: Array, *learned: Array, h: int) -> Array:
    return np.array(packed(x.T.tolist(), x.T.tolist(), [p.tolist() for p in learned], h)).T


def packed_multi_head_cross(x: Array, y: Array, *learned: Array, h: int) -> Array:
    return np.array(packed(x.T.tolist(), y.T.tolist(), [p.tolist() for p in learned], h)).T


CATALOGUE: dict[str, Callable[..., Array]] = {
    loops.__name__: loops
    for loops in (
        *(dot_product, luong_general, scaled_dot_product, additive, luong_concat, location),
        *(cosine, softcap, alibi, additive_bias, single_query, encoder_decoder_context),
        *(self_attention, cross_attention),
        *(causal_self_attention, sliding_window, key_padding),
        *(multi_head_attention, multi_head_cross_attention),
        *(packed_multi_head, packed_multi_head_cross, grouped_query, multi_query),
    )
}
"""The loops of every formula of the catalogue, by its name."""


def rows(column_layout: Callable[..., Array], *arrays: Array) -> Array:
    """The row layout: every matrix is the transpose of the one in the column layout."""
    return column_layout(*(a.T for a in arrays)).T
