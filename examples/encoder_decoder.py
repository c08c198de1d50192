"""The context vector of an encoder-decoder, with Bahdanau's score, next to plain loops.

While a decoder makes its i-th token, its last state s compares itself with the m states h_j of the
encoder, by a small network with a hidden layer: e_j = vᵀ tanh(W_a s + U_a h_j).  The softmax of
these scores are weights α_j, and the context is c = Σ_j α_j h_j.  The same function scores all
positions; there is no weight for a position.

Run it as `python examples/encoder_decoder.py`.
"""

import math

import numpy as np

import symattn as sa

formula = sa.formula("encoder_decoder_context")
print(f"{formula.title}\n{sa.per_position(formula)}\n")
s, H, W_a, U_a, v = formula.inputs
for matrix in formula.inputs:
    print(f"{sa.text(matrix):<4} {' × '.join(map(str, matrix.shape))}")
print("c   ", " × ".join(map(str, formula.expr.shape)))

# c is a sum over the states of the encoder, each as it is, weighted by one number.
j = sa.index("j", H.shape[1])
h_j, alpha_j = sa.head(H, j, axis=1), sa.head(formula.weights, j, axis=0)
as_sum = sa.sum_over(h_j @ alpha_j, j)
print(f"\nc = Σ_j h_j α_j: {sa.prove(formula.expr, as_sum).verdict}")
assert sa.prove(formula.expr, as_sum)

SOURCE = ("le", "chat", "était", "fatigué", ".")
D_S, D_H, D_A = 4, 6, 3
random = np.random.default_rng(seed=0)
state, states = random.normal(size=(D_S, 1)), random.normal(size=(D_H, len(SOURCE)))
w, u = random.normal(size=(D_A, D_S)), random.normal(size=(D_A, D_H))
alignment = random.normal(size=D_A)

given = state, states, w, u, alignment
context = sa.lambdify(formula.inputs, formula)(*given)
weights = sa.lambdify(formula.inputs, formula.weights)(*given)

# By hand: one encoder state after another.
scores = [
    sum(alignment[a] * math.tanh(w[a] @ state[:, 0] + u[a] @ states[:, j]) for a in range(D_A))
    for j in range(len(SOURCE))
]
total = sum(map(math.exp, scores))
by_hand = sum(math.exp(score) / total * states[:, j] for j, score in enumerate(scores))

print("\nweights of the source tokens")
for word, weight in zip(SOURCE, weights[:, 0], strict=True):
    print(f"  {word:<8} {weight:.2f} {'█' * round(40 * weight)}")
print("context:", context.shape)
assert context.shape == (D_H, 1)
assert np.allclose(context[:, 0], by_hand)
