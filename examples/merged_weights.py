"""Can the weights of queries and keys be merged?  A proof, and the numbers for a wrong merge.

Self-attention compares W^Q x with W^K y.  Only the product of the two weights matters: one square
matrix W^KᵀW^Q does what both do, at d×d parameters instead of 2×d_k×d.  The transposed product,
which fits just as well, does not.
"""

import symattn as sa

f = sa.formula("self_attention")
X, W_Q, W_K, W_V = f.inputs
print(f"{sa.text(f.expr)}  where X is {X.shape[0]}×{X.shape[1]}")


def merged(W):
    """Self-attention with one weight for the scores, as in Luong's general score."""
    return W_V @ X @ sa.softmax(X.T @ W @ X, axis=0)


right = sa.prove(f.expr, merged(W_K.T @ W_Q))
print(f"\n{right.text()}")
assert right

wrong = sa.prove(f.expr, merged(W_Q.T @ W_K))
print(f"\n{wrong.text()}")
assert wrong.verdict == "refuted"
