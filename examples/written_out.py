"""Write Q, K and V out, and check that the matrix formula is the three steps, query by query.

For one query q and n candidates: inner products, softmax, weighted sum.  Put queries into the
rows of Q, and take keys and values of their own: row i of softmax(QKᵀ)V is the answer to query i.
"""

import numpy as np

import symattn as sa

f = sa.formula("dot_product", layout="row")
print(f"{sa.text(f)}, with the scores\n{sa.entries(f.scores)}")
print(f"and at one position\n{sa.per_position(f)}")

random = np.random.default_rng(seed=0)
q, k, v = random.normal(size=(2, 4)), random.normal(size=(3, 4)), random.normal(size=(3, 5))
whole = sa.lambdify(f.inputs, f)(q, k, v)

for i in range(len(q)):
    scores = [q[i] @ k[j] for j in range(len(k))]  # 1. inner products
    weights = np.exp(scores) / np.sum(np.exp(scores))  # 2. softmax
    output = sum(a * v[j] for j, a in enumerate(weights))  # 3. weighted sum
    np.testing.assert_allclose(whole[i], output, rtol=1e-12)
    print(f"row {i + 1} of the matrix formula is the answer to query {i + 1}")
