"""Attention in plain Python loops over lists of floats, from the entry formulas written by hand.

Nothing of symattn and no matrix product of NumPy is used; batches are looped over one by one.
The formulas are in the column layout: tokens are columns, and weights stand on the left.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Score = Callable[[int, int], float]


def over_batches(one: Callable[..., Array], *arrays: Array, axes: Sequence[int] = ()) -> Array:
    """Apply a function of matrices to every element of the broadcast batch."""
    axes = axes or [2] * len(arrays)
    batches = [a.shape[: a.ndim - k] for a, k in zip(arrays, axes, strict=True)]
    batch = np.broadcast_shapes(*batches)
    wide = [
        np.broadcast_to(a, batch + a.shape[a.ndim - k :]).astype(np.float64)
        for a, k in zip(arrays, axes, strict=True)
    ]
    results = [one(*(a[at] for a in wide)) for at in itertools.product(*map(range, batch))]
    return np.reshape(results, batch + results[0].shape)


def softmax_of(values: Sequence[float]) -> list[float]:
    """exp(s_j) / Σ_t exp(s_t), shifted so that large scores do not overflow."""
    if not values:
        return []
    largest = max(values)
    weights = [math.exp(value - largest) for value in values]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def attend(score: Score, value: Callable[[int, int], float], n: int, m: int, d_v: int) -> Array:
    """out[v, i] = Σ_j softmax_t(score(i, t))[j] value(v, j), in the column layout."""
    out = np.zeros((d_v, n))
    for i in range(n):
        weights = softmax_of([score(i, j) for j in range(m)])
        for v in range(d_v):
            out[v, i] = math.fsum(weights[j] * value(v, j) for j in range(m))
    return out


def dot(a: Array, b: Array) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def times(a: Array, b: Array) -> Array:
    """The matrix product by loops."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = dot(a[i, :], b[:, j])
    return out


def scaled_dot_product(q: Array, k: Array, v: Array) -> Array:
    """q: d_k n, k: d_k m, v: d_v m -> d_v n."""
    root = math.sqrt(q.shape[0])
    return attend(
        lambda i, j: dot(k[:, j], q[:, i]) / root,
        lambda r, j: float(v[r, j]),
        q.shape[1],
        k.shape[1],
        v.shape[0],
    )


def dot_product(q: Array, k: Array, v: Array) -> Array:
    """q: d_k n, k: d_k m, v: d_v m -> d_v n."""
    return attend(
        lambda i, j: dot(k[:, j], q[:, i]),
        lambda r, j: float(v[r, j]),
        q.shape[1],
        k.shape[1],
        v.shape[0],
    )


def luong_general(q: Array, k: Array, v: Array, w: Array) -> Array:
    """q: d_q n, k: d_k m, v: d_v m, w: d_k d_q -> d_v n; the score is k_jᵀ w q_i."""

    def score(i: int, j: int) -> float:
        return math.fsum(
            float(k[a, j]) * float(w[a, b]) * float(q[b, i])
            for a in range(w.shape[0])
            for b in range(w.shape[1])
        )

    return attend(score, lambda r, j: float(v[r, j]), q.shape[1], k.shape[1], v.shape[0])


def self_attention(x: Array, wq: Array, wk: Array, wv: Array) -> Array:
    """x: d n, wq: d_k d, wk: d_k d, wv: d_v d -> d_v n."""
    return cross_attention(x, x, wq, wk, wv)


def cross_attention(x: Array, y: Array, wq: Array, wk: Array, wv: Array) -> Array:
    """x: d_x n, y: d_y m, wq: d_k d_x, wk: d_k d_y, wv: d_v d_y -> d_v n."""
    return dot_product(times(wq, x), times(wk, y), times(wv, y))


CATALOGUE: dict[str, Callable[..., Array]] = {
    loops.__name__: loops
    for loops in (dot_product, luong_general, scaled_dot_product, self_attention, cross_attention)
}
"""The loops of every formula of the catalogue, by its name."""


def rows(column_layout: Callable[..., Array], *arrays: Array) -> Array:
    """The row layout: every matrix is the transpose of the one in the column layout."""
    return column_layout(*(a.T for a in arrays)).T
