"""The corpus: formulas that contradict their own shapes, names or signatures."""

from __future__ import annotations

from typing import Any

import pytest

import symattn as sa
from tests.corpus.by_hand import scaled
from tests.corpus.checks import computes, different, equal, printed, refusal
from tests.corpus.entries import wrong
from tests.loops import softmax_of

d, d_k, d_v, n, m, N = sa.dims("d d_k d_v n m N")


@wrong("F50")
def test_f50_a_weight_that_does_not_take_the_vector() -> None:
    x = sa.vector("x", n)
    W_q, W_k, W_v = sa.matrix("W_q", n, d), sa.matrix("W_k", d, n), sa.matrix("W_v", d, n)
    refused = refusal(lambda: W_q @ x)
    assert refused.clash == "the columns of W_q are d, but the rows of x are n"
    assert refused.fix == "W_q.T @ x"
    # Written so that it fits, the softmax is of one number: there is no attention in it.
    score = (W_q.T @ x).T @ (W_k @ x)
    assert score.shape == (1, 1)
    equal((W_v @ x).T * 1, sa.softmax(score, axis=0) @ (W_v @ x).T)
    backwards = refusal(lambda: (W_v @ x).T @ sa.softmax(score, axis=0))
    assert backwards.clash.startswith("the columns of (W_v @ x).T are d, but the rows of softmax")


@wrong("F52")
def test_f52_a_transpose_too_many() -> None:
    q, K = sa.vector("q_i", d_k), sa.matrix("K", d_k, n)
    i = sa.index("j", n)
    row = sa.heads(q.T @ sa.head(K, i, axis=1), i, axis=1)  # [q_iᵀk_1, …, q_iᵀk_n]
    equal(row, q.T @ K)
    weights = sa.softmax(row / sa.sqrt(d_k), over=n)
    printed(weights.T)
    assert weights.T.shape == (n, 1)
    a = sa.matrix("a_i", 1, n)
    refused = refusal(lambda: sa.prove(weights.T, a))
    assert refused.clash == "the rows of the left side are n, but those of the right side are 1"
    assert weights.shape == a.shape

    def by_hand(q: Any, k: Any) -> Any:
        return [softmax_of([scaled(q, key) for key in k.T])]

    computes([q, K], weights, by_hand, {"d_k": 4, "n": 5})


@wrong("F56")
@pytest.mark.parametrize(("rows", "columns"), [(d_v, m), (m, d_v)], ids=["columns", "rows"])
def test_f56_values_on_the_side_of_the_queries(rows: Any, columns: Any) -> None:
    Q, K, M = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("M", m, n)
    V = sa.matrix("V", rows, columns)
    weights = sa.hadamard(sa.silu(K.T @ Q) / N, M)
    printed(weights)
    refused = refusal(lambda: weights @ V)
    assert f"are n, but the rows of V are {rows}" in refused.clash
    # Whichever way V lies, it takes the keys' side: columns V A, rows Aᵀ V.
    assert (V @ weights if columns == m else weights.T @ V).shape == {
        d_v: (d_v, n),
        m: (n, d_v),
    }[rows]


@wrong("F56")
def test_f56_with_as_many_queries_as_keys_it_sums_over_the_queries() -> None:
    Q, K = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, n)
    M, V = sa.matrix("M", n, n), sa.matrix("V", n, d_v)
    weights = sa.hadamard(sa.silu(K.T @ Q) / N, M)
    different(weights @ V, weights.T @ V)
    i, j = sa.index("i", n), sa.index("j", n)
    # Row j of what is printed belongs to key j: it sums the values at the positions of queries.
    of_key = sa.sum_over(sa.head(sa.head(weights, j, axis=0), i, axis=1) @ sa.head(V, i, axis=0), i)
    equal(sa.heads(of_key, j, axis=0), weights @ V)


@wrong("F58")
def test_f58_a_sum_whose_index_is_never_used() -> None:
    scores = sa.matrix("S", 1, m)  # score(h_t, h_s) for every s
    s, s_prime = sa.index("s", m), sa.index("s'", m)

    def weights(read: Any) -> Any:
        """a_t(s), the denominator reading the scores at an index."""
        at = sa.exp(sa.head(scores, s, axis=1))
        total = sa.sum_over(sa.exp(sa.head(scores, read, axis=1)), s_prime)
        return sa.heads(at @ sa.reciprocal(total), s, axis=1)

    assert "Σ_{s'=1..m} exp(S^{(s)" in printed(weights(s))
    equal(weights(s_prime), sa.softmax(scores, over=m))
    different(weights(s), sa.softmax(scores, over=m))
    # The sum adds one term m times, so that every key gets the same weight.
    equal(weights(s), sa.ones(1, m) / m)


@wrong("T02")
def test_t02_an_argument_without_use_and_a_name_without_argument() -> None:
    Q, K = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k)
    V, T = sa.matrix("V", m, d_v), sa.matrix("T", m, d_v)
    body = sa.softmax(Q @ K.T, over=m) @ V
    refused = refusal(lambda: sa.lambdify([Q, K, T], body), sa.SignatureError)
    assert refused.problems == (
        "V ∈ M^{m×d_v} is in the formula, but not among the inputs",
        "T ∈ M^{m×d_v} is among the inputs, but not in the formula",
    )
    assert "softmax(Q Kᵀ) V" in str(refused)
    equal(body.xreplace({V: T}), sa.attention(Q, K, T, "dot"))
