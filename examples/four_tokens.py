"""Self-attention of four tokens, line by line, with the shape of each line.

The same tokens are projected three times: to what each looks for (Q), to what it offers for
comparison (K), and to what it hands on (V).  Scores compare every query with every key, a softmax
turns each row of them into weights, and the weights mix the values.  Tokens are rows.

Run it as `python examples/four_tokens.py`.
"""

import numpy as np

import symattn as sa

TOKENS = ("The", "cat", "sat", "on")

d_model, d_k, d_v = sa.dims("d_model d_k d_v")
X = sa.matrix("X", 4, d_model)  # token embeddings
W_Q, W_K = sa.matrix("W_Q", d_model, d_k), sa.matrix("W_K", d_model, d_k)
W_V = sa.matrix("W_V", d_model, d_v)

Q, K, V = X @ W_Q, X @ W_K, X @ W_V
scores = Q @ K.T / sa.sqrt(d_k)
A = sa.softmax(scores, axis=1)  # each row sums to one
attention = sa.Program({"Q": Q, "K": K, "V": V, "scores": scores, "A": A, "output": A @ V})

shapes = sa.shapes(attention)
print(shapes)
lines = shapes.text().splitlines()
assert lines[0].endswith("(4 × d_model)(d_model × d_k) = (4 × d_k)")
assert lines[3].endswith("(4 × d_k)(d_k × 4) = (4 × 4)")
assert lines[5].endswith("(4 × 4)(4 × d_v) = (4 × d_v)")

twin = sa.prove(attention.result, sa.attention(Q, K, V))
print(f"\n{sa.text(attention.result)} is scaled dot-product attention: {twin.verdict}\n")
assert twin

random = np.random.default_rng(seed=0)
x = random.normal(size=(4, 8))
w_q, w_k, w_v = random.normal(size=(3, 8, 8)) / np.sqrt(8)  # d_k = d_v = 8
weights = sa.lambdify([X, W_Q, W_K], A)(x, w_q, w_k)
output = sa.lambdify([X, W_Q, W_K, W_V], attention)(x, w_q, w_k, w_v)

print(f"{'':<4}" + "".join(f"{token:>6}" for token in TOKENS) + "   sum")
for token, row in zip(TOKENS, weights, strict=True):
    print(f"{token:<4}" + "".join(f"{weight:6.2f}" for weight in row) + f"  {row.sum():.4f}")
print("output:", output.shape)
assert np.allclose(weights.sum(axis=-1), 1)
assert output.shape == (4, 8)

# The same as a person writes it in NumPy.
q, k, v = x @ w_q, x @ w_k, x @ w_v
exponentials = np.exp(q @ k.T / np.sqrt(8))
assert np.allclose(weights, exponentials / exponentials.sum(axis=-1, keepdims=True))
assert np.allclose(output, weights @ v)
