"""Causal self-attention: a token may look at itself and at what came before it.

The mask is part of the formula, a set of pairs (query, key).  Weights above the diagonal are zero,
not small, whatever the scores there, and each row still sums to one.

Run it as `python examples/causal_weights.py`.
"""

import numpy as np

import symattn as sa

TOKENS = ("The", "cat", "sat", "on")
WEIGHTS = np.array(  # made up, to be looked at
    [
        [1.00, 0.00, 0.00, 0.00],
        [0.30, 0.70, 0.00, 0.00],
        [0.10, 0.60, 0.30, 0.00],
        [0.05, 0.20, 0.45, 0.30],
    ]
)

n = sa.dim("n")
S = sa.matrix("S", n, n)  # scores, one row a query
A = sa.softmax(S, axis=1, mask=sa.causal())  # n = m: both alignments are one
print(f"{sa.text(A)}    j the key, i the query\n")

# Scores that give these weights are their logarithms; above the diagonal they may be anything.
with np.errstate(divide="ignore"):
    logarithms = np.log(WEIGHTS)
scores = np.where(WEIGHTS > 0, logarithms, 1000.0)
weigh = sa.lambdify([S], A)
weights = weigh(scores)

print(" " * 4 + "".join(f"{token:>7}" for token in TOKENS))
for i, token in enumerate(TOKENS):
    row = [f"{weight:.2f}" if j <= i else "–" for j, weight in enumerate(weights[i])]
    print(f"{token:<4}" + "".join(f"{weight:>7}" for weight in row))
assert np.allclose(weights, WEIGHTS)
assert np.all(np.triu(weights, k=1) == 0), "zero, exactly"
assert np.allclose(weights.sum(axis=-1), 1)

# What a later token holds is not looked at, so that even NaN there is no matter.
assert np.array_equal(weigh(np.where(WEIGHTS > 0, scores, np.nan)), weights)

# The same for every n, and every score.
for name in ("causal_weights_sum_to_one", "masked_weights_are_zero_where_not_allowed"):
    theorem = sa.theorem(name)
    print(f"\n{theorem.prove().verdict}: {theorem.title}")
    assert theorem.prove()

# Setting scores to −∞ is adding a matrix of 0 and −∞, and is the same mask.
additive = sa.softmax(S + sa.additive_mask(sa.causal(), n, n, axis=1), axis=1)
print(f"\n{sa.text(additive)} = {sa.text(A)}: {sa.prove(additive, A).verdict}")
assert sa.prove(additive, A)

# A large negative number in place of −∞ is another formula.
wrong = sa.theorem("a_finite_bias_is_a_mask")
print(f"{wrong.title}: {wrong.prove().verdict}")
assert wrong.prove().verdict == "refuted"
