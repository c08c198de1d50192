"""Multi-head attention, self and cross, against the same module written by hand in NumPy.

One weight makes the queries of all heads, and head i takes its block of features.  Code splits them
with a reshape and a swap of axes, and merges them the same way back; the formula says which entry
belongs to which head, so that the two can be compared, and a missing swap be refuted.

Run it as `python examples/multi_head.py`.
"""

import numpy as np

import symattn as sa

D_MODEL, H = 8, 2

formula = sa.formula("packed_multi_head", layout="row", bias=False)
print(f"{formula.program}\nwith {formula.relations.text()}\n")


def split(t):
    """(n, d_model) -> (h, n, d_k)"""
    return t.reshape(len(t), H, D_MODEL // H).swapaxes(0, 1)


def by_hand(x_q, x_kv, w_q, w_k, w_v, w_o):
    """Multi-head attention of tokens x_q over tokens x_kv."""
    q, k, v = split(x_q @ w_q), split(x_kv @ w_k), split(x_kv @ w_v)
    weights = np.exp(q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1]))
    heads = weights / weights.sum(axis=-1, keepdims=True) @ v  # (h, n_q, d_k), all in one go
    return heads.swapaxes(0, 1).reshape(len(x_q), -1) @ w_o  # (n_q, h * d_k), then (n_q, d_model)


random = np.random.default_rng(seed=0)
x, dec_x, enc_out = (random.normal(size=(tokens, D_MODEL)) for tokens in (4, 3, 5))
weights = random.normal(size=(4, D_MODEL, D_MODEL)) / np.sqrt(D_MODEL)

self_attention = sa.lambdify(formula.inputs, formula)
ours = self_attention(x, *weights, h=H)
print("self-attention: ", ours.shape, f"off by {np.abs(ours - by_hand(x, x, *weights)).max():.0e}")
assert ours.shape == (4, 8)
assert np.allclose(ours, by_hand(x, x, *weights))

cross = sa.formula("packed_multi_head_cross", layout="row", bias=False)
theirs = by_hand(dec_x, enc_out, *weights)
ours = sa.lambdify(cross.inputs, cross)(dec_x, enc_out, *weights, h=H)
print("cross-attention:", ours.shape, f"off by {np.abs(ours - theirs).max():.0e}")
assert ours.shape == (3, 8)
assert np.allclose(ours, theirs)

# Splitting what one weight makes is a projection for each head, for any h and any sizes.
per_head = sa.theorem("packed_multi_head_is_per_head_without_biases")
print(f"\n{per_head.prove().verdict}: {per_head.statement}")
assert per_head.prove()

# Without the swap of axes a block holds whole tokens, in place of the features of one head.
claim = sa.theorem("heads_split_by_reshape_alone")
print(f"\n{claim.prove().verdict}: {claim.statement}\n{claim.prove().proofs['row'].text()}")
assert claim.prove().verdict == "refuted"
tokens = np.arange(4 * D_MODEL).reshape(4, D_MODEL)
print("\nhead 0 of tokens 0 to 3, split: ", split(tokens)[0].tolist())
print("the same by a reshape alone:    ", tokens.reshape(H, 4, -1)[0].tolist())
assert np.array_equal(split(tokens)[0], tokens[:, : D_MODEL // H])
