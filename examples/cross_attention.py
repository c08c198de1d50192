"""Cross-attention: three tokens of a decoder look at five tokens of an encoder.

Nothing changes but where the matrices come from: queries from the decoder's tokens, keys and values
from the encoder's.  The scores are no square any more: a row for each query, a column for each key.
That shapes fit is checked for all sizes, before anything runs.

Run it as `python examples/cross_attention.py`.
"""

import numpy as np

import symattn as sa

n_dec, n_enc, d_model, d_k, d_v = sa.dims("n_dec n_enc d_model d_k d_v")
dec_x, enc_out = sa.matrix("X", n_dec, d_model), sa.matrix("Y", n_enc, d_model)
W_Q, W_K = sa.matrix("W_Q", d_model, d_k), sa.matrix("W_K", d_model, d_k)
W_V = sa.matrix("W_V", d_model, d_v)

Q, K, V = dec_x @ W_Q, enc_out @ W_K, enc_out @ W_V
out = sa.attention(Q, K, V)
print(f"{sa.text(out)}\n")
for name, matrix in {"Q": Q, "K": K, "V": V, "scores": Q @ K.T, "out": out}.items():
    print(f"{name:<6} {' × '.join(map(str, matrix.shape))}")
assert (Q @ K.T).shape == (n_dec, n_enc)
assert out.shape == (n_dec, d_v)

# Keys from the one sequence with values from the other: five weights for three values.
try:
    sa.attention(Q, K, dec_x @ W_V)
except sa.ShapeError as error:
    print(f"\nRefused: {error}")
else:
    raise AssertionError("keys and values of different sequences do not fit")

random = np.random.default_rng(seed=0)
x, y = random.normal(size=(3, 8)), random.normal(size=(5, 8))
w_q, w_k, w_v = random.normal(size=(3, 8, 8)) / np.sqrt(8)
symbols = [dec_x, enc_out, W_Q, W_K, W_V]
answer = sa.lambdify(symbols, out)(x, y, w_q, w_k, w_v)
weights = sa.lambdify(symbols[:4], sa.softmax(Q @ K.T / sa.sqrt(d_k), over=n_enc))(x, y, w_q, w_k)

print("\nweights: a row for each query, a column for each key")
for row in weights:
    print("  " + "".join(f"{weight:6.2f}" for weight in row))
print("out:", answer.shape)
assert weights.shape == (3, 5)
assert answer.shape == (3, 8)
assert np.allclose(weights.sum(axis=-1), 1)
assert np.allclose(answer, weights @ (y @ w_v))

# With one source for both it is self-attention.
self_attention = sa.theorem("self_attention_is_cross_attention_with_one_source")
print(f"\n{self_attention}\n{self_attention.prove().verdict}")
assert self_attention.prove()
