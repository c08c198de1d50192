"""Luong's scores: one pair of vectors at a time, and as a matrix of all pairs.

Attention is V Softmax(f(Q, K)); the kinds of attention differ in the score function f.  A score is
written for one query and one key.  Where it is bilinear, all scores together are a product of
matrices; where it is not (Bahdanau's, Luong's "concat"), they stay one number for each pair.

Run it as `python examples/luong_scores.py`.
"""

import symattn as sa

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
W = sa.matrix("W", d_k, d_k)

for name in ("dot_product", "luong_general"):
    formula = sa.formula(name)
    print(f"{formula.title}\n  " + "\n  ".join(formula.signatures()))

# From a pair to all pairs: entry (j, i) of the scores is that of key j and query i.
scores = {
    "dot": (lambda q, k: k.T @ q, K.T @ Q),
    "general": (lambda q, k: k.T @ W @ q, K.T @ W @ Q),
    "scaled dot": (lambda q, k: k.T @ q / sa.sqrt(d_k), K.T @ Q / sa.sqrt(d_k)),
}
print()
for name, (of_pair, of_all) in scores.items():
    entries = sa.pairwise(of_pair, Q, K, layout="column")
    proof = sa.prove(entries, of_all)
    print(f"{name:<10} {sa.text(entries)} = {sa.text(of_all)}: {proof.verdict}")
    assert proof
    lifted = sa.attention(Q, K, V, score=of_pair)
    assert lifted == V @ sa.softmax(of_all, over=m), "a bilinear score is written with matrices"

for name in ("dot", "general"):
    _, of_all = scores[name]
    print(f"\nf(Q, K) = {sa.text(of_all)} =\n{sa.entries(of_all)}")
assert sa.entries(K.T @ W @ Q).text().startswith("[ k_1ᵀ W q_1  k_1ᵀ W q_2  ⋯  k_1ᵀ W q_n ]")

# The third score of Luong's paper is Bahdanau's, with the two weights side by side.
theorem = sa.theorem("luong_concat_is_additive")
print(f"\n{theorem}\n{theorem.prove().verdict}")
assert theorem.prove()
