"""Write Q, K and V out, and see that softmax(QKᵀ)V is three steps, query by query.

For one query q and m candidates x_1, …, x_m attention is inner products, softmax, weighted sum.
Three changes lead to queries, keys and values: what is compared and what is summed may differ (K
and V), and n queries are asked at once, the rows of Q.  Row i of softmax(QKᵀ)V then has to be the
three steps for query i (exercise 3.4 of 「原論文から解き明かす生成AI」).

Run it as `python examples/written_out.py`.
"""

import numpy as np

import symattn as sa

f = sa.formula("dot_product", layout="row")
print(f"{sa.text(f)}, with the scores\n{sa.entries(f.scores)}")
print(f"and at one position\n{sa.per_position(f)}\n")


def three_steps(q, K, V):
    """Answer one query, which is a row."""
    products = q @ K.T
    weights = sa.softmax(products, axis=1)
    return weights @ V


# The same as formulas, proved for any number of queries and keys.  A row is a block of one row.
Q, K, V = f.inputs
i, j = sa.index("i", Q.shape[0]), sa.index("j", K.shape[0])
q_i, k_j, v_j = sa.head(Q, i, axis=0), sa.head(K, j, axis=0), sa.head(V, j, axis=0)
a_ij = sa.head(sa.softmax(q_i @ K.T, axis=1), j, axis=1)
written_out = {
    "a score": (sa.head(sa.head(Q @ K.T, i, axis=0), j, axis=1), q_i @ k_j.T),
    "a row": (sa.head(f.expr, i, axis=0), three_steps(q_i, K, V)),
    "as a sum": (three_steps(q_i, K, V), sa.sum_over(a_ij @ v_j, j)),
    "all rows": (sa.heads(three_steps(q_i, K, V), i, axis=0), f.expr),
}
for name, (left, right) in written_out.items():
    proof = sa.prove(left, right)
    print(f"{name:<8}  {sa.text(left)} = {sa.text(right)}: {proof.verdict}")
    assert proof
    assert proof.check()

# One query whose keys and values are the candidates is where attention began.
first = sa.theorem("three_steps_are_attention_with_one_query")
print(f"\n{first.title}: {first.prove().verdict}")
assert first.prove()

# With tokens as columns, step by step.
column = sa.translate(f.expr, to="column")
print(f"\n{column.text()}\n{column.proof.verdict}\n")
assert column.proof.check()

# In numbers: two queries, three keys, and loops.
random = np.random.default_rng(seed=0)
q, k, v = random.normal(size=(2, 4)), random.normal(size=(3, 4)), random.normal(size=(3, 5))
whole = sa.lambdify(f.inputs, f)(q, k, v)
for at in range(len(q)):
    products = [q[at] @ key for key in k]  # 1. inner products
    weights = np.exp(products) / np.sum(np.exp(products))  # 2. softmax
    output = sum(weight * value for weight, value in zip(weights, v, strict=True))  # 3. sum
    np.testing.assert_allclose(whole[at], output, rtol=1e-12)
    print(f"row {at + 1} of the matrix formula is the answer to query {at + 1}")
