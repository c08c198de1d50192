"""The corpus: one head, scores of every kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import symattn as sa
from tests.corpus.by_hand import attended_rows, scaled
from tests.corpus.checks import computes, different, equal, printed, refusal
from tests.corpus.entries import built, unclear, wrong
from tests.loops import inner, softmax_of

d, d_k, d_v, n, m = sa.dims("d d_k d_v n m")
SIZES = {"d": 6, "d_k": 4, "d_v": 3, "n": 5, "m": 7}
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)


@unclear("F01")
def test_f01_asks_for_the_axis_and_for_the_layout() -> None:
    asked = refusal(lambda: sa.softmax(Q @ K.T / sa.sqrt(d_k)), sa.AxisError)
    assert asked.clash == "the axis is missing"
    assert "axis=0" in asked.fix
    assert "axis=1" in asked.fix
    rows, columns = (sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=axis) @ V for axis in (1, 0))
    different(rows, columns)
    equal(rows, sa.attention(Q, K, V))
    computes([Q, K, V], rows, lambda q, k, v: attended_rows(q, k, v, scaled), SIZES)
    # The same glyphs, read of columns, are attention among channels.
    Q_c, K_c, V_c = (sa.matrix(name, d, n) for name in "QKV")
    channels = sa.softmax(Q_c @ K_c.T / sa.sqrt(d), axis=1) @ V_c
    different(channels, sa.attention(Q_c, K_c, V_c, layout="column"))
    either = refusal(lambda: sa.attention(Q_c, K_c, V_c))
    assert either.clash == "both layouts fit"
    assert "layout='column'" in either.fix
    assert "layout='row'" in either.fix


@built("F03")
def test_f03_a_query_and_a_key() -> None:
    q, k = sa.vector("q", d), sa.vector("k_i", d)
    a = q.T @ k / sa.sqrt(d)
    assert a.shape == (1, 1)
    printed(a)
    computes([q, k], a, lambda q, k: [[scaled(q, k)]], {"d": 6})
    queries, keys = sa.matrix("Q", d, n), sa.matrix("K", d, m)
    every = sa.pairwise(lambda q, k: q.T @ k / sa.sqrt(d), queries, keys)
    equal(every, keys.T @ queries / sa.sqrt(d))
    j = sa.index("i", m)
    one = sa.heads(q.T @ sa.head(keys, j, axis=1) / sa.sqrt(d), j, axis=0)
    equal(one, keys.T @ q / sa.sqrt(d))


@built("F05")
def test_f05_tokens_are_columns() -> None:
    D, N, D_q = sa.dims("D N D_q")
    X, beta = sa.matrix("X", D, N), sa.vector("beta_q", D_q)
    O_q, O_k, O_v = (sa.matrix(f"Omega_{x}", r, D) for x, r in (("q", D_q), ("k", D_q), ("v", D)))
    queries, keys, values = beta @ sa.ones(1, N) + O_q @ X, O_k @ X, O_v @ X
    Sa = values @ sa.softmax(keys.T @ queries / sa.sqrt(D_q), axis=0)
    printed(Sa)
    equal(Sa, sa.attention(queries, keys, values, layout="column"))
    different(Sa, values @ sa.softmax(keys.T @ queries / sa.sqrt(D_q), axis=1))

    def by_hand(x: Any, beta: Any, o_q: Any, o_k: Any, o_v: Any) -> Any:
        q, k, v = ([o @ token + b for token in x.T] for o, b in ((o_q, beta), (o_k, 0), (o_v, 0)))
        return attended_rows(q, k, np.array(v), scaled).T

    computes([X, beta, O_q, O_k, O_v], Sa, by_hand, {"D": 6, "N": 5, "D_q": 4})


@built("F08")
def test_f08_the_axis_stands_on_the_operator() -> None:
    queries, keys, values = (sa.matrix(name, n, d) for name in "QKV")
    A = sa.softmax(queries @ keys.T / sa.sqrt(d), axis=1)
    program = sa.Program(A=A, Y=A @ values)
    assert program["A"] == A
    printed(program.result)
    equal(program.result, sa.attention(queries, keys, values, layout="row"))
    inputs, sizes = [queries, keys, values], {"n": 5, "d": 6}
    computes(inputs, program, lambda q, k, v: attended_rows(q, k, v, scaled), sizes)


@wrong("F08")
def test_f08_weights_on_the_left_of_rows() -> None:
    X, W = sa.matrix("X", n, d), sa.matrix("W^K", d_k, d)
    refused = refusal(lambda: W @ X)
    assert refused.clash == "the columns of W_K are d, but the rows of X are n"
    assert refused.fix == "W_K @ X.T"
    # Where n = d nothing stands against it but numbers.
    square, weight = sa.matrix("X", d, d), sa.matrix("W^K", d, d)
    different(weight @ square, square @ weight.T)
    different(weight @ square, square @ weight)


@built("F10")
def test_f10_upper_indices_that_are_summed_over() -> None:
    S = Q @ K.T / sa.sqrt(d_k)
    program = sa.Program(S=S, A=sa.softmax(S, over=m), O=sa.softmax(S, over=m) @ V)
    printed(program.result)
    # Index by index: S^{ij} sums over a, softmax_j runs over all j, O^{ib} sums over j.
    i, j, a = sa.index("i", n), sa.index("j", m), sa.index("a", d_k)

    def at(X: Any, row: Any, column: Any) -> Any:
        return sa.head(sa.head(X, row, axis=0), column, axis=1)

    S_ij = sa.sum_over(at(Q, i, a) @ at(K, j, a), a) / sa.sqrt(d_k)
    equal(sa.heads(sa.heads(S_ij, j, axis=1), i, axis=0), S)
    A_i = sa.softmax(sa.heads(S_ij, j, axis=1), axis=1)
    summed = sa.sum_over(sa.head(A_i, j, axis=1) @ sa.head(V, j, axis=0), j)
    equal(sa.heads(summed, i, axis=0), program.result)
    different(program.result, sa.softmax(S, over=n) @ V)

    def by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = np.einsum("ia,ja->ij", q, k) / math.sqrt(q.shape[1])
        weights = [softmax_of(row) for row in scores.tolist()]
        return np.einsum("ij,jb->ib", weights, v)

    computes([Q, K, V], program, by_hand, SIZES)


@built("F13")
def test_f13_an_encoder_that_reads_both_ways() -> None:
    T_x = sa.dim("T_x")
    W_a, U_a, v_a = sa.matrix("W_a", n, n), sa.matrix("U_a", n, 2 * n), sa.vector("v_a", n)
    s, H = sa.vector("s", n), sa.matrix("H", 2 * n, T_x)
    j, k = sa.index("j", T_x), sa.index("k", T_x)

    def e(at: Any) -> Any:
        return v_a.T @ sa.tanh(W_a @ s + U_a @ sa.head(H, at, axis=1))

    alpha = sa.exp(e(j)) @ sa.reciprocal(sa.sum_over(sa.exp(e(k)), k))
    c = sa.sum_over(sa.head(H, j, axis=1) @ alpha, j)
    assert c.shape == (2 * n, 1)
    assert "Σ_{k=1..T_x}" in printed(c)
    equal(c, sa.attention(s, H, H, "additive", layout="column", W=W_a, U=U_a, v=v_a))

    def by_hand(w: Any, u: Any, v: Any, s: Any, h: Any) -> Any:
        energies = [inner(v, [math.tanh(x) for x in w @ s + u @ h_j]) for h_j in h.T]
        return (h @ softmax_of(energies))[:, None]

    computes([W_a, U_a, v_a, s, H], c, by_hand, {"n": 3, "T_x": 5})


@built("F15")
def test_f15_a_semicolon_puts_one_on_top_of_the_other() -> None:
    d_a = sa.dim("d_a")
    H, S = sa.matrix("H", d, n), sa.matrix("S", d, m)
    W_a, nu = sa.matrix("W_a", d_a, 2 * d), sa.vector("nu_a", d_a)
    score = sa.pairwise(lambda h, s: nu.T @ sa.tanh(W_a @ sa.concat(h, s, axis=0)), H, S)
    assert score.shape == (m, n)
    printed(score)
    weights = sa.attention(H, S, S, "concat", layout="column", W=W_a, v=nu)
    equal(S @ sa.softmax(score, over=m), weights)
    turned = sa.pairwise(lambda h, s: nu.T @ sa.tanh(W_a @ sa.concat(s, h, axis=0)), H, S)
    different(score, turned)
    # dot and general of the same page; general has its weight between query and key: hᵀ W s.
    equal(sa.pairwise(lambda h, s: h.T @ s, H, S), S.T @ H)
    W = sa.matrix("W_a", d, d)
    general = sa.pairwise(lambda h, s: h.T @ W @ s, H, S)
    equal(general, S.T @ W.T @ H)
    different(general, S.T @ W @ H)

    def by_hand(h: Any, s: Any, w: Any, nu: Any) -> Any:
        return [
            [inner(nu, [math.tanh(inner(row, [*query, *key])) for row in w]) for query in h.T]
            for key in s.T
        ]

    computes([H, S, W_a, nu], score, by_hand, {"d": 4, "d_a": 3, "n": 5, "m": 7})


@built("F17")
def test_f17_exponentials_over_their_sum() -> None:
    T_x = sa.dim("T_x")
    s, H = sa.matrix("s", d, n), sa.matrix("h", d, T_x)
    e = s.T @ H
    sums = sa.exp(e) @ sa.ones(T_x, 1)
    a = sa.hadamard(sa.exp(e), sa.reciprocal(sums) @ sa.ones(1, T_x))
    assert "exp(sᵀh)" in printed(a).replace(" ", "")
    equal(a, sa.softmax(e, over=T_x))
    different(a, sa.softmax(e, over=n))

    def by_hand(s: Any, h: Any) -> Any:
        return [softmax_of([inner(q, k) for k in h.T]) for q in s.T]

    computes([s, H], a, by_hand, {"d": 4, "n": 5, "T_x": 7})


@built("F30")
def test_f30_a_cap_of_many_letters() -> None:
    soft_cap, logits = sa.scalar("soft_cap", positive=True), sa.matrix("logits", n, m)
    capped = soft_cap * sa.tanh(logits / soft_cap)
    assert printed(capped) == "soft_cap tanh(logits / soft_cap)"
    different(capped, sa.tanh(logits))

    def by_hand(logits: Any, soft_cap: float) -> Any:
        return [[soft_cap * math.tanh(x / soft_cap) for x in row] for row in logits]

    computes([logits], capped, by_hand, {"n": 5, "m": 7}, soft_cap=0.7)
    c = next(scalar for scalar in sa.formula("softcap", layout="row").scalars)
    in_attention = sa.softmax(capped.xreplace({logits: Q @ K.T / sa.sqrt(d_k)}), over=m) @ V
    catalogue = sa.formula("softcap", layout="row").expr
    equal(in_attention.xreplace({soft_cap: c}), catalogue)


def unit_rows(X: Any) -> Any:
    """X with every row over its own length."""
    lengths = sa.sqrt(sa.square(X) @ sa.ones(d_k, 1))
    return sa.hadamard(X, sa.reciprocal(lengths) @ sa.ones(1, d_k))


def of_unit_length(X: Any, tokens: Any) -> Any:
    """X over the length of all its entries."""
    length = sa.sqrt(sa.ones(1, tokens) @ sa.square(X) @ sa.ones(d_k, 1))
    return sa.hadamard(X, sa.ones(tokens, 1) @ sa.reciprocal(length) @ sa.ones(1, d_k))


@built("F32")
def test_f32_every_query_and_every_key_has_length_one() -> None:
    normed = sa.softmax(unit_rows(Q) @ unit_rows(K).T / sa.sqrt(d_k), over=m) @ V
    printed(normed)
    proof = equal(normed, sa.attention(Q, K, V, "cosine", tau=sa.sqrt(d_k)))
    assert any("≠ 0" in condition for condition in proof.conditions)

    def cosine(q: Any, k: Any) -> float:
        return inner(q, k) / math.hypot(*q) / math.hypot(*k) / math.sqrt(len(q))

    computes([Q, K, V], normed, lambda q, k, v: attended_rows(q, k, v, cosine), SIZES)


@unclear("F32")
def test_f32_the_length_of_a_row_or_of_all_entries() -> None:
    rows = unit_rows(Q) @ unit_rows(K).T
    whole = of_unit_length(Q, n) @ of_unit_length(K, m).T
    different(sa.softmax(whole / sa.sqrt(d_k), over=m), sa.softmax(rows / sa.sqrt(d_k), over=m))
    equal(of_unit_length(Q, n).subs({n: 1}), unit_rows(Q).subs({n: 1}))  # of one row they agree

    def by_hand(q: Any) -> Any:
        return q / math.hypot(*q.flat)

    computes([Q], of_unit_length(Q, n), by_hand, SIZES)


@built("F32")
def test_f32_cosine_over_a_temperature_with_a_bias() -> None:
    tau, B = sa.scalar("tau", positive=True), sa.matrix("B", n, m)
    S = unit_rows(Q) @ unit_rows(K).T / tau + B
    equal(sa.softmax(S, over=m) @ V, sa.attention(Q, K, V, "cosine", tau=tau, bias=B))

    def by_hand(q: Any, k: Any, b: Any, tau: float) -> Any:
        return [
            [inner(x, y) / math.hypot(*x) / math.hypot(*y) / tau + b[i, j] for j, y in enumerate(k)]
            for i, x in enumerate(q)
        ]

    computes([Q, K, B], S, by_hand, SIZES, tau=0.3)
