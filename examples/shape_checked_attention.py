"""Multi-head attention as a class in NumPy, with the shapes of every call checked.

The weights that `__init__` is given fix d_model, h and d_k; `@sa.shapecheck` on the class holds
every method to them.  Sizes are solved for: d_k is read off `h*d_k`, as h is known.  A wrong call
is told what to change, and a slip in the body is caught where it happens.

Run it as `python examples/shape_checked_attention.py`.
"""

from typing import Annotated

import numpy as np

import symattn as sa

Array = np.ndarray
Tokens = Annotated[Array, "... n d_model"]
Memory = Annotated[Array, "... m d_model"]
Heads = Annotated[Array, "... h n d_k"]
Packed = Annotated[Array, "d_model h*d_k"]


@sa.shapecheck
class MultiHeadAttention:
    """Tokens as rows, one weight for the queries, keys and values of all heads."""

    def __init__(
        self, W_Q: Packed, W_K: Packed, W_V: Packed, W_O: Annotated[Array, "h*d_k d_model"], h: int
    ) -> None:
        self.W_Q, self.W_K, self.W_V, self.W_O, self.h = W_Q, W_K, W_V, W_O, h

    def split(self, x: Annotated[Array, "... n h*d_k"]) -> Heads:
        """The features of each head."""
        return x.reshape(*x.shape[:-1], self.h, -1).swapaxes(-3, -2)

    def merge(self, heads: Heads) -> Annotated[Array, "... n h*d_k"]:
        """The features of all heads side by side."""
        tokens = heads.swapaxes(-3, -2)
        return tokens.reshape(*tokens.shape[:-2], -1)

    def __call__(self, x: Tokens, memory: Memory | None = None) -> Tokens:
        """Attention of the tokens x over those of memory, or over themselves."""
        source = x if memory is None else memory
        q = self.split(x @ self.W_Q)
        k, v = self.split(source @ self.W_K), self.split(source @ self.W_V)
        scores = sa.expect(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), "... h n keys")
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self.merge(weights @ v) @ self.W_O


class SplitByReshapeAlone(MultiHeadAttention):
    """The classic slip: no swap of axes, so that a head is made of whole tokens."""

    @sa.shapecheck
    def split(self, x: Annotated[Array, "... n h*d_k"]) -> Heads:
        return x.reshape(*x.shape[:-2], x.shape[-2], self.h, -1)


def refusal(call, *arguments, **named):
    """The message of a call that is refused."""
    try:
        call(*arguments, **named)
    except sa.ShapeCheckError as error:
        return str(error)
    raise AssertionError("this should have been refused")


random = np.random.default_rng(seed=0)
W_Q, W_K, W_V = random.normal(size=(3, 12, 6)) / np.sqrt(12)
W_O = random.normal(size=(6, 12)) / np.sqrt(6)
x, memory = random.normal(size=(2, 5, 12)), random.normal(size=(2, 7, 12))

attention = MultiHeadAttention(W_Q, W_K, W_V, W_O, h=3)
print("self-attention: ", attention(x).shape)
print("cross-attention:", attention(x, memory).shape)
assert attention(x).shape == attention(x, memory).shape == (2, 5, 12)

# The numbers are those of the formula; the check changes nothing.
formula = sa.formula("packed_multi_head", layout="row", bias=False)
square = np.hstack([W_Q, W_Q]), np.hstack([W_K, W_K]), np.hstack([W_V, W_V]), np.vstack([W_O, W_O])
ours = MultiHeadAttention(*square, h=3)(x)
theirs = sa.lambdify(formula.inputs, formula)(x, *square, h=3)
print(f"off the formula by {np.abs(ours - theirs).max():.0e}")
assert np.allclose(ours, theirs)

print("\nTokens as columns:")
print(refusal(attention, x.swapaxes(-1, -2)))
print("\nFour heads of six features:")
print(refusal(MultiHeadAttention, W_Q, W_K, W_V, W_O, h=4))
print("\nHeads split by a reshape alone:")
print(refusal(SplitByReshapeAlone(W_Q, W_K, W_V, W_O, h=3), x))
