"""The corpus: masks, biases, and keys that depend on where a query stands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import symattn as sa
from tests.corpus.by_hand import attended_rows, scaled
from tests.corpus.checks import computes, different, equal, printed, refusal
from tests.corpus.entries import built, unclear, wrong
from tests.loops import inner, softmax_of

d, d_k, d_v, n, m, w = sa.dims("d d_k d_v n m w")
SIZES = {"d": 6, "d_k": 4, "d_v": 3, "n": 5}
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", n, d_k), sa.matrix("V", n, d_v)
S = Q @ K.T / sa.sqrt(d_k)


def added(mask: Any) -> Any:
    """A mask of n queries and n keys in row layout, to be added."""
    return sa.additive_mask(mask, n, n, axis=1)


# Graph attention: the neighbourhood of a node is a mask that holds the node itself.

F, F_prime = sa.dims("F F'")
W, a, h = sa.matrix("W", F_prime, F), sa.vector("a", 2 * F_prime), sa.matrix("h", F, n)
LeakyReLU, alpha = sa.function("LeakyReLU"), sa.scalar("alpha")
NEIGHBOURS = sa.keep() | sa.window(1)


def leaky(x: Any) -> Any:
    """LeakyReLU, whose slope below zero is a parameter."""
    return sa.relu(x) - alpha * sa.relu(-x)


def coefficients(score: Any) -> Any:
    """The weight of each neighbour j (a row) for each node i (a column)."""
    return sa.softmax(sa.pairwise(score, h, h), axis=0, mask=NEIGHBOURS)


def concatenated(function: Any) -> Any:
    return lambda i, j: function(a.T @ sa.concat(W @ i, W @ j, axis=0))


@built("F19")
def test_f19_a_sum_over_the_neighbours_alone() -> None:
    by_name = coefficients(concatenated(LeakyReLU))
    assert "LeakyReLU(aᵀ [Wq; Wk])" in printed(by_name)
    j = sa.index("k", n)
    exponentials = sa.exp(sa.pairwise(concatenated(LeakyReLU), h, h))
    kept = sa.hadamard(sa.indicator(NEIGHBOURS, n, n, axis=0), exponentials)
    total = sa.ones(n, 1) @ sa.reciprocal(sa.sum_over(sa.head(kept, j, axis=0), j))
    equal(by_name, sa.hadamard(kept, total))
    a_1, a_2 = sa.vector("a_1", F_prime), sa.vector("a_2", F_prime)
    split = coefficients(lambda i, j: LeakyReLU(a_1.T @ W @ i + a_2.T @ W @ j))
    equal(by_name.xreplace({a: sa.concat(a_1, a_2, axis=0)}), split)


@built("F19")
def test_f19_without_leakyrelu_the_query_would_not_count() -> None:
    linear = coefficients(concatenated(lambda x: x))
    different(coefficients(concatenated(leaky)), linear)
    asked = sa.vector("a_2", F_prime)
    halves = {a: sa.concat(sa.vector("a_1", F_prime), asked, axis=0)}
    equal(linear.xreplace(halves), coefficients(lambda i, j: asked.T @ W @ j))


@built("F19")
def test_f19_runs_with_the_slope_of_leakyrelu() -> None:
    def by_hand(w: Any, a: Any, h: Any, alpha: float, keep: Any) -> Any:
        out = np.zeros((h.shape[1], h.shape[1]))
        for i in range(h.shape[1]):
            kept = [j for j in range(h.shape[1]) if keep[i, j] or i == j]
            scores = [inner(a, [*(w @ h[:, i]), *(w @ h[:, j])]) for j in kept]
            out[kept, i] = softmax_of([x if x > 0 else alpha * x for x in scores])
        return out

    adjacent = np.random.default_rng(3).random((5, 5)) > 0.5
    weights = coefficients(concatenated(leaky))
    computes([W, a, h], weights, by_hand, {"F": 4, "F'": 3, "n": 5}, alpha=0.2, keep=adjacent)


@built("F20")
def test_f20_a_mask_is_added() -> None:
    m = sa.dim("m")
    Q, K, V = (sa.matrix(name, m, d) for name in "QKV")
    S = Q @ K.T / sa.sqrt(d)
    for mask in (sa.causal(), sa.keep(), sa.window(3) & sa.padding()):
        masked = sa.softmax(S + sa.additive_mask(mask, m, m, axis=1), axis=1) @ V
        printed(masked)
        equal(masked, sa.attention(Q, K, V, mask=mask, layout="row"))
        different(masked, sa.attention(Q, K, V, layout="row"))
    M = sa.additive_mask(sa.causal(), m, m, axis=1)
    assert refusal(lambda: sa.softmax(S + M, over=m), sa.AxisError).clash == (
        "over=m names both axes"
    )
    # A bias that is finite is a matrix like any other.
    Mask = sa.matrix("Mask", m, m)
    biased = sa.softmax(S + Mask, axis=1) @ V
    equal(biased, sa.attention(Q, K, V, bias=Mask, layout="row"))

    def by_hand(q: Any, k: Any, v: Any, bias: Any) -> Any:
        scores = [[scaled(x, y) + bias[i, j] for j, y in enumerate(k)] for i, x in enumerate(q)]
        return [np.array(softmax_of(row)) @ v for row in scores]

    computes([Q, K, V, Mask], biased, by_hand, {"m": 5, "d": 6})


@wrong("F22")
def test_f22_later_positions_in_place_of_earlier_ones() -> None:
    printed_mask = added(~sa.causal())  # 0 where i < j
    assert "0 where j > i, −∞ elsewhere" in printed_mask.definition()
    masked = sa.softmax(S + printed_mask, axis=1)
    printed(masked)
    different(masked @ V, sa.attention(Q, K, V, mask=sa.causal(), layout="row"))
    # Claimed are weights on the current and earlier positions; there are none.
    later, earlier = (sa.indicator(mask, n, n, axis=1) for mask in (~sa.causal(), sa.causal()))
    equal(sa.hadamard(masked, earlier), 0 * sa.ones(n, n))
    equal(sa.hadamard(masked, later), masked)
    # The last query has no key at all: its weights do not sum to one.
    sums = masked @ sa.ones(n, 1)
    proof = different(sums, sa.ones(n, 1))
    assert proof.entry == (proof.sizes["n"] - 1, 0)
    equal(sums, sa.max(later, axis=1))
    computes(
        [Q, K, V],
        masked @ V,
        lambda q, k, v: attended_rows(q, k, v, scaled, lambda i, j: i < j),  # the last row is 0
        SIZES,
    )


def linear(slope: Any) -> Any:
    return sa.positional(lambda i, j: slope * (j - i), n, n, layout="row")


@unclear("F24")
def test_f24_a_bias_inside_of_the_scale_or_outside() -> None:
    beta, causal = sa.scalar("beta"), added(sa.causal())
    inside = sa.softmax((Q @ K.T + linear(beta)) / sa.sqrt(d_k) + causal, axis=1)
    outside = sa.softmax(S + linear(beta) + causal, axis=1)
    assert printed(inside) != printed(outside)
    different(inside, outside)
    # The distance from a query counts as the position of the key does.
    of_keys = sa.positional(lambda i, j: beta * j, n, n, layout="row")
    equal(outside, sa.softmax(S + of_keys + causal, axis=1))
    rescaled = sa.softmax(S + linear(beta / sa.sqrt(d_k)) + causal, axis=1)
    equal(inside, rescaled)
    equal(
        sa.softmax((Q @ K.T + linear(beta * sa.sqrt(d_k))) / sa.sqrt(d_k) + causal, axis=1), outside
    )

    def by_hand(q: Any, k: Any, beta: float) -> Any:
        weights = np.zeros((len(q), len(q)))
        for i in range(len(q)):
            biased = [inner(q[i], k[j]) + beta * (j - i) for j in range(i + 1)]
            weights[i, : i + 1] = softmax_of([b / math.sqrt(len(q[i])) for b in biased])
        return weights

    computes([Q, K], inside, by_hand, SIZES, beta=0.8)


# Relative positions: a vector for every query and key.

X, W_Q, W_K = sa.matrix("X", n, d), sa.matrix("W^Q", d, d_k), sa.matrix("W^K", d, d_k)
W_V = sa.matrix("W^V", d, d_v)
a_K, a_V = sa.family("a^K", (n, n), 1, d_k), sa.family("a^V", (n, n), 1, d_v)
i, j, k = (sa.index(letter, n) for letter in "ijk")


def x(at: Any) -> Any:
    return sa.head(X, at, axis=0)


def e(at: Any) -> Any:
    """The score of token i and another."""
    return x(i) @ W_Q @ (x(at) @ W_K + a_K[i, at]).T / sa.sqrt(d_k)


@built("F26")
def test_f26_keys_and_values_for_each_pair() -> None:
    alpha_ij = sa.exp(e(j)) @ sa.reciprocal(sa.sum_over(sa.exp(e(k)), k))
    Att = sa.heads(sa.sum_over(alpha_ij @ (x(j) @ W_V + a_V[i, j]), j), i, axis=0)
    assert Att.shape == (n, d_v)
    assert "a^K_{i,j}" in printed(Att)
    alpha_i = sa.softmax(sa.heads(e(j), j, axis=1), axis=1)
    rows = sa.sum_over(sa.head(alpha_i, j, axis=1) @ (x(j) @ W_V + a_V[i, j]), j)
    equal(Att, sa.heads(rows, i, axis=0))
    # Two sums for one: content by content, content by position.
    S = X @ W_Q @ (X @ W_K).T
    positions = sa.heads(sa.heads(x(i) @ W_Q @ a_K[i, j].T, j, axis=1), i, axis=0)
    scores = sa.heads(sa.heads(e(j), j, axis=1), i, axis=0)
    equal(scores, (S + positions) / sa.sqrt(d_k))
    different(scores, S / sa.sqrt(d_k))

    def by_hand(x: Any, w_q: Any, w_k: Any, w_v: Any, a_k: Any, a_v: Any) -> Any:
        out = np.zeros((len(x), w_v.shape[1]))
        for i in range(len(x)):
            keys = [x[j] @ w_k + a_k[i, j, 0] for j in range(len(x))]
            for j, weight in enumerate(softmax_of([scaled(x[i] @ w_q, key) for key in keys])):
                out[i] += weight * (x[j] @ w_v + a_v[i, j, 0])
        return out

    computes([X, W_Q, W_K, W_V, a_K, a_V], Att, by_hand, SIZES)


@wrong("F26")
def test_f26_one_weight_on_the_right_and_one_on_the_left() -> None:
    assert (x(j) @ W_K).shape == (1, d_k)
    for weight, size in ((W_V, d_v), (sa.matrix("W^V", d_v, d), d)):
        assert refusal(lambda weight=weight: weight @ x(j)).clash == (
            f"the columns of W_V are {size}, but the rows of head(X, j, axis=0) are 1"
        )


@built("F28")
def test_f28_a_window_as_a_set_and_as_a_mask() -> None:
    W = sa.window(w) & sa.causal()
    kept = sa.hadamard(sa.indicator(W, n, n, axis=1), sa.exp(S))
    alpha = sa.hadamard(kept, sa.reciprocal(kept @ sa.ones(n, 1)) @ sa.ones(1, n))
    out = sa.heads(
        sa.sum_over(sa.head(sa.head(alpha, i, axis=0), j, axis=1) @ sa.head(V, j, axis=0), j),
        i,
        axis=0,
    )
    masked = sa.softmax(S + added(W), axis=1) @ V
    assert "j ≤ i" in printed(masked)
    equal(out, masked)
    equal(masked, sa.attention(Q, K, V, mask=W, layout="row"))
    different(masked, sa.attention(Q, K, V, mask=sa.window(w), layout="row"))

    def by_hand(q: Any, k: Any, v: Any, w: int) -> Any:
        return attended_rows(q, k, v, scaled, lambda i, j: i - w < j <= i)

    computes([Q, K, V], masked, by_hand, SIZES, w=2)
    computes([Q, K, V], out, by_hand, SIZES, w=3)
