"""The corpus: several heads, groups of them, and one latent vector for all keys and values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import symattn as sa
from tests.corpus.by_hand import attended_rows, scaled
from tests.corpus.checks import computes, different, equal, printed, refusal
from tests.corpus.entries import built, wrong
from tests.loops import inner, softmax_of

d, d_model, d_k, d_v, n, m, h = sa.dims("d d_model d_k d_v n m h")
i = sa.index("i", h)


def attention(Q: Any, K: Any, V: Any) -> Any:
    """Attention as Vaswani et al. define it, in row layout."""
    return sa.softmax(Q @ K.T / sa.sqrt(Q.shape[1]), axis=1) @ V


@built("F36")
def test_f36_the_difference_of_two_attentions() -> None:
    N, lam = sa.dim("N"), sa.scalar("lambda")
    X, W_V = sa.matrix("X", N, d_model), sa.matrix("W^V", d_model, 2 * d)
    Q_1, Q_2, K_1, K_2 = (sa.matrix(f"W_{k}^{x}", d_model, d) for x in "QK" for k in (1, 2))
    halves = [X @ W for W in (Q_1, Q_2, K_1, K_2)]
    first, second = (
        sa.softmax(query @ key.T / sa.sqrt(d), axis=1)
        for query, key in ((halves[0], halves[2]), (halves[1], halves[3]))
    )
    V = X @ W_V
    out = (first - lam * second) @ V
    assert out.shape == (N, 2 * d)
    assert "λ softmax" in printed(out)
    equal(out, attention(halves[0], halves[2], V) - lam * attention(halves[1], halves[3], V))
    different(out, attention(halves[0], halves[2], V))
    # [Q_1 ; Q_2] = X W^Q is horizontal here: side by side, and not one on top of the other.
    packed = sa.concat(Q_1, Q_2, axis=1)
    equal(sa.concat(*halves[:2], axis=1), X @ packed)
    stacked = refusal(lambda: sa.prove(sa.concat(*halves[:2], axis=0), X @ packed))
    assert stacked.clash.startswith("the rows of the left side are 2*N")

    def by_hand(x: Any, q_1: Any, q_2: Any, k_1: Any, k_2: Any, w_v: Any, lambda_: float) -> Any:
        packed_q, packed_k = np.hstack([q_1, q_2]), np.hstack([k_1, k_2])
        q, k, width = x @ packed_q, x @ packed_k, q_1.shape[1]
        one = attended_rows(q[:, :width], k[:, :width], x @ w_v, scaled)
        two = attended_rows(q[:, width:], k[:, width:], x @ w_v, scaled)
        return one - lambda_ * two

    inputs = [X, Q_1, Q_2, K_1, K_2, W_V]
    computes(inputs, out, by_hand, {"N": 5, "d_model": 6, "d": 3}, lambda_=0.35)


@built("F38")
def test_f38_concat_of_all_heads() -> None:
    Q, K, V = sa.matrix("Q", n, d_model), sa.matrix("K", m, d_model), sa.matrix("V", m, d_model)
    W_Q, W_K = (sa.family(f"W^{x}", h, d_model, d_k) for x in "QK")
    W_V, W_O = sa.family("W^V", h, d_model, d_v), sa.matrix("W^O", h * d_v, d_model)
    head_i = attention(Q @ W_Q[i], K @ W_K[i], V @ W_V[i])
    whole = sa.heads(head_i, i, axis=1) @ W_O
    assert "W^Q_i" in printed(whole)
    X = sa.matrix("X", n, d_model)
    alone = whole.subs({m: n}).xreplace({s.subs({m: n}): X for s in (Q, K, V)})
    equal(alone, sa.formula("multi_head_attention", layout="row").expr)
    # Concat is along the features; one head on top of the other is no operand of W^O.
    stacked = refusal(lambda: sa.heads(head_i, i, axis=0) @ W_O)
    assert "are d_v, but the rows of W_O are h*d_v" in stacked.clash
    assert not stacked.fix

    def by_hand(q: Any, k: Any, v: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any) -> Any:
        weights = zip(w_q, w_k, w_v, strict=True)
        return np.hstack([attended_rows(q @ a, k @ b, v @ c, scaled) for a, b, c in weights]) @ w_o

    sizes = {"n": 5, "m": 7, "d_model": 6, "d_k": 4, "d_v": 3, "h": 2}
    computes([Q, K, V, W_Q, W_K, W_V, W_O], whole, by_hand, sizes)


g, r = sa.dims("g r")
a, b = sa.index("a", g), sa.index("b", r)


@built("F40")
def test_f40_heads_of_a_group_share_keys_and_values() -> None:
    Q, K, V = sa.matrix("Q", n, d_model), sa.matrix("K", m, d_model), sa.matrix("V", m, d_model)
    W_Q = sa.family("W^Q", (g, r), d_model, d_k)
    W_K, W_V = sa.family("W^K", g, d_model, d_k), sa.family("W^V", g, d_model, d_v)
    head_i = attention(Q @ W_Q[a, b], K @ W_K[a], V @ W_V[a])  # head i = a·r + b, and g(i) = a
    whole = sa.heads(sa.heads(head_i, b, axis=1), a, axis=1)
    printed(whole)
    catalogue = sa.formula("grouped_query", layout="row")
    W_O = next(symbol for symbol in catalogue.inputs if symbol.label == "W^O")
    X = sa.matrix("X", n, d_model)
    alone = whole.subs({m: n}).xreplace({s.subs({m: n}): X for s in (Q, K, V)})
    equal(alone @ W_O, catalogue.expr)
    # The keys of group i mod g for those of ⌊i/r⌋: head i = b·g + a, with the queries of head i.
    packed = sa.matrix("W^Q", d_model, g * r * d_k)

    def served(outer: Any, inner: Any) -> Any:
        W_i = sa.head(sa.head(packed, outer, axis=1), inner, axis=1)
        each = attention(Q @ W_i, K @ W_K[a], V @ W_V[a])
        return sa.heads(sa.heads(each, inner, axis=1), outer, axis=1)

    equal(served(a, b), whole.xreplace({W_Q[a, b]: sa.head(sa.head(packed, a, axis=1), b, axis=1)}))
    different(served(a, b), served(b, a))

    def by_hand(q: Any, k: Any, v: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
        per_head = w_q.reshape(-1, *w_q.shape[2:])
        in_group = len(per_head) // len(w_k)
        return np.hstack(
            [
                attended_rows(q @ w, k @ w_k[i // in_group], v @ w_v[i // in_group], scaled)
                for i, w in enumerate(per_head)
            ]
        )

    sizes = {"n": 5, "m": 7, "d_model": 6, "d_k": 4, "d_v": 8, "g": 2, "r": 3}
    computes([Q, K, V, W_Q, W_K, W_V], whole, by_hand, sizes)


@wrong("F42")
def test_f42_the_number_of_groups_for_the_heads_of_a_group() -> None:
    K = sa.family("K", g, m, d_k)
    # ⌊i/g⌋ counts blocks of g heads, i = a·g + b: there are r such blocks, and g keys.
    floor = sa.index("a", r)
    refused = refusal(lambda: K[floor], sa.FamilyIndexError)
    assert refused.runs == ("a", "r", "g")
    assert "a runs over r, but the family has g members" in str(refused)
    # With as many groups as heads in each, nothing but the meaning of g is off.
    assert sa.family("K", r, m, d_k)[floor].shape == (m, d_k)


@built("F44")
def test_f44_one_latent_vector_for_the_keys_of_all_heads() -> None:
    d_c, d_h, n_h, d_R = sa.dims("d_c d_h n_h d_R")
    i, t = sa.index("i", n_h), sa.index("t", n)
    H = sa.matrix("h", d, n)
    W_DKV, W_UK = sa.matrix("W^DKV", d_c, d), sa.matrix("W^UK", d_h * n_h, d_c)
    W_KR, R = sa.matrix("W^KR", d_R, d), sa.family("R", n, d_R, d_R)
    c_KV = W_DKV @ H
    k_C = W_UK @ c_KV
    k_Ci = sa.head(k_C, i, axis=0)
    # RoPE turns the key at position t by a matrix R_t.
    k_R = sa.heads(R[t] @ W_KR @ sa.head(H, t, axis=1), t, axis=1)
    k_i = sa.concat(k_Ci, k_R, axis=0)
    assert k_i.shape == (d_h + d_R, n)
    printed(k_i)
    equal(sa.heads(k_Ci, i, axis=0), k_C)
    equal(k_Ci, sa.head(W_UK, i, axis=0) @ W_DKV @ H)
    # A score is a score of the contents plus a score of the positions …
    q_C, q_R = sa.family("q^C", n_h, d_h, n), sa.family("q^R", n_h, d_R, n)
    score = k_i.T @ sa.concat(q_C[i], q_R[i], axis=0)
    equal(score, k_Ci.T @ q_C[i] + k_R.T @ q_R[i])
    # … and the weight that leads up to the keys may be absorbed by the queries.
    absorbed = c_KV.T @ (sa.head(W_UK, i, axis=0).T @ q_C[i])
    equal(k_Ci.T @ q_C[i], absorbed)
    different(k_Ci.T @ q_C[i], c_KV.T @ (sa.head(W_UK, i, axis=0).T @ q_C[i]) / 2)

    def by_hand(h: Any, w_dkv: Any, w_uk: Any, w_kr: Any, turns: Any, n_h: int) -> Any:
        heads = (w_uk @ (w_dkv @ h)).reshape(n_h, 3, -1)
        turned = np.stack([turns[t] @ (w_kr @ h[:, t]) for t in range(h.shape[1])], axis=1)
        return np.vstack([np.vstack([head, turned]) for head in heads])

    sizes = {"n": 5, "d": 6, "d_c": 4, "d_h": 3, "n_h": 2, "d_R": 8}
    every_key = sa.heads(k_i, i, axis=0)
    computes([H, W_DKV, W_UK, W_KR, R], every_key, by_hand, sizes, n_h=2)


@built("F46")
def test_f46_a_head_of_an_array() -> None:
    seq_len = sa.dim("seq_len")
    # Q[:, h, :] of an array (seq_len, n_heads, d_k) is block h = a·r + b of its last two axes.
    Q = sa.matrix("Q", seq_len, g * r * d_k)
    K, V = (sa.matrix(name, seq_len, g * d_k) for name in "KV")
    Q_h = sa.head(sa.head(Q, a, axis=1), b, axis=1)
    scores = Q_h @ sa.head(K, a, axis=1).T / sa.sqrt(d_k)
    out_h = sa.softmax(scores, axis=1) @ sa.head(V, a, axis=1)
    whole = sa.heads(sa.heads(out_h, b, axis=1), a, axis=1)
    assert whole.shape == (seq_len, d_k * g * r)
    printed(whole)
    equal(sa.heads(sa.heads(Q_h, b, axis=1), a, axis=1), Q)
    # h mod g in place of ⌊h/r⌋: h = b·g + a, with the queries of head h and the keys of another.
    Q_tiled = sa.head(sa.head(Q, b, axis=1), a, axis=1)
    equal(sa.heads(sa.heads(Q_tiled, a, axis=1), b, axis=1), Q)
    weights = sa.softmax(Q_tiled @ sa.head(K, a, axis=1).T / sa.sqrt(d_k), axis=1)
    out_tiled = weights @ sa.head(V, a, axis=1)
    different(whole, sa.heads(sa.heads(out_tiled, a, axis=1), b, axis=1))

    def by_hand(q: Any, k: Any, v: Any, g: int) -> Any:
        q, k, v = q.reshape(5, 6, 4), k.reshape(5, g, 4), v.reshape(5, g, 4)
        out = np.zeros((5, 6, 4))
        for h in range(6):
            for s in range(5):
                scores = [inner(q[s, h], k[t, h // 3]) / math.sqrt(4) for t in range(5)]
                out[s, h] = np.array(softmax_of(scores)) @ v[:, h // 3, :]
        return out.reshape(5, 24)

    computes([Q, K, V], whole, by_hand, {"seq_len": 5, "d_k": 4, "g": 2, "r": 3}, g=2)
